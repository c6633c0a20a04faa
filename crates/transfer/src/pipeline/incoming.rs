//! One file on its way in: which blocks are written, what the sender says they hash to, and what
//! follows from both.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::error::{Error, Result};
use crate::hash::{Digest, FileHash, SomeBlocks, block_digest};
use crate::manifest::{
    BLOCK, Entry, FileId, Fingerprint, Kind, SEGMENT, missing, missing_within, segment_count, segment_range,
};
use crate::quota::{Held, Quota, remember, too_much_to_remember};
use crate::store::split_part::SplitPart;
use crate::store::{Sink, SinkFile};
use crate::sys::sync::{Mutex, MutexGuard, OnceLock};
use crate::terms::Verify;

/// What a hash that waits for its segment takes in memory, about, and the steps that what changes is counted in.
const EXPECTED: usize = 96;
const STEP: usize = 256;

/// A file on its way in.
pub struct Incoming {
    /// Its number.
    pub id: FileId,
    /// What it is.
    pub entry: Arc<Entry>,
    /// Its size in bytes.
    pub size: u64,
    /// Bytes that were there from an earlier run.
    pub kept: u64,
    verify: Verify,
    /// Whether an earlier run's unfinished file is continued.
    resumed: bool,
    state: Mutex<State>,
    ended: AtomicBool,
    /// Why some of what was written may be missing from the medium.
    unsynced: Arc<OnceLock<Error>>,
    /// Whether a writer is at it right now.
    busy: AtomicBool,
    /// What of it is moved here, if others move the rest.
    portion: Option<Portion>,
}

/// What one transfer moves of a file of which others move the rest.
#[derive(Debug)]
pub struct Portion {
    /// The unfinished file.
    pub part: Arc<SplitPart>,
    /// Segments that are this transfer's, in order.
    pub wanted: Vec<Range<u64>>,
    /// Whether the file gets its name once they are there.
    pub completes: bool,
}

impl Portion {
    /// The bytes that are this transfer's in a file of `size` of them.
    fn bytes(&self, size: u64) -> Vec<Range<u64>> {
        let of = |range: &Range<u64>| range.start * SEGMENT..(range.end * SEGMENT).min(size);
        self.wanted.iter().map(of).collect()
    }

    /// Whether a segment is this transfer's.
    pub fn wants(&self, segment: u64) -> bool {
        self.wanted.iter().any(|range| range.contains(&segment))
    }
}

impl AsRef<Self> for Incoming {
    fn as_ref(&self) -> &Self {
        self
    }
}

struct State {
    /// Blocks that are written, with their hashes.
    hash: FileHash,
    /// What the sender says segments hash to, until they are complete.
    expected: HashMap<u64, Digest>,
    /// Which segments are verified, and how many are not.
    verified: HashSet<u64>,
    unverified: u64,
    /// Blocks being written right now: a second copy of one must not overwrite what was hashed.
    writing: HashSet<u64>,
    /// Segments verified and not yet in the journal.
    fresh: Vec<(u64, Digest)>,
    /// What it is recorded as, if that is another version than it was begun as.
    version: Option<Fingerprint>,
    part: Option<Arc<dyn SinkFile>>,
    /// Whether it has been opened in this run: what is in it stays.
    opened: bool,
    /// What the file takes in memory while nothing has come of it, and what it takes with segments in work and
    /// hashes.
    base: usize,
    held: Held,
}

/// An unfinished file whose descriptor counts as one of the peer's. Where it could not be made durable once it cannot be
/// later, opened anew or not: the system forgets what it could not write, and says so once.
struct Counted {
    file: Box<dyn SinkFile>,
    unsynced: Arc<OnceLock<Error>>,
    _descriptor: Option<Held>,
}

impl SinkFile for Counted {
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.file.write_at(offset, data)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.file.read_at(offset, buffer)
    }

    fn clone_range(&self, file: BorrowedFd<'_>, range: Range<u64>) -> bool {
        self.file.clone_range(file, range)
    }

    fn zero_at(&self, offset: u64, length: u64) -> Result<()> {
        self.file.zero_at(offset, length)
    }

    fn spoiled(&self) {
        self.file.spoiled();
    }

    fn seal(&self, entry: &Entry) -> Result<()> {
        self.file.seal(entry)
    }

    fn sync(&self) -> Result<()> {
        match self.unsynced.get() {
            Some(error) => Err(error.clone()),
            None => self.file.sync().inspect_err(|error| drop(self.unsynced.set(error.clone()))),
        }
    }
}

/// What a written block or a hash changed.
#[derive(Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing yet.
    Nothing,
    /// A first segment since the last checkpoint is verified.
    Checkpoint,
    /// Everything is verified.
    Complete,
    /// This range does not hash to what the sender says, and is forgotten.
    Damaged(Range<u64>),
}

impl Incoming {
    /// A file of which these segments are `left` from an earlier run, if its unfinished file is.
    ///
    /// # Errors
    ///
    /// `Busy` if `metadata` have no room for what the sender says of it.
    pub fn new(
        id: FileId,
        entry: impl Into<Arc<Entry>>,
        verify: Verify,
        left: Option<HashMap<u64, Digest>>,
        metadata: &Arc<Quota>,
    ) -> Result<Self> {
        Self::of_portion(id, entry, verify, left, None, metadata)
    }

    /// The same for a file of which just a `portion` may be this transfer's.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub(crate) fn of_portion(
        id: FileId,
        entry: impl Into<Arc<Entry>>,
        verify: Verify,
        left: Option<HashMap<u64, Digest>>,
        portion: Option<Portion>,
        metadata: &Arc<Quota>,
    ) -> Result<Self> {
        let entry = entry.into();
        let base = size_of::<Self>() + entry.memory();
        let held = remember(metadata, base)?;
        let size = entry.size();
        let mut hash = FileHash::new(size);
        let resumed = left.is_some();
        for (segment, digest) in left.into_iter().flatten() {
            hash.add_segment(segment, digest);
        }
        if size == 0 {
            hash.add_block(0, block_digest(&[], 0, 0));
        }
        let verified: HashSet<u64> = hash.segments().map(|(index, _)| index).collect();
        let (unverified, kept) = match &portion {
            None => {
                let kept = hash.ranges().iter().map(|range| range.end - range.start).sum();
                (segment_count(size) - verified.len() as u64, kept)
            }
            Some(portion) => {
                let missing = missing_within(&portion.bytes(size), &hash.ranges());
                let (mut segments, mut bytes) = (0, 0);
                for range in missing {
                    segments += (range.end - range.start).div_ceil(SEGMENT);
                    bytes += range.end - range.start;
                }
                (segments, size - bytes)
            }
        };
        let state = State {
            hash,
            expected: HashMap::new(),
            verified,
            unverified,
            writing: HashSet::new(),
            fresh: Vec::new(),
            version: None,
            part: None,
            opened: false,
            base,
            held,
        };
        Ok(Self {
            id,
            entry,
            size,
            kept,
            verify,
            resumed,
            state: Mutex::new(state),
            ended: AtomicBool::new(false),
            unsynced: Arc::default(),
            busy: AtomicBool::new(false),
            portion,
        })
    }

    /// The same with these blocks of other segments, by where they begin.
    pub fn with_blocks(self, blocks: impl IntoIterator<Item = (u64, Digest)>) -> Self {
        let mut kept = self.kept;
        {
            let mut state = self.lock();
            for (offset, digest) in blocks.into_iter().filter(|(offset, _)| *offset < self.size) {
                if !state.hash.has_block(offset) && state.hash.add_block(offset, digest).is_none() {
                    kept += BLOCK.min(self.size - offset);
                }
            }
        }
        Self { kept, ..self }
    }

    /// What is there of segments that are not complete.
    pub fn incomplete(&self) -> Vec<SomeBlocks> {
        self.lock().hash.incomplete()
    }

    /// The bytes that are not there.
    pub fn absent(&self) -> Vec<Range<u64>> {
        missing(self.size, &self.lock().hash.blocks())
    }

    /// What of it is moved here, if others move the rest.
    pub fn portion(&self) -> Option<&Portion> {
        self.portion.as_ref()
    }

    /// What of its portion is still to be moved, in at most `most` ranges; some of what is there lies in the last if there
    /// are more.
    pub fn missing(&self, most: usize) -> Vec<Range<u64>> {
        let wanted = self.portion.as_ref().map(|portion| portion.bytes(self.size)).unwrap_or_default();
        let mut missing = missing_within(&wanted, &self.lock().hash.ranges());
        if let (Some(last), true) = (missing.last().cloned(), missing.len() > most) {
            missing.truncate(most);
            missing.last_mut().into_iter().for_each(|range| range.end = last.end);
        }
        missing
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Says that the file is committed or given up; what still arrives of it is ignored.
    pub fn end(&self) {
        // Not while the unfinished file is being opened: another may be about to take its place.
        let mut state = self.lock();
        self.ended.store(true, Relaxed);
        // It may be known for as long as others are that came with it, and its descriptor is wanted for those.
        state.part = None;
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        self.ended.load(Relaxed)
    }

    /// Takes the file for one writer; `false` if another one is at it. Most file systems let only one
    /// write to a file at a time, and the others would spin.
    pub(crate) fn occupy(&self) -> bool {
        !self.busy.swap(true, Relaxed)
    }

    /// Lets other writers have the file.
    pub fn leave(&self) {
        self.busy.store(false, Relaxed);
    }

    /// Whether everything is verified.
    pub fn is_complete(&self) -> bool {
        self.lock().unverified == 0
    }

    /// The root hash over what was said of each block, once complete.
    pub fn whole(&self) -> Option<Digest> {
        self.lock().hash.root()
    }

    /// Where the blocks that are written without a gap from `offset` on end.
    pub fn written_from(&self, offset: u64) -> u64 {
        self.lock().hash.contiguous(offset)
    }

    /// The root hash once complete; zeros if none was asked for.
    pub fn root(&self) -> Digest {
        match self.verify {
            Verify::Blake3 => self.lock().hash.root().unwrap_or_default(),
            Verify::Block => Digest::default(),
        }
    }

    /// Whether the unfinished file is open.
    pub fn is_open(&self) -> bool {
        self.lock().part.is_some()
    }

    /// Closes the unfinished file, if nobody needs it right now: it is opened again when it is. Answers with whether it
    /// is open, and whether it was.
    pub(crate) fn close_idle(&self) -> (bool, bool) {
        let Some(mut state) = self.state.try_lock() else { return (true, true) };
        let Some(part) = &state.part else { return (false, false) };
        // Of a file that others sync, too, it could miss what the system says once: that something was not written.
        if self.portion.is_some() {
            return (true, true);
        }
        if Arc::strong_count(part) > 1 || !state.writing.is_empty() || !state.fresh.is_empty() {
            return (true, true);
        }
        state.part = None;
        (false, true)
    }

    /// The unfinished file, opened on first use with a `descriptor` of the peer's, for writing the block at `offset`;
    /// `None` if that is written already or being written, or the file has ended. [`written`](Self::written) must
    /// follow.
    pub(crate) fn part_for(
        &self,
        offset: u64,
        sink: &dyn Sink,
        descriptor: Option<Held>,
    ) -> Result<Option<Arc<dyn SinkFile>>> {
        let mut state = self.lock();
        let is_others = self.portion.as_ref().is_some_and(|portion| !portion.wants(offset / SEGMENT));
        if self.has_ended() || is_others || state.hash.has_block(offset) || state.writing.contains(&offset) {
            return Ok(None);
        }
        let part = self.open(&mut state, sink, descriptor)?;
        state.writing.insert(offset);
        Ok(Some(part))
    }

    /// The unfinished file, opened on first use with a `descriptor` of the peer's.
    pub fn part(&self, sink: &dyn Sink, descriptor: Option<Held>) -> Result<Arc<dyn SinkFile>> {
        self.open(&mut self.lock(), sink, descriptor)
    }

    /// The unfinished file, for all of `range` to be put into it at once; `None` where something of that is written
    /// already or being written, the file has ended, or others write to it, too.
    pub(crate) fn part_for_all(
        &self,
        range: Range<u64>,
        sink: &dyn Sink,
        descriptor: Option<Held>,
    ) -> Result<Option<Arc<dyn SinkFile>>> {
        let mut state = self.lock();
        let blocks = || (range.start..range.end).step_by(BLOCK as usize);
        let is_begun = |offset| state.hash.has_block(offset) || state.writing.contains(&offset);
        if self.has_ended() || self.portion.is_some() || range.end > self.size || blocks().any(is_begun) {
            return Ok(None);
        }
        self.open(&mut state, sink, descriptor).map(Some)
    }

    fn open(
        &self,
        state: &mut State,
        sink: &dyn Sink,
        descriptor: Option<Held>,
    ) -> Result<Arc<dyn SinkFile>> {
        if let Some(part) = &state.part {
            return Ok(Arc::clone(part));
        }
        let file = match &self.portion {
            Some(portion) => portion.part.file()?,
            None => sink.open(&self.entry, self.resumed || state.opened)?,
        };
        let part: Arc<dyn SinkFile> =
            Arc::new(Counted { file, unsynced: Arc::clone(&self.unsynced), _descriptor: descriptor });
        (state.part, state.opened) = (Some(Arc::clone(&part)), true);
        Ok(part)
    }

    /// The block at `offset` is written.
    pub fn written(&self, offset: u64, digest: Digest) -> Result<Change> {
        let mut state = self.lock();
        state.writing.remove(&offset);
        let completed = state.hash.add_block(offset, digest);
        state.count()?;
        Ok(completed.map_or(Change::Nothing, |(segment, _)| self.verify(&mut state, segment)))
    }

    /// The sender says what a segment hashes to.
    pub fn expect(&self, segment: u64, digest: Digest) -> Result<Change> {
        if segment >= segment_count(self.size) {
            return Err(Error::protocol("a hash of a segment that does not exist"));
        }
        if self.portion.as_ref().is_some_and(|portion| !portion.wants(segment)) {
            return Ok(Change::Nothing);
        }
        let mut state = self.lock();
        state.expected.insert(segment, digest);
        let change = self.verify(&mut state, segment);
        state.count()?;
        Ok(change)
    }

    /// Compares a segment with what the sender says, once both are known.
    fn verify(&self, state: &mut State, segment: u64) -> Change {
        let Some(ours) = state.hash.segment(segment) else { return Change::Nothing };
        if state.verified.contains(&segment) {
            return Change::Nothing;
        }
        if self.verify == Verify::Blake3 {
            let Some(theirs) = state.expected.get(&segment) else { return Change::Nothing };
            if ours != *theirs {
                state.hash.drop_segment(segment);
                if let Some(part) = &state.part {
                    part.spoiled();
                }
                return Change::Damaged(segment_range(segment, self.size));
            }
            state.expected.remove(&segment);
        }
        state.verified.insert(segment);
        state.unverified -= 1;
        state.fresh.push((segment, ours));
        match (state.unverified, state.fresh.len()) {
            (0, _) => Change::Complete,
            (_, 1) => Change::Checkpoint,
            _ => Change::Nothing,
        }
    }

    /// It is recorded as this `version` from now on, and what was verified before is recorded anew.
    pub fn relabel(&self, version: Fingerprint) {
        let mut state = self.lock();
        state.version = Some(version);
        state.fresh = state.hash.segments().filter(|(segment, _)| state.verified.contains(segment)).collect();
    }

    /// What it is recorded as.
    pub fn recorded(&self) -> Arc<Entry> {
        match (self.lock().version, self.entry.kind.clone()) {
            (Some(fingerprint), Kind::File { size, .. }) => {
                Arc::new(Entry { kind: Kind::File { size, fingerprint }, ..(*self.entry).clone() })
            }
            _ => Arc::clone(&self.entry),
        }
    }

    /// How much of it is verified.
    pub(crate) fn verified_bytes(&self) -> u64 {
        let state = self.lock();
        state.verified.iter().map(|&segment| segment_range(segment, self.size)).map(|r| r.end - r.start).sum()
    }

    /// Segments verified since the last time, and the file they are in; `None` if it has ended.
    pub(crate) fn take_fresh(&self) -> Option<(Arc<dyn SinkFile>, Vec<(u64, Digest)>)> {
        let mut state = self.lock();
        let fresh = std::mem::take(&mut state.fresh);
        let part = state.part.clone()?;
        (!self.has_ended()).then_some((part, fresh))
    }
}

impl State {
    /// Counts what a peer can make grow by leaving it unfinished.
    fn count(&mut self) -> Result<()> {
        let bytes = self.base + self.hash.unfinished_bytes() + self.expected.len() * EXPECTED;
        match self.held.resize(bytes.next_multiple_of(STEP)) {
            true => Ok(()),
            false => Err(too_much_to_remember(self.held.quota())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::Timestamp;
    use crate::path::RelPath;
    use crate::store::memory::NullSink;

    fn incoming(size: u64, verify: Verify, left: Option<HashMap<u64, Digest>>) -> Incoming {
        let kind = Kind::File { size, fingerprint: [0; 16] };
        let path = RelPath::new(*b"file").expect("a name");
        let entry = Entry::new(path, kind, 0o644, Timestamp::default());
        Incoming::new(1, entry, verify, left, &Quota::new(64 << 10)).expect("room")
    }

    #[test]
    fn a_file_is_complete_once_written_and_vouched_for_in_either_order() {
        let data = vec![7; BLOCK as usize];
        let digest = block_digest(&data, 0, BLOCK);
        let file = incoming(BLOCK, Verify::Blake3, None);
        assert_eq!(file.written(0, digest), Ok(Change::Nothing));
        assert_eq!(file.expect(0, digest), Ok(Change::Complete));
        assert_eq!(file.expect(0, digest), Ok(Change::Nothing), "said twice");
        let file = incoming(BLOCK, Verify::Blake3, None);
        assert_eq!(file.expect(0, digest), Ok(Change::Nothing));
        assert_eq!(file.written(0, digest), Ok(Change::Complete));
        assert_eq!(file.root(), *blake3::hash(&data).as_bytes());
        assert!(file.expect(1, digest).is_err());
    }

    #[test]
    fn a_wrong_segment_must_come_again() {
        let right = block_digest(&[1; 10], 0, 10);
        let file = incoming(10, Verify::Blake3, None);
        file.written(0, block_digest(&[2; 10], 0, 10)).expect("room");
        assert_eq!(file.expect(0, right), Ok(Change::Damaged(0..10)));
        assert_eq!(file.written(0, right), Ok(Change::Complete));
    }

    #[test]
    fn what_is_left_needs_no_second_proof() {
        let left = HashMap::from([(0, [9; 32]), (77, [1; 32])]);
        let file = incoming(2 * SEGMENT, Verify::Block, Some(left));
        assert_eq!(
            (file.kept, file.lock().hash.segments().collect::<Vec<_>>()),
            (SEGMENT, vec![(0, [9; 32])])
        );
        assert!(!file.is_complete());
        for block in 0..SEGMENT / BLOCK - 1 {
            assert_eq!(file.written(SEGMENT + block * BLOCK, [0; 32]), Ok(Change::Nothing));
        }
        assert_eq!(file.written(2 * SEGMENT - BLOCK, [0; 32]), Ok(Change::Complete));
    }

    #[test]
    fn what_is_relabelled_is_recorded_anew_as_the_other_version() {
        let file = incoming(2 * SEGMENT, Verify::Block, Some(HashMap::from([(0, [9; 32])])));
        file.part(&NullSink, None).expect("opened");
        let of = |entry: &Entry| match entry.kind {
            Kind::File { fingerprint, .. } => fingerprint,
            _ => panic!("a file"),
        };
        assert_eq!(
            (of(&file.recorded()), file.take_fresh().map(|(_, fresh)| fresh)),
            ([0; 16], Some(vec![]))
        );
        file.relabel([1; 16]);
        assert_eq!(of(&file.recorded()), [1; 16]);
        assert_eq!(file.take_fresh().map(|(_, fresh)| fresh), Some(vec![(0, [9; 32])]));
    }

    #[test]
    fn a_file_that_has_ended_gives_its_descriptor_back_though_others_know_it_still() {
        let (file, descriptors) = (incoming(10, Verify::Blake3, None), Quota::new(1));
        file.part(&NullSink, descriptors.take(1)).expect("opened");
        assert!(descriptors.take(1).is_none() && file.is_open());
        file.end();
        assert!(descriptors.take(1).is_some() && !file.is_open());
    }

    #[test]
    fn an_empty_file_is_complete_at_once() {
        let file = incoming(0, Verify::Blake3, None);
        assert!(file.is_complete());
        assert_eq!(file.root(), *blake3::hash(b"").as_bytes());
    }

    #[test]
    fn what_is_left_unfinished_is_bounded_whatever_size_is_claimed() {
        let file = incoming(1 << 50, Verify::Blake3, None);
        let refused = (0..10_000).find(|&segment| file.expect(segment, [1; 32]).is_err());
        assert!(refused.is_some_and(|hashes| hashes > 500), "{refused:?}");
        let file = incoming(1 << 50, Verify::Blake3, None);
        let refused = (0..10_000).find(|&segment| file.written(segment * SEGMENT, [1; 32]).is_err());
        assert!(refused.is_some_and(|segments| segments > 100), "{refused:?}");
        // What is complete takes nothing of it.
        let file = incoming(1 << 50, Verify::Block, None);
        for block in 0..32 * 2000 {
            file.written(block * BLOCK, [1; 32]).expect("room");
        }
    }

    #[test]
    fn blocks_that_an_earlier_run_left_do_not_come_again() {
        let file = incoming(2 * SEGMENT, Verify::Block, Some(HashMap::new()));
        let file = file.with_blocks([(BLOCK, [1; 32]), (SEGMENT, [2; 32]), (2 * SEGMENT, [3; 32])]);
        assert_eq!(file.kept, 2 * BLOCK, "what lies beyond it is none of it");
        let absent = [0..BLOCK, 2 * BLOCK..SEGMENT, SEGMENT + BLOCK..2 * SEGMENT];
        assert_eq!(file.absent(), absent);
        assert_eq!(file.incomplete().iter().map(|some| some.have).sum::<u32>(), 0b11);
        for offset in absent.into_iter().flat_map(|range| range.step_by(BLOCK as usize)) {
            let _ = file.written(offset, [0; 32]);
        }
        assert!(file.is_complete() && file.absent().is_empty() && file.incomplete().is_empty());
    }
}
