//! What the rule reads off an epoch.

use std::time::Duration;

use crate::observation::Observation;
use crate::optimizer::model_based::constants::{FAR, FARTHEST, LOSSY_PATH, SLOWING_LOSS};
use crate::stage::{Bounds, Concurrency, PerStage, Stage};
use crate::waiting::{self, Waiting};

/// One epoch, reduced to what the rule uses.
pub struct Seen {
    /// The time measured.
    pub seconds: f64,
    /// Workers, at least one a stage.
    pub n: Concurrency,
    /// What each stage moved, and what the slowest of those did that may have more or fewer workers; in Mbit/s.
    pub mbps: PerStage<f64>,
    pub goodput: f64,
    /// Which stages were neither starved nor blocked when the epoch ended, and which have all the processor time that
    /// their host has for us.
    pub busy: PerStage<bool>,
    pub spent: PerStage<bool>,
    /// Whether round trips take long, and whether very long.
    pub far: bool,
    pub farthest: bool,
    /// The share of the packets that was lost (0 if not far), whether that is more than chance, and whether it is enough
    /// to hold streams of the farthest paths back for a while.
    pub loss: f64,
    pub lossy: bool,
    pub loss_slows: bool,
}

impl Seen {
    /// What an observation says of the stages that may have more or fewer workers; `None` if there are none. Staging
    /// is empty below a fill of `margin` and full above one less it. The path takes `round_trip` without its queues.
    pub fn of(
        seen: &Observation,
        bounds: PerStage<Bounds>,
        margin: f64,
        round_trip: Option<Duration>,
    ) -> Option<Self> {
        let free = |stage: Stage| !bounds[stage].is_fixed();
        let mbps = seen.throughput.map(|rate| rate.as_mbps());
        let goodput = Stage::ALL.into_iter().filter(|&s| free(s)).map(|s| mbps[s]).reduce(f64::min)?;
        // Staging beside a stage with fixed bounds is not ours to judge by.
        let busy = Waiting::of(seen, PerStage::from_fn(free), margin).map(Waiting::is_busy);
        let seconds = seen.interval.as_secs_f64();
        let spent = seen.spent();
        let beyond = |rtt| round_trip.is_some_and(|path| path >= rtt);
        let (far, farthest) = (beyond(FAR), beyond(FARTHEST));
        let loss = seen.loss.filter(|_| far).unwrap_or_default();
        let (lossy, loss_slows) = (loss >= LOSSY_PATH, farthest && loss >= SLOWING_LOSS);
        let n = seen.concurrency.map(|n| n.max(1));
        Some(Self { goodput, seconds, n, mbps, busy, spent, far, farthest, loss, lossy, loss_slows })
    }

    /// The stages that hold the path back: they wait for nobody, and none is slower.
    pub fn binding(&self, bounds: PerStage<Bounds>) -> PerStage<bool> {
        waiting::binding(self.mbps, self.busy, bounds)
    }

    /// What each of the workers of `stage` moved, in Mbit/s.
    pub fn each(&self, stage: Stage) -> f64 {
        self.mbps[stage] / f64::from(self.n[stage])
    }
}
