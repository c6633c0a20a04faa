//! A file that is either written whole or not there: a reader never finds half of it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tidegate_transfer::error::{Error, ErrorKind};
use tidegate_transfer::sys::durable::settle_name;

use crate::exit::usage;

/// A file to be written at the end. What stood there before stays until then.
pub struct WholeFile {
    path: PathBuf,
    temporary: PathBuf,
    file: File,
}

impl WholeFile {
    /// Makes sure now that `path` can be written later.
    pub fn begin(path: &Path) -> Result<Self, Error> {
        let failed = |error: io::Error| usage(format!("cannot write {}: {error}", path.display()));
        let name = path.file_name().filter(|_| !path.is_dir());
        let name = name.ok_or_else(|| failed(io::ErrorKind::IsADirectory.into()))?;
        let temporary = format!(".{}.{}.new", name.to_string_lossy(), std::process::id());
        let temporary = path.with_file_name(temporary);
        let file = OpenOptions::new().write(true).create_new(true).open(&temporary).map_err(failed)?;
        Ok(Self { path: path.to_path_buf(), temporary, file })
    }

    /// Puts `content` there in one step.
    pub fn commit(mut self, content: impl AsRef<[u8]>) -> Result<(), Error> {
        let write = |this: &mut Self| {
            this.file.write_all(content.as_ref())?;
            this.file.sync_all()?;
            fs::rename(&this.temporary, &this.path)?;
            settle_name(&this.path)
        };
        write(&mut self).map_err(|error| {
            let kind = match error.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorKind::NoSpace,
                _ => ErrorKind::Io,
            };
            Error::new(kind, format!("cannot write {}: {error}", self.path.display()))
        })
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        // Gone already once committed.
        let _ = fs::remove_file(&self.temporary);
    }
}
