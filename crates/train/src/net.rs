//! The batched forward pass of a policy's networks, and its gradient.
//!
//! The same walk over the same parameters as `control::policy::network`, for many rows at once and
//! keeping what the way back needs. A test holds both passes equal, another holds the gradient to
//! finite differences.

use tidegate_control::Rng;
use tidegate_control::policy::network::{Block, Network, Shape, dot, linear_row, moments, tanh, total};

/// Batches up to this size go row by row: a matrix product pays its packing only beyond.
const FEW: usize = 3;

/// A network that can be trained.
#[derive(Clone, Debug)]
pub struct Net {
    shape: Shape,
    /// In the order of [`Shape::tensors`].
    pub parameters: Vec<f32>,
}

/// What a forward pass leaves behind; reused from pass to pass.
#[derive(Clone, Debug, Default)]
pub struct Tape {
    rows: usize,
    input: Vec<f32>,
    /// What the input layer and each block hand on.
    handed: Vec<Vec<f32>>,
    blocks: Vec<BlockTape>,
    output: Vec<f32>,
    /// Room for the way back.
    room: [Vec<f32>; 3],
}

#[derive(Clone, Debug, Default)]
struct BlockTape {
    /// What the first half hands to the second.
    middle: Vec<f32>,
    norms: [NormTape; 2],
}

#[derive(Clone, Debug, Default)]
struct NormTape {
    /// The normalised rows, before gain and offset.
    unit: Vec<f32>,
    /// One by each row's standard deviation.
    inverse: Vec<f32>,
}

impl Net {
    /// Weights drawn as fits tanh layers, the head scaled down to `gain` so that the first answers
    /// lie near zero.
    pub fn new(shape: Shape, gain: f32, rng: &mut Rng) -> Self {
        let mut parameters = vec![0.0; shape.parameters()];
        for tensor in shape.tensors() {
            let part = &mut parameters[tensor.range];
            if tensor.name.contains(".norm") {
                // Gains are one, offsets zero.
                part.fill(if tensor.name.ends_with("weight") { 1.0 } else { 0.0 });
            } else if let [_, inputs] = tensor.dims[..] {
                let scale = if tensor.name.starts_with("head") { gain } else { 1.0 };
                let deviation = f64::from(scale) / (inputs as f64).sqrt();
                part.fill_with(|| rng.normal(0.0, deviation) as f32);
            }
        }
        Self { shape, parameters }
    }

    /// Weights and offsets drawn evenly from ±1/√inputs, as the papers' framework does unless told.
    pub(crate) fn uniform(shape: Shape, rng: &mut Rng) -> Self {
        let mut net = Self::new(shape, 1.0, rng);
        let mut most = 0.0;
        for tensor in shape.tensors().into_iter().filter(|tensor| !tensor.name.contains(".norm")) {
            if let [_, inputs] = tensor.dims[..] {
                most = 1.0 / (inputs as f64).sqrt();
            }
            net.parameters[tensor.range].fill_with(|| rng.uniform(-most, most) as f32);
        }
        net
    }

    /// Goes on from a trained network.
    pub(crate) fn from_network(network: &Network) -> Self {
        Self { shape: network.shape(), parameters: network.parameters().to_vec() }
    }

    /// The network as production uses it; none if a parameter is no number.
    pub(crate) fn to_network(&self) -> Option<Network> {
        let finite = self.parameters.iter().all(|value| value.is_finite());
        finite.then(|| Network::new(self.shape, self.parameters.clone())).flatten()
    }

    /// Its sizes.
    pub const fn shape(&self) -> Shape {
        self.shape
    }

    /// Answers `input`, row after row; the answers stay on the tape.
    pub fn forward<'t>(&self, input: &[f32], tape: &'t mut Tape) -> &'t [f32] {
        let Shape { inputs, width, blocks, block, outputs } = self.shape;
        let rows = input.len() / inputs;
        assert_eq!(input.len(), rows * inputs, "whole rows");
        tape.rows = rows;
        tape.input.clear();
        tape.input.extend_from_slice(input);
        tape.handed.resize_with(blocks + 1, Vec::new);
        tape.blocks.resize_with(blocks, BlockTape::default);
        let mut walk = Walk { parameters: &self.parameters, at: 0 };
        walk.linear(&tape.input, rows, inputs, width, &mut tape.handed[0]);
        tape.handed[0].iter_mut().for_each(|x| *x = tanh(*x));
        let room = &mut tape.room[0];
        for i in 0..blocks {
            let (done, next) = tape.handed.split_at_mut(i + 1);
            let (x, y) = (&done[i], &mut next[0]);
            let kept = &mut tape.blocks[i];
            match block {
                Block::Dense => {
                    walk.linear(x, rows, width, width, y);
                    y.iter_mut().for_each(|y| *y = tanh(*y));
                }
                Block::Residual => {
                    walk.linear(x, rows, width, width, &mut kept.middle);
                    kept.middle.iter_mut().for_each(|h| *h = tanh(*h));
                    walk.linear(&kept.middle, rows, width, width, y);
                    y.iter_mut().zip(x).for_each(|(y, x)| *y = tanh(*x + *y));
                }
                Block::Normed => {
                    walk.linear(x, rows, width, width, room);
                    walk.norm(room, width, &mut kept.norms[0], &mut kept.middle);
                    kept.middle.iter_mut().for_each(|h| *h = h.max(0.0));
                    walk.linear(&kept.middle, rows, width, width, room);
                    walk.norm(room, width, &mut kept.norms[1], y);
                    y.iter_mut().zip(x).for_each(|(y, x)| *y = tanh(*x + *y));
                }
            }
        }
        walk.linear(&tape.handed[blocks], rows, width, outputs, &mut tape.output);
        &tape.output
    }

    /// Puts the gradient of every parameter into `gradient`, given that of the answers of the last
    /// forward pass on `tape`.
    pub(crate) fn backward(&self, tape: &mut Tape, d_output: &[f32], gradient: &mut [f32]) {
        let Shape { inputs, width, blocks, block, outputs } = self.shape;
        let rows = tape.rows;
        assert_eq!(d_output.len(), rows * outputs, "a gradient for every answer");
        let mut back = Back { parameters: &self.parameters, gradient, at: self.parameters.len(), rows };
        let [d, branch, other] = &mut tape.room;
        back.linear(&tape.handed[blocks], d_output, width, outputs, Some(d));
        for i in (0..blocks).rev() {
            let (x, y, kept) = (&tape.handed[i], &tape.handed[i + 1], &tape.blocks[i]);
            through_tanh(d, y);
            match block {
                Block::Dense => {
                    back.linear(x, d, width, width, Some(branch));
                    std::mem::swap(d, branch);
                }
                Block::Residual => {
                    back.linear(&kept.middle, d, width, width, Some(branch));
                    through_tanh(branch, &kept.middle);
                    back.linear(x, branch, width, width, Some(other));
                    d.iter_mut().zip(&*other).for_each(|(d, o)| *d += o);
                }
                Block::Normed => {
                    branch.clone_from(d);
                    back.norm(&kept.norms[1], branch, width);
                    back.linear(&kept.middle, branch, width, width, Some(other));
                    other
                        .iter_mut()
                        .zip(&kept.middle)
                        .for_each(|(o, h)| *o = if *h > 0.0 { *o } else { 0.0 });
                    back.norm(&kept.norms[0], other, width);
                    back.linear(x, other, width, width, Some(branch));
                    d.iter_mut().zip(&*branch).for_each(|(d, b)| *d += b);
                }
            }
        }
        through_tanh(d, &tape.handed[0]);
        back.linear(&tape.input, d, inputs, width, None);
    }
}

/// The derivative of tanh from its value.
fn through_tanh(d: &mut [f32], y: &[f32]) {
    d.iter_mut().zip(y).for_each(|(d, y)| *d *= 1.0 - y * y);
}

/// Parameters, from the first on.
struct Walk<'a> {
    parameters: &'a [f32],
    at: usize,
}

impl<'a> Walk<'a> {
    fn take(&mut self, count: usize) -> &'a [f32] {
        self.at += count;
        &self.parameters[self.at - count..self.at]
    }

    fn linear(&mut self, x: &[f32], rows: usize, inputs: usize, outputs: usize, y: &mut Vec<f32>) {
        let weight = self.take(inputs * outputs);
        let bias = self.take(outputs);
        y.resize(rows * outputs, 0.0);
        if rows <= FEW {
            let pairs = x.chunks_exact(inputs).zip(y.chunks_exact_mut(outputs));
            pairs.for_each(|(x, y)| linear_row(weight, bias, x, y));
            return;
        }
        y.chunks_exact_mut(outputs).for_each(|row| row.copy_from_slice(bias));
        let x = Matrix { data: x, rows, columns: inputs, turned: false };
        let weight = Matrix { data: weight, rows: outputs, columns: inputs, turned: true };
        multiply_add(x, weight, y);
    }

    fn norm(&mut self, x: &[f32], width: usize, kept: &mut NormTape, y: &mut Vec<f32>) {
        let gain = self.take(width);
        let offset = self.take(width);
        y.resize(x.len(), 0.0);
        kept.unit.resize(x.len(), 0.0);
        kept.inverse.clear();
        let rows = x.chunks_exact(width).zip(y.chunks_exact_mut(width));
        for ((x, y), unit) in rows.zip(kept.unit.chunks_exact_mut(width)) {
            let (mean, inverse) = moments(x);
            kept.inverse.push(inverse);
            for i in 0..width {
                unit[i] = (x[i] - mean) * inverse;
                y[i] = unit[i] * gain[i] + offset[i];
            }
        }
    }
}

/// Parameters and their gradient, from the last on.
struct Back<'a> {
    parameters: &'a [f32],
    gradient: &'a mut [f32],
    at: usize,
    rows: usize,
}

impl Back<'_> {
    /// Through `y = x · weightᵀ + bias`: gradients of both from `d_y`, and that of x if wanted.
    fn linear(&mut self, x: &[f32], d_y: &[f32], inputs: usize, outputs: usize, d_x: Option<&mut Vec<f32>>) {
        self.at -= outputs;
        let d_bias = &mut self.gradient[self.at..self.at + outputs];
        d_bias.fill(0.0);
        for row in d_y.chunks_exact(outputs) {
            d_bias.iter_mut().zip(row).for_each(|(sum, d)| *sum += d);
        }
        self.at -= inputs * outputs;
        let range = self.at..self.at + inputs * outputs;
        let d_weight = &mut self.gradient[range.clone()];
        d_weight.fill(0.0);
        let rows = self.rows;
        let d_y_turned = Matrix { data: d_y, rows, columns: outputs, turned: true };
        multiply_add(d_y_turned, Matrix { data: x, rows, columns: inputs, turned: false }, d_weight);
        if let Some(d_x) = d_x {
            d_x.clear();
            d_x.resize(rows * inputs, 0.0);
            let d_y = Matrix { data: d_y, rows, columns: outputs, turned: false };
            let weight = &self.parameters[range];
            multiply_add(d_y, Matrix { data: weight, rows: outputs, columns: inputs, turned: false }, d_x);
        }
    }

    /// Through a LayerNorm; `d` becomes the gradient of its input.
    fn norm(&mut self, kept: &NormTape, d: &mut [f32], width: usize) {
        self.at -= 2 * width;
        let gain = &self.parameters[self.at..self.at + width];
        let (d_gain, d_offset) = self.gradient[self.at..self.at + 2 * width].split_at_mut(width);
        d_gain.fill(0.0);
        d_offset.fill(0.0);
        let rows = d.chunks_exact_mut(width).zip(kept.unit.chunks_exact(width));
        for ((d, unit), inverse) in rows.zip(&kept.inverse) {
            for i in 0..width {
                d_gain[i] += d[i] * unit[i];
                d_offset[i] += d[i];
                d[i] *= gain[i];
            }
            let (mean, along) = (total(d) / width as f32, dot(d, unit) / width as f32);
            for i in 0..width {
                d[i] = (d[i] - mean - unit[i] * along) * inverse;
            }
        }
    }
}

/// A matrix stored row by row, used as it is or turned.
#[derive(Clone, Copy)]
struct Matrix<'a> {
    data: &'a [f32],
    rows: usize,
    columns: usize,
    turned: bool,
}

impl Matrix<'_> {
    /// Rows, columns, and the steps from one to the next of each.
    const fn layout(&self) -> (usize, usize, isize, isize) {
        let step = self.columns as isize;
        if self.turned { (self.columns, self.rows, 1, step) } else { (self.rows, self.columns, step, 1) }
    }
}

/// `c += a · b`; c is stored row by row.
fn multiply_add(a: Matrix<'_>, b: Matrix<'_>, c: &mut [f32]) {
    let ((m, k, a_row, a_column), (inner, n, b_row, b_column)) = (a.layout(), b.layout());
    assert!(inner == k && a.data.len() == m * k && b.data.len() == k * n && c.len() == m * n);
    // SAFETY: the sizes were just checked against the slices, whose rows lie without gaps, and c
    // overlaps neither a nor b because it is borrowed mutably.
    #[allow(unsafe_code)]
    unsafe {
        matrixmultiply::sgemm(
            m,
            k,
            n,
            1.0,
            a.data.as_ptr(),
            a_row,
            a_column,
            b.data.as_ptr(),
            b_row,
            b_column,
            1.0,
            c.as_mut_ptr(),
            n as isize,
            1,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCKS: [Block; 3] = [Block::Dense, Block::Residual, Block::Normed];

    fn net(block: Block, rng: &mut Rng) -> Net {
        let shape = Shape { inputs: 5, width: 16, blocks: 2, block, outputs: 3 };
        let mut net = Net::new(shape, 1.0, rng);
        // Off the values that norms start with.
        net.parameters.iter_mut().for_each(|p| *p += rng.normal(0.0, 0.1) as f32);
        net
    }

    fn rows(count: usize, rng: &mut Rng) -> Vec<f32> {
        (0..count * 5).map(|_| rng.normal(0.0, 1.0) as f32).collect()
    }

    #[test]
    fn training_and_production_give_the_same_answers() {
        let mut rng = Rng::new(1);
        for block in BLOCKS {
            let net = net(block, &mut rng);
            let network = net.to_network().expect("finite");
            for count in [1, 3, 4, 33] {
                let input = rows(count, &mut rng);
                let mut tape = Tape::default();
                let batched = net.forward(&input, &mut tape);
                for (input, batched) in input.chunks(5).zip(batched.chunks(3)) {
                    for (one, many) in network.forward(input).iter().zip(batched) {
                        assert!((one - many).abs() < 2e-5, "{block:?}: {one} and {many}");
                    }
                }
            }
        }
    }

    #[test]
    fn gradients_match_finite_differences() {
        let mut rng = Rng::new(2);
        for block in BLOCKS {
            let net = net(block, &mut rng);
            let input = rows(7, &mut rng);
            let wanted: Vec<f32> = (0..21).map(|_| rng.normal(0.0, 1.0) as f32).collect();
            let loss = |net: &Net| {
                let mut tape = Tape::default();
                let output = net.forward(&input, &mut tape);
                output.iter().zip(&wanted).map(|(y, w)| f64::from((y - w) * (y - w))).sum::<f64>() / 2.0
            };
            let mut tape = Tape::default();
            let d: Vec<f32> =
                net.forward(&input, &mut tape).iter().zip(&wanted).map(|(y, w)| y - w).collect();
            let mut gradient = vec![f32::NAN; net.parameters.len()];
            net.backward(&mut tape, &d, &mut gradient);
            let (mut difference, mut size) = (0.0, 0.0);
            for (i, found) in gradient.iter().enumerate() {
                let at = |by: f32| {
                    let mut moved = net.clone();
                    moved.parameters[i] += by;
                    loss(&moved)
                };
                let slope = (at(5e-4) - at(-5e-4)) / 1e-3;
                difference += (slope - f64::from(*found)).powi(2);
                size += slope * slope;
            }
            let error = (difference / size).sqrt();
            assert!(error < 5e-3, "{block:?}: {error}");
        }
    }
}
