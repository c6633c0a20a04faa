//! One simulated path as a learner sees it: a vector of numbers in, three numbers of workers out, and
//! what that was worth. Knows nothing of Python.

use std::sync::Arc;
use std::time::Duration;

use tidegate_control::utility::LossTerm;
use tidegate_control::{
    Bounds, ByteCount, Concurrency, Environment, Observation, Path, PerStage, Rng, Scenario, Simulator,
    SimulatorOptions, Stage, Utility,
};

/// Numbers in a state: throughput a stage, workers a stage, staging fill an end, loss.
pub(crate) const FEATURES: usize = 9;

/// Numbers told beside a state: goodput and the oracle's in bit/s, workers a stage.
pub(crate) const INFORMATION: usize = 5;

/// Throughput is shown relative to a reference and cut off here, so that states are bounded. A stage
/// can be faster than the path only while it fills its staging.
const MAX_FEATURE: f64 = 10.0;

/// What an epoch is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reward {
    /// End-to-end goodput relative to the reference, times the mean of K⁻ⁿ over the stages that can
    /// be set. Reading into the staging faster than the path drains it pays nothing.
    EndToEnd,
    /// AutoMDT: the sum of T/Kⁿ over the stages, in Mbit/s.
    Automdt,
    /// LDM: T/Kⁿ − B·L with the end-to-end goodput and the streams, in Mbit/s.
    Ldm,
}

/// What the numbers of an action mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Actions {
    /// Each from −1, the fewest workers, to 1, the most, evenly in the logarithm; beyond is cut off.
    Continuous,
    /// Each a number of workers above the fewest.
    Discrete,
}

/// How an episode is run; the same for all episodes of an environment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// Epochs after which an episode is cut off.
    pub epochs: u32,
    pub epoch: Duration,
    pub actions: Actions,
    pub reward: Reward,
    /// The utility's price of a worker.
    pub k: f64,
    /// The set-point of the epoch that precedes the first state; drawn at random if absent.
    pub start: Option<Concurrency>,
    /// What throughput is shown relative to, in bit/s; the oracle's goodput at the start if absent.
    pub reference: Option<f64>,
}

/// What a step came to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Outcome {
    pub reward: f64,
    /// Everything was moved.
    pub terminated: bool,
    /// The episode was cut off.
    pub truncated: bool,
}

/// A path and its present episode.
pub(crate) struct Episode {
    scenario: Arc<Scenario>,
    settings: Settings,
    bounds: PerStage<Bounds>,
    reference: f64,
    rng: Rng,
    simulator: Option<Simulator>,
    seen: Option<Observation>,
    /// The oracle's goodput in bit/s, and how many changes of the timeline it knows.
    best: (f64, usize),
    taken: u32,
    ended: bool,
}

impl Episode {
    pub fn new(scenario: Arc<Scenario>, settings: Settings) -> Self {
        let best = Path::at(&scenario, Duration::ZERO).oracle().goodput.0 as f64;
        Self {
            bounds: scenario.bounds(),
            reference: settings.reference.unwrap_or(best).max(1.0),
            rng: Rng::new(0),
            simulator: None,
            seen: None,
            best: (best, 0),
            taken: 0,
            ended: true,
            scenario,
            settings,
        }
    }

    pub const fn bounds(&self) -> PerStage<Bounds> {
        self.bounds
    }

    pub const fn reference(&self) -> f64 {
        self.reference
    }

    pub const fn seen(&self) -> Option<&Observation> {
        self.seen.as_ref()
    }

    /// Whether the episode is over, or was never begun.
    pub const fn ended(&self) -> bool {
        self.ended
    }

    /// Fixes every episode from here on.
    pub fn seed(&mut self, seed: u64) {
        self.rng = Rng::new(seed);
    }

    /// Begins an episode: one epoch passes at `start`, the settings' or a random set-point, so that
    /// there is something to see.
    pub fn reset(&mut self, start: Option<Concurrency>) {
        let mut options = SimulatorOptions::new(self.rng.next_u64(), self.settings.epoch, 1);
        options.epochs = None;
        let random = self.bounds.map(|bounds| self.rng.integer(bounds.min, bounds.max));
        let start = start.or(self.settings.start).unwrap_or(random);
        let mut simulator = Simulator::new((*self.scenario).clone(), options);
        let Ok(seen) = simulator.step(self.bounds.clamp(start));
        self.simulator = Some(simulator);
        self.seen = seen;
        self.taken = 0;
        self.ended = false;
        self.judge();
    }

    /// The set-point that an action asks for; what is wrong with it otherwise.
    pub fn setpoint(&self, action: &[f64]) -> Result<Concurrency, String> {
        for (stage, value) in Stage::ALL.into_iter().zip(action) {
            let bounds = self.bounds[stage];
            let most = f64::from(bounds.max - bounds.min);
            let whole = value.fract() == 0.0 && (0.0..=most).contains(value);
            if !value.is_finite() {
                return Err(format!("{stage} is {value}, not a finite number"));
            } else if self.settings.actions == Actions::Discrete && !whole {
                return Err(format!("{stage} is {value}, not a whole number from 0 to {most}"));
            }
        }
        Ok(PerStage::from_fn(|stage| {
            let (value, bounds) = (action[stage as usize], self.bounds[stage]);
            let (min, max) = (f64::from(bounds.min), f64::from(bounds.max));
            bounds.clamp_f64(match self.settings.actions {
                Actions::Continuous => min * (max / min).powf((value.clamp(-1.0, 1.0) + 1.0) / 2.0),
                Actions::Discrete => min + value,
            })
        }))
    }

    /// Lets an epoch pass. An episode that is over stays as it is.
    pub fn step(&mut self, setpoint: Concurrency) -> Outcome {
        let Some(simulator) = self.simulator.as_mut().filter(|_| !self.ended) else {
            return Outcome { terminated: true, ..Outcome::default() };
        };
        self.taken += 1;
        let Ok(seen) = simulator.step(setpoint);
        // A path that had moved everything in the epoch of the reset has nothing left to show.
        let reward = seen.as_ref().map_or(0.0, |seen| self.worth(seen));
        let done = |seen: &Observation| seen.remaining.is_some_and(|left| left.bytes == ByteCount(0));
        let terminated = seen.as_ref().is_none_or(done);
        self.seen = seen.or(self.seen.take());
        self.judge();
        let truncated = !terminated && self.taken >= self.settings.epochs;
        self.ended = terminated || truncated;
        Outcome { reward, terminated, truncated }
    }

    fn worth(&self, seen: &Observation) -> f64 {
        let utility = |loss_term| Utility { k: self.settings.k, loss_term, ..Utility::default() };
        let loss = seen.loss.unwrap_or(0.0);
        match self.settings.reward {
            Reward::EndToEnd => {
                let free = || Stage::ALL.into_iter().filter(|&stage| !self.bounds[stage].is_fixed());
                let price = |stage| self.settings.k.powi(-i32::from(seen.concurrency[stage]));
                let count = free().count();
                let mean = if count > 0 { free().map(price).sum::<f64>() / count as f64 } else { 1.0 };
                seen.goodput().0 as f64 / self.reference * mean
            }
            Reward::Automdt => utility(LossTerm::None).total(seen.throughput, seen.concurrency, loss),
            Reward::Ldm => {
                utility(LossTerm::Ldm).score(seen.goodput().as_mbps(), seen.concurrency.network, loss)
            }
        }
    }

    /// Takes note of what the oracle would move by now.
    fn judge(&mut self) {
        let Some(seen) = &self.seen else { return };
        let changes = self.scenario.timeline.iter().take_while(|change| change.at <= seen.at).count();
        if changes != self.best.1 {
            self.best = (Path::at(&self.scenario, seen.at).oracle().goodput.0 as f64, changes);
        }
    }

    /// The state, each number within the bounds of the observation space.
    pub fn state(&self) -> [f32; FEATURES] {
        let Some(seen) = &self.seen else { return [0.0; FEATURES] };
        let rate = |stage| (seen.throughput[stage].0 as f64 / self.reference).min(MAX_FEATURE);
        let workers = |stage| f64::from(seen.concurrency[stage]) / f64::from(self.bounds[stage].max);
        let fill = |free: ByteCount, capacity: ByteCount| {
            let share = 1.0 - free.0 as f64 / capacity.0.max(1) as f64;
            if capacity == ByteCount(0) { 0.0 } else { share.clamp(0.0, 1.0) }
        };
        let (free, capacity) = (seen.staging_free, seen.staging_capacity);
        [
            rate(Stage::Read),
            rate(Stage::Network),
            rate(Stage::Write),
            workers(Stage::Read),
            workers(Stage::Network),
            workers(Stage::Write),
            fill(free.sender, capacity.sender),
            fill(free.receiver, capacity.receiver),
            seen.loss.unwrap_or(0.0).clamp(0.0, 1.0),
        ]
        .map(|value| value as f32)
    }

    /// What is told beside the state, in the units of the world.
    pub fn information(&self) -> [f64; INFORMATION] {
        let Some(seen) = &self.seen else { return [0.0; INFORMATION] };
        let [read, network, write] = seen.concurrency.into_array().map(f64::from);
        [seen.goodput().0 as f64, self.best.0, read, network, write]
    }

    /// The present epoch as a line for people.
    pub fn text(&self) -> String {
        let Some(seen) = &self.seen else { return "not begun: call reset()".to_owned() };
        let stage = |stage: Stage| {
            format!("{stage} {:>3} × {:>11}", seen.concurrency[stage], seen.throughput[stage].to_string())
        };
        let state = self.state();
        format!(
            "{:>4}/{}  {}  {}  {}  staging {:>3.0} %/{:>3.0} %  goodput {:>3.0} % of the best",
            self.taken,
            self.settings.epochs,
            stage(Stage::Read),
            stage(Stage::Network),
            stage(Stage::Write),
            state[6] * 100.0,
            state[7] * 100.0,
            100.0 * seen.goodput().0 as f64 / self.best.0.max(1.0),
        )
    }
}
