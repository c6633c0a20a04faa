//! What is mounted in a destination, into which no file can be moved.

use rustix::io::Errno;

use super::FileSink;
use super::refused::mounted;
use crate::error::Result;
use crate::path::RelPath;
use crate::sys::fs::fstat;

impl FileSink {
    /// # Errors
    /// A file cannot get its name at `place`: something is mounted on the way there, or it is on another file system, as
    /// parts of some are that are no mounts.
    pub(super) fn check_mount(&self, place: &RelPath) -> Result<()> {
        let Ok(base) = self.base() else { return Ok(()) };
        match base.dir_within(place.split().0) {
            Err(Errno::XDEV) => Err(mounted(place)),
            Ok(directory) => match (fstat(&directory), fstat(base)) {
                (Ok(there), Ok(here)) if there.st_dev != here.st_dev => Err(mounted(place)),
                _ => Ok(()),
            },
            // What is not there, or cannot be entered, is told where it is made.
            Err(_) => Ok(()),
        }
    }
}
