//! What a sender of this process hands over.

use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};

use super::{Receiver, ReceiverState};
use crate::manifest::FileId;
use crate::offer::Again;
use crate::pipeline::incoming::Incoming;
use crate::pipeline::intake::{FrameHandler, take_over};
use crate::pipeline::staging::Block;
use crate::pipeline::write_path::{Arrived, WriteHandler};
use crate::wire::joined::{BlockTaker, Parcel, ReadBack};

/// Takes what is handed over, as long as the receiver is there.
struct Joined(Weak<ReceiverState>);

tidegate_contract::opaque!(Joined);

/// What looks files up: a sender of this process knows itself what was taken of it.
struct Handler<'s>(&'s ReceiverState);

impl Receiver {
    /// What a sender of this process hands its blocks to.
    pub fn taker(&self) -> Arc<dyn BlockTaker> {
        Arc::new(Joined(Arc::downgrade(&self.shared)))
    }
}

impl BlockTaker for Joined {
    fn take(&self, mut parcel: Parcel<'_>, over: &dyn Fn() -> bool) -> bool {
        let Some(shared) = self.0.upgrade() else { return false };
        // Whoever ends the receiver waits for what is under way.
        let _under_way = shared.handing_over.read();
        if shared.path.is_stopped() {
            return false;
        }
        let taken = take_over(&mut parcel, &shared.path.staging, &Handler(&shared), || !over());
        taken.unwrap_or_else(|error| {
            shared.fail(error);
            false
        })
    }

    fn clone_range(&self, file: FileId, from: BorrowedFd<'_>, range: Range<u64>) -> Option<ReadBack> {
        let shared = self.0.upgrade()?;
        let _under_way = shared.handing_over.read();
        if shared.path.is_stopped() {
            return None;
        }
        let (file, _) = shared.file(file)?;
        let part = file.part_for_all(range.clone(), &*shared.path.sink, shared.descriptor(&file));
        // Whoever writes to it says why it cannot be opened.
        let part = part.ok().flatten()?;
        part.clone_range(from, range)
            .then(|| -> ReadBack { Box::new(move |at, buffer| part.read_at(at, buffer)) })
    }

    fn recall(&self) {
        self.0.upgrade().iter().for_each(|shared| shared.path.staging.recall());
    }
}

impl FrameHandler<Incoming> for Handler<'_> {
    fn file(&self, id: FileId) -> Option<(Arc<Incoming>, u64)> {
        self.0.file(id)
    }

    fn waits(&self, _: bool) {}

    fn deliver(&self, block: Block<Arrived<Incoming>>) {
        self.0.path.deliver(self.0, block);
    }

    fn moved(&self, bytes: u64) {
        self.0.network_bytes.fetch_add(bytes, Relaxed);
    }

    fn taken(&self, _: u64, bytes: u64, _: Vec<Again>) {
        self.0.taken_bytes.fetch_add(bytes, Relaxed);
        self.0.path.ledger.bytes_moved.fetch_add(bytes, Relaxed);
    }
}
