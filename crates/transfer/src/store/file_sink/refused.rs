//! Why something cannot get its name at a destination.

use rustix::io::Errno;

use crate::error::{Error, ErrorKind};
use crate::path::RelPath;
use crate::text::show;

/// How a directory of the destination is refused that is a source, or lies in one: what lies beneath another never
/// leads to another file system, as far as the kernel says.
pub(super) const IN_SOURCE: Errno = Errno::XDEV;

/// Why nothing is put in the place of `path`.
pub(super) fn special(path: &[u8]) -> Error {
    let why =
        format!("will not replace {}: it is a device, a pipe or a socket; name another place", show(path));
    Error::new(ErrorKind::Denied, why)
}

/// Nothing fits any more, which came out by `error`.
pub(crate) fn no_room(error: &Error) -> Error {
    error.clone().in_words(format!("{error}; free some space and run the same command again"))
}

/// Nothing can be put into `path`. What is missing is made, so that something is not there says that nothing can be.
pub(super) fn unusable(path: &[u8], error: Error) -> Error {
    let kind = if error.kind == ErrorKind::NotFound { ErrorKind::Denied } else { error.kind };
    let error = Error { kind, ..error }.within(format_args!("cannot use the destination {}", show(path)));
    match kind {
        ErrorKind::NoSpace => no_room(&error),
        _ => error,
    }
}

/// Nothing is to be replaced, and something bears the name that did not when it was looked at.
pub(super) fn there_by_now(place: &RelPath) -> Error {
    let place = show(place.as_bytes()).into_owned();
    Error::new(ErrorKind::Changed, format!("{place} is there by now, and stays as it is"))
}

/// What bears the name of `place` cannot be replaced.
pub(super) fn taken(error: Errno, place: &RelPath, otherwise: impl Fn(Errno) -> Error) -> Error {
    match error {
        Errno::ISDIR | Errno::NOTEMPTY | Errno::EXIST => is_a_directory(place),
        error => otherwise(error),
    }
}

/// `place` is in a directory that cannot be entered.
pub(super) fn unreached(what: &str, place: &RelPath, error: Errno) -> Error {
    match error {
        IN_SOURCE => in_source(place),
        Errno::LOOP => beyond_a_link(what, place),
        error => Error::io(what, place.as_bytes(), error),
    }
}

/// Beneath a destination no link is followed.
fn beyond_a_link(what: &str, place: &RelPath) -> Error {
    let why = format!(
        "cannot {what} {place}: a link is there or on the way, and none is followed beneath a destination"
    );
    Error::new(ErrorKind::UnsafeName, why)
}

/// Nothing is written to a source.
pub(super) fn in_source(place: &RelPath) -> Error {
    let why =
        format!("{place} would be put into the source itself, or in its place: name another destination");
    Error::new(ErrorKind::Denied, why)
}

/// A file cannot be moved to where something is mounted in the destination.
pub(super) fn mounted(place: &RelPath) -> Error {
    let place = show(place.as_bytes()).into_owned();
    let why = format!(
        "cannot create {place}: another file system is mounted there in the destination; copy to that by itself"
    );
    Error::new(ErrorKind::Denied, why)
}

/// A file cannot take a directory's place.
pub(super) fn is_a_directory(place: &RelPath) -> Error {
    let place = show(place.as_bytes()).into_owned();
    Error::new(ErrorKind::Denied, format!("cannot create {place}: a directory of that name is there"))
}

/// Nor a directory that of anything else.
pub(super) fn not_a_directory(place: &RelPath) -> Error {
    let place = show(place.as_bytes()).into_owned();
    Error::new(
        ErrorKind::Denied,
        format!("cannot create the directory {place}: a file or link of that name is there"),
    )
}
