//! What servers bore that pushed back, kept from run to run among the paths that are remembered.

use std::path::Path;
use std::time::Duration;

use tidegate_control::PathMemory;
use tidegate_fetch::host::held::HeldCeilings;
use tidegate_spec::pair::{Pair, PathKey, Site};

use crate::path_store::{KnownPath, PathStore, age, now};

/// How long a push-back is remembered. Servers change their rules, and load passes.
const MAX_AGE: Duration = Duration::from_secs(7 * 86_400);

/// What tells such a memory from those of paths.
const TERM: &str = "pushed back";

/// How the site of such a server begins: it is of a host and a port, whatever is spoken there.
const SCHEME: &str = "server://";

fn key(place: &str) -> Option<PathKey> {
    let pair = Pair::of(&format!("{SCHEME}{place}"), Site::LOCAL).ok()?;
    Some(PathKey { pair, terms: vec![TERM.to_owned()] })
}

/// What the state directory `state` says of servers that pushed back.
pub fn recall(state: &Path) -> HeldCeilings {
    // What cannot be read is said of by `history show`.
    let (known, _) = PathStore::new(state).all();
    let fits = |memory: &PathMemory| age(memory) <= MAX_AGE;
    let ours = known.into_iter().filter(|known| known.path.terms == [TERM] && fits(&known.memory));
    let place = |known: KnownPath| {
        let place = known.path.pair.source.as_str().strip_prefix(SCHEME)?.to_owned();
        Some((place, known.memory.stages.network.workers))
    };
    HeldCeilings::new(ours.filter_map(place))
}

/// Keeps what has pushed back in this run.
pub fn keep(held: &HeldCeilings, state: &Path) {
    let store = PathStore::new(state);
    for (place, connections) in held.noted() {
        let mut memory = PathMemory { at_unix_s: now(), ..PathMemory::default() };
        memory.stages.network.workers = connections;
        if let Some(key) = key(&place) {
            store.keep(&key, memory);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn push_back_is_forgotten_after_a_week_and_paths_are_something_else() {
        let state = tempfile::tempdir().expect("a directory");
        let store = PathStore::new(state.path());
        let memory = |days: u64, workers| {
            let mut memory = PathMemory { at_unix_s: now() - days * 86_400, ..PathMemory::default() };
            memory.stages.network.workers = workers;
            memory
        };
        let key = |place: &str| key(place).expect("a site");
        store.keep(&key("new:443"), memory(6, 6));
        store.keep(&key("old:443"), memory(8, 6));
        let path = PathKey { terms: Vec::new(), ..key("path:443") };
        store.keep(&path, memory(0, 6));
        let held = recall(state.path());
        assert_eq!(["new:443", "old:443", "path:443"].map(|place| held.of(place)), [Some(6), None, None]);
    }
}
