//! How fast a path was, by the transfers that the history has of it: what a copy is told that no run before it has left a
//! memory of its path.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tidegate_contract::plan_line::TimeSource;
use tidegate_contract::summary::Status;
use tidegate_control::BitRate;
use tidegate_run::known_rate::{KnownRate, Remembers};
use tidegate_run::settings::history_url;
use tidegate_spec::pair::PathKey;

use super::blocking::Blocking;
use super::record::{Timestamp, Transfer};
use super::store::Query;

/// Of so many of the newest transfers that are recorded the median counts.
const TRANSFERS: u32 = 10;

/// The history of a state directory. One that is not there is not made.
#[derive(Clone, Debug)]
pub struct Recorded {
    state: PathBuf,
}

impl Recorded {
    /// That of the state directory `state`.
    pub fn of(state: &Path) -> Self {
        Self { state: state.to_path_buf() }
    }
}

impl Remembers for Recorded {
    /// The median of the newest that moved all between the ends of `path`.
    fn rate(&self, path: &PathKey) -> Option<KnownRate> {
        if !self.state.join("history.db").exists() {
            return None;
        }
        let query = Query { limit: TRANSFERS, ..Query::of(&path.pair.of_hosts()) };
        let known = Blocking::open(&history_url(None, &self.state))
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
        let mut rates: Vec<BitRate> =
            transfers.iter().filter(ended).map(|transfer| transfer.goodput).collect();
        rates.sort_unstable();
        let age = Duration::from_millis(u64::try_from(Timestamp::now().0 - newest.0).unwrap_or(0));
        Some(KnownRate { rate: rates[rates.len() / 2], from: TimeSource::History, age })
    }
}

#[cfg(test)]
mod tests {
    use tidegate_control::{ByteCount, PathMemory, PerStage};
    use tidegate_run::path_store::{PathStore, now};
    use tidegate_spec::pair::{Pair, Site};

    use super::super::record::{Circumstances, Origin, Record};
    use super::*;

    fn transfer(mbps: u64, minutes_ago: i64, outcome: Status) -> Record {
        let at = Timestamp(Timestamp::now().0 - 60_000 * minutes_ago);
        Record::from(Transfer {
            pair: Pair::of("/data", "tg://h:7117/in").expect("sites"),
            origin: Origin::Own,
            job: None,
            bytes: ByteCount::mib(100),
            files: 1,
            concurrency: PerStage::all(None),
            optimizer: None,
            goodput: BitRate::mbps(mbps),
            duration: Duration::from_secs(1),
            loss: None,
            rtt: None,
            retransmits: None,
            outcome,
            reason: None,
            circumstances: Circumstances::default(),
            at,
        })
    }

    #[test]
    fn what_a_path_last_held_comes_before_what_is_recorded_and_nothing_is_made_up() {
        let directory = tempfile::tempdir().expect("a directory");
        let state = directory.path();
        let destination = Site::of("tg://h:7117").expect("a site");
        let path = PathKey { pair: Pair { source: Site::file_system("/"), destination }, terms: Vec::new() };
        let store = PathStore::new(state);
        let known = || KnownRate::of(&path, &[&store, &Recorded::of(state)]);
        assert!(known().is_none());
        assert_eq!(std::fs::read_dir(state).expect("listed").count(), 0, "no history is made");
        let history = Blocking::open(&history_url(None, state)).expect("made");
        let failed = transfer(900, 1, Status::Failed);
        history.wait(history.history().record(&[failed])).expect("recorded");
        assert!(known().is_none(), "what failed says nothing");
        let records = [80, 100, 120].map(|mbps| transfer(mbps, 10, Status::Complete));
        history.wait(history.history().record(&records)).expect("recorded");
        drop(history);
        let time = known().expect("recorded").time(ByteCount(125_000_001));
        assert_eq!((time.seconds, time.rate_bps, time.from), (11, 100_000_000, TimeSource::History));
        assert!((600..700).contains(&time.age_s), "{}", time.age_s);
        let mut memory = PathMemory { at_unix_s: now() - 50, epochs: 5, ..PathMemory::default() };
        memory.stages.network.throughput_bps = BitRate::mbps(200);
        store.keep(&path, memory);
        let time = known().expect("remembered").time(ByteCount(125_000_000));
        assert_eq!((time.seconds, time.rate_bps, time.from), (5, 200_000_000, TimeSource::Memory));
    }
}
