//! LDM's and AutoMDT's training as published, to compare with: one environment, raw state and
//! action, one gradient step on the ten steps of one episode.
//!
//! With a single step a batch the ratio of new to old probability is always one, so PPO's clip never
//! acts; the returns are standardised within the episode, so the time left is most of what they say.
//! Both are kept, and so is the penalty at the limits, which makes a single worker unlearnable. What
//! is not kept is the papers' comparison of an episode's sum with R_max: it is the mean a step.
//!
//! The recipe `automdt_discrete` differs from `automdt` in the last layer alone: in place of three Gaussians
//! it has three categorical distributions over all numbers of workers (AutoMDT, figure 4).

use std::time::Duration;

use tidegate_control::paper_path::{PaperPath, PaperSimulator};
use tidegate_control::policy::{Block, Features, Policy, Recipe, SIGMA_FACTOR, Scales, Shape};
use tidegate_control::{
    BitRate, Bounds, ByteCount, Concurrency, Ends, Observation, PerStage, Rng, Scenario, Stage,
};

use crate::actor::{Actor, Critic, Objective, Samples};
use crate::adam;
use crate::gae;
use crate::net::{Net, Tape};
use crate::pair::both;
use crate::reward::MaxReward;
use crate::session::{BeginError, Facts, Progress, Trainer};

/// What the papers and their code fix.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Constants {
    /// K of the utility: 1.02 (AutoMDT); 1.002 in LDM's simulator.
    pub k: f64,
    /// Values between the layers.
    pub width: usize,
    /// Blocks of the actor.
    pub blocks: usize,
    /// Blocks of the critic.
    pub critic_blocks: usize,
    /// Steps an episode.
    pub steps: usize,
    /// Adam's step size.
    pub rate: f32,
    /// The objective of PPO.
    pub objective: Objective,
    /// The weight of the critic's error.
    pub critic_weight: f32,
    /// γ.
    pub gamma: f32,
    /// Spread of the actions at the beginning.
    pub sigma: f32,
    /// What the spread is multiplied by when a transfer draws: half in the papers' programs, which their texts do
    /// not say.
    pub production_sigma: f32,
    /// Mbit/s taken off for each stage at one of its limits.
    pub penalty_mbps: f64,
    /// Episodes between two looks at their mean, and in it.
    pub window: usize,
    /// The share of R_max that counts as converged.
    pub enough: f32,
    /// Episodes without a better mean after which it ends.
    pub idle: u64,
    /// The most episodes.
    pub most: u64,
    /// Threads; 1 or 2.
    pub threads: usize,
}

impl Constants {
    /// Those of `recipe`.
    pub const fn of(recipe: Recipe) -> Self {
        let automdt = Self {
            k: 1.02,
            width: 256,
            blocks: 3,
            critic_blocks: 2,
            steps: 10,
            rate: 1e-4,
            objective: Objective { clip: 0.1, entropy: 0.1 },
            critic_weight: 0.5,
            gamma: 0.99,
            sigma: 1.0,
            production_sigma: 0.5,
            penalty_mbps: 100.0,
            window: 100,
            enough: 0.9,
            idle: 1_000,
            most: 30_000,
            threads: 2,
        };
        match recipe {
            Recipe::Ldm => Self { k: 1.002, most: 300_000, ..automdt },
            _ => automdt,
        }
    }
}

/// The fewest workers an episode begins with, and how far below the most.
const START: (u16, u16) = (3, 2);
/// One training as published.
pub struct Published {
    recipe: Recipe,
    scales: Scales,
    worth: MaxReward,
    features: Box<dyn Features>,
    simulator: PaperPath,
    /// Free staging as the last step left it: it carries over from episode to episode.
    free: Ends<f64>,
    staging: Ends<ByteCount>,
    bounds: PerStage<Bounds>,
    rng: Rng,
    actor: Actor,
    critic: Critic,
    samples: Samples,
    returns: Vec<f32>,
    tapes: [Tape; 2],
    window: Vec<f32>,
    progress: Progress,
    best: Option<(Actor, Critic)>,
    best_at: u64,
    constants: Constants,
}

impl Published {
    /// Begins to train `recipe` on `scenario` with weights drawn from `seed`.
    pub fn new(scenario: &Scenario, recipe: Recipe, constants: Constants, seed: u64) -> Self {
        let simulator = if recipe == Recipe::Ldm { PaperSimulator::Ldm } else { PaperSimulator::Automdt };
        let scenario = simulator.path(scenario);
        let worth = MaxReward::new(&scenario, constants.k);
        let bounds = scenario.bounds();
        let scales = Scales { rate_bps: BitRate::from_mbps(worth.best_mbps), bounds, start: None };
        let features = recipe.features(&scales);
        let mut rng = Rng::new(seed);
        let (inputs, heads) = (features.inputs(), features.heads());
        let shape = Shape {
            inputs,
            width: constants.width,
            blocks: constants.blocks,
            block: Block::Normed,
            outputs: heads,
        };
        let adam = adam::AdamConfig { rate: constants.rate, longest: f32::INFINITY };
        let (net, choices) = (Net::uniform(shape, &mut rng), features.choices());
        let actor = if choices.is_empty() {
            Actor::from_net(net, vec![constants.sigma.ln(); heads], adam)
        } else {
            Actor::of_choices(net, choices, adam)
        };
        let shape = Shape { blocks: constants.critic_blocks, block: Block::Residual, outputs: 1, ..shape };
        let critic = Critic::from_net(Net::uniform(shape, &mut rng), adam);
        let simulator = PaperPath::new(&scenario, simulator, &mut rng);
        let staging = Ends { sender: scenario.staging.sender, receiver: scenario.staging.receiver };
        Self {
            recipe,
            scales,
            worth,
            features,
            simulator,
            free: Ends { sender: staging.sender.bits() / 1e6, receiver: staging.receiver.bits() / 1e6 },
            staging,
            bounds,
            rng,
            actor,
            critic,
            samples: Samples::default(),
            returns: Vec::new(),
            tapes: [Tape::default(), Tape::default()],
            window: Vec::new(),
            progress: Progress::default(),
            best: None,
            best_at: 0,
            constants,
        }
    }

    /// Begins with the weights of `policy` in place of random ones, before the first batch.
    ///
    /// # Errors
    /// A policy of another recipe, and one whose networks have other sizes.
    pub fn begin_with(&mut self, policy: &Policy) -> Result<(), BeginError> {
        BeginError::check(policy, self.recipe)?;
        let fits = self.actor.adopt(policy) && self.critic.adopt(policy);
        if fits { Ok(()) } else { Err(BeginError::Shape) }
    }

    /// What a second with `n` showed, or what is shown before anything moved.
    fn observed(&self, n: Concurrency, mbps: PerStage<f64>) -> Observation {
        let bytes = |mbit: f64| ByteCount((mbit * 1e6 / 8.0) as u64);
        Observation {
            at: Duration::ZERO,
            interval: Duration::from_secs(1),
            concurrency: n,
            throughput: mbps.map(BitRate::from_mbps),
            standard_error: PerStage::all(0.0),
            waited: PerStage::all(None),
            draining: PerStage::all(0.0),
            staging_free: Ends { sender: bytes(self.free.sender), receiver: bytes(self.free.receiver) },
            staging_capacity: self.staging,
            loss: None,
            rtt: None,
            streams: None,
            queued: 0.0,
            held: 0.0,
            model_based: 0.0,
            tries: false,
            ramp: Vec::new(),
            cpu: Ends::default(),
            remaining: None,
        }
    }

    fn step(&mut self, n: Concurrency) -> Observation {
        let (mbps, free) = self.simulator.second(n);
        self.free = free;
        self.observed(n, mbps)
    }

    /// An episode's first state: staging as it was left, nothing moved yet, workers drawn anew.
    fn begin(&mut self) -> Observation {
        let (low, gap) = START;
        let start = self.bounds.map(|bounds| {
            let high = bounds.max.saturating_sub(gap).max(bounds.min);
            self.rng.integer(low.clamp(bounds.min, high), high)
        });
        self.observed(start, PerStage::all(0.0))
    }

    /// What the papers pay for a step, in Mbit/s.
    fn reward(&self, seen: &Observation) -> f64 {
        let throughput = seen.throughput.map(BitRate::as_mbps);
        let utility = self.worth.published_share(throughput, seen.concurrency) * self.worth.r_max;
        let at_limit = |stage: &&Stage| {
            let bounds = self.bounds[**stage];
            seen.concurrency[**stage] == bounds.min || seen.concurrency[**stage] == bounds.max
        };
        utility - self.constants.penalty_mbps * self.worth.stages.iter().filter(at_limit).count() as f64
    }

    /// Plays one episode into `samples` and `returns`; returns its mean reward.
    fn play(&mut self) -> f64 {
        let (inputs, heads) = (self.features.inputs(), self.features.heads());
        let Constants { steps, gamma, .. } = self.constants;
        self.samples.states.resize(steps * inputs, 0.0);
        self.samples.actions.resize(steps * heads, 0.0);
        self.samples.log_densities.clear();
        self.returns.clear();
        self.features.reset();
        let mut seen = self.begin();
        for step in 0..steps {
            let state = &mut self.samples.states[step * inputs..(step + 1) * inputs];
            self.features.encode(&seen, self.bounds, state);
            let mean = self.actor.net.forward(state, &mut self.tapes[0]);
            let action = &mut self.samples.actions[step * heads..(step + 1) * heads];
            let log_density = self.actor.sample(mean, &mut self.rng, action);
            self.samples.log_densities.push(log_density);
            let setpoint = self.features.decode(action, self.bounds);
            seen = self.step(setpoint);
            self.returns.push(self.reward(&seen) as f32);
        }
        let mean = self.returns.iter().map(|&reward| f64::from(reward)).sum::<f64>() / steps as f64;
        for step in (0..steps - 1).rev() {
            self.returns[step] += gamma * self.returns[step + 1];
        }
        gae::standardize(&mut self.returns);
        mean
    }

    fn learn(&mut self) {
        let Constants { threads, objective, critic_weight, .. } = self.constants;
        let [one, other] = &mut self.tapes;
        let values = self.critic.net.forward(&self.samples.states, other);
        self.samples.advantages.clear();
        self.samples.advantages.extend(self.returns.iter().zip(values).map(|(wanted, value)| wanted - value));
        let (actor, critic) = (&mut self.actor, &mut self.critic);
        let (samples, returns) = (&self.samples, &self.returns);
        both(
            threads,
            || actor.update(samples, objective, one),
            || critic.update(&samples.states, returns, 2.0 * critic_weight, other),
        );
    }

    /// Every hundred episodes their mean is judged.
    fn judge(&mut self) {
        let mean = self.window.iter().sum::<f32>() / self.window.len() as f32;
        self.window.clear();
        let progress = &mut self.progress;
        progress.recent = mean;
        if self.best.is_none() || mean > progress.best {
            progress.best = mean;
            self.best = Some((self.actor.clone(), self.critic.clone()));
            self.best_at = progress.episodes;
        }
        if mean >= self.constants.enough {
            progress.converged_at.get_or_insert(progress.episodes);
        }
        let idle = progress.episodes - self.best_at > self.constants.idle;
        progress.done = (progress.converged_at.is_some() && idle) || progress.episodes >= self.constants.most;
    }
}

impl Trainer for Published {
    fn advance(&mut self) -> Progress {
        let mean = self.play();
        self.learn();
        self.progress.episodes += 1;
        self.window.push((mean / self.worth.r_max) as f32);
        if self.window.len() >= self.constants.window || self.progress.episodes >= self.constants.most {
            self.judge();
        }
        self.progress
    }

    fn policy(&mut self, mut facts: Facts) -> Option<Policy> {
        if self.best.is_none() {
            self.best = Some((self.actor.clone(), self.critic.clone()));
        }
        let (actor, critic) = self.best.as_ref()?;
        let production = self.constants.production_sigma;
        if production != Constants::of(self.recipe).production_sigma {
            facts.insert(SIGMA_FACTOR.to_owned(), production.to_string());
        }
        Some(Policy {
            recipe: self.recipe,
            scales: self.scales,
            actor: actor.net.to_network()?,
            log_sigma: actor.log_sigma.clone(),
            critic: critic.net.to_network(),
            facts,
        })
    }

    fn rest(&self) -> Option<Concurrency> {
        None
    }
}
