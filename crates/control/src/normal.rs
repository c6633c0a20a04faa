//! The standard normal distribution.

/// Its density at `z`.
pub fn density(z: f64) -> f64 {
    (-0.5 * z * z).exp() / std::f64::consts::TAU.sqrt()
}

/// The share of it below `z`, to 10⁻⁷ (Abramowitz and Stegun, 26.2.17).
pub fn below(z: f64) -> f64 {
    const POLYNOMIAL: [f64; 5] =
        [0.319_381_530, -0.356_563_782, 1.781_477_937, -1.821_255_978, 1.330_274_429];
    let t = 1.0 / (1.0 + 0.231_641_9 * z.abs());
    let sum = POLYNOMIAL.iter().rev().fold(0.0, |sum, coefficient| (sum + coefficient) * t);
    let above = density(z) * sum;
    if z < 0.0 { above } else { 1.0 - above }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_its_known_values() {
        let close = |value: f64, wanted: f64| assert!((value - wanted).abs() < 1e-6, "{value}, not {wanted}");
        for (z, share) in [(0.0, 0.5), (1.0, 0.841_344_746), (-1.96, 0.024_997_895), (3.0, 0.998_650_102)] {
            close(below(z), share);
        }
        close(density(0.0), 0.398_942_280);
    }
}
