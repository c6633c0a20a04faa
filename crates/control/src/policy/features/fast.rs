//! The fast recipe's view: everything as a share of what training knew of the path.
//!
//! A stage shows T / best goodput and ln n between ln min and ln max. One stage adds the changes of
//! both (LDM's state), more add the free shares of both stagings (AutoMDT's). An action of -1 is the
//! fewest workers, +1 the most, and equal steps are equal factors: from 10 to 11 is as far as from 20
//! to 22, which is what the utility's gain from one more worker looks like too.

use crate::observation::Observation;
use crate::policy::features::{Features, Scales, one_number};
use crate::stage::{Bounds, Concurrency, PerStage, Stage};
use crate::units::ByteCount;

/// See the module's description.
#[derive(Clone, Debug)]
pub(super) struct Fast {
    scales: Scales,
    stages: Vec<Stage>,
    /// Share and position of the epoch before, where there is one stage.
    before: Option<(f32, f32)>,
}

impl Fast {
    pub(super) fn new(scales: Scales) -> Self {
        Self { stages: scales.stages(), scales, before: None }
    }

    fn bounds(&self, stage: Stage) -> (f32, f32) {
        let bounds = self.scales.bounds[stage];
        (f32::from(bounds.min).ln(), f32::from(bounds.max).ln())
    }

    /// Where n lies between the bounds, from -1 to 1.
    fn position(&self, stage: Stage, n: u16) -> f32 {
        let (low, high) = self.bounds(stage);
        if high <= low {
            return 0.0;
        }
        ((f32::from(n.max(1)).ln() - low) / (high - low) * 2.0 - 1.0).clamp(-2.0, 2.0)
    }

    fn workers(&self, stage: Stage, action: f32) -> f64 {
        let (low, high) = self.bounds(stage);
        f64::from((low + (high - low) * (action.clamp(-1.0, 1.0) + 1.0) / 2.0).exp())
    }
}

fn free_share(free: ByteCount, capacity: ByteCount) -> f32 {
    if capacity.0 == 0 { 1.0 } else { (free.0 as f32 / capacity.0 as f32).min(1.0) }
}

impl Features for Fast {
    fn inputs(&self) -> usize {
        2 * self.stages.len() + 2
    }

    fn heads(&self) -> usize {
        self.stages.len()
    }

    fn start(&self, bounds: PerStage<Bounds>) -> Concurrency {
        let middle = || self.decode(&vec![0.0; self.heads()], bounds);
        self.scales.start.map_or_else(middle, |start| bounds.clamp(start))
    }

    fn reset(&mut self) {
        self.before = None;
    }

    fn encode(&mut self, seen: &Observation, _bounds: PerStage<Bounds>, state: &mut [f32]) {
        let best = self.scales.rate_bps.0.max(1) as f32;
        // A path far faster than the one trained on stays a number the network has some idea of.
        let share = |rate: u64| (rate as f32 / best).min(10.0);
        if let [stage] = self.stages[..] {
            let now = (share(seen.goodput().0), self.position(stage, one_number(seen, &self.stages)));
            let before = self.before.replace(now).unwrap_or(now);
            state.copy_from_slice(&[now.0, now.1, now.0 - before.0, now.1 - before.1]);
            return;
        }
        for (i, &stage) in self.stages.iter().enumerate() {
            state[2 * i] = share(seen.throughput[stage].0);
            state[2 * i + 1] = self.position(stage, seen.concurrency[stage]);
        }
        let (free, capacity) = (seen.staging_free, seen.staging_capacity);
        let last = 2 * self.stages.len();
        state[last] = free_share(free.sender, capacity.sender);
        state[last + 1] = free_share(free.receiver, capacity.receiver);
    }

    fn decode(&self, action: &[f32], bounds: PerStage<Bounds>) -> Concurrency {
        if let [stage] = self.stages[..] {
            let n = self.workers(stage, action[0]);
            return bounds.map(|bounds| bounds.clamp_f64(n));
        }
        PerStage::from_fn(|stage| {
            let head = self.stages.iter().position(|&trained| trained == stage);
            head.map_or(bounds[stage].min, |head| bounds[stage].clamp_f64(self.workers(stage, action[head])))
        })
    }
}
