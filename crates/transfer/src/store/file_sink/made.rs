//! The destination's directory: whether it is new, and which mode it gets at the end.

use crate::sys::confined::Root;
use crate::sys::fs::{Mode, fchmod, fstat};
use crate::sys::host;
use crate::sys::sync::OnceLock;

use super::trimmed;

/// The destination's directory, as this transfer found it.
#[derive(Debug, Default)]
pub(super) struct Made {
    /// Whether it was made for this transfer.
    pub is_new: bool,
    /// The mode that it gets at the end.
    pub mode: OnceLock<Mode>,
}

/// Lets us write to a directory of ours that is read-only, and tells which mode it had.
pub(super) fn opened_for_us((root, path): (&Root, &[u8])) -> Option<(Root, Mode)> {
    let directory = root.dir(trimmed(path)).ok()?;
    let stat = fstat(&directory).ok()?;
    let mode = Mode::from_raw_mode(stat.st_mode & 0o7777);
    let is_closed = stat.st_uid == host::user() && stat.st_mode & 0o300 != 0o300;
    let opens = is_closed && fchmod(&directory, mode | Mode::WUSR | Mode::XUSR).is_ok();
    opens.then_some((directory, mode))
}
