//! The networks of the policies as data, and their forward pass.
//!
//! One family covers all of them: an input layer with tanh, a number of equal blocks, a linear
//! head. `Normed` blocks make AutoMDT's and LDM's actor, `Residual` blocks their critic, `Dense`
//! blocks a plain multi-layer perceptron. Parameters lie in one flat vector in the order of
//! [`Shape::tensors`], so that training and production walk the same array.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// What a block computes from its input x.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Block {
    /// tanh(Linear(x)).
    Dense,
    /// tanh(x + Linear(tanh(Linear(x)))).
    Residual,
    /// tanh(x + LayerNorm(Linear(relu(LayerNorm(Linear(x)))))).
    Normed,
}

/// The sizes of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// Values it is shown.
    pub inputs: usize,
    /// Values between its layers.
    pub width: usize,
    /// Blocks after the input layer.
    pub blocks: usize,
    /// Their kind.
    pub block: Block,
    /// Values it answers.
    pub outputs: usize,
}

/// A named part of a network's parameters; a weight is stored as outputs × inputs, row by row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Its name within the network, as in `block.0.linear1.weight`.
    pub name: String,
    /// Its dimensions.
    pub dims: Vec<usize>,
    /// Where it lies among the parameters.
    pub range: Range<usize>,
}

/// The most values a layer may have in a policy file; far above any use, far below what would hurt.
pub const MAX_WIDTH: usize = 4096;

/// The ε of LayerNorm.
pub const NORM_EPSILON: f32 = 1e-5;

impl Shape {
    /// Whether the sizes make a network that fits into memory.
    pub fn is_sane(&self) -> bool {
        let sized = |n: usize| (1..=MAX_WIDTH).contains(&n);
        sized(self.inputs) && sized(self.width) && sized(self.outputs) && self.blocks <= 64
    }

    /// Every tensor in the order in which parameters lie and are used.
    pub fn tensors(&self) -> Vec<Tensor> {
        let mut tensors = Vec::new();
        let mut end = 0;
        let mut add = |name: String, dims: Vec<usize>| {
            let start = end;
            end += dims.iter().product::<usize>();
            tensors.push(Tensor { name, dims, range: start..end });
        };
        let mut linear = |name: String, inputs, outputs| {
            add(format!("{name}.weight"), vec![outputs, inputs]);
            add(format!("{name}.bias"), vec![outputs]);
        };
        let width = self.width;
        linear("input".to_owned(), self.inputs, width);
        for i in 0..self.blocks {
            let part = |name: &str| format!("block.{i}.{name}");
            match self.block {
                Block::Dense => linear(part("linear"), width, width),
                Block::Residual => {
                    linear(part("linear1"), width, width);
                    linear(part("linear2"), width, width);
                }
                Block::Normed => {
                    for half in ["1", "2"] {
                        linear(part(&format!("linear{half}")), width, width);
                        // A norm has as many gains and offsets as the layer has outputs.
                        linear(part(&format!("norm{half}")), 1, width);
                    }
                }
            }
        }
        linear("head".to_owned(), width, self.outputs);
        for tensor in &mut tensors {
            if tensor.name.contains(".norm") {
                tensor.dims.truncate(1);
            }
        }
        tensors
    }

    /// How many parameters there are.
    pub fn parameters(&self) -> usize {
        self.tensors().last().map_or(0, |last| last.range.end)
    }
}

/// A network with its parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    shape: Shape,
    parameters: Vec<f32>,
}

impl Network {
    /// A network of `shape`; none if there are more or fewer parameters than it has.
    pub fn new(shape: Shape, parameters: Vec<f32>) -> Option<Self> {
        (shape.is_sane() && parameters.len() == shape.parameters()).then_some(Self { shape, parameters })
    }

    /// Its sizes.
    pub const fn shape(&self) -> Shape {
        self.shape
    }

    /// Its parameters, in the order of [`Shape::tensors`].
    pub fn parameters(&self) -> &[f32] {
        &self.parameters
    }

    /// What the network answers to `input`.
    ///
    /// # Panics
    /// If `input` has not as many values as the shape says.
    pub fn forward(&self, input: &[f32]) -> Vec<f32> {
        let Shape { inputs, width, blocks, block, outputs } = self.shape;
        assert_eq!(input.len(), inputs, "a network is shown as many values as it has inputs");
        let mut rest = Parameters(&self.parameters);
        let mut x = rest.linear(input, width);
        x.iter_mut().for_each(|value| *value = tanh(*value));
        for _ in 0..blocks {
            let mut branch = rest.linear(&x, width);
            match block {
                Block::Dense => x.fill(0.0),
                Block::Residual => {
                    branch.iter_mut().for_each(|value| *value = tanh(*value));
                    branch = rest.linear(&branch, width);
                }
                Block::Normed => {
                    rest.norm(&mut branch);
                    branch.iter_mut().for_each(|value| *value = value.max(0.0));
                    branch = rest.linear(&branch, width);
                    rest.norm(&mut branch);
                }
            }
            x.iter_mut().zip(&branch).for_each(|(x, branch)| *x = tanh(*x + branch));
        }
        rest.linear(&x, outputs)
    }
}

/// Parameters not yet used.
struct Parameters<'a>(&'a [f32]);

impl<'a> Parameters<'a> {
    fn take(&mut self, count: usize) -> &'a [f32] {
        let (head, rest) = self.0.split_at(count);
        self.0 = rest;
        head
    }

    fn linear(&mut self, input: &[f32], outputs: usize) -> Vec<f32> {
        let weight = self.take(outputs * input.len());
        let bias = self.take(outputs);
        let mut output = vec![0.0; outputs];
        linear_row(weight, bias, input, &mut output);
        output
    }

    fn norm(&mut self, values: &mut [f32]) {
        let gain = self.take(values.len());
        let offset = self.take(values.len());
        let (mean, inverse) = moments(values);
        for ((value, gain), offset) in values.iter_mut().zip(gain).zip(offset) {
            *value = (*value - mean) * inverse * gain + offset;
        }
    }
}

/// One row through a linear layer: `output = weight · input + bias`.
#[inline]
pub fn linear_row(weight: &[f32], bias: &[f32], input: &[f32], output: &mut [f32]) {
    for ((row, bias), output) in weight.chunks_exact(input.len()).zip(bias).zip(output) {
        *output = bias + dot(row, input);
    }
}

/// Σ of what `term` makes of each pair, in eight lanes, so that the compiler can use vector
/// instructions; both slices are equally long.
#[inline]
fn sum_of(a: &[f32], b: &[f32], term: impl Fn(f32, f32) -> f32) -> f32 {
    let mut lanes = [0.0f32; 8];
    let (a8, b8) = (a.chunks_exact(8), b.chunks_exact(8));
    let rest: f32 = a8.remainder().iter().zip(b8.remainder()).map(|(&a, &b)| term(a, b)).sum();
    for (a, b) in a8.zip(b8) {
        for ((lane, &a), &b) in lanes.iter_mut().zip(a).zip(b) {
            *lane += term(a, b);
        }
    }
    lanes.iter().sum::<f32>() + rest
}

/// The scalar product.
#[inline]
pub fn dot(a: &[f32], b: &[f32]) -> f32 {
    sum_of(a, b, |a, b| a * b)
}

/// The sum of `values`.
#[inline]
pub fn total(values: &[f32]) -> f32 {
    sum_of(values, values, |value, _| value)
}

/// The mean of `values`, and one by their standard deviation.
#[inline]
pub fn moments(values: &[f32]) -> (f32, f32) {
    let count = values.len() as f32;
    let mean = total(values) / count;
    let variance = sum_of(values, values, |value, _| (value - mean) * (value - mean)) / count;
    (mean, 1.0 / (variance + NORM_EPSILON).sqrt())
}

/// tanh as Lambert's continued fraction cut after nine steps: no branch and no call, so loops over
/// it vectorise. Within 3·10⁻⁵ of the true value; training and production use the same one.
#[inline]
pub fn tanh(x: f32) -> f32 {
    let x = x.clamp(-5.6, 5.6);
    let s = x * x;
    let over = x * (34_459_425.0 + s * (4_729_725.0 + s * (135_135.0 + s * (990.0 + s))));
    let under = 34_459_425.0 + s * (16_216_200.0 + s * (945_945.0 + s * (13_860.0 + s * 45.0)));
    (over / under).clamp(-1.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tanh_is_close_and_stays_within_one() {
        for i in -4000..=4000 {
            let x = i as f32 * 0.005;
            let error = (tanh(x) - x.tanh()).abs();
            assert!(error < 3e-5 && tanh(x).abs() <= 1.0, "{x}: {error}");
        }
    }

    #[test]
    fn tensors_cover_the_parameters_without_gaps() {
        for block in [Block::Dense, Block::Residual, Block::Normed] {
            let shape = Shape { inputs: 8, width: 16, blocks: 3, block, outputs: 3 };
            let mut end = 0;
            for tensor in shape.tensors() {
                assert_eq!(tensor.range.start, end, "{}", tensor.name);
                assert_eq!(tensor.dims.iter().product::<usize>(), tensor.range.len(), "{}", tensor.name);
                end = tensor.range.end;
            }
            assert_eq!(end, shape.parameters());
            assert!(Network::new(shape, vec![0.0; end]).is_some());
            assert!(Network::new(shape, vec![0.0; end + 1]).is_none());
        }
    }

    #[test]
    fn the_papers_networks_have_their_size() {
        // 8 → 256, three normed blocks, → 3; 8 → 256, two residual blocks, → 1.
        let actor = Shape { inputs: 8, width: 256, blocks: 3, block: Block::Normed, outputs: 3 };
        let critic = Shape { inputs: 8, width: 256, blocks: 2, block: Block::Residual, outputs: 1 };
        assert_eq!(actor.parameters(), 8 * 256 + 256 + 3 * 2 * (256 * 256 + 3 * 256) + 3 * 256 + 3);
        assert_eq!(critic.parameters(), 8 * 256 + 256 + 2 * 2 * (256 * 256 + 256) + 256 + 1);
    }

    #[test]
    fn a_small_network_answers_what_it_must() {
        // 1 → 2 → 1 with one dense block, by hand.
        let shape = Shape { inputs: 1, width: 2, blocks: 1, block: Block::Dense, outputs: 1 };
        let parameters =
            vec![0.5, -1.0, 0.1, 0.2, /**/ 1.0, 2.0, 0.0, -1.0, 0.0, 0.3, /**/ 2.0, 1.0, -0.5];
        let network = Network::new(shape, parameters).expect("the count fits");
        let (a, b) = ((0.5f32 * 0.6 + 0.1).tanh(), (-0.6f32 + 0.2).tanh());
        let (c, d) = ((a + 2.0 * b).tanh(), (0.3 - b).tanh());
        let wanted = 2.0 * c + d - 0.5;
        assert!((network.forward(&[0.6])[0] - wanted).abs() < 1e-5);
    }
}
