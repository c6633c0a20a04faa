//! The views of the published agents, in the papers' raw units: throughput in Mbit/s, staging in
//! MiB, an action that is a number of workers as it stands.

use crate::observation::Observation;
use crate::policy::features::{Features, Scales, one_number};
use crate::stage::{Bounds, Concurrency, PerStage, Stage};

/// Bytes in a MiB, the published state's unit for staging (GB · 1024).
const MIB: f32 = 1024.0 * 1024.0;

/// Both papers halve σ in production.
const SPREAD: f32 = 0.5;

/// LDM: (T, n, ΔT, Δn), one number for all stages.
#[derive(Clone, Debug)]
pub(super) struct Ldm {
    stages: Vec<Stage>,
    scales: Scales,
    before: Option<(f32, f32)>,
}

impl Ldm {
    pub(super) fn new(scales: Scales) -> Self {
        Self { stages: scales.stages(), scales, before: None }
    }
}

impl Features for Ldm {
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
pub(super) struct Automdt {
    scales: Scales,
}

impl Automdt {
    pub(super) fn new(scales: Scales) -> Self {
        Self { scales }
    }
}

impl Features for Automdt {
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
