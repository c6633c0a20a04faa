//! Who does what next: files to look at, pieces to read, pieces to send. Everything waits here, and only
//! here, and each queue has its bound.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use tidegate_control::ByteCount;
use tidegate_transfer::error::{Error, ErrorKind};
use tidegate_transfer::manifest::BLOCK;
use tidegate_transfer::path::RelPath;
use tidegate_transfer::pipeline::staging::{Block, Staging};
use tidegate_transfer::pipeline::waits::WorkerTime;
use tidegate_transfer::sys::sync::{Condvar, Mutex, MutexGuard};

use crate::put::target::{PieceSums, Present, UploadFile, UploadTries};

/// Most files that are listed and not begun: the listing waits beyond it.
const MAX_LISTED: usize = 1000;

/// Most files, and parts of files, that wait for a reader: no further file is begun beyond it.
const MAX_WAITING: usize = 256;
const MAX_PARTS_WAITING: usize = 1000;

/// A staging block.
pub(crate) type Bytes = Block<()>;

/// What a reader does next.
#[derive(Debug)]
pub(crate) enum ReadTask {
    /// Sums a whole file up, to compare it with what bears its name.
    Compare(Arc<UploadFile>, Present),
    /// Reads part `.1` into memory, which is set aside for it.
    Part(Arc<UploadFile>, u32, Room),
    /// Reads a whole file of any size, front to back, while it is sent.
    Stream(Arc<UploadFile>),
}

/// What the network does next.
#[derive(Debug)]
pub(crate) enum SendTask {
    /// Finds out what bears the file's name, and begins its upload.
    Begin(Arc<UploadFile>),
    /// Sends a piece.
    UploadPart(UploadPart),
    /// Puts the parts together.
    Complete(Arc<UploadFile>),
    /// Removes what was sent of a file that failed.
    Abort(Arc<UploadFile>, String),
    /// Removes a file that the source does not have.
    Remove(RelPath),
    /// Removes a directory that this has emptied.
    RemoveDirectory(RelPath),
}

/// A piece that was read: a part, or with the number 0 a whole file.
#[derive(Debug)]
pub(crate) struct UploadPart {
    /// Of which file.
    pub file: Arc<UploadFile>,
    /// The part's number, from 1, or 0.
    pub number: u32,
    /// Its bytes.
    pub content: PartContent,
    /// How often it was tried.
    pub tries: UploadTries,
}

/// A piece's bytes.
#[derive(Debug)]
pub(crate) enum PartContent {
    /// All of them, and their sums.
    Whole(Room, PieceSums),
    /// As they are read; see [`ReadTask::Stream`].
    Stream(Receiver<Chunk>),
}

/// What comes through a stream.
#[derive(Debug)]
pub(crate) enum Chunk {
    /// The next bytes.
    Bytes(Room),
    /// The end, with the sums of all.
    End(PieceSums),
}

/// Blocks of staging, given back when dropped.
pub(crate) struct Room {
    queue: Arc<UploadQueue>,
    reserved: u64,
    /// The filled blocks, in order.
    pub blocks: Vec<Bytes>,
}

impl Room {
    /// Another block to fill; there are as many as were set aside.
    pub fn block(&self) -> Option<Bytes> {
        self.queue.staging.acquire_aside()
    }

    /// Bytes within.
    pub fn length(&self) -> u64 {
        self.blocks.iter().map(|block| block.length as u64).sum()
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        for block in self.blocks.drain(..) {
            self.queue.staging.release(block);
        }
        let mut state = self.queue.lock();
        state.free += self.reserved;
        drop(state);
        self.queue.read.notify_all();
    }
}

impl std::fmt::Debug for Room {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Room").field("blocks", &self.blocks.len()).finish_non_exhaustive()
    }
}

/// What is waiting.
#[derive(Debug)]
pub(crate) struct UploadQueue {
    state: Mutex<State>,
    staging: Staging<()>,
    size: u64,
    list: Condvar,
    read: Condvar,
    send: Condvar,
    over: Condvar,
}

#[derive(Debug)]
struct State {
    /// Listed, not begun.
    listed: VecDeque<Arc<UploadFile>>,
    /// To be read: a file and the parts that nobody has taken.
    waiting: VecDeque<Waiting>,
    ready: VecDeque<SendTask>,
    /// Files that have neither arrived nor failed.
    open: u64,
    all_listed: bool,
    stopped: bool,
    /// Bytes of staging that nobody has set aside.
    free: u64,
    failed: Option<Error>,
    /// Readers without room, or without anything to read.
    filling: WorkerTime,
    /// Connections without anything to send.
    taking: WorkerTime,
}

#[derive(Debug)]
enum Waiting {
    Compare(Arc<UploadFile>, Present),
    Parts(Arc<UploadFile>, VecDeque<u32>),
    Stream(Arc<UploadFile>),
}

impl State {
    fn has_few_waiting(&self) -> bool {
        let parts = |waiting: &Waiting| match waiting {
            Waiting::Parts(_, numbers) => numbers.len(),
            Waiting::Compare(..) | Waiting::Stream(_) => 1,
        };
        self.waiting.len() < MAX_WAITING && self.waiting.iter().map(parts).sum::<usize>() < MAX_PARTS_WAITING
    }
}

impl Waiting {
    const fn file(&self) -> &Arc<UploadFile> {
        match self {
            Self::Compare(file, _) | Self::Parts(file, _) | Self::Stream(file) => file,
        }
    }
}

impl UploadQueue {
    /// A desk with `size` bytes of staging.
    pub fn new(size: ByteCount) -> Self {
        let size = size.0.max(4 * BLOCK) / BLOCK * BLOCK;
        let state = State {
            listed: VecDeque::new(),
            waiting: VecDeque::new(),
            ready: VecDeque::new(),
            open: 0,
            all_listed: false,
            stopped: false,
            free: size,
            failed: None,
            filling: WorkerTime::default(),
            taking: WorkerTime::default(),
        };
        Self {
            state: Mutex::new(state),
            staging: Staging::new(ByteCount(size), 0),
            size,
            list: Condvar::new(),
            read: Condvar::new(),
            send: Condvar::new(),
            over: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Bytes of staging in all, and those that nobody has set aside.
    pub fn room(&self) -> (ByteCount, ByteCount) {
        (ByteCount(self.size), ByteCount(self.lock().free.min(self.size)))
    }

    /// How long readers and connections have waited so far, each summed over them.
    pub fn waited(&self) -> (Duration, Duration) {
        let state = self.lock();
        (state.filling.total(), state.taking.total())
    }

    /// A reader waits for whoever takes its stream.
    pub(crate) fn while_filling<T>(&self, wait: impl FnOnce() -> T) -> T {
        self.lock().filling.begin();
        let done = wait();
        self.lock().filling.end();
        done
    }

    /// A connection waits for whoever reads its stream.
    pub(crate) fn while_taking<T>(&self, wait: impl FnOnce() -> T) -> T {
        self.lock().taking.begin();
        let done = wait();
        self.lock().taking.end();
        done
    }

    /// Adds a listed file; waits while too many are. `false` once stopped.
    pub fn add(&self, file: Arc<UploadFile>) -> bool {
        let mut state = self.lock();
        while state.listed.len() >= MAX_LISTED && !state.stopped {
            state = self.list.wait(state);
        }
        if state.stopped {
            return false;
        }
        state.open += 1;
        state.listed.push_back(file);
        drop(state);
        self.send.notify_one();
        true
    }

    /// Adds something for the network that ends by itself.
    pub(crate) fn add_task(&self, task: SendTask) {
        self.lock().open += 1;
        self.send(task);
    }

    /// Waits until everything that was added has ended; `false` if all is over instead.
    pub(crate) fn wait_for_rest(&self) -> bool {
        let mut state = self.lock();
        while state.open > 0 && !state.stopped {
            state = self.over.wait(state);
        }
        !state.stopped
    }

    /// Says that no further file comes.
    pub(crate) fn all_listed(&self) {
        self.lock().all_listed = true;
        self.look_again();
    }

    /// A file has arrived or failed for good.
    pub fn ended(&self) {
        self.lock().open -= 1;
        self.look_again();
    }

    /// Ends everything early, with what ended it.
    pub fn stop(&self, error: Option<Error>) {
        let mut state = self.lock();
        state.stopped = true;
        state.failed = state.failed.take().or(error);
        // Streams end when nobody is left to take from them.
        let left = (std::mem::take(&mut state.ready), std::mem::take(&mut state.waiting));
        drop(state);
        drop(left);
        self.look_again();
    }

    /// `None` while there is something left to do.
    pub fn outcome(&self) -> Option<Result<(), Error>> {
        let state = self.lock();
        match &state.failed {
            Some(error) => Some(Err(error.clone())),
            None if state.stopped || (state.all_listed && state.open == 0) => Some(Ok(())),
            None => None,
        }
    }

    /// Waits until there is an outcome, at most for `time`.
    pub fn wait(&self, time: Duration) {
        let state = self.lock();
        drop(self.over.wait_timeout(state, time));
    }

    /// Everybody looks again whether there is something for them.
    pub(crate) fn look_again(&self) {
        drop(self.lock());
        self.list.notify_all();
        self.read.notify_all();
        self.send.notify_all();
        self.over.notify_all();
    }

    /// Queues parts of `file` to be read.
    pub(crate) fn read_parts(&self, file: &Arc<UploadFile>, numbers: impl IntoIterator<Item = u32>) {
        self.wait_for_reader(Waiting::Parts(Arc::clone(file), numbers.into_iter().collect()));
    }

    /// Queues `file` to be read while it is sent.
    pub(crate) fn read_stream(&self, file: &Arc<UploadFile>) {
        self.wait_for_reader(Waiting::Stream(Arc::clone(file)));
    }

    /// Queues `file` to be compared with what bears its name.
    pub fn compare(&self, file: &Arc<UploadFile>, present: Present) {
        self.wait_for_reader(Waiting::Compare(Arc::clone(file), present));
    }

    fn wait_for_reader(&self, waiting: Waiting) {
        let mut state = self.lock();
        if !state.stopped {
            state.waiting.push_back(waiting);
        }
        drop(state);
        self.read.notify_all();
    }

    /// Nothing of `file` is read any more.
    pub fn forget(&self, file: &Arc<UploadFile>) {
        self.lock().waiting.retain(|waiting| !Arc::ptr_eq(waiting.file(), file));
    }

    /// Queues something for the network; bounded by what readers may set aside, and by the open files.
    pub fn send(&self, sending: SendTask) {
        let mut state = self.lock();
        if !state.stopped {
            state.ready.push_back(sending);
        }
        drop(state);
        self.send.notify_one();
    }

    /// The next thing to read; waits for one and for staging. `None` when it is no longer the worker's
    /// turn, or all is over.
    pub(crate) fn next_reading(self: &Arc<Self>, is_my_turn: impl Fn() -> bool) -> Option<ReadTask> {
        let mut state = self.lock();
        loop {
            if state.stopped || !is_my_turn() || (state.all_listed && state.open == 0) {
                return None;
            }
            if let Some(reading) = self.take_reading(&mut state) {
                drop(state);
                // Whoever begins files waits for this queue to shrink.
                self.send.notify_one();
                return Some(reading);
            }
            state.filling.begin();
            state = self.read.wait(state);
            state.filling.end();
        }
    }

    fn take_reading(self: &Arc<Self>, state: &mut State) -> Option<ReadTask> {
        let part = match state.waiting.front_mut()? {
            Waiting::Parts(file, numbers) => {
                let Some(&number) = numbers.front() else {
                    state.waiting.pop_front();
                    return self.take_reading(state);
                };
                let range = file.plan.range(number, file.size);
                let wanted = (range.end - range.start).next_multiple_of(BLOCK);
                // One that is larger than all of staging has it for itself.
                if wanted > state.free && state.free < self.size {
                    return None;
                }
                numbers.pop_front();
                let part = (Arc::clone(file), number, wanted.min(state.free));
                if numbers.is_empty() {
                    state.waiting.pop_front();
                }
                Some(part)
            }
            Waiting::Compare(..) | Waiting::Stream(_) => None,
        };
        let Some((file, number, reserved)) = part else {
            return state.waiting.pop_front().map(|waiting| match waiting {
                Waiting::Compare(file, present) => ReadTask::Compare(file, present),
                Waiting::Parts(file, _) | Waiting::Stream(file) => ReadTask::Stream(file),
            });
        };
        state.free -= reserved;
        file.state.lock().in_flight += 1;
        let room = Room { queue: Arc::clone(self), reserved, blocks: Vec::new() };
        Some(ReadTask::Part(file, number, room))
    }

    /// A block for a stream, which bounds by itself how many it has.
    pub(crate) fn small_room(self: &Arc<Self>) -> Room {
        Room { queue: Arc::clone(self), reserved: 0, blocks: Vec::new() }
    }

    /// The next thing to do for the network; waits for one. `None` when it is no longer the worker's
    /// turn, or all is over.
    pub(crate) fn next_sending(&self, is_my_turn: impl Fn() -> bool) -> Option<SendTask> {
        let mut state = self.lock();
        loop {
            if state.stopped || !is_my_turn() || (state.all_listed && state.open == 0) {
                // Somebody else may have slept through the wake-up that was for us.
                self.send.notify_one();
                return None;
            }
            if let Some(sending) = state.ready.pop_front() {
                return Some(sending);
            }
            if state.has_few_waiting()
                && let Some(file) = state.listed.pop_front()
            {
                drop(state);
                self.list.notify_one();
                return Some(SendTask::Begin(file));
            }
            state.taking.begin();
            state = self.send.wait(state);
            state.taking.end();
        }
    }

    /// The error for work that was begun when all was stopped.
    pub(crate) fn stopped_error() -> Error {
        Error::new(ErrorKind::Interrupted, "interrupted; run the same command again to continue")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::put::target::Plan;
    use tidegate_transfer::manifest::{Entry, Kind, Timestamp};
    use tidegate_transfer::path::RelPath;
    use tidegate_transfer::store::Listed;

    fn file(name: &str, size: u64, part: u64) -> Arc<UploadFile> {
        let path = RelPath::new(name).expect("a name");
        let kind = Kind::File { size, fingerprint: [0; 16] };
        let entry = Entry::new(path.clone(), kind, 0o644, Timestamp::default());
        let plan = Plan { part, count: size.div_ceil(part).max(1) as u32 };
        Arc::new(UploadFile::new(Listed { entry, root: 0 }, path, plan).expect("a file"))
    }

    fn queue(blocks: u64) -> Arc<UploadQueue> {
        let queue = Arc::new(UploadQueue::new(ByteCount(blocks * BLOCK)));
        assert!(queue.add(file("open", 1, 1)));
        queue
    }

    #[test]
    fn parts_are_read_only_while_staging_has_room_for_them() {
        let queue = queue(10);
        let large = file("large", 16 * BLOCK, 4 * BLOCK);
        queue.read_parts(&large, 1..=4);
        let take = || queue.next_reading(|| true);
        let (Some(ReadTask::Part(_, 1, one)), Some(ReadTask::Part(_, 2, _two))) = (take(), take()) else {
            panic!("two fit")
        };
        assert_eq!(queue.room().1, ByteCount(2 * BLOCK));
        let waiting = {
            let queue = Arc::clone(&queue);
            std::thread::spawn(move || matches!(queue.next_reading(|| true), Some(ReadTask::Part(_, 3, _))))
        };
        drop(one);
        assert!(waiting.join().expect("no panic"), "the third when the first is gone");
    }

    #[test]
    fn a_part_larger_than_staging_has_it_for_itself() {
        let queue = queue(10);
        queue.read_parts(&file("huge", 100 * BLOCK, 50 * BLOCK), 1..=2);
        let Some(ReadTask::Part(_, 1, room)) = queue.next_reading(|| true) else { panic!("the first") };
        assert_eq!(queue.room().1, ByteCount(0));
        drop(room);
        assert_eq!(queue.room().1, ByteCount(10 * BLOCK));
        let Some(ReadTask::Part(_, 2, room)) = queue.next_reading(|| true) else { panic!("the second") };
        queue.stop(None);
        assert!(queue.next_reading(|| true).is_none() && queue.next_sending(|| true).is_none());
        drop(room);
    }

    #[test]
    fn listing_waits_for_those_who_send() {
        let queue = queue(10);
        let lister = {
            let queue = Arc::clone(&queue);
            std::thread::spawn(move || (0..3 * MAX_LISTED).all(|i| queue.add(file(&i.to_string(), 1, 1))))
        };
        for i in 0..=3 * MAX_LISTED {
            assert!(queue.lock().listed.len() <= MAX_LISTED);
            assert!(matches!(queue.next_sending(|| true), Some(SendTask::Begin(_))), "{i}");
            queue.ended();
        }
        assert!(lister.join().expect("no panic"));
        queue.all_listed();
        assert!(matches!(queue.outcome(), Some(Ok(()))));
    }
}
