//! A file that is either written whole or not there: a reader never finds half of it.

use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use tidegate_transfer::error::{Error, usage};
use tidegate_transfer::sys::whole_file;

/// What they are made with, as programs make files.
const MODE: u32 = 0o666;

/// A file to be written at the end. What stood there before stays until then.
pub struct WholeFile(whole_file::WholeFile, PathBuf);

impl WholeFile {
    /// Makes sure now that `path` can be written later.
    pub fn begin(path: &Path) -> Result<Self, Error> {
        let begun = whole_file::WholeFile::begin(path, MODE);
        let begun = begun.map_err(|error| usage(format!("cannot write {}: {error}", path.display())))?;
        Ok(Self(begun, path.to_path_buf()))
    }

    /// Puts `content` there in one step.
    pub fn commit(mut self, content: impl AsRef<[u8]>) -> Result<(), Error> {
        let written = self.0.write_all(content.as_ref()).and_then(|()| self.0.commit());
        written.map_err(|error| Error::io("write", self.1.as_os_str().as_bytes(), error))
    }
}
