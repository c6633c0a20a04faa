//! Looks at what a peer named: one file, what lies in a directory, ranges of a file. Links are followed as
//! [`named`](super::named) allows; a directory is told of as it is read, and never held as a whole.

use std::borrow::Cow;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::io::Errno;

use crate::error::{Error, ErrorKind, Result};
use crate::hash::Digest;
use crate::manifest::{Fingerprint, Timestamp};
use crate::path::{RelPath, inside, is_reserved, join, split};
use crate::quota::{Quota, remember};
use crate::store::file_sink::digest_of;
use crate::store::named::{Reached, Scope};
use crate::sys::confined::Root;
use crate::sys::fs::{Dir, FileType, Mode, OFlags, Stat, fstat, read_at};
use crate::sys::identity::fingerprint;
use crate::text::show;
use crate::wire::files::{FileKind, FileRange, FileStatus, ListedFile};

/// What is told of a directory: a file, or a directory in it that cannot be listed.
pub(crate) type Told = Result<ListedFile, (RelPath, Error)>;

/// The directory that `path` lies in, and its name there: of a link its own, wherever that leads. `None` for the root.
pub(super) fn parent_of(scope: &Scope<'_>, path: &[u8]) -> Result<Option<(Root, Vec<u8>)>> {
    let (parent, name) = split(path);
    if name.is_empty() {
        return Ok(None);
    }
    let Reached { base, rest, .. } = scope.reach(parent)?;
    let parent = base.dir(&rest).map_err(|error| missing("find", path, error))?;
    Ok(Some((parent, name.to_vec())))
}

/// What is at `path`.
pub(crate) fn stat(scope: &Scope<'_>, path: &[u8]) -> Result<FileStatus> {
    let failed = |error| missing("find", path, error);
    let itself = || {
        let (parent, name) = parent_of(scope, path).ok()??;
        let target = parent.read_link(&name).ok()?;
        Some((parent.stat(&name).ok()?, target))
    };
    match scope.reach(path) {
        Ok(reached) => {
            let link = if reached.by_link { itself().map(|(_, target)| target) } else { None };
            Ok(status(&look(&reached).map_err(failed)?, link))
        }
        // A link that is not followed is told of as what it is.
        Err(error) => itself().map(|(stat, target)| status(&stat, Some(target))).ok_or(error),
    }
}

fn look(Reached { base, rest, .. }: &Reached) -> Result<Stat, Errno> {
    let (parent, name) = split(rest);
    if name.is_empty() { fstat(base) } else { base.dir(parent)?.stat(name) }
}

/// Tells of all that lies in the directory `path`, and in its directories if `recursive`, until `told` answers `false`.
/// Directories that wait for their turn count in `metadata`.
pub fn list(
    scope: &Scope<'_>,
    path: &[u8],
    recursive: bool,
    metadata: &Arc<Quota>,
    told: &mut dyn FnMut(Told) -> bool,
) -> Result<()> {
    let failed = |error| missing("list", path, error);
    let Reached { base, rest, .. } = scope.reach(path)?;
    let top = base.dir(&rest).map_err(failed)?;
    let mut held = remember(metadata, 0)?;
    let mut waiting = vec![Vec::new()];
    while let Some(inner) = waiting.pop() {
        let opened = top.dir(&inner).and_then(|dir| Ok((Dir::read_from(&dir)?, dir)));
        let (entries, dir) = match opened {
            Ok(opened) => opened,
            Err(error) if inner.is_empty() => return Err(failed(error)),
            // Gone since it was told of.
            Err(Errno::NOENT) => continue,
            Err(error) => {
                let why = Error::io("list", &inside(path, &inner), error);
                if !told(Err((RelPath::new(inner)?, why))) {
                    return Ok(());
                }
                continue;
            }
        };
        for entry in entries {
            let entry = entry.map_err(|error| Error::io("list", &inside(path, &inner), error))?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") || is_reserved(name) {
                continue;
            }
            let place = join(&inner, name)?;
            let stat = match dir.stat(name) {
                Ok(stat) => stat,
                Err(Errno::NOENT) => continue,
                Err(error) => {
                    let why = Error::io("find", &inside(path, place.as_bytes()), error);
                    match told(Err((place, why))) {
                        true => continue,
                        false => return Ok(()),
                    }
                }
            };
            let status = match FileType::from_raw_mode(stat.st_mode) {
                FileType::Symlink => followed(scope, &inside(path, place.as_bytes()), (&dir, name), &stat),
                _ => status(&stat, None),
            };
            if recursive && status.kind == FileKind::Directory && status.link.is_none() {
                if !held.resize(held.amount() + place.as_bytes().len() + size_of::<Vec<u8>>()) {
                    return Err(crate::quota::too_much_to_remember(metadata));
                }
                waiting.push(place.as_bytes().to_vec());
            }
            if !told(Ok(ListedFile { path: place, status })) {
                return Ok(());
            }
        }
        if waiting.is_empty() {
            held.resize(0);
        }
    }
    Ok(())
}

/// What the link `name` in `dir` leads to, or it itself where that is not followed.
fn followed(scope: &Scope<'_>, path: &[u8], (dir, name): (&Root, &[u8]), stat: &Stat) -> FileStatus {
    let target = dir.read_link(name).unwrap_or_default();
    let led = scope.reach(path).ok().and_then(|reached| look(&reached).ok());
    status(led.as_ref().unwrap_or(stat), Some(target))
}

fn status(stat: &Stat, link: Option<Vec<u8>>) -> FileStatus {
    FileStatus {
        kind: match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => FileKind::File,
            FileType::Directory => FileKind::Directory,
            FileType::Symlink => FileKind::Link,
            _ => FileKind::Other,
        },
        size: u64::try_from(stat.st_size).unwrap_or_default(),
        mode: stat.st_mode & 0o777,
        mtime: Timestamp { seconds: stat.st_mtime, nanoseconds: stat.st_mtime_nsec as u32 },
        version: fingerprint(stat),
        link,
    }
}

/// What a path leads to, opened for reading.
#[derive(Debug)]
pub enum OpenPath {
    /// A directory.
    Directory(Root),
    /// A regular file.
    File(OpenFile),
}

/// Opens what is at `path`, if that is a file or a directory.
pub fn open(scope: &Scope<'_>, path: &[u8]) -> Result<OpenPath> {
    let failed = |error| missing("read", path, error);
    let other =
        || Error::new(ErrorKind::Denied, format!("{} is neither a file nor a directory", shown(path)));
    let reached = scope.reach(path)?;
    // Looked at first: opening a device may do something, and a pipe waits for its other end.
    match FileType::from_raw_mode(look(&reached).map_err(failed)?.st_mode) {
        FileType::Directory => Ok(OpenPath::Directory(reached.base.dir(&reached.rest).map_err(failed)?)),
        FileType::RegularFile => {
            let flags = OFlags::RDONLY | OFlags::NONBLOCK;
            let file = reached.base.open_beneath(&reached.rest, flags, Mode::empty()).map_err(failed)?;
            let is_file = FileType::from_raw_mode(fstat(&file).map_err(failed)?.st_mode).is_file();
            let file = OpenFile { file, path: path.to_vec(), version: None };
            if is_file { Ok(OpenPath::File(file)) } else { Err(other()) }
        }
        _ => Err(other()),
    }
}

/// A regular file that is open for reading.
#[derive(Debug)]
pub struct OpenFile {
    file: OwnedFd,
    path: Vec<u8>,
    version: Option<Fingerprint>,
}

impl OpenFile {
    /// Opens the file `path`, which must be the `version` if that is said.
    pub fn open(scope: &Scope<'_>, path: &[u8], version: Option<Fingerprint>) -> Result<Self> {
        let OpenPath::File(file) = open(scope, path)? else {
            return Err(Error::new(ErrorKind::Usage, format!("{} is a directory", shown(path))));
        };
        let opened = Self { version, ..file };
        opened.check()?;
        Ok(opened)
    }

    /// The same, which fails once it is another version than it is now, and what it is now.
    pub fn pinned(self) -> Result<(Self, Stat)> {
        let stat = self.stat()?;
        Ok((Self { version: Some(fingerprint(&stat)), ..self }, stat))
    }

    /// What it is by now.
    pub fn stat(&self) -> Result<Stat> {
        fstat(&self.file).map_err(|error| Error::io("read", &self.path, error))
    }

    /// What lies in `range`, as far as the file goes.
    pub fn read(&self, range: FileRange) -> Result<Vec<u8>> {
        let failed = |error| Error::io("read", &self.path, error);
        let size = u64::try_from(self.stat()?.st_size).unwrap_or_default();
        let length = size.saturating_sub(range.offset).min(range.length.into());
        let mut content = vec![0; length as usize];
        let read = read_at(&self.file, &mut content, range.offset).map_err(failed)?;
        content.truncate(read);
        self.check()?;
        Ok(content)
    }

    /// What all of it hashes to; fails once `over`.
    pub fn digest(&self, over: &dyn Fn() -> bool) -> Result<Digest> {
        let failed = |error| Error::io("read", &self.path, error);
        let before = self.stat()?;
        let size = u64::try_from(before.st_size).unwrap_or_default();
        let digest = digest_of(&self.file, size, over).map_err(failed)?;
        let digest = digest.ok_or_else(|| Error::new(ErrorKind::Interrupted, "stopped"))?;
        self.check()?;
        match fingerprint(&self.stat()?) == fingerprint(&before) {
            true => Ok(digest),
            false => Err(self.changed()),
        }
    }

    /// Fails unless it still is the version that was asked for.
    fn check(&self) -> Result<()> {
        let now = fingerprint(&self.stat()?);
        match self.version.is_none_or(|version| version == now) {
            true => Ok(()),
            false => Err(self.changed()),
        }
    }

    fn changed(&self) -> Error {
        let why = format!("{} has changed since it was opened: open it again", show(&self.path));
        Error::new(ErrorKind::Changed, why)
    }
}

/// An error about a path that is to be there. What lies beneath a file is not there either.
fn missing(action: &str, path: &[u8], error: Errno) -> Error {
    let path = if path.is_empty() { b"/" } else { path };
    match error {
        Errno::NOTDIR if action != "list" => Error::io(action, path, Errno::NOENT),
        error => Error::io(action, path, error),
    }
}

/// A path for people.
pub(super) fn shown(path: &[u8]) -> Cow<'_, str> {
    if path.is_empty() { "/".into() } else { show(path) }
}
