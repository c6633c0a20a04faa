//! The disk of a destination in a [`Pair`](super::Pair): what bears names there, what earlier runs left, and what was
//! verified. Whatever changes in it has been offered, or is to go: that is asserted here.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::content::ModelContent;
use super::faults::{Deed, Faults};
use super::tree::{ModelTree, Node, What, at, path_of};
use crate::catalogue::Verified;
use crate::error::{Error, ErrorKind, Result};
use crate::hash::Digest;
use crate::journal::Left;
use crate::logic::receiver::{Settlement, SettlementOutcome};
use crate::manifest::{BLOCK, Entry, Fingerprint, Kind, Timestamp, segment_range};
use crate::store::Standing;
use crate::terms::Verify;

/// An unfinished file: which content its blocks are of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ModelPart {
    /// How long it is.
    pub size: u64,
    /// By where they begin.
    pub blocks: BTreeMap<u64, u64>,
}

/// What the journal says of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Noted {
    version: Fingerprint,
    /// Verified segments.
    pub segments: HashMap<u64, Digest>,
    /// The root hash, if it was complete.
    pub root: Option<Digest>,
}

/// A destination's disk.
#[derive(Clone, Debug, Default)]
pub(crate) struct ModelDisk {
    /// What bears names.
    pub tree: ModelTree,
    /// Unfinished files.
    pub parts: BTreeMap<String, ModelPart>,
    /// The journal.
    pub journal: BTreeMap<String, Noted>,
    /// Directories that get their times at the end.
    pub directories: Vec<Entry>,
    /// What was verified.
    pub catalogue: BTreeMap<String, Verified>,
    /// Files that are the source's own, reached another way.
    pub same: BTreeSet<String>,
    /// Whether it takes names for one that differ in case alone.
    pub folds: bool,
    /// What fails.
    pub faults: Faults,
    /// Names that were given, or refreshed, or deleted, in this order.
    pub changed: Vec<(&'static str, String)>,
    /// What may be changed in this run: what was offered, and what has gone.
    pub offered: BTreeSet<String>,
}

/// The version of a file.
pub(crate) fn version(entry: &Entry) -> Fingerprint {
    if let Kind::File { fingerprint, .. } = entry.kind { fingerprint } else { [0; 16] }
}

impl ModelDisk {
    fn change(&mut self, deed: &'static str, path: &str) {
        assert!(self.offered.contains(path), "{path} was not offered, and is changed: {deed}");
        self.changed.push((deed, path.to_owned()));
    }

    // What is there -----------------------------------------------------------------------------------

    /// What a destination takes for the same name.
    pub fn folded(&self, path: &str) -> Option<String> {
        self.folds.then(|| path.to_lowercase())
    }

    /// A name that stands where `path` is to be put, and is another's.
    pub fn other_there(&self, path: &str) -> Option<&str> {
        let folded = self.folded(path)?;
        let mut names = self.tree.iter().map(|(name, _)| name.as_str());
        names.find(|name| *name != path && name.to_lowercase() == folded)
    }

    /// Makes a directory or a link, unless it is `dry`, or looks at what bears a file's name.
    pub fn prepare(&mut self, entry: &Entry, dry: bool) -> Result<Standing> {
        let path = path_of(entry);
        self.faults.check(Deed::Look, path)?;
        let there = self.tree.get(path).map(|node| node.what.clone());
        let refuse = |what: &str| Err(Error::new(ErrorKind::Io, format!("{path} is {what}")));
        if there == Some(What::Special) {
            return refuse("neither a file, a directory nor a link");
        }
        if !dry && !self.tree.has_parent_of(path) {
            return refuse("in no directory");
        }
        match (&entry.kind, there) {
            (Kind::Directory, Some(What::Directory)) => Ok(Standing::Made),
            (Kind::Directory, Some(_)) => refuse("no directory"),
            (_, Some(What::Directory)) => refuse("a directory"),
            (Kind::File { size, .. }, Some(What::File(content))) if *size == content.size => {
                let node = self.tree.get(path).expect("it is there");
                Ok(match self.same.contains(path) {
                    true => Standing::Same,
                    false => Standing::Present(at(node.mtime), node.mode),
                })
            }
            (Kind::File { .. }, _) => Ok(Standing::Absent),
            (_, _) if dry => Ok(Standing::Made),
            (Kind::Directory, None) => {
                self.change("made", path);
                self.tree.directory(path);
                Ok(Standing::Made)
            }
            (Kind::Symlink { target }, there) => {
                let target = String::from_utf8(target.clone()).expect("targets of a pair are text");
                if there != Some(What::Link(target.clone())) {
                    self.change("made", path);
                    self.tree.link(path, &target);
                }
                self.tree.get_mut(path).expect("it is there").mtime = entry.mtime.seconds;
                Ok(Standing::Made)
            }
        }
    }

    /// What the file that is there hashes to.
    pub fn digest(&self, entry: &Entry) -> Result<Digest> {
        self.faults.check(Deed::Digest, path_of(entry))?;
        let content = self.tree.get(path_of(entry)).and_then(Node::content);
        Ok(content.map_or([0; 32], ModelContent::root))
    }

    /// Sets the mode and the time of what bears the entry's name.
    pub fn refresh(&mut self, entry: &Entry) -> Result<()> {
        let path = path_of(entry);
        self.faults.check(Deed::Settle, path)?;
        let node = self.tree.get_mut(path).ok_or_else(|| Error::new(ErrorKind::NotFound, path))?;
        let differs = (node.mode, node.mtime) != (entry.mode, entry.mtime.seconds);
        (node.mode, node.mtime) = (entry.mode, entry.mtime.seconds);
        if differs && entry.kind != Kind::Directory {
            self.change("refreshed", path);
        }
        Ok(())
    }

    /// Sees to a file that is there.
    pub fn settle(&mut self, entry: &Entry, settlement: &Settlement) -> Result<SettlementOutcome> {
        let is_touched = |mtime: Timestamp, disk: &mut Self| match disk.prepare(entry, true) {
            Ok(Standing::Present(there, _)) => there != mtime,
            _ => true,
        };
        if settlement.untouched_since.is_some_and(|mtime| is_touched(mtime, self)) {
            return Ok(SettlementOutcome::Touched);
        }
        let refreshed = if settlement.refreshes { self.refresh(entry) } else { Ok(()) };
        match (refreshed, settlement.root) {
            (Ok(()), Some(root)) => self.remember(entry, root),
            (Err(_), _) if settlement.may_keep_its_own => {}
            (refreshed, _) => refreshed?,
        }
        Ok(SettlementOutcome::Done)
    }

    /// What an entry hashes to is remembered.
    pub fn remember(&mut self, entry: &Entry, root: Digest) {
        let verified = Verified { size: entry.size(), mtime: entry.mtime, root };
        self.catalogue.insert(path_of(entry).to_owned(), verified);
    }

    // Unfinished files --------------------------------------------------------------------------------

    /// Whether what was left can be continued.
    pub fn has_part(&self, entry: &Entry) -> bool {
        self.parts.get(path_of(entry)).is_some_and(|part| part.size == entry.size())
    }

    /// Makes an unfinished file anew.
    pub fn start(&mut self, entry: &Entry) {
        let part = ModelPart { size: entry.size(), blocks: BTreeMap::new() };
        self.parts.insert(path_of(entry).to_owned(), part);
    }

    /// Writes a block of the content `seed`.
    pub fn write(&mut self, entry: &Entry, offset: u64, seed: u64) -> Result<()> {
        let path = path_of(entry);
        self.faults.check(Deed::Write, path)?;
        let part = self.parts.get_mut(path).expect("it was begun");
        part.blocks.insert(offset, seed);
        Ok(())
    }

    /// The segments of those that are said to be `left` of a file that its unfinished file holds.
    pub fn still_there(
        &self,
        entry: &Entry,
        left: HashMap<u64, Digest>,
        verify: Verify,
    ) -> HashMap<u64, Digest> {
        let Some(part) = self.parts.get(path_of(entry)) else { return HashMap::new() };
        let size = entry.size();
        let holds = |segment: &u64, digest: &Digest| {
            let range = segment_range(*segment, size);
            let mut seeds = range.clone().step_by(BLOCK as usize).map(|offset| part.blocks.get(&offset));
            let Some(Some(&seed)) = seeds.next() else { return range.is_empty() };
            seeds.all(|other| other == Some(&seed))
                && ModelContent { seed, size }.segment(*segment, verify) == *digest
        };
        left.into_iter().filter(|(segment, digest)| holds(segment, digest)).collect()
    }

    /// What is left of this version of a file.
    pub fn left(noted: Noted, entry: &Entry) -> Option<Left> {
        let Noted { version: noted_of, segments, root } = noted;
        let mut left = Left::default();
        (left.segments, left.root) = (segments, root);
        (noted_of == version(entry) && (!left.segments.is_empty() || root.is_some())).then_some(left)
    }

    /// Notes down verified segments.
    pub fn note(&mut self, entry: &Entry, segments: Vec<(u64, Digest)>, root: Option<Digest>) {
        let noted = self.journal.entry(path_of(entry).to_owned()).or_default();
        if noted.version != version(entry) {
            *noted = Noted { version: version(entry), ..Noted::default() };
        }
        noted.segments.extend(segments);
        noted.root = root.or(noted.root);
    }

    /// Gives a file its name, which holds one content, the one that was `listed`.
    pub fn publish(&mut self, entry: &Entry, listed: ModelContent, only_new: bool) -> Result<()> {
        let path = path_of(entry);
        self.faults.check(Deed::Commit, path)?;
        if only_new && self.tree.get(path).is_some() {
            return Err(Error::new(ErrorKind::Changed, format!("{path} is there by now")));
        }
        if !self.tree.has_parent_of(path) {
            return Err(Error::new(ErrorKind::NotFound, format!("{path} is in no directory")));
        }
        let part = self.parts.remove(path).expect("an unfinished file");
        let blocks = (0..listed.size).step_by(BLOCK as usize).map(|offset| (offset, listed.seed));
        assert_eq!(part.blocks, blocks.collect(), "{path} gets its name, and is not what was listed");
        assert_eq!(part.size, listed.size, "{path}");
        self.change("sent", path);
        let node = self.tree.put(path, Node::new(What::File(listed), entry.mtime.seconds));
        node.mode = entry.mode;
        Ok(())
    }

    /// Removes an unfinished file, and what is noted down of it.
    pub fn discard(&mut self, entry: &Entry) {
        self.journal.remove(path_of(entry));
        self.parts.remove(path_of(entry));
    }

    /// Removes what only an unfinished transfer needs.
    pub fn clean_up(&mut self) {
        self.parts.clear();
        self.journal.clear();
        self.directories.clear();
    }
}
