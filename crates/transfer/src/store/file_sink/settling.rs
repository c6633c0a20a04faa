//! What of a destination was made durable.

use rustix::io::Errno;

use super::still_there::Filled;
use crate::sys::durable::Settled;
use crate::sys::sync::{Mutex, OnceLock};

/// What was.
#[derive(Debug, Default)]
pub(super) struct Settling {
    /// The directories on the way to names.
    pub names: Mutex<Settled>,
    /// Those on the way to the work directory.
    pub work: OnceLock<Result<(), Errno>>,
    /// Directories that files were put into.
    pub filled: Mutex<Filled>,
}
