//! What a run begins with and leaves behind of its path.

use std::path::Path;

use clap::Args;
use tidegate_control::path_memory::BEGINS;
use tidegate_control::remember::remember;
use tidegate_control::units::duration_in_words;
use tidegate_control::{Epoch, PathMemory};

use crate::path_key::PathKey;
use crate::path_store::{PathStore, age, now};
use crate::settings::ControlArgs;

/// Whether a run begins where the last one over its path ended.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = "Control")]
pub struct MemoryArgs {
    /// Begin as if nothing had ever been moved over this path, and remember nothing of it; otherwise the rules auto and
    /// optimistic begin where the last run over it ended (`tidegate history show`)
    #[arg(long)]
    no_memory: bool,
}

impl MemoryArgs {
    /// The memory of `path` in the state directory `state`. None where it is not wanted, where no rule looks for the
    /// numbers, or where others share out the path.
    pub fn of(self, path: Option<PathKey>, control: &ControlArgs, state: &Path) -> Option<RunMemory> {
        let looks = !["fixed", "explore"].iter().any(|rule| control.optimizer.starts_with(rule));
        let path = path.filter(|_| looks && !self.no_memory && control.bounds.is_none())?;
        let store = PathStore::new(state);
        // Whoever gives the numbers to begin with needs no memory.
        let begins = control.start.is_none();
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
