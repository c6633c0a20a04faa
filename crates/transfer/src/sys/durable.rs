//! Makes names durable, and the directories on the way to them, which may be as young as they are.

use std::collections::HashSet;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use rustix::io::Errno;

use super::clock;
use super::confined::Root;
use super::fs::{fstat, fsync};
use crate::path::split;

/// After so long without a change a directory is on the medium, whoever made its names: kernels write within a minute.
const WRITTEN: Duration = Duration::from_secs(3600);

/// Most directories that are remembered; the others are synced again.
const MAX_SETTLED: usize = 64 << 10;

/// Makes the names in `directory` durable, as far as the file system can: nobody can do better.
pub(crate) fn sync_directory(directory: &impl AsFd) -> Result<(), Errno> {
    match fsync(directory) {
        Ok(()) | Err(Errno::INVAL | Errno::NOTSUP) => Ok(()),
        Err(error) => Err(error),
    }
}

/// The same, unless nothing was changed there for long.
fn settle(directory: &Root) -> Result<(), Errno> {
    let stat = fstat(directory)?;
    let changed = Duration::new(u64::try_from(stat.st_ctime).unwrap_or_default(), stat.st_ctime_nsec as u32);
    let now = clock::wall().duration_since(UNIX_EPOCH).unwrap_or_default();
    match now.checked_sub(changed).is_some_and(|age| age > WRITTEN) {
        true => Ok(()),
        false => sync_directory(directory),
    }
}

/// Makes the name of `directory` durable, and those of all that contain it in its mount and may be listed.
pub(crate) fn settle_above(directory: &Root) -> Result<(), Errno> {
    let mut next = directory.above();
    while let Ok(Some(above)) = next {
        match above.dir(b"") {
            Ok(listed) => settle(&listed)?,
            // Nobody who may not list it can sync it.
            Err(Errno::ACCESS | Errno::PERM) => {}
            Err(error) => return Err(error),
        }
        next = above.above();
    }
    Ok(())
}

/// Makes the name of what the local user calls `path` durable, and those of the directories on the way there.
pub(crate) fn settle_name(path: &Path) -> std::io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match Root::open(parent.as_os_str().as_bytes()) {
        Ok(directory) => {
            sync_directory(&directory)?;
            Ok(settle_above(&directory)?)
        }
        Err(Errno::ACCESS | Errno::PERM) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Directories beneath one whose names are durable, and that one's.
#[derive(Debug, Default)]
pub(crate) struct Settled {
    base: bool,
    beneath: HashSet<Vec<u8>>,
}

impl Settled {
    /// Makes durable that there is a directory `path` beneath `base`, and `base`.
    pub fn settle(&mut self, base: &Root, path: &[u8]) -> Result<(), Errno> {
        let mut path = path;
        let mut way = Vec::new();
        while !path.is_empty() && !self.beneath.contains(path) {
            let above = split(path).0;
            settle(&base.dir(above)?)?;
            way.push(path.to_vec());
            path = above;
        }
        if !self.base {
            settle_above(base)?;
            self.base = true;
        }
        if self.beneath.len() + way.len() > MAX_SETTLED {
            self.beneath.clear();
        }
        self.beneath.extend(way);
        Ok(())
    }
}
