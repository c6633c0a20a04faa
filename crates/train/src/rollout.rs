//! Many environments in step: episodes to learn from, and episodes to judge by.

use tidegate_control::{Concurrency, Rng};

use crate::actor::Actor;
use crate::net::Tape;
use crate::practice::{Practice, TrainingTask};

/// Some environments, driven together by one thread.
pub(crate) struct VectorEnvironment {
    places: Vec<Place>,
    inputs: usize,
    heads: usize,
    steps: usize,
    tape: Tape,
    now: Vec<f32>,
    episodes: Episodes,
}

struct Place {
    practice: Box<dyn Practice>,
    rng: Rng,
}

/// What a vector environment brought back: episode after episode, step after step; E episodes of S steps, row by row.
#[derive(Clone, Debug, Default)]
pub(crate) struct Episodes {
    /// What was seen before each step: E·S rows of the task's inputs.
    pub states: Vec<f32>,
    /// What was done: E·S rows, one value an action, or the choice itself
    /// where there are choices.
    pub actions: Vec<f32>,
    /// ln of the density it was done with: E·S.
    pub(crate) log_densities: Vec<f32>,
    /// What each step earned, which is what is learned from: E·S,
    /// without a unit.
    pub rewards: Vec<f32>,
    /// Utility as a share of R_max.
    pub scores: Vec<f32>,
    /// What was set, within the bounds of the path
    /// that was drawn.
    pub setpoints: Vec<Concurrency>,
    /// What was seen last, an episode.
    pub last: Vec<f32>,
    /// Whether the path itself ended, an episode.
    pub ended: Vec<bool>,
}

impl VectorEnvironment {
    /// `count` environments of `task`, each with its own stream from `rng`.
    pub fn new(task: &dyn TrainingTask, count: usize, rng: &mut Rng) -> Self {
        let places = (0..count).map(|_| Place { practice: task.practice(), rng: rng.fork() }).collect();
        let (inputs, heads, steps) = (task.inputs(), task.heads(), task.steps());
        let rows = count * steps;
        let episodes = Episodes {
            states: vec![0.0; rows * inputs],
            actions: vec![0.0; rows * heads],
            log_densities: vec![0.0; rows],
            rewards: vec![0.0; rows],
            scores: vec![0.0; rows],
            setpoints: vec![Concurrency::all(1); rows],
            last: vec![0.0; count * inputs],
            ended: vec![false; count],
        };
        Self { places, inputs, heads, steps, tape: Tape::default(), now: vec![0.0; count * inputs], episodes }
    }

    /// One episode in every environment: with drawn actions, or with the mean ones.
    pub fn run(&mut self, actor: &Actor, draw: bool) -> &Episodes {
        let Self { places, inputs, heads, steps, tape, now, episodes } = self;
        let (inputs, heads, steps) = (*inputs, *heads, *steps);
        for (place, state) in places.iter_mut().zip(now.chunks_exact_mut(inputs)) {
            place.practice.reset(&mut place.rng, state);
        }
        episodes.ended.fill(false);
        for step in 0..steps {
            let means = actor.net.forward(now, tape);
            for (i, place) in places.iter_mut().enumerate() {
                let row = i * steps + step;
                let state = &mut now[i * inputs..(i + 1) * inputs];
                episodes.states[row * inputs..(row + 1) * inputs].copy_from_slice(state);
                let mean = &means[i * heads..(i + 1) * heads];
                let action = &mut episodes.actions[row * heads..(row + 1) * heads];
                if draw {
                    episodes.log_densities[row] = actor.sample(mean, &mut place.rng, action);
                } else {
                    action.copy_from_slice(mean);
                }
                let outcome = place.practice.step(&mut place.rng, action, state);
                episodes.rewards[row] = outcome.reward;
                episodes.scores[row] = outcome.score;
                episodes.setpoints[row] = outcome.setpoint;
                episodes.ended[i] |= outcome.ended;
            }
        }
        episodes.last.copy_from_slice(now);
        episodes
    }

    /// What the last run brought back.
    pub const fn episodes(&self) -> &Episodes {
        &self.episodes
    }

    /// Begins every environment's stream anew.
    pub(crate) fn reseed(&mut self, rng: &mut Rng) {
        for place in &mut self.places {
            place.rng = rng.fork();
        }
    }
}
