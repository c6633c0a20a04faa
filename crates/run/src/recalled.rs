//! A path under control, with what is remembered of it.

use tidegate_control::{Bounds, Concurrency, Environment, Host, Observation, PathMemory, PerStage, Proposal};

/// Tells what a path last held, and is that path in all else.
pub struct Recalled<E> {
    path: E,
    memory: Option<PathMemory>,
}

impl<E> Recalled<E> {
    /// `path`, of which this is remembered.
    pub const fn new(path: E, memory: Option<PathMemory>) -> Self {
        Self { path, memory }
    }

    /// The path itself.
    pub fn into_path(self) -> E {
        self.path
    }
}

impl<E: Environment> Environment for Recalled<E> {
    type Error = E::Error;

    fn bounds(&self) -> PerStage<Bounds> {
        self.path.bounds()
    }

    fn host(&self) -> Host {
        Host { remembered: self.memory.clone(), ..self.path.host() }
    }

    fn heed(&mut self, proposal: &Proposal, bounds: PerStage<Bounds>) {
        self.path.heed(proposal, bounds);
    }

    fn step(&mut self, setpoint: Concurrency) -> Result<Option<Observation>, E::Error> {
        self.path.step(setpoint)
    }
}
