//! How fast a path was when it was last used.

use std::path::Path;
use std::time::Duration;

use tidegate_contract::plan_line::{PlannedTime, TimeSource};
use tidegate_contract::summary::Status;
use tidegate_control::{BitRate, ByteCount};
use tidegate_service::history::{Blocking, Query, Timestamp, Transfer};
use tidegate_service::pair::Pair;

use crate::path_key::PathKey;
use crate::path_store::{PathStore, age};
use crate::settings::history_url;

/// Of so many of the newest transfers that are recorded the median counts.
const TRANSFERS: u32 = 10;

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
        held(path, state).or_else(|| recorded(path, state)).filter(|known| known.rate.0 > 0)
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

/// A history that is not there is not made.
fn recorded(path: &PathKey, state: &Path) -> Option<KnownRate> {
    if !state.join("history.db").exists() {
        return None;
    }
    let pair = Pair::of(&path.source, &path.destination).ok()?;
    let query = Query { limit: TRANSFERS, ..Query::of(&pair) };
    let known = Blocking::open(&history_url(None, state))
        .and_then(|history| history.wait(history.history().page::<Transfer>(&query)));
    let transfers = match known {
        Ok(page) => page.records,
        Err(error) => {
            tracing::warn!("the history is not asked how fast this path is: {error}");
            return None;
        }
    };
    let ended = |transfer: &&Transfer| transfer.outcome == Status::Complete && transfer.goodput.0 > 0;
    let newest = transfers.iter().find(ended)?.at;
    let mut rates: Vec<BitRate> = transfers.iter().filter(ended).map(|transfer| transfer.goodput).collect();
    rates.sort_unstable();
    let age = Duration::from_millis(u64::try_from(Timestamp::now().0 - newest.0).unwrap_or(0));
    Some(KnownRate { rate: rates[rates.len() / 2], from: TimeSource::History, age })
}
