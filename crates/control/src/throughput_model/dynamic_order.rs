//! Th = n/√(a·nᶜ + b): the dynamic order model (Yin, Yildirim, Kosar et al.).
//!
//! For c > 2 it has one maximum at n = (2b/((c − 2)a))^(1/c); for c = 2 it rises towards 1/√a, and for less
//! without end.

use serde::{Deserialize, Serialize};

use crate::throughput_model::{Optimum, Rejection, Sample};
use crate::units::BitRate;

/// The exponents looked for. Below the least, nᶜ is the logarithm; no path has shown the highest.
const EXPONENTS: (f64, f64) = (1e-3, 12.0);
/// Steps that always suffice: bisection alone halves the interval down to 2⁻⁵² of it.
const STEPS: u32 = 60;

/// The coefficients, for throughput in Mbit/s.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DynamicOrder {
    /// Of nᶜ.
    pub a: f64,
    /// The constant.
    pub b: f64,
    /// The exponent.
    pub c: f64,
}

impl DynamicOrder {
    /// Solves for three samples, given with growing n.
    pub fn through(samples: [Sample; 3]) -> Result<Self, Rejection> {
        let [n1, n2, n3] = samples.map(Sample::n);
        let [y1, y2, y3] = samples.map(Sample::impedance);
        let ratio = (y3 - y1) / (y2 - y1);
        // As c goes to 0 the model's ratio goes to that of the logarithms, and it grows with c.
        if !(y2 > y1 && ratio > (n3 / n1).ln() / (n2 / n1).ln()) {
            return Err(Rejection::NoExponent);
        }
        let c = if n2 * n2 == n1 * n3 {
            // 1 + rᶜ is the ratio: what doubling yields needs no search.
            (ratio - 1.0).ln() / (n2 / n1).ln()
        } else {
            exponent(n2 / n1, n3 / n1, ratio)?
        };
        if c > EXPONENTS.1 {
            return Err(Rejection::ExponentTooHigh { most: EXPONENTS.1 });
        }
        let a = (y2 - y1) / (n2.powf(c) - n1.powf(c));
        let curve = Self { a, b: y1 - a * n1.powf(c), c };
        curve.check().map(|()| curve)
    }

    /// p′ of `n` streams.
    pub fn impedance(&self, n: f64) -> f64 {
        self.a * n.powf(self.c) + self.b
    }

    /// Positive where throughput rises.
    fn slope(&self, n: f64) -> f64 {
        self.b - self.a * (self.c / 2.0 - 1.0) * n.powf(self.c)
    }

    /// Why these coefficients describe no path, if they do not.
    pub fn check(&self) -> Result<(), Rejection> {
        let Self { a, b, c } = *self;
        if !(a > 0.0 && b.is_finite() && c.is_finite()) {
            return Err(Rejection::Explodes);
        }
        if c <= 0.0 {
            return Err(Rejection::NoExponent);
        }
        if self.impedance(1.0) <= 0.0 {
            return Err(Rejection::Pole);
        }
        if c < 2.0 && self.slope(1.0) < 0.0 { Err(Rejection::Dips) } else { Ok(()) }
    }

    /// Where it is best among 1 and more.
    pub fn optimum(&self) -> Optimum {
        let Self { a, b, c } = *self;
        if self.slope(1.0) <= 0.0 {
            return Optimum::Fewest;
        }
        if c > 2.0 {
            let streams = (2.0 * b / ((c - 2.0) * a)).powf(1.0 / c);
            let throughput = BitRate::from_mbps(streams / self.impedance(streams).sqrt());
            return Optimum::Peak { streams, throughput };
        }
        if c == 2.0 {
            Optimum::Saturates { limit: BitRate::from_mbps(1.0 / a.sqrt()) }
        } else {
            Optimum::Unbounded
        }
    }
}

/// The c with (rᶜ₃ − 1)/(rᶜ₂ − 1) = `ratio`, where r₂ = n₂/n₁ and r₃ = n₃/n₁: Newton's steps, and bisection
/// where one would leave the interval that holds the root.
fn exponent(r2: f64, r3: f64, ratio: f64) -> Result<f64, Rejection> {
    // expm1 keeps what is left of rᶜ − 1 at small c.
    let excess = |c: f64| (c * r3.ln()).exp_m1() / (c * r2.ln()).exp_m1() - ratio;
    let (mut low, mut high) = EXPONENTS;
    if excess(high) < 0.0 {
        return Err(Rejection::ExponentTooHigh { most: high });
    }
    if excess(low) > 0.0 {
        return Err(Rejection::NoExponent);
    }
    let mut c: f64 = 2.0;
    for _ in 0..STEPS {
        let (p2, p3) = (r2.powf(c), r3.powf(c));
        let g = excess(c);
        if g > 0.0 {
            high = c;
        } else {
            low = c;
        }
        let slope = (p3 * r3.ln() * (p2 - 1.0) - (p3 - 1.0) * p2 * r2.ln()) / (p2 - 1.0).powi(2);
        let step = c - g / slope;
        let next = if step > low && step < high { step } else { low.midpoint(high) };
        if (next - c).abs() <= 1e-13 * c {
            return Ok(next);
        }
        c = next;
    }
    Ok(c)
}
