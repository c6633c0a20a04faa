//! Marks in directories, by which somebody who reaches one by way of several endpoints sees whether all lead to the same: an
//! empty directory among those of unfinished transfers. It is told of in no list, and removed with what is abandoned if
//! nobody else does it.

use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::path::WORK_DIR;
use crate::spec::TransferId;
use crate::store::named::{Reached, Scope};
use crate::store::work_dir::WorkDir;
use crate::sys::confined::Root;

/// Leaves `mark` in the directory `path`.
pub fn put(scope: &Scope<'_>, path: &[u8], mark: &TransferId) -> Result<()> {
    WorkDir::make(&directory(scope, path)?, mark).map(drop)
}

/// Fails unless `mark` is in the directory `path`.
pub fn find(scope: &Scope<'_>, path: &[u8], mark: &TransferId) -> Result<()> {
    // Whoever made it may be another user, who lets nobody look into it.
    let found = directory(scope, path)?.dir(WORK_DIR).and_then(|all| all.stat(name(mark).as_bytes()));
    found.map(drop).map_err(|error| failed("find", path, mark, error))
}

/// Removes `mark` from the directory `path`.
pub(crate) fn remove(scope: &Scope<'_>, path: &[u8], mark: &TransferId) -> Result<()> {
    let base = directory(scope, path)?;
    let all = base.dir(WORK_DIR).map_err(|error| failed("remove", path, mark, error))?;
    // What a transfer left has something in it, and stays.
    all.remove_dir(name(mark).as_bytes()).map_err(|error| failed("remove", path, mark, error))?;
    // Fails, rightly, while others are in it.
    let _ = base.remove_dir(WORK_DIR);
    Ok(())
}

fn directory(scope: &Scope<'_>, path: &[u8]) -> Result<Root> {
    let Reached { base, rest, .. } = scope.reach(path)?;
    base.dir(&rest).map_err(|error| Error::io("use the directory", path, error))
}

fn name(mark: &TransferId) -> String {
    data_encoding::HEXLOWER.encode(mark)
}

fn failed(what: &str, path: &[u8], mark: &TransferId, error: Errno) -> Error {
    let name = name(mark);
    let names = [path, WORK_DIR, name.as_bytes()];
    Error::io(what, &names.into_iter().filter(|name| !name.is_empty()).collect::<Vec<_>>().join(&b'/'), error)
}
