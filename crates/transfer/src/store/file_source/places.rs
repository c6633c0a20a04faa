//! Where the sources lie, for whoever writes and removes.

use std::collections::HashSet;

use super::tree::Tree;
use crate::spec::{Relation, SourcePlaces};
use crate::sys::confined::path_of;
use crate::sys::identity::{FileIdentity, this_host};
use crate::sys::whereabouts::{Mounts, Whereabouts};

/// Of `roots`, and of what is mounted beneath them, which is entered, too, unless it is `one_file_system` that is copied.
pub(super) fn of(roots: &[Tree], one_file_system: bool) -> SourcePlaces {
    let mounts = Mounts::read();
    let (mut told, mut looked) = (Told::default(), HashSet::new());
    for tree in roots {
        let is_directory = tree.file().is_none();
        // Files that lie in one directory, as most do, lie in the same places.
        if !is_directory && !tree.id().is_some_and(|id| looked.insert(id)) {
            continue;
        }
        let Whereabouts { itself, above, .. } = mounts.whereabouts(&tree.base);
        let (own, shared) = match is_directory {
            true => (Relation::Source, Relation::SharedSource),
            false => (Relation::Above, Relation::SharedAbove),
        };
        told.add(own, itself.here);
        told.add(shared, itself.anywhere);
        told.add(Relation::Above, above.here);
        told.add(Relation::SharedAbove, above.anywhere);
        if let Some(path) = path_of(&tree.base).ok().filter(|_| is_directory && !one_file_system) {
            for mounted in mounts.beneath(&path) {
                told.add(Relation::Source, mounted.itself.here);
                told.add(Relation::Above, mounted.above.here);
            }
        }
    }
    SourcePlaces { host: this_host(), known: told.known }
}

/// What is told, each once.
#[derive(Default)]
struct Told {
    known: Vec<(Relation, FileIdentity)>,
    seen: HashSet<(Relation, FileIdentity)>,
}

impl Told {
    fn add(&mut self, relation: Relation, identities: Vec<FileIdentity>) {
        for identity in identities {
            if self.seen.insert((relation, identity)) {
                self.known.push((relation, identity));
            }
        }
    }
}
