//! A rate from transfers of growing amounts, where a program tells of a transfer no more than the time it took: what a
//! larger one has beyond a smaller one came after the start of both.

use std::time::Duration;

use tidegate_control::throughput_model::settled::rises;
use tidegate_control::{BitRate, ByteCount};

use crate::sampler::SIZES;

/// The first amount is carried in seconds even by a path of 1 Mbit/s; the next one is what the path would have carried, but
/// not more than so many times the one before.
pub(crate) const FIRST: ByteCount = ByteCount::mib(2);
pub(crate) const GROWTH: f64 = 32.0;
/// A transfer that takes less of the time that was asked for says too little.
pub(crate) const GOOD_PART: f64 = 0.4;
/// While the rate rises, each amount is so many times the last one.
const STEP: u64 = 3;

/// What one sample taught about the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Learned {
    streams: u16,
    /// What was moved before the streams were up to speed; none where that was too little to be seen.
    start: ByteCount,
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
            let first = match self.learned {
                None => FIRST,
                Some(Learned { start, rate, .. }) if start.0 == 0 => carried(rate, self.length),
                Some(Learned { streams, start, .. }) => {
                    ByteCount(start.0.saturating_mul(self.streams.into()) / u64::from(streams.max(1)))
                }
            };
            return Some(within(first));
        };
        if self.counted().is_some() {
            return None;
        }
        let more = match self.learned {
            _ if last.time < self.shortest() => {
                let growth = self.shortest().as_secs_f64() / last.time.as_secs_f64().max(1e-6);
                ByteCount((last.bytes.0 as f64 * growth.clamp(1.1, GROWTH)) as u64)
            }
            Some(Learned { rate, .. }) => last.bytes + carried(rate, self.length),
            None => ByteCount(last.bytes.0.saturating_mul(STEP)),
        };
        let more = within(more);
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
        if let Some(counted) = self.counted() {
            let (rate, time) = told(counted);
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
        Some(Learned { streams: self.streams, start: from.bytes, rate: to.beyond(from) })
    }

    fn shortest(&self) -> Duration {
        match self.learned {
            Some(Learned { start, .. }) if start.0 > 0 => Duration::ZERO,
            Some(_) => self.length.mul_f64(GOOD_PART),
            None => self.length / STEP as u32,
        }
    }

    fn long_enough(&self) -> impl DoubleEndedIterator<Item = Moved> {
        self.moved.iter().copied().filter(|moved| moved.time >= self.shortest())
    }

    /// The two transfers between which the rate is found.
    fn counted(&self) -> Option<(Moved, Moved)> {
        let there: Vec<Moved> = std::iter::once(Moved::default()).chain(self.long_enough()).collect();
        match self.learned {
            Some(Learned { start, .. }) if start.0 == 0 => there.get(1).map(|only| (there[0], *only)),
            Some(_) => there.get(2).map(|second| (there[1], *second)),
            None => there
                .windows(3)
                .find(|three| !rises(three[1].beyond(three[0]), three[2].beyond(three[1])))
                .map(|three| (three[0], three[2])),
        }
    }
}

/// What `rate` carries in `time`.
fn carried(rate: BitRate, time: Duration) -> ByteCount {
    ByteCount((rate.bytes_per_second() * time.as_secs_f64()) as u64)
}

/// What a sample may have.
fn within(bytes: ByteCount) -> ByteCount {
    bytes.clamp(*SIZES.start(), *SIZES.end())
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
        for (round_trip_ms, first, next) in [(1, 2, 3), (20, 6, 6), (100, 14, 6), (200, 16, 8)] {
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
    fn amounts_stay_within_bounds() {
        let huge = Learned { streams: 1, start: ByteCount(u64::MAX), rate: BitRate(u64::MAX) };
        assert_eq!(Growing::new(512, SECOND, Some(huge)).next(LEFT), Some(*SIZES.end()));
        let mut growing = Growing::new(1, SECOND, None);
        growing.record(*SIZES.end(), Duration::ZERO);
        assert_eq!(growing.next(LEFT), None, "there is no more");
    }
}
