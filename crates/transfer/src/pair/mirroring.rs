//! What goes at the destination of a [`Pair`](super::Pair) that is a mirror.

use std::collections::BTreeSet;

use super::disk::ModelDisk;
use super::faults::Deed;
use super::tree::What;
use crate::error::{Error, ErrorKind, Result};
use crate::mirror::Deleted;
use crate::offer::DirectoryNames;
use crate::path::RelPath;
use crate::plan::{Action, EntryKind, Planned, PlannedChange};

/// What was compared so far.
#[derive(Debug, Default)]
pub(super) struct Mirroring {
    /// What is to go, what is in something before that.
    going: Vec<String>,
    is_emptied: bool,
}

impl Mirroring {
    /// Compares directories with those of the source; answers with what is to go.
    pub fn compare(&mut self, directories: &[DirectoryNames], disk: &ModelDisk) -> Result<Vec<String>> {
        let mut going = Vec::new();
        for DirectoryNames { directory, names, is_root, .. } in directories {
            let directory = std::str::from_utf8(directory).expect("names of a pair are text");
            let names: BTreeSet<&str> = std::str::from_utf8(names)
                .expect("names of a pair are text")
                .split_terminator('\0')
                .collect();
            let is_source = |name: &str| {
                let folded = disk.folded(name);
                names.contains(name) || (folded.is_some() && names.iter().any(|n| disk.folded(n) == folded))
            };
            for (name, _) in disk.tree.children(directory).filter(|(name, _)| !is_source(name)) {
                let path = if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") };
                let beneath = format!("{path}/");
                going.extend(
                    disk.tree
                        .names()
                        .into_iter()
                        .filter(|n| n.starts_with(&beneath))
                        .rev()
                        .map(str::to_owned),
                );
                going.push(path);
            }
            self.is_emptied |= *is_root && names.is_empty() && !going.is_empty();
        }
        self.going.extend(going.iter().cloned());
        Ok(going)
    }

    /// Removes what is to go, but no more than `most`, unless it is `dry`.
    pub fn act(self, disk: &mut ModelDisk, most: Option<u64>, dry: bool) -> Deleted {
        let mut deleted = Deleted::default();
        if self.is_emptied && most.is_none() {
            return Deleted::nothing(&Error::new(ErrorKind::Denied, "the source is empty"));
        }
        let allowed = most.map_or(usize::MAX, |most| most as usize);
        if self.going.len() > allowed {
            deleted.error = Some(Error::new(ErrorKind::Denied, "deleting stopped at --max-delete"));
        }
        for path in self.going.into_iter().take(if dry { 0 } else { allowed }) {
            match disk.delete(&path) {
                Ok(gone) => deleted.entries += u64::from(gone),
                Err(error) => drop(deleted.error.get_or_insert(error)),
            }
        }
        deleted
    }
}

impl ModelDisk {
    /// Removes something, unless it is a directory with something in it.
    fn delete(&mut self, path: &str) -> Result<bool> {
        self.faults.check(Deed::Delete, path)?;
        if self.tree.children(path).next().is_some() {
            return Ok(false);
        }
        self.tree.remove(path);
        self.changed.push(("deleted", path.to_owned()));
        Ok(true)
    }

    /// What is told of something that would go.
    pub(super) fn planned_removal(&self, path: &str) -> Planned {
        let node = self.tree.get(path).expect("it is there");
        let (kind, size) = match &node.what {
            What::Directory => (EntryKind::Directory, 0),
            What::Link(_) => (EntryKind::Link, 0),
            What::File(content) => (EntryKind::File, content.size),
            What::Special => (EntryKind::File, 0),
        };
        let change = PlannedChange { action: Action::Delete, differs: Vec::new(), sent: false };
        Planned { path: RelPath::new(path).expect("a path"), kind, size, change }
    }
}
