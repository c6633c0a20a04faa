//! One simulated path as a learner sees it: a vector of numbers in, three numbers of workers out, and
//! what that was worth. Knows nothing of Python.

use std::sync::Arc;
use std::time::Duration;

use tidegate_control::{
    ByteCount, Concurrency, Environment, Observation, Path, Rng, Scenario, Simulator, SimulatorOptions, Stage,
};

use crate::view::{FEATURES, Taste, View};

/// Numbers told beside a state: goodput and the oracle's in bit/s, workers a stage.
pub(crate) const INFORMATION: usize = 5;

/// How an episode is run; the same for all episodes of an environment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// Epochs after which an episode is cut off.
    pub epochs: u32,
    pub epoch: Duration,
    /// What actions mean and epochs are worth.
    pub taste: Taste,
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
    view: View,
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
            view: View::new(scenario.bounds(), settings.reference.unwrap_or(best), settings.taste),
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

    /// How it is seen and acted on.
    pub const fn view(&self) -> &View {
        &self.view
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
        let bounds = self.view.bounds();
        let random = bounds.map(|bounds| self.rng.integer(bounds.min, bounds.max));
        let start = start.or(self.settings.start).unwrap_or(random);
        let mut simulator = Simulator::new((*self.scenario).clone(), options);
        let Ok(seen) = simulator.step(bounds.clamp(start));
        self.simulator = Some(simulator);
        self.seen = seen;
        self.taken = 0;
        self.ended = false;
        self.judge();
    }

    /// Lets an epoch pass. An episode that is over stays as it is.
    pub fn step(&mut self, setpoint: Concurrency) -> Outcome {
        let Some(simulator) = self.simulator.as_mut().filter(|_| !self.ended) else {
            return Outcome { terminated: true, ..Outcome::default() };
        };
        self.taken += 1;
        let Ok(seen) = simulator.step(setpoint);
        // A path that had moved everything in the epoch of the reset has nothing left to show.
        let reward = seen.as_ref().map_or(0.0, |seen| self.view.worth(seen));
        let done = |seen: &Observation| seen.remaining.is_some_and(|left| left.bytes == ByteCount(0));
        let terminated = seen.as_ref().is_none_or(done);
        self.seen = seen.or(self.seen.take());
        self.judge();
        let truncated = !terminated && self.taken >= self.settings.epochs;
        self.ended = terminated || truncated;
        Outcome { reward, terminated, truncated }
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
        self.seen.as_ref().map_or([0.0; FEATURES], |seen| self.view.state(seen))
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
