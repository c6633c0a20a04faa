//! Where our own program is, which others of ours are begun with.

use std::path::PathBuf;
use std::sync::OnceLock;

/// What was said of it, where the process is another program's.
static TOLD: OnceLock<PathBuf> = OnceLock::new();

/// Says where it is, for a process that runs another program, such as an interpreter. The first word counts.
pub fn is_at(path: PathBuf) {
    let _ = TOLD.set(path);
}

/// Where it is; found in the search path if the system does not say.
pub fn path() -> PathBuf {
    let told = TOLD.get().cloned().map_or_else(std::env::current_exe, Ok);
    told.unwrap_or_else(|_| "tidegate".into())
}
