//! Names at a destination whose file system takes several for one.

use std::collections::HashMap;

use super::FileSink;
use crate::manifest::Entry;
use crate::path::RelPath;
use crate::store::Sink as _;
use crate::store::folding::{Folding, WrittenNames, names};
use crate::sys::confined::Root;
use crate::sys::fs::{fstat, ioctl_getflags};
use crate::sys::sync::Mutex;

/// The kernel's FS_CASEFOLD_FL.
const CASEFOLD: u32 = 0x4000_0000;

/// What is known of how names are told apart.
#[derive(Debug, Default)]
pub(super) struct Spellings {
    folding: Mutex<FoldingByPlace>,
    /// The names that were in the directory of that path when it was first asked about; just the last directory's.
    written: Mutex<Option<(Vec<u8>, WrittenNames)>>,
    /// A test says how names are folded, on a file system that does not.
    #[cfg(test)]
    is_assumed: std::sync::atomic::AtomicBool,
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
    pub(crate) fn assume(&self, folding: Folding) {
        let device = self.base().and_then(fstat).expect("there").st_dev;
        self.spellings.folding.lock().of_device.insert(device, folding);
        self.spellings.is_assumed.store(true, std::sync::atomic::Ordering::Relaxed);
    }

    /// How the directory at `path` tells names apart.
    fn folding(&self, path: &[u8]) -> Folding {
        let mut known = self.spellings.folding.lock();
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
        if !self.spellings.leads_somewhere(&directory, name) {
            return None;
        }
        let mut known = self.spellings.written.lock();
        let (_, written) = match known.take().filter(|(path, _)| path == parent) {
            Some(same) => known.insert(same),
            None => known.insert((parent.to_vec(), WrittenNames::new(folding, names(&directory)))),
        };
        written.other_spelling(name).map(<[u8]>::to_vec)
    }
}

impl Spellings {
    /// Whether `name` is found in the directory, in whatever spelling.
    fn leads_somewhere(&self, directory: &Root, name: &[u8]) -> bool {
        #[cfg(test)]
        if self.is_assumed.load(std::sync::atomic::Ordering::Relaxed) {
            return true;
        }
        directory.stat(name).is_ok()
    }
}
