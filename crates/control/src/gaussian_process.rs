//! A Gaussian process over one number: a guess of a function from a few noisy readings, with its doubt.
//!
//! The kernel is a constant times Matérn 5/2 plus white noise, on readings normalised to mean 0 and
//! deviation 1. Its three parameters maximise the log marginal likelihood (Rasmussen and Williams,
//! "Gaussian Processes for Machine Learning", equations 2.25, 2.26 and 2.30) within the bounds and from
//! as many starts as scikit-optimize, whose process Falcon and FastBioDL use. For a window of twenty
//! readings a dense Cholesky factor is a few thousand multiplications, so nothing else is needed.

/// The parameters, for normalised readings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Kernel {
    /// Variance of the function.
    pub amplitude: f64,
    /// The distance over which it changes.
    pub length: f64,
    /// Variance of the readings about it.
    pub noise: f64,
}

/// Bounds of the amplitude, the length and the noise in scikit-optimize.
const AMPLITUDES: (f64, f64) = (0.01, 1000.0);
const LENGTHS: (f64, f64) = (0.01, 100.0);
const NOISES: (f64, f64) = (1e-5, 1e5);
/// Bounds of noise by amplitude.
const RATIOS: (f64, f64) = (1e-6, 1e4);

/// Where the search for length and noise by amplitude starts: scikit-optimize's first guess, and, in
/// place of its two random ones, a smooth function and a rough one with little noise.
const STARTS: [(f64, f64); 3] = [(1.0, 1.0), (0.3, 0.01), (0.05, 0.01)];

/// Steps of the search, as factors' logarithms: the first and the last.
const STEPS: (f64, f64) = (1.6, 0.4);

/// A process that has seen readings.
#[derive(Clone, Debug)]
pub struct GaussianProcess {
    kernel: Kernel,
    x: Vec<f64>,
    /// Mean and deviation of the readings.
    centre: f64,
    scale: f64,
    /// The lower factor of the readings' covariance, row by row.
    factor: Vec<f64>,
    /// The covariance's inverse times the normalised readings.
    weights: Vec<f64>,
    likelihood: f64,
}

/// Matérn 5/2 at a distance of `r` lengths.
fn matern(r: f64) -> f64 {
    let r = 5f64.sqrt() * r;
    (1.0 + r + r * r / 3.0) * (-r).exp()
}

/// Factors the symmetric `matrix` of `size` rows in place; `false` if it is not positive definite.
fn cholesky(matrix: &mut [f64], size: usize) -> bool {
    for i in 0..size {
        for j in 0..=i {
            let mut left = matrix[i * size + j];
            for k in 0..j {
                left -= matrix[i * size + k] * matrix[j * size + k];
            }
            if i != j {
                matrix[i * size + j] = left / matrix[j * size + j];
            } else if left > 0.0 {
                matrix[i * size + i] = left.sqrt();
            } else {
                return false;
            }
        }
    }
    true
}

/// Solves L·z = `values` in place.
fn forward(factor: &[f64], values: &mut [f64]) {
    let size = values.len();
    for i in 0..size {
        let mut left = values[i];
        for k in 0..i {
            left -= factor[i * size + k] * values[k];
        }
        values[i] = left / factor[i * size + i];
    }
}

/// Solves Lᵀ·z = `values` in place.
fn backward(factor: &[f64], values: &mut [f64]) {
    let size = values.len();
    for i in (0..size).rev() {
        let mut left = values[i];
        for k in i + 1..size {
            left -= factor[k * size + i] * values[k];
        }
        values[i] = left / factor[i * size + i];
    }
}

/// Covariance of the readings at `x` with an amplitude of 1 and `ratio` times as much noise, factored.
fn factored(x: &[f64], length: f64, ratio: f64) -> Option<Vec<f64>> {
    let size = x.len();
    let mut matrix = vec![0.0; size * size];
    for i in 0..size {
        for j in 0..i {
            matrix[i * size + j] = matern((x[i] - x[j]).abs() / length);
        }
        matrix[i * size + i] = 1.0 + ratio;
    }
    cholesky(&mut matrix, size).then_some(matrix)
}

/// The log marginal likelihood of normalised readings `z` with the best amplitude, and that amplitude.
fn profile(x: &[f64], z: &[f64], length: f64, ratio: f64) -> Option<(f64, f64)> {
    let factor = factored(x, length, ratio)?;
    let mut solved = z.to_vec();
    forward(&factor, &mut solved);
    let squares: f64 = solved.iter().map(|value| value * value).sum();
    let count = z.len() as f64;
    // The derivative in the amplitude is zero at the mean square.
    let amplitude = (squares / count).clamp(AMPLITUDES.0, AMPLITUDES.1);
    let determinant: f64 = (0..z.len()).map(|i| factor[i * z.len() + i].ln()).sum();
    let constant = count * (std::f64::consts::TAU * amplitude).ln();
    Some((-0.5 * (squares / amplitude + constant) - determinant, amplitude))
}

/// Mean and deviation; the deviation of equal values is taken to be 1.
fn moments(values: &[f64]) -> (f64, f64) {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
    (mean, if variance > 0.0 { variance.sqrt() } else { 1.0 })
}

impl Kernel {
    /// The parameters that make readings `y` at `x` likeliest. The same readings give the same answer.
    pub fn likeliest(x: &[f64], y: &[f64]) -> Self {
        let (centre, scale) = moments(y);
        let z: Vec<f64> = y.iter().map(|value| (value - centre) / scale).collect();
        let at = |length: f64, ratio: f64| {
            profile(x, &z, length, ratio).unwrap_or((f64::NEG_INFINITY, AMPLITUDES.1))
        };
        let mut best: Option<(f64, Self)> = None;
        for (mut length, mut ratio) in STARTS {
            let (mut likelihood, mut amplitude) = at(length, ratio);
            let mut step = STEPS.0;
            while step >= STEPS.1 {
                let (grow, shrink) = (step.exp(), (-step).exp());
                let mut moved = false;
                for (dl, dr) in [(grow, 1.0), (shrink, 1.0), (1.0, grow), (1.0, shrink)] {
                    let length_there = (length * dl).clamp(LENGTHS.0, LENGTHS.1);
                    let ratio_there = (ratio * dr).clamp(RATIOS.0, RATIOS.1);
                    let there = at(length_there, ratio_there);
                    if there.0 > likelihood {
                        (likelihood, amplitude) = there;
                        (length, ratio) = (length_there, ratio_there);
                        moved = true;
                        break;
                    }
                }
                if !moved {
                    step /= 2.0;
                }
            }
            if best.is_none_or(|(most, _)| likelihood > most) {
                let noise = (ratio * amplitude).clamp(NOISES.0, NOISES.1);
                best = Some((likelihood, Self { amplitude, length, noise }));
            }
        }
        best.map_or(Self { amplitude: 1.0, length: 1.0, noise: 1.0 }, |(_, kernel)| kernel)
    }
}

impl GaussianProcess {
    /// The process after readings `y` at `x`; none without readings, with as many `x` as `y` missing,
    /// or if they make no sense (NaN).
    pub fn new(x: &[f64], y: &[f64], kernel: Kernel) -> Option<Self> {
        if x.is_empty() || x.len() != y.len() {
            return None;
        }
        let (centre, scale) = moments(y);
        let z: Vec<f64> = y.iter().map(|value| (value - centre) / scale).collect();
        let mut factor = factored(x, kernel.length, kernel.noise / kernel.amplitude)?;
        factor.iter_mut().for_each(|value| *value *= kernel.amplitude.sqrt());
        let mut weights = z;
        forward(&factor, &mut weights);
        let squares: f64 = weights.iter().map(|value| value * value).sum();
        backward(&factor, &mut weights);
        let determinant: f64 = (0..x.len()).map(|i| factor[i * x.len() + i].ln()).sum();
        let constant = x.len() as f64 * std::f64::consts::TAU.ln();
        let likelihood = -0.5 * (squares + constant) - determinant;
        let whole = likelihood.is_finite() && weights.iter().all(|weight| weight.is_finite());
        whole.then(|| Self { kernel, x: x.to_vec(), centre, scale, factor, weights, likelihood })
    }

    /// Mean and standard deviation of the function at `x`, the readings' noise left out.
    pub fn predict(&self, x: f64) -> (f64, f64) {
        let covariance = |known: &f64| self.kernel.amplitude * matern((x - known).abs() / self.kernel.length);
        let mut near: Vec<f64> = self.x.iter().map(covariance).collect();
        let mean: f64 = near.iter().zip(&self.weights).map(|(a, b)| a * b).sum();
        forward(&self.factor, &mut near);
        let known: f64 = near.iter().map(|value| value * value).sum();
        let variance = (self.kernel.amplitude - known).max(0.0);
        (self.centre + self.scale * mean, self.scale * variance.sqrt())
    }

    /// Logarithm of how likely the normalised readings are.
    pub const fn log_likelihood(&self) -> f64 {
        self.likelihood
    }

    /// Mean and deviation of the readings, by which they are normalised.
    pub const fn moments(&self) -> (f64, f64) {
        (self.centre, self.scale)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-9, "{a} is not {b}");
    }

    #[test]
    fn matern_has_its_known_values() {
        close(matern(0.0), 1.0);
        // (1 + √5 + 5/3)·e^(-√5)
        close(matern(1.0), 0.523_994_108_831_820_3);
    }

    #[test]
    fn two_readings_by_hand() {
        // Readings 1 and 3 at 0 and 1 are -1 and 1 once normalised (mean 2, deviation 1). With k = matern(1),
        // amplitude 2 and noise 0.5 the covariance is [[2.5, 2k], [2k, 2.5]]; (-1, 1) is an eigenvector with
        // eigenvalue 2.5 - 2k, and (1, 1) one with 2.5 + 2k.
        let k = 0.523_994_108_831_820_3;
        let kernel = Kernel { amplitude: 2.0, length: 1.0, noise: 0.5 };
        let process = GaussianProcess::new(&[0.0, 1.0], &[1.0, 3.0], kernel).expect("a process");
        assert_eq!(process.moments(), (2.0, 1.0));
        let (odd, even) = (2.5 - 2.0 * k, 2.5 + 2.0 * k);
        // At a reading: mean 2 + (2 - 2k)/odd·(±1), variance 2 - kᵀK⁻¹k.
        let (mean, deviation) = process.predict(0.0);
        close(mean, 2.0 - (2.0 - 2.0 * k) / odd);
        let explained = ((2.0 + 2.0 * k).powi(2) / even + (2.0 - 2.0 * k).powi(2) / odd) / 2.0;
        close(deviation, (2.0 - explained).sqrt());
        // Half-way the two cancel out.
        let (mean, deviation) = process.predict(0.5);
        close(mean, 2.0);
        let half = 2.0 * matern(0.5);
        close(deviation, (2.0 - 2.0 * half * half / even).sqrt());
        // -½·zᵀK⁻¹z - ½·ln det K - ln 2π
        close(process.log_likelihood(), -1.0 / odd - 0.5 * (odd * even).ln() - std::f64::consts::TAU.ln());
        // Far away nothing is known.
        let (mean, deviation) = process.predict(1e3);
        close(mean, 2.0);
        close(deviation, 2f64.sqrt());
    }

    #[test]
    fn without_noise_it_goes_through_three_readings() {
        let kernel = Kernel { amplitude: 1.0, length: 0.5, noise: 1e-12 };
        let (x, y) = ([0.0, 0.4, 1.0], [5.0, -2.0, 7.5]);
        let process = GaussianProcess::new(&x, &y, kernel).expect("a process");
        for (x, y) in x.into_iter().zip(y) {
            let (mean, deviation) = process.predict(x);
            assert!((mean - y).abs() < 1e-6 && deviation < 1e-4, "{mean} ± {deviation} for {y}");
        }
        assert!(process.predict(0.7).1 > 0.1);
    }

    #[test]
    fn the_profile_is_the_likelihood() {
        let (x, y) = ([0.0, 0.1, 0.5, 0.9, 1.0], [1.0, 1.5, 3.0, 2.0, 2.2]);
        let (centre, scale) = moments(&y);
        let z: Vec<f64> = y.iter().map(|value| (value - centre) / scale).collect();
        let (likelihood, amplitude) = profile(&x, &z, 0.3, 0.2).expect("defined");
        let at = |amplitude: f64| {
            let kernel = Kernel { amplitude, length: 0.3, noise: 0.2 * amplitude };
            GaussianProcess::new(&x, &y, kernel).expect("a process").log_likelihood()
        };
        close(at(amplitude), likelihood);
        assert!(at(amplitude * 1.1) < likelihood && at(amplitude / 1.1) < likelihood);
    }

    #[test]
    fn the_likeliest_parameters_tell_noise_from_shape() {
        let x: Vec<f64> = (0..20).map(|i| f64::from(i) / 19.0).collect();
        let smooth: Vec<f64> = x.iter().map(|x| (3.0 * x).sin()).collect();
        let kernel = Kernel::likeliest(&x, &smooth);
        assert!(kernel.noise < 1e-3 * kernel.amplitude && kernel.length > 0.3, "{kernel:?}");
        // The sign changes from reading to reading: nothing but noise for a smooth function.
        let rough: Vec<f64> = (0..20).map(|i| if i % 2 == 0 { 1.0 } else { -1.0 }).collect();
        let kernel = Kernel::likeliest(&x, &rough);
        assert!(kernel.noise > 0.5 || kernel.length < 0.1, "{kernel:?}");
    }

    #[test]
    fn degenerate_readings_are_borne() {
        for (x, y) in [
            (vec![0.5; 20], vec![1.0; 20]),
            (vec![0.5; 20], (0..20).map(f64::from).collect()),
            (vec![0.0, 1.0, 0.0], vec![0.0; 3]),
            (vec![0.3], vec![1e13]),
        ] {
            let kernel = Kernel::likeliest(&x, &y);
            let process = GaussianProcess::new(&x, &y, kernel).expect("a process");
            let (mean, deviation) = process.predict(0.7);
            assert!(mean.is_finite() && deviation.is_finite(), "{x:?}, {y:?}: {mean} ± {deviation}");
        }
        let kernel = Kernel { amplitude: 1.0, length: 1.0, noise: 1.0 };
        assert!(GaussianProcess::new(&[], &[], kernel).is_none());
        assert!(GaussianProcess::new(&[1.0], &[f64::NAN], kernel).is_none());
        assert!(GaussianProcess::new(&[f64::NAN, 0.0], &[1.0, 2.0], kernel).is_none());
    }
}
