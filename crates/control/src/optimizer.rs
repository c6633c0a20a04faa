//! The rules that decide, one file each, named as the literature names them.

use crate::observation::Observation;
use crate::stage::{Bounds, Concurrency, PerStage};

/// Decides the next set-point from what the last epoch showed.
///
/// Pure: the same history gives the same answer. Randomness comes from a seed given at the start.
pub trait Optimizer: Send {
    /// The set-point for the next epoch. `bounds` hold now and may differ from the last call's.
    fn propose(&mut self, seen: &Observation, bounds: PerStage<Bounds>) -> Concurrency;

    /// The score the rule gave the last observation, for reports.
    fn utility(&self) -> Option<f64> {
        None
    }
}
