//! What bears a file's name before it is got, and whether it may be replaced: only what an earlier run has written
//! may be, and is still as it was left, unless everything may.

use std::os::fd::OwnedFd;

use rustix::fs::{FileType, Mode, OFlags, fstat};
use rustix::io::Errno;
use tidegate_transfer::error::{Error, ErrorKind, Result};
use tidegate_transfer::manifest::Timestamp;

use crate::checksum::Difference;
use crate::get::file::DownloadFile;
use crate::get::memory::Fetched;
use crate::get::state::DownloadState;
use crate::record::Record;

/// Something that bears a file's name, and is no directory.
pub(super) struct ExistingFile {
    /// Its content; `None` if it is no regular file, or may not be read.
    pub(super) content: Option<OwnedFd>,
    pub(super) size: u64,
    pub(super) mtime: Timestamp,
    kind: FileType,
}

impl ExistingFile {
    /// Whether it is what was remembered.
    pub(super) fn is(&self, remembered: &Fetched) -> bool {
        self.kind == FileType::RegularFile && self.size == remembered.size && self.mtime == remembered.mtime
    }

    /// Whether it may be a file of `bytes`, if that is known.
    pub(super) fn may_have(&self, bytes: Option<u64>) -> bool {
        self.kind == FileType::RegularFile && bytes.is_none_or(|bytes| bytes == self.size)
    }

    /// That it is not replaced unasked.
    fn stays(&self, record: &Record) -> Error {
        if self.kind != FileType::RegularFile {
            return stays(record, "it is no regular file");
        }
        match record.bytes.filter(|&bytes| bytes != self.size) {
            Some(bytes) => stays(record, &format!("it has {} bytes, and should have {bytes}", self.size)),
            None => stays(record, "nothing tells that it is the same"),
        }
    }
}

/// That what bears a record's name is not replaced unasked, since it is another's.
fn stays(record: &Record, why: &str) -> Error {
    let why = format!(
        "{}: the file of that name here is none of an earlier run's, or was changed since, and {why}; move it away, or replace it with --overwrite",
        record.path
    );
    Error::new(ErrorKind::Denied, why)
}

impl DownloadState {
    /// What bears a record's name now.
    pub(super) fn existing(&self, record: &Record) -> Result<Option<ExistingFile>> {
        let path = record.path.as_bytes();
        let open = |flags| self.settings.out.open_beneath(path, flags, Mode::empty());
        let (seen, readable) = match open(OFlags::RDONLY | OFlags::NONBLOCK) {
            Ok(file) => (file, true),
            Err(Errno::NOENT) => return Ok(None),
            // A link, what we may not read, or a socket.
            Err(Errno::LOOP | Errno::ACCESS | Errno::NXIO) => match open(OFlags::PATH | OFlags::NOFOLLOW) {
                Ok(place) => (place, false),
                // Its directory is a link, or closed to us: told when the file is to be made.
                Err(_) => return Ok(None),
            },
            Err(error) => return Err(Error::io("create", path, error)),
        };
        let stat = fstat(&seen).map_err(|error| Error::io("look at", path, error))?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        if kind == FileType::Directory {
            let why = format!("cannot create {}: a directory of that name is there", record.path);
            return Err(Error::new(ErrorKind::Denied, why));
        }
        Ok(Some(ExistingFile {
            content: (readable && kind == FileType::RegularFile).then_some(seen),
            size: stat.st_size as u64,
            mtime: Timestamp { seconds: stat.st_mtime, nanoseconds: stat.st_mtime_nsec as u32 },
            kind,
        }))
    }

    /// Whether `existing` may be replaced by a file.
    pub(super) fn gives_way(&self, file: &DownloadFile, existing: &ExistingFile) -> Result<()> {
        let ours = || file.before.as_ref().is_some_and(|before| existing.is(before));
        if self.settings.overwrite || ours() { Ok(()) } else { Err(existing.stays(&file.record)) }
    }

    /// Whether a file's name may be taken: nothing bears it, or what does may be replaced.
    pub(super) fn is_free(&self, file: &DownloadFile) -> Result<()> {
        self.existing(&file.record)?.map_or(Ok(()), |existing| self.gives_way(file, &existing))
    }

    /// Whether a file that was read may be replaced, which is not what was expected, or not surely.
    pub(super) fn gives_way_to(&self, file: &DownloadFile, differs: Option<&Difference>) -> Result<()> {
        if self.settings.overwrite || file.before.is_some() {
            return Ok(());
        }
        let why = differs.map_or_else(
            || "nothing proves what it is".to_owned(),
            |Difference { kind, expected, computed }| {
                format!("its {kind} is {computed}, and should be {expected}")
            },
        );
        Err(stays(&file.record, &why))
    }
}
