//! Changes what a peer named, one thing at a time: writes a small file, renames, removes, makes a directory. Links on the
//! way are followed as [`named`](super::named) allows; one that is named itself is what is renamed or removed.

use rustix::io::Errno;

use crate::error::{Error, ErrorKind, Result};
use crate::manifest::{Entry, Kind, Timestamp};
use crate::path::{RelPath, split};
use crate::store::Sink;
use crate::store::apart::Apart;
use crate::store::browse::{parent_of, shown};
use crate::store::file_sink::FileSink;
use crate::store::named::{Reached, Scope};
use crate::store::naming::{Replaced, finish};
use crate::sys::confined::Root;
use crate::sys::durable::{Settled, settle_above, sync_directory};
use crate::sys::fs::{Mode, Stat};
use crate::sys::{clock, random};
use crate::terms::Purpose;

/// What a file is allowed that is made here, as most programs make them.
const NEW_FILE: u32 = 0o644;

/// Writes `content` into an unfinished file beside the others', makes it durable, and gives it the name `path`.
pub(crate) fn write(scope: &Scope<'_>, path: &[u8], content: &[u8], replaced: Replaced) -> Result<()> {
    let Reached { base, rest, .. } = scope.reach(path)?;
    if replaced == Replaced::Nothing {
        let parent = base.dir(split(&rest).0);
        if rest.is_empty() || parent.is_ok_and(|parent| parent.stat(split(&rest).1).is_ok()) {
            return Err(exists(path));
        }
    }
    if rest.is_empty() || base.dir(&rest).is_ok() {
        return Err(Error::new(ErrorKind::Usage, format!("{} is a directory", shown(path))));
    }
    let id = *random::bytes().first_chunk().expect("long enough");
    let sink = FileSink::new((&base, &rest), true, &id, Purpose::Copy, Apart::default())?;
    let entry = Entry::new(
        RelPath::new(split(&rest).1)?,
        Kind::File { size: content.len() as u64, fingerprint: [0; 16] },
        NEW_FILE,
        now(),
    );
    let written = sink.open(&entry, false).and_then(|file| {
        file.write_at(0, content)?;
        match finish(&sink, &*file, &entry, replaced, || Ok::<_, Error>(()))? {
            true => Ok(()),
            false => Err(exists(path)),
        }
    });
    if written.is_err() {
        sink.discard(&entry);
    }
    sink.clean_up();
    written
}

fn exists(path: &[u8]) -> Error {
    Error::new(ErrorKind::Changed, format!("{} is there already", shown(path)))
}

fn now() -> Timestamp {
    let since = clock::wall().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Timestamp { seconds: since.as_secs() as i64, nanoseconds: since.subsec_nanos() }
}

/// A name in a directory that is open: of a link its own, wherever that leads.
#[derive(Debug)]
pub struct Child {
    directory: Root,
    name: Vec<u8>,
}

impl Child {
    /// What `path` names; not what is served itself.
    pub fn find(scope: &Scope<'_>, path: &[u8]) -> Result<Self> {
        let itself = || Error::new(ErrorKind::Usage, "what is served is neither made, renamed nor removed");
        let (directory, name) = parent_of(scope, path)?.ok_or_else(itself)?;
        Ok(Self { directory, name })
    }

    /// What bears the name.
    pub fn stat(&self) -> Result<Stat, Errno> {
        self.directory.stat(&self.name)
    }

    /// Makes a directory of that name.
    pub fn make_directory(&self) -> Result<(), Errno> {
        self.directory.make(&self.name, Mode::from_raw_mode(0o777))
    }

    /// Removes the file, or the link, of that name.
    pub fn remove(&self) -> Result<(), Errno> {
        self.directory.remove(&self.name)
    }

    /// Removes the directory of that name, in which nothing is.
    pub fn remove_directory(&self) -> Result<(), Errno> {
        self.directory.remove_dir(&self.name)
    }

    /// Gives what bears the name that of `to`; both are durable once this is done.
    pub fn rename(&self, to: &Self) -> Result<(), Errno> {
        self.directory.rename(&self.name, &to.directory, &to.name)?;
        to.settle()?;
        self.settle()
    }

    /// The same, unless something bears the name of `to`: then it fails with `EXIST`.
    pub fn rename_new(&self, to: &Self) -> Result<(), Errno> {
        self.directory.rename_new(&self.name, &to.directory, &to.name)?;
        to.settle()?;
        self.settle()
    }

    /// Makes the names in its directory durable, and those of the directories on the way there.
    pub fn settle(&self) -> Result<(), Errno> {
        sync_directory(&self.directory)?;
        settle_above(&self.directory)
    }
}

/// Gives what is called `from` the name `to`.
pub(crate) fn rename(scope: &Scope<'_>, from: &[u8], to: &[u8]) -> Result<()> {
    let (old, new) = (Child::find(scope, from)?, Child::find(scope, to)?);
    old.rename(&new).map_err(|error| Error::io("rename", from, error))
}

/// Removes the file or link `path`.
pub(crate) fn remove(scope: &Scope<'_>, path: &[u8]) -> Result<()> {
    Child::find(scope, path)?.remove().map_err(|error| Error::io("remove", path, error))
}

/// Removes the empty directory `path`.
pub(crate) fn remove_directory(scope: &Scope<'_>, path: &[u8]) -> Result<()> {
    Child::find(scope, path)?.remove_directory().map_err(|error| Error::io("remove", path, error))
}

/// Makes the directory `path`; with `parents` those above it too, and one that is there will do.
pub(crate) fn make_directory(scope: &Scope<'_>, path: &[u8], parents: bool) -> Result<()> {
    let failed = |error| Error::io("make the directory", path, error);
    if parents {
        let Reached { base, rest, .. } = scope.reach(path)?;
        let settle = |_| Settled::default().settle(&base, &rest);
        return base.make_dir(&rest).and_then(settle).map_err(failed);
    }
    let child = Child::find(scope, path)?;
    child.make_directory().and_then(|()| child.settle()).map_err(|error| match error {
        Errno::EXIST => exists(path),
        error => failed(error),
    })
}
