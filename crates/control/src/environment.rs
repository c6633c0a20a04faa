//! Whatever answers a set-point with an observation: the simulator or a live transfer.

use crate::host::Host;
use crate::observation::Observation;
use crate::optimizer::Proposal;
use crate::stage::{Bounds, Concurrency, PerStage};

/// A path under control.
pub trait Environment {
    /// Why a step could not be taken.
    type Error;

    /// What may be asked for; re-read every epoch, so a scheduler can share a budget.
    fn bounds(&self) -> PerStage<Bounds>;

    /// What is known before anything has moved.
    fn host(&self) -> Host {
        Host::default()
    }

    /// What a proposal asks for besides workers, for those who can: short epochs, a ramp, streams that yield. It comes before
    /// the step, with the bounds that the set-point was clamped to.
    fn heed(&mut self, _proposal: &Proposal, _bounds: PerStage<Bounds>) {}

    /// Applies `setpoint` for one epoch and tells what it showed; `None` once everything is moved.
    fn step(&mut self, setpoint: Concurrency) -> Result<Option<Observation>, Self::Error>;
}
