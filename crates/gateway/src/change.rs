//! What WebDAV's and S3's clients change besides putting files: directories made, things removed and moved.

use axum::http::StatusCode;
use axum::response::IntoResponse;
use rustix::io::Errno;
use tidegate_transfer::endpoint::access::{Access, Right};
use tidegate_transfer::error::{Error, ErrorKind};
use tidegate_transfer::store::edit::Child;
use tidegate_transfer::sys::fs::FileType;

use crate::conditions::{self, Conditions, Names};
use crate::refusal::{Answer, Refusal};

/// How often is looked anew at a name that others give and take away.
const MAX_TURNS: u32 = 16;

/// What `path` names, if the token allows `right` there. A link that bears the name is meant itself, and not what it leads
/// to.
fn child(access: &Access, path: &[u8], right: Right) -> Answer<Child> {
    let path = path.strip_suffix(b"/").unwrap_or(path);
    let scope = access.scope(path, right)?;
    if path == access.path() {
        return Err(Refusal::new(StatusCode::FORBIDDEN, "what the token opens stays where it is"));
    }
    Child::find(&scope, path).map_err(|error| match (error.kind, right) {
        (ErrorKind::NotFound, Right::Write) => {
            Refusal::new(StatusCode::CONFLICT, "there is no such directory: make it first")
        }
        _ => error.into(),
    })
}

/// Has its name be durable.
fn settle(child: &Child, path: &[u8]) -> Answer<()> {
    child.settle().map_err(|error| Error::io("make durable", path, error).into())
}

/// Makes a directory.
pub(crate) fn make_directory(access: &Access, path: &[u8]) -> Answer {
    let child = child(access, path, Right::Write)?;
    match child.make_directory() {
        Ok(()) => {
            settle(&child, path)?;
            Ok(StatusCode::CREATED.into_response())
        }
        Err(Errno::EXIST) => Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "something bears that name")),
        Err(error) => Err(Error::io("make", path, error).into()),
    }
}

/// Whether `path` leads to a directory, if the token allows `right` there.
pub(crate) fn is_directory(access: &Access, path: &[u8], right: Right) -> bool {
    let path = path.strip_suffix(b"/").unwrap_or(path);
    access.reach(path, right).is_ok_and(|there| there.base.dir(&there.rest).is_ok())
}

/// What may be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Removed {
    /// A file, or a directory with nothing in it.
    Any,
    /// As the path says: a directory has a slash at its end.
    AsNamed,
    /// A directory with nothing in it, or a link that leads to one.
    Directory,
}

/// Removes what is at `path`, if the conditions hold of it.
pub(crate) fn remove(
    access: &Access,
    path: &[u8],
    what: Removed,
    (names, conditions): (&Names, &Conditions),
) -> Answer {
    let child = child(access, path, Right::Delete)?;
    let leave = conditions.leave(names, access, path)?;
    let failed = |error| match error {
        Errno::NOTEMPTY | Errno::EXIST => {
            Refusal::new(StatusCode::CONFLICT, "the directory is not empty: remove what is in it first")
        }
        Errno::BUSY => Refusal::new(StatusCode::CONFLICT, "a file system is mounted there: it stays"),
        error => Refusal::from(Error::io("remove", path, error)),
    };
    let stat = child.stat().map_err(failed)?;
    if conditions.new {
        return Err(conditions::failed("something is there"));
    }
    let removed = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory if what == Removed::AsNamed && !path.ends_with(b"/") => {
            return Err(Refusal::new(StatusCode::NOT_FOUND, "that is a directory"));
        }
        FileType::Directory => child.remove_directory(),
        FileType::Symlink if what == Removed::Directory && is_directory(access, path, Right::Delete) => {
            child.remove()
        }
        _ if what == Removed::Directory => {
            return Err(Refusal::new(StatusCode::NOT_FOUND, "that is no directory"));
        }
        _ if path.ends_with(b"/") => return Err(Refusal::new(StatusCode::NOT_FOUND, "that is a file")),
        _ => child.remove(),
    };
    removed.map_err(failed)?;
    drop(leave);
    settle(&child, path)?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Moves what is at `from` to `to`, if the conditions hold of what is at `from`.
pub(crate) fn rename(
    access: &Access,
    from: &[u8],
    (to, overwrite): (&[u8], bool),
    (names, conditions): (&Names, &Conditions),
) -> Answer {
    let (source, target) = (child(access, from, Right::Delete)?, child(access, to, Right::Write)?);
    if from.strip_suffix(b"/").unwrap_or(from) == to.strip_suffix(b"/").unwrap_or(to) {
        return Err(Refusal::new(StatusCode::FORBIDDEN, "it is there: the destination is the source"));
    }
    let _leave = conditions.leave(names, access, from)?;
    if conditions.new {
        return Err(conditions::failed("something is there"));
    }
    if from.ends_with(b"/") && !is_directory(access, from, Right::Delete) {
        return Err(Refusal::new(StatusCode::NOT_FOUND, "that is a file, or not there"));
    }
    // What somebody else puts there meanwhile is looked at as what was there.
    for _ in 0..MAX_TURNS {
        if target.stat().is_err() {
            match source.rename_new(&target) {
                Err(Errno::EXIST) => continue,
                renamed => {
                    return renamed
                        .map(|()| StatusCode::CREATED.into_response())
                        .map_err(|error| not_moved(from, error));
                }
            }
        }
        if !overwrite {
            return Err(conditions::failed("something bears that name"));
        }
        // What it replaces is gone, as if it were removed.
        access.check(to.strip_suffix(b"/").unwrap_or(to), Right::Delete)?;
        let renamed = source.rename(&target).map_err(|error| not_moved(from, error));
        return renamed.map(|()| StatusCode::NO_CONTENT.into_response());
    }
    Err(Refusal::new(StatusCode::CONFLICT, "others put something there and take it away: try again"))
}

fn not_moved(from: &[u8], error: Errno) -> Refusal {
    match error {
        Errno::NOTEMPTY | Errno::EXIST | Errno::ISDIR | Errno::NOTDIR | Errno::INVAL => Refusal::new(
            StatusCode::CONFLICT,
            "a directory cannot be moved into itself, or replace what is in the way",
        ),
        Errno::XDEV => {
            Refusal::new(StatusCode::BAD_GATEWAY, "that is on another file system: put it there anew")
        }
        Errno::BUSY => Refusal::new(StatusCode::CONFLICT, "a file system is mounted there: it stays"),
        error => Error::io("move", from, error).into(),
    }
}
