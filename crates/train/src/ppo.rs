//! Proximal policy optimisation over many environments: several epochs of minibatches a batch.
//!
//! Actor and critic share nothing, so after each batch one thread improves the one and another the
//! other; the environments are split into two vectors in the same way. With one thread the same work
//! is done in turn, and the weights come out the same.

use tidegate_control::policy::{Block, Policy, Shape};
use tidegate_control::{Concurrency, Rng};

use crate::actor::{Actor, Critic, Objective, Samples};
use crate::adam;
use crate::gae;
use crate::net::{Net, Tape};
use crate::pair::both;
use crate::practice::TrainingTask;
use crate::rollout::{Episodes, VectorEnvironment};

/// How to learn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PpoConfig {
    /// Width of both networks. 64 needs as many episodes as the papers' 256 and a twelfth of the time.
    pub width: usize,
    /// Blocks of the actor, and one fewer of the critic, as in the papers.
    pub blocks: usize,
    /// Kind of the actor's blocks. The papers' three normed ones learn from as many episodes as two
    /// plain ones, each at three times the cost (measured).
    pub block: Block,
    /// Environments in step. Few: more updates an episode.
    pub environments: usize,
    /// Times each batch is gone through. Several: a tenth of the episodes (measured).
    pub epochs: usize,
    /// Parts of a batch that a step is made on.
    pub minibatches: usize,
    /// Step size of Adam. 2·10⁻³ needs half the episodes of 10⁻³ (measured).
    pub rate: f32,
    /// Spread of the actions at the beginning.
    pub sigma: f32,
    /// PPO's objective.
    pub objective: Objective,
    /// What the future counts. γ = 0.9: ten steps ahead is as far as a choice matters.
    pub gae: gae::GaeConfig,
    /// Threads; 1 or 2.
    pub threads: usize,
}

impl Default for PpoConfig {
    fn default() -> Self {
        Self {
            width: 64,
            blocks: 2,
            block: Block::Dense,
            environments: 16,
            epochs: 4,
            minibatches: 4,
            rate: 2e-3,
            sigma: 0.6,
            objective: Objective { clip: 0.2, entropy: 1e-3 },
            gae: gae::GaeConfig { gamma: 0.9, lambda: 0.95 },
            threads: 2,
        }
    }
}

/// Learns on a task.
///
/// ```
/// use tidegate_control::Scenario;
/// use tidegate_control::policy::Recipe;
/// use tidegate_train::ppo::{Ppo, PpoConfig};
/// use tidegate_train::practice::PathTask;
///
/// let text = "name = 'memory'\ndescription = ''\n[network]\nworker_rate = '100Mbit/s'\n[link]\nrate = '1Gbit/s'";
/// let task = PathTask::of(&Scenario::from_toml(text)?, Recipe::Fast, 1.02);
/// let config = PpoConfig { width: 8, environments: 4, threads: 1, ..PpoConfig::default() };
/// let mut ppo = Ppo::new(&task, config, 1);
/// let scores = ppo.advance();
/// assert_eq!(scores.len(), 4, "one an episode, each a share of the best");
/// # Ok::<(), tidegate_control::scenario::ScenarioError>(())
/// ```
pub struct Ppo {
    config: PpoConfig,
    rng: Rng,
    vectors: [VectorEnvironment; 2],
    actor: Actor,
    critic: Critic,
    actor_room: Room,
    critic_room: Room,
    batch: Batch,
    inputs: usize,
    heads: usize,
    steps: usize,
    warm_up: usize,
}

/// What one network's updates reuse.
#[derive(Default)]
struct Room {
    tape: Tape,
    order: Vec<usize>,
    samples: Samples,
    returns: Vec<f32>,
}

#[derive(Default)]
struct Batch {
    samples: Samples,
    returns: Vec<f32>,
    last: Vec<f32>,
    /// Mean score of each episode.
    scores: Vec<f32>,
}

impl Ppo {
    /// Begins on `task` with random weights drawn from `seed`.
    pub fn new(task: &dyn TrainingTask, config: PpoConfig, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let (inputs, heads) = (task.inputs(), task.heads());
        let PpoConfig { width, blocks, block, rate, .. } = config;
        let adam = adam::AdamConfig { rate, longest: 1.0 };
        let shape = Shape { inputs, width, blocks, block, outputs: heads };
        let choices = task.choices();
        let actor = if choices.is_empty() {
            Actor::new(shape, config.sigma, adam, &mut rng)
        } else {
            Actor::of_choices(Net::new(shape, 0.01, &mut rng), choices, adam)
        };
        let block = if block == Block::Normed { Block::Residual } else { block };
        let shape = Shape { inputs, width, blocks: blocks.saturating_sub(1).max(1), block, outputs: 1 };
        let critic = Critic::new(shape, adam, &mut rng);
        let first = config.environments.div_ceil(2);
        let vectors =
            [first, config.environments - first].map(|count| VectorEnvironment::new(task, count, &mut rng));
        Self {
            config,
            vectors,
            rng,
            actor,
            critic,
            actor_room: Room::default(),
            critic_room: Room::default(),
            batch: Batch::default(),
            inputs: task.inputs(),
            heads: task.heads(),
            steps: task.steps(),
            warm_up: task.warm_up(),
        }
    }

    /// The policy as it is now.
    pub const fn actor(&self) -> &Actor {
        &self.actor
    }

    /// The estimate as it is now.
    pub const fn critic(&self) -> &Critic {
        &self.critic
    }

    /// Takes over the weights of `policy`; false if its networks have other shapes.
    pub fn adopt(&mut self, policy: &Policy) -> bool {
        self.actor.adopt(policy) && self.critic.adopt(policy)
    }

    /// One episode in every environment, and what can be learned from them; returns each episode's
    /// mean score.
    pub fn advance(&mut self) -> &[f32] {
        self.collect();
        self.weigh();
        let (mut rng_actor, mut rng_critic) = (self.rng.fork(), self.rng.fork());
        let PpoConfig { epochs, minibatches, objective, threads, .. } = self.config;
        let (batch, inputs, heads) = (&self.batch, self.inputs, self.heads);
        let (actor, actor_room) = (&mut self.actor, &mut self.actor_room);
        let (critic, critic_room) = (&mut self.critic, &mut self.critic_room);
        let improve_actor = || {
            actor_room.each_part(batch.returns.len(), epochs, minibatches, &mut rng_actor, |room, part| {
                room.samples.gather(&batch.samples, part, inputs, heads);
                gae::standardize(&mut room.samples.advantages);
                actor.update(&room.samples, objective, &mut room.tape);
            });
        };
        let improve_critic = || {
            critic_room.each_part(batch.returns.len(), epochs, minibatches, &mut rng_critic, |room, part| {
                room.samples.gather(&batch.samples, part, inputs, heads);
                room.returns.clear();
                room.returns.extend(part.iter().map(|&row| batch.returns[row]));
                critic.update(&room.samples.states, &room.returns, 1.0, &mut room.tape);
            });
        };
        both(threads, improve_actor, improve_critic);
        &self.batch.scores
    }

    fn collect(&mut self) {
        let actor = &self.actor;
        let [one, other] = &mut self.vectors;
        let play = |environments: &mut VectorEnvironment| {
            environments.run(actor, true);
        };
        both(self.config.threads, || play(one), || play(other));
        self.batch.clear();
        for environments in &self.vectors {
            self.batch.add(environments.episodes(), self.steps, self.warm_up);
        }
    }

    /// Advantages and returns, with the critic as it was before this batch.
    fn weigh(&mut self) {
        let Self { batch, critic, critic_room, vectors, steps, .. } = self;
        let steps = *steps;
        let rows = batch.samples.log_densities.len();
        let values = critic.net.forward(&batch.samples.states, &mut critic_room.tape).to_vec();
        let last = critic.net.forward(&batch.last, &mut critic_room.tape);
        batch.samples.advantages.resize(rows, 0.0);
        let rewards =
            vectors.iter().flat_map(|environments| environments.episodes().rewards.chunks_exact(steps));
        let ended = vectors.iter().flat_map(|environments| environments.episodes().ended.iter().copied());
        let mut worth = Vec::with_capacity(steps + 1);
        for (i, (rewards, ended)) in rewards.zip(ended).enumerate() {
            worth.clear();
            worth.extend_from_slice(&values[i * steps..(i + 1) * steps]);
            worth.push(last[i]);
            let advantages = &mut batch.samples.advantages[i * steps..(i + 1) * steps];
            gae::advantages(rewards, &worth, ended, self.config.gae, advantages);
        }
        batch.returns.clear();
        batch.returns.extend(values.iter().zip(&batch.samples.advantages).map(|(value, a)| value + a));
    }
}

impl Batch {
    fn clear(&mut self) {
        self.samples.states.clear();
        self.samples.actions.clear();
        self.samples.log_densities.clear();
        self.last.clear();
        self.scores.clear();
    }

    fn add(&mut self, episodes: &Episodes, steps: usize, warm_up: usize) {
        self.samples.states.extend_from_slice(&episodes.states);
        self.samples.actions.extend_from_slice(&episodes.actions);
        self.samples.log_densities.extend_from_slice(&episodes.log_densities);
        self.last.extend_from_slice(&episodes.last);
        let judged = episodes.scores.chunks_exact(steps).map(|scores| &scores[warm_up..]);
        self.scores.extend(judged.map(|scores| scores.iter().sum::<f32>() / scores.len() as f32));
    }
}

impl Room {
    /// Goes through `rows` rows `epochs` times, in a new order each time, in `parts` parts.
    fn each_part(
        &mut self,
        rows: usize,
        epochs: usize,
        parts: usize,
        rng: &mut Rng,
        mut improve: impl FnMut(&mut Self, &[usize]),
    ) {
        let mut order = std::mem::take(&mut self.order);
        order.clear();
        order.extend(0..rows);
        for _ in 0..epochs {
            for i in (1..rows).rev() {
                let j = (rng.next_u64() % (i as u64 + 1)) as usize;
                order.swap(i, j);
            }
            for part in order.chunks(rows.div_ceil(parts.max(1)).max(1)) {
                improve(self, part);
            }
        }
        self.order = order;
    }
}

/// How the deterministic policy does from random starts.
pub(crate) struct Exam {
    course_steps: usize,
    settle: usize,
    seed: u64,
    starts: usize,
    environments: Option<VectorEnvironment>,
}

/// What an exam showed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExamResult {
    /// Mean score of the steps after the first three.
    pub settled: f32,
    /// Mean score of all steps.
    pub mean: f32,
    /// Where each episode ended.
    pub rest: Vec<Concurrency>,
}

/// Steps a policy has to find its place.
const SETTLE: usize = 3;

impl Exam {
    /// From `starts` random starts that `seed` determines, the same in every exam.
    pub fn new(task: &dyn TrainingTask, starts: usize, seed: u64) -> Self {
        let settle = task.warm_up().max(SETTLE).min(task.steps() - 1);
        Self { course_steps: task.steps(), settle, seed, starts, environments: None }
    }

    /// Examines `actor`.
    pub fn hold(&mut self, task: &dyn TrainingTask, actor: &Actor) -> ExamResult {
        let fresh = || VectorEnvironment::new(task, self.starts, &mut Rng::new(self.seed));
        let environments = self.environments.get_or_insert_with(fresh);
        environments.reseed(&mut Rng::new(self.seed));
        let steps = self.course_steps;
        let episodes = environments.run(actor, false);
        let mean = |skip: usize| {
            let scores = episodes.scores.chunks_exact(steps).flat_map(|scores| &scores[skip..]);
            let count = (episodes.scores.len() / steps * (steps - skip)).max(1);
            scores.sum::<f32>() / count as f32
        };
        let rest = episodes.setpoints.chunks_exact(steps).filter_map(|points| points.last().copied());
        ExamResult { settled: mean(self.settle), mean: mean(0), rest: rest.collect() }
    }
}

impl ExamResult {
    /// The set-point in which most episodes ended.
    pub(crate) fn common_rest(&self) -> Option<Concurrency> {
        let count = |n: &Concurrency| self.rest.iter().filter(|other| *other == n).count();
        self.rest.iter().copied().max_by_key(count)
    }
}
