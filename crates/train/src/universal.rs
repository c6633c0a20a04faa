//! One policy for every path: the recipe.
//!
//! Paths are drawn anew for every episode (`TrainingPath`). In simulation the best set-point is known at every
//! moment, so the policy need not find it by trial: it plays, and after every step is told how far its answer was from
//! the oracle's fewest workers (imitation on the states the learner itself visits, DAgger: Ross et al.). What an error
//! costs is what the reward says: too few workers lose goodput in proportion, a surplus costs its price, so the
//! answer is a quantile of what the path may need, given all that was seen. A path that is not yet
//! known is therefore explored upwards, and a surplus is taken back by itself.
//!
//! That looks one step ahead, but what it is told holds for as long as the path stays. (Practice by reward with PPO, on
//! top, gained nothing.) The best of all its states in an exam is kept.
//!
//! Beside the streams of others the oracle is that of the path without them: as many as fill it alone, a fair share.

use std::time::Duration;

use tidegate_control::policy::{Block, Features, Policy, Recipe, Scales, Shape};
use tidegate_control::random_path::EPOCHS;
use tidegate_control::{
    BitRate, Bounds, Concurrency, Environment, Path, PerStage, Rng, Simulator, SimulatorOptions, Stage,
};

use crate::adam::{self, Adam};
use crate::domain::{TrainingPath, counted};
use crate::net::{Net, Tape};
use crate::pair::both;
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
            environments: 128,
            batches: 60,
            passes: 3,
            minibatches: 16,
            rate: 1e-3,
            price: 0.08,
            exam_every: 10,
            exam_paths: 256,
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

/// The scales of a policy that knows no path.
pub fn scales() -> Scales {
    Scales { rate_bps: BitRate::from_bps(1.0), bounds: PerStage::all(Bounds::new(1, u16::MAX)), start: None }
}

/// A path as it is now, and the best that can be done on it.
#[derive(Clone, Copy)]
struct Judged {
    path: Path,
    best: Concurrency,
    /// What that moves, in bit/s.
    goodput: f64,
}

impl Judged {
    fn new(path: Path) -> Self {
        let mut alone = path;
        alone.background.streams = 0;
        let best = alone.oracle().setpoint;
        Self { path, best, goodput: path.goodput(best) }
    }
}

/// One environment.
struct SimulatedPath {
    features: Box<dyn Features>,
    rng: Rng,
    episode: Option<Episode>,
    spread: f64,
}

/// What an episode goes on with.
struct Episode {
    simulator: Simulator,
    block_bits: Option<f64>,
    judged: Judged,
}

/// What an epoch came to.
#[derive(Clone, Copy, Default)]
struct Played {
    seconds: f32,
    /// Goodput as a share of the best, and what was earned a second.
    share: f32,
    worth: f32,
}

impl SimulatedPath {
    fn new(rng: Rng) -> Self {
        Self { features: Recipe::Universal.features(&scales()), rng, episode: None, spread: 0.0 }
    }

    /// Begins an episode on a path of training's own.
    fn draw(&mut self, state: &mut [f32]) {
        let seed = TRAINING_SEEDS + (self.rng.next_u64() >> 24);
        let path = TrainingPath::draw(seed);
        self.spread = SPREADS[usize::from(self.rng.integer(0, 3))];
        let start = if self.rng.unit() < OWN_START {
            None
        } else {
            let rng = &mut self.rng;
            Some(path.scenario.bounds().map(|b| rng.log_uniform(b.min.into(), f64::from(b.max) + 1.0) as u16))
        };
        self.begin(path, seed, start, state);
    }

    fn begin(&mut self, path: TrainingPath, seed: u64, start: Option<Concurrency>, state: &mut [f32]) {
        let options = SimulatorOptions::new(seed, Duration::from_secs(1), 0).with_short_epochs();
        let mut simulator = Simulator::new(path.scenario, SimulatorOptions { epochs: None, ..options });
        self.features.reset();
        let start = start.unwrap_or_else(|| self.features.start(simulator.bounds()));
        state.fill(0.0);
        let Ok(seen) = simulator.step(start);
        if let Some(seen) = seen {
            self.features.encode(&counted(seen, path.block_bits), simulator.bounds(), state);
        }
        let judged = Judged::new(*simulator.path());
        self.episode = Some(Episode { simulator, block_bits: path.block_bits, judged });
    }

    /// How far, in powers of two, the oracle's workers are from the anchors; none where there is
    /// nothing to decide.
    fn wanted(&self) -> [Option<f32>; 3] {
        let (Some(episode), Some(anchor)) = (&self.episode, self.features.anchor()) else { return [None; 3] };
        let bounds = episode.simulator.bounds();
        Stage::ALL.map(|stage| {
            let wanted = (f64::from(episode.judged.best[stage]) / anchor[stage]).log2() as f32;
            (!bounds[stage].is_fixed()).then_some(wanted)
        })
    }

    /// Acts.
    fn act(&mut self, action: &[f32], state: &mut [f32]) -> Played {
        let Some(Episode { simulator, block_bits, judged }) = &mut self.episode else {
            return Played::default();
        };
        let bounds = simulator.bounds();
        let (rng, spread) = (&mut self.rng, self.spread);
        let mut drawn = [0.0; 3];
        for (drawn, mean) in drawn.iter_mut().zip(action) {
            *drawn = mean + if spread > 0.0 { rng.normal(0.0, spread) as f32 } else { 0.0 };
        }
        let setpoint = self.features.decode(&drawn, bounds);
        simulator.short_epochs(self.features.short_epochs(setpoint));
        let Ok(seen) = simulator.step(setpoint);
        if let Some(seen) = seen {
            self.features.encode(&counted(seen, *block_bits), bounds, state);
        }
        let Some(last) = simulator.last() else { return Played::default() };
        let total = |n: Concurrency| Stage::ALL.into_iter().map(|stage| f32::from(n[stage])).sum::<f32>();
        let best = judged.goodput.min(last.best.0 as f64).max(1.0);
        let share = (last.goodput.0 as f64 / best).min(1.0) as f32;
        let worth = worth(share, total(setpoint) / total(judged.best));
        if judged.path != *simulator.path() {
            *judged = Judged::new(*simulator.path());
        }
        Played { seconds: last.length.as_secs_f32(), share, worth }
    }
}

/// What a second is worth: goodput as a share of the oracle's, less the price of workers beyond its.
fn worth(share: f32, workers: f32) -> f32 {
    share.min(1.0) - WORKERS_PRICE * (workers - 1.0).clamp(0.0, 3.0)
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
    played: Vec<Played>,
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
            played: Vec::new(),
        }
    }

    fn run(&mut self, net: &Net) {
        for (ground, state) in self.grounds.iter_mut().zip(self.now.chunks_exact_mut(self.inputs)) {
            ground.draw(state);
        }
        self.play(net);
    }

    fn play(&mut self, net: &Net) {
        let Self { grounds, inputs, tape, now, states, wanted, played } = self;
        [&mut *states, &mut *wanted].into_iter().for_each(Vec::clear);
        played.clear();
        for _ in 0..EPOCHS {
            states.extend_from_slice(now);
            let actions = net.forward(now, tape);
            let places = grounds.iter_mut().zip(now.chunks_exact_mut(*inputs));
            for ((ground, state), action) in places.zip(actions.chunks_exact(3)) {
                wanted.extend(ground.wanted().map(|wanted| wanted.unwrap_or(f32::NAN)));
                played.push(ground.act(action, state));
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

/// One training.
pub struct Universal {
    config: UniversalConfig,
    rng: Rng,
    vectors: [VectorEnvironment; 2],
    net: Net,
    /// The running mean of the weights: what is examined and kept.
    mean: Net,
    adam: Adam,
    halves: [Half; 2],
    batch: u32,
    steps: u32,
    exam: Vec<(TrainingPath, u64)>,
    best: Option<Net>,
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
        let exam = (0..config.exam_paths).map(|i| (TrainingPath::draw(EXAM_SEEDS + i), EXAM_SEEDS + i));
        Self {
            config,
            vectors,
            adam: Adam::new(net.parameters.len(), adam::AdamConfig { rate: config.rate, longest: 1.0 }),
            mean: net.clone(),
            net,
            halves: Default::default(),
            batch: 0,
            steps: 0,
            exam: exam.collect(),
            best: None,
            progress: Progress::default(),
            rng,
        }
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
        let rows: usize = self.vectors.iter().map(|environments| environments.played.len()).sum();
        let inputs = self.vectors[0].inputs;
        let first = self.vectors[0].played.len();
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
        let played = || self.vectors.iter().flat_map(|environments| &environments.played);
        self.progress.recent =
            played().map(|played| played.share).sum::<f32>() / played().count().max(1) as f32;
    }

    /// Plays the exam's paths without noise of its own.
    fn examine(&mut self) {
        let mut environments = VectorEnvironment::new(self.exam.len(), &mut Rng::new(1));
        let places =
            environments.grounds.iter_mut().zip(environments.now.chunks_exact_mut(environments.inputs));
        for ((ground, state), (path, seed)) in places.zip(&self.exam) {
            ground.begin(path.clone(), *seed, None, state);
        }
        environments.play(&self.mean);
        let sum = |value: fn(&Played) -> f32| environments.played.iter().map(value).sum::<f32>();
        let worth = sum(|played| played.seconds * played.worth) / sum(|played| played.seconds).max(1.0);
        self.progress.greedy = Some(worth);
        if worth > self.progress.best || self.best.is_none() {
            self.progress.best = worth;
            self.best = Some(self.mean.clone());
        }
    }
}

impl Trainer for Universal {
    fn advance(&mut self) -> Progress {
        self.imitate();
        self.batch += 1;
        self.progress.episodes += self.config.environments as u64;
        let complete = self.batch >= self.config.batches;
        if complete {
            self.progress.converged_at = Some(self.progress.episodes);
        }
        self.progress.done = complete || self.progress.episodes >= self.config.most;
        if self.batch.is_multiple_of(self.config.exam_every.max(1)) || self.progress.done {
            self.examine();
        }
        self.progress
    }

    fn policy(&mut self, facts: Facts) -> Option<Policy> {
        if self.best.is_none() {
            self.examine();
        }
        let net = self.best.as_ref()?;
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
