//! What jobs did since the service began, for who watches it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use tidegate_control::ByteCount;

use crate::job::State;
use crate::mover::Outcome;

/// Why a job ended, or an attempt, where there is nothing to say.
pub(crate) const NO_CAUSE: &str = "none";
/// Of a job that waited for another.
pub(crate) const DEPENDENCY: &str = "dependency";
/// Of a job that its user cancelled.
pub(crate) const USER: &str = "user";

/// Numbers by a result and its cause; both are of few.
type Counts = Mutex<BTreeMap<(&'static str, &'static str), u64>>;

/// What was counted.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    bytes: AtomicU64,
    files: AtomicU64,
    attempts: Counts,
    ended: Counts,
}

/// What was counted, at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tallied {
    /// Bytes of content that arrived.
    pub bytes: u64,
    /// Files that were completed.
    pub files: u64,
    /// Attempts by how they ended, and why.
    pub attempts: Vec<(&'static str, &'static str, u64)>,
    /// Jobs by how they ended, and why.
    pub ended: Vec<(&'static str, &'static str, u64)>,
}

impl Tally {
    /// So many bytes more have arrived.
    pub fn arrived(&self, bytes: ByteCount) {
        self.bytes.fetch_add(bytes.0, Relaxed);
    }

    /// An attempt has ended, with which so many files are complete.
    pub(crate) fn attempted(&self, outcome: Outcome, files: u64) {
        self.files.fetch_add(files, Relaxed);
        let (how, why) = match outcome {
            Outcome::Complete => ("complete", NO_CAUSE),
            Outcome::Stopped => ("stopped", NO_CAUSE),
            Outcome::Failed(class) => ("failed", class.name()),
        };
        count(&self.attempts, how, why);
    }

    /// A job has ended.
    pub fn ended(&self, state: State, cause: &'static str) {
        count(&self.ended, state.name(), cause);
    }

    /// What was counted so far.
    pub(crate) fn so_far(&self) -> Tallied {
        Tallied {
            bytes: self.bytes.load(Relaxed),
            files: self.files.load(Relaxed),
            attempts: listed(&self.attempts),
            ended: listed(&self.ended),
        }
    }
}

fn count(counts: &Counts, how: &'static str, why: &'static str) {
    *counts.lock().unwrap_or_else(PoisonError::into_inner).entry((how, why)).or_default() += 1;
}

fn listed(counts: &Counts) -> Vec<(&'static str, &'static str, u64)> {
    let counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
    counts.iter().map(|(&(how, why), &count)| (how, why, count)).collect()
}
