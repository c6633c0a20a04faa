//! A rate from transfers of growing amounts, where a program tells of a transfer no more than the time it took: what a
//! larger one has beyond a smaller one came after the start of both. How long a start is, in which next to nothing moves, is
//! learned by the first sample of a path, which is one of few streams: those of more have less far to go.

use std::time::Duration;

use tidegate_control::throughput_model::settled::rises;
use tidegate_control::{BitRate, ByteCount};

use tidegate_spec::estimate::SAMPLE_SIZE;

/// The first amount is carried in seconds even by a path of 1 Mbit/s; the next one is what the path would have carried, but
/// not more than so many times the one before.
pub(crate) const FIRST: ByteCount = ByteCount::mib(2);
pub(crate) const GROWTH: f64 = 32.0;
/// A transfer that takes less of the time that was asked for says too little.
pub(crate) const GOOD_PART: f64 = 0.4;
/// While the rate rises, each amount is so many times the last one.
const STEP: f64 = 3.0;

/// What one sample taught about the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Learned {
    streams: u16,
    /// By so much a transfer is later than it would be at its rate from the first byte on.
    lost: Duration,
    rate: BitRate,
}

/// One transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Moved {
    bytes: ByteCount,
    time: Duration,
}

impl Moved {
    /// At what rate it moved what it has beyond `smaller`.
    fn beyond(self, smaller: Self) -> BitRate {
        let bytes = ByteCount(self.bytes.0.saturating_sub(smaller.bytes.0));
        BitRate::over(bytes, self.time.saturating_sub(smaller.time))
    }
}

/// The amounts of one sample.
#[derive(Debug)]
pub(super) struct Growing {
    streams: u16,
    length: Duration,
    learned: Option<Learned>,
    moved: Vec<Moved>,
}

impl Growing {
    /// A sample of about `length`.
    pub fn new(streams: u16, length: Duration, learned: Option<Learned>) -> Self {
        Self { streams, length, learned, moved: Vec::new() }
    }

    /// What is to be moved next; `None` once enough is known, or if it would take longer than `left`.
    pub fn next(&self, left: Duration) -> Option<ByteCount> {
        let Some(last) = self.moved.last() else {
            let first = self.learned.map_or(FIRST, |Learned { streams, rate, .. }| {
                let more = f64::from(self.streams) / f64::from(streams.max(1));
                carried(BitRate::from_bps(rate.0 as f64 * more), self.told())
            });
            return Some(within(first));
        };
        if self.counted().is_some() {
            return None;
        }
        let growth = match self.learned {
            None if last.time >= self.shortest() => STEP,
            _ => (self.shortest().as_secs_f64() / last.time.as_secs_f64().max(1e-6)).clamp(1.1, GROWTH),
        };
        let more = within(ByteCount((last.bytes.0 as f64 * growth) as u64));
        let expected = last.time.mul_f64(more.0 as f64 / last.bytes.0.max(1) as f64);
        (expected <= left && more > last.bytes).then_some(more)
    }

    /// `bytes` took `time`.
    pub fn record(&mut self, bytes: ByteCount, time: Duration) {
        self.moved.push(Moved { bytes, time });
    }

    /// The rate, over how long, and whether it was still rising; `None` if nothing was moved.
    pub fn rate(&self) -> Option<(BitRate, Duration, bool)> {
        let told = |(from, to): (Moved, Moved)| (to.beyond(from), to.time.saturating_sub(from.time));
        if let Some((rate, time)) = self.counted().map(told) {
            return Some((rate, time, false));
        }
        let last = *self.moved.last()?;
        // What came last is nearest to what it would have got to.
        let before = self.long_enough().rev().nth(1).filter(|before| last.beyond(*before) > BitRate::ZERO);
        let (rate, time) = told((before.unwrap_or_default(), last));
        Some((rate, time, true))
    }

    /// What the next sample should know.
    pub fn learned(&self) -> Option<Learned> {
        let (from, to) = self.counted()?;
        let rate = to.beyond(from);
        let carrying =
            Duration::try_from_secs_f64(to.bytes.bits() / rate.0.max(1) as f64).unwrap_or_default();
        let lost = self.learned.map_or(to.time.saturating_sub(carrying), |learned| learned.lost);
        Some(Learned { streams: self.streams, lost, rate })
    }

    /// How long a rate is to be seen once the start is known: as long as that, as it is never quite the same.
    fn told(&self) -> Duration {
        self.length.max(self.learned.map_or(Duration::ZERO, |learned| learned.lost))
    }

    fn shortest(&self) -> Duration {
        match self.learned {
            Some(Learned { lost, .. }) => lost + self.told().mul_f64(GOOD_PART),
            None => self.length.div_f64(STEP),
        }
    }

    fn long_enough(&self) -> impl DoubleEndedIterator<Item = Moved> {
        self.moved.iter().copied().filter(|moved| moved.time >= self.shortest())
    }

    /// The two transfers between which the rate is found; of one of a known start, that start and itself.
    fn counted(&self) -> Option<(Moved, Moved)> {
        if let Some(Learned { lost, .. }) = self.learned {
            let start = Moved { bytes: ByteCount(0), time: lost };
            return self.long_enough().next().map(|only| (start, only));
        }
        let there: Vec<Moved> = std::iter::once(Moved::default()).chain(self.long_enough()).collect();
        let settled = |three: &&[Moved]| !rises(three[1].beyond(three[0]), three[2].beyond(three[1]));
        there.windows(3).find(settled).map(|three| (three[0], three[2]))
    }
}

/// What `rate` carries in `time`.
fn carried(rate: BitRate, time: Duration) -> ByteCount {
    ByteCount((rate.bytes_per_second() * time.as_secs_f64()) as u64)
}

/// What a sample may have.
fn within(bytes: ByteCount) -> ByteCount {
    let (least, most) = SAMPLE_SIZE.ends();
    bytes.clamp(*least, *most)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const LEFT: Duration = Duration::from_secs(24);

    /// How long `bytes` take `streams` of 100 Mbit/s that begin with 14.6 kB a round trip and double it in each.
    fn takes(bytes: ByteCount, streams: u16, round_trip: Duration) -> Duration {
        let full = 12.5e6 * round_trip.as_secs_f64();
        let (mut left, mut window, mut time) = (bytes.0 as f64 / f64::from(streams), 14_600.0, 0.0);
        while left > 0.0 {
            let moved = left.min(full.min(window));
            time += round_trip.as_secs_f64() * moved / full.min(window);
            (left, window) = (left - moved, window * 2.0);
        }
        Duration::from_secs_f64(time)
    }

    /// One sample, and how long its transfers took in all.
    fn sample(streams: u16, round_trip_ms: u64, learned: Option<Learned>) -> (Growing, Duration) {
        let mut growing = Growing::new(streams, SECOND, learned);
        let mut spent = Duration::ZERO;
        while let Some(bytes) = growing.next(LEFT.saturating_sub(spent)) {
            let time = takes(bytes, streams, Duration::from_millis(round_trip_ms));
            spent += time;
            growing.record(bytes, time);
        }
        (growing, spent)
    }

    #[test]
    fn slow_start_is_left_out_near_and_far() {
        for (round_trip_ms, first, next) in [(1, 2, 2), (20, 6, 2), (100, 14, 4), (200, 16, 6)] {
            let (one, spent) = sample(1, round_trip_ms, None);
            let (rate, _, rising) = one.rate().expect("a rate");
            assert!(!rising && (rate.as_mbps() - 100.0).abs() < 5.0, "{round_trip_ms} ms: {rate}");
            assert!(spent <= Duration::from_secs(first), "{round_trip_ms} ms: {spent:?}");
            let (two, spent) = sample(2, round_trip_ms, one.learned());
            let (rate, _, rising) = two.rate().expect("a rate");
            assert!(!rising && (rate.as_mbps() - 200.0).abs() < 10.0, "{round_trip_ms} ms: {rate}");
            assert!(spent <= Duration::from_secs(next), "{round_trip_ms} ms: {spent:?}");
        }
    }

    #[test]
    fn what_has_no_time_left_says_that_it_rose() {
        let mut growing = Growing::new(1, SECOND, None);
        growing.record(ByteCount::mib(2), SECOND);
        growing.record(ByteCount::mib(6), SECOND * 2);
        assert_eq!(growing.next(SECOND), None);
        let (rate, time, rising) = growing.rate().expect("a rate");
        assert_eq!((rate, time, rising), (BitRate::over(ByteCount::mib(4), SECOND), SECOND, true));
        assert_eq!(growing.learned(), None);
        assert_eq!(Growing::new(1, SECOND, None).rate(), None);
    }

    #[test]
    fn a_start_that_lasts_longer_than_it_did_costs_a_share_and_no_more() {
        let learned = Learned { streams: 2, lost: SECOND, rate: BitRate::mbps(200) };
        let mut growing = Growing::new(4, SECOND, Some(learned));
        let bytes = growing.next(LEFT).expect("an amount");
        // A second at 400 Mbit/s; its start took half a second more.
        growing.record(bytes, SECOND.mul_f64(2.5));
        assert_eq!((bytes, growing.next(LEFT)), (ByteCount(50_000_000), None));
        let (rate, time, rising) = growing.rate().expect("a rate");
        assert!(
            (rate.as_mbps() - 400.0 / 1.5).abs() < 0.1 && time == SECOND.mul_f64(1.5) && !rising,
            "{rate}"
        );
        // One that is over before it should have begun is taken again with more.
        let mut growing = Growing::new(4, SECOND, Some(learned));
        growing.record(bytes, SECOND.mul_f64(0.9));
        assert!(growing.next(LEFT) > Some(bytes) && growing.learned().is_none(), "{growing:?}");
    }

    #[test]
    fn amounts_stay_within_bounds() {
        let huge = Learned { streams: 1, lost: SECOND, rate: BitRate(u64::MAX) };
        assert_eq!(Growing::new(512, SECOND, Some(huge)).next(LEFT), Some(*SAMPLE_SIZE.ends().1));
        let mut growing = Growing::new(1, SECOND, None);
        growing.record(*SAMPLE_SIZE.ends().1, Duration::ZERO);
        assert_eq!(growing.next(LEFT), None, "there is no more");
    }
}
