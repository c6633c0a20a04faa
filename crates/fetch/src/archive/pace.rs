//! As many requests a second as a service allows, whichever thread asks.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// How long one sleep lasts at most, so that a resolver ends soon after it is told to.
const NAP: Duration = Duration::from_millis(50);

/// Hands out turns, evenly spaced: a service that counts in seconds never sees one too many.
#[derive(Debug)]
pub(crate) struct Pace {
    gap: Duration,
    next: Mutex<Instant>,
}

impl Pace {
    /// So many a second; zero is no limit.
    pub fn new(requests_a_second: f64) -> Self {
        let gap = if requests_a_second > 0.0 { 1.0 / requests_a_second } else { 0.0 };
        Self { gap: Duration::from_secs_f64(gap), next: Mutex::new(Instant::now()) }
    }

    /// Waits for a turn; `false` if `over` came true first.
    pub fn take(&self, over: &AtomicBool) -> bool {
        let turn = {
            let mut next = self.next.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let turn = (*next).max(Instant::now());
            *next = turn + self.gap;
            turn
        };
        sleep(turn.saturating_duration_since(Instant::now()), over)
    }
}

/// Sleeps; `false` if `over` came true first.
pub fn sleep(time: Duration, over: &AtomicBool) -> bool {
    let end = Instant::now() + time;
    loop {
        if over.load(Relaxed) {
            return false;
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        thread::sleep(left.min(NAP));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_never_closer_than_the_rate() {
        let (pace, start) = (Pace::new(100.0), Instant::now());
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..3).for_each(|_| assert!(pace.take(&AtomicBool::new(false)))));
            }
        });
        // Twelve turns: the first at once, then eleven gaps of 10 ms.
        assert!(start.elapsed() >= Duration::from_millis(110), "{:?}", start.elapsed());
    }

    #[test]
    fn nobody_waits_once_it_is_over() {
        let pace = Pace::new(0.001);
        assert!(pace.take(&AtomicBool::new(false)));
        assert!(!pace.take(&AtomicBool::new(true)));
    }
}
