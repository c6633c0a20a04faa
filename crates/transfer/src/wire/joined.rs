//! Two ends in one process: blocks are handed over as they are, and cross no wire.

use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use crate::error::Result;
use crate::hash::Digest;
use crate::manifest::FileId;

/// Fills a buffer with what lies at an offset of an unfinished file.
pub(crate) type ReadBack = Box<dyn Fn(u64, &mut [u8]) -> Result<()> + Send>;

/// Frames that are handed over, one behind the other, as on a stream.
#[derive(Debug)]
pub struct Parcel<'b> {
    /// The frames; who takes them leaves another buffer of the same size.
    pub bytes: &'b mut Box<[u8]>,
    /// Bytes in use.
    pub length: usize,
    /// What the content of each hashes to.
    pub digests: &'b [Digest],
    /// Whether their content is at its place, as [`clone_range`](BlockTaker::clone_range) put it there.
    pub placed: bool,
}

/// A receiver of this process.
pub trait BlockTaker: std::fmt::Debug + Send + Sync {
    /// Takes a parcel once there is room for it; `false` if nothing is taken any more, or the sender's work is `over`,
    /// which is looked at again after [`recall`](Self::recall).
    fn take(&self, parcel: Parcel<'_>, over: &dyn Fn() -> bool) -> bool;

    /// Has a range of a file of the sender's share its blocks with the unfinished file, where the file system can. Answers
    /// with what reads it there, which is what is to be hashed: the sender's file may change meanwhile.
    fn clone_range(&self, file: FileId, from: BorrowedFd<'_>, range: Range<u64>) -> Option<ReadBack>;

    /// Everybody who waits for room looks again whether it is over.
    fn recall(&self);
}

/// An endpoint of this process.
pub trait Neighbour: std::fmt::Debug + Send + Sync {
    /// The receiver of the transfer that was accepted with `token`; `None` if there is none any more.
    fn taker(&self, token: &Digest) -> Option<Arc<dyn BlockTaker>>;
}
