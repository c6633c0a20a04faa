//! Th = n·t up to a knee at k streams, then k·t·(k/n)^d: streams with a limit each on a link with a limit.
//!
//! Ours. Where each stream has its own limit (a window, a policy, a disk's queue) throughput turns at once,
//! and no smooth p′ does: Dinda's is 29 % too low at the knee of min(n·t, B). In logarithms it is two lines,
//! of slope 1 and −d, so it needs no search.

use serde::{Deserialize, Serialize};

use crate::throughput_model::{Optimum, Rejection, Sample};
use crate::units::BitRate;

/// The coefficients.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Knee {
    /// What each stream moves before the knee, in Mbit/s.
    pub stream_mbps: f64,
    /// How many streams it takes to get there.
    pub streams: f64,
    /// The power of n with which throughput falls beyond: 0 for a link that bears any number.
    pub decline: f64,
}

impl Knee {
    /// Solves for three samples, given with growing n: the first is before the knee, the others beyond.
    pub fn through([first, second, third]: [Sample; 3]) -> Result<Self, Rejection> {
        Self::of(&[first], &[second, third], true).ok_or(Rejection::NoKnee)
    }

    /// The nearest to all `samples` with growing n, with and without a decline, wherever the knee may be.
    pub(super) fn candidates(samples: &[Sample]) -> impl Iterator<Item = Self> {
        (1..samples.len()).flat_map(|split| {
            let (before, beyond) = samples.split_at(split);
            [Self::of(before, beyond, false), Self::of(before, beyond, true)].into_iter().flatten()
        })
    }

    /// The lines nearest to `before` and `beyond`, if they meet between those.
    fn of(before: &[Sample], beyond: &[Sample], declines: bool) -> Option<Self> {
        let log_n = |sample: &Sample| sample.n().ln();
        let log_rate = |sample: &Sample| sample.throughput.as_mbps().ln();
        let mean = |of: &dyn Fn(&Sample) -> f64, samples: &[Sample]| {
            samples.iter().map(of).sum::<f64>() / samples.len() as f64
        };
        let stream = mean(&|sample| log_rate(sample) - log_n(sample), before);
        let (n, rate) = (mean(&log_n, beyond), mean(&log_rate, beyond));
        let decline = if declines {
            let product = |sample: &Sample| (log_n(sample) - n) * (log_rate(sample) - rate);
            -mean(&product, beyond) / mean(&|sample| (log_n(sample) - n).powi(2), beyond)
        } else {
            0.0
        };
        // stream + ln k = rate − decline·(ln k − n)
        let knee = (rate + decline * n - stream) / (1.0 + decline);
        let (last, first) = (log_n(before.last()?), log_n(beyond.first()?));
        // Noise may move it a little out of the gap, where the two lines are still as near.
        let near = knee >= last - OUTSIDE && knee <= first + OUTSIDE;
        let curve = Self { stream_mbps: stream.exp(), streams: knee.exp(), decline };
        (near && curve.check().is_ok()).then_some(curve)
    }

    /// The coefficients that were free.
    pub const fn freedom(&self) -> usize {
        if self.decline == 0.0 { 2 } else { 3 }
    }

    /// The throughput of `n` streams in Mbit/s.
    pub fn mbps(&self, n: f64) -> f64 {
        if n <= self.streams {
            return n * self.stream_mbps;
        }
        self.streams * self.stream_mbps * (self.streams / n).powf(self.decline)
    }

    /// Why these coefficients describe no path, if they do not.
    pub fn check(&self) -> Result<(), Rejection> {
        let Self { stream_mbps, streams, decline } = *self;
        let positive = |value: f64| value.is_finite() && value > 0.0;
        let good = positive(stream_mbps) && positive(streams) && decline.is_finite() && decline >= 0.0;
        if good { Ok(()) } else { Err(Rejection::NoKnee) }
    }

    /// Where it is best: beyond the knee throughput does not grow, so always there.
    pub fn optimum(&self) -> Optimum {
        if self.streams <= 1.0 {
            return Optimum::Fewest;
        }
        Optimum::Peak {
            streams: self.streams,
            throughput: BitRate::from_mbps(self.streams * self.stream_mbps),
        }
    }
}

/// How far, in logarithms, the knee may lie outside the gap between the samples it was found from.
const OUTSIDE: f64 = 0.05;
