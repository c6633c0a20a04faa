//! A policy that goes on learning while it drives a transfer.
//!
//! LDM and AutoMDT foresee it and their published code never does it; here it is off unless asked
//! for. Actions are drawn, and after every ten epochs a few small PPO steps are made on them. The
//! reward is the end-to-end utility by the rate the policy knows, or for discrete steps whether the
//! utility rose or fell.

use tidegate_control::optimizer::fallback::{Fallback, is_sensible};
use tidegate_control::policy::{Block, Features, Policy, Recipe, Shape, UPDATES};
use tidegate_control::utility::{LossTerm, Utility};
use tidegate_control::{Bounds, Concurrency, Host, Observation, Optimizer, PerStage, Proposal, Rng, Stage};

use crate::actor::{Actor, Critic, Objective, Samples};
use crate::adam;
use crate::gae;
use crate::net::{Net, Tape};
use crate::practice::sign_of_change;

/// Epochs between two updates, as in the papers' episodes.
const STEPS: usize = 10;
/// Times each ten are gone through.
const EPOCHS: usize = 4;
/// Small: what is known is worth more than ten noisy epochs.
const ADAM: adam::AdamConfig = adam::AdamConfig { rate: 1e-4, longest: 0.5 };
const OBJECTIVE: Objective = Objective { clip: 0.1, entropy: 0.0 };
const GAE: gae::GaeConfig = gae::GaeConfig { gamma: 0.9, lambda: 0.95 };

/// Drives and learns.
pub struct Online {
    policy: Policy,
    features: Box<dyn Features>,
    actor: Actor,
    critic: Critic,
    rng: Rng,
    stages: Vec<Stage>,
    samples: Samples,
    rewards: Vec<f32>,
    tapes: [Tape; 2],
    /// Utility of the epoch before.
    before: Option<f32>,
    updates: u64,
    utility: Utility,
    fallback: Fallback,
}

impl Online {
    /// Goes on from `policy`; `seed` is that of the draws, `utility` what an epoch is worth.
    pub fn new(policy: Policy, seed: u64, utility: Utility) -> Self {
        let mut rng = Rng::new(seed);
        let features = policy.features();
        let mut log_sigma = policy.log_sigma.clone();
        log_sigma.iter_mut().for_each(|log_sigma| *log_sigma += policy.spread().ln());
        let shape = Shape { block: Block::Dense, outputs: 1, ..policy.actor.shape() };
        let critic = match &policy.critic {
            Some(critic) => Net::from_network(critic),
            None => Net::new(shape, 0.1, &mut rng),
        };
        let (net, choices) = (Net::from_network(&policy.actor), features.choices());
        Self {
            actor: if choices.is_empty() {
                Actor::from_net(net, log_sigma, ADAM)
            } else {
                Actor::of_choices(net, choices, ADAM)
            },
            critic: Critic::from_net(critic, ADAM),
            features,
            stages: policy.scales.stages(),
            policy,
            rng,
            samples: Samples::default(),
            rewards: Vec::new(),
            tapes: [Tape::default(), Tape::default()],
            before: None,
            updates: 0,
            utility,
            fallback: Fallback::default(),
        }
    }

    /// The same as a rule, for [`online`](tidegate_control::optimizer::OptimizerOptions::online).
    pub fn boxed(policy: Policy, seed: u64, utility: Utility) -> Box<dyn Optimizer> {
        Box::new(Self::new(policy, seed, utility))
    }

    /// How often it has learned.
    pub const fn updates(&self) -> u64 {
        self.updates
    }

    /// End-to-end utility as a share of the rate the policy knows, 1 for a single free worker: what arrives, by the mean
    /// price of the stages, less what loss costs.
    fn worth(&self, seen: &Observation) -> f32 {
        let Utility { k, b, loss_term } = self.utility;
        let price = |stage: &Stage| k.powi(-i32::from(seen.concurrency[*stage]));
        let price = self.stages.iter().map(price).sum::<f64>() / self.stages.len() as f64;
        let (best, share) = (self.policy.scales.rate_bps, seen.loss.unwrap_or(0.0));
        let goodput = seen.goodput().0 as f64 / best.0 as f64;
        let loss = match loss_term {
            LossTerm::None => 0.0,
            LossTerm::Ldm => b * share / best.as_mbps(),
            LossTerm::Falcon => goodput * b * share,
        };
        (goodput * price - loss) as f32
    }

    fn act(&mut self, seen: &Observation, bounds: PerStage<Bounds>) -> Option<Proposal> {
        let worth = self.worth(seen);
        let before = self.before.replace(worth);
        let mut state = vec![0.0; self.features.inputs()];
        self.features.encode(seen, bounds, &mut state);
        if let Some(before) = before.filter(|_| self.rewards.len() < self.samples.log_densities.len()) {
            let signs = self.policy.recipe == Recipe::DiscreteRl;
            self.rewards.push(if signs { sign_of_change(worth, before) } else { worth });
        }
        if self.rewards.len() == STEPS {
            self.learn(&state);
        }
        let mean = self.actor.net.forward(&state, &mut self.tapes[0]);
        let mut action = vec![0.0; mean.len()];
        let log_density = self.actor.sample(mean, &mut self.rng, &mut action);
        if !(log_density.is_finite() && is_sensible(&action)) {
            return None;
        }
        self.samples.states.extend_from_slice(&state);
        self.samples.actions.extend_from_slice(&action);
        self.samples.log_densities.push(log_density);
        let setpoint: Concurrency = bounds.clamp(self.features.decode(&action, bounds));
        Some(Proposal { utility: Some(f64::from(worth)), ..setpoint.into() })
    }

    fn learn(&mut self, last: &[f32]) {
        let [one, other] = &mut self.tapes;
        let mut values = self.critic.net.forward(&self.samples.states, other).to_vec();
        values.extend_from_slice(self.critic.net.forward(last, other));
        let advantages = &mut self.samples.advantages;
        advantages.resize(STEPS, 0.0);
        gae::advantages(&self.rewards, &values, false, GAE, advantages);
        let returns: Vec<f32> = values.iter().zip(&*advantages).map(|(value, a)| value + a).collect();
        gae::standardize(advantages);
        for _ in 0..EPOCHS {
            self.actor.update(&self.samples, OBJECTIVE, one);
            self.critic.update(&self.samples.states, &returns, 1.0, other);
        }
        self.samples = Samples::default();
        self.rewards.clear();
        self.updates += 1;
    }
}

impl Optimizer for Online {
    fn start(&mut self, bounds: PerStage<Bounds>, _host: &Host) -> Proposal {
        self.features.reset();
        self.before = None;
        self.samples = Samples::default();
        self.rewards.clear();
        bounds.clamp(self.features.start(bounds)).into()
    }

    fn learned(&self) -> Option<Policy> {
        let (actor, critic) = (self.actor.net.to_network()?, self.critic.net.to_network()?);
        let mut facts = self.policy.facts.clone();
        let before: u64 = facts.get(UPDATES).and_then(|text| text.parse().ok()).unwrap_or(0);
        facts.insert(UPDATES.to_owned(), before.saturating_add(self.updates).to_string());
        // Who goes on from it spreads its draws again.
        let spread = self.policy.spread().ln();
        let log_sigma: Vec<f32> = self.actor.log_sigma.iter().map(|log_sigma| log_sigma - spread).collect();
        let (recipe, scales) = (self.policy.recipe, self.policy.scales);
        let finite = log_sigma.iter().all(|value| value.is_finite());
        finite.then_some(Policy { recipe, scales, actor, log_sigma, critic: Some(critic), facts })
    }

    fn propose(&mut self, seen: &Observation, bounds: PerStage<Bounds>) -> Proposal {
        if let Some(next) = self.fallback.propose(seen, bounds) {
            return next;
        }
        match self.act(seen, bounds) {
            Some(next) => next,
            None => self.fallback.take_over(seen, bounds),
        }
    }
}
