//! Waits until a file's time tells a later write from the last one. A file system that keeps whole seconds gives two
//! writes of one second one time, and the second would be seen by nobody: so git treats what is as young as its index.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::manifest::Timestamp;
use crate::store::granularity::{COARSEST, granularity};
use crate::sys::clock;

/// How often a file is looked at again that is written to meanwhile.
pub(super) const LOOKS: u32 = 3;

/// What is waited for on the spot: less than a person notices.
const SHORT: Duration = Duration::from_millis(100);

/// How long a file that was modified at `mtime` may get that time again.
pub(super) fn unsettled(mtime: Timestamp) -> Option<Duration> {
    unsettled_at(mtime, clock::wall(), clock::tick())
}

/// Whether so long is waited for on the spot.
pub(super) fn is_short(wait: Duration) -> bool {
    wait <= SHORT
}

fn unsettled_at(mtime: Timestamp, now: SystemTime, tick: Duration) -> Option<Duration> {
    let modified = UNIX_EPOCH + Duration::new(mtime.seconds.try_into().ok()?, mtime.nanoseconds);
    let settled = modified + granularity(mtime).max(tick);
    // A clock that is ahead by more says nothing of when it was written.
    settled.duration_since(now).ok().filter(|wait| !wait.is_zero() && *wait <= 2 * COARSEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_shows_how_coarse_it_is_and_settles_once_another_one_would_be_given() {
        let tick = Duration::from_millis(4);
        let at = |seconds, nanoseconds| Timestamp { seconds, nanoseconds };
        let now = UNIX_EPOCH + Duration::from_millis(1_000_500);
        let wait = |mtime| unsettled_at(mtime, now, tick).map(|wait| wait.as_millis());
        for (mtime, expected) in [
            // Whole seconds: one of them, or two where all may be even.
            (at(999, 0), None),
            (at(1000, 0), Some(1500)),
            (at(998, 0), None),
            (at(1001, 0), Some(1500)),
            // Tenths, as far as this one tells, and billionths, which the kernel's clock does not reach.
            (at(1000, 400_000_000), None),
            (at(1000, 450_000_000), None),
            (at(1000, 500_000_000), Some(100)),
            (at(1000, 497_123_457), Some(1)),
            (at(1000, 495_123_456), None),
            // Of a clock that is wrong, and of before 1970.
            (at(1010, 0), None),
            (at(-5, 0), None),
        ] {
            assert_eq!(wait(mtime), expected, "{mtime:?}");
        }
    }
}
