//! The view of Python's environments (`TransferEnv`, `LiveEnv`), so that what was trained there drives a transfer.
//!
//! A state is nine numbers: throughput a stage as a share of a reference, workers a stage as a share of the most there
//! were, how full each end's staging is, and the share of segments lost. An action is three numbers from −1, the fewest
//! workers of a stage, to 1, the most; equal steps are equal factors.

use crate::observation::Observation;
use crate::policy::features::{Features, Scales};
use crate::stage::{Bounds, Concurrency, PerStage, Stage};
use crate::units::ByteCount;

/// Numbers in a state: throughput a stage, workers a stage, staging fill an end, loss.
pub const INPUTS: usize = 9;

/// Throughput is cut off here, as a share of the reference, so that states are bounded. A stage can be faster than the
/// path only while it fills its staging.
pub const MAX_SHARE: f64 = 10.0;

/// See the module's description.
#[derive(Clone, Debug)]
pub struct Gymnasium {
    scales: Scales,
}

impl Gymnasium {
    /// Throughput is shown relative to the rate of `scales`, workers to its bounds.
    pub const fn new(scales: Scales) -> Self {
        Self { scales }
    }

    /// What `seen` looks like; each number is within 0 and 1, throughput within 0 and [`MAX_SHARE`].
    pub fn state(&self, seen: &Observation) -> [f32; INPUTS] {
        let reference = self.scales.rate_bps.0.max(1) as f64;
        let rate = |stage: Stage| (seen.throughput[stage].0 as f64 / reference).min(MAX_SHARE);
        let workers = |stage: Stage| {
            (f64::from(seen.concurrency[stage]) / f64::from(self.scales.bounds[stage].max)).min(1.0)
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

    /// The set-point that `action` asks for, within the bounds it was trained in.
    pub fn setpoint(&self, action: PerStage<f64>) -> Concurrency {
        PerStage::from_fn(|stage| {
            let bounds = self.scales.bounds[stage];
            let (min, max) = (f64::from(bounds.min), f64::from(bounds.max));
            bounds.clamp_f64(min * (max / min).powf((action[stage].clamp(-1.0, 1.0) + 1.0) / 2.0))
        })
    }
}

fn fill(free: ByteCount, capacity: ByteCount) -> f64 {
    let share = 1.0 - free.0 as f64 / capacity.0.max(1) as f64;
    if capacity == ByteCount(0) { 0.0 } else { share.clamp(0.0, 1.0) }
}

impl Features for Gymnasium {
    fn inputs(&self) -> usize {
        INPUTS
    }

    fn heads(&self) -> usize {
        Stage::ALL.len()
    }

    fn start(&self, bounds: PerStage<Bounds>) -> Concurrency {
        bounds.clamp(self.scales.start.unwrap_or_else(|| self.setpoint(PerStage::all(0.0))))
    }

    fn reset(&mut self) {}

    fn encode(&mut self, seen: &Observation, _bounds: PerStage<Bounds>, state: &mut [f32]) {
        state.copy_from_slice(&self.state(seen));
    }

    fn decode(&self, action: &[f32], bounds: PerStage<Bounds>) -> Concurrency {
        let action = PerStage::new(action[0], action[1], action[2]);
        bounds.clamp(self.setpoint(action.map(f64::from)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::Ends;
    use crate::units::BitRate;

    #[test]
    fn a_state_is_shares_and_an_action_is_even_in_the_logarithm() {
        let bounds = PerStage::new(Bounds::new(1, 30), Bounds::new(4, 16), Bounds::fixed(1));
        let scales = Scales { rate_bps: BitRate::mbps(1000), bounds, start: None };
        let mut view = Gymnasium::new(scales);
        let seen = Observation {
            concurrency: PerStage::new(3, 8, 1),
            throughput: PerStage::new(BitRate::mbps(500), BitRate::mbps(1000), BitRate::mbps(90_000)),
            staging_free: Ends { sender: ByteCount(25), receiver: ByteCount(0) },
            staging_capacity: Ends { sender: ByteCount(100), receiver: ByteCount(0) },
            loss: Some(0.25),
            ..Observation::default()
        };
        let mut state = [0.0; INPUTS];
        view.encode(&seen, bounds, &mut state);
        assert_eq!(state, [0.5, 1.0, 10.0, 0.1, 0.5, 1.0, 0.75, 0.0, 0.25]);
        for (action, wanted) in [
            ([-1.0, -1.0, -1.0], PerStage::new(1, 4, 1)),
            ([0.0, 0.0, 0.0], PerStage::new(5, 8, 1)),
            ([9.0, 1.0, 9.0], PerStage::new(30, 16, 1)),
        ] {
            assert_eq!(view.decode(&action, bounds), wanted);
        }
        let narrow = PerStage::all(Bounds::new(2, 6));
        assert_eq!(view.decode(&[1.0; 3], narrow), PerStage::new(6, 6, 2), "what holds now comes last");
        assert_eq!(
            (view.start(bounds), view.start(narrow)),
            (PerStage::new(5, 8, 1), PerStage::new(5, 6, 2))
        );
    }
}
