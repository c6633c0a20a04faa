//! A policy that learns: PPO's clipped objective (Schulman et al.).
//!
//! Actions are numbers, drawn from Gaussians with a standard deviation a head that does not depend on the
//! state, as in both papers; or one of each of several groups of choices, drawn independently.

use std::ops::Range;

use tidegate_control::Rng;
use tidegate_control::policy::network::dot;
use tidegate_control::policy::{Policy, Shape};

use crate::adam::{self, Adam};
use crate::net::{Net, Tape};

/// ln √(2π).
const LOG_ROOT_TAU: f32 = 0.918_938_5;
/// The papers' limits on ln σ.
const LOG_SIGMA: std::ops::RangeInclusive<f32> = -20.0..=2.0;

/// What an update strives for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Objective {
    /// How far the ratio of new to old probability may pull.
    pub clip: f32,
    /// What a unit of entropy is worth.
    pub(crate) entropy: f32,
}

/// Steps to learn from; everything row by row, N steps.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    /// What was seen: N rows of the network's inputs.
    pub states: Vec<f32>,
    /// What was done: N rows, one value an action, or the choice itself
    /// where there are choices.
    pub actions: Vec<f32>,
    /// ln of the probability, or its density, it was done with.
    pub(crate) log_densities: Vec<f32>,
    /// How much better than expected it was: N, of mean 0 and deviation 1
    /// once standardized.
    pub(crate) advantages: Vec<f32>,
}

impl Samples {
    /// Copies the rows called `rows` of `from`.
    pub fn gather(&mut self, from: &Self, rows: &[usize], inputs: usize, heads: usize) {
        self.states.clear();
        self.actions.clear();
        self.log_densities.clear();
        self.advantages.clear();
        for &row in rows {
            self.states.extend_from_slice(&from.states[row * inputs..(row + 1) * inputs]);
            self.actions.extend_from_slice(&from.actions[row * heads..(row + 1) * heads]);
            self.log_densities.push(from.log_densities[row]);
            self.advantages.push(from.advantages[row]);
        }
    }
}

/// The policy and its optimiser.
#[derive(Clone, Debug)]
pub struct Actor {
    /// The mean of each action, or the logit of each choice.
    pub net: Net,
    /// ln σ of each action; empty for choices.
    pub log_sigma: Vec<f32>,
    /// Where each group of choices lies among the answers; empty for numbers.
    groups: Vec<Range<usize>>,
    adam: Adam,
    adam_sigma: Adam,
    gradient: Vec<f32>,
    d_mean: Vec<f32>,
    d_sigma: Vec<f32>,
}

impl Actor {
    /// A policy that begins near zero with a spread of `sigma`.
    pub fn new(shape: Shape, sigma: f32, adam: adam::AdamConfig, rng: &mut Rng) -> Self {
        Self::from_net(Net::new(shape, 0.01, rng), vec![sigma.ln(); shape.outputs], adam)
    }

    /// Goes on from a policy of choices, in groups of the sizes `choices`; one of each group is taken.
    ///
    /// # Panics
    /// If the network has not as many answers as there are choices.
    pub(crate) fn of_choices(net: Net, choices: Vec<usize>, adam: adam::AdamConfig) -> Self {
        let mut end = 0;
        let mut groups = Vec::with_capacity(choices.len());
        for size in choices {
            groups.push(end..end + size);
            end += size;
        }
        assert_eq!(net.shape().outputs, end, "a policy has an answer for each choice");
        Self { groups, ..Self::from_net(net, Vec::new(), adam) }
    }

    /// Whether an action is one of several rather than numbers.
    fn has_choices(&self) -> bool {
        !self.groups.is_empty()
    }

    /// Goes on from a Gaussian policy.
    pub(crate) fn from_net(net: Net, log_sigma: Vec<f32>, adam: adam::AdamConfig) -> Self {
        Self {
            adam: Adam::new(net.parameters.len(), adam),
            adam_sigma: Adam::new(log_sigma.len(), adam),
            gradient: vec![0.0; net.parameters.len()],
            d_mean: Vec::new(),
            d_sigma: Vec::new(),
            net,
            log_sigma,
            groups: Vec::new(),
        }
    }

    /// Takes over the weights of `policy`; false, and nothing is changed, if its network has another shape.
    pub fn adopt(&mut self, policy: &Policy) -> bool {
        let net = Net::from_network(&policy.actor);
        let fits = net.shape() == self.net.shape() && policy.log_sigma.len() == self.log_sigma.len();
        if fits {
            self.net = net;
            self.log_sigma.clone_from(&policy.log_sigma);
        }
        fits
    }

    /// Draws an action around `mean`, or of these logits; returns ln of its density or probability.
    pub fn sample(&self, mean: &[f32], rng: &mut Rng, action: &mut [f32]) -> f32 {
        let mut log_density = 0.0;
        for group in &self.groups {
            log_density += choose(&mean[group.clone()], rng, &mut action[group.clone()]);
        }
        if self.has_choices() {
            return log_density;
        }
        for ((action, mean), log_sigma) in action.iter_mut().zip(mean).zip(&self.log_sigma) {
            let z = rng.normal(0.0, 1.0) as f32;
            *action = mean + log_sigma.exp() * z;
            log_density -= 0.5 * z * z + log_sigma + LOG_ROOT_TAU;
        }
        log_density
    }

    /// One step on `samples`.
    pub fn update(&mut self, samples: &Samples, objective: Objective, tape: &mut Tape) {
        let heads = self.net.shape().outputs;
        let count = samples.advantages.len() as f32;
        let means = self.net.forward(&samples.states, tape);
        self.d_mean.resize(means.len(), 0.0);
        let inverse: Vec<f32> = self.log_sigma.iter().map(|log_sigma| (-log_sigma).exp()).collect();
        // Entropy grows by one with each ln σ.
        self.d_sigma.clear();
        self.d_sigma.resize(self.log_sigma.len(), -objective.entropy);
        let mut z = vec![0.0; heads];
        let rows = samples.actions.chunks_exact(heads).zip(means.chunks_exact(heads));
        for (row, (action, mean)) in rows.enumerate() {
            let mut log_density = 0.0;
            if self.has_choices() {
                for group in &self.groups {
                    log_likelihoods(&mean[group.clone()], &mut z[group.clone()]);
                }
                log_density = dot(&z, action);
            } else {
                for i in 0..heads {
                    z[i] = (action[i] - mean[i]) * inverse[i];
                    log_density -= 0.5 * z[i] * z[i] + self.log_sigma[i] + LOG_ROOT_TAU;
                }
            }
            let ratio = (log_density - samples.log_densities[row]).min(20.0).exp();
            let advantage = samples.advantages[row];
            let clipped =
                if advantage >= 0.0 { ratio > 1.0 + objective.clip } else { ratio < 1.0 - objective.clip };
            let pull = if clipped { 0.0 } else { -ratio * advantage / count };
            for group in &self.groups {
                let entropy: f32 = -z[group.clone()].iter().map(|log_p| log_p.exp() * log_p).sum::<f32>();
                for i in group.clone() {
                    let p = z[i].exp();
                    self.d_mean[row * heads + i] =
                        pull * (action[i] - p) + objective.entropy / count * p * (z[i] + entropy);
                }
            }
            if self.has_choices() {
                continue;
            }
            for i in 0..heads {
                self.d_mean[row * heads + i] = pull * z[i] * inverse[i];
                self.d_sigma[i] += pull * (z[i] * z[i] - 1.0);
            }
        }
        self.net.backward(tape, &self.d_mean, &mut self.gradient);
        self.adam.step(&mut self.net.parameters, &self.gradient);
        self.adam_sigma.step(&mut self.log_sigma, &self.d_sigma);
        for log_sigma in &mut self.log_sigma {
            *log_sigma = log_sigma.clamp(*LOG_SIGMA.start(), *LOG_SIGMA.end());
        }
    }
}

/// ln of how likely each choice of a group is.
fn log_likelihoods(logits: &[f32], out: &mut [f32]) {
    let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f32 = logits.iter().map(|logit| (logit - most).exp()).sum();
    let rest = most + sum.ln();
    out.iter_mut().zip(logits).for_each(|(out, logit)| *out = logit - rest);
}

/// Draws one choice; `action` becomes 1 there and 0 elsewhere. Returns ln of its likelihood.
fn choose(logits: &[f32], rng: &mut Rng, action: &mut [f32]) -> f32 {
    log_likelihoods(logits, action);
    let mut left = rng.unit() as f32;
    let mut chosen = action.len() - 1;
    for (i, log_p) in action.iter().enumerate() {
        left -= log_p.exp();
        if left < 0.0 {
            chosen = i;
            break;
        }
    }
    let log_likelihood = action[chosen];
    action.fill(0.0);
    action[chosen] = 1.0;
    log_likelihood
}

/// What a state is worth, learned by least squares.
#[derive(Clone, Debug)]
pub struct Critic {
    /// The estimate.
    pub net: Net,
    adam: Adam,
    gradient: Vec<f32>,
    d_value: Vec<f32>,
}

impl Critic {
    /// An estimate that begins near zero.
    pub fn new(shape: Shape, adam: adam::AdamConfig, rng: &mut Rng) -> Self {
        Self::from_net(Net::new(shape, 1.0, rng), adam)
    }

    /// Goes on from an estimate.
    pub(crate) fn from_net(net: Net, adam: adam::AdamConfig) -> Self {
        let count = net.parameters.len();
        Self { net, adam: Adam::new(count, adam), gradient: vec![0.0; count], d_value: Vec::new() }
    }

    /// Takes over the estimate that came with `policy`, if one did; false, and nothing is changed, if it has
    /// another shape.
    pub fn adopt(&mut self, policy: &Policy) -> bool {
        let Some(net) = policy.critic.as_ref().map(Net::from_network) else { return true };
        let fits = net.shape() == self.net.shape();
        if fits {
            self.net = net;
        }
        fits
    }

    /// One step towards `returns`; an error counts `weight` halves of its square.
    pub fn update(&mut self, states: &[f32], returns: &[f32], weight: f32, tape: &mut Tape) {
        let values = self.net.forward(states, tape);
        let scale = weight / returns.len() as f32;
        self.d_value.clear();
        self.d_value.extend(values.iter().zip(returns).map(|(value, wanted)| (value - wanted) * scale));
        self.net.backward(tape, &self.d_value, &mut self.gradient);
        self.adam.step(&mut self.net.parameters, &self.gradient);
    }
}

#[cfg(test)]
mod reference;

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_control::policy::Block;

    /// The clipped objective's value, computed from its definition.
    fn objective(actor: &Actor, samples: &Samples, objective: Objective) -> f64 {
        let mut tape = Tape::default();
        let means = actor.net.forward(&samples.states, &mut tape);
        let heads = actor.log_sigma.len();
        let mut sum = 0.0;
        for (row, mean) in means.chunks(heads).enumerate() {
            let mut log_density = 0.0;
            for (i, mean) in mean.iter().enumerate() {
                let sigma = actor.log_sigma[i].exp();
                let z = (samples.actions[row * heads + i] - mean) / sigma;
                log_density += -0.5 * z * z - sigma.ln() - LOG_ROOT_TAU;
            }
            let ratio = (log_density - samples.log_densities[row]).exp();
            let advantage = samples.advantages[row];
            let clipped = ratio.clamp(1.0 - objective.clip, 1.0 + objective.clip);
            sum += f64::from((ratio * advantage).min(clipped * advantage));
        }
        let entropy: f32 = actor.log_sigma.iter().sum();
        sum / samples.advantages.len() as f64 + f64::from(objective.entropy * entropy)
    }

    #[test]
    fn an_update_raises_the_objective() {
        let mut rng = Rng::new(3);
        let shape = Shape { inputs: 4, width: 16, blocks: 1, block: Block::Normed, outputs: 2 };
        let rate = adam::AdamConfig { rate: 1e-4, longest: f32::INFINITY };
        let mut actor = Actor::new(shape, 0.5, rate, &mut rng);
        let mut samples = Samples {
            states: (0..80).map(|_| rng.normal(0.0, 1.0) as f32).collect(),
            actions: vec![0.0; 40],
            log_densities: vec![0.0; 20],
            advantages: (0..20).map(|_| rng.normal(0.0, 1.0) as f32).collect(),
        };
        let mut tape = Tape::default();
        let means = actor.net.forward(&samples.states, &mut tape).to_vec();
        for row in 0..20 {
            let action = &mut samples.actions[row * 2..row * 2 + 2];
            // Some ratios lie beyond the clip from the start.
            samples.log_densities[row] =
                actor.sample(&means[row * 2..row * 2 + 2], &mut rng, action) + rng.normal(0.0, 0.3) as f32;
        }
        let wanted = Objective { clip: 0.2, entropy: 0.01 };
        let mut last = objective(&actor, &samples, wanted);
        for _ in 0..10 {
            actor.update(&samples, wanted, &mut tape);
            let now = objective(&actor, &samples, wanted);
            assert!(now > last, "{now} after {last}");
            last = now;
        }
    }

    /// The clipped objective of choices in `groups`, computed from its definition.
    fn objective_of_choices(
        logits: &[f64],
        groups: &[Range<usize>],
        samples: &Samples,
        wanted: Objective,
    ) -> f64 {
        let heads = groups.last().map_or(0, |group| group.end);
        let mut sum = 0.0;
        for (row, logits) in logits.chunks(heads).enumerate() {
            let action = &samples.actions[row * heads..(row + 1) * heads];
            let (mut probability, mut entropy) = (1.0, 0.0);
            for group in groups {
                let total: f64 = logits[group.clone()].iter().map(|logit| logit.exp()).sum();
                for i in group.clone() {
                    let p = logits[i].exp() / total;
                    entropy -= p * p.ln();
                    probability *= if action[i] > 0.0 { p } else { 1.0 };
                }
            }
            let ratio = probability / f64::from(samples.log_densities[row]).exp();
            let advantage = f64::from(samples.advantages[row]);
            let clip = f64::from(wanted.clip);
            let clipped = (ratio * advantage).min(ratio.clamp(1.0 - clip, 1.0 + clip) * advantage);
            sum += clipped + f64::from(wanted.entropy) * entropy;
        }
        sum / samples.advantages.len() as f64
    }

    #[test]
    fn the_gradient_of_choices_is_that_of_their_objective() {
        let mut rng = Rng::new(8);
        let shape = Shape { inputs: 3, width: 12, blocks: 1, block: Block::Normed, outputs: 9 };
        let rate = adam::AdamConfig { rate: 1e-4, longest: f32::INFINITY };
        let mut actor = Actor::of_choices(Net::uniform(shape, &mut rng), vec![2, 4, 3], rate);
        let mut samples = Samples {
            states: (0..36).map(|_| rng.normal(0.0, 1.0) as f32).collect(),
            actions: vec![0.0; 12 * 9],
            log_densities: Vec::new(),
            advantages: (0..12).map(|_| rng.normal(0.0, 1.0) as f32).collect(),
        };
        let mut tape = Tape::default();
        let logits = actor.net.forward(&samples.states, &mut tape).to_vec();
        for row in 0..12 {
            let action = &mut samples.actions[row * 9..row * 9 + 9];
            // Some ratios lie beyond the clip.
            let log_p = actor.sample(&logits[row * 9..row * 9 + 9], &mut rng, action);
            samples.log_densities.push(log_p + rng.normal(0.0, 0.3) as f32);
        }
        let wanted = Objective { clip: 0.1, entropy: 0.1 };
        actor.update(&samples, wanted, &mut tape);
        let logits: Vec<f64> = logits.iter().map(|&logit| logit.into()).collect();
        let mut moved = 0;
        for i in 0..logits.len() {
            let at = |by: f64| {
                let mut logits = logits.clone();
                logits[i] += by;
                objective_of_choices(&logits, &actor.groups, &samples, wanted)
            };
            let numeric = (at(1e-5) - at(-1e-5)) / 2e-5;
            // What is descended is the objective's negative.
            let analytic = -f64::from(actor.d_mean[i]);
            assert!((numeric - analytic).abs() < 1e-5, "logit {i}: {analytic} instead of {numeric}");
            moved += usize::from(numeric.abs() > 1e-3);
        }
        assert!(moved > 30, "{moved}");
    }

    #[test]
    fn choices_learn_which_is_best() {
        let mut rng = Rng::new(5);
        let shape = Shape { inputs: 1, width: 8, blocks: 1, block: Block::Dense, outputs: 7 };
        let rate = adam::AdamConfig { rate: 3e-3, longest: 1.0 };
        let mut actor = Actor::of_choices(Net::new(shape, 0.01, &mut rng), vec![3, 4], rate);
        let mut tape = Tape::default();
        // Of the first group the last is best where the state is positive, the first where it is not; of the
        // second, which begins at 3, always the same.
        let best = |state: f32| [if state > 0.0 { 2 } else { 0 }, 4];
        for _ in 0..600 {
            let states: Vec<f32> = (0..32).map(|_| rng.normal(0.0, 1.0) as f32).collect();
            let logits = actor.net.forward(&states, &mut tape).to_vec();
            let mut samples = Samples { actions: vec![0.0; 32 * 7], ..Samples::default() };
            for (row, state) in states.iter().enumerate() {
                let action = &mut samples.actions[row * 7..row * 7 + 7];
                samples.log_densities.push(actor.sample(&logits[row * 7..row * 7 + 7], &mut rng, action));
                assert_eq!((action[..3].iter().sum::<f32>(), action[3..].iter().sum::<f32>()), (1.0, 1.0));
                samples.advantages.push(best(*state).map(|i| action[i] - 0.5).iter().sum());
            }
            samples.states = states;
            actor.update(&samples, Objective { clip: 0.2, entropy: 0.001 }, &mut tape);
        }
        for state in [-1.0f32, 1.0] {
            let logits = actor.net.forward(&[state], &mut tape);
            let mut likely = [0.0; 7];
            log_likelihoods(&logits[..3], &mut likely[..3]);
            log_likelihoods(&logits[3..], &mut likely[3..]);
            assert!(best(state).iter().all(|&i| likely[i] > 0.8f32.ln()), "{state}: {likely:?}");
        }
    }

    #[test]
    fn a_critic_learns_what_it_is_told() {
        let mut rng = Rng::new(4);
        let shape = Shape { inputs: 1, width: 16, blocks: 1, block: Block::Residual, outputs: 1 };
        let mut critic = Critic::new(shape, adam::AdamConfig { rate: 3e-3, longest: 1.0 }, &mut rng);
        let states: Vec<f32> = (0..32).map(|i| i as f32 / 16.0 - 1.0).collect();
        let returns: Vec<f32> = states.iter().map(|x| 3.0 * x * x).collect();
        let mut tape = Tape::default();
        for _ in 0..1500 {
            critic.update(&states, &returns, 1.0, &mut tape);
        }
        let values = critic.net.forward(&states, &mut tape);
        let worst = values.iter().zip(&returns).map(|(v, r)| (v - r).abs()).fold(0.0, f32::max);
        assert!(worst < 0.15, "{worst}");
    }
}
