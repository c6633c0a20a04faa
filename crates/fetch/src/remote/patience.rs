//! How long a listing waits for a server that does not answer, or asks to come again: as long as people bear it where the
//! server has answered before, and for a few tries where it never has.

use std::thread;
use std::time::{Duration, Instant};

use tidegate_contract::outage_line;
use tidegate_control::units::duration_in_words;
use tidegate_transfer::error::{Error, ErrorKind, Retry};
use tidegate_transfer::outage::{self, Next, Outage};
use tidegate_transfer::transfer::Interrupt;

use super::{Refusal, Why};

/// How often is asked where nobody ever answered, or answers break off.
const TRIES: u32 = 5;
/// The first wait before the next try of those; then twice as long, and so on.
const WAIT: Duration = Duration::from_millis(200);
/// The longest wait that a server may ask for.
const MAX_ASKED: Duration = Duration::from_secs(60);
/// How often who waits looks whether it is over.
const GLANCE: Duration = Duration::from_millis(20);

/// What is borne of the servers of one listing.
#[derive(Clone, Debug)]
pub struct Patience {
    retry_for: Duration,
    interrupt: Interrupt,
    outage: Outage,
}

impl Default for Patience {
    fn default() -> Self {
        Self::new(Duration::from_secs(600), Interrupt::default())
    }
}

impl Patience {
    /// A server that has answered is waited for as long as `retry_for`.
    pub fn new(retry_for: Duration, interrupt: Interrupt) -> Self {
        Self { retry_for, interrupt, outage: Outage::default() }
    }

    /// Asks until there is an answer, or none is to be hoped for.
    pub(crate) fn ask<T>(&mut self, mut once: impl FnMut() -> Result<T, Refusal>) -> Result<T, Refusal> {
        let (mut wait, began) = (WAIT, Instant::now());
        let mut tried = 0;
        loop {
            tried += 1;
            let refusal = match once() {
                Ok(answer) => {
                    self.outage.is_over();
                    return Ok(answer);
                }
                Err(refusal) => refusal,
            };
            if refusal.why.retry() == Retry::Never {
                return Err(refusal);
            }
            tracing::debug!("{}", refusal.error);
            let pause = match refusal.why == Why::Broken || !self.outage.has_known() {
                true if tried >= TRIES || began.elapsed() >= self.retry_for => return Err(refusal),
                true => refusal.retry_after.unwrap_or(wait),
                false => self.outlast(&refusal)?,
            };
            wait *= 2;
            self.rest(pause.min(MAX_ASKED))?;
        }
    }

    /// The pause before the next try of who has answered before.
    fn outlast(&mut self, refusal: &Refusal) -> Result<Duration, Refusal> {
        match self.outage.failed(Instant::now(), self.retry_for) {
            Next::GiveUp(time) if time.is_zero() => Err(refusal.clone()),
            Next::GiveUp(time) => {
                let why = format!("{} (given up after {})", refusal.error.message, duration_in_words(time));
                Err(Refusal { error: refusal.error.clone().in_words(why), ..refusal.clone() })
            }
            Next::Again { failures, left, tell } => {
                // Being put off for a moment is nothing to tell of.
                if tell && (failures > 1 || refusal.why == Why::Unreachable) {
                    let is_away = refusal.why == Why::Unreachable;
                    let left = duration_in_words(left);
                    tracing::warn!("{}", outage_line::write(&refusal.error.to_string(), is_away, &left));
                }
                Ok(refusal.retry_after.unwrap_or_else(|| outage::pause(failures, left)).min(left))
            }
        }
    }

    fn rest(&self, time: Duration) -> Result<(), Refusal> {
        let until = Instant::now() + time;
        loop {
            if self.interrupt.is_raised() {
                return Err(Refusal::of(Why::Senseless, Error::new(ErrorKind::Interrupted, "stopped")));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            thread::sleep(left.min(GLANCE));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(why: Why) -> Refusal {
        Refusal::of(why, Error::new(ErrorKind::Connection, "h is away"))
    }

    /// How often one that answers first, if it is `known`, and then never again is asked after that.
    fn asked(known: bool, why: Why, retry_for: Duration) -> (u32, String) {
        let mut patience = Patience::new(retry_for, Interrupt::default());
        if known {
            patience.ask(|| Ok(())).expect("an answer");
        }
        let mut asked = 0;
        let refused = patience.ask(|| -> Result<(), Refusal> {
            asked += 1;
            let after = (asked < 20).then_some(Duration::ZERO);
            Err(Refusal { retry_after: after, ..refusal(why) })
        });
        (asked, refused.expect_err("it never answers").error.message)
    }

    #[test]
    fn who_has_answered_is_waited_for_as_long_as_is_borne_and_others_for_a_few_tries() {
        let second = Duration::from_secs(1);
        assert_eq!(asked(true, Why::Missing, second).0, 1, "that does not pass");
        assert_eq!(asked(false, Why::Unreachable, 600 * second).0, TRIES);
        assert_eq!(asked(true, Why::Broken, 600 * second).0, TRIES);
        for why in [Why::Unreachable, Why::Busy] {
            assert_eq!(asked(true, why, Duration::ZERO).0, 1, "nothing is waited for");
            let (times, words) = asked(true, why, second);
            assert!(times > TRIES && words.contains("given up after 1 s"), "{times} times: {words}");
        }
    }

    #[test]
    fn an_interrupt_ends_the_waiting() {
        let interrupt = Interrupt::default();
        interrupt.raise();
        let mut patience = Patience::new(Duration::from_secs(600), interrupt);
        let refused = patience.ask(|| Err::<(), _>(refusal(Why::Unreachable))).expect_err("stopped");
        assert_eq!(refused.error.kind, ErrorKind::Interrupted);
    }
}
