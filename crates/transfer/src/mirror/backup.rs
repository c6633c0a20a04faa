//! Where files are moved that would be deleted, with their paths kept. They are renamed, never copied.

use rustix::io::Errno;

use crate::error::{Error, ErrorKind, Result};
use crate::path::{RelPath, split};
use crate::selection::Deletion;
use crate::sys::confined::Root;
use crate::sys::fs::{fstat, renameat};
use crate::text::show;

/// A directory that is made once something is moved there.
#[derive(Debug)]
pub struct Backup {
    root: Root,
    path: Vec<u8>,
}

impl Backup {
    /// The path beneath the root that `typed` means for a destination whose directory is `destination` beneath it.
    ///
    /// # Errors
    /// It leads out of the root, or lies in the mirror, which it may only if the rules of `deletion` exclude it.
    pub fn place(typed: &[u8], destination: &[u8], deletion: &Deletion) -> Result<Vec<u8>> {
        let refuse = |why: &str| {
            let why = format!("the backup directory {} {why}: name another one", show(typed));
            Err(Error::new(ErrorKind::Usage, why))
        };
        let start = if typed.starts_with(b"/") { &b""[..] } else { destination };
        let mut names: Vec<&[u8]> = Vec::new();
        for name in start.split(|&byte| byte == b'/').chain(typed.split(|&byte| byte == b'/')) {
            match name {
                b"" | b"." => {}
                b".." if names.pop().is_none() => return refuse("leads out of what is served"),
                b".." => {}
                name => names.push(name),
            }
        }
        let path = names.join(&b'/');
        let destination = destination.strip_suffix(b"/").unwrap_or(destination);
        let inner = match destination.is_empty() {
            true => Some(&path[..]),
            false if path == destination => Some(&b""[..]),
            false => path.strip_prefix(destination).and_then(|rest| rest.strip_prefix(b"/")),
        };
        let Some(inner) = inner else { return Ok(path) };
        if inner.is_empty() {
            return refuse("is the destination itself");
        }
        if deletion.filter()?.takes_all_of(inner, true) {
            return refuse("lies in the destination and is not excluded from the copy");
        }
        Ok(path)
    }

    /// The directory `path` beneath `root`, which must be on the file system of `destination`.
    pub fn open((root, path): (&Root, Vec<u8>), destination: &Root) -> Result<Self> {
        let failed = |error| Error::io("use the backup directory", &path, error);
        RelPath::new(&path[..])?;
        let mut existing = &path[..];
        let there = loop {
            match root.dir(existing) {
                Err(Errno::NOENT) if !existing.is_empty() => existing = split(existing).0,
                found => break found.map_err(failed)?,
            }
        };
        let device = |dir: &Root| fstat(dir).map(|stat| stat.st_dev).map_err(failed);
        if device(&there)? != device(destination)? {
            return Err(elsewhere(&path));
        }
        let root = root.dir(b"").map_err(failed)?;
        Ok(Self { root, path })
    }

    /// Moves what is called by the last name of `path` in `directory` here, where it keeps all of `path`.
    pub(super) fn keep(&self, directory: &Root, path: &[u8]) -> Result<bool> {
        let (parent, name) = split(path);
        let kept = if parent.is_empty() { self.path.clone() } else { [&self.path[..], parent].join(&b'/') };
        let failed = |error| match error {
            Errno::XDEV => elsewhere(&self.path),
            error => Error::io("move to the backup directory", path, error),
        };
        let there = self.root.make_dir(&kept).map_err(failed)?;
        match renameat(directory, name, &there, name) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(failed(error)),
        }
    }
}

fn elsewhere(path: &[u8]) -> Error {
    let why = format!(
        "the backup directory {} is on another file system, and files are moved there by renaming: name another one",
        show(path)
    );
    Error::new(ErrorKind::Usage, why)
}
