//! Log lines about what an unauthenticated peer can bring about as often as it likes: one a second, with a count.

use std::time::Duration;

use crate::sys::clock::Instant;
use crate::sys::sync::Mutex;

/// Least time between two lines of a kind.
const EVERY: Duration = Duration::from_secs(1);

/// One kind of event.
#[derive(Debug, Default)]
pub(crate) struct LogLimiter(Mutex<(Option<Instant>, u64)>);

impl LogLimiter {
    /// One more at `now`: how often it happened since the last line, if a line is due.
    pub fn count(&self, now: Instant) -> Option<u64> {
        let mut state = self.0.lock();
        state.1 += 1;
        if state.0.is_some_and(|last| now.saturating_duration_since(last) < EVERY) {
            return None;
        }
        state.0 = Some(now);
        Some(std::mem::take(&mut state.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_events_are_one_line() {
        let (log_limiter, now) = (LogLimiter::default(), Instant::now());
        assert_eq!(log_limiter.count(now), Some(1));
        let lines = (0..1000).filter_map(|i| log_limiter.count(now + i * EVERY / 2000)).count();
        assert_eq!(lines, 0);
        assert_eq!(log_limiter.count(now + EVERY), Some(1001));
    }
}
