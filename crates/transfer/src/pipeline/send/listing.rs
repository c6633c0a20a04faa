//! Offers what the source lists, a window of entries at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use super::{Asked, SendFile, SenderState};
use crate::error::{Error, ErrorKind};
use crate::manifest::{FileId, Kind};
use crate::offer::{OFFER_ENTRIES, WINDOW, WINDOW_BYTES};
use crate::store::{Found, Listed};
use crate::sys::clock::Instant;
use crate::sys::sync::Mutex;
use crate::wire::message::Message;

impl SenderState {
    pub(super) fn list(&self) {
        let mut next: FileId = 0;
        let mut batch: Vec<Listed> = Vec::new();
        let mut last = Instant::now();
        let listed = self.source.list(&mut |found| {
            match found {
                Found::Entry(listed) => {
                    batch.push(listed);
                    // Small batches first, so that the first file starts at once.
                    if batch.len() >= OFFER_ENTRIES || last.elapsed() > Duration::from_millis(20) {
                        last = Instant::now();
                        return self.offer(&mut next, &mut batch);
                    }
                }
                Found::Problem(path, error) => {
                    let told = Message::Problem(path.clone(), error.clone());
                    self.outbox.send_patiently(&told, || self.stopped.load(Relaxed));
                    self.ledger.failed(&path, error, false);
                }
                Found::Note(path, why) => tracing::warn!("left out {}: {why}", crate::text::show(&path)),
            }
            !self.stopped.load(Relaxed)
        });
        if let Err(error) = listed {
            self.outbox.send(&Message::Problem(Vec::new(), error.clone()));
            self.ledger.failed(b"", error, false);
        }
        if self.offer(&mut next, &mut batch) {
            self.ledger.all_listed();
            self.outbox.send(&Message::Listed);
            self.pending.lock().expect("not poisoned").listed = true;
            self.finish_if_done();
        }
    }

    /// Offers `batch`, waiting for room; `false` once stopped.
    fn offer(&self, next: &mut FileId, batch: &mut Vec<Listed>) -> bool {
        let mut pending = self.pending.lock().expect("not poisoned");
        while (pending.len() > WINDOW || pending.names > WINDOW_BYTES) && !self.stopped.load(Relaxed) {
            pending = self.room.wait(pending).expect("not poisoned");
        }
        if self.stopped.load(Relaxed) {
            return false;
        }
        if batch.is_empty() {
            return true;
        }
        let first = *next;
        let mut entries = Vec::with_capacity(batch.len());
        for listed in batch.drain(..) {
            let id = *next;
            let Some(following) = next.checked_add(1) else {
                drop(pending);
                self.fail(Error::new(
                    ErrorKind::Usage,
                    "more than 4 billion entries in one transfer: split it",
                ));
                return false;
            };
            *next = following;
            entries.push(listed.entry.clone());
            pending.names += listed.entry.memory();
            if let Kind::File { size, .. } = listed.entry.kind {
                self.ledger.listed(size);
                let file = SendFile {
                    id,
                    size,
                    listed,
                    hash: Mutex::default(),
                    kept: AtomicU64::new(0),
                    resent: AtomicU64::new(0),
                    arrived: Mutex::default(),
                    ended: AtomicBool::new(false),
                    asked: Mutex::new(Asked::Offered),
                };
                pending.files.insert(id, Arc::new(file));
            } else {
                pending.others.insert(id, listed);
            }
        }
        drop(pending);
        let offer = Message::Offer { first, entries };
        self.outbox.send_patiently(&offer, || self.stopped.load(Relaxed));
        true
    }
}
