//! Whatever answers a set-point with an observation: the simulator or a live transfer.

use std::time::Duration;

use crate::observation::Observation;
use crate::path_memory::PathMemory;
use crate::stage::{Bounds, Concurrency, PerStage};

/// What is known of the hosts and of the way between them before anything has moved; what is not known limits nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Host {
    /// Processors of the host that decides.
    pub processors: Option<u16>,
    /// The first round trip that was measured.
    pub round_trip: Option<Duration>,
    /// Network streams that the other end is known to bear from the first second.
    pub streams: Option<u16>,
    /// What the path held when it was last seen.
    pub remembered: Option<PathMemory>,
}

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

    /// Whether the next epoch may be a short one; a hint, for those who can measure in less time.
    fn short_epochs(&mut self, _short: bool) {}

    /// Whether the streams are to yield to whatever else is on the path (less than best effort, RFC 6297); a hint, for
    /// those who can.
    fn yields(&mut self, _yields: bool) {}

    /// Applies `setpoint` for one epoch and tells what it showed; `None` once everything is moved.
    fn step(&mut self, setpoint: Concurrency) -> Result<Option<Observation>, Self::Error>;
}
