//! What of an unfinished transfer is already safe, so that the next run continues from it.
//!
//! A record is written only after the bytes it speaks of are durable. Parts are named by their place
//! at the destination and hold for one version of the source file only.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::hash::{Digest, SomeBlocks};
use crate::manifest::{self, BLOCK, Entry, Fingerprint, Kind, Timestamp};
use crate::path::RelPath;
use crate::quota::{Held, Quota};
use crate::record_log::{RecordLog, Replay};
use crate::store::work_dir::JOURNAL;
use crate::sys::confined::Root;

const MAGIC: &[u8; 8] = b"TGJRNL02";

/// The first half of the hash of an entry's path.
type Key = [u8; 16];

#[derive(Clone, Debug, Serialize, Deserialize)]
enum Record {
    /// A directory whose mode and times are set at the end.
    Directory(DirectoryRecord),
    /// Segments of one version of a file, verified and durable.
    Segments { file: Key, version: Fingerprint, digests: Vec<(u64, Digest)> },
    /// A file is complete and about to get its name.
    Ready { file: Key, version: Fingerprint, root: Digest },
    /// What was said of a file holds no longer: it is received anew, from its first byte.
    Anew { file: Key },
    /// Blocks of segments that were not complete when a run ended, durable.
    Blocks { file: Key, version: Fingerprint, blocks: Vec<SomeBlocks> },
}

/// An entry without its extras.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct DirectoryRecord {
    path: RelPath,
    kind: Kind,
    mode: u32,
    mtime: Timestamp,
}

/// What an earlier run left of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Left {
    version: Fingerprint,
    /// Verified segments.
    pub segments: HashMap<u64, Digest>,
    /// The root hash, if the file was complete.
    pub root: Option<Digest>,
    /// Blocks of other segments, of a download alone.
    pub blocks: HashMap<u64, SomeBlocks>,
}

/// What an earlier run left of files, by the first half of the hash of their paths.
#[derive(Debug)]
pub(crate) struct Leftovers {
    left: HashMap<Key, Left>,
    /// What that takes in memory.
    held: Held,
    /// Records that there was no memory for.
    forgotten: usize,
    /// Whether earlier runs have remembered directories.
    has_directories: bool,
}

/// Directories of which a later record is known.
#[derive(Debug)]
struct LaterDirectories {
    known: HashSet<Key>,
    /// What that takes in memory.
    held: Held,
    /// Whether there was room for all of them.
    is_whole: bool,
}

/// The journal of one transfer, locked while it runs.
#[derive(Debug)]
pub struct Journal {
    log: RecordLog<Record>,
    leftovers: Leftovers,
    /// How many directories this run has remembered.
    directories: usize,
    metadata: Arc<Quota>,
}

/// What is left of one file takes in memory, and one segment of it, about.
const LEFT: usize = 160;
const SEGMENT: usize = 64;

/// And a directory of which a later record is known.
const DIRECTORY: usize = 40;

impl Left {
    /// The segments of a file of `size` bytes: a small file's only segment is its root.
    pub fn into_segments(self, size: u64) -> HashMap<u64, Digest> {
        let mut segments = self.segments;
        if let (true, Some(root)) = (size <= manifest::SEGMENT, self.root.filter(|root| *root != [0; 32])) {
            segments.insert(0, root);
        }
        segments
    }

    fn memory(&self) -> usize {
        LEFT + (self.segments.len() + self.blocks.len()) * SEGMENT
    }
}

impl Leftovers {
    /// What the journal in `work` tells, which may be in use; nothing is changed.
    pub fn read(work: &Root, metadata: &Arc<Quota>) -> Result<Self> {
        let mut leftovers = Self::none(metadata);
        RecordLog::read(work, JOURNAL, MAGIC, |shown| leftovers.add(shown))?;
        Ok(leftovers.whole())
    }

    fn none(metadata: &Arc<Quota>) -> Self {
        let held = metadata.take(0).expect("nothing is always left");
        Self { left: HashMap::new(), held, forgotten: 0, has_directories: false }
    }

    fn add(&mut self, shown: Replay<Record>) {
        match shown {
            Replay::Length(_) => {}
            Replay::Record(Record::Directory(_)) => self.has_directories = true,
            Replay::Record(Record::Anew { file }) => drop(self.left.remove(&file)),
            Replay::Record(Record::Segments { file, version, digests }) => {
                if let Some(state) = self.state(file, version, digests.len()) {
                    state.segments.extend(digests);
                }
            }
            Replay::Record(Record::Blocks { file, version, blocks }) => {
                if let Some(state) = self.state(file, version, blocks.len()) {
                    state.blocks.extend(blocks.into_iter().map(|some| (some.segment, some)));
                }
            }
            Replay::Record(Record::Ready { file, version, root }) => {
                if let Some(state) = self.state(file, version, 0) {
                    state.root = Some(root);
                }
            }
            Replay::Void => {
                self.left.clear();
                self.has_directories = false;
            }
        }
    }

    /// What is left of this version of a file, with room for `more` segments; `None` where there is no memory for it.
    fn state(&mut self, file: Key, version: Fingerprint, more: usize) -> Option<&mut Left> {
        let before = self.left.get(&file).map_or(0, Left::memory);
        let after = before.max(LEFT) + more * SEGMENT;
        if !self.held.resize(self.held.amount() + after - before) {
            self.forgotten += 1;
            return None;
        }
        let state = self.left.entry(file).or_default();
        if state.version != version {
            *state = Left { version, ..Left::default() };
        }
        Some(state)
    }

    /// Everything was added.
    fn whole(mut self) -> Self {
        if self.forgotten > 0 {
            tracing::warn!(
                "{} records of an unfinished transfer are not used: there is no memory for them",
                self.forgotten
            );
        }
        // What turned out to hold no longer takes nothing.
        self.held.resize(self.left.values().map(Left::memory).sum());
        self
    }

    /// What is left of this version of `entry`; asked once a file.
    pub fn take(&mut self, entry: &Entry) -> Option<Left> {
        let left = self.left.remove(&key(entry))?;
        self.held.resize(self.held.amount().saturating_sub(left.memory()));
        let empty = left.segments.is_empty() && left.root.is_none() && left.blocks.is_empty();
        (Some(left.version) == version(entry) && !empty).then_some(left)
    }
}

impl LaterDirectories {
    fn none(metadata: &Arc<Quota>) -> Self {
        let held = metadata.take(0).expect("nothing is always left");
        Self { known: HashSet::new(), held, is_whole: true }
    }

    /// Whether `path` was not known.
    fn add(&mut self, path: &RelPath) -> bool {
        self.is_whole = self.is_whole && self.held.resize(self.held.amount() + DIRECTORY);
        self.is_whole && self.known.insert(path_key(path))
    }
}

impl Journal {
    /// Opens the journal in `work`, with what earlier runs left, as far as `metadata` have room for it: what has none is
    /// as if it had not been recorded.
    pub fn open(work: &Root, metadata: &Arc<Quota>) -> Result<Self> {
        let mut leftovers = Leftovers::none(metadata);
        let log = RecordLog::open(work, JOURNAL, MAGIC, |shown| leftovers.add(shown))?;
        let metadata = Arc::clone(metadata);
        Ok(Self { log, leftovers: leftovers.whole(), directories: 0, metadata })
    }

    /// What is left of this version of `entry` from an earlier run; asked once a file.
    pub fn take_left(&mut self, entry: &Entry) -> Option<Left> {
        self.leftovers.take(entry)
    }

    /// Whether an earlier run left something, of whatever version, of the file at `path`.
    pub fn has_left(&self, path: &RelPath) -> bool {
        self.leftovers.left.contains_key(&path_key(path))
    }

    /// Of which version an earlier run left something of the file at `path`, unless it was [taken](Self::take_left).
    pub fn left_version(&self, path: &RelPath) -> Option<Fingerprint> {
        self.leftovers.left.get(&path_key(path)).map(|left| left.version)
    }

    /// About how much an earlier run left of the file at `path`, unless it was [taken](Self::take_left).
    pub fn left_bytes(&self, path: &RelPath) -> u64 {
        let Some(left) = self.leftovers.left.get(&path_key(path)) else { return 0 };
        let blocks = left.blocks.values().filter(|some| !left.segments.contains_key(&some.segment));
        let blocks: u64 = blocks.map(|some| u64::from(some.have.count_ones()) * BLOCK).sum();
        left.segments.len() as u64 * manifest::SEGMENT + blocks
    }

    /// The root hash of this version of `entry`, if an earlier run had it complete.
    pub fn left_root(&self, entry: &Entry) -> Option<Digest> {
        let left = self.leftovers.left.get(&key(entry))?;
        left.root.filter(|_| Some(left.version) == version(entry))
    }

    /// Records that what earlier runs left of these is not used, and makes that durable before an unfinished file
    /// is made anew: else the next run would take the holes in it for verified bytes.
    pub fn anew<'e>(&mut self, entries: impl Iterator<Item = &'e Entry>) -> Result<()> {
        let records: Vec<Record> = entries.map(|entry| Record::Anew { file: key(entry) }).collect();
        if records.is_empty() {
            return Ok(());
        }
        self.log.append(&records)?;
        self.log.sync()
    }

    /// Records that complete files have their names and are remembered elsewhere: nothing is left of them
    /// here, and a long list takes no memory for them in the next run.
    pub fn settled<'e>(&mut self, files: impl Iterator<Item = &'e Entry>) -> Result<()> {
        let records: Vec<Record> = files.map(|entry| Record::Anew { file: key(entry) }).collect();
        self.log.append(&records)
    }

    /// Remembers a directory for the end of the transfer.
    pub fn directory(&mut self, entry: &Entry) -> Result<()> {
        self.directories += 1;
        let Entry { path, kind, mode, mtime, .. } = entry.clone();
        self.log.append([&Record::Directory(DirectoryRecord { path, kind, mode, mtime })])
    }

    /// Records durable segments of files.
    pub fn segments<'e>(
        &mut self,
        files: impl Iterator<Item = (&'e Entry, Vec<(u64, Digest)>)>,
    ) -> Result<()> {
        let records: Vec<Record> = files
            .filter_map(|(entry, digests)| {
                Some(Record::Segments { file: key(entry), version: version(entry)?, digests })
            })
            .collect();
        self.log.append(&records)
    }

    /// Records durable blocks of segments that are not complete, of files that a run leaves so.
    pub fn blocks<'e>(&mut self, files: impl Iterator<Item = (&'e Entry, Vec<SomeBlocks>)>) -> Result<()> {
        let records: Vec<Record> = files
            .filter(|(_, blocks)| !blocks.is_empty())
            .filter_map(|(entry, blocks)| {
                Some(Record::Blocks { file: key(entry), version: version(entry)?, blocks })
            })
            .collect();
        self.log.append(&records)
    }

    /// Records files that are complete, durable and about to get their names.
    pub fn ready<'e>(&mut self, files: impl Iterator<Item = (&'e Entry, Digest)>) -> Result<()> {
        let records: Vec<Record> = files
            .filter_map(|(entry, root)| {
                Some(Record::Ready { file: key(entry), version: version(entry)?, root })
            })
            .collect();
        self.log.append(&records)
    }

    /// Makes what was recorded durable.
    pub fn sync(&mut self) -> Result<()> {
        self.log.sync()
    }

    /// Shows the directories remembered, the last one first: what lies in a directory comes before it. What an earlier run
    /// remembered of one holds no longer where this run has seen it. Where there is no memory to tell, nothing of earlier
    /// runs is shown: what they made stays closed to others.
    pub fn directories(&self, mut found: impl FnMut(Entry)) -> Result<()> {
        let (mut later, mut ours) = (LaterDirectories::none(&self.metadata), self.directories);
        self.log.replay_back(MAGIC, |record| {
            let Record::Directory(DirectoryRecord { path, kind, mode, mtime }) = record else { return };
            let is_ours = ours > 0;
            ours = ours.saturating_sub(1);
            let is_last = self.leftovers.has_directories && later.add(&path);
            if is_ours || is_last {
                found(Entry::new(path, kind, mode, mtime));
            }
        })
    }
}

fn key(entry: &Entry) -> Key {
    path_key(&entry.path)
}

fn path_key(path: &RelPath) -> Key {
    blake3::hash(path.as_bytes()).as_bytes()[..16].try_into().expect("sixteen bytes")
}

fn version(entry: &Entry) -> Option<Fingerprint> {
    match entry.kind {
        Kind::File { fingerprint, .. } => Some(fingerprint),
        _ => None,
    }
}

#[cfg(test)]
impl Journal {
    /// Opens it once it is free: a process that another test starts has our lock for a moment.
    pub(crate) fn open_for_test(work: &Root, metadata: &Arc<Quota>) -> Self {
        loop {
            match Self::open(work, metadata) {
                Err(error) if error.kind == crate::error::ErrorKind::Busy => {
                    crate::sys::thread::sleep(std::time::Duration::from_millis(1));
                }
                opened => return opened.expect("opened"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::Timestamp;
    use crate::sys::confined::scratch;

    fn entry(name: &str, version: u8) -> Entry {
        let kind = Kind::File { size: 9, fingerprint: [version; 16] };
        let path = RelPath::new(name).expect("a name");
        Entry::new(path, kind, 0o644, Timestamp::default())
    }

    #[test]
    fn what_is_left_holds_for_one_version_until_it_is_settled() {
        let (_directory, work) = scratch();
        let (a, b, c) = (entry("a", 1), entry("b", 1), entry("c", 1));
        {
            let mut journal = Journal::open_for_test(&work, &Quota::unlimited());
            let segments = |file| (file, vec![(3, [7; 32])]);
            journal.segments([&a, &b, &c].map(segments).into_iter()).expect("written");
            journal.ready([(&a, [8; 32]), (&b, [8; 32])].into_iter()).expect("written");
            journal.settled([&b].into_iter()).expect("written");
            assert!(!journal.has_left(&a.path), "what this run wrote is not left from an earlier one");
        }
        let mut journal = Journal::open_for_test(&work, &Quota::unlimited());
        assert_eq!([&a, &b, &c].map(|file| journal.has_left(&file.path)), [true, false, true]);
        assert_eq!(journal.left_root(&a), Some([8; 32]));
        assert_eq!(journal.left_root(&entry("a", 2)), None, "of another version");
        assert_eq!(journal.left_version(&entry("a", 2).path), Some([1; 16]));
        assert_eq!(journal.take_left(&a).map(|left| left.segments), Some(HashMap::from([(3, [7; 32])])));
        assert_eq!(journal.take_left(&b), None);
        assert_eq!(journal.take_left(&entry("c", 2)), None, "of another version");
    }

    #[test]
    fn what_was_forgotten_stays_forgotten_whichever_bit_of_the_journal_flips() {
        let (directory, work) = scratch();
        let path = directory.path().join("journal");
        let (a, b) = (entry("a", 1), entry("b", 1));
        {
            let mut journal = Journal::open_for_test(&work, &Quota::unlimited());
            journal.segments([&a, &b].map(|file| (file, vec![(3, [7; 32])])).into_iter()).expect("written");
            journal.sync().expect("synced");
            journal.anew([&a].into_iter()).expect("written");
            // What comes now is no longer recorded when the machine stops.
            journal.segments([(&b, vec![(4, [7; 32])])].into_iter()).expect("written");
        }
        let whole = std::fs::read(&path).expect("read");
        for bit in 0..whole.len() * 8 {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(&path, &bytes).expect("written");
            let journal = Journal::open_for_test(&work, &Quota::unlimited());
            assert!(!journal.has_left(&a.path), "bit {bit}: the part of a is made anew since");
        }
        // A torn end costs what came after the last sync point, and no more.
        for torn in [whole.len() - 1, whole.len() - 20] {
            std::fs::write(&path, &whole[..torn]).expect("written");
            let mut journal = Journal::open_for_test(&work, &Quota::unlimited());
            let left = journal.take_left(&b).expect("left").segments;
            assert_eq!(left, HashMap::from([(3, [7; 32])]), "torn at {torn}");
        }
    }

    #[test]
    fn what_there_is_no_memory_for_is_as_if_it_had_not_been_recorded() {
        let (_directory, work) = scratch();
        let files: Vec<Entry> = (0..100).map(|number| entry(&format!("f{number}"), 1)).collect();
        {
            let mut journal = Journal::open_for_test(&work, &Quota::unlimited());
            let segments = files.iter().map(|file| (file, vec![(0, [7; 32]), (1, [8; 32])]));
            journal.segments(segments).expect("written");
        }
        let metadata = Quota::new(10 * (LEFT + 2 * SEGMENT));
        let mut journal = Journal::open_for_test(&work, &metadata);
        assert_eq!(metadata.used(), metadata.most());
        let left: Vec<Left> = files.iter().filter_map(|file| journal.take_left(file)).collect();
        assert!(left.len() == 10 && left.iter().all(|left| left.segments.len() == 2), "{}", left.len());
        assert_eq!(metadata.used(), 0, "what is taken is no longer held here");
    }

    fn directory(name: &str, mode: u32) -> Entry {
        Entry::new(RelPath::new(name).expect("a name"), Kind::Directory, mode, Timestamp::default())
    }

    /// What the directories of `journal` are given in the end.
    fn given(journal: &Journal) -> Vec<(String, u32)> {
        let mut given = Vec::new();
        let name = |entry: &Entry| String::from_utf8_lossy(entry.path.as_bytes()).into_owned();
        journal.directories(|entry| given.push((name(&entry), entry.mode))).expect("read");
        given
    }

    #[test]
    fn what_a_directory_is_by_now_holds_and_not_what_it_was_in_an_earlier_run() {
        let (_directory, work) = scratch();
        let run = |metadata: &Arc<Quota>, directories: &[(&str, u32)]| {
            let mut journal = Journal::open_for_test(&work, metadata);
            for (name, mode) in directories {
                journal.directory(&directory(name, *mode)).expect("written");
            }
            given(&journal)
        };
        let shown = |all: &[(&str, u32)]| all.iter().map(|(n, m)| ((*n).to_owned(), *m)).collect::<Vec<_>>();
        let metadata = Quota::new(4 * DIRECTORY);
        assert_eq!(run(&metadata, &[("a", 0o755), ("a/b", 0o755)]), shown(&[("a/b", 0o755), ("a", 0o755)]));
        assert_eq!(
            run(&metadata, &[("a", 0o700), ("c", 0o755)]),
            shown(&[("c", 0o755), ("a", 0o700), ("a/b", 0o755)])
        );
        // With too little memory earlier runs say nothing.
        let little = Quota::new(DIRECTORY);
        assert_eq!(run(&little, &[("a", 0o711), ("c", 0o711)]), shown(&[("c", 0o711), ("a", 0o711)]));
        assert_eq!((metadata.used(), little.used()), (0, 0));
    }

    #[test]
    fn that_a_file_begins_anew_is_durable_before_anything_is_done_about_it() {
        let (_directory, work) = scratch();
        let mut journal = Journal::open_for_test(&work, &Quota::unlimited());
        journal.anew([&entry("a", 1)].into_iter()).expect("written");
        assert!(journal.log.is_synced(), "a crash must not bring back what was forgotten");
        journal.settled([&entry("a", 1)].into_iter()).expect("written");
        assert!(!journal.log.is_synced(), "nothing depends on it");
    }

    #[test]
    fn the_journal_of_an_older_version_is_not_used() {
        let (directory, work) = scratch();
        let path = directory.path().join("journal");
        let a = entry("a", 1);
        let mut journal = Journal::open_for_test(&work, &Quota::unlimited());
        journal.segments([(&a, vec![(3, [7; 32])])].into_iter()).expect("written");
        drop(journal);
        let mut bytes = std::fs::read(&path).expect("read");
        bytes[..8].copy_from_slice(b"TGJRNL01");
        std::fs::write(&path, &bytes).expect("written");
        assert!(!Journal::open_for_test(&work, &Quota::unlimited()).has_left(&a.path));
    }
}
