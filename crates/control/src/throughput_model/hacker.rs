//! Th = n·Th₁: streams that do not meet (Hacker, Athey et al.). Good for a path that is not congested.

use serde::{Deserialize, Serialize};

use crate::throughput_model::{Rejection, Sample};

/// The one coefficient.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Hacker {
    /// What each stream moves, in Mbit/s.
    pub stream_mbps: f64,
}

impl Hacker {
    /// Solves for one sample.
    pub fn through(sample: Sample) -> Result<Self, Rejection> {
        let curve = Self { stream_mbps: sample.throughput.as_mbps() / sample.n() };
        curve.check().map(|()| curve)
    }

    /// The coefficient nearest to all `samples`, the logarithm of whose throughput strays alike.
    pub(super) fn nearest(samples: &[Sample]) -> Option<Self> {
        let logs = samples.iter().map(|sample| (sample.throughput.as_mbps() / sample.n()).ln());
        let mean = logs.sum::<f64>() / samples.len() as f64;
        let curve = Self { stream_mbps: mean.exp() };
        curve.check().is_ok().then_some(curve)
    }

    /// Why this describes no path, if it does not.
    pub fn check(&self) -> Result<(), Rejection> {
        let moves = self.stream_mbps.is_finite() && self.stream_mbps > 0.0;
        if moves { Ok(()) } else { Err(Rejection::Nothing { streams: 1 }) }
    }
}
