//! What a ticket allows.

use crate::endpoint::Endpoint;
use crate::error::{Error, ErrorKind, Result};
use crate::path::RelPath;
use crate::terms::{Compare, Terms, Verify};
use crate::wire::ticket::Claims;

/// Whether the ticket allows writing here.
pub(crate) fn may_write(endpoint: &Endpoint, claims: &Claims) -> Result<()> {
    if endpoint.config.read_only {
        return Err(Error::new(ErrorKind::Denied, "it is read-only"));
    }
    match claims.write {
        true => Ok(()),
        false => Err(Error::new(ErrorKind::Denied, "the ticket does not allow writing")),
    }
}

/// Whether the ticket allows removing what is here.
pub(crate) fn may_delete(endpoint: &Endpoint, claims: &Claims) -> Result<()> {
    if endpoint.config.read_only {
        return Err(Error::new(ErrorKind::Denied, "it is read-only"));
    }
    match claims.delete {
        true => Ok(()),
        false => Err(Error::new(
            ErrorKind::Denied,
            "deleting is not allowed: ask for a ticket of `tidegate ticket --delete`, or for `endpoint --allow-delete`",
        )),
    }
}

/// Whether files may be removed here once they have arrived elsewhere, if they are to be moved: their hashes must be held
/// against each other.
pub(crate) fn may_move(endpoint: &Endpoint, claims: &Claims, terms: &Terms, moving: bool) -> Result<()> {
    if !moving {
        return Ok(());
    }
    if terms.verify != Verify::Blake3 || terms.compare != Compare::Checksum {
        return Err(Error::new(ErrorKind::Usage, "files are moved only where their hashes are compared"));
    }
    may_delete(endpoint, claims)
}

/// Whether the ticket allows reading.
pub(crate) fn may_read(claims: &Claims) -> Result<()> {
    match claims.read {
        true => Ok(()),
        false => Err(Error::new(ErrorKind::Denied, "the ticket does not allow reading")),
    }
}

/// Whether the ticket covers this path.
pub(crate) fn may_use(claims: &Claims, path: &[u8]) -> Result<()> {
    let trimmed = path.strip_suffix(b"/").unwrap_or(path);
    if !trimmed.is_empty() {
        RelPath::new(trimmed)?;
    }
    match claims.covers(trimmed) {
        true => Ok(()),
        false => Err(Error::new(ErrorKind::Denied, "the ticket does not allow this path")),
    }
}
