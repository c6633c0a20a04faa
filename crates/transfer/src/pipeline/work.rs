//! What is left to read, handed out in pieces: a chunk of a large file, or a bundle of small ones.
//! Work is pulled, and when none is left an idle worker takes half of what the busiest one still has,
//! so that no slow last chunk is stranded. Workers keep to files of their own while there are enough: two
//! that write one file wait for each other in the kernel, which locks a file for each write.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::manifest::{BLOCK, SEGMENT};
use crate::pipeline::waits::WorkerTime;
use crate::sys::sync::{Condvar, Mutex, MutexGuard};

/// Most bytes and files in a bundle.
const BUNDLE_BYTES: u64 = SEGMENT;
const BUNDLE_FILES: usize = 256;

/// Longest chunk: as good as none, and far from the end of the numbers.
const MAX_CHUNK: u64 = 1 << 50;

/// How many pieces are looked at for a file that nobody works on.
const LOOK: usize = 256;

/// A range of one file.
#[derive(Debug)]
pub(crate) struct Piece<T> {
    /// The file.
    pub file: Arc<T>,
    /// What of it; starts at a block's start.
    pub range: Range<u64>,
    /// How it is handed out.
    pub division: Division,
}

/// How a piece is handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Division {
    /// A whole small file, bundled with others.
    Bundled,
    /// In chunks, of which others may take the end away.
    Chunks,
    /// To one worker at a time, front to back.
    Undivided,
}

/// A range given to one worker, from which others may take the end away.
#[derive(Debug)]
pub struct Claim<T> {
    /// The file.
    pub file: Arc<T>,
    left: Mutex<Range<u64>>,
    is_undivided: AtomicBool,
}

impl<T> Claim<T> {
    /// A claim on `range`, which starts at a block's start.
    pub fn new(file: Arc<T>, range: Range<u64>) -> Self {
        Self { file, left: Mutex::new(range), is_undivided: AtomicBool::new(false) }
    }

    /// The next block to read; `None` when nothing is left.
    pub fn next(&self) -> Option<Range<u64>> {
        let mut left = self.left.lock();
        if left.start >= left.end {
            return None;
        }
        let block = left.start..(left.start + BLOCK).min(left.end);
        left.start = block.end;
        Some(block)
    }

    /// It stays with one worker at a time from now on.
    pub fn keep_undivided(&self) {
        self.is_undivided.store(true, Relaxed);
    }

    /// Bytes left.
    pub fn remaining(&self) -> u64 {
        let left = self.left.lock();
        left.end.saturating_sub(left.start)
    }

    /// Whether nothing is left.
    pub fn is_done(&self) -> bool {
        self.remaining() == 0
    }

    /// What is left now; reading starts there.
    pub fn left(&self) -> Range<u64> {
        self.left.lock().clone()
    }

    /// Takes the second half away, in whole blocks; `None` if that is fewer than `least`, or it is handed out undivided.
    pub fn split(&self, least: u64) -> Option<Range<u64>> {
        if self.is_undivided.load(Relaxed) {
            return None;
        }
        let mut left = self.left.lock();
        let blocks = left.end.saturating_sub(left.start).div_ceil(BLOCK);
        if blocks < 2 * least.max(1) {
            return None;
        }
        let middle = left.start + blocks.div_ceil(2) * BLOCK;
        let taken = middle..left.end;
        left.end = middle;
        Some(taken)
    }

    /// Takes away all that is left.
    pub fn take_rest(&self) -> Range<u64> {
        let mut left = self.left.lock();
        let rest = left.clone();
        left.start = left.end;
        rest
    }
}

/// What a worker is given.
#[derive(Debug)]
pub(crate) enum Work<T> {
    /// A chunk of a file.
    Chunk(Arc<Claim<T>>),
    /// Whole small files.
    Bundle(Vec<Arc<T>>),
}

/// Whether a worker may be given work right now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It may.
    Take,
    /// Not yet: it waits, also if there is work.
    Wait,
    /// It has something else to do.
    Leave,
}

/// The queue of pieces.
#[derive(Debug)]
pub(crate) struct WorkQueue<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
    chunk: Option<u64>,
    /// Whether small files are bundled and last chunks shared out.
    shares: bool,
}

#[derive(Debug)]
struct State<T> {
    urgent: VecDeque<Piece<T>>,
    pieces: VecDeque<Piece<T>>,
    claims: Vec<Arc<Claim<T>>>,
    closed: bool,
}

impl<T> WorkQueue<T> {
    /// A queue that hands out chunks of `chunk` bytes, or whole files for `None`. Small files are
    /// bundled and last chunks shared out only if it `shares`, and never without chunks.
    pub fn new(chunk: Option<u64>, shares: bool) -> Self {
        let state =
            State { urgent: VecDeque::new(), pieces: VecDeque::new(), claims: Vec::new(), closed: false };
        let shares = shares && chunk.is_some();
        // Whole segments, so that a chunk's hashes are complete when it is.
        let chunk = chunk.map(|bytes| bytes.clamp(SEGMENT, MAX_CHUNK).next_multiple_of(SEGMENT));
        Self { state: Mutex::new(state), changed: Condvar::new(), chunk, shares }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock()
    }

    /// Queues pieces behind the others.
    pub fn push(&self, pieces: impl IntoIterator<Item = Piece<T>>) {
        let mut state = self.lock();
        let before = state.pieces.len();
        state.pieces.extend(pieces);
        let more = state.pieces.len() > before;
        drop(state);
        // Most verdicts on files that are there bring none, and idle workers sleep on.
        if more {
            self.changed.notify_all();
        }
    }

    /// Queues what must be sent again, before everything else.
    pub(crate) fn push_urgent(&self, file: Arc<T>, range: Range<u64>) {
        self.lock().urgent.push_back(Piece { file, range, division: Division::Chunks });
        // Whoever wakes may have to wait for its turn.
        self.changed.notify_all();
    }

    /// How many pieces wait to be sent again.
    pub fn urgent(&self) -> usize {
        self.lock().urgent.len()
    }

    /// The next work; waits until there is some and it is the worker's `turn`, `None` once closed or
    /// when it shall leave. A turn that changes needs a [`nudge`](Self::nudge). Its wait counts as `idle` time.
    pub fn take(&self, turn: impl Fn() -> Admission, idle: &Mutex<WorkerTime>) -> Option<Work<T>> {
        let mut state = self.lock();
        loop {
            if state.closed {
                return None;
            }
            match turn() {
                Admission::Take => {}
                Admission::Leave => return None,
                Admission::Wait => {
                    state = self.wait(state, idle);
                    continue;
                }
            }
            if let Some(piece) = state.urgent.pop_front() {
                return Some(self.claim(&mut state, piece, 0));
            }
            let next = state.next_piece();
            if let Some(piece) = state.pieces.remove(next) {
                return Some(self.claim(&mut state, piece, next));
            }
            if self.shares
                && let Some(work) = steal(&mut state)
            {
                return Some(work);
            }
            state = self.wait(state, idle);
        }
    }

    fn wait<'s>(
        &self,
        state: MutexGuard<'s, State<T>>,
        idle: &Mutex<WorkerTime>,
    ) -> MutexGuard<'s, State<T>> {
        idle.lock().begin();
        let state = self.changed.wait(state);
        idle.lock().end();
        state
    }

    /// Work on `piece`, which was the queue's `at`th.
    fn claim(&self, state: &mut State<T>, mut piece: Piece<T>, at: usize) -> Work<T> {
        if piece.division == Division::Bundled && self.shares {
            let mut bytes = piece.range.end;
            let mut files = vec![piece.file];
            let bundled = |next: &Piece<T>| next.division == Division::Bundled;
            let fits = |next: &Piece<T>, bytes| bundled(next) && bytes + next.range.end <= BUNDLE_BYTES;
            while files.len() < BUNDLE_FILES
                && state.pieces.get(at).is_some_and(|next| fits(next, bytes))
                && let Some(next) = state.pieces.remove(at)
            {
                bytes += next.range.end;
                files.push(next.file);
            }
            return Work::Bundle(files);
        }
        if let Some(chunk) = self.chunk
            && piece.division != Division::Undivided
            && piece.range.end - piece.range.start > chunk
        {
            let end = (piece.range.start / chunk + 1) * chunk;
            let rest = end..piece.range.end;
            piece.range.end = end;
            state.pieces.push_front(Piece {
                file: Arc::clone(&piece.file),
                range: rest,
                division: Division::Chunks,
            });
        }
        let claim = Claim::new(piece.file, piece.range);
        if piece.division == Division::Undivided {
            claim.keep_undivided();
        }
        state.claim(claim)
    }

    /// A worker stops working on `claim`; what is left of it goes to the next one.
    pub fn give_back(&self, claim: &Arc<Claim<T>>) {
        let mut state = self.lock();
        state.claims.retain(|other| !Arc::ptr_eq(other, claim));
        let range = claim.take_rest();
        if range.start < range.end {
            let division = match claim.is_undivided.load(Relaxed) {
                true => Division::Undivided,
                false => Division::Chunks,
            };
            state.urgent.push_front(Piece { file: Arc::clone(&claim.file), range, division });
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Everybody looks again whether it is their turn.
    pub fn nudge(&self) {
        drop(self.lock());
        self.changed.notify_all();
    }

    /// A worker stops working on `claim`, and nothing that is left of it is wanted any more.
    pub fn forget(&self, claim: &Arc<Claim<T>>) {
        self.lock().claims.retain(|other| !Arc::ptr_eq(other, claim));
        claim.take_rest();
    }

    /// Hands out nothing more.
    pub fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.pieces.clear();
        state.urgent.clear();
        drop(state);
        self.changed.notify_all();
    }
}

impl<T> State<T> {
    /// Where the first piece of a file is that nobody works on, or the start.
    fn next_piece(&self) -> usize {
        let under_way: Vec<_> = self.claims.iter().filter(|claim| !claim.is_done()).collect();
        let free = |piece: &Piece<T>| !under_way.iter().any(|claim| Arc::ptr_eq(&claim.file, &piece.file));
        self.pieces.iter().take(LOOK).position(free).unwrap_or(0)
    }

    fn claim(&mut self, claim: Claim<T>) -> Work<T> {
        let claim = Arc::new(claim);
        self.claims.push(Arc::clone(&claim));
        Work::Chunk(claim)
    }
}

fn steal<T>(state: &mut State<T>) -> Option<Work<T>> {
    let divided = state.claims.iter().filter(|claim| !claim.is_undivided.load(Relaxed));
    let busiest = divided.max_by_key(|claim| claim.remaining())?;
    let claim = Claim::new(Arc::clone(&busiest.file), busiest.split(1)?);
    Some(state.claim(claim))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(size: u64) -> Piece<u64> {
        let division = if size <= BLOCK { Division::Bundled } else { Division::Chunks };
        Piece { file: Arc::new(size), range: 0..size, division }
    }

    fn drain(claim: &Claim<u64>) -> u64 {
        std::iter::from_fn(|| claim.next()).map(|range| range.end - range.start).sum()
    }

    #[test]
    fn a_large_file_becomes_chunks() {
        let queue = WorkQueue::new(Some(2 * SEGMENT), true);
        queue.push([whole(5 * SEGMENT + 1)]);
        let sizes: Vec<u64> = (0..3)
            .map(|_| match queue.take(|| Admission::Take, &Mutex::default()) {
                Some(Work::Chunk(claim)) => drain(&claim),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(sizes, [2 * SEGMENT, 2 * SEGMENT, SEGMENT + 1]);
    }

    #[test]
    fn workers_keep_to_files_of_their_own_while_there_are_enough() {
        let queue = WorkQueue::new(Some(SEGMENT), true);
        queue.push([whole(2 * SEGMENT), whole(3 * SEGMENT)]);
        let take = || match queue.take(|| Admission::Take, &Mutex::default()) {
            Some(Work::Chunk(claim)) => claim,
            other => panic!("{other:?}"),
        };
        let (first, second) = (take(), take());
        assert_eq!((*first.file, *second.file), (2 * SEGMENT, 3 * SEGMENT));
        drain(&first);
        let third = take();
        assert_eq!((*third.file, third.left()), (2 * SEGMENT, SEGMENT..2 * SEGMENT));
        drain(&third);
        let fourth = take();
        assert_eq!((*fourth.file, fourth.left()), (3 * SEGMENT, SEGMENT..2 * SEGMENT), "shared in the end");
    }

    #[test]
    fn small_files_are_bundled_and_large_ones_are_not() {
        let queue = WorkQueue::new(Some(2 * SEGMENT), true);
        queue.push(
            [whole(4 * SEGMENT)].into_iter().chain((0..300).map(|_| whole(10))).chain([whole(SEGMENT)]),
        );
        let Some(Work::Chunk(_large)) = queue.take(|| Admission::Take, &Mutex::default()) else {
            panic!("a chunk")
        };
        let mut seen = Vec::new();
        for _ in 0..3 {
            seen.push(match queue.take(|| Admission::Take, &Mutex::default()) {
                Some(Work::Bundle(files)) => files.len(),
                Some(Work::Chunk(claim)) => drain(&claim) as usize,
                None => panic!("open"),
            });
        }
        assert_eq!(seen, [256, 44, SEGMENT as usize]);
    }

    #[test]
    fn an_idle_worker_takes_half_of_the_last_chunk() {
        let queue = WorkQueue::new(Some(2 * SEGMENT), true);
        queue.push([whole(SEGMENT)]);
        let Some(Work::Chunk(first)) = queue.take(|| Admission::Take, &Mutex::default()) else {
            panic!("a chunk")
        };
        first.next();
        let Some(Work::Chunk(second)) = queue.take(|| Admission::Take, &Mutex::default()) else {
            panic!("the other half")
        };
        assert_eq!(drain(&first) + drain(&second) + BLOCK, SEGMENT);
    }

    #[test]
    fn what_is_undivided_is_with_one_worker_at_a_time() {
        let queue = WorkQueue::new(Some(SEGMENT), true);
        queue.push([Piece { division: Division::Undivided, ..whole(4 * SEGMENT) }]);
        let turns = std::cell::Cell::new(1);
        let once = || match turns.replace(turns.get() - 1) {
            1.. => Admission::Take,
            _ => Admission::Leave,
        };
        let take = || {
            turns.set(1);
            queue.take(once, &Mutex::default())
        };
        let Some(Work::Chunk(claim)) = take() else { panic!("all of it") };
        assert_eq!((claim.left(), claim.split(1)), (0..4 * SEGMENT, None));
        claim.next();
        queue.give_back(&claim);
        let Some(Work::Chunk(rest)) = take() else { panic!("what was left") };
        assert_eq!((rest.left(), rest.split(1)), (BLOCK..4 * SEGMENT, None));
    }

    #[test]
    fn without_chunking_a_file_stays_with_one_worker() {
        let queue = WorkQueue::new(None, true);
        queue.push([whole(100 * SEGMENT), whole(5), whole(5)]);
        let Some(Work::Chunk(claim)) = queue.take(|| Admission::Take, &Mutex::default()) else {
            panic!("a file")
        };
        assert_eq!(drain(&claim), 100 * SEGMENT);
        let Some(Work::Chunk(claim)) = queue.take(|| Admission::Take, &Mutex::default()) else {
            panic!("a file")
        };
        assert_eq!(drain(&claim), 5);
    }

    #[test]
    fn a_worker_waits_for_its_turn_and_leaves_when_told() {
        let queue = Arc::new(WorkQueue::new(Some(2 * SEGMENT), true));
        queue.push([whole(7)]);
        assert!(queue.take(|| Admission::Leave, &Mutex::default()).is_none(), "there is work, for others");
        let may = Arc::new(AtomicBool::new(false));
        let waiting = {
            let (queue, may) = (Arc::clone(&queue), Arc::clone(&may));
            std::thread::spawn(move || {
                let turn = || match may.load(Relaxed) {
                    true => Admission::Take,
                    false => Admission::Wait,
                };
                queue.take(turn, &Mutex::default()).is_some()
            })
        };
        may.store(true, Relaxed);
        queue.nudge();
        assert!(waiting.join().expect("no panic"));
    }

    #[test]
    fn what_a_parked_worker_leaves_is_next() {
        let queue = WorkQueue::new(Some(2 * SEGMENT), true);
        queue.push([whole(2 * SEGMENT), whole(7)]);
        let Some(Work::Chunk(claim)) = queue.take(|| Admission::Take, &Mutex::default()) else {
            panic!("a chunk")
        };
        claim.next();
        queue.give_back(&claim);
        assert!(claim.next().is_none());
        let Some(Work::Chunk(rest)) = queue.take(|| Admission::Take, &Mutex::default()) else {
            panic!("the rest")
        };
        assert_eq!(rest.left(), BLOCK..2 * SEGMENT);
        queue.close();
        assert!(queue.take(|| Admission::Take, &Mutex::default()).is_none());
    }
}
