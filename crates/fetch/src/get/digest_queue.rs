//! What waits for the digest pool.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use tidegate_transfer::manifest::Timestamp;
use tidegate_transfer::sys::sync::{Condvar, Mutex};

use crate::checksum::Hashers;
use crate::get::file::{Body, DownloadFile};
use crate::remote::Version;

/// What waits for the digest pool: each file at most once.
#[derive(Default)]
pub(super) struct DigestQueue {
    state: Mutex<(VecDeque<DigestJob>, bool)>,
    changed: Condvar,
}

pub(super) enum DigestJob {
    /// The front of a file that is being fetched.
    Follow(Arc<Body>),
    /// A file that is there already and may be what is wanted.
    Check(Box<Check>),
}

/// A file that is read to see whether it is what is wanted.
pub(super) struct Check {
    pub(super) file: Arc<DownloadFile>,
    pub(super) content: OwnedFd,
    pub(super) size: u64,
    pub(super) mtime: Timestamp,
    pub(super) hashers: Hashers,
    pub(super) at: u64,
    /// Who says what it sums up to, if that was not declared.
    pub(super) mirror: usize,
    pub(super) seen: Version,
}

impl DigestQueue {
    pub(super) fn push(&self, job: DigestJob) {
        self.state.lock().0.push_back(job);
        self.changed.notify_one();
    }

    pub(super) fn close(&self) {
        self.state.lock().1 = true;
        self.changed.notify_all();
    }

    pub(super) fn take(&self) -> Option<DigestJob> {
        let mut state = self.state.lock();
        loop {
            if state.1 {
                return None;
            }
            if let Some(job) = state.0.pop_front() {
                return Some(job);
            }
            state = self.changed.wait(state);
        }
    }
}
