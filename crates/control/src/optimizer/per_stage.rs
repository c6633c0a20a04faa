//! Lifting one-number rules to three stages.
//!
//! [`Coupled`] is the monolithic tools: one number drives every stage and is judged by end-to-end
//! throughput. [`Independent`] is Marlin: a copy of the rule for each stage, judged by its own stage
//! alone. A stage whose bounds are fixed is absent or not ours to move and has no influence on either.

use std::time::Duration;

use crate::host::Host;
use crate::observation::Observation;
use crate::optimizer::{Optimizer, Output, Proposal, StageOptimizer, StageSample};
use crate::stage::{Bounds, Concurrency, PerStage, Stage};

/// The stages whose bounds leave something to decide.
fn free_stages(bounds: PerStage<Bounds>) -> impl Iterator<Item = Stage> + Clone {
    Stage::ALL.into_iter().filter(move |&stage| !bounds[stage].is_fixed())
}

/// One rule, one n for every stage.
pub struct Coupled {
    rule: Box<dyn StageOptimizer>,
    proposed: Option<u16>,
}

impl Coupled {
    /// Drives all stages by `rule`.
    pub const fn new(rule: Box<dyn StageOptimizer>) -> Self {
        Self { rule, proposed: None }
    }

    /// From the fewest any free stage may have to the most.
    fn common(bounds: PerStage<Bounds>) -> Option<Bounds> {
        let free = free_stages(bounds);
        let min = free.clone().map(|stage| bounds[stage].min).min()?;
        let max = free.map(|stage| bounds[stage].max).max()?;
        Some(Bounds::new(min, max))
    }

    fn set(&mut self, n: u16, bounds: PerStage<Bounds>) -> Concurrency {
        self.proposed = Some(n);
        bounds.clamp(PerStage::all(n))
    }

    /// The number that was in force: ours if the path obeyed it, else the most any stage ran.
    fn in_force(&self, seen: &Observation, bounds: PerStage<Bounds>) -> u16 {
        let obeyed =
            |n: &u16| free_stages(bounds).all(|stage| bounds[stage].clamp(*n) == seen.concurrency[stage]);
        let most = free_stages(bounds).map(|stage| seen.concurrency[stage]).max().unwrap_or(1);
        self.proposed.filter(obeyed).unwrap_or(most)
    }
}

impl Optimizer for Coupled {
    fn start(&mut self, bounds: PerStage<Bounds>, _host: &Host) -> Proposal {
        match Self::common(bounds) {
            Some(common) => {
                let n = common.clamp(self.rule.start(common));
                self.set(n, bounds).into()
            }
            None => bounds.map(|bounds| bounds.min).into(),
        }
    }

    fn propose(&mut self, seen: &Observation, bounds: PerStage<Bounds>) -> Proposal {
        let Some(common) = Self::common(bounds) else {
            return bounds.map(|bounds| bounds.min).into();
        };
        let sample = StageSample {
            at: seen.at,
            interval: seen.interval,
            n: self.in_force(seen, bounds),
            throughput: seen.free_goodput(bounds),
            loss: seen.loss.unwrap_or(0.0),
            rtt: seen.rtt,
            output: None,
            remaining: seen.remaining,
        };
        let next = self.rule.propose(&sample, common);
        Proposal { utility: next.utility, ..self.set(common.clamp(next.n), bounds).into() }
    }

    fn epoch_length(&self) -> Duration {
        self.rule.epoch_length()
    }
}

/// A copy of a rule for each stage.
pub struct Independent {
    rules: PerStage<Box<dyn StageOptimizer>>,
}

impl Independent {
    /// Drives each stage by its own rule.
    pub const fn new(rules: PerStage<Box<dyn StageOptimizer>>) -> Self {
        Self { rules }
    }

    fn sample(seen: &Observation, stage: Stage) -> StageSample {
        let output = |free, capacity| Some(Output { free, capacity });
        let (free, size) = (seen.staging_free, seen.staging_capacity);
        StageSample {
            at: seen.at,
            interval: seen.interval,
            n: seen.concurrency[stage],
            throughput: seen.throughput[stage],
            loss: if stage == Stage::Network { seen.loss.unwrap_or(0.0) } else { 0.0 },
            rtt: seen.rtt,
            output: match stage {
                Stage::Read => output(free.sender, size.sender),
                Stage::Network => output(free.receiver, size.receiver),
                Stage::Write => None,
            },
            remaining: seen.remaining,
        }
    }
}

impl Optimizer for Independent {
    fn start(&mut self, bounds: PerStage<Bounds>, _host: &Host) -> Proposal {
        PerStage::from_fn(|stage| bounds[stage].clamp(self.rules[stage].start(bounds[stage]))).into()
    }

    fn propose(&mut self, seen: &Observation, bounds: PerStage<Bounds>) -> Proposal {
        let mut utility = None;
        let setpoint = PerStage::from_fn(|stage| {
            let bounds = bounds[stage];
            if bounds.is_fixed() {
                return bounds.min;
            }
            let next = self.rules[stage].propose(&Self::sample(seen, stage), bounds);
            if let Some(score) = next.utility {
                *utility.get_or_insert(0.0) += score;
            }
            bounds.clamp(next.n)
        });
        Proposal { utility, ..setpoint.into() }
    }

    fn epoch_length(&self) -> Duration {
        self.rules.network.epoch_length()
    }
}
