//! Keeps apart what is read from and what is written to or removed: one rule for destinations, backups and mirrors, by
//! what directories are and not by how they are called.
//!
//! A destination is no source and lies in none. A mirror, which removes, holds no source either, and neither does a
//! backup directory lie in a source, hold one, or hold the destination. Where a source lies in a destination that only
//! gets files, those that would be put into the source are refused one by one. What the filter rules surely leave out of a
//! source is no part of it, and may be a destination.

use std::collections::HashSet;

use rustix::io::Errno;

use crate::error::{Error, ErrorKind, Result};
use crate::filter::Filter;
use crate::selection::Selection;
use crate::spec::{Relation, SourceRoot, Sources};
use crate::sys::confined::Root;
use crate::sys::fs::Stat;
use crate::sys::identity::{FileIdentity, fingerprint, identity, this_host};
use crate::sys::whereabouts::{Identities, Mounts, Whereabouts};
use crate::terms::Links;
use crate::text::show;

mod left_out;

/// What a destination, its backups and what is removed there are kept apart from.
#[derive(Debug, Default)]
pub struct Apart {
    roots: Vec<SourceRoot>,
    /// What the sources are known by, and what contains them.
    sources: HashSet<FileIdentity>,
    above: HashSet<FileIdentity>,
    /// Whether the sender is on another host, so that both only know directories that rest, of a file system that both have.
    elsewhere: bool,
    deleting: bool,
    moving: bool,
    /// Whether a source lies in the destination.
    nested: bool,
    /// What the sources leave out, where that is known without their files.
    filter: Option<Filter>,
    /// Sources that contain the destination and leave it out.
    around: HashSet<FileIdentity>,
}

/// What becomes of what is at the source and at the destination, besides what is copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removing {
    /// What the source does not have is removed at the destination.
    pub(crate) at_destination: bool,
    /// What has arrived is removed at the source.
    pub(crate) at_source: bool,
}

impl Apart {
    /// From `sources`.
    pub fn from(sources: Sources, removing: Removing) -> Self {
        let Sources { roots, places } = sources;
        let elsewhere = !places.known.is_empty() && places.host != this_host();
        let (source, above) = match elsewhere {
            true => (Relation::SharedSource, Relation::SharedAbove),
            false => (Relation::Source, Relation::Above),
        };
        let known = |wanted| {
            let known = places.known.iter().filter(move |(relation, _)| *relation == wanted);
            known.map(|(_, identity)| *identity)
        };
        let named = roots.iter().filter(|_| !elsewhere).map(|root| root.identity);
        let (sources, above) = (known(source).chain(named).collect(), known(above).collect());
        let Removing { at_destination: deleting, at_source: moving } = removing;
        Self { roots, sources, above, elsewhere, deleting, moving, ..Self::default() }
    }

    /// The same where no more than `selection` of the sources is offered, in which links are dealt with so.
    pub(crate) fn offering(self, selection: &Selection, links: Links) -> Self {
        // By a link that is followed what is left out may be offered under another name.
        let is_sure = links != Links::Follow && selection.can_be_checked();
        Self { filter: selection.filter().ok().filter(|_| is_sure), ..self }
    }

    /// Refuses a destination, `path` beneath `root`, that cannot be one; `renames` if the one file may be given the
    /// path's last name.
    pub fn destination(&mut self, root: &Root, path: &[u8], renames: bool) -> Result<()> {
        // What does not exist yet can only lie in something that does.
        let (Ok(directory), end) = deepest(root, path) else { return Ok(()) };
        let rest = path[end..].strip_prefix(b"/").unwrap_or(&path[end..]);
        let mounts = Mounts::read();
        let there = mounts.whereabouts(&directory);
        if let Some(filter) = self.filter.as_ref().filter(|_| !self.elsewhere) {
            self.around = left_out::around(filter, &self.roots, (&directory, rest), &mounts);
        }
        self.outside(&there, rest.is_empty(), &self.around)?;
        for source in &self.roots {
            let name = match rest.is_empty() {
                true => &source.name[..],
                // What is to be made has no content yet.
                false if !renames || rest.contains(&b'/') => continue,
                false => rest,
            };
            if is_name(name) && directory.stat(name).is_ok_and(|stat| identity(&stat) == source.identity) {
                return Err(into_itself(Some(source), "onto"));
            }
        }
        // What is not there yet holds nothing.
        self.nested = rest.is_empty() && self.holds(&there);
        match self.deleting && rest.is_empty() {
            true => self.mirror(&directory, &there, &mounts),
            false => Ok(()),
        }
    }

    /// Refuses a mirror at `directory` that holds a source, or is one.
    fn mirror(&self, directory: &Root, there: &Whereabouts, mounts: &Mounts) -> Result<()> {
        if self.roots.iter().any(|root| root.name.is_empty()) {
            return if self.holds(there) { Err(would_be_removed()) } else { Ok(()) };
        }
        for name in self.roots.iter().map(|root| &root.name[..]).filter(|name| is_name(name)) {
            match directory.dir_within(name) {
                Ok(mirrored) => {
                    let mirrored = mounts.whereabouts(&mirrored);
                    self.outside(&mirrored, false, &self.around)?;
                    if self.holds(&mirrored) {
                        return Err(would_be_removed());
                    }
                }
                Err(Errno::XDEV) => return Err(is_mounted(name)),
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// Refuses what is a source, or lies in one that is none of those `around`; `whole` if it is the destination itself.
    fn outside(&self, there: &Whereabouts, whole: bool, around: &HashSet<FileIdentity>) -> Result<()> {
        // Two versions of one directory, as a snapshot is, look the same from elsewhere.
        if self.elsewhere && !self.moving {
            return Ok(());
        }
        let is_source = |id: &&FileIdentity| self.sources.contains(*id) && !around.contains(*id);
        let find = |known: &Identities| self.ids(known).iter().find(is_source).copied();
        let (itself, found) = match find(&there.itself) {
            Some(id) => (true, id),
            None => match find(&there.above).or_else(|| find(&there.beyond)) {
                Some(id) => (false, id),
                None => return Ok(()),
            },
        };
        let source = self.roots.iter().find(|root| root.identity == found);
        let onto = itself && whole && source.is_none_or(|source| source.name.is_empty());
        Err(into_itself(source, if onto { "onto" } else { "into" }))
    }

    /// Whether a source lies in what is there, and can be reached from it without crossing a mount.
    fn holds(&self, there: &Whereabouts) -> bool {
        self.ids(&there.itself).iter().any(|id| self.above.contains(id))
    }

    fn ids<'i>(&self, known: &'i Identities) -> &'i [FileIdentity] {
        if self.elsewhere { &known.anywhere } else { &known.here }
    }

    /// Refuses `typed` as the backup directory: `there` is the last directory on the way to it that exists, or it itself if
    /// `exists`, and `base` that of the destination; `inside` if the one's path leads through the other.
    pub fn backup(
        &self,
        typed: &[u8],
        there: &Root,
        exists: bool,
        base: &Root,
        base_exists: bool,
        inside: bool,
    ) -> Result<()> {
        let mounts = Mounts::read();
        let (there, base) = (mounts.whereabouts(there), mounts.whereabouts(base));
        let lies_in = |inner: &Whereabouts, outer: &Whereabouts| {
            let levels = [&inner.itself, &inner.above, &inner.beyond];
            levels.into_iter().flat_map(|level| &level.here).any(|id| outer.itself.here.contains(id))
        };
        let in_source = || {
            let levels = [&there.itself, &there.above, &there.beyond];
            levels.into_iter().flat_map(|level| self.ids(level)).any(|id| self.sources.contains(id))
        };
        if in_source() {
            return Err(bad_backup(typed, "is or lies in the source"));
        }
        if exists && self.holds(&there) {
            return Err(bad_backup(typed, "holds the source"));
        }
        if exists && lies_in(&base, &there) {
            return Err(bad_backup(typed, "is or holds the destination"));
        }
        if base_exists && !inside && lies_in(&there, &base) {
            return Err(bad_backup(typed, "lies in the destination by another path"));
        }
        Ok(())
    }

    /// Whether nothing can be put into `directory` of the destination because it is a source, or lies in one; `mounted` if
    /// a mount was crossed on the way there.
    pub(crate) fn forbids(&self, directory: &Root, mounted: bool) -> bool {
        // What is mounted in the destination may be another part of the source.
        let none = HashSet::new();
        let around = if mounted { &none } else { &self.around };
        (self.nested || mounted)
            && !self.sources.is_empty()
            && self.outside(&Whereabouts::of(directory), false, around).is_err()
    }

    /// Whether `stat` belongs to a source, which would be replaced or removed.
    pub(crate) fn is_source(&self, stat: &Stat) -> bool {
        let id = if self.elsewhere { fingerprint(stat) } else { identity(stat) };
        !self.sources.is_empty() && self.sources.contains(&id)
    }

    /// Whether a source lies in the destination, so that what is put there may be one.
    pub(crate) const fn is_nested(&self) -> bool {
        self.nested
    }
}

/// The last directory on the way along `path` beneath `root` that exists, and where in `path` it ends.
pub(super) fn deepest(root: &Root, path: &[u8]) -> (Result<Root, Errno>, usize) {
    let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
    let mut deepest = (root.dir(b""), 0);
    for end in ends.chain([path.len()]) {
        match root.dir(&path[..end]) {
            Ok(there) => deepest = (Ok(there), end),
            Err(_) => break,
        }
    }
    deepest
}

fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && !name.contains(&b'/')
}

fn into_itself(source: Option<&SourceRoot>, how: &str) -> Error {
    let name = source.map(|source| &source.name[..]).filter(|name| !name.is_empty());
    let what = name.map_or("the source".into(), show);
    Error::new(ErrorKind::Usage, format!("{what} would be copied {how} itself: name another destination"))
}

/// Why nothing is removed where a source lies.
pub(crate) fn would_be_removed() -> Error {
    let why = "the source lies in the destination, and --delete would remove it: name another destination, or leave --delete out";
    Error::new(ErrorKind::Usage, why)
}

fn is_mounted(name: &[u8]) -> Error {
    let name = show(name);
    let why = format!(
        "{name} is mounted in the destination, and --delete removes nothing beneath a mount: copy {name}/ with {name} as the destination"
    );
    Error::new(ErrorKind::Usage, why)
}

fn bad_backup(typed: &[u8], why: &str) -> Error {
    Error::new(ErrorKind::Usage, format!("the backup directory {} {why}: name another one", show(typed)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Record;
    use crate::spec::SourcePlaces;
    use crate::sys::confined::scratch;
    use crate::sys::fs::fstat;
    use crate::wire::request::Preamble;

    fn told(host: FileIdentity, known: Vec<(Relation, FileIdentity)>) -> Sources {
        Sources { roots: Vec::new(), places: SourcePlaces { host, known } }
    }

    #[test]
    fn another_host_knows_a_shared_directory_by_what_it_looks_like() {
        let (_directory, root) = scratch();
        let stat = fstat(&root).expect("open");
        let (number, look) = (identity(&stat), fingerprint(&stat));
        let is_itself = Identities { here: vec![number], anywhere: vec![look] };
        let there = Whereabouts { itself: is_itself, ..Whereabouts::default() };
        let removing = |at_source| Removing { at_destination: true, at_source };
        let all = [Relation::Source, Relation::Above, Relation::SharedSource, Relation::SharedAbove];
        for (relation, host, id, moving, (holds, is_source, is_refused)) in [
            (Relation::Above, this_host(), number, false, (true, false, false)),
            (Relation::Source, this_host(), number, false, (false, true, true)),
            (Relation::SharedAbove, [7; 16], look, false, (true, false, false)),
            // It may be a snapshot, which is copied back; where files are removed at the source, that is none.
            (Relation::SharedSource, [7; 16], look, false, (false, true, false)),
            (Relation::SharedSource, [7; 16], look, true, (false, true, true)),
        ] {
            let apart = Apart::from(told(host, vec![(relation, id)]), removing(moving));
            let refuses = |apart: &Apart| apart.outside(&there, true, &HashSet::new()).is_err();
            let found = (apart.holds(&there), apart.is_source(&stat), refuses(&apart));
            assert_eq!(found, (holds, is_source, is_refused), "{relation:?}");
            // What is known in another way says nothing.
            for other in all.into_iter().filter(|other| *other != relation) {
                let apart = Apart::from(told(host, vec![(other, id)]), removing(moving));
                let found = (apart.holds(&there), apart.is_source(&stat), refuses(&apart));
                assert_ne!(found, (holds, is_source, is_refused), "{other:?} for {relation:?}");
            }
        }
    }

    #[test]
    fn no_peer_tells_more_places_than_are_remembered() {
        let told = |count| {
            let known = vec![(Relation::Above, [2; 16]); count];
            let places = SourcePlaces { host: [1; 16], known };
            let sources = Sources { roots: Vec::new(), places };
            let preamble = Preamble { sources, ..Preamble::default() };
            (preamble.sources.check_size(), Record::of(&preamble).read().map(drop))
        };
        let most = 256 << 10;
        assert_eq!(told(most), (Ok(()), Ok(())));
        let (ours, theirs) = told(most + 1);
        assert!(ours.expect_err("too many").message.contains("copy in parts"));
        assert!(theirs.expect_err("too many").message.contains("cannot be read"));
    }
}
