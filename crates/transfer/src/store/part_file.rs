//! An unfinished file in a work directory.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::manifest::{BLOCK, Entry, Timestamp};
use crate::path::RelPath;
use crate::store::SinkFile;
use crate::sys::fs::{self, FallocateFlags, Mode, Timespec, Timestamps, UTIME_OMIT, fchmod, futimens};

/// A file in the work directory.
#[derive(Debug)]
pub(super) struct PartFile {
    fd: OwnedFd,
    place: RelPath,
    size: u64,
    /// Whether it may hold bytes that were not written by this run, or that turned out wrong.
    stale: AtomicBool,
    sealed: AtomicBool,
}

impl PartFile {
    /// The file `fd`, of `size` bytes once it is whole, for `place`; `stale` if it may hold bytes that were not written by
    /// this run.
    pub(super) fn new(fd: OwnedFd, place: RelPath, size: u64, stale: bool) -> Self {
        Self { fd, place, size, stale: AtomicBool::new(stale), sealed: AtomicBool::new(false) }
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
        fchmod(&self.fd, permissions(entry)).map_err(|error| self.failed(error))?;
        futimens(&self.fd, &times(entry.mtime)).map_err(|error| self.failed(error))?;
        self.sealed.store(true, Relaxed);
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        // A sealed file's times and mode must last too.
        let synced = if self.sealed.load(Relaxed) { fs::fsync(&self.fd) } else { fs::fdatasync(&self.fd) };
        synced.map_err(|error| self.failed(error))
    }
}

/// Read, write and execute. Set-user-ID, set-group-ID and sticky bits are left out: ownership is not
/// kept, so they would mean something else here, and a peer must not make a program of ours privileged.
pub(super) fn permissions(entry: &Entry) -> Mode {
    Mode::from_raw_mode(entry.mode & 0o777)
}

/// As the kernel is told them.
pub(super) fn times(mtime: Timestamp) -> Timestamps {
    let time = Timespec { tv_sec: mtime.seconds, tv_nsec: i64::from(mtime.nanoseconds) as _ };
    Timestamps { last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT }, last_modification: time }
}
