//! Names at a destination whose file system takes several for one.

use std::collections::{HashMap, HashSet};

use super::FileSink;
use crate::manifest::Entry;
use crate::path::RelPath;
use crate::store::Sink as _;
use crate::store::folding::{Folding, names};
use crate::sys::confined::Root;
use crate::sys::fs::{fstat, ioctl_getflags};
use crate::sys::sync::Mutex;

/// The kernel's FS_CASEFOLD_FL.
const CASEFOLD: u32 = 0x4000_0000;

/// What is known of how names are told apart.
#[derive(Debug, Default)]
pub(super) struct Spellings {
    folding: Mutex<FoldingByPlace>,
    /// Hashes of the names that were in the directory of that path, the last that was asked about.
    written: Mutex<Option<(Vec<u8>, HashSet<u64>)>>,
}

#[derive(Debug, Default)]
struct FoldingByPlace {
    of_device: HashMap<u64, Folding>,
    /// The directory that was asked about last.
    last: Option<(Vec<u8>, Folding)>,
}

impl FileSink {
    /// What `place` has in common with all names that its file system takes for the same; `None` where it keeps names apart.
    pub fn folded_place(&self, place: &RelPath) -> Option<Vec<u8>> {
        let folding = self.folding(place.split().0);
        folding.is_any().then(|| folding.key(place.as_bytes()))
    }

    /// As if all of it were on a file system that tells names apart so.
    #[cfg(test)]
    pub fn assume(&self, folding: Folding) {
        let device = self.base().and_then(fstat).expect("there").st_dev;
        self.spellings.folding.lock().expect("not poisoned").of_device.insert(device, folding);
    }

    /// How the directory at `path` tells names apart.
    fn folding(&self, path: &[u8]) -> Folding {
        let mut known = self.spellings.folding.lock().expect("not poisoned");
        if let Some((_, folding)) = known.last.as_ref().filter(|(last, _)| last == path) {
            return *folding;
        }
        let folding = self.look_at_folding(path, &mut known.of_device).unwrap_or_default();
        known.last = Some((path.to_vec(), folding));
        folding
    }

    fn look_at_folding(&self, path: &[u8], of_device: &mut HashMap<u64, Folding>) -> Option<Folding> {
        let base = self.base().ok()?;
        // What is not there yet will be made on the file system that is.
        let directory = self.directory(path).or_else(|_| self.directory(b"")).ok()?;
        if ioctl_getflags(&*directory).is_ok_and(|flags| flags.bits() & CASEFOLD != 0) {
            return Some(Folding::CASEFOLD);
        }
        let device = |dir: &Root| fstat(dir).ok().map(|stat| stat.st_dev);
        let (here, ours) = (device(&directory)?, device(base)?);
        let folding = of_device.entry(here).or_insert_with(|| match &self.work {
            Some(work) if here == ours => Folding::probe(work.dir()),
            _ => Folding::look_into(&directory),
        });
        Some(*folding)
    }

    /// The name that stands where the entry is to be put, if that is another's.
    pub(super) fn other_name(&self, entry: &Entry) -> Option<Vec<u8>> {
        // Who names a place means what stands there.
        if self.new_name.is_some() {
            return None;
        }
        let (parent, name) = self.place(entry).split();
        let folding = self.folding(parent);
        if !folding.is_any() {
            return None;
        }
        let directory = self.directory(parent).ok()?;
        directory.stat(name).ok()?;
        let mut known = self.spellings.written.lock().expect("not poisoned");
        if known.as_ref().is_none_or(|(path, _)| path != parent) {
            *known = Some((parent.to_vec(), names(&directory).map(|name| hash(&name)).collect()));
        }
        if known.as_ref().is_some_and(|(_, written)| written.contains(&hash(name))) {
            return None;
        }
        folding.other_spelling(names(&directory), name)
    }
}

/// Stands for `name`.
fn hash(name: &[u8]) -> u64 {
    u64::from_le_bytes(*blake3::hash(name).as_bytes().first_chunk().expect("long enough"))
}
