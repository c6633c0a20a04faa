//! Looks up and counts what comes on a data stream at the receiver.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::ReceiverState;
use crate::manifest::FileId;
use crate::offer::Again;
use crate::pipeline::incoming::Incoming;
use crate::pipeline::intake::FrameHandler;
use crate::pipeline::staging::Block;
use crate::pipeline::write_path::Arrived;
use crate::wire::message::Message;

/// One stream's handler.
pub(super) struct StreamHandler<'s> {
    pub(super) shared: &'s ReceiverState,
    pub(super) index: u32,
    /// Whether the stream is waited for right now.
    pub(super) waiting: &'s AtomicBool,
}

impl FrameHandler<Incoming> for StreamHandler<'_> {
    fn file(&self, id: FileId) -> Option<(Arc<Incoming>, u64)> {
        self.shared.file(id)
    }

    fn waits(&self, waiting: bool) {
        self.waiting.store(waiting, Relaxed);
    }

    fn deliver(&self, block: Block<Arrived<Incoming>>) {
        self.shared.path.deliver(self.shared, block);
    }

    fn moved(&self, bytes: u64) {
        self.shared.network_bytes.fetch_add(bytes, Relaxed);
    }

    fn taken(&self, frames: u64, bytes: u64, damaged: Vec<Again>) {
        self.shared.taken_bytes.fetch_add(bytes, Relaxed);
        self.shared.path.ledger.bytes_moved.fetch_add(bytes, Relaxed);
        self.shared.taken.lock().entry(self.index).or_default().frames += frames;
        if !damaged.is_empty() {
            tracing::warn!("{} damaged blocks on stream {}: sent again", damaged.len(), self.index);
            for again in &damaged {
                let bytes = again.range.end - again.range.start;
                self.shared.path.ledger.bytes_again.fetch_add(bytes, Relaxed);
            }
            self.shared.outbox.send(&Message::Again(damaged));
        }
    }
}
