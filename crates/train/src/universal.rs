//! One policy for every path: the recipe.
//!
//! Paths are drawn anew for every episode from `random_path::training`, half of them with every extra.
//! In simulation the best set-point is known at every moment, so the policy need not find it by trial:
//! it plays, and after every step is told how far its answer was from the oracle's fewest workers
//! (imitation on the states the learner itself visits, DAgger: Ross et al.). What an error costs is
//! what the reward says: too few workers lose goodput in proportion, a surplus costs its price, so the
//! answer is a quantile of what the path may need, given all that was seen. A path that is not yet
//! known is therefore explored upwards, and a surplus is taken back by itself.
//!
//! That looks one step ahead. At the end the policy practises by reward, goodput less the price of
//! workers, with PPO on the same paths; the best of all its states in an exam is kept.

use std::time::Duration;

use tidegate_control::policy::{Block, Features, Policy, Recipe, Scales, Shape};
use tidegate_control::random_path::{EPOCHS, training};
use tidegate_control::{
    BitRate, Bounds, Concurrency, Environment, Path, PerStage, Rng, Scenario, Simulator, SimulatorOptions,
    Stage,
};

use crate::actor::{Actor, Critic, Objective};
use crate::adam::{self, Adam};
use crate::gae;
use crate::net::{Net, Tape};
use crate::pair::both;
use crate::ppo::{self, Ppo};
use crate::practice::{Outcome, Practice, TrainingTask};
use crate::session::{Facts, Progress, Trainer};

/// How to learn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UniversalConfig {
    /// Width of the network.
    pub width: usize,
    /// Its blocks, dense ones.
    pub blocks: usize,
    /// Environments in step.
    pub environments: usize,
    /// Batches, of one episode in every environment.
    pub batches: u32,
    /// Times each batch is gone through, in how many parts.
    pub passes: usize,
    /// See `passes`.
    pub minibatches: usize,
    /// Adam's step size at the beginning; it falls to nothing.
    pub rate: f32,
    /// What a surplus costs, where the same lack of workers costs 1.
    pub price: f32,
    /// Batches between exams, and paths in one.
    pub exam_every: u32,
    /// See `exam_every`.
    pub exam_paths: u64,
    /// Batches in which the critic alone learns, and then both, by reward.
    pub warming: u32,
    /// See `warming`.
    pub refining: u32,
    /// How that is done.
    pub ppo: ppo::PpoConfig,
    /// The most episodes, should that be fewer than the batches have.
    pub most: u64,
    /// Threads; 1 or 2.
    pub threads: usize,
}

impl Default for UniversalConfig {
    fn default() -> Self {
        Self {
            width: 96,
            blocks: 2,
            environments: 256,
            batches: 400,
            passes: 1,
            minibatches: 16,
            rate: 1e-3,
            price: 0.2,
            exam_every: 20,
            exam_paths: 256,
            warming: 20,
            refining: 200,
            ppo: ppo::PpoConfig {
                environments: 256,
                epochs: 3,
                minibatches: 8,
                rate: 1e-4,
                sigma: 0.1,
                objective: Objective { clip: 0.1, entropy: 0.0 },
                gae: gae::GaeConfig { gamma: 0.95, lambda: 0.9 },
                ..ppo::PpoConfig::default()
            },
            most: u64::MAX,
            threads: 2,
        }
    }
}

/// Paths with seeds below are kept from training, to judge by: tables from 0, exams from here.
const EXAM_SEEDS: u64 = 1_000_000;
const TRAINING_SEEDS: u64 = 2_000_000;
/// The spread, in powers of two, of the noise that episodes are played with.
const SPREADS: [f64; 4] = [0.0, 0.0, 0.1, 0.4];
/// The share of episodes that begin where the policy would.
const OWN_START: f64 = 0.7;
/// An answer nearer than this to the oracle's, in powers of two, costs less than in proportion.
const NEAR: f32 = 0.03;
/// What an epoch with twice the oracle's workers forgoes.
const WORKERS_PRICE: f32 = 0.04;

/// Weight of the newest step in the mean of the weights.
const NEWEST: f32 = 2e-3;
/// The same for a batch of practice.
const NEWEST_BATCH: f32 = 0.1;

/// The scales of a policy that knows no path.
pub fn scales() -> Scales {
    Scales { rate_bps: BitRate::from_bps(1.0), bounds: PerStage::all(Bounds::new(1, u16::MAX)), start: None }
}

/// One environment.
struct SimulatedPath {
    features: Box<dyn Features>,
    rng: Rng,
    simulator: Option<Simulator>,
    judged: Option<(Path, Concurrency)>,
    spread: f64,
}

impl SimulatedPath {
    fn new(rng: Rng) -> Self {
        Self {
            features: Recipe::Universal.features(&scales()),
            rng,
            simulator: None,
            judged: None,
            spread: 0.0,
        }
    }

    /// Begins an episode on a path of training's own.
    fn draw(&mut self, state: &mut [f32]) {
        let seed = TRAINING_SEEDS + (self.rng.next_u64() >> 24);
        let scenario = training(seed);
        let scenario = if self.rng.unit() < 0.5 { scenario.ideal() } else { scenario };
        self.spread = SPREADS[usize::from(self.rng.integer(0, 3))];
        let start = if self.rng.unit() < OWN_START {
            None
        } else {
            let rng = &mut self.rng;
            Some(scenario.bounds().map(|b| rng.log_uniform(b.min.into(), f64::from(b.max) + 1.0) as u16))
        };
        self.begin(scenario, seed, start, state);
    }

    fn begin(&mut self, scenario: Scenario, seed: u64, start: Option<Concurrency>, state: &mut [f32]) {
        let options = SimulatorOptions::new(seed, Duration::from_secs(1), EPOCHS + 1);
        let mut simulator = Simulator::new(scenario, options);
        self.features.reset();
        let start = start.unwrap_or_else(|| self.features.start(simulator.bounds()));
        state.fill(0.0);
        let Ok(seen) = simulator.step(start);
        if let Some(seen) = seen {
            self.features.encode(&seen, simulator.bounds(), state);
        }
        self.simulator = Some(simulator);
    }

    /// How far, in powers of two, the oracle's workers are from the anchors; none where there is
    /// nothing to decide.
    fn wanted(&mut self) -> [Option<f32>; 3] {
        let (Some(simulator), Some(anchor)) = (&self.simulator, self.features.anchor()) else {
            return [None; 3];
        };
        let path = *simulator.path();
        let best = match self.judged {
            Some((judged, best)) if judged == path => best,
            _ => path.oracle().setpoint,
        };
        self.judged = Some((path, best));
        let bounds = simulator.bounds();
        Stage::ALL.map(|stage| {
            let wanted = (f64::from(best[stage]) / anchor[stage]).log2() as f32;
            (!bounds[stage].is_fixed()).then_some(wanted)
        })
    }

    /// Acts; returns goodput and workers as shares of the oracle's.
    fn step(&mut self, action: &[f32], state: &mut [f32]) -> (f32, f32) {
        let best = self.judged.map_or(PerStage::all(1), |(_, best)| best);
        let Some(simulator) = &mut self.simulator else { return (0.0, 0.0) };
        let bounds = simulator.bounds();
        let (rng, spread) = (&mut self.rng, self.spread);
        let mut drawn = [0.0; 3];
        for (drawn, mean) in drawn.iter_mut().zip(action) {
            *drawn = mean + if spread > 0.0 { rng.normal(0.0, spread) as f32 } else { 0.0 };
        }
        let setpoint = self.features.decode(&drawn, bounds);
        let Ok(seen) = simulator.step(setpoint);
        if let Some(seen) = seen {
            self.features.encode(&seen, bounds, state);
        }
        let total = |n: Concurrency| Stage::ALL.into_iter().map(|stage| f32::from(n[stage])).sum::<f32>();
        let share = simulator.last().map_or(0.0, |last| last.goodput.0 as f64 / last.best.0.max(1) as f64);
        (share as f32, total(setpoint) / total(best))
    }
}

impl Practice for SimulatedPath {
    fn reset(&mut self, rng: &mut Rng, state: &mut [f32]) {
        self.rng = rng.fork();
        self.draw(state);
        self.spread = 0.0;
        let _ = self.wanted();
    }

    fn step(&mut self, _rng: &mut Rng, action: &[f32], state: &mut [f32]) -> Outcome {
        let (share, workers) = Self::step(self, action, state);
        let _ = self.wanted();
        let reward = reward(share, workers);
        Outcome { reward, score: share, setpoint: PerStage::all(1), ended: false }
    }
}

/// What an epoch is worth: goodput as a share of the oracle's, less the price of workers beyond its.
fn reward(share: f32, workers: f32) -> f32 {
    share.min(1.0) - WORKERS_PRICE * (workers - 1.0).clamp(0.0, 3.0)
}

/// Every path, as a task to practise.
struct EveryPath;

impl TrainingTask for EveryPath {
    fn inputs(&self) -> usize {
        Recipe::Universal.features(&scales()).inputs()
    }

    fn heads(&self) -> usize {
        3
    }

    fn steps(&self) -> usize {
        EPOCHS as usize
    }

    fn practice(&self) -> Box<dyn Practice> {
        Box::new(SimulatedPath::new(Rng::new(0)))
    }
}

/// Environments of one thread, what they saw, and what would have been best.
struct VectorEnvironment {
    grounds: Vec<SimulatedPath>,
    inputs: usize,
    tape: Tape,
    now: Vec<f32>,
    states: Vec<f32>,
    /// Three a row; no number where there is nothing to decide.
    wanted: Vec<f32>,
    shares: Vec<f32>,
    workers: Vec<f32>,
}

impl VectorEnvironment {
    fn new(count: usize, rng: &mut Rng) -> Self {
        let grounds: Vec<SimulatedPath> = (0..count).map(|_| SimulatedPath::new(rng.fork())).collect();
        let inputs = Recipe::Universal.features(&scales()).inputs();
        Self {
            grounds,
            inputs,
            tape: Tape::default(),
            now: vec![0.0; count * inputs],
            states: Vec::new(),
            wanted: Vec::new(),
            shares: Vec::new(),
            workers: Vec::new(),
        }
    }

    fn run(&mut self, net: &Net) {
        for (ground, state) in self.grounds.iter_mut().zip(self.now.chunks_exact_mut(self.inputs)) {
            ground.draw(state);
        }
        self.play(net);
    }

    fn play(&mut self, net: &Net) {
        let Self { grounds, inputs, tape, now, states, wanted, shares, workers } = self;
        [&mut *states, &mut *wanted, &mut *shares, &mut *workers].into_iter().for_each(Vec::clear);
        for _ in 0..EPOCHS {
            states.extend_from_slice(now);
            let actions = net.forward(now, tape);
            let places = grounds.iter_mut().zip(now.chunks_exact_mut(*inputs));
            for ((ground, state), action) in places.zip(actions.chunks_exact(3)) {
                wanted.extend(ground.wanted().map(|wanted| wanted.unwrap_or(f32::NAN)));
                let (share, used) = ground.step(action, state);
                shares.push(share);
                workers.push(used);
            }
        }
    }
}

/// What a share of the gradient is made from, and the result.
#[derive(Default)]
struct Half {
    tape: Tape,
    states: Vec<f32>,
    wanted: Vec<f32>,
    d: Vec<f32>,
    gradient: Vec<f32>,
}

impl Half {
    fn learn(&mut self, net: &Net, price: f32, count: usize) {
        self.gradient.resize(net.parameters.len(), 0.0);
        let answers = net.forward(&self.states, &mut self.tape);
        self.d.clear();
        self.d.extend(answers.iter().zip(&self.wanted).map(|(&answer, &wanted)| {
            if wanted.is_nan() { 0.0 } else { slope(answer, wanted, price) / count as f32 }
        }));
        net.backward(&mut self.tape, &self.d, &mut self.gradient);
    }
}

/// The derivative of what an answer costs: 1 a power of two too few, `price` one too many.
fn slope(answer: f32, wanted: f32, price: f32) -> f32 {
    let error = answer - wanted;
    if error < 0.0 { -(-error / NEAR).min(1.0) } else { price * (error / NEAR).min(1.0) }
}

/// The share of the step size that is left when `done` of the way is made.
fn falling(done: f64) -> f32 {
    ((0.5 + 0.5 * (std::f64::consts::PI * done.min(1.0)).cos()) as f32).max(0.01)
}

/// What an exam showed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct UniversalExamResult {
    /// Mean goodput by the oracle's, without and with extras.
    pub share: [f32; 2],
    /// Mean workers by the oracle's over the second half.
    pub workers: [f32; 2],
}

/// One training.
pub struct Universal {
    config: UniversalConfig,
    rng: Rng,
    vectors: [VectorEnvironment; 2],
    net: Net,
    /// The running mean of the weights: what is examined and kept.
    mean: Net,
    adam: Adam,
    ppo: Option<Ppo>,
    halves: [Half; 2],
    batch: u32,
    steps: u32,
    exam: Vec<(Scenario, u64)>,
    best: Option<(Net, UniversalExamResult)>,
    marks: UniversalExamResult,
    progress: Progress,
}

impl Universal {
    /// Begins with weights drawn from `seed`.
    pub fn new(config: UniversalConfig, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let inputs = Recipe::Universal.features(&scales()).inputs();
        let shape =
            Shape { inputs, width: config.width, blocks: config.blocks, block: Block::Dense, outputs: 3 };
        let net = Net::new(shape, 0.01, &mut rng);
        let first = config.environments.div_ceil(2);
        let vectors =
            [first, config.environments - first].map(|count| VectorEnvironment::new(count, &mut rng));
        let exam = (0..config.exam_paths).map(|i| {
            let scenario = training(EXAM_SEEDS + i);
            (if i % 2 == 0 { scenario.ideal() } else { scenario }, EXAM_SEEDS + i)
        });
        Self {
            config,
            vectors,
            adam: Adam::new(net.parameters.len(), adam::AdamConfig { rate: config.rate, longest: 1.0 }),
            mean: net.clone(),
            ppo: None,
            net,
            halves: Default::default(),
            batch: 0,
            steps: 0,
            exam: exam.collect(),
            best: None,
            marks: UniversalExamResult::default(),
            progress: Progress::default(),
            rng,
        }
    }

    /// What the last exam showed.
    pub const fn marks(&self) -> UniversalExamResult {
        self.marks
    }

    /// Where it stands.
    pub const fn progress(&self) -> Progress {
        self.progress
    }

    fn collect(&mut self) {
        let net = &self.net;
        let [one, other] = &mut self.vectors;
        both(self.config.threads, || one.run(net), || other.run(net));
    }

    fn improve(&mut self) {
        let UniversalConfig { passes, minibatches, price, threads, .. } = self.config;
        let rows: usize = self.vectors.iter().map(|environments| environments.shares.len()).sum();
        let inputs = self.vectors[0].inputs;
        let first = self.vectors[0].shares.len();
        let mut order: Vec<usize> = (0..rows).collect();
        for _ in 0..passes {
            for i in (1..rows).rev() {
                order.swap(i, (self.rng.next_u64() % (i as u64 + 1)) as usize);
            }
            for part in order.chunks(rows.div_ceil(minibatches).max(2)) {
                let (a, b) = part.split_at(part.len() / 2);
                for (half, rows) in self.halves.iter_mut().zip([a, b]) {
                    half.states.clear();
                    half.wanted.clear();
                    for &row in rows {
                        let (environments, row) = if row < first {
                            (&self.vectors[0], row)
                        } else {
                            (&self.vectors[1], row - first)
                        };
                        half.states.extend_from_slice(&environments.states[row * inputs..(row + 1) * inputs]);
                        half.wanted.extend_from_slice(&environments.wanted[row * 3..(row + 1) * 3]);
                    }
                }
                let (net, [one, other], count) = (&self.net, &mut self.halves, part.len());
                both(threads, || one.learn(net, price, count), || other.learn(net, price, count));
                let sum = &mut one.gradient;
                sum.iter_mut().zip(&other.gradient).for_each(|(sum, more)| *sum += more);
                self.adam.step(&mut self.net.parameters, sum);
                self.steps += 1;
                // As long as few steps were made, their plain mean.
                let newest = (1.0 / self.steps as f32).max(NEWEST);
                let pairs = self.mean.parameters.iter_mut().zip(&self.net.parameters);
                pairs.for_each(|(mean, now)| *mean += newest * (now - *mean));
            }
        }
    }

    /// A batch of imitation.
    fn imitate(&mut self) {
        let done = f64::from(self.batch) / f64::from(self.config.batches.max(1));
        self.adam.set_rate(self.config.rate * falling(done));
        self.collect();
        self.improve();
        let shares = self.vectors.iter().flat_map(|environments| &environments.shares);
        let count: usize = self.vectors.iter().map(|environments| environments.shares.len()).sum();
        self.progress.recent = shares.sum::<f32>() / count.max(1) as f32;
    }

    /// A batch of practice by reward.
    fn refine(&mut self) {
        let UniversalConfig { batches, warming, refining, ppo: mut config, threads, .. } = self.config;
        config.threads = threads;
        let done = self.batch - batches;
        let rate = |rate| adam::AdamConfig { rate, longest: 1.0 };
        let log_sigma = vec![config.sigma.ln(); 3];
        let ppo = match self.ppo.take() {
            None => {
                let actor = Actor::from_net(self.mean.clone(), log_sigma, rate(0.0));
                let shape = Shape { outputs: 1, ..self.net.shape() };
                let critic = Critic::new(shape, rate(1e-3), &mut self.rng);
                Ppo::resume(&EveryPath, config, actor, critic, self.rng.fork())
            }
            Some(ppo) if done == warming => {
                let actor = Actor::from_net(self.mean.clone(), log_sigma, rate(config.rate));
                let critic = Critic::from_net(ppo.critic().net.clone(), rate(3e-4));
                Ppo::resume(&EveryPath, config, actor, critic, self.rng.fork())
            }
            Some(ppo) => ppo,
        };
        let ppo = self.ppo.insert(ppo);
        if done > warming {
            ppo.set_rate(config.rate * falling(f64::from(done - warming) / f64::from(refining.max(1))));
        }
        let scores = ppo.advance();
        self.progress.recent = scores.iter().sum::<f32>() / scores.len().max(1) as f32;
        if done >= warming {
            let newest = NEWEST_BATCH;
            let pairs = self.mean.parameters.iter_mut().zip(&ppo.actor().net.parameters);
            pairs.for_each(|(mean, now)| *mean += newest * (now - *mean));
        }
    }

    /// Plays the exam's paths without noise of its own.
    pub fn examine(&mut self) -> UniversalExamResult {
        let mut environments = VectorEnvironment::new(self.exam.len(), &mut Rng::new(1));
        let places =
            environments.grounds.iter_mut().zip(environments.now.chunks_exact_mut(environments.inputs));
        for ((ground, state), (scenario, seed)) in places.zip(&self.exam) {
            ground.begin(scenario.clone(), *seed, None, state);
        }
        environments.play(&self.mean);
        let count = self.exam.len();
        let mean = |values: &[f32], odd: usize, from: usize| {
            let kept = values.iter().enumerate().skip(from * count).filter(|(i, _)| i % count % 2 == odd);
            let (sum, n) = kept.fold((0.0, 0), |(sum, n), (_, value)| (sum + value, n + 1));
            sum / n as f32
        };
        let half = EPOCHS as usize / 2;
        let marks = UniversalExamResult {
            share: [mean(&environments.shares, 0, 0), mean(&environments.shares, 1, 0)],
            workers: [mean(&environments.workers, 0, half), mean(&environments.workers, 1, half)],
        };
        self.marks = marks;
        let rewards = environments
            .shares
            .iter()
            .zip(&environments.workers)
            .map(|(&share, &workers)| reward(share, workers));
        let worth = rewards.sum::<f32>() / environments.shares.len().max(1) as f32;
        self.progress.greedy = Some(worth);
        if worth > self.progress.best || self.best.is_none() {
            self.progress.best = worth;
            self.best = Some((self.mean.clone(), marks));
        }
        marks
    }
}

impl Trainer for Universal {
    fn advance(&mut self) -> Progress {
        if self.batch < self.config.batches {
            self.imitate();
        } else {
            self.refine();
        }
        self.batch += 1;
        self.progress.episodes += self.config.environments as u64;
        let UniversalConfig { batches, warming, refining, .. } = self.config;
        let complete = self.batch >= batches + if refining > 0 { warming + refining } else { 0 };
        if complete {
            self.progress.converged_at = Some(self.progress.episodes);
        }
        self.progress.done = complete || self.progress.episodes >= self.config.most;
        let warm = self.batch > batches && self.batch <= batches + warming;
        if (self.batch.is_multiple_of(self.config.exam_every.max(1)) && !warm) || self.progress.done {
            self.examine();
        }
        self.progress
    }

    fn policy(&mut self, facts: Facts) -> Option<Policy> {
        if self.best.is_none() {
            self.examine();
        }
        let (net, _) = self.best.as_ref()?;
        Some(Policy {
            recipe: Recipe::Universal,
            scales: scales(),
            actor: net.to_network()?,
            log_sigma: vec![-3.0; 3],
            critic: None,
            facts,
        })
    }

    fn rest(&self) -> Option<Concurrency> {
        None
    }
}
