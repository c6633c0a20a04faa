//! Th = n/√(a·n² + b): the partial second order model of Lu, Qiao, Dinda et al.
//!
//! It rises towards 1/√a and has no best n of its own.

use serde::{Deserialize, Serialize};

use crate::throughput_model::{Optimum, Rejection, Sample};
use crate::units::BitRate;

/// The coefficients, for throughput in Mbit/s.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Dinda {
    /// Of n²: the inverse square of what endless streams move.
    pub a: f64,
    /// The constant.
    pub b: f64,
}

impl Dinda {
    /// Solves for two samples of different n.
    pub fn through(samples: [Sample; 2]) -> Result<Self, Rejection> {
        let [n1, n2] = samples.map(Sample::n);
        let [y1, y2] = samples.map(Sample::impedance);
        let a = (y2 - y1) / (n2 * n2 - n1 * n1);
        let curve = Self { a, b: y1 - a * n1 * n1 };
        curve.check().map(|()| curve)
    }

    /// p′ of `n` streams.
    pub fn impedance(&self, n: f64) -> f64 {
        self.a * n * n + self.b
    }

    /// Why these coefficients describe no path, if they do not.
    pub fn check(&self) -> Result<(), Rejection> {
        if !(self.a > 0.0 && self.b.is_finite()) {
            return Err(Rejection::Explodes);
        }
        if self.impedance(1.0) <= 0.0 { Err(Rejection::Pole) } else { Ok(()) }
    }

    /// Where it is best among 1 and more.
    pub fn optimum(&self) -> Optimum {
        if self.b <= 0.0 {
            return Optimum::Fewest;
        }
        Optimum::Saturates { limit: BitRate::from_mbps(1.0 / self.a.sqrt()) }
    }
}
