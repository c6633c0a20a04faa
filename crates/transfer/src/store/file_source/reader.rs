//! Reading one version of a file, and telling when it is no longer that version.

use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;

use super::unlinked::Unlinked;
use crate::error::{Error, ErrorKind, Result};
use crate::manifest::Fingerprint;
use crate::store::{BlockContent, RangeReader};
use crate::sys::fs::{self, SeekFrom, fstat, seek};
use crate::text::show;

/// An open file, known to be one version.
pub(super) struct FileReader {
    fd: Arc<OwnedFd>,
    path: Vec<u8>,
    fingerprint: Fingerprint,
    unlinked: Arc<Unlinked>,
    sparse: bool,
    hole: Range<u64>,
    data_end: u64,
}

impl FileReader {
    /// Reads `fd` from `start` on, as long as it is the listed version.
    pub(super) fn new(
        fd: OwnedFd,
        path: Vec<u8>,
        size: u64,
        fingerprint: Fingerprint,
        unlinked: Arc<Unlinked>,
        start: u64,
    ) -> Result<Self> {
        let stat = fstat(&fd).map_err(|error| Error::io("read", &path, error))?;
        let sparse = (stat.st_blocks as u64) * 512 < size;
        let (fd, hole) = (Arc::new(fd), 0..0);
        let reader = Self { fd, path, fingerprint, unlinked, sparse, hole, data_end: start };
        reader.is_listed()?;
        Ok(reader)
    }

    fn is_listed(&self) -> Result<()> {
        let is_version = self.unlinked.is_version(|| fstat(&self.fd), &self.fingerprint);
        match is_version.map_err(|error| Error::io("read", &self.path, error))? {
            true => Ok(()),
            false => Err(changed(&self.path, "it was written to while it was being sent")),
        }
    }

    /// Whether all of `range` is a hole.
    fn in_hole(&mut self, range: &Range<u64>) -> bool {
        if !self.sparse {
            return false;
        }
        if range.end > self.hole.end && range.start >= self.data_end {
            // The next data at or after the range, and where it ends; no more data is one long hole.
            let data = match seek(&self.fd, SeekFrom::Data(range.start)) {
                Ok(data) => data,
                Err(Errno::NXIO) => u64::MAX,
                Err(_) => {
                    self.sparse = false;
                    return false;
                }
            };
            self.hole = range.start..data;
            self.data_end = match seek(&self.fd, SeekFrom::Hole(data.min(i64::MAX as u64))) {
                Ok(end) if data < u64::MAX => end,
                _ => data,
            };
        }
        self.hole.start <= range.start && range.end <= self.hole.end
    }
}

impl RangeReader for FileReader {
    fn check(&self) -> Result<()> {
        self.is_listed()
    }

    fn cloneable(&self) -> Option<BorrowedFd<'_>> {
        // Of one with holes only the rest is read.
        (!self.sparse).then(|| self.fd.as_fd())
    }

    fn sendable(&self) -> Option<&Arc<OwnedFd>> {
        Some(&self.fd)
    }

    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<BlockContent> {
        let piece = if self.in_hole(&(offset..offset + buffer.len() as u64)) {
            BlockContent::Zero
        } else {
            let read = fs::read_at(&self.fd, buffer, offset);
            if read.map_err(|error| Error::io("read", &self.path, error))? < buffer.len() {
                return Err(changed(&self.path, "it became shorter"));
            }
            BlockContent::Data
        };
        // After the read: what was read belongs to the version that was listed.
        self.is_listed()?;
        Ok(piece)
    }
}

pub(super) fn changed(path: &[u8], how: &str) -> Error {
    Error::new(
        ErrorKind::Changed,
        format!("{} was not copied: {how}; copy it again once it rests", show(path)),
    )
}
