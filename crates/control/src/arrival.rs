//! What has arrived, how fast it comes and how long the rest takes: one definition for the view on a terminal, the
//! service, its page and its metrics.
//!
//! What counts is content that is at its destination, written to the end or not. What each stage moves in an epoch
//! says how a path behaves and not how far a transfer is: files are read, and written, by fits and starts.

use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::units::{BitRate, ByteCount};

/// What a rate looks back on.
pub const WINDOW: Duration = Duration::from_secs(10);

/// Samples closer to each other than this are thinned out, so that few are kept of a view that looks often.
const APART: Duration = Duration::from_millis(90);

/// How much of a transfer has arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Arrival {
    /// Content that is at the destination: what was there before, and what has come, committed or not.
    pub bytes: ByteCount,
    /// What of it has come since the command began, each byte once; rates are of this.
    pub new_bytes: ByteCount,
    /// What will be at the destination in the end, once everything has been listed.
    pub total_bytes: Option<ByteCount>,
}

impl Arrival {
    /// How long the rest takes at `rate`; `None` if nobody knows.
    pub fn time_left(&self, rate: BitRate) -> Option<Duration> {
        let left = self.total_bytes?.saturating_sub(self.bytes);
        if left.0 == 0 {
            return Some(Duration::ZERO);
        }
        Duration::try_from_secs_f64(left.bits() / rate.0 as f64).ok()
    }
}

/// The rate of what arrives, over the last [`WINDOW`].
#[derive(Clone, Debug)]
pub struct Meter {
    /// Times since the beginning, and what had come by then; never empty.
    seen: VecDeque<(Duration, u64)>,
}

impl Default for Meter {
    fn default() -> Self {
        Self { seen: VecDeque::from([(Duration::ZERO, 0)]) }
    }
}

impl Meter {
    /// By `at`, counted from the beginning, so many new bytes had come. What is found damaged is taken back and comes
    /// again: it counts once.
    pub fn hear(&mut self, at: Duration, new_bytes: ByteCount) {
        let (last, most) = self.seen.back().copied().unwrap_or_default();
        let bytes = most.max(new_bytes.0);
        if self.seen.iter().nth_back(1).is_some_and(|before| last < before.0 + APART) {
            self.seen.pop_back();
        }
        self.seen.push_back((at.max(last), bytes));
        while self.seen.get(1).is_some_and(|next| at.saturating_sub(next.0) >= WINDOW) {
            self.seen.pop_front();
        }
    }

    /// The rate as of `at`. While nothing more is heard it falls, to zero in the end.
    pub fn rate(&self, at: Duration) -> BitRate {
        let early = self.seen.iter().rev().find(|seen| at.saturating_sub(seen.0) >= WINDOW);
        let first = early.or(self.seen.front()).copied().unwrap_or_default();
        let last = self.seen.back().copied().unwrap_or_default();
        BitRate::over(ByteCount(last.1 - first.1), at.max(last.0).saturating_sub(first.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(tenths: u32) -> Duration {
        Duration::from_millis(100) * tenths
    }

    #[test]
    fn the_rate_looks_back_ten_seconds() {
        let mut meter = Meter::default();
        for tenth in 0..300 {
            meter.hear(at(tenth), ByteCount(u64::from(tenth.min(150)) * 12_500));
            let rate = meter.rate(at(tenth));
            match tenth {
                1..=150 => assert_eq!(rate, BitRate::mbps(1), "{tenth}"),
                250.. => assert_eq!(rate, BitRate::ZERO, "{tenth}"),
                200 => assert_eq!(rate, BitRate(500_000), "{tenth}"),
                _ => {}
            }
            assert!(meter.seen.len() <= 102, "{}", meter.seen.len());
        }
    }

    #[test]
    fn bursts_do_not_show() {
        let mut meter = Meter::default();
        // A file comes every other second.
        for second in 1..=60 {
            meter.hear(Duration::from_secs(second), ByteCount(second / 2 * 15_000_000));
            let mbps = meter.rate(Duration::from_secs(second)).as_mbps();
            assert!(second < 4 || (45.0..=75.0).contains(&mbps), "{second}: {mbps}");
        }
    }

    #[test]
    fn a_meter_that_hears_nothing_falls_to_zero() {
        let mut meter = Meter::default();
        meter.hear(Duration::from_secs(1), ByteCount(1_000_000));
        assert_eq!(meter.rate(Duration::from_secs(1)), BitRate::mbps(8));
        assert_eq!(meter.rate(Duration::from_secs(4)), BitRate::mbps(2));
        assert_eq!(meter.rate(Duration::from_secs(11)), BitRate::ZERO);
        assert_eq!(Meter::default().rate(Duration::ZERO), BitRate::ZERO);
    }

    #[test]
    fn what_comes_again_counts_once_and_time_does_not_run_back() {
        let mut meter = Meter::default();
        for (second, bytes) in [(1, 1_000_000), (2, 500_000), (1, 700_000), (2, 2_000_000)] {
            meter.hear(Duration::from_secs(second), ByteCount(bytes));
        }
        assert_eq!(meter.rate(Duration::from_secs(2)), BitRate::mbps(8));
        assert_eq!(meter.rate(Duration::ZERO), BitRate::mbps(8));
    }

    #[test]
    fn the_time_left_is_known_when_total_and_rate_are() {
        let some = |bytes, total: Option<u64>| Arrival {
            bytes: ByteCount(bytes),
            total_bytes: total.map(ByteCount),
            ..Arrival::default()
        };
        let rate = BitRate::mbps(8);
        assert_eq!(some(1, None).time_left(rate), None);
        assert_eq!(some(1_000_000, Some(5_000_000)).time_left(rate), Some(Duration::from_secs(4)));
        assert_eq!(some(1, Some(5)).time_left(BitRate::ZERO), None);
        assert_eq!(some(5, Some(5)).time_left(BitRate::ZERO), Some(Duration::ZERO));
        assert_eq!(some(0, Some(u64::MAX)).time_left(BitRate(1)), None);
    }
}
