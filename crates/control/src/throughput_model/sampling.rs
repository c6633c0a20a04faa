//! Which n to measure next: double it until a stream more brings too little (EOS, algorithm 2).
//!
//! n = 1, 2, 4, … and at last the most there may be, so that an optimum costs log₂ of itself in samples. A
//! pure state machine: whoever measures asks [`Doubling::next`] and hands in what it saw.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::throughput_model::Sample;
use crate::units::{BitRate, UnitError, parse_share};

/// What a stream must add for doubling to go on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Threshold {
    /// This share of what one stream moved in the first sample.
    Relative(f64),
    /// So much, as the paper has it.
    #[serde(rename = "absolute_bps")]
    Absolute(BitRate),
}

/// A share of what the first stream moves, as in 0.1 or 10%, or a rate.
impl FromStr for Threshold {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(share) = parse_share(text) {
            let fits = (0.0..=1.0).contains(&share);
            return if fits { Ok(Self::Relative(share)) } else { Err("a share is from 0 to 1".to_owned()) };
        }
        text.parse().map(Self::Absolute).map_err(|error: UnitError| error.to_string())
    }
}

/// The constants.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SamplingConfig {
    /// What a stream must add. A tenth of a lone stream: at the end of a link doubling shows −0.07 to 0.07
    /// of one by a noise of 5 % alone, and before that 0.9 to 1.1. The paper leaves it to the user.
    pub threshold: Threshold,
    /// The first n.
    pub first: u16,
    /// The last n there may be.
    pub most: u16,
    /// Samples that are taken even so, if `most` allows as many: the models have three coefficients.
    pub least_samples: usize,
}

impl SamplingConfig {
    /// From one stream to `most`, with a relative threshold.
    pub const fn up_to(most: u16) -> Self {
        Self { threshold: Threshold::Relative(0.1), first: 1, most, least_samples: 3 }
    }
}

/// Why sampling is over.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Stop {
    /// More streams moved less.
    Fell,
    /// A stream more brought less than the threshold.
    Flat,
    /// There may be no more streams.
    Most,
    /// Twice in a row nothing came through.
    Nothing,
}

/// Algorithm 2 on its way.
///
/// ```
/// use tidegate_control::BitRate;
/// use tidegate_control::throughput_model::Doubling;
/// use tidegate_control::throughput_model::sampling::SamplingConfig;
///
/// let mut doubling = Doubling::new(SamplingConfig::up_to(64));
/// while let Some(n) = doubling.next() {
///     // Each stream moves 100 Mbit/s, all of them no more than a link of 1 Gbit/s.
///     doubling.record(BitRate::mbps((100 * u64::from(n)).min(1000)));
/// }
/// let tried: Vec<u16> = doubling.samples().iter().map(|sample| sample.streams).collect();
/// assert_eq!(tried, [1, 2, 4, 8, 16, 32]);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Doubling {
    config: SamplingConfig,
    samples: Vec<Sample>,
    next: u16,
    stop: Option<Stop>,
}

impl Doubling {
    /// Nothing measured yet.
    pub fn new(config: SamplingConfig) -> Self {
        let first = config.first.max(1);
        let config = SamplingConfig { first, most: config.most.max(first), ..config };
        Self { config, samples: Vec::new(), next: first, stop: None }
    }

    /// The n to measure next; none once it is over.
    pub const fn next(&self) -> Option<u16> {
        if self.stop.is_none() { Some(self.next) } else { None }
    }

    /// Takes in what [`next`](Self::next) streams moved, and says what to measure now.
    ///
    /// A sample of nothing is kept and measured once more, for it may have been a hiccup. Nothing is changed
    /// once it is over.
    pub fn record(&mut self, throughput: BitRate) -> Option<u16> {
        let streams = self.next()?;
        let before = self.useful().last().copied();
        let hiccup = self.samples.last().is_some_and(|last| last.streams == streams);
        let sample = Sample { streams, throughput };
        self.samples.push(sample);
        if throughput == BitRate::ZERO {
            self.stop = hiccup.then_some(Stop::Nothing);
        } else {
            self.stop = before.and_then(|before| self.too_little(before, sample));
            if self.useful().count() < self.config.least_samples {
                self.stop = None;
            }
            if streams >= self.config.most {
                self.stop = self.stop.or(Some(Stop::Most));
            } else {
                self.next = streams.saturating_mul(2).min(self.config.most);
            }
        }
        self.next()
    }

    /// Why the step from `before` to `sample` is the last, if it is.
    fn too_little(&self, before: Sample, sample: Sample) -> Option<Stop> {
        let slope = (sample.throughput.as_mbps() - before.throughput.as_mbps()) / (sample.n() - before.n());
        if slope < 0.0 {
            return Some(Stop::Fell);
        }
        let threshold = match self.config.threshold {
            Threshold::Absolute(rate) => rate.as_mbps(),
            Threshold::Relative(share) => {
                let first = self.useful().next()?;
                share * first.throughput.as_mbps() / first.n()
            }
        };
        (slope < threshold).then_some(Stop::Flat)
    }

    fn useful(&self) -> impl Iterator<Item = &Sample> {
        self.samples.iter().filter(|sample| sample.is_useful())
    }

    /// All that was measured, zeros too, in the order it was.
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }

    /// Why it is over, if it is.
    pub const fn stopped(&self) -> Option<Stop> {
        self.stop
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The n measured, and why no more, of a path that carries `mbps(n)`.
    fn run(config: SamplingConfig, mbps: impl Fn(u16) -> f64) -> (Vec<u16>, Option<Stop>) {
        let mut doubling = Doubling::new(config);
        while let Some(n) = doubling.next() {
            doubling.record(BitRate::from_mbps(mbps(n)));
        }
        (doubling.samples().iter().map(|sample| sample.streams).collect(), doubling.stopped())
    }

    #[test]
    fn it_doubles_until_a_stream_brings_too_little() {
        let link = |n: u16| (f64::from(n) * 100.0).min(1000.0);
        assert_eq!(run(SamplingConfig::up_to(256), link), (vec![1, 2, 4, 8, 16, 32], Some(Stop::Flat)));
        // An absolute threshold of 30 Mbit/s a stream: from 8 to 16 each brought 25.
        let absolute = SamplingConfig {
            threshold: Threshold::Absolute(BitRate::mbps(30)),
            ..SamplingConfig::up_to(256)
        };
        assert_eq!(run(absolute, link), (vec![1, 2, 4, 8, 16], Some(Stop::Flat)));
    }

    #[test]
    fn a_fall_ends_it() {
        let peak = |n: u16| f64::from(n) / (1.0 + (f64::from(n) / 8.0).powi(3));
        assert_eq!(run(SamplingConfig::up_to(256), peak), (vec![1, 2, 4, 8, 16], Some(Stop::Fell)));
    }

    #[test]
    fn three_samples_are_taken_where_so_many_are_allowed() {
        let falling = |n: u16| 100.0 / f64::from(n);
        assert_eq!(run(SamplingConfig::up_to(256), falling), (vec![1, 2, 4], Some(Stop::Fell)));
        assert_eq!(run(SamplingConfig::up_to(3), falling), (vec![1, 2, 3], Some(Stop::Fell)));
        assert_eq!(run(SamplingConfig::up_to(2), falling), (vec![1, 2], Some(Stop::Most)));
        assert_eq!(run(SamplingConfig::up_to(1), falling), (vec![1], Some(Stop::Most)));
        assert_eq!(run(SamplingConfig::up_to(0), falling), (vec![1], Some(Stop::Most)));
    }

    #[test]
    fn the_last_is_the_most_there_may_be() {
        let linear = |n: u16| f64::from(n);
        assert_eq!(run(SamplingConfig::up_to(20), linear), (vec![1, 2, 4, 8, 16, 20], Some(Stop::Most)));
        let (all, stop) = run(SamplingConfig::up_to(u16::MAX), linear);
        assert_eq!((all.len(), all.last(), stop), (17, Some(&u16::MAX), Some(Stop::Most)));
        let from_3 = SamplingConfig { first: 3, ..SamplingConfig::up_to(20) };
        assert_eq!(run(from_3, linear).0, [3, 6, 12, 20]);
    }

    #[test]
    fn nothing_is_measured_again_and_then_is_the_end() {
        let mut doubling = Doubling::new(SamplingConfig::up_to(64));
        assert_eq!(doubling.record(BitRate::ZERO), Some(1));
        assert_eq!(doubling.record(BitRate::mbps(10)), Some(2));
        assert_eq!(doubling.record(BitRate::mbps(20)), Some(4));
        assert_eq!(doubling.record(BitRate::ZERO), Some(4));
        assert_eq!(doubling.record(BitRate::mbps(40)), Some(8));
        assert_eq!(doubling.record(BitRate::ZERO), Some(8));
        assert_eq!(doubling.record(BitRate::ZERO), None);
        assert_eq!((doubling.stopped(), doubling.samples().len()), (Some(Stop::Nothing), 7));
        assert_eq!(doubling.record(BitRate::mbps(10)), None);
        assert_eq!(doubling.samples().len(), 7);
        assert_eq!(run(SamplingConfig::up_to(64), |_| 0.0), (vec![1, 1], Some(Stop::Nothing)));
        assert_eq!(run(SamplingConfig::up_to(64), |_| f64::NAN).1, Some(Stop::Nothing));
    }
}
