//! Whatever answers a set-point with an observation: the simulator or a live transfer.

use std::time::Duration;

use crate::observation::Observation;
use crate::stage::{Bounds, Concurrency, PerStage};

/// A path under control.
pub trait Environment {
    /// Why a step could not be taken.
    type Error;

    /// What may be asked for; re-read every epoch, so a scheduler can share a budget.
    fn bounds(&self) -> PerStage<Bounds>;

    /// The path's round-trip time, where it is known before anything has moved.
    fn round_trip(&self) -> Option<Duration> {
        None
    }

    /// Whether the next epoch may be a short one; a hint, for those who can measure in less time.
    fn short_epochs(&mut self, _short: bool) {}

    /// Applies `setpoint` for one epoch and tells what it showed; `None` once everything is moved.
    fn step(&mut self, setpoint: Concurrency) -> Result<Option<Observation>, Self::Error>;
}
