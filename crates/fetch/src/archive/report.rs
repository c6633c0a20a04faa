//! Where what was resolved goes, and whether anybody still wants it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::SyncSender;

use tidegate_transfer::error::Error;

use crate::record::Named;

/// The sending end of a stream of names.
#[derive(Clone)]
pub struct Report {
    /// Where they go.
    pub found: SyncSender<Named>,
    /// Whether nobody listens any more.
    pub over: Arc<AtomicBool>,
}

impl Report {
    /// Hands something over; waits while there is much already.
    pub fn tell(&self, named: Named) {
        if self.found.send(named).is_err() {
            self.over.store(true, Relaxed);
        }
    }

    /// Hands over why `name` cannot be had.
    pub fn problem(&self, name: &str, error: Error) {
        self.tell(Named::problem(name, error));
    }

    /// Whether nobody listens any more.
    pub fn is_over(&self) -> bool {
        self.over.load(Relaxed)
    }
}
