//! What n streams would move, told from a few samples (Yin, Yildirim, Kosar et al.; EOS).
//!
//! n streams that lose segments alike move n times what Mathis et al. give for one, so with
//! p′ = p·RTT²/(c²·MSS²) their throughput is Th = n/√p′ₙ. The models differ in how p′ grows with n:
//!
//! | model | p′ₙ | samples | by |
//! |---|---|---|---|
//! | [`FullSecondOrder`] | a·n² + b·n + c | 3 | EOS |
//! | [`DynamicOrder`] | a·nᶜ + b | 3 | EOS |
//! | [`Dinda`] | a·n² + b | 2 | Lu, Qiao, Dinda et al. |
//! | [`Hacker`] | constant | 1 | Hacker, Athey et al. |
//! | [`Knee`] | n·t up to a link's rate, then less | 2 or 3 | ours |
//!
//! A sample gives one equation, p′ₙ = n²/Th². Coefficients are for throughput in Mbit/s. [`sampling`] says
//! which n to measure, [`choice`] which model to believe and what n follows from it, [`selection`] which models are
//! asked at all, [`settled`] from when on what is measured is what the streams carry.

use serde::{Deserialize, Serialize};

use crate::units::BitRate;

pub mod dinda;
pub mod dynamic_order;
pub mod full_second_order;
pub mod hacker;
pub mod knee;

mod least_squares;

pub mod choice;
pub mod sampling;

pub mod selection;

pub mod settled;

pub use choice::{Choice, Options, choose};
pub use dinda::Dinda;
pub use dynamic_order::DynamicOrder;
pub use full_second_order::FullSecondOrder;
pub use hacker::Hacker;
pub use knee::Knee;
pub use sampling::Doubling;
pub use selection::ModelSelection;

/// What some streams moved together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "CurvePoint"))]
pub struct Sample {
    /// How many there were.
    pub streams: u16,
    /// What they moved.
    #[serde(rename = "throughput_bps")]
    pub throughput: BitRate,
}

impl Sample {
    /// A sample of `streams` streams.
    pub const fn new(streams: u16, throughput: BitRate) -> Self {
        Self { streams, throughput }
    }

    /// Whether anything can be learned from it.
    const fn is_useful(self) -> bool {
        self.streams > 0 && self.throughput.0 > 0
    }

    fn n(self) -> f64 {
        f64::from(self.streams)
    }

    /// p′ₙ = n²/Th², with throughput in Mbit/s.
    fn impedance(self) -> f64 {
        (self.n() / self.throughput.as_mbps()).powi(2)
    }
}

/// Which model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Model {
    /// p′ = a·n² + b·n + c.
    FullSecondOrder,
    /// p′ = a·nᶜ + b.
    DynamicOrder,
    /// p′ = a·n² + b.
    Dinda,
    /// n times what one stream moves.
    Hacker,
    /// n times what one stream moves, up to a knee.
    Knee,
}

impl Model {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::FullSecondOrder, Self::DynamicOrder, Self::Dinda, Self::Hacker, Self::Knee];

    /// The name in files and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::FullSecondOrder => "full_second_order",
            Self::DynamicOrder => "dynamic_order",
            Self::Dinda => "dinda",
            Self::Hacker => "hacker",
            Self::Knee => "knee",
        }
    }

    /// The samples it takes to solve for it.
    pub const fn samples(self) -> usize {
        match self {
            Self::FullSecondOrder | Self::DynamicOrder | Self::Knee => 3,
            Self::Dinda => 2,
            Self::Hacker => 1,
        }
    }

    /// The curve through exactly [`samples`](Self::samples) samples of different n.
    pub fn through(self, samples: &[Sample]) -> Result<Curve, Rejection> {
        let need = self.samples();
        let few = Rejection::TooFewSamples { have: samples.len(), need };
        if let Some(bad) = samples.iter().find(|sample| !sample.is_useful()) {
            return Err(Rejection::Nothing { streams: bad.streams });
        }
        let mut sorted = samples.to_vec();
        sorted.sort_by_key(|sample| sample.streams);
        if let Some(pair) = sorted.windows(2).find(|pair| pair[0].streams == pair[1].streams) {
            return Err(Rejection::SameStreams { streams: pair[0].streams });
        }
        match (self, &sorted[..]) {
            (Self::FullSecondOrder, &[x, y, z]) => {
                FullSecondOrder::through([x, y, z]).map(Curve::FullSecondOrder)
            }
            (Self::DynamicOrder, &[x, y, z]) => DynamicOrder::through([x, y, z]).map(Curve::DynamicOrder),
            (Self::Knee, &[x, y, z]) => Knee::through([x, y, z]).map(Curve::Knee),
            (Self::Dinda, &[x, y]) => Dinda::through([x, y]).map(Curve::Dinda),
            (Self::Hacker, &[x]) => Hacker::through(x).map(Curve::Hacker),
            _ => Err(few),
        }
    }
}

crate::named!(Model);

/// A model with its coefficients.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "FittedCurve"))]
#[serde(tag = "model", rename_all = "snake_case")]
pub enum Curve {
    /// p′ = a·n² + b·n + c.
    FullSecondOrder(FullSecondOrder),
    /// p′ = a·nᶜ + b.
    DynamicOrder(DynamicOrder),
    /// p′ = a·n² + b.
    Dinda(Dinda),
    /// n times what one stream moves.
    Hacker(Hacker),
    /// n times what one stream moves, up to a knee.
    Knee(Knee),
}

/// Where a curve is best.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Optimum {
    /// At so many streams, and less on either side.
    Peak {
        /// So many, in general not a whole number.
        streams: f64,
        /// The throughput there.
        #[serde(rename = "throughput_bps")]
        throughput: BitRate,
    },
    /// Nowhere: each stream adds less, towards a limit.
    Saturates {
        /// That limit.
        #[serde(rename = "limit_bps")]
        limit: BitRate,
    },
    /// With the fewest streams there can be: throughput only falls.
    Fewest,
    /// Nowhere: it grows without a limit.
    Unbounded,
}

impl Curve {
    /// Which model it is.
    pub const fn model(&self) -> Model {
        match self {
            Self::FullSecondOrder(_) => Model::FullSecondOrder,
            Self::DynamicOrder(_) => Model::DynamicOrder,
            Self::Dinda(_) => Model::Dinda,
            Self::Hacker(_) => Model::Hacker,
            Self::Knee(_) => Model::Knee,
        }
    }

    /// The coefficients that were free to follow the samples.
    pub const fn freedom(&self) -> usize {
        match self {
            Self::FullSecondOrder(_) | Self::DynamicOrder(_) => 3,
            Self::Dinda(_) => 2,
            Self::Hacker(_) => 1,
            Self::Knee(knee) => knee.freedom(),
        }
    }

    /// How many coefficients it counts for when models are compared. Where a knee lies is searched for among
    /// all gaps between samples, and its decline often told from two: that costs more than a coefficient each.
    fn price(&self) -> f64 {
        match self {
            Self::Knee(knee) if knee.freedom() == 2 => 3.0,
            Self::Knee(_) => 5.0,
            other => other.freedom() as f64,
        }
    }

    /// The throughput of `n` streams in Mbit/s; none where the model has none.
    fn mbps(&self, n: f64) -> Option<f64> {
        let mbps = match self {
            Self::FullSecondOrder(curve) => n / curve.impedance(n).sqrt(),
            Self::DynamicOrder(curve) => n / curve.impedance(n).sqrt(),
            Self::Dinda(curve) => n / curve.impedance(n).sqrt(),
            Self::Hacker(curve) => n * curve.stream_mbps,
            Self::Knee(curve) => curve.mbps(n),
        };
        (mbps.is_finite() && mbps > 0.0).then_some(mbps)
    }

    /// The throughput of `streams` streams; none where the model has none.
    pub fn predict(&self, streams: u16) -> Option<BitRate> {
        self.mbps(f64::from(streams)).map(BitRate::from_mbps)
    }

    /// The most a stream moves anywhere on it, in Mbit/s; where that is with the fewest streams, as for all
    /// models but one, infinitely few are no limit of interest and it is 0.
    fn most_each(&self) -> f64 {
        match self {
            Self::FullSecondOrder(curve) => curve.most_each(),
            _ => 0.0,
        }
    }

    /// Where it is best.
    pub fn optimum(&self) -> Optimum {
        match self {
            Self::FullSecondOrder(curve) => curve.optimum(),
            Self::DynamicOrder(curve) => curve.optimum(),
            Self::Dinda(curve) => curve.optimum(),
            Self::Hacker(_) => Optimum::Unbounded,
            Self::Knee(curve) => curve.optimum(),
        }
    }

    /// Why the coefficients describe no path, if they do not.
    pub fn check(&self) -> Result<(), Rejection> {
        match self {
            Self::FullSecondOrder(curve) => curve.check(),
            Self::DynamicOrder(curve) => curve.check(),
            Self::Dinda(curve) => curve.check(),
            Self::Hacker(curve) => curve.check(),
            Self::Knee(curve) => curve.check(),
        }
    }

    /// The whole number from 1 to `most` with the most throughput, and that.
    ///
    /// Every model rises to one peak and falls, so the whole numbers beside the optimum are enough.
    pub fn best(&self, most: u16) -> Option<Sample> {
        let most = most.max(1);
        let beside = match self.optimum() {
            Optimum::Peak { streams, .. } => {
                let clamp = |n: f64| n.clamp(1.0, f64::from(most)) as u16;
                [clamp(streams.floor()), clamp(streams.ceil())]
            }
            Optimum::Fewest => [1, 1],
            Optimum::Saturates { .. } | Optimum::Unbounded => [most, most],
        };
        let at = |streams: u16| self.predict(streams).map(|throughput| Sample { streams, throughput });
        let [below, above] = beside.map(at);
        match (below, above) {
            (Some(below), Some(above)) if above.throughput > below.throughput => Some(above),
            (below, above) => below.or(above),
        }
    }

    /// The curve from 1 to `most` streams for a picture: at most `count` points, denser where there are few
    /// streams; numbers of streams without a throughput are left out.
    pub fn points(&self, most: u16, count: usize) -> Vec<Sample> {
        let steps = count.max(2) - 1;
        let mut drawn: Vec<u16> = (0..=steps)
            .map(|i| f64::from(most.max(1)).powf(i as f64 / steps as f64).round() as u16)
            .collect();
        drawn.dedup();
        let point = |streams| self.predict(streams).map(|throughput| Sample { streams, throughput });
        drawn.into_iter().filter_map(point).collect()
    }
}

/// Why a model is not believed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Rejection {
    /// The samples do not determine it.
    #[error("{have} usable samples of different n, {need} needed")]
    TooFewSamples {
        /// How many there are.
        have: usize,
        /// How many it takes.
        need: usize,
    },
    /// A sample without throughput.
    #[error("nothing was moved at n = {streams}")]
    Nothing {
        /// Its n.
        streams: u16,
    },
    /// Two samples of one n.
    #[error("two samples at n = {streams}")]
    SameStreams {
        /// That n.
        streams: u16,
    },
    /// Throughput would leave every limit behind, and often at a finite n.
    #[error("throughput would grow beyond every limit (a ≤ 0)")]
    Explodes,
    /// There is no throughput between two numbers of streams.
    #[error("no throughput for some numbers of streams (b² ≥ 4ac with b < 0)")]
    Pole,
    /// Throughput would fall first and then rise.
    #[error("throughput would fall first and then rise")]
    Dips,
    /// n²/Th² does not grow fast enough for any exponent.
    #[error("n²/Th² does not grow with n as any exponent has it")]
    NoExponent,
    /// n²/Th² grows faster than the highest exponent.
    #[error("n²/Th² grows faster than n to the power of {most}")]
    ExponentTooHigh {
        /// That exponent.
        most: f64,
    },
    /// It is far above the samples between them.
    #[error("throughput would have a spike between the samples")]
    Spike,
    /// No part of the samples grows in proportion to n.
    #[error("the samples have no knee")]
    NoKnee,
    /// It says nothing about a sample.
    #[error("no throughput for n = {streams}, which was sampled")]
    NoPrediction {
        /// That sample's n.
        streams: u16,
    },
    /// It is too far from the samples.
    #[error("misses the samples by {:.0} %", 100.0 * error)]
    Misses {
        /// The root of the mean square of ln(predicted/measured).
        error: f64,
    },
}

#[cfg(test)]
mod tests;
