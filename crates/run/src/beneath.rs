//! Paths that the user typed, as an endpoint that serves the root of this host has them.

use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use tidegate_transfer::error::{Error, usage};
use tidegate_transfer::transfer::route::leads_nowhere;

/// A local destination as a path beneath `/`, symlinks in its existing part resolved.
pub fn beneath_root(path: &[u8]) -> Result<Vec<u8>, Error> {
    let failed = |error| Error::io("use the destination", path, error);
    let typed = Path::new(OsStr::from_bytes(path));
    let mut existing = std::path::absolute(typed).map_err(failed)?;
    let mut rest = Vec::new();
    while !existing.exists() {
        if existing.is_symlink() {
            return Err(leads_nowhere(path));
        }
        let Some(name) = existing.file_name() else { break };
        rest.push(name.to_owned());
        existing.pop();
    }
    let mut resolved = existing.canonicalize().map_err(failed)?;
    for name in rest.into_iter().rev() {
        if name == ".." {
            return Err(usage("the destination's path goes up out of a directory that does not exist"));
        }
        resolved.push(name);
    }
    let mut bytes = resolved.into_os_string().into_vec();
    bytes.remove(0);
    if path.ends_with(b"/") && !bytes.is_empty() {
        bytes.push(b'/');
    }
    Ok(bytes)
}
