//! Files that are written whole or not at all: a reader finds what was there before, or all that is new.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Result, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::durable::settle_name;
use super::fs::private_directory;

/// Files begun by this process so far.
static BEGUN: AtomicU64 = AtomicU64::new(0);

/// A file that is written beside the name it is to have. Where it does not get that, nothing of it stays.
#[derive(Debug)]
pub struct WholeFile {
    path: PathBuf,
    beside: PathBuf,
    file: File,
}

impl WholeFile {
    /// Begins the file that is to be `path`, which is made with these permission bits.
    pub fn begin(path: &Path, mode: u32) -> Result<Self> {
        let name = path.file_name().filter(|_| !path.is_dir()).ok_or(ErrorKind::IsADirectory)?;
        // Neither another process nor another thread of this one writes to the same.
        let (process, begun) = (std::process::id(), BEGUN.fetch_add(1, Relaxed));
        let mut beside = std::ffi::OsString::from(".");
        beside.push(name);
        beside.push(format!(".{process}-{begun}.new"));
        let beside = path.with_file_name(beside);
        // Left over by a process that had our number.
        let _ = std::fs::remove_file(&beside);
        let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&beside)?;
        Ok(Self { path: path.to_path_buf(), beside, file })
    }

    /// Makes it durable and gives it its name, in place of what bore that.
    pub fn commit(self) -> Result<()> {
        self.file.sync_all()?;
        std::fs::rename(&self.beside, &self.path)?;
        settle_name(&self.path)
    }

    /// The same, unless something bears the name: then it answers `false`.
    pub fn commit_new(self) -> Result<bool> {
        self.file.sync_all()?;
        match std::fs::hard_link(&self.beside, &self.path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            linked => linked.and_then(|()| settle_name(&self.path)).map(|()| true),
        }
    }

    /// Gives it its name for those who read it while this host runs: nobody needs it after a crash.
    pub fn show(self) -> Result<()> {
        std::fs::rename(&self.beside, &self.path)
    }
}

impl Write for WholeFile {
    fn write(&mut self, data: &[u8]) -> Result<usize> {
        self.file.write(data)
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        // Gone already once it has its name.
        let _ = std::fs::remove_file(&self.beside);
    }
}

/// Writes a file that is made with these permission bits.
pub fn write_whole(path: &Path, mode: u32, content: &[u8]) -> Result<()> {
    let mut file = WholeFile::begin(path, mode)?;
    file.write_all(content)?;
    file.commit()
}

/// Writes a file that only its owner may read, in a directory that is made if need be.
pub fn write_private(path: &Path, content: &[u8]) -> Result<()> {
    if let Some(directory) = path.parent() {
        private_directory(directory)?;
    }
    write_whole(path, 0o600, content)
}

#[cfg(test)]
mod tests {
    use std::fs::{read, read_dir};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_is_there_whole_or_as_it_was_and_nothing_is_left_beside_it() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("made/file");
        let names = || read_dir(path.parent().expect("above")).expect("listed").count();
        write_private(&path, b"one").expect("written");
        let mode = path.metadata().expect("there").permissions().mode() & 0o777;
        assert_eq!((read(&path).expect("there"), mode, names()), (b"one".to_vec(), 0o600, 1));
        let begin = |content: &[u8]| {
            let mut file = WholeFile::begin(&path, 0o600).expect("begun");
            file.write_all(content).expect("written");
            file
        };
        drop(begin(b"two"));
        assert!(!begin(b"three").commit_new().expect("looked"));
        assert_eq!((read(&path).expect("there"), names()), (b"one".to_vec(), 1));
        let (first, second) = (begin(b"four"), begin(b"five"));
        second.show().expect("named");
        assert_eq!(read(&path).expect("there"), b"five");
        first.commit().expect("named");
        assert_eq!((read(&path).expect("there"), names()), (b"four".to_vec(), 1));
        std::fs::remove_file(&path).expect("removed");
        assert!(begin(b"six").commit_new().expect("named"));
        assert_eq!((read(&path).expect("there"), names()), (b"six".to_vec(), 1));
        assert_eq!(
            WholeFile::begin(directory.path(), 0o600).expect_err("one").kind(),
            ErrorKind::IsADirectory
        );
    }
}
