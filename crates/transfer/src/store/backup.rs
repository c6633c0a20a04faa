//! Where files are kept, with their paths, that would be deleted or replaced. They are renamed or linked, never copied.

use std::collections::HashMap;

use rustix::io::Errno;

use crate::error::{Error, ErrorKind, Result};
use crate::filter::Filter;
use crate::path::{RelPath, split};
use crate::selection::Deletion;
use crate::store::apart::Apart;
use crate::sys::confined::Root;
use crate::sys::durable::{Settled, sync_directory};
use crate::sys::fs::{FileType, fstat};
use crate::sys::sync::Mutex;
use crate::text::show;

/// A directory that is made once something is moved there.
#[derive(Debug)]
pub(crate) struct Backup {
    root: Root,
    path: Vec<u8>,
    typed: Vec<u8>,
    written: Mutex<Written>,
}

/// Directories here that got names which are not durable.
#[derive(Debug, Default)]
struct Written {
    directories: HashMap<Vec<u8>, Root>,
    settled: Settled,
}

/// Most of them at a time.
const MAX_WRITTEN: usize = 64;

impl Backup {
    /// What `typed` means beneath `root` for the destination `path` beneath `base`, which is called `destination` beneath
    /// `root`. Nothing is made.
    ///
    /// # Errors
    /// It leads out of the root, is on another file system, lies in the mirror, which it may only if the rules of
    /// `deletion` exclude it, or cannot be kept `apart` from the source and the destination.
    pub fn open(
        root: &Root,
        typed: &[u8],
        base: &Root,
        path: &[u8],
        apart: &Apart,
        destination: &[u8],
        deletion: Option<&Deletion>,
    ) -> Result<Self> {
        let failed = |error| Error::io("use the backup directory", typed, error);
        let filter = deletion.map(Deletion::filter).transpose()?.unwrap_or_default();
        let nearest = |root: &Root, path: &[u8]| {
            let mut existing = path;
            loop {
                match root.dir(existing) {
                    Err(Errno::NOENT) if !existing.is_empty() => existing = split(existing).0,
                    found => break found.map(|found| (found, existing.len() == path.len())).map_err(failed),
                }
            }
        };
        let (base, base_exists) = nearest(base, path)?;
        let (path, inside) = place(typed, destination, &filter)?;
        RelPath::new(&path[..])?;
        let (there, exists) = nearest(root, &path)?;
        let device = |dir: &Root| fstat(dir).map(|stat| stat.st_dev).map_err(failed);
        if device(&there)? != device(&base)? {
            return Err(elsewhere(typed));
        }
        apart.backup(typed, &there, exists, &base, base_exists, inside)?;
        let written = Mutex::default();
        Ok(Self { root: root.dir(b"").map_err(failed)?, path, typed: typed.to_vec(), written })
    }

    /// Its path beneath the root.
    pub fn path(&self) -> &[u8] {
        &self.path
    }

    /// Moves what is called by the last name of `path` in `directory` here, where it keeps all of `path`; whether there was
    /// anything.
    pub fn take(&self, directory: &Root, path: &[u8]) -> Result<bool> {
        let name = split(path).1;
        let there = self.beside(path)?;
        match directory.rename(name, &there, name) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(self.failed(path, error)),
        }
    }

    /// Keeps what is called so here as well, by a link: it is to be replaced, and has its name until then.
    pub fn keep(&self, directory: &Root, path: &[u8]) -> Result<()> {
        let name = split(path).1;
        match directory.stat(name) {
            Err(Errno::NOENT) => return Ok(()),
            Err(error) => return Err(self.failed(path, error)),
            // It is not replaced.
            Ok(there) if FileType::from_raw_mode(there.st_mode) == FileType::Directory => return Ok(()),
            Ok(_) => {}
        }
        let there = self.beside(path)?;
        let link = || directory.link(name, &there, name);
        let linked = match link() {
            Err(Errno::EXIST) => there.remove(name).and_then(|()| link()),
            linked => linked,
        };
        match linked {
            // A file system without links.
            Err(Errno::PERM | Errno::NOTSUP | Errno::MLINK) => self.take(directory, path).map(drop),
            linked => linked.map_err(|error| self.failed(path, error)),
        }
    }

    /// The directory here that takes the last name of `path`.
    fn beside(&self, path: &[u8]) -> Result<Root> {
        let parent = split(path).0;
        let kept = if parent.is_empty() { self.path.clone() } else { [&self.path[..], parent].join(&b'/') };
        let make = || {
            let made = self.root.make_dir(&kept)?;
            let mut written = self.written.lock();
            if written.directories.len() >= MAX_WRITTEN && !written.directories.contains_key(&kept) {
                written.settle(&self.root)?;
            }
            let again = made.dir(b"")?;
            written.directories.insert(kept, again);
            Ok(made)
        };
        make().map_err(|error| self.failed(path, error))
    }

    /// Makes what was taken in so far durable.
    pub fn settle(&self) -> Result<()> {
        let settled = self.written.lock().settle(&self.root);
        settled.map_err(|error| Error::io("make durable", &self.typed, error))
    }

    fn failed(&self, path: &[u8], error: Errno) -> Error {
        match error {
            Errno::XDEV => elsewhere(&self.typed),
            error => Error::io("keep in the backup directory", path, error),
        }
    }
}

impl Written {
    fn settle(&mut self, root: &Root) -> Result<(), Errno> {
        for (path, directory) in std::mem::take(&mut self.directories) {
            sync_directory(&directory)?;
            self.settled.settle(root, &path)?;
        }
        Ok(())
    }
}

/// The path beneath the root that `typed` means for a destination whose directory is `destination` there, and whether it
/// leads through that.
fn place(typed: &[u8], destination: &[u8], filter: &Filter) -> Result<(Vec<u8>, bool)> {
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
    let mirror: Vec<&[u8]> =
        destination.split(|&byte| byte == b'/').filter(|name| !name.is_empty()).collect();
    let Some(inner) = names.strip_prefix(&mirror[..]) else { return Ok((path, false)) };
    if inner.is_empty() {
        return refuse("is the destination itself");
    }
    if filter.takes_all_of(&inner.join(&b'/'), true) {
        return refuse("lies in the destination and is not excluded from the copy");
    }
    Ok((path, true))
}

fn elsewhere(path: &[u8]) -> Error {
    let why = format!(
        "the backup directory {} is on another file system, and files are moved there by renaming: name another one",
        show(path)
    );
    Error::new(ErrorKind::Usage, why)
}
