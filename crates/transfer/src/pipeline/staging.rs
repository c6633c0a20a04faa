//! A bounded store of blocks between two stages. Blocks are made on demand and reused last-in first-out,
//! so that few of them stay warm in the cache. The queue is bounded by the staging's size; besides it
//! each worker holds at most one block.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use tidegate_control::ByteCount;

use crate::hash::Digest;
use crate::manifest::BLOCK;
use crate::pipeline::waits::WorkerTime;
use crate::quota::{Held, Quota};
use crate::sys::sync::{Condvar, Mutex, MutexGuard};
use crate::wire::frame::HEADER;

/// Room for a full block with its header, and for the header that follows it on the wire.
pub(crate) const BUFFER: usize = BLOCK as usize + 2 * HEADER;

/// Blocks without which nothing moves, whatever else is short.
const LEAST: usize = 4;

/// Room for so many blocks, or half of all, wakes who fills. More would make a slow path move in gushes.
const WOKEN_FOR: usize = 16;

/// How many queued blocks a choosy worker looks at, and how many may wait for their worker before
/// another one helps.
const LOOK_AHEAD: usize = 8;

/// A part of a file that follows a block's bytes on the wire without being copied here.
#[derive(Debug)]
pub struct FileTail {
    /// The file.
    pub file: Arc<OwnedFd>,
    /// Where the part begins.
    pub offset: u64,
    /// Its length.
    pub length: usize,
}

/// One staging buffer and what its bytes are.
#[derive(Debug)]
pub struct Block<F> {
    /// The bytes; `..length` are in use.
    pub bytes: Box<[u8]>,
    /// Bytes in use.
    pub length: usize,
    /// What follows the bytes on a clear stream; then the block holds the header alone.
    pub tail: Option<FileTail>,
    /// The frames within.
    pub frames: Vec<F>,
    /// What the content of each hashes to, where a receiver of this process takes the block over.
    pub digests: Vec<Digest>,
    /// Whether their content is at its place already: then the bytes are what was read there.
    pub placed: bool,
}

impl<F> Block<F> {
    /// Bytes it has on the wire.
    pub(crate) fn wire_length(&self) -> usize {
        self.length + self.tail.as_ref().map_or(0, |tail| tail.length)
    }
}

/// A bounded queue of blocks with a store of empty ones.
#[derive(Debug)]
pub struct Staging<F> {
    state: Mutex<State<F>>,
    emptied: Condvar,
    filled: Condvar,
    /// Most blocks in the queue.
    capacity: usize,
    /// Most blocks in all.
    most: usize,
    /// What they count in, beyond the least.
    quota: Arc<Quota>,
}

#[derive(Debug)]
struct State<F> {
    empty: Vec<Block<F>>,
    full: VecDeque<Block<F>>,
    made: usize,
    held: Vec<Held>,
    /// Nothing more is put in; what is there may be taken.
    closed: bool,
    /// Nothing may be taken or made any more.
    aborted: bool,
    filling: WorkerTime,
    taking: WorkerTime,
}

impl<F> Staging<F> {
    /// Staging of `size`, at least four blocks, for at most `workers` on either side.
    pub fn new(size: ByteCount, workers: u16) -> Self {
        Self::within(size, workers, Quota::unlimited())
    }

    /// As [`new`](Self::new); no more blocks are made than `quota` has room for, a few aside.
    pub fn within(size: ByteCount, workers: u16, quota: Arc<Quota>) -> Self {
        let state = State {
            empty: Vec::new(),
            full: VecDeque::new(),
            made: 0,
            held: Vec::new(),
            closed: false,
            aborted: false,
            filling: WorkerTime::default(),
            taking: WorkerTime::default(),
        };
        let capacity = ((size.0 / BLOCK) as usize).max(LEAST);
        let most = capacity + 2 * usize::from(workers);
        let (emptied, filled) = (Condvar::new(), Condvar::new());
        Self { state: Mutex::new(state), emptied, filled, capacity, most, quota }
    }

    fn lock(&self) -> MutexGuard<'_, State<F>> {
        self.state.lock()
    }

    /// An empty block; waits until there is one and the queue has room, `None` once aborted.
    pub fn acquire(&self) -> Option<Block<F>> {
        self.acquire_while(|| true)
    }

    /// As [`acquire`](Self::acquire), but waits no longer than there is reason to `wait`, which is looked at again after
    /// [`recall`](Self::recall).
    pub(crate) fn acquire_while(&self, wait: impl Fn() -> bool) -> Option<Block<F>> {
        let mut state = self.lock();
        loop {
            if state.aborted {
                return None;
            }
            if state.full.len() < self.capacity && (!state.empty.is_empty() || self.may_make(&mut state)) {
                return Some(reuse_or_make(state));
            }
            if !wait() {
                return None;
            }
            state.filling.begin();
            state = self.emptied.wait(state);
            state.filling.end();
        }
    }

    /// Whether one more may be made.
    fn may_make(&self, state: &mut State<F>) -> bool {
        if state.made < LEAST {
            return true;
        }
        let held = (state.made < self.most).then(|| self.quota.take(BUFFER)).flatten();
        let may = held.is_some();
        state.held.extend(held);
        may
    }

    /// An empty block that will not be queued, for a worker with no other in hand; `None` once aborted.
    pub fn acquire_aside(&self) -> Option<Block<F>> {
        let state = self.lock();
        (!state.aborted).then(|| reuse_or_make(state))
    }

    /// Queues a filled block.
    pub fn put(&self, block: Block<F>) {
        self.queue(block, false);
    }

    /// Queues a block before all others: one that was taken and could not be sent.
    pub(crate) fn put_back(&self, block: Block<F>) {
        self.queue(block, true);
    }

    fn queue(&self, block: Block<F>, first: bool) {
        let mut state = self.lock();
        if first {
            state.full.push_front(block);
        } else {
            state.full.push_back(block);
        }
        let wake = state.taking.is_any();
        drop(state);
        if wake {
            self.filled.notify_one();
        }
    }

    /// The oldest filled block; waits until there is one, `None` once closed and empty, or aborted.
    pub fn take(&self) -> Option<Block<F>> {
        self.take_while(|| true)
    }

    /// As [`take`](Self::take), but waits no longer than there is reason to `wait`, which is looked at
    /// again after [`recall`](Self::recall).
    pub fn take_while(&self, wait: impl Fn() -> bool) -> Option<Block<F>> {
        let mut state = self.lock();
        loop {
            if state.aborted {
                return None;
            }
            if let Some(block) = state.full.pop_front() {
                self.made_room(state);
                return Some(block);
            }
            if state.closed || !wait() {
                return None;
            }
            state.taking.begin();
            state = self.filled.wait(state);
            state.taking.end();
        }
    }

    /// As [`take`](Self::take), but the first of the next few blocks that `claim` accepts. While none
    /// is and little is queued, waits: whoever works on what `claim` refused comes back for it.
    pub(crate) fn take_if(&self, claim: impl Fn(&Block<F>) -> bool) -> Option<Block<F>> {
        let mut state = self.lock();
        loop {
            if state.aborted {
                return None;
            }
            if let Some(at) = state.full.iter().take(LOOK_AHEAD).position(&claim) {
                let block = state.full.remove(at);
                self.made_room(state);
                return block;
            }
            if state.full.len() > LOOK_AHEAD.min(self.capacity / 2)
                || (state.closed && !state.full.is_empty())
            {
                let block = state.full.pop_front();
                self.made_room(state);
                return block;
            }
            if state.closed {
                return None;
            }
            state.taking.begin();
            state = self.filled.wait(state);
            state.taking.end();
        }
    }

    /// Wakes one that waits in `take_if`: what it was refused may be free now.
    pub fn nudge(&self) {
        self.filled.notify_one();
    }

    /// Everybody who waits for a block, or for room, looks again whether there is reason to.
    pub fn recall(&self) {
        drop(self.lock());
        self.filled.notify_all();
        self.emptied.notify_all();
    }

    /// Whether nothing more comes.
    pub fn is_closed(&self) -> bool {
        let state = self.lock();
        state.aborted || (state.closed && state.full.is_empty())
    }

    /// Gives an emptied block back for reuse.
    pub fn release(&self, mut block: Block<F>) {
        block.frames.clear();
        block.digests.clear();
        (block.tail, block.placed) = (None, false);
        let mut state = self.lock();
        state.empty.push(block);
        self.made_room(state);
    }

    fn made_room(&self, state: MutexGuard<'_, State<F>>) {
        // Who fills is woken for some blocks, not for each: waking costs as much as a block's work.
        let wake =
            state.filling.is_any() && state.full.len() + WOKEN_FOR.min(self.capacity / 2) <= self.capacity;
        drop(state);
        if wake {
            self.emptied.notify_one();
        }
    }

    /// Says that nothing more will be put in.
    pub fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_all();
    }

    /// Ends all waiting; what is queued is lost.
    pub fn abort(&self) {
        self.lock().aborted = true;
        self.filled.notify_all();
        self.emptied.notify_all();
    }

    /// Whether no block waits to be taken.
    pub fn is_empty(&self) -> bool {
        self.lock().full.is_empty()
    }

    /// Bytes in filled blocks that wait to be taken, in whole blocks.
    pub fn used(&self) -> ByteCount {
        ByteCount(self.lock().full.len() as u64 * BLOCK)
    }

    /// Of those who wait, as many as these may run count in [`waited`](Self::waited).
    pub fn allow(&self, fillers: u16, takers: u16) {
        let mut state = self.lock();
        state.filling.allow(fillers);
        state.taking.allow(takers);
    }

    /// How long workers have waited so far for room to fill, and for blocks to take, each summed over them.
    pub fn waited(&self) -> (Duration, Duration) {
        let state = self.lock();
        (state.filling.total(), state.taking.total())
    }

    /// The same of all, those too that may not run any more.
    pub(crate) fn waited_in_all(&self) -> (Duration, Duration) {
        let state = self.lock();
        (state.filling.of_all(), state.taking.of_all())
    }

    /// The most it ever holds.
    pub fn capacity(&self) -> ByteCount {
        ByteCount(self.capacity as u64 * BLOCK)
    }
}

fn reuse_or_make<F>(mut state: MutexGuard<'_, State<F>>) -> Block<F> {
    if let Some(mut block) = state.empty.pop() {
        block.length = 0;
        return block;
    }
    state.made += 1;
    drop(state);
    let bytes = vec![0; BUFFER].into_boxed_slice();
    Block { bytes, length: 0, tail: None, frames: Vec::new(), digests: Vec::new(), placed: false }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn blocks_come_out_in_order_and_never_exceed_the_capacity() {
        let staging = Arc::new(Staging::<u32>::new(ByteCount(4 * BLOCK), 2));
        let filler = {
            let staging = Arc::clone(&staging);
            thread::spawn(move || {
                for number in 0..1000 {
                    let mut block = staging.acquire().expect("open");
                    block.frames.push(number);
                    staging.put(block);
                }
                staging.close();
            })
        };
        let mut expected = 0;
        while let Some(block) = staging.take() {
            assert_eq!(block.frames, [expected]);
            assert!(staging.used() <= staging.capacity());
            expected += 1;
            staging.release(block);
        }
        assert_eq!(expected, 1000);
        assert!(staging.lock().made <= staging.most);
        filler.join().expect("no panic");
    }

    #[test]
    fn who_waits_for_a_block_can_be_recalled() {
        let staging = Arc::new(Staging::<u32>::new(ByteCount(4 * BLOCK), 2));
        let wait = Arc::new(std::sync::atomic::AtomicBool::new(true));
        let taker = {
            let (staging, wait) = (Arc::clone(&staging), Arc::clone(&wait));
            thread::spawn(move || staging.take_while(|| wait.load(std::sync::atomic::Ordering::Relaxed)))
        };
        wait.store(false, std::sync::atomic::Ordering::Relaxed);
        staging.recall();
        assert!(taker.join().expect("no panic").is_none());
        assert!(!staging.is_closed(), "it was recalled, not ended");
        // A block is taken whatever there is reason for.
        let mut block = staging.acquire_aside().expect("open");
        block.frames.push(1);
        staging.put(block);
        assert!(staging.take_while(|| false).is_some());
    }

    #[test]
    fn who_waits_for_room_can_be_recalled() {
        let staging = Arc::new(Staging::<u32>::new(ByteCount(4 * BLOCK), 2));
        (0..4).for_each(|_| staging.put(staging.acquire().expect("room")));
        let wait = Arc::new(std::sync::atomic::AtomicBool::new(true));
        let filler = {
            let (staging, wait) = (Arc::clone(&staging), Arc::clone(&wait));
            thread::spawn(move || staging.acquire_while(|| wait.load(std::sync::atomic::Ordering::Relaxed)))
        };
        wait.store(false, std::sync::atomic::Ordering::Relaxed);
        staging.recall();
        assert!(filler.join().expect("no panic").is_none());
        staging.release(staging.take().expect("filled"));
        assert!(staging.acquire_while(|| false).is_some(), "where there is room nobody waits");
    }

    #[test]
    fn who_waits_and_for_what_is_counted() {
        let staging = Arc::new(Staging::<u32>::new(ByteCount(4 * BLOCK), 2));
        let (taker, long) = (Arc::clone(&staging), Duration::from_millis(20));
        let taker = thread::spawn(move || taker.take().is_some());
        while staging.waited().1 < long {
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(staging.waited().0, Duration::ZERO, "there is room");
        staging.put(staging.acquire().expect("room"));
        assert!(taker.join().expect("no panic"));
        let taken = staging.waited().1;
        (0..4).for_each(|_| staging.put(staging.acquire().expect("room")));
        let filler = Arc::clone(&staging);
        let filler = thread::spawn(move || filler.acquire().is_some());
        while staging.waited().0 < long {
            thread::sleep(Duration::from_millis(1));
        }
        // It waits on, and counts no more.
        staging.allow(0, 2);
        let (filled, _) = staging.waited();
        thread::sleep(long);
        assert_eq!(staging.waited(), (filled, taken), "nobody waits for a block");
        staging.abort();
        assert!(!filler.join().expect("no panic"));
    }

    #[test]
    fn aborting_wakes_everybody() {
        let staging = Arc::new(Staging::<u32>::new(ByteCount(4 * BLOCK), 2));
        let taker = {
            let staging = Arc::clone(&staging);
            thread::spawn(move || staging.take().is_none())
        };
        let held: Vec<_> = (0..8).map(|_| staging.acquire().expect("open")).collect();
        let filler = {
            let staging = Arc::clone(&staging);
            thread::spawn(move || staging.acquire().is_none())
        };
        staging.abort();
        assert!(taker.join().expect("no panic") && filler.join().expect("no panic"));
        drop(held);
    }
}
