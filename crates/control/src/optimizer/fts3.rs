//! The rules by which FTS3 (CERN's File Transfer Service, release 3.14) sets the connections between two storages.
//!
//! Once an interval, in this order:
//! 1. nothing was decided yet: half-way between the fewest and the most;
//! 2. the fewest are the most: that many;
//! 3. no throughput so far: hold;
//! 4. the queue is shorter than what was decided last: hold;
//! 5. the average of throughput fell: a step up if files became smaller by an order of magnitude, one down if
//!    the average fell by one, else hold;
//! 6. it rose *or stayed*: a step up;
//! 7. never beyond the range, and no growth beyond the queue.
//!
//! An interval with the same average is passed over until five have gone by. The published weaknesses are
//! kept: one step a minute, the average moves by a tenth of each sample and begins at zero, so that it rises,
//! and the number with it, long after a link is full; "the same" adds more; a fall of less than an order of
//! magnitude is none.
//!
//! Left out is what a transfer has no counterpart of: the throughput caps of storages, which are an
//! operator's to set ([`Bounds`] are ours); the success rate, which counts whole transfers that failed and
//! were queued again, while here a block is sent again within its file and an observation tells of no failed
//! file, so that it would always be the 100 % FTS3 takes for none failed; and the streams a file, since
//! our streams serve whatever file is next. A file is what a connection takes there; here it is a piece, as
//! large as a worker is given by default.

use std::time::Duration;

use crate::observation::Remaining;
use crate::optimizer::{StageOptimizer, StageProposal, StageSample};
use crate::stage::Bounds;
use crate::units::ByteCount;

/// The rule's constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fts3Config {
    /// Time between two decisions; 60 s (`OptimizerInterval`).
    pub interval: Duration,
    /// Steps of two up, and growth up to 16 times the queue, as in FTS3's modes 2 and 3. Off: its mode 1.
    pub aggressive: bool,
}

impl Default for Fts3Config {
    fn default() -> Self {
        Self { interval: Duration::from_secs(60), aggressive: false }
    }
}

/// The fewest and the most connections where nobody configured them (published).
const RANGE: (u16, u16) = (2, 60);
/// Weight of the newest sample in the average (published).
const ALPHA: f64 = 0.1;
/// Intervals without a change of the average until one is acted upon: 300 s of 60 (published).
const STEADY: u32 = 5;
/// Growth in aggressive mode ends at this many times the queue: the streams a file may have there (published).
const MAX_STREAMS: u64 = 16;
/// What a worker is given at a time by default.
const PIECE: ByteCount = ByteCount::mib(64);

/// The rule between two epochs.
#[derive(Clone, Debug)]
pub struct Fts3 {
    config: Fts3Config,
    window: Window,
    /// When a decision was last made, passed over ones not counted.
    decided: Duration,
    /// The moving average of throughput, in bytes/s.
    average: f64,
    /// Mean size of the files last seen to be done, in bytes.
    file_size: Option<f64>,
}

/// What was seen since the last look.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    begun: Duration,
    seconds: f64,
    bytes: f64,
    /// What was left to move in its first epoch.
    first: Option<Remaining>,
}

impl Window {
    fn add(&mut self, seen: &StageSample) {
        let seconds = seen.interval.as_secs_f64();
        self.seconds += seconds;
        self.bytes += seen.throughput.0 as f64 / 8.0 * seconds;
        self.first = self.first.or(seen.remaining);
    }

    /// Bytes a second; 0 if nothing was measured.
    fn throughput(&self) -> f64 {
        if self.seconds > 0.0 { self.bytes / self.seconds } else { 0.0 }
    }

    /// Mean size of the files done between its first epoch and `now`.
    fn file_size(&self, now: Option<Remaining>) -> Option<f64> {
        let (first, now) = (self.first?, now?);
        let files = first.files.saturating_sub(now.files);
        let bytes = first.bytes.saturating_sub(now.bytes);
        (files > 0 && bytes.0 > 0).then(|| bytes.0 as f64 / files as f64)
    }
}

/// The order of magnitude of `value`, as FTS3 rounds it.
fn magnitude(value: f64) -> f64 {
    value.log10().round()
}

impl Fts3 {
    /// A rule that has decided nothing.
    pub fn new(config: Fts3Config) -> Self {
        Self { config, window: Window::default(), decided: Duration::ZERO, average: 0.0, file_size: None }
    }

    fn range(bounds: Bounds) -> Bounds {
        Bounds { min: bounds.clamp(RANGE.0), max: bounds.clamp(RANGE.1) }
    }

    /// Pieces that wait for a worker while `n` are being moved; without end if the list is not known.
    fn queue(remaining: Option<Remaining>, n: u16) -> u64 {
        remaining.map_or(u64::MAX, |Remaining { bytes, files }| {
            files.max(bytes.0.div_ceil(PIECE.0)).saturating_sub(n.into())
        })
    }

    /// Rules 3 to 7, after `n` were decided last and the average became `average`.
    fn decide(&self, n: u16, average: f64, file_size: Option<f64>, queue: u64, range: Bounds) -> u16 {
        let up = if self.config.aggressive { 2 } else { 1 };
        let smaller =
            file_size.zip(self.file_size).is_some_and(|(now, before)| magnitude(now) < magnitude(before));
        let step = if average == 0.0 || queue < n.into() {
            0
        } else if average < self.average && !smaller {
            if magnitude(average) < magnitude(self.average) { -1 } else { 0 }
        } else {
            up
        };
        let next = range.clamp_f64(f64::from(n) + f64::from(step));
        let enough = if self.config.aggressive { queue.saturating_mul(MAX_STREAMS) } else { queue };
        if next > n && u64::from(next) > enough { n } else { next }
    }

    /// The number for the next epoch, which is the same until an interval has passed.
    fn next(&mut self, seen: &StageSample, bounds: Bounds) -> u16 {
        self.window.add(seen);
        let passed = seen.at.saturating_sub(self.window.begun);
        // The epoch that ends nearest to the interval's end.
        if passed.saturating_add(seen.interval / 2) < self.config.interval {
            return bounds.clamp(seen.n);
        }
        let window = std::mem::replace(&mut self.window, Window { begun: seen.at, ..Window::default() });
        self.window.first = seen.remaining;
        let sample = window.throughput();
        let average = if sample > 0.0 { ALPHA * sample + (1.0 - ALPHA) * self.average } else { self.average };
        let range = Self::range(bounds);
        if range.is_fixed() {
            (self.average, self.decided) = (average, seen.at);
            return range.min;
        }
        let since = seen.at.saturating_sub(self.decided).saturating_add(seen.interval / 2);
        if average == self.average && since < self.config.interval * STEADY {
            return bounds.clamp(seen.n);
        }
        let file_size = window.file_size(seen.remaining).or(self.file_size);
        let next = self.decide(seen.n, average, file_size, Self::queue(seen.remaining, seen.n), range);
        (self.average, self.file_size, self.decided) = (average, file_size, seen.at);
        next
    }
}

impl StageOptimizer for Fts3 {
    fn start(&mut self, bounds: Bounds) -> u16 {
        let range = Self::range(bounds);
        range.min.midpoint(range.max)
    }

    fn propose(&mut self, seen: &StageSample, bounds: Bounds) -> StageProposal {
        let n = self.next(seen, bounds);
        // Bytes a second, as FTS counts, in Mbit/s.
        StageProposal::new(n, self.average * 8.0 / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::BitRate;

    const MINUTE: Duration = Duration::from_secs(60);
    const BOUNDS: Bounds = Bounds { min: 1, max: 100 };

    /// A minute's epoch that ends after `minutes`.
    fn minute(minutes: u32, n: u16, mbps: u64, remaining: Option<(u64, u64)>) -> StageSample {
        StageSample {
            at: MINUTE * minutes,
            interval: MINUTE,
            n,
            throughput: BitRate::mbps(mbps),
            loss: 0.0,
            rtt: None,
            output: None,
            remaining: remaining.map(|(files, mib)| Remaining { files, bytes: ByteCount::mib(mib) }),
        }
    }

    /// The numbers decided on a path where n workers move `mbps(n)`, from the start on.
    fn trace(config: Fts3Config, bounds: Bounds, minutes: u32, mbps: impl Fn(u32, u16) -> u64) -> Vec<u16> {
        let mut rule = Fts3::new(config);
        let mut n = rule.start(bounds);
        (1..=minutes)
            .map(|at| {
                let ran = n;
                n = rule.propose(&minute(at, n, mbps(at, n), None), bounds).n;
                ran
            })
            .collect()
    }

    #[test]
    fn rule_1_begins_half_way() {
        let start = |min, max| Fts3::new(Fts3Config::default()).start(Bounds::new(min, max));
        assert_eq!([start(1, 100), start(2, 60), start(1, 32), start(20, 30)], [31, 31, 17, 25]);
        // Bounds that lie outside its range win.
        assert_eq!([start(80, 90), start(1, 1)], [80, 1]);
    }

    #[test]
    fn rule_2_does_not_move_what_is_fixed() {
        assert_eq!(trace(Fts3Config::default(), Bounds::new(1, 2), 4, |_, n| u64::from(n) * 100), [2; 4]);
    }

    #[test]
    fn rule_3_holds_while_nothing_moves() {
        assert_eq!(trace(Fts3Config::default(), BOUNDS, 12, |_, _| 0), [31; 12]);
    }

    #[test]
    fn rule_4_holds_while_the_queue_empties() {
        let after = |files, mib| {
            let mut rule = Fts3::new(Fts3Config::default());
            rule.propose(&minute(1, 10, 100, Some((files, mib))), BOUNDS).n
        };
        // Ten are on their way: of 21 files eleven wait, of 19 nine.
        assert_eq!([after(21, 21), after(19, 19)], [11, 10]);
        // A large file is as many pieces as workers can take: 21 of 64 MiB.
        assert_eq!([after(1, 21 * 64), after(1, 19 * 64)], [11, 10]);
    }

    #[test]
    fn rule_5_takes_a_fall_for_one_only_beyond_an_order_of_magnitude() {
        // 12.5 MB/s lift the average from zero to 1.25, 2.375, 3.39 and 4.30 MB/s. Next to nothing then takes
        // a tenth off each minute: 3.87 and 3.48 are small falls, 3.13 is below 10^6.5, the rest small again.
        let mut rule = Fts3::new(Fts3Config::default());
        let mut n = 10;
        let mut seen = Vec::new();
        for at in 1..=9 {
            let throughput = if at <= 4 { BitRate::mbps(100) } else { BitRate(6_400) };
            n = rule.propose(&StageSample { throughput, ..minute(at, n, 0, None) }, BOUNDS).n;
            seen.push(n);
        }
        assert_eq!(seen, [11, 12, 13, 14, 14, 14, 13, 13, 13]);
    }

    #[test]
    fn rule_5_blames_smaller_files_before_workers() {
        let mut rule = Fts3::new(Fts3Config::default());
        let mut decide =
            |at, n, mbps, files, mib| rule.propose(&minute(at, n, mbps, Some((files, mib))), BOUNDS).n;
        assert_eq!(decide(1, 10, 800, 100_000, 900_000), 11);
        // 100 files of 1000 MiB, and a rise.
        assert_eq!(decide(2, 11, 800, 99_900, 800_000), 12);
        // As large ones, and a small fall: hold.
        assert_eq!(decide(3, 12, 80, 99_800, 700_000), 12);
        // 10,000 of 1 MiB: a step up though throughput fell again.
        assert_eq!(decide(4, 12, 80, 89_800, 690_000), 13);
        // Still so small, which is no longer smaller.
        assert_eq!(decide(5, 13, 80, 79_800, 680_000), 13);
    }

    #[test]
    fn rule_6_adds_on_a_full_link_while_the_average_still_rises() {
        // A link that 10 of 100 Mbit/s fill: 31 are too many, and each minute brings one more.
        let full = |_, n: u16| (u64::from(n) * 100).min(1000);
        let seen = trace(Fts3Config::default(), BOUNDS, 30, full);
        assert_eq!(seen, (31..=60).collect::<Vec<u16>>());
        let config = Fts3Config { aggressive: true, ..Fts3Config::default() };
        assert_eq!(trace(config, BOUNDS, 6, full), [31, 33, 35, 37, 39, 41]);
    }

    #[test]
    fn rule_6_adds_where_the_average_stays_once_five_intervals_went_by() {
        // A minute without throughput leaves the average as it is, and is no new decision.
        let seen = trace(Fts3Config::default(), BOUNDS, 13, |at, _| if at == 1 { 100 } else { 0 });
        assert_eq!(seen, [31, 32, 32, 32, 32, 32, 33, 33, 33, 33, 33, 34, 34]);
    }

    #[test]
    fn rule_7_keeps_to_the_range_and_to_the_queue() {
        assert_eq!(
            trace(Fts3Config::default(), Bounds::new(1, 32), 20, |_, _| 100)[14..],
            [31, 32, 32, 32, 32, 32]
        );
        let after = |n, files, aggressive| {
            let mut rule = Fts3::new(Fts3Config { aggressive, ..Fts3Config::default() });
            rule.propose(&minute(1, n, 100, Some((files, 1))), BOUNDS).n
        };
        // Ten are on their way, and ten wait: an eleventh finds nothing to do, unless it may have 16 streams.
        assert_eq!([after(10, 20, false), after(10, 20, true)], [10, 12]);
        assert_eq!([after(10, 21, false), after(58, 500, true), after(59, 500, true)], [11, 60, 60]);
    }

    #[test]
    fn it_decides_once_an_interval_whatever_the_epochs() {
        let run = |config: Fts3Config, seconds: u32| {
            let mut rule = Fts3::new(config);
            let mut n = rule.start(BOUNDS);
            for second in 1..=seconds {
                let epoch = StageSample {
                    at: Duration::from_secs(second.into()),
                    interval: Duration::from_millis(900),
                    ..minute(0, n, 500, None)
                };
                n = rule.propose(&epoch, BOUNDS).n;
            }
            n
        };
        assert_eq!(
            [run(Fts3Config::default(), 59), run(Fts3Config::default(), 60), run(Fts3Config::default(), 299)],
            [31, 32, 35]
        );
        let five = Fts3Config { interval: Duration::from_secs(5), aggressive: false };
        assert_eq!([run(five, 4), run(five, 5), run(five, 30)], [31, 32, 37]);
        assert_eq!(run(Fts3Config { aggressive: true, ..five }, 30), 43);
    }
}
