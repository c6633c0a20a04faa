//! Where data comes from and goes to.
//!
//! A source is listed once and read in ranges; a sink is written in blocks at any offset, and each
//! write may be repeated. Both fit stores that are no file systems: a range is an HTTP or FTP range
//! request; a part-wise store gathers blocks into parts (S3: at least 5 MiB) behind
//! [`SinkFile::write_at`] and completes them in [`Sink::publish`].

pub mod abandoned;
pub mod apart;
mod appearance;
pub(crate) mod backup;
pub mod browse;
pub mod destination_path;
pub mod edit;
pub mod file_sink;
pub mod file_source;
pub mod folding;
mod granularity;
pub(crate) mod mark;
pub(crate) mod memory;
pub mod named;
pub mod naming;
mod part_file;
pub(crate) mod split_part;
pub(crate) mod work_dir;

use std::ops::Range;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use crate::counters::NotKept;
use crate::error::{Error, Result};
use crate::hash::Digest;
use crate::manifest::{Entry, Kind, Timestamp};
use crate::offer::{DirectoryNames, LeftOut};
use crate::path::RelPath;
use crate::quota::Quota;
use crate::spec::{RunId, Sources};
use crate::store::naming::{Durable, Replaced};
use crate::store::split_part::SplitPart;
use crate::terms::Verify;

/// What listing a source turns up.
#[derive(Debug)]
pub enum Found {
    /// Something to move.
    Entry(Listed),
    /// Something that should be moved but cannot.
    Problem(Vec<u8>, Error),
    /// Something left out on purpose, and why.
    Note(Vec<u8>, LeftOut),
}

/// An entry and which of the source's roots it lies beneath.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// As the receiver sees it.
    pub entry: Entry,
    /// The source's own index of the root it was found beneath.
    pub root: u16,
}

/// What a read of one block gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockContent {
    /// The buffer is filled.
    Data,
    /// All of it is a hole; the buffer was not touched.
    Zero,
}

/// Where data comes from.
pub trait Source: Send + Sync {
    /// Shows each entry to `found`, directories before their contents, until it answers `false`.
    fn list(&self, found: &mut dyn FnMut(Found) -> bool) -> Result<()>;

    /// What was named and where it lies, so that nothing is copied onto or into itself, or removes itself; nothing where
    /// that cannot be.
    fn sources(&self) -> Sources {
        Sources::default()
    }

    /// The mode of the directory whose contents are sent; of the first, where there are several.
    fn contents_mode(&self) -> Option<u32> {
        None
    }

    /// Tells of all names in each directory that is compared, whether they are offered or not, each directory behind
    /// the one that holds it, until `told` answers `false`.
    fn names(&self, told: &mut dyn FnMut(DirectoryNames) -> bool) -> Result<()> {
        let _ = told;
        Err(Error::protocol("the source has no names to tell"))
    }

    /// Opens `range` of a listed file for one worker.
    fn open(&self, file: &Listed, range: Range<u64>) -> Result<Box<dyn RangeReader>>;

    /// Whether a listed file comes in one piece alone, which one worker at a time reads, front to back.
    fn is_undivided(&self, file: &Listed) -> bool {
        let _ = file;
        false
    }

    /// Whether files are removed once they have arrived.
    fn is_moved(&self) -> bool {
        false
    }

    /// Removes a listed file, unless it has changed since or is reached by a link.
    fn remove(&self, file: &Listed) -> Result<()> {
        let _ = file;
        Err(Error::protocol("only files are removed"))
    }

    /// Whether the read stage exists (memory has none).
    fn has_read_stage(&self) -> bool {
        true
    }

    /// Whether it is one single file, which a destination may give a new name.
    fn is_single_file(&self) -> bool {
        false
    }

    /// How many readers it bears, if it bears no number of them.
    fn most_readers(&self) -> Option<u16> {
        None
    }

    /// Nothing more is wanted of it: who waits in it for a server shall not.
    fn stop(&self) {}
}

/// Reads one range of one version of a file, front to back.
pub trait RangeReader: Send {
    /// Fills `buffer` from `offset`, or fails with [`ErrorKind::Changed`](crate::error::ErrorKind)
    /// unless the file is still the version that was listed.
    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<BlockContent>;

    /// Whether no other worker can begin where this one would have gone on, without what lies before.
    fn is_undivided(&self) -> bool {
        false
    }

    /// Fails unless the file is still the version that was listed.
    fn check(&self) -> Result<()> {
        Ok(())
    }

    /// The open file, if another one may share its blocks.
    fn cloneable(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// The open file, if the kernel can send from it.
    fn sendable(&self) -> Option<&Arc<OwnedFd>> {
        None
    }
}

/// What a sink has of an entry.
#[derive(Debug, PartialEq)]
pub enum Standing {
    /// Nothing that helps.
    Absent,
    /// A directory or link, made now.
    Made,
    /// The very file that is offered, reached another way.
    Same,
    /// A regular file of the same size, with this modification time and these permission bits.
    Present(Timestamp, u32),
}

/// What bears a name already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct There {
    /// What it is; `None` for a device, a socket or a pipe.
    pub kind: Option<Kind>,
    /// Permission bits, at most 0o777.
    pub mode: u32,
    /// When it was modified.
    pub mtime: Timestamp,
}

impl There {
    /// Whether it is a regular file.
    pub fn is_file(&self) -> bool {
        matches!(self.kind, Some(Kind::File { .. }))
    }

    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        self.kind == Some(Kind::Directory)
    }
}

/// Where data goes to.
pub trait Sink: Send + Sync {
    /// Makes a directory or link, or looks at what bears a file's name; `dry` makes nothing, and fails where making it
    /// would, as far as that can be told.
    fn prepare(&self, entry: &Entry, dry: bool) -> Result<Standing>;

    /// What bears the name of an entry at `path` that was modified at `mtime`, if anything does; nothing is made.
    fn there(&self, path: &RelPath, mtime: Timestamp) -> Result<Option<There>> {
        let _ = (path, mtime);
        Ok(None)
    }

    /// The root hash of the file that bears the entry's name now; fails once `over`.
    fn digest(&self, entry: &Entry, over: &dyn Fn() -> bool) -> Result<Digest>;

    /// Opens the unfinished file for `entry`; `keep` what an earlier run left in it.
    fn open(&self, entry: &Entry, keep: bool) -> Result<Box<dyn SinkFile>>;

    /// Where the entry goes, relative to the destination's directory.
    fn place<'a>(&'a self, entry: &'a Entry) -> &'a RelPath {
        &entry.path
    }

    /// What the entry's place has in common with all names that the file system takes for the same; `None` where it keeps
    /// names apart.
    fn folded(&self, entry: &Entry) -> Option<Vec<u8>> {
        let _ = entry;
        None
    }

    /// The name that stands where the entry is to be put, if that is another's, which the file system takes for the same.
    fn other_there(&self, entry: &Entry) -> Option<Vec<u8>> {
        let _ = entry;
        None
    }

    /// Whether a file that is to be received can get its name.
    ///
    /// # Errors
    /// It cannot, whatever is received.
    fn takes(&self, _entry: &Entry) -> Result<()> {
        Ok(())
    }

    /// Whether an earlier run left an unfinished file for `entry` that can be continued.
    fn has_part(&self, entry: &Entry) -> bool;

    /// Removes the unfinished file for `entry`, if any.
    fn discard(&self, entry: &Entry);

    /// From now on what bears a name already stays: a file that would replace it fails.
    fn keep_existing(&self) {}

    /// Gives a finished file its name, and answers whether it did: only in place of what may be [`Replaced`]. For
    /// [`naming`] alone.
    fn publish(&self, entry: &Entry, replaced: Replaced, durable: &Durable) -> Result<bool>;

    /// The unfinished file for `entry` that transfers of the run share which verify alike, which takes some of the
    /// `descriptors`; `None` if there is none, and none is to be `made`.
    fn split(
        &self,
        entry: &Entry,
        by: (&RunId, Verify),
        made: bool,
        descriptors: &Arc<Quota>,
    ) -> Result<Option<Arc<SplitPart>>> {
        let _ = (by, made, descriptors);
        Err(Error::protocol(format!("{} cannot be split: nothing of it is kept", entry.path)))
    }

    /// As [`publish`](Self::publish), for a finished file that was shared.
    fn publish_split(&self, entry: &Entry, part: &SplitPart, durable: &Durable) -> Result<()> {
        let _ = (part, durable);
        Err(Error::protocol(format!("{} cannot be split: nothing of it is kept", entry.path)))
    }

    /// Makes the names given since the last call durable; answers with the directories, relative to the
    /// destination's, in which that failed.
    fn sync_names(&self) -> Vec<(Vec<u8>, Error)>;

    /// Why whatever is put there is not where it was to be: the destination was moved, removed or replaced meanwhile.
    fn moved(&self) -> Option<Error> {
        None
    }

    /// Fails unless the destination is where it was named, and so is what files were put into there.
    fn still_there(&self) -> Result<()> {
        Ok(())
    }

    /// Sets mode and times of what bears the entry's name: of a directory once nothing more is put into
    /// it, of a file whose content was right already.
    fn refresh(&self, entry: &Entry) -> Result<()>;

    /// Makes a file durable that was there.
    fn settle(&self, entry: &Entry) -> Result<()> {
        let _ = entry;
        Ok(())
    }

    /// What could not be kept of entries, as the file system refuses it.
    fn not_kept(&self) -> NotKept {
        NotKept::default()
    }

    /// Makes the names of unfinished files durable, and of what was recorded of them.
    fn settle_work(&self) -> Result<()> {
        Ok(())
    }

    /// Removes what only an unfinished transfer needs.
    fn clean_up(&self);

    /// Whether the write stage exists (nowhere has none).
    fn has_write_stage(&self) -> bool {
        true
    }
}

/// An unfinished file.
pub trait SinkFile: Send + Sync {
    /// Writes `data` at `offset`; repeating it is harmless.
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()>;

    /// Fills `buffer` with what was written at `offset`; where data goes nowhere, nothing can be read.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let _ = (offset, buffer);
        Err(Error::protocol("what went nowhere cannot be read"))
    }

    /// Has `range` share its blocks with the same range of `file`; `false` where that cannot be, and nothing is changed
    /// then.
    fn clone_range(&self, file: BorrowedFd<'_>, range: Range<u64>) -> bool {
        let _ = (file, range);
        false
    }

    /// Makes `length` bytes at `offset` read as zeros.
    fn zero_at(&self, offset: u64, length: u64) -> Result<()>;

    /// Says that something was written that must not stay: what is made zero from now on may hold it.
    fn spoiled(&self) {}

    /// Sets mode and times, and starts writing back what is dirty.
    fn seal(&self, entry: &Entry) -> Result<()>;

    /// Makes all that was written durable.
    fn sync(&self) -> Result<()>;
}
