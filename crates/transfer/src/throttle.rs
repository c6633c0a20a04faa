//! Token buckets: a rate kept by sleeping, never by spinning.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use tidegate_control::BitRate;

use crate::sys::clock::Instant;
use crate::sys::sync::Mutex;
use crate::sys::thread;

/// How far a bucket may fall behind before the arrears are forgiven: long enough to bridge a
/// scheduler's hiccup, short enough that no burst is seen on an epoch's scale.
const BURST: Duration = Duration::from_millis(20);

/// How long one sleep lasts at most.
const NAP: Duration = Duration::from_millis(50);

/// Lets bytes through at no more than a given rate.
///
/// ```
/// use std::sync::atomic::AtomicBool;
/// use tidegate_control::BitRate;
/// use tidegate_transfer::throttle::Throttle;
///
/// let throttle = Throttle::new(Some(BitRate::mbps(8))).expect("a rate");
/// throttle.take(20_000, &AtomicBool::new(false)); // the first is free
/// throttle.take(20_000, &AtomicBool::new(false)); // 20 ms later
/// assert!(Throttle::new(None).is_none(), "no limit");
/// ```
#[derive(Debug)]
pub struct Throttle {
    rate: BitRate,
    next: Mutex<Instant>,
}

impl Throttle {
    /// A bucket of `rate`; `None` for no limit.
    pub fn new(rate: Option<BitRate>) -> Option<Self> {
        rate.filter(|rate| *rate > BitRate::ZERO).map(|rate| Self { rate, next: Mutex::new(Instant::now()) })
    }

    /// Waits until `bytes` may pass, or `over` comes true. Safe to share: callers queue up one behind
    /// the other.
    pub fn take(&self, bytes: usize, over: &AtomicBool) {
        let turn = {
            let mut next = self.next.lock().expect("not poisoned");
            let now = Instant::now();
            let turn = (*next).max(now.checked_sub(BURST).unwrap_or(now));
            *next = turn + Duration::from_secs_f64(bytes as f64 / self.rate.bytes_per_second());
            turn
        };
        // In naps, so that a transfer with a low rate ends when it is told to.
        loop {
            let left = turn.saturating_duration_since(Instant::now());
            if left.is_zero() || over.load(Relaxed) {
                return;
            }
            thread::sleep(left.min(NAP));
        }
    }
}

/// Rates to keep: per worker of each stage, and in total on the link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Limits {
    /// Each reader.
    pub read: Option<BitRate>,
    /// Each network stream.
    pub network: Option<BitRate>,
    /// Each writer.
    pub write: Option<BitRate>,
    /// All streams together.
    pub link: Option<BitRate>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::clock::manual;

    #[test]
    fn no_rate_means_no_bucket() {
        assert!(Throttle::new(None).is_none());
        assert!(Throttle::new(Some(BitRate::ZERO)).is_none());
    }

    #[test]
    fn a_bucket_never_lets_more_through_than_its_rate_and_one_burst() {
        let throttle = Throttle::new(Some(BitRate::mbps(80))).expect("a limit");
        let start = Instant::now();
        for _ in 0..10 {
            throttle.take(100_000, &AtomicBool::new(false));
        }
        // Ten takes of 10 ms each; the first is free, and up to one burst of arrears is forgiven.
        assert!(start.elapsed() + BURST >= Duration::from_millis(90), "{:?}", start.elapsed());
    }

    #[test]
    fn a_bucket_keeps_its_rate_to_the_nanosecond() {
        let clock = manual::stop();
        let throttle = Throttle::new(Some(BitRate::mbps(80))).expect("a limit");
        let over = AtomicBool::new(false);
        let start = Instant::now();
        for _ in 0..10 {
            throttle.take(100_000, &over);
        }
        // 10 ms each, and the first is free.
        assert_eq!(start.elapsed(), Duration::from_millis(90));
        // Of an hour's arrears one burst is left: two that are free, and then one every 10 ms again.
        clock.advance(Duration::from_secs(3600));
        let start = Instant::now();
        for _ in 0..5 {
            throttle.take(100_000, &over);
        }
        assert_eq!(start.elapsed(), Duration::from_millis(40) - BURST);
        // Who is told that it is over waits no more.
        throttle.take(100_000_000, &over);
        throttle.take(1, &AtomicBool::new(true));
        assert!(start.elapsed() < Duration::from_secs(1));
    }
}
