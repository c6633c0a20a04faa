//! Where the user's own files are, as the environment says it. A relative path there says nothing: where a program is
//! started is no home.

use std::env::var_os;
use std::path::PathBuf;

/// What stands for this host's files where paths are remembered.
pub const LOCAL: &str = "local";

/// The home directory.
pub fn home() -> Option<PathBuf> {
    absolute("HOME")
}

/// The directory that `variable` names, as of the XDG base directories, or else `usual` in the home directory.
pub fn base_directory(variable: &str, usual: &str) -> Option<PathBuf> {
    absolute(variable).or_else(|| home().map(|home| home.join(usual)))
}

/// The directory for what need not outlive a session: `XDG_RUNTIME_DIR`, or else `TMPDIR`, or else `/tmp`.
pub fn temporary_directories() -> impl Iterator<Item = PathBuf> {
    let named = ["XDG_RUNTIME_DIR", "TMPDIR"].into_iter().filter_map(absolute);
    named.chain([PathBuf::from("/tmp")])
}

fn absolute(variable: &str) -> Option<PathBuf> {
    var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute())
}
