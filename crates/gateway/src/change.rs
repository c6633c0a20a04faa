//! What WebDAV's and S3's clients change besides putting files: directories made, things removed and moved.

use axum::http::StatusCode;
use axum::response::IntoResponse;
use rustix::io::Errno;
use tidegate_transfer::endpoint::access::{Access, Right};
use tidegate_transfer::error::Error;
use tidegate_transfer::path::split;
use tidegate_transfer::sys::confined::Root;
use tidegate_transfer::sys::fs::{AtFlags, FileType, Mode, fsync, mkdirat, renameat, unlinkat};

use crate::refusal::{Answer, Refusal};

/// A name in a directory that is open.
struct Spot {
    directory: Root,
    name: Vec<u8>,
}

/// Where `path` stands, if the token allows `right` there. A link that bears the name is meant itself, and not what it leads
/// to.
fn spot(access: &Access, path: &[u8], right: Right) -> Answer<Spot> {
    let path = path.strip_suffix(b"/").unwrap_or(path);
    access.check(path, right)?;
    if path == access.path() {
        return Err(Refusal::new(StatusCode::FORBIDDEN, "what the token opens stays where it is"));
    }
    let (parent, name) = split(path);
    let reached = access.reach(parent, right)?;
    let directory = reached.base.dir(&reached.rest).map_err(|error| match (error, right) {
        (Errno::NOENT | Errno::NOTDIR, Right::Write) => {
            Refusal::new(StatusCode::CONFLICT, "there is no such directory: make it first")
        }
        (Errno::NOTDIR, _) => Error::io("open", path, Errno::NOENT).into(),
        (error, _) => Error::io("open", path, error).into(),
    })?;
    Ok(Spot { directory, name: name.to_vec() })
}

impl Spot {
    fn is_taken(&self) -> bool {
        self.directory.stat(&self.name).is_ok()
    }

    /// Names are durable once this is done.
    fn settle(&self) -> Answer<()> {
        match fsync(&self.directory) {
            Ok(()) | Err(Errno::INVAL | Errno::NOTSUP) => Ok(()),
            Err(error) => Err(Error::io("make durable", &self.name, error).into()),
        }
    }
}

/// Makes a directory.
pub fn make_directory(access: &Access, path: &[u8]) -> Answer {
    let spot = spot(access, path, Right::Write)?;
    match mkdirat(&spot.directory, &spot.name[..], Mode::from_raw_mode(0o777)) {
        Ok(()) => {
            spot.settle()?;
            Ok(StatusCode::CREATED.into_response())
        }
        Err(Errno::EXIST) => Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "something bears that name")),
        Err(error) => Err(Error::io("make", path, error).into()),
    }
}

/// What may be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removed {
    /// A file, or a directory with nothing in it.
    Any,
    /// As the path says: a directory has a slash at its end.
    AsNamed,
}

/// Removes what is at `path`.
pub fn remove(access: &Access, path: &[u8], what: Removed) -> Answer {
    let spot = spot(access, path, Right::Delete)?;
    let failed = |error| match error {
        Errno::NOTEMPTY | Errno::EXIST => {
            Refusal::new(StatusCode::CONFLICT, "the directory is not empty: remove what is in it first")
        }
        error => Refusal::from(Error::io("remove", path, error)),
    };
    let stat = spot.directory.stat(&spot.name).map_err(failed)?;
    let flags = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory if what == Removed::AsNamed && !path.ends_with(b"/") => {
            return Err(Refusal::new(StatusCode::NOT_FOUND, "that is a directory"));
        }
        FileType::Directory => AtFlags::REMOVEDIR,
        _ if path.ends_with(b"/") => return Err(Refusal::new(StatusCode::NOT_FOUND, "that is a file")),
        _ => AtFlags::empty(),
    };
    unlinkat(&spot.directory, &spot.name[..], flags).map_err(failed)?;
    spot.settle()?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Moves what is at `from` to `to`.
pub fn rename(access: &Access, from: &[u8], to: &[u8], overwrite: bool) -> Answer {
    let (source, target) = (spot(access, from, Right::Delete)?, spot(access, to, Right::Write)?);
    let replaces = target.is_taken();
    if replaces {
        if !overwrite {
            return Err(Refusal::new(StatusCode::PRECONDITION_FAILED, "something bears that name"));
        }
        // What it replaces is gone, as if it were removed.
        access.check(to.strip_suffix(b"/").unwrap_or(to), Right::Delete)?;
    }
    renameat(&source.directory, &source.name[..], &target.directory, &target.name[..]).map_err(|error| {
        match error {
            Errno::NOTEMPTY | Errno::EXIST | Errno::ISDIR | Errno::NOTDIR | Errno::INVAL => Refusal::new(
                StatusCode::CONFLICT,
                "a directory cannot be moved into itself, or replace what is in the way",
            ),
            Errno::XDEV => {
                Refusal::new(StatusCode::BAD_GATEWAY, "that is on another file system: put it there anew")
            }
            error => Error::io("move", split(from).1, error).into(),
        }
    })?;
    target.settle()?;
    source.settle()?;
    Ok(if replaces { StatusCode::NO_CONTENT } else { StatusCode::CREATED }.into_response())
}
