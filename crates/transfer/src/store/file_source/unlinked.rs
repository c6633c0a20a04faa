//! Files with several names, one of which was removed here: the kernel notes that as a change, and their content is the
//! version that was listed under the other names.

use std::collections::{HashMap, HashSet};

use rustix::io::Errno;

use crate::manifest::Fingerprint;
use crate::sys::confined::Root;
use crate::sys::fs::{Mode, OFlags, Stat, fstat};
use crate::sys::identity::fingerprint;
use crate::sys::sync::RwLock;

/// Most versions that are remembered; a file of which one is not counts as changed, and stays.
const MAX_VERSIONS: usize = 256 << 10;

/// What is known of such files.
#[derive(Debug, Default)]
pub(super) struct Unlinked(RwLock<Known>);

#[derive(Debug, Default)]
struct Known {
    /// By device and inode.
    files: HashMap<(u64, u64), Versions>,
    versions: usize,
}

/// One file, as it is and as it was before names of it were removed.
#[derive(Debug)]
struct Versions {
    now: Fingerprint,
    earlier: HashSet<Fingerprint>,
}

impl Known {
    fn is_version(&self, stat: &Stat, listed: &Fingerprint) -> bool {
        let now = fingerprint(stat);
        let same = |versions: &Versions| versions.now == now && versions.earlier.contains(listed);
        now == *listed || self.files.get(&id(stat)).is_some_and(same)
    }

    /// A name of the file was removed, which lost nothing else by that.
    fn remember(&mut self, before: &Stat, after: &Stat) {
        let same = id(before) == id(after)
            && before.st_size == after.st_size
            && (before.st_mtime, before.st_mtime_nsec) == (after.st_mtime, after.st_mtime_nsec)
            && before.st_nlink == after.st_nlink + 1;
        if after.st_nlink == 0 || !same || self.versions >= MAX_VERSIONS {
            self.versions -= self.files.remove(&id(before)).map_or(0, |file| file.earlier.len());
            return;
        }
        let new = || Versions { now: fingerprint(before), earlier: HashSet::new() };
        let file = self.files.entry(id(before)).or_insert_with(new);
        file.earlier.insert(fingerprint(before));
        file.now = fingerprint(after);
        self.versions += 1;
    }
}

impl Unlinked {
    /// Whether what `look` sees is the version that was `listed`.
    pub(super) fn is_version(
        &self,
        look: impl Fn() -> Result<Stat, Errno>,
        listed: &Fingerprint,
    ) -> Result<bool, Errno> {
        if fingerprint(&look()?) == *listed {
            return Ok(true);
        }
        // No name is being removed while it is looked at again.
        let known = self.0.read();
        Ok(known.is_version(&look()?, listed))
    }

    /// Removes `name` from `directory`, if what bears it is the version that was `listed`; whether it was.
    pub(super) fn remove(&self, directory: &Root, name: &[u8], listed: &Fingerprint) -> Result<bool, Errno> {
        let stat = directory.stat(name)?;
        if stat.st_nlink == 1 && fingerprint(&stat) == *listed {
            directory.remove(name)?;
            return Ok(true);
        }
        let mut known = self.0.write();
        let file = directory.open_beneath(name, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty())?;
        let before = fstat(&file)?;
        if !known.is_version(&before, listed) {
            return Ok(false);
        }
        directory.remove(name)?;
        if let Ok(after) = fstat(&file) {
            known.remember(&before, &after);
        }
        Ok(true)
    }
}

fn id(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::confined::scratch;

    #[test]
    fn a_file_is_what_was_listed_when_a_name_goes_and_not_when_it_is_written_to() {
        let (directory, root) = scratch();
        let at = |name: &str| directory.path().join(name);
        std::fs::write(at("a"), "content").expect("written");
        for name in ["b", "c", "d"] {
            std::fs::hard_link(at("a"), at(name)).expect("linked");
        }
        let listed = fingerprint(&root.stat(b"a").expect("there"));
        let unlinked = Unlinked::default();
        let is_version = || unlinked.is_version(|| root.stat(b"d"), &listed);
        for name in [b"a", b"b"] {
            assert_eq!(unlinked.remove(&root, name, &listed), Ok(true));
            assert_eq!(is_version(), Ok(true));
        }
        // As it was between the two, a later listing would have it.
        let now = fingerprint(&root.stat(b"c").expect("there"));
        assert_eq!(unlinked.is_version(|| root.stat(b"c"), &now), Ok(true));
        std::fs::write(at("d"), "CONTENT").expect("written");
        assert_eq!((is_version(), unlinked.remove(&root, b"c", &listed)), (Ok(false), Ok(false)));
        // What others do to its names is not ours.
        let listed = fingerprint(&root.stat(b"c").expect("there"));
        assert_eq!(unlinked.remove(&root, b"c", &listed), Ok(true));
        std::fs::hard_link(at("d"), at("e")).expect("linked");
        assert_eq!(unlinked.remove(&root, b"d", &listed), Ok(false));
    }
}
