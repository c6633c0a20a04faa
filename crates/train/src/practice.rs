//! What is practised: paths, what is seen of them, what is done, and what it earns.
//!
//! A [`TrainingTask`] hands out equal, independent [`Practice`] environments; each draws
//! its path and its start anew on every reset, from its own stream of numbers. [`PathTask`] is
//! the task of the recipes that act through `control::policy::Features`.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tidegate_control::policy::{Features, Recipe, Scales};
use tidegate_control::{
    BitRate, Concurrency, Environment, Observation, PerStage, Rng, Scenario, Simulator, SimulatorOptions,
};

use crate::reward::MaxReward;

/// What a recipe has to say to be trained.
pub trait TrainingTask: Send + Sync {
    /// Values a policy is shown.
    fn inputs(&self) -> usize;

    /// Values a policy answers.
    fn heads(&self) -> usize;

    /// Steps an episode.
    fn steps(&self) -> usize;

    /// How many of the answered values belong to each group of choices; none where they are numbers.
    fn choices(&self) -> Vec<usize> {
        Vec::new()
    }

    /// Steps at the beginning whose score is not judged: what a policy that moves step by step needs
    /// to come from a random start to its place.
    fn warm_up(&self) -> usize {
        0
    }

    /// One more environment.
    fn practice(&self) -> Box<dyn Practice>;
}

/// One environment to practise in.
pub trait Practice: Send {
    /// Begins an episode, on another path if the task has several, and shows its first state.
    fn reset(&mut self, rng: &mut Rng, state: &mut [f32]);

    /// Acts, and shows what came of it.
    fn step(&mut self, rng: &mut Rng, action: &[f32], state: &mut [f32]) -> Outcome;
}

/// What came of one action.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// What is learned from.
    pub reward: f32,
    /// Utility as a share of R_max: what is judged.
    pub score: f32,
    /// What was set.
    pub setpoint: Concurrency,
    /// The path ended, which is not the same as the episode's being over.
    pub ended: bool,
}

/// Draws a path.
pub(crate) type Paths = Arc<dyn Fn(&mut Rng) -> Scenario + Send + Sync>;

/// Simulated paths, seen and acted on through a recipe's features; the reward is the end-to-end
/// utility as a share of R_max.
#[derive(Clone)]
pub struct PathTask {
    /// How paths are seen and acted on.
    pub recipe: Recipe,
    /// What the features know.
    pub scales: Scales,
    /// Where paths come from.
    pub paths: Paths,
    /// K of the utility.
    pub k: f64,
    /// Steps an episode; 10 in the papers.
    pub steps: usize,
    /// Steps that are not judged.
    pub warm_up: usize,
    /// How long a step is.
    pub epoch: Duration,
}

impl PathTask {
    /// The one path of `scenario`, without an end and without changes, as the papers train.
    pub fn of(scenario: &Scenario, recipe: Recipe, k: f64) -> Self {
        let scenario = Scenario { dataset: None, timeline: Vec::new(), ..scenario.clone() };
        let best = tidegate_control::Path::at(&scenario, Duration::ZERO).oracle().goodput;
        // Three workers a step take some time from one end of the bounds to the other.
        let (steps, warm_up) = if recipe == Recipe::DiscreteRl { (50, 40) } else { (10, 0) };
        let scales = Scales { rate_bps: best, bounds: scenario.bounds(), start: None };
        Self {
            recipe,
            scales,
            paths: Arc::new(move |_| scenario.clone()),
            k,
            steps,
            warm_up,
            epoch: Duration::from_secs(1),
        }
    }
}

impl TrainingTask for PathTask {
    fn inputs(&self) -> usize {
        self.recipe.features(&self.scales).inputs()
    }

    fn heads(&self) -> usize {
        self.recipe.features(&self.scales).heads()
    }

    fn steps(&self) -> usize {
        self.steps
    }

    fn choices(&self) -> Vec<usize> {
        self.recipe.features(&self.scales).choices()
    }

    fn warm_up(&self) -> usize {
        self.warm_up
    }

    fn practice(&self) -> Box<dyn Practice> {
        Box::new(SimulatedPath {
            task: self.clone(),
            features: self.recipe.features(&self.scales),
            run: None,
            before: 0.0,
        })
    }
}

/// A change of utility below this share is none.
const TOLERANCE: f32 = 0.01;

/// The reward of discrete steps: 1 if the utility rose, -1 if it fell, 0 if it stayed about the same.
pub(crate) fn sign_of_change(now: f32, before: f32) -> f32 {
    if now > before * (1.0 + TOLERANCE) {
        1.0
    } else if now < before * (1.0 - TOLERANCE) {
        -1.0
    } else {
        0.0
    }
}

/// A path being practised on.
struct SimulatedPath {
    task: PathTask,
    features: Box<dyn Features>,
    run: Option<Run>,
    /// The score of the step before.
    before: f32,
}

/// What an episode goes on with.
struct Run {
    simulator: Simulator,
    worth: MaxReward,
    noise: f64,
}

impl Run {
    /// One epoch: what it showed, with measurement noise, and what it was worth, without.
    fn step(&mut self, rng: &mut Rng, setpoint: Concurrency) -> Option<(Observation, f32)> {
        let stepped: Result<_, Infallible> = self.simulator.step(setpoint);
        let Ok(seen) = stepped;
        let mut seen = seen?;
        let score = self.worth.share(seen.throughput.map(BitRate::as_mbps), seen.concurrency) as f32;
        if self.noise > 0.0 {
            seen.throughput =
                seen.throughput.map(|rate| BitRate::from_bps(rate.0 as f64 * rng.normal(1.0, self.noise)));
        }
        Some((seen, score))
    }
}

impl Practice for SimulatedPath {
    fn reset(&mut self, rng: &mut Rng, state: &mut [f32]) {
        let mut scenario = (self.task.paths)(rng);
        // The simulator shows the truth; noise comes on top, so that the reward is free of it.
        let noise = std::mem::take(&mut scenario.noise.throughput);
        let worth = MaxReward::new(&scenario, self.task.k);
        let mut options = SimulatorOptions::new(0, self.task.epoch, 0);
        options.epochs = None;
        let mut run = Run { simulator: Simulator::new(scenario, options), worth, noise };
        let bounds = run.simulator.bounds();
        let start: Concurrency = bounds.map(|bounds| rng.integer(bounds.min, bounds.max));
        self.features.reset();
        state.fill(0.0);
        if let Some((seen, score)) = run.step(rng, start) {
            self.before = score;
            self.features.encode(&seen, bounds, state);
        }
        self.run = Some(run);
    }

    fn step(&mut self, rng: &mut Rng, action: &[f32], state: &mut [f32]) -> Outcome {
        let nothing = Outcome { reward: 0.0, score: 0.0, setpoint: PerStage::all(1), ended: true };
        let Some(run) = &mut self.run else { return nothing };
        let bounds = run.simulator.bounds();
        let setpoint = self.features.decode(action, bounds);
        let Some((seen, score)) = run.step(rng, setpoint) else { return Outcome { setpoint, ..nothing } };
        self.features.encode(&seen, bounds, state);
        let before = std::mem::replace(&mut self.before, score);
        let signs = self.task.recipe == Recipe::DiscreteRl;
        let reward = if signs { sign_of_change(score, before) } else { score };
        Outcome { reward, score, setpoint, ended: false }
    }
}
