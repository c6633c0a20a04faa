//! Changes what a peer named, one thing at a time: writes a small file, renames, removes, makes a directory. Links on the
//! way are followed as [`named`](super::named) allows; one that is named itself is what is renamed or removed.

use rustix::io::Errno;

use crate::error::{Error, ErrorKind, Result};
use crate::manifest::{Entry, Kind, Timestamp};
use crate::path::{RelPath, split};
use crate::store::Sink;
use crate::store::browse::{parent_of, shown};
use crate::store::file_sink::FileSink;
use crate::store::named::{Reached, Scope};
use crate::sys::confined::Root;
use crate::sys::fs::{AtFlags, Mode, fsync, mkdirat, renameat, unlinkat};
use crate::sys::{clock, random};
use crate::terms::Purpose;

/// What a file is allowed that is made here, as most programs make them.
const NEW_FILE: u32 = 0o644;

/// Writes `content` into an unfinished file beside the others', makes it durable, and gives it the name `path`.
pub fn write(scope: &Scope<'_>, path: &[u8], content: &[u8]) -> Result<()> {
    let Reached { base, rest, .. } = scope.reach(path)?;
    if rest.is_empty() || base.dir(&rest).is_ok() {
        return Err(Error::new(ErrorKind::Usage, format!("{} is a directory", shown(path))));
    }
    let id = *random::bytes().first_chunk().expect("long enough");
    let sink = FileSink::new((&base, &rest), true, &id, Purpose::Copy, &[])?;
    let entry = Entry {
        path: RelPath::new(split(&rest).1)?,
        kind: Kind::File { size: content.len() as u64, fingerprint: [0; 16] },
        mode: NEW_FILE,
        mtime: now(),
    };
    let written = write_entry(&sink, &entry, content);
    if written.is_err() {
        sink.discard(&entry);
    }
    sink.clean_up();
    written
}

fn write_entry(sink: &FileSink, entry: &Entry, content: &[u8]) -> Result<()> {
    let file = sink.open(entry, false)?;
    file.write_at(0, content)?;
    file.seal(entry)?;
    file.sync()?;
    sink.publish(entry)?;
    sink.sync_names().into_iter().next().map_or(Ok(()), |(_, error)| Err(error))
}

fn now() -> Timestamp {
    let since = clock::wall().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Timestamp { seconds: since.as_secs() as i64, nanoseconds: since.subsec_nanos() }
}

/// Gives what is called `from` the name `to`.
pub fn rename(scope: &Scope<'_>, from: &[u8], to: &[u8]) -> Result<()> {
    let failed = |error| Error::io("rename", from, error);
    let (old, old_name) = within(scope, from)?;
    let (new, new_name) = within(scope, to)?;
    renameat(&old, &old_name[..], &new, &new_name[..]).map_err(failed)?;
    durable(&new, to)?;
    durable(&old, from)
}

/// Removes the file or link `path`.
pub fn remove(scope: &Scope<'_>, path: &[u8]) -> Result<()> {
    let (parent, name) = within(scope, path)?;
    unlinkat(&parent, &name[..], AtFlags::empty()).map_err(|error| Error::io("remove", path, error))
}

/// Removes the empty directory `path`.
pub fn remove_directory(scope: &Scope<'_>, path: &[u8]) -> Result<()> {
    let (parent, name) = within(scope, path)?;
    unlinkat(&parent, &name[..], AtFlags::REMOVEDIR).map_err(|error| Error::io("remove", path, error))
}

/// Makes the directory `path`; with `parents` those above it too, and one that is there will do.
pub fn make_directory(scope: &Scope<'_>, path: &[u8], parents: bool) -> Result<()> {
    let failed = |error| Error::io("make the directory", path, error);
    if parents {
        let Reached { base, rest, .. } = scope.reach(path)?;
        return base.make_dir(&rest).map(drop).map_err(failed);
    }
    let (parent, name) = within(scope, path)?;
    mkdirat(&parent, &name[..], Mode::from_raw_mode(0o777)).map_err(failed)
}

fn within(scope: &Scope<'_>, path: &[u8]) -> Result<(Root, Vec<u8>)> {
    let itself = || Error::new(ErrorKind::Usage, "what is served is neither made, renamed nor removed");
    parent_of(scope, path)?.ok_or_else(itself)
}

/// Makes the names in `directory` durable, as far as the file system can.
fn durable(directory: &Root, path: &[u8]) -> Result<()> {
    match fsync(directory) {
        Ok(()) | Err(Errno::INVAL | Errno::NOTSUP) => Ok(()),
        Err(error) => Err(Error::io("make durable", path, error)),
    }
}
