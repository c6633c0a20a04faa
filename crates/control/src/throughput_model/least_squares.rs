//! The coefficients nearest to all samples at once.
//!
//! What strays in a sample is a share of its throughput, so distance is that of logarithms, and a sample
//! farther off than noise explains pulls no harder than one at that distance (Huber), so that one hiccup does
//! not bend the curve. Levenberg and Marquardt's method from a curve that is near already.

use crate::throughput_model::dynamic_order::EXPONENTS;
use crate::throughput_model::{Curve, Dinda, DynamicOrder, FullSecondOrder, Hacker, Sample};

/// Distances, in logarithms, beyond which the pull of a sample grows no more: thrice a noise of 5 %.
const FAR: f64 = 0.15;
/// Steps tried. It converges in about ten.
const STEPS: u32 = 60;
/// A step that brings less than this share of what is left is the last.
const ENOUGH: f64 = 1e-9;
/// Half the interval of a numerical derivative; coefficients are scaled to about 1.
const DELTA: f64 = 1e-6;

/// A stream may move so many times what it does in the best sample, elsewhere on the curve: what nobody saw
/// between two samples, one of twice the streams of the other, can hardly be more.
const SPIKE: f64 = 1.3;

type Vector = [f64; 3];

/// ln(predicted/measured); none where the curve predicts nothing.
pub(super) fn residual(curve: &Curve, sample: &Sample) -> Option<f64> {
    Some((curve.mbps(sample.n())? / sample.throughput.as_mbps()).ln())
}

/// What `residual` costs, and the weight with which least squares count it as much.
fn huber(residual: f64) -> (f64, f64) {
    let off = residual.abs();
    if off <= FAR { (off * off, 1.0) } else { (FAR * (2.0 * off - FAR), FAR / off) }
}

/// The sum over `samples` of the square of what each strays by, less where that is far; none where the
/// curve does not predict one of them or has a spike between them.
pub(super) fn cost(curve: &Curve, samples: &[Sample]) -> Option<f64> {
    let each = samples.iter().map(|sample| sample.throughput.as_mbps() / sample.n()).fold(0.0, f64::max);
    if curve.most_each() > SPIKE * each {
        return None;
    }
    samples.iter().map(|sample| residual(curve, sample).map(|residual| huber(residual).0)).sum()
}

/// A curve's coefficients scaled to about 1, those that must be positive as logarithms.
struct Scale {
    n: f64,
    impedance: f64,
}

impl Scale {
    fn of(samples: &[Sample]) -> Self {
        let mean = |log: &dyn Fn(&Sample) -> f64| {
            (samples.iter().map(log).sum::<f64>() / samples.len() as f64).exp()
        };
        Self { n: mean(&|sample| sample.n().ln()), impedance: mean(&|sample| sample.impedance().ln()) }
    }

    fn shrink(&self, curve: &Curve) -> Option<(Vector, usize)> {
        let Self { n, impedance } = self;
        match *curve {
            Curve::FullSecondOrder(FullSecondOrder { a, b, c }) => {
                Some(([a * n * n / impedance, b * n / impedance, c / impedance], 3))
            }
            Curve::DynamicOrder(DynamicOrder { a, b, c }) if b > 0.0 => {
                Some(([(a * n.powf(c) / impedance).ln(), (b / impedance).ln(), c], 3))
            }
            Curve::Dinda(Dinda { a, b }) if b > 0.0 => {
                Some(([(a * n * n / impedance).ln(), (b / impedance).ln(), 0.0], 2))
            }
            _ => None,
        }
    }

    fn grow(&self, like: &Curve, [x, y, z]: Vector) -> Curve {
        let Self { n, impedance } = self;
        match like {
            Curve::FullSecondOrder(_) => Curve::FullSecondOrder(FullSecondOrder {
                a: x * impedance / (n * n),
                b: y * impedance / n,
                c: z * impedance,
            }),
            Curve::DynamicOrder(_) => {
                let c = z.clamp(EXPONENTS.0, EXPONENTS.1);
                Curve::DynamicOrder(DynamicOrder {
                    a: x.exp() * impedance / n.powf(c),
                    b: y.exp() * impedance,
                    c,
                })
            }
            Curve::Dinda(_) => {
                Curve::Dinda(Dinda { a: x.exp() * impedance / (n * n), b: y.exp() * impedance })
            }
            other => *other,
        }
    }
}

/// The curve of the same model nearest to `samples`, beginning at `from`; none if that is as near already or
/// nothing nearer is a path.
pub(super) fn refine(from: &Curve, samples: &[Sample]) -> Option<Curve> {
    if let Curve::Hacker(_) = from {
        return Hacker::nearest(samples).map(Curve::Hacker);
    }
    let scale = Scale::of(samples);
    let (mut at, size) = scale.shrink(from)?;
    let first = cost(from, samples)?;
    let (mut left, mut damping) = (first, 1e-3);
    for _ in 0..STEPS {
        let Some(step) = step(&scale, from, at, size, samples, damping) else { break };
        let next: Vector = std::array::from_fn(|i| at[i] + step[i]);
        let curve = scale.grow(from, next);
        match cost(&curve, samples).filter(|_| curve.check().is_ok()) {
            Some(now) if now <= left => {
                let last = left - now <= ENOUGH * left;
                (at, left) = (next, now);
                damping *= 0.2;
                if last {
                    break;
                }
            }
            _ if damping > 1e9 => break,
            _ => damping *= 8.0,
        }
    }
    (left < first).then(|| scale.grow(from, at))
}

/// One damped step of Gauss and Newton.
fn step(
    scale: &Scale,
    like: &Curve,
    at: Vector,
    size: usize,
    samples: &[Sample],
    damping: f64,
) -> Option<Vector> {
    let (mut matrix, mut right) = ([[0.0; 3]; 3], [0.0; 3]);
    for sample in samples {
        let off = |at: Vector| residual(&scale.grow(like, at), sample);
        let here = off(at)?;
        let mut slope = [0.0; 3];
        for (i, slope) in slope.iter_mut().enumerate().take(size) {
            let (mut low, mut high) = (at, at);
            low[i] -= DELTA;
            high[i] += DELTA;
            *slope = (off(high)? - off(low)?) / (2.0 * DELTA);
        }
        let weight = huber(here).1;
        for i in 0..size {
            right[i] -= weight * slope[i] * here;
            for j in 0..size {
                matrix[i][j] += weight * slope[i] * slope[j];
            }
        }
    }
    for (i, row) in matrix.iter_mut().enumerate().take(size) {
        row[i] += damping * row[i].max(1e-9);
    }
    solve(matrix, right, size)
}

/// Gauss's elimination of a positive definite system.
fn solve(mut matrix: [[f64; 3]; 3], mut right: Vector, size: usize) -> Option<Vector> {
    for i in 0..size {
        let pivot = matrix[i][i];
        if !(pivot.is_finite() && pivot > 0.0) {
            return None;
        }
        let row = matrix[i];
        for k in i + 1..size {
            let factor = matrix[k][i] / pivot;
            for j in i..size {
                matrix[k][j] -= factor * row[j];
            }
            right[k] -= factor * right[i];
        }
    }
    let mut solution = [0.0; 3];
    for i in (0..size).rev() {
        let known: f64 = (i + 1..size).map(|j| matrix[i][j] * solution[j]).sum();
        solution[i] = (right[i] - known) / matrix[i][i];
    }
    solution.iter().all(|x| x.is_finite()).then_some(solution)
}
