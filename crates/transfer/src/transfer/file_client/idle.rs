//! Sessions that nobody uses are kept for a while, since a new one takes some round trips, and then closed: others with the
//! same ticket may be waiting for one.

use std::sync::Arc;
use std::time::Duration;

use crate::sys::clock::Instant;
use crate::sys::sync::{Condvar, Mutex};
use crate::sys::thread;
use crate::transfer::file_client::FileSession;

/// How long the last session is kept.
const KEEP_LAST: Duration = Duration::from_secs(10);

/// How long those besides it are, which large reads open.
const KEEP_OTHERS: Duration = Duration::from_secs(1);

/// Sessions that nobody uses: no more than were used at once.
#[derive(Debug, Default)]
pub(super) struct IdleSessions {
    kept: Mutex<Kept>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Kept {
    /// And since when; the latest is last.
    sessions: Vec<(Instant, FileSession)>,
    /// Whether a thread closes those that are kept for too long.
    closing: bool,
}

impl Kept {
    /// When the next is to be closed.
    fn next_end(&self) -> Option<Instant> {
        let keep = if self.sessions.len() > 1 { KEEP_OTHERS } else { KEEP_LAST };
        self.sessions.first().map(|(since, _)| *since + keep)
    }
}

impl IdleSessions {
    pub(super) fn is_empty(&self) -> bool {
        self.kept.lock().sessions.is_empty()
    }

    /// The one that was used last and still works.
    pub(super) fn take(&self) -> Option<FileSession> {
        let mut kept = self.kept.lock();
        while let Some((_, session)) = kept.sessions.pop() {
            if !session.link.outbox.is_lost() {
                return Some(session);
            }
        }
        None
    }

    /// Keeps one for a while.
    pub(super) fn put(self: &Arc<Self>, session: FileSession) {
        let mut kept = self.kept.lock();
        kept.sessions.push((Instant::now(), session));
        if !kept.closing {
            let idle = Arc::clone(self);
            // Without a thread they are kept until the client is gone.
            kept.closing = thread::Builder::new().name("idle".to_owned()).spawn(move || idle.close()).is_ok();
        }
        drop(kept);
        self.changed.notify_one();
    }

    /// Closes all of them.
    pub(super) fn clear(&self) {
        self.kept.lock().sessions.clear();
        self.changed.notify_one();
    }

    /// Closes each when its time is over, until none is left.
    fn close(&self) {
        let mut kept = self.kept.lock();
        while let Some(end) = kept.next_end() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                drop(kept.sessions.remove(0));
            } else {
                kept = self.changed.wait_timeout(kept, left).0;
            }
        }
        kept.closing = false;
    }
}
