//! What workers removed at the destination of what the source does not have.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tidegate_transfer::error::Error;
use tidegate_transfer::sys::sync::Mutex;

/// What was removed, and what first could not be.
#[derive(Debug, Default)]
pub(crate) struct Removed {
    files: AtomicU64,
    error: Mutex<Option<Error>>,
}

impl Removed {
    /// One more was.
    pub fn add(&self) {
        self.files.fetch_add(1, Relaxed);
    }

    /// One was not.
    pub fn fail(&self, error: Error) {
        self.error.lock().get_or_insert(error);
    }

    /// How many were, and why no more.
    pub fn outcome(&self) -> (u64, Option<Error>) {
        (self.files.load(Relaxed), self.error.lock().take())
    }
}
