//! Token buckets: a rate kept by sleeping, never by spinning.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use tidegate_control::BitRate;

use crate::sys::clock::Instant;
use crate::sys::sync::{Mutex, MutexGuard};
use crate::sys::thread;

/// How far a bucket may fall behind before the arrears are forgiven: long enough to bridge a
/// scheduler's hiccup, short enough that no burst is seen on an epoch's scale.
const BURST: Duration = Duration::from_millis(20);

/// How long one sleep lasts at most.
const NAP: Duration = Duration::from_millis(50);

/// What is let through at once lasts so long, so that a slow flow is an even one.
const PORTION: Duration = Duration::from_millis(20);

/// The fewest bytes that are let through at once, unless there are no more.
const LEAST_PORTION: usize = 512;

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
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// When what was let through so far has had its time.
    next: Instant,
    /// When [`Throttle::spend`] was last left.
    left: Instant,
}

impl Throttle {
    /// A bucket of `rate`; `None` for no limit.
    pub fn new(rate: Option<BitRate>) -> Option<Self> {
        let now = Instant::now();
        rate.filter(|rate| *rate > BitRate::ZERO)
            .map(|rate| Self { rate, state: Mutex::new(State { next: now, left: now }) })
    }

    /// The most bytes to be taken at once for an even flow.
    pub fn portion(&self) -> usize {
        ((self.rate.bytes_per_second() * PORTION.as_secs_f64()) as usize).max(LEAST_PORTION)
    }

    /// Waits until `bytes` may pass, or `over` comes true. Safe to share: callers queue up one behind
    /// the other.
    pub fn take(&self, bytes: usize, over: &AtomicBool) {
        wait_until(self.turn(bytes).start, over);
    }

    /// What one worker does from now on begins now: it did not save up time while it had nothing to do.
    fn resume(&self) {
        let mut state = self.state();
        let idle = Instant::now().saturating_duration_since(state.left);
        state.next += idle;
    }

    /// Waits until `bytes`, which one worker has just moved, have had their time, or `over` comes true.
    fn spend(&self, bytes: usize, over: &AtomicBool) {
        wait_until(self.turn(bytes).end, over);
        self.state().left = Instant::now();
    }

    /// From when to when `bytes` pass.
    fn turn(&self, bytes: usize) -> Range<Instant> {
        let mut state = self.state();
        let now = Instant::now();
        let start = state.next.max(now.checked_sub(BURST).unwrap_or(now));
        state.next = start + Duration::from_secs_f64(bytes as f64 / self.rate.bytes_per_second());
        start..state.next
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

/// In naps, so that a transfer with a low rate ends when it is told to.
fn wait_until(end: Instant, over: &AtomicBool) {
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() || over.load(Relaxed) {
            return;
        }
        thread::sleep(left.min(NAP));
    }
}

/// Moves `length` bytes with `pass`, in portions that wait for their turn at the throttle that is `shared` and take the
/// time that the worker's `own` leaves them, or at once where there are none.
///
/// A worker with a rate is busy for all that its bytes take at it, as one that is slow by itself. Did it wait for a turn
/// first, it would do at once what comes after a pause and seem to wait for others nearly always.
pub fn in_portions<E>(
    own: Option<&Throttle>,
    shared: Option<&Throttle>,
    length: usize,
    over: &AtomicBool,
    mut pass: impl FnMut(Range<usize>) -> Result<(), E>,
) -> Result<(), E> {
    let portion = own.into_iter().chain(shared).map(Throttle::portion).min().unwrap_or(usize::MAX);
    if let Some(own) = own {
        own.resume();
    }
    let mut at = 0usize;
    loop {
        let end = length.min(at.saturating_add(portion));
        if let Some(shared) = shared {
            shared.take(end - at, over);
        }
        pass(at..end)?;
        if let Some(own) = own {
            own.spend(end - at, over);
        }
        at = end;
        if at == length {
            return Ok(());
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
    fn a_slow_flow_is_an_even_one() {
        let _clock = manual::stop();
        let over = AtomicBool::new(false);
        let (slow, quick) = (Throttle::new(Some(BitRate(50_000))), Throttle::new(Some(BitRate::mbps(8))));
        let flow = |own: Option<&Throttle>, shared: Option<&Throttle>, length| {
            let (start, mut at, mut portions) = (Instant::now(), 0, Vec::new());
            let passed = in_portions(own, shared, length, &over, |range| {
                assert_eq!(range.start, at, "one behind the other");
                at = range.end;
                portions.push((range.len(), start.elapsed()));
                if portions.len() < 200 { Ok(()) } else { Err(()) }
            });
            (portions, at, passed)
        };
        // A block at 50 kbit/s takes 21 s, and never more than 82 ms pass without any of it.
        let (portions, passed, _) = flow(slow.as_ref(), quick.as_ref(), 100_000);
        assert_eq!(passed, 100_000);
        assert!(portions.is_sorted_by_key(|(_, at)| *at));
        assert!(portions.windows(2).all(|pair| pair[1].1 - pair[0].1 < Duration::from_millis(100)));
        assert_eq!(flow(None, quick.as_ref(), 100_000).0.len(), 5, "20 ms each");
        assert_eq!(flow(None, None, 100_000).0.len(), 1);
        assert_eq!(flow(quick.as_ref(), None, 0).0.len(), 1, "what is empty is moved too");
        assert_eq!(flow(slow.as_ref(), None, 200_000).2, Err(()), "what fails ends it");
    }

    #[test]
    fn a_worker_is_busy_as_long_as_what_it_moves_takes_at_its_rate_whenever_that_comes() {
        let clock = manual::stop();
        let (own, over) = (Throttle::new(Some(BitRate::mbps(80))).expect("a limit"), AtomicBool::new(false));
        let block = |length| {
            let start = Instant::now();
            in_portions(Some(&own), None, length, &over, |_| Ok::<(), ()>(())).expect("nothing fails");
            start.elapsed()
        };
        for idle_ms in [0, 3, 25, 3_600_000] {
            clock.advance(Duration::from_millis(idle_ms));
            assert_eq!(block(230_000), Duration::from_millis(23), "after {idle_ms} ms without work");
        }
        // Who is held up amid its work makes up for it, as long as that is no longer than a burst.
        let (start, mut held) = (Instant::now(), false);
        in_portions(Some(&own), None, 1_000_000, &over, |_| {
            clock.advance(Duration::from_millis(if held { 0 } else { 15 }));
            held = true;
            Ok::<(), ()>(())
        })
        .expect("nothing fails");
        assert_eq!(start.elapsed(), Duration::from_millis(100));
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
