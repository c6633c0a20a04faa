//! How fast a path was when it was last used, whoever remembers it.

use std::time::Duration;

use tidegate_contract::plan_line::{PlannedTime, TimeSource};
use tidegate_control::{BitRate, ByteCount};
use tidegate_spec::pair::PathKey;

use crate::path_store::{PathStore, age};

/// A rate, and what knows it.
#[derive(Clone, Copy, Debug)]
pub struct KnownRate {
    /// The rate.
    pub rate: BitRate,
    /// What knows it.
    pub from: TimeSource,
    /// How long ago it was seen.
    pub age: Duration,
}

/// What remembers paths: files in which copies leave what a path held, or a service's database of transfers
/// (docs/decisions/0022).
pub trait Remembers {
    /// How fast `path` was, if that is known.
    fn rate(&self, path: &PathKey) -> Option<KnownRate>;
}

impl KnownRate {
    /// What the first of `stores` that remembers `path` says of it.
    pub fn of(path: &PathKey, stores: &[&dyn Remembers]) -> Option<Self> {
        stores.iter().filter_map(|store| store.rate(path)).find(|known| known.rate.0 > 0)
    }

    /// How long so much takes at that rate.
    pub fn time(self, bytes: ByteCount) -> PlannedTime {
        let seconds = (bytes.bits() / self.rate.0 as f64).ceil() as u64;
        PlannedTime { seconds, rate_bps: self.rate.0, from: self.from, age_s: self.age.as_secs() }
    }
}

impl Remembers for PathStore {
    fn rate(&self, path: &PathKey) -> Option<KnownRate> {
        let memory = self.recall(path)?;
        let rate = memory.stages.network.throughput_bps;
        Some(KnownRate { rate, from: TimeSource::Memory, age: age(&memory) })
    }
}
