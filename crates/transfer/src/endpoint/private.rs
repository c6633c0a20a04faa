//! What an endpoint keeps from its peers: its state, and the keys and tokens that it was told of.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::endpoint::Config;
use crate::error::{Error, ErrorKind, Result};
use crate::sys::confined::Root;
use crate::sys::hidden::{self, Hidden};
use crate::text::show;

/// The root in which nobody finds what is private, and what of that lies beneath it or in a directory that is `followed`.
///
/// # Errors
/// The root is private itself.
pub(super) fn hide(root: Root, followed: &[Vec<u8>], config: &Config) -> Result<(Root, Vec<PathBuf>)> {
    // Without effect where nothing may be written: then it is known by its number alone.
    let _ = hidden::mark(&config.state);
    if config.serves_owner {
        return Ok((root, Vec::new()));
    }
    let failed = |error| Error::io("use the state directory", config.state.as_os_str().as_bytes(), error);
    let opened = |path: &Vec<u8>| Root::open(path).map_err(|error| Error::io("follow links to", path, error));
    let mut tops = vec![root];
    tops.extend(followed.iter().map(opened).collect::<Result<Vec<_>>>()?);
    let (directories, files): (Vec<&Path>, Vec<&Path>) =
        config.private.iter().map(PathBuf::as_path).partition(|path| !path.is_file());
    let directories = [&[config.state.as_path()], &directories[..]].concat();
    let hidden = Arc::new(Hidden::new(&directories, &files, &tops).map_err(failed)?);
    let names = [config.root.as_os_str().as_bytes()].into_iter().chain(followed.iter().map(Vec::as_slice));
    for (top, name) in tops.iter().zip(names) {
        if hidden.hides(top).map_err(failed)? {
            let why = format!(
                "{} is where the program keeps its keys, which no endpoint serves: name another directory, or another state directory by --state",
                show(name)
            );
            return Err(Error::new(ErrorKind::Usage, why));
        }
    }
    let within = tops.iter().flat_map(|top| hidden.within(top));
    let mut within: Vec<_> = within.map(|path| PathBuf::from(OsString::from_vec(path))).collect();
    within.sort();
    within.dedup();
    Ok((tops.swap_remove(0).hiding(hidden), within))
}
