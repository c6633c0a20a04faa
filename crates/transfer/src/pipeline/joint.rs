//! Streams to a receiver in this process: its workers take turns with ours, block by block, in one thread.

use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use crate::error::{Error, Result};
use crate::manifest::FileId;
use crate::pipeline::staging::Block;
use crate::sys::sync::OnceLock;
use crate::wire::joined::{BlockTaker, Parcel, ReadBack};

/// Where a transfer's streams lead to a receiver of this process; its clones are of the same transfer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Joint(Arc<Joining>);

#[derive(Debug, Default)]
struct Joining {
    taker: OnceLock<Arc<dyn BlockTaker>>,
    next: AtomicU32,
    over: AtomicBool,
}

/// One of its streams.
#[derive(Debug)]
pub(crate) struct JoinedStream(Arc<Joining>);

impl Joint {
    /// The endpoint has accepted, and this takes what is sent.
    pub fn found(&self, taker: Arc<dyn BlockTaker>) {
        let _ = self.0.taker.set(taker);
    }

    /// Opens the next stream.
    ///
    /// # Errors
    /// Nothing was accepted yet.
    pub fn open(&self) -> Result<(u32, JoinedStream)> {
        if self.0.taker.get().is_none() {
            return Err(Error::protocol("a data stream before it was accepted"));
        }
        Ok((self.0.next.fetch_add(1, Relaxed), JoinedStream(Arc::clone(&self.0))))
    }

    /// Has a range of a file share its blocks with the receiver's, where that can be.
    pub(crate) fn clone_range(
        &self,
        file: FileId,
        from: BorrowedFd<'_>,
        range: Range<u64>,
    ) -> Option<ReadBack> {
        self.0.taker.get()?.clone_range(file, from, range)
    }

    /// Nothing more is sent: nobody waits for room.
    pub fn end(&self) {
        self.0.over.store(true, Relaxed);
        self.0.taker.get().into_iter().for_each(|taker| taker.recall());
    }
}

impl JoinedStream {
    /// Hands a block's frames over; it is left with another buffer.
    pub(crate) fn hand_over<F>(&self, block: &mut Block<F>) -> io::Result<()> {
        let Block { length, digests, placed, bytes, .. } = block;
        let parcel = Parcel { length: *length, digests, placed: *placed, bytes };
        let over = || self.0.over.load(Relaxed);
        match self.0.taker.get().is_some_and(|taker| taker.take(parcel, &over)) {
            true => Ok(()),
            false => Err(io::ErrorKind::ConnectionReset.into()),
        }
    }
}
