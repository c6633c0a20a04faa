//! What a run begins with and leaves behind of its path.

use std::path::Path;

use clap::Args;
use serde::{Deserialize, Serialize};
use tidegate_control::path_memory::BEGINS;
use tidegate_control::remember::remember;
use tidegate_control::units::duration_in_words;
use tidegate_control::{Epoch, PathMemory};
use tidegate_spec::control::Control;
use tidegate_spec::pair::PathKey;

use crate::path_store::{PathStore, age, now};

/// Whether a run begins where the last one over its path ended.
#[derive(Clone, Copy, Debug, Default, Args, Serialize, Deserialize)]
#[serde(default)]
#[command(next_help_heading = "Control")]
pub struct MemoryArgs {
    /// Begin as if nothing had ever been moved over this path, and remember nothing of it; otherwise the rule auto begins
    /// where the last run over it ended (`tidegate history show`)
    #[arg(long)]
    no_memory: bool,
}

impl MemoryArgs {
    /// Nothing is to be remembered.
    pub const OFF: Self = Self { no_memory: true };

    /// Whether anything is to be remembered, and what was may be used.
    pub fn is_wanted(self) -> bool {
        !self.no_memory
    }

    /// The memory of `path` in the state directory `state`. None where it is not wanted, or where no rule looks for the
    /// numbers.
    pub fn of(self, path: Option<PathKey>, control: &Control, state: &Path) -> Option<RunMemory> {
        let looks = !["fixed", "explore"].iter().any(|rule| control.spec.optimizer.starts_with(rule));
        let path = path.filter(|_| looks && !self.no_memory)?;
        let store = PathStore::new(state);
        // Whoever gives the numbers to begin with needs no memory.
        let begins = control.local.start.is_none();
        let held = if begins { store.recall(&path) } else { None };
        Some(RunMemory { path, store, begins, held })
    }
}

/// The memory of one path.
#[derive(Clone, Debug)]
pub struct RunMemory {
    path: PathKey,
    store: PathStore,
    begins: bool,
    held: Option<PathMemory>,
}

impl RunMemory {
    /// What to begin with.
    pub fn held(&self) -> Option<&PathMemory> {
        self.held.as_ref().filter(|_| self.begins)
    }

    /// Takes in the epochs of a run that is to go on, unless they are too few.
    pub fn learn(&mut self, epochs: &[Epoch]) {
        self.held = remember(epochs, now()).or_else(|| self.held.take());
    }

    /// Keeps for later runs what the epochs of one that ended well have shown, unless they are too few.
    pub fn keep(&self, epochs: &[Epoch]) {
        if let Some(memory) = remember(epochs, now()) {
            self.store.keep(&self.path, memory);
        }
    }
}

/// That a run begins with a memory, and how old it is.
pub fn notice(memory: &PathMemory) -> String {
    format!("{BEGINS} ({} ago)", duration_in_words(age(memory)))
}

#[cfg(test)]
mod tests {
    use tidegate_control::{BitRate, PerStage};
    use tidegate_spec::pair::Pair;

    use super::*;
    use crate::typed::parsed;

    #[derive(Args)]
    struct Options {
        #[command(flatten)]
        control: Control,
        #[command(flatten)]
        memory: MemoryArgs,
    }

    fn memory(state: &Path, words: &[&str]) -> Option<RunMemory> {
        let options: Options = parsed(words);
        let path = PathKey { pair: Pair::of("tg://a", "tg://b").expect("sites"), terms: Vec::new() };
        options.memory.of(Some(path), &options.control, state)
    }

    /// So many epochs of so many workers.
    fn epochs(count: u64, workers: u16) -> Vec<Epoch> {
        let epoch = |t: u64| {
            let seen = serde_json::json!({
                "t_ms": 1000 * t, "interval_ms": 1000,
                "concurrency": PerStage::all(workers), "setpoint": PerStage::all(workers),
                "throughput_bps": PerStage::all(BitRate::mbps(100)),
                "staging_free_bytes": {"sender": 0, "receiver": 0}, "loss": null, "rtt_us": null, "utility": null,
            });
            serde_json::from_value(seen).expect("an epoch")
        };
        (1..=count).map(epoch).collect()
    }

    fn workers(memory: &RunMemory) -> Option<u16> {
        memory.held().map(|held| held.stages.network.workers)
    }

    #[test]
    fn only_runs_that_look_for_the_numbers_have_a_memory() {
        let state = tempfile::tempdir().expect("a directory");
        let has = |words: &[&str]| memory(state.path(), words).is_some();
        assert!(has(&[]) && has(&["--optimizer", "gradient"]) && has(&["--start", "3"]));
        assert!(has(&["--bounds", "share"]), "a share may be all of it");
        for words in [&["--no-memory"][..], &["--optimizer", "fixed:4"], &["--optimizer", "explore"]] {
            assert!(!has(words), "{words:?}");
        }
    }

    #[test]
    fn a_run_that_goes_on_begins_with_what_it_has_seen_itself() {
        let state = tempfile::tempdir().expect("a directory");
        memory(state.path(), &[]).expect("a memory").keep(&epochs(5, 9));
        let mut run = memory(state.path(), &[]).expect("a memory");
        assert_eq!(workers(&run), Some(9));
        run.learn(&epochs(4, 3));
        assert_eq!(workers(&run), Some(9), "too few to tell");
        run.learn(&epochs(5, 3));
        assert_eq!(workers(&run), Some(3));
        run.keep(&epochs(4, 3));
        assert_eq!(memory(state.path(), &[]).as_ref().and_then(workers), Some(9), "nor to be kept");
        let mut told = memory(state.path(), &["--start", "2"]).expect("a memory");
        told.learn(&epochs(5, 3));
        assert_eq!(workers(&told), None, "the numbers were given");
    }
}
