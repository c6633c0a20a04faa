//! Who waits for whom: read off the staging at the end of an epoch.
//!
//! A stage whose input is empty is *starved*, one whose output is full is *blocked*; either moves what
//! its neighbour moves, and says of its own workers only that they do at least this much. Staging that
//! is half full counts as full: those who fill it wait from full to half full, so that an epoch may end
//! anywhere between.

use crate::observation::Observation;
use crate::stage::{Bounds, PerStage, Stage};

/// Staging holds nothing, or has no room, if that is less than this share of what passed through, ...
const FLOW: f64 = 0.03;
/// ... or than what workers may have in their hands, in bytes.
const IN_HAND: f64 = 512.0 * 1024.0;
/// How near the slowest stage's throughput a stage's must be to count as slowest too.
pub const SLOWEST: f64 = 1.1;

/// One stage's input and output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Its input was empty.
    pub starved: bool,
    /// Its output was full.
    pub blocked: bool,
}

impl Waiting {
    /// It waits for nobody.
    pub const fn is_busy(self) -> bool {
        !self.starved && !self.blocked
    }

    /// Of every stage; only staging that joins two stages of `ours` is looked at, and counts as empty or
    /// full within `margin` of its size.
    pub fn of(seen: &Observation, ours: PerStage<bool>, margin: f64) -> PerStage<Self> {
        let mbps = seen.throughput.map(|rate| rate.as_mbps());
        // Whether a staging that joins two stages of ours is empty, and whether it is full.
        let state = |size: u64, left: u64, into: Stage, out_of: Stage| {
            let ours = size > 0 && ours[into] && ours[out_of];
            let moved = mbps[into].max(mbps[out_of]) * 1e6 / 8.0 * seen.interval.as_secs_f64();
            let little = (margin * size as f64).min((FLOW * moved).max(IN_HAND));
            // Real staging lets its fillers go on only once it is half empty.
            (ours && (size - left.min(size)) as f64 <= little, ours && left <= size / 2)
        };
        let (size, left) = (seen.staging_capacity, seen.staging_free);
        let sender = state(size.sender.0, left.sender.0, Stage::Read, Stage::Network);
        let receiver = state(size.receiver.0, left.receiver.0, Stage::Network, Stage::Write);
        PerStage::new(
            Self { starved: false, blocked: sender.1 },
            Self { starved: sender.0, blocked: receiver.1 },
            Self { starved: receiver.0, blocked: false },
        )
    }
}

/// The stages that hold the path back: they wait for nobody, and none is slower.
pub fn binding(throughput: PerStage<f64>, busy: PerStage<bool>, bounds: PerStage<Bounds>) -> PerStage<bool> {
    let free = |stage: Stage| !bounds[stage].is_fixed();
    let waits_for_nobody = Stage::ALL.into_iter().any(|stage| free(stage) && busy[stage]);
    let suspect = |stage: Stage| free(stage) && (busy[stage] || !waits_for_nobody);
    let least = Stage::ALL.into_iter().filter(|&s| suspect(s)).map(|s| throughput[s]).reduce(f64::min);
    PerStage::from_fn(|stage| {
        suspect(stage) && least.is_some_and(|least| throughput[stage] <= SLOWEST * least)
    })
}
