//! How soon the quickest answer to a request came: about a round trip, and what the server takes at least.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The quickest answer so far.
#[derive(Debug)]
pub(crate) struct Quickest {
    micros: AtomicU64,
}

impl Default for Quickest {
    fn default() -> Self {
        Self { micros: AtomicU64::new(u64::MAX) }
    }
}

impl Quickest {
    /// An answer came after `time`.
    pub fn answered(&self, time: Duration) {
        self.micros.fetch_min(time.as_micros() as u64, Relaxed);
    }

    /// Zero before the first one.
    pub fn time(&self) -> Duration {
        match self.micros.load(Relaxed) {
            u64::MAX => Duration::ZERO,
            micros => Duration::from_micros(micros),
        }
    }
}
