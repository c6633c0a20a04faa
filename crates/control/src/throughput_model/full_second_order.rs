//! Th = n/√(a·n² + b·n + c): the full second order model (Yin, Yildirim, Kosar et al.).
//!
//! With a > 0, b < 0, c > 0 and no pole it has one maximum, 2√(c/(4ac − b²)) at n = −2c/b. With b ≥ 0 it
//! rises towards 1/√a: so does a link shared with m other streams, n/(n + m) of it, whose b² is 4ac.

use serde::{Deserialize, Serialize};

use crate::throughput_model::{Optimum, Rejection, Sample};
use crate::units::BitRate;

/// The coefficients, for throughput in Mbit/s.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FullSecondOrder {
    /// Of n²: the inverse square of what endless streams move.
    pub a: f64,
    /// Of n.
    pub b: f64,
    /// The constant.
    pub c: f64,
}

impl FullSecondOrder {
    /// Solves for three samples of different n: p′ is linear in the coefficients (divided differences).
    pub fn through(samples: [Sample; 3]) -> Result<Self, Rejection> {
        let [n1, n2, n3] = samples.map(Sample::n);
        let [y1, y2, y3] = samples.map(Sample::impedance);
        let (d21, d31) = ((y2 - y1) / (n2 - n1), (y3 - y1) / (n3 - n1));
        let a = (d31 - d21) / (n3 - n2);
        let b = d21 - (n1 + n2) * a;
        let curve = Self { a, b, c: y1 - a * n1 * n1 - b * n1 };
        curve.check().map(|()| curve)
    }

    /// p′ of `n` streams.
    pub fn impedance(&self, n: f64) -> f64 {
        (self.a * n + self.b) * n + self.c
    }

    /// The most a stream moves among any number of them, in Mbit/s: 0 if that is with fewer than one.
    pub(super) fn most_each(&self) -> f64 {
        let n = -self.b / (2.0 * self.a);
        if n > 1.0 { self.impedance(n).sqrt().recip() } else { 0.0 }
    }

    /// Half the numerator of dTh/dn: positive where throughput rises.
    fn slope(&self, n: f64) -> f64 {
        self.b * n / 2.0 + self.c
    }

    /// Why these coefficients describe no path, if they do not.
    pub fn check(&self) -> Result<(), Rejection> {
        let Self { a, b, c } = *self;
        // Written so that NaN fails too.
        if !(a > 0.0 && b.is_finite() && c.is_finite()) {
            return Err(Rejection::Explodes);
        }
        if self.impedance(1.0) <= 0.0 || (b < 0.0 && -b > 2.0 * a && b * b >= 4.0 * a * c) {
            return Err(Rejection::Pole);
        }
        if b > 0.0 && self.slope(1.0) < 0.0 { Err(Rejection::Dips) } else { Ok(()) }
    }

    /// Where it is best among 1 and more.
    pub fn optimum(&self) -> Optimum {
        let Self { a, b, c } = *self;
        if self.slope(1.0) <= 0.0 {
            return Optimum::Fewest;
        }
        if b < 0.0 {
            let throughput = BitRate::from_mbps(2.0 * (c / (4.0 * a * c - b * b)).sqrt());
            return Optimum::Peak { streams: -2.0 * c / b, throughput };
        }
        Optimum::Saturates { limit: BitRate::from_mbps(1.0 / a.sqrt()) }
    }
}
