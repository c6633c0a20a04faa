//! How long somebody who does not answer is waited for: briefly where nobody ever answered, for a name or a port may
//! be wrong, and as long as asked for where somebody did, for a host that goes away mostly comes back.

use std::time::Duration;

use crate::sys::clock::Instant;

/// How long who never answered is waited for at most.
const NEVER_REACHED: Duration = Duration::from_secs(30);

/// First and longest pause before a lost connection is made again.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// How often people are told that the wait goes on.
const TELLING: Duration = Duration::from_secs(60);

/// How long a host is waited for of which there is no such name: a resolver has bad moments, too.
pub const NO_SUCH_NAME: Duration = Duration::from_secs(3);

/// Failures in a row of reaching somebody.
#[derive(Clone, Debug, Default)]
pub struct Outage {
    known: bool,
    since: Option<Instant>,
    failures: u32,
    told: Option<Instant>,
}

/// How long to wait after so many failures in a row, of which the last leaves so much time.
pub fn pause(failures: u32, left: Duration) -> Duration {
    FIRST_PAUSE.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(LONGEST_PAUSE).min(left)
}

/// What follows from a failure that may pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Another try.
    Again {
        /// Failures in a row.
        failures: u32,
        /// How long to go on at most; no pause need be longer.
        left: Duration,
        /// Whether people are to hear of it: the first time, and then once a minute.
        tell: bool,
    },
    /// It has lasted so long.
    GiveUp(Duration),
}

impl Outage {
    /// Somebody answered: the outage is over, and the next one may last longer.
    pub fn is_over(&mut self) {
        *self = Self { known: true, ..Self::default() };
    }

    /// Somebody is there, although there was no answer.
    pub fn is_known(&mut self) {
        self.known = true;
    }

    /// Whether somebody has ever been there.
    pub const fn has_known(&self) -> bool {
        self.known
    }

    /// Nobody answered at `now`, whom to wait for up to `retry_for` from the first such time on.
    pub fn failed(&mut self, now: impl Into<Instant>, retry_for: Duration) -> Next {
        let now = now.into();
        let since = *self.since.get_or_insert(now);
        self.failures = self.failures.saturating_add(1);
        let most = if self.known { retry_for } else { retry_for.min(NEVER_REACHED) };
        let lasted = now.saturating_duration_since(since);
        if lasted >= most {
            return Next::GiveUp(lasted);
        }
        let tell = self.told.is_none_or(|told| now.saturating_duration_since(told) >= TELLING);
        if tell {
            self.told = Some(now);
        }
        Next::Again { failures: self.failures, left: most - lasted, tell }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn tries(
        outage: &mut Outage,
        start: Instant,
        retry_for: Duration,
        every: Duration,
    ) -> (u32, Duration, u32) {
        let (mut now, mut told) = (start, 0);
        for n in 1.. {
            match outage.failed(now, retry_for) {
                Next::Again { failures, left, tell } => {
                    assert_eq!(failures, n);
                    told += u32::from(tell);
                    now += every.min(left);
                }
                Next::GiveUp(lasted) => return (n, lasted, told),
            }
        }
        unreachable!("numbers do not end")
    }

    #[test]
    fn a_stranger_is_given_up_soon_and_somebody_known_late() {
        let (mut outage, now) = (Outage::default(), Instant::now());
        let second = Duration::from_secs(1);
        assert_eq!(tries(&mut outage.clone(), now, HOUR, second), (31, NEVER_REACHED, 1));
        outage.is_over();
        assert_eq!(tries(&mut outage.clone(), now, HOUR, second), (3601, HOUR, 60));
        // Pauses longer than what is left are cut, and the last try is at the end.
        assert_eq!(tries(&mut outage, now, HOUR, 7 * HOUR), (2, HOUR, 1));
    }

    #[test]
    fn an_answer_begins_the_wait_anew() {
        let (mut outage, now) = (Outage::default(), Instant::now());
        assert!(matches!(outage.failed(now, HOUR), Next::Again { failures: 1, tell: true, .. }));
        outage.is_over();
        assert_eq!(outage.failed(now + 9 * HOUR, HOUR), Next::Again { failures: 1, left: HOUR, tell: true });
    }

    #[test]
    fn pauses_grow_to_half_a_minute_and_end_when_the_wait_does() {
        let seconds = [1, 2, 3, 6, 7, 8, u32::MAX].map(|failures| pause(failures, HOUR).as_secs_f64());
        assert_eq!(seconds, [0.5, 1.0, 2.0, 16.0, 30.0, 30.0, 30.0]);
        assert_eq!(pause(9, Duration::from_secs(3)), Duration::from_secs(3));
    }

    #[test]
    fn no_time_is_one_try() {
        assert_eq!(Outage::default().failed(Instant::now(), Duration::ZERO), Next::GiveUp(Duration::ZERO));
    }
}
