//! An unfinished file in a work directory.

use std::ops::Range;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::manifest::{BLOCK, Entry};
use crate::path::RelPath;
use crate::store::SinkFile;
use crate::store::appearance::Appearance;
use crate::sys::fs::{self, FallocateFlags};

/// A file in the work directory.
#[derive(Debug)]
pub(super) struct PartFile {
    fd: OwnedFd,
    place: RelPath,
    size: u64,
    /// Whether it may hold bytes that were not written by this run, or that turned out wrong.
    stale: AtomicBool,
    sealed: AtomicBool,
    appearance: Arc<Appearance>,
}

impl PartFile {
    /// The file `fd`, of `size` bytes once it is whole, for `place`; `stale` if it may hold bytes that were not written by
    /// this run.
    pub(super) fn new(
        fd: OwnedFd,
        place: RelPath,
        size: u64,
        stale: bool,
        appearance: &Arc<Appearance>,
    ) -> Self {
        let (stale, sealed) = (AtomicBool::new(stale), AtomicBool::new(false));
        Self { fd, place, size, stale, sealed, appearance: Arc::clone(appearance) }
    }

    fn failed(&self, error: Errno) -> Error {
        Error::io("write", self.place.as_bytes(), error)
    }
}

impl SinkFile for PartFile {
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        fs::write_at(&self.fd, data, offset).map_err(|error| self.failed(error))
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let failed = |error| Error::io("read back", self.place.as_bytes(), error);
        match fs::read_at(&self.fd, buffer, offset).map_err(failed)? {
            read if read < buffer.len() => Err(failed(Errno::IO)),
            _ => Ok(()),
        }
    }

    fn clone_range(&self, file: BorrowedFd<'_>, range: Range<u64>) -> bool {
        // Other file systems, others' blocks, ranges that do not fit, no room: it is copied, and says why it cannot be.
        let cloned = fs::clone_range(&self.fd, file, range.clone());
        cloned.inspect_err(|error| tracing::trace!("{}: {range:?} is copied: {error}", self.place)).is_ok()
    }

    fn zero_at(&self, offset: u64, length: u64) -> Result<()> {
        if !self.stale.load(Relaxed) {
            // A new part is one hole already, unless it is too small to have been sized.
            if self.size <= BLOCK {
                fs::ftruncate(&self.fd, self.size).map_err(|error| self.failed(error))?;
            }
            return Ok(());
        }
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match fs::fallocate(&self.fd, punch, offset, length) {
            Ok(()) => Ok(()),
            Err(Errno::NOTSUP | Errno::NOSYS) => self.write_at(offset, &vec![0; length as usize]),
            Err(error) => Err(self.failed(error)),
        }
    }

    fn spoiled(&self) {
        self.stale.store(true, Relaxed);
    }

    fn seal(&self, entry: &Entry) -> Result<()> {
        self.appearance.set(&self.fd, entry).map_err(|error| self.failed(error))?;
        self.sealed.store(true, Relaxed);
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        // A sealed file's times and mode must last too.
        let synced = if self.sealed.load(Relaxed) { fs::fsync(&self.fd) } else { fs::fdatasync(&self.fd) };
        synced.map_err(|error| self.failed(error))
    }
}
