//! How fast a path was when it was last used.

#[cfg(feature = "service")]
mod recorded;

use std::path::Path;
use std::time::Duration;

use tidegate_contract::plan_line::{PlannedTime, TimeSource};
use tidegate_control::{BitRate, ByteCount};

use crate::path_key::PathKey;
use crate::path_store::{PathStore, age};

/// A rate, and what knows it.
#[derive(Clone, Copy, Debug)]
pub struct KnownRate {
    rate: BitRate,
    from: TimeSource,
    age: Duration,
}

impl KnownRate {
    /// What `path` last held, as the state directory `state` has it, or what transfers between its ends came to.
    pub fn of(path: &PathKey, state: &Path) -> Option<Self> {
        let known = held(path, state);
        #[cfg(feature = "service")]
        let known = known.or_else(|| recorded::median(path, state));
        known.filter(|known| known.rate.0 > 0)
    }

    /// How long so much takes at that rate.
    pub fn time(self, bytes: ByteCount) -> PlannedTime {
        let seconds = (bytes.bits() / self.rate.0 as f64).ceil() as u64;
        PlannedTime { seconds, rate_bps: self.rate.0, from: self.from, age_s: self.age.as_secs() }
    }
}

fn held(path: &PathKey, state: &Path) -> Option<KnownRate> {
    let memory = PathStore::new(state).recall(path)?;
    let rate = memory.stages.network.throughput_bps;
    Some(KnownRate { rate, from: TimeSource::Memory, age: age(&memory) })
}
