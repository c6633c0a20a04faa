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
        let (Ok(base), parent) = (self.base(), place.split().0) else { return Ok(()) };
        // Files come a directory after the other. What is mounted meanwhile fails when the file is to get its name.
        let mut checked = self.checked_mount.lock();
        if checked.as_deref() == Some(parent) {
            return Ok(());
        }
        match base.dir_within(parent) {
            Err(Errno::XDEV) => return Err(mounted(place)),
            Ok(directory) => {
                if let (Ok(there), Ok(here)) = (fstat(&directory), fstat(base))
                    && there.st_dev != here.st_dev
                {
                    return Err(mounted(place));
                }
                *checked = Some(parent.to_vec());
            }
            // What is not there, or cannot be entered, is told where it is made.
            Err(_) => {}
        }
        Ok(())
    }
}
