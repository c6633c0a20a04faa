//! How long workers wait, or run, summed over them. The clock is read only when that begins or ends, and when it is asked.

use std::time::Duration;

use crate::sys::clock::Instant;

/// The time that workers have spent on one thing: on one side of a queue, waiting.
#[derive(Debug)]
pub struct WorkerTime {
    now: u32,
    /// More of them do not count: a smaller set-point has made them superfluous.
    allowed: u32,
    since: Instant,
    total: Duration,
    all: Duration,
}

impl Default for WorkerTime {
    fn default() -> Self {
        Self { now: 0, allowed: u32::MAX, since: Instant::now(), total: Duration::ZERO, all: Duration::ZERO }
    }
}

impl WorkerTime {
    /// One more does it from now on.
    pub fn begin(&mut self) {
        self.settle();
        self.now += 1;
    }

    /// One of them has done it long enough.
    pub fn end(&mut self) {
        self.settle();
        self.now -= 1;
    }

    /// Whether anybody does.
    pub fn is_any(&self) -> bool {
        self.now > 0
    }

    /// No more than `workers` count from now on.
    pub fn allow(&mut self, workers: u16) {
        self.settle();
        self.allowed = workers.into();
    }

    /// What as many as are allowed have spent on it so far.
    pub fn total(&self) -> Duration {
        self.until(Instant::now()).0
    }

    /// What all have, those too that are superfluous.
    pub(crate) fn of_all(&self) -> Duration {
        self.until(Instant::now()).1
    }

    fn settle(&mut self) {
        let now = Instant::now();
        (self.total, self.all) = self.until(now);
        self.since = now;
    }

    fn until(&self, now: Instant) -> (Duration, Duration) {
        let passed = now.saturating_duration_since(self.since);
        (self.total + passed * self.now.min(self.allowed), self.all + passed * self.now)
    }
}

/// The share of `interval` for which each of `workers` waited, in the mean, if all together waited from one to the other.
pub fn share_waited(interval: Duration, (before, after): (Duration, Duration), workers: u16) -> Option<f64> {
    let all = interval.as_secs_f64() * f64::from(workers.max(1));
    (all > 0.0).then(|| (after.saturating_sub(before).as_secs_f64() / all).clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::clock::manual;

    #[test]
    fn every_worker_that_waits_counts_but_no_more_than_are_allowed() {
        let clock = manual::stop();
        let second = Duration::from_secs(1);
        let mut waits = WorkerTime::default();
        clock.advance(second);
        assert_eq!(waits.total(), Duration::ZERO, "nobody waits");
        waits.begin();
        clock.advance(second);
        waits.begin();
        clock.advance(second);
        assert_eq!(waits.total(), 3 * second, "it counts before it ends");
        waits.allow(1);
        clock.advance(second);
        assert_eq!(waits.total(), 4 * second, "one is superfluous");
        assert_eq!(waits.of_all(), 5 * second, "it waits all the same");
        waits.end();
        waits.end();
        clock.advance(second);
        assert!(!waits.is_any());
        assert_eq!(waits.total(), 4 * second);
        assert_eq!(share_waited(2 * second, (second, 4 * second), 3), Some(0.5));
        assert_eq!(share_waited(Duration::ZERO, (second, second), 3), None);
    }
}
