//! How finely a file system tells times apart: nobody says, but each of its times shows it.

use std::time::Duration;

use crate::manifest::Timestamp;
use crate::sys::fs::Stat;

/// The coarsest there is: FAT keeps even seconds.
pub(super) const COARSEST: Duration = Duration::from_secs(2);

/// How finely the file system that keeps `time` tells moments apart, at worst: as finely as the time itself is told.
pub(super) fn granularity(time: Timestamp) -> Duration {
    match time.nanoseconds {
        0 if time.seconds % 2 == 0 => COARSEST,
        0 => COARSEST / 2,
        nanoseconds => {
            let unit = (0..9).map(|power| 10u32.pow(power)).take_while(|unit| nanoseconds % unit == 0).last();
            Duration::from_nanos(unit.unwrap_or(1).into())
        }
    }
}

/// When the file of `stat` was modified: at `wanted` if its time is what the file system keeps of that one.
pub(super) fn modified_as(stat: &Stat, wanted: Timestamp) -> Timestamp {
    let at = |seconds: i64, nanoseconds: u64| Timestamp { seconds, nanoseconds: nanoseconds as u32 };
    let (modified, changed) = (at(stat.st_mtime, stat.st_mtime_nsec), at(stat.st_ctime, stat.st_ctime_nsec));
    // Nobody sets the time of a change, so it tells a coarse clock from a round number.
    let unit = granularity(modified).min(granularity(changed));
    if cut(wanted, unit) == modified { wanted } else { modified }
}

/// `time`, as it is kept in whole units.
fn cut(time: Timestamp, unit: Duration) -> Timestamp {
    let Timestamp { seconds, nanoseconds } = time;
    match (unit.as_secs() as i64, unit.subsec_nanos()) {
        (0, unit) => Timestamp { seconds, nanoseconds: nanoseconds - nanoseconds % unit.max(1) },
        (whole, _) => Timestamp { seconds: seconds - seconds.rem_euclid(whole), nanoseconds: 0 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_cut_as_file_systems_cut_it() {
        let at = |seconds, nanoseconds| Timestamp { seconds, nanoseconds };
        for (time, unit, kept) in [
            (at(7, 123_456_789), Duration::from_nanos(1), at(7, 123_456_789)),
            (at(7, 123_456_789), Duration::from_nanos(100), at(7, 123_456_700)),
            (at(7, 123_456_789), Duration::from_millis(10), at(7, 120_000_000)),
            (at(7, 123_456_789), Duration::from_secs(1), at(7, 0)),
            (at(7, 123_456_789), COARSEST, at(6, 0)),
            (at(-7, 5), COARSEST, at(-8, 0)),
        ] {
            assert_eq!(cut(time, unit), kept, "{time:?} in units of {unit:?}");
            assert!(kept.nanoseconds == 0 || granularity(kept) >= unit);
        }
    }
}
