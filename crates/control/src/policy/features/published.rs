//! The views of the published agents, in the papers' raw units: throughput in Mbit/s, staging in
//! MiB, an action that is a number of workers as it stands, or in AutoMDT's figure 4 a choice of one.

use crate::observation::Observation;
use crate::policy::features::{Actions, Features, Scales, greatest, one_number};
use crate::stage::{Bounds, Concurrency, PerStage, Stage};

/// Bytes in a MiB, the published state's unit for staging (GB · 1024).
const MIB: f32 = 1024.0 * 1024.0;

/// Both papers' programs halve σ in production; their texts do not say so.
const SPREAD: f32 = 0.5;

/// LDM: (T, n, ΔT, Δn), one number for all stages.
#[derive(Clone, Debug)]
pub(super) struct LdmFeatures {
    stages: Vec<Stage>,
    scales: Scales,
    before: Option<(f32, f32)>,
}

impl LdmFeatures {
    pub(super) fn new(scales: Scales) -> Self {
        Self { stages: scales.stages(), scales, before: None }
    }
}

impl Features for LdmFeatures {
    fn inputs(&self) -> usize {
        4
    }

    fn heads(&self) -> usize {
        1
    }

    fn start(&self, bounds: PerStage<Bounds>) -> Concurrency {
        // The paper's runs never have fewer than three.
        bounds.clamp(PerStage::all(3))
    }

    fn reset(&mut self) {
        self.before = None;
    }

    fn encode(&mut self, seen: &Observation, _bounds: PerStage<Bounds>, state: &mut [f32]) {
        let now = (seen.goodput().as_mbps() as f32, f32::from(one_number(seen, &self.stages)));
        let before = self.before.replace(now).unwrap_or(now);
        state.copy_from_slice(&[now.0, now.1, now.0 - before.0, now.1 - before.1]);
    }

    fn decode(&self, action: &[f32], bounds: PerStage<Bounds>) -> Concurrency {
        let most = self.scales.bounds.network;
        let n = f64::from(action[0]).clamp(f64::from(most.min), f64::from(most.max));
        bounds.map(|bounds| bounds.clamp_f64(n))
    }

    fn spread(&self) -> f32 {
        SPREAD
    }
}

/// AutoMDT: free staging of sender and receiver, then throughput and workers, each in the order
/// read, write, network; actions in the order read, network, write.
#[derive(Clone, Debug)]
pub(super) struct AutomdtFeatures {
    scales: Scales,
}

impl AutomdtFeatures {
    pub(super) fn new(scales: Scales) -> Self {
        Self { scales }
    }
}

impl Features for AutomdtFeatures {
    fn inputs(&self) -> usize {
        8
    }

    fn heads(&self) -> usize {
        3
    }

    fn start(&self, bounds: PerStage<Bounds>) -> Concurrency {
        // The first state of the published controller says two workers a stage.
        bounds.clamp(PerStage::all(2))
    }

    fn reset(&mut self) {}

    fn encode(&mut self, seen: &Observation, _bounds: PerStage<Bounds>, state: &mut [f32]) {
        let (t, n) = (seen.throughput.map(|rate| rate.as_mbps() as f32), seen.concurrency.map(f32::from));
        let free = seen.staging_free;
        state.copy_from_slice(&[
            free.sender.0 as f32 / MIB,
            free.receiver.0 as f32 / MIB,
            t.read,
            t.write,
            t.network,
            n.read,
            n.write,
            n.network,
        ]);
    }

    fn decode(&self, action: &[f32], bounds: PerStage<Bounds>) -> Concurrency {
        let wanted = PerStage::new(action[0], action[1], action[2]);
        PerStage::from_fn(|stage| {
            let trained = self.scales.bounds[stage];
            let n = f64::from(wanted[stage]).clamp(f64::from(trained.min), f64::from(trained.max));
            bounds[stage].clamp_f64(n)
        })
    }

    fn spread(&self) -> f32 {
        SPREAD
    }
}

/// AutoMDT's view with a choice among all numbers of workers a stage, in the order read, network, write. The
/// paper says of its discrete action space that it did not converge, and nothing of how it was made.
#[derive(Clone, Debug)]
pub(super) struct AutomdtDiscreteFeatures {
    view: AutomdtFeatures,
}

impl AutomdtDiscreteFeatures {
    pub(super) fn new(scales: Scales) -> Self {
        Self { view: AutomdtFeatures::new(scales) }
    }

    fn numbers(bounds: Bounds) -> usize {
        usize::from(bounds.max.saturating_sub(bounds.min)) + 1
    }
}

impl Features for AutomdtDiscreteFeatures {
    fn inputs(&self) -> usize {
        self.view.inputs()
    }

    fn heads(&self) -> usize {
        self.choices().iter().sum()
    }

    fn actions(&self) -> Actions {
        Actions::Choice
    }

    fn choices(&self) -> Vec<usize> {
        self.view.scales.bounds.map(Self::numbers).into_array().to_vec()
    }

    fn start(&self, bounds: PerStage<Bounds>) -> Concurrency {
        self.view.start(bounds)
    }

    fn reset(&mut self) {
        self.view.reset();
    }

    fn encode(&mut self, seen: &Observation, bounds: PerStage<Bounds>, state: &mut [f32]) {
        self.view.encode(seen, bounds, state);
    }

    fn decode(&self, action: &[f32], bounds: PerStage<Bounds>) -> Concurrency {
        let mut rest = action;
        PerStage::from_fn(|stage| {
            let trained = self.view.scales.bounds[stage];
            let (group, others) = rest.split_at(Self::numbers(trained));
            rest = others;
            let chosen = greatest(group).unwrap_or(0) as u16;
            bounds[stage].clamp(trained.min + chosen)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::BitRate;

    #[test]
    fn each_stage_takes_the_likeliest_of_its_own_numbers() {
        let bounds = PerStage::new(Bounds::new(1, 4), Bounds::new(3, 5), Bounds::new(2, 2));
        let view = AutomdtDiscreteFeatures::new(Scales { rate_bps: BitRate::mbps(1), bounds, start: None });
        assert_eq!((view.heads(), view.choices()), (8, vec![4, 3, 1]));
        let action = [0.0, -1.0, 2.0, 1.0, -3.0, -1.0, -2.0, 9.0];
        assert_eq!(view.decode(&action, bounds), PerStage::new(3, 4, 2));
        // What the transfer allows wins.
        assert_eq!(view.decode(&action, PerStage::all(Bounds::new(1, 2))), PerStage::all(2));
    }
}
