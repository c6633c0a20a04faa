//! The write path of whoever receives files: from a block that has arrived to a file that has its name.
//!
//! ```text
//! deliver ─► staging ─► write pool ─► part file ─► hand_in ─► committer: fsync, journal, rename
//!    └──── written in place while that is as quick as memory ───┘
//! ```
//!
//! Where blocks come from, what vouches for a file, and who is told is its [`WriteHandler`]'s business: the
//! receiver of a transfer, and downloads in `tidegate-fetch`. These know of receiving
//!
//! - what is written: [`Incoming`], which each [`Arrived`] block of a staging [`Block`] is a part of,
//! - the path: [`WriteSettings`], [`WritePath`], its [`WriteThreads`], and [`WrittenBy`],
//! - what is told: [`WriteHandler`] and [`Outcome`],
//! - for threads and files of their own: [`spawn`] and [`FailOnPanic`],
//!
//! and no more: what they are made of is private. Of what all stages share, downloads and uploads use
//! [`Staging`], [`Pool`] and [`Gate`], [`Claim`](super::work::Claim) and [`Proof`](super::proof::Proof).

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tidegate_control::{BitRate, ByteCount};

use crate::catalogue::Catalogue;
use crate::error::{Error, ErrorKind, Result};
use crate::fence::Permit;
use crate::hash::{Digest, SomeBlocks};
use crate::journal::Journal;
use crate::ledger::Ledger;
use crate::manifest::{BLOCK, Entry, FileId, Fingerprint, segment_range};
use crate::pipeline::commit::{Committer, Complete, CompletePortion, GROUP, Progress, commit_all, record};
use crate::pipeline::incoming::Change;
use crate::pipeline::pool::{Gate, Pool};
use crate::pipeline::recheck::{blocks_there, still_there};
use crate::pipeline::shortcut::Shortcut;
use crate::pipeline::staging::Staging;
use crate::quota::{Held, Share};
use crate::store::file_sink::no_room;
use crate::store::{Sink, SinkFile};
use crate::sys::sync::{Mutex, mpsc};
use crate::sys::thread::{self, JoinHandle};
use crate::terms::Verify;
use crate::throttle::{Throttle, in_portions};

pub use crate::offer::Outcome;
pub use crate::pipeline::incoming::{Incoming, Portion};
pub use crate::pipeline::staging::Block;

/// A checked block of a file, within a staging block.
#[derive(Debug)]
pub struct Arrived<F> {
    /// Which file.
    pub file: Arc<F>,
    /// Where in it.
    pub offset: u64,
    /// How many bytes of it.
    pub length: u32,
    /// Where in the staging block; empty for zeros.
    pub data: Range<usize>,
    /// What it hashes to, if asked for.
    pub digest: Digest,
    /// Whether it is at its place already.
    pub placed: bool,
}

/// Who wrote a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrittenBy {
    /// The write pool.
    Pool,
    /// The thread that took it in, which takes in nothing meanwhile.
    Deliverer,
}

/// What a write path asks, and tells of what happens on it.
pub trait WriteHandler: Send + Sync + 'static {
    /// A file, as the handler knows it.
    type File: AsRef<Incoming> + Send + Sync + 'static;

    /// The write path.
    fn path(&self) -> &WritePath<Self::File>;

    /// What a file that is about to be opened counts as, where descriptors are limited.
    fn descriptor(&self, _file: &Self::File) -> Option<Held> {
        None
    }

    /// A block is written; `bytes` are those of its staging block.
    fn written(&self, _arrived: &Arrived<Self::File>, _bytes: &[u8], _by: WrittenBy) {}

    /// Every segment of a file is written and vouched for.
    fn complete(&self, file: &Arc<Self::File>);

    /// These bytes are not what they were said to be, and must come again.
    fn damaged(&self, file: &Arc<Self::File>, range: Range<u64>);

    /// A file has failed; the others go on.
    fn fail_file(&self, file: &Arc<Self::File>, error: Error);

    /// Nothing can go on.
    fn fail(&self, error: Error);

    /// How files that were handed in have ended.
    fn ended(&self, outcomes: Vec<(FileId, Outcome)>);

    /// A file could not be written. Where the destination is gone, or there is no space, no other can be either; what is
    /// there is kept for the next run.
    fn write_failed(&self, file: &Arc<Self::File>, error: Error) {
        if let Some(moved) = self.path().sink.moved() {
            self.fail(moved);
        } else if error.kind == ErrorKind::NoSpace {
            self.fail(no_room(&error));
        } else {
            self.fail_file(file, error);
        }
    }
}

/// What a write path is made of.
pub struct WriteSettings<'s> {
    /// Names and directories.
    pub sink: Arc<dyn Sink>,
    /// What is safe; none for memory.
    pub journal: Option<Journal>,
    /// What is verified for ever, if that is remembered.
    pub catalogue: Option<Arc<Mutex<Catalogue>>>,
    /// What there has to be before a file gets its name, where others may have taken the work over.
    pub permit: Option<Arc<Permit>>,
    /// What is counted.
    pub ledger: Arc<Ledger>,
    /// Bytes between taking in and writing.
    pub staging: ByteCount,
    /// Most workers on either side of it.
    pub max_workers: u16,
    /// One writer's rate.
    pub limit: Option<BitRate>,
    /// Threads and staging that may be used.
    pub share: &'s Share,
}

/// The write path of one transfer or download.
pub struct WritePath<F> {
    /// Names and directories.
    pub sink: Arc<dyn Sink>,
    /// What is counted.
    pub ledger: Arc<Ledger>,
    /// Between taking in and writing.
    pub staging: Staging<Arrived<F>>,
    /// Around the queue, while writing is as quick as memory.
    shortcut: Shortcut,
    limit: Option<BitRate>,
    written_bytes: AtomicU64,
    /// Files of which something was verified since the last checkpoint.
    dirty: Mutex<Vec<Arc<F>>>,
    complete: Mutex<Option<mpsc::SyncSender<Complete>>>,
    completed: Mutex<mpsc::Receiver<Complete>>,
    committer: Mutex<Option<Committer>>,
    permit: Option<Arc<Permit>>,
    failure: Mutex<Option<Error>>,
    stopped: AtomicBool,
}

impl<F: AsRef<Incoming>> WritePath<F> {
    /// A write path on which nothing has arrived.
    pub fn new(settings: WriteSettings<'_>) -> Self {
        let WriteSettings { sink, journal, catalogue, permit, ledger, staging, max_workers, limit, share } =
            settings;
        // Bounded: complete files keep a descriptor open until they are committed.
        let (complete, completed) = mpsc::sync_channel(GROUP);
        let committer = Committer {
            sink: Arc::clone(&sink),
            journal: journal.map(|journal| Arc::new(Mutex::new(journal))),
            catalogue,
            permit: permit.clone(),
            threads: Arc::clone(&share.threads),
            warned: Arc::default(),
        };
        Self {
            sink,
            ledger,
            staging: Staging::within(staging, max_workers, Arc::clone(&share.staging)),
            shortcut: Shortcut::new(limit.is_none()),
            limit,
            written_bytes: AtomicU64::new(0),
            dirty: Mutex::default(),
            complete: Mutex::new(Some(complete)),
            completed: Mutex::new(completed),
            committer: Mutex::new(Some(committer)),
            permit,
            failure: Mutex::default(),
            stopped: AtomicBool::new(false),
        }
    }

    // The end ----------------------------------------------------------------------------------------

    /// Nothing more is taken in or written.
    pub fn stop(&self) {
        self.stopped.store(true, Relaxed);
        self.staging.abort();
    }

    /// Stops because of an error; the first one counts.
    pub fn stop_for(&self, error: Error) {
        self.failure.lock().get_or_insert(error);
        self.stop();
    }

    /// Whether it has been stopped.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Relaxed)
    }

    /// What says so, for waits.
    pub fn stopped(&self) -> &AtomicBool {
        &self.stopped
    }

    /// The error that stopped it, if one did.
    pub fn failure(&self) -> Option<Error> {
        self.failure.lock().clone()
    }

    // What is remembered -----------------------------------------------------------------------------

    /// What is safe; none for memory, or once released.
    pub fn journal(&self) -> Option<Arc<Mutex<Journal>>> {
        self.committer.lock().as_ref()?.journal.clone()
    }

    /// Leaves the journal to the next run.
    pub fn release_journal(&self) {
        self.committer.lock().take();
    }

    /// What earlier runs left of files is not used.
    pub fn start_anew<'e>(&self, entries: impl Iterator<Item = &'e Entry>) -> Result<()> {
        self.journal().map_or(Ok(()), |journal| journal.lock().anew(entries))
    }

    /// The segments of `left` that the unfinished file for `entry` still holds, with their hashes. Each counts as there
    /// already, and is shown to `found`, once it has been read.
    pub fn read_again(
        &self,
        entry: &Entry,
        verify: Verify,
        left: HashMap<u64, Digest>,
        found: impl FnMut(u64, Digest),
    ) -> HashMap<u64, Digest> {
        self.read_part_again(self.sink.open(entry, true), (entry.size(), verify), left, found)
    }

    /// The blocks of segments that are not complete that the unfinished file for `entry` still holds, as
    /// [`read_again`](Self::read_again) has it of segments.
    pub fn read_blocks_again(
        &self,
        entry: &Entry,
        verify: Verify,
        left: impl IntoIterator<Item = SomeBlocks>,
    ) -> Vec<(u64, Digest)> {
        let Ok(part) = self.sink.open(entry, true) else { return Vec::new() };
        let size = entry.size();
        let over = || self.is_stopped();
        let found = left.into_iter().flat_map(|some| blocks_there(&*part, (size, verify), some, &over));
        let found: Vec<_> = found.collect();
        found.iter().for_each(|(offset, _)| self.ledger.already(BLOCK.min(size - offset)));
        found
    }

    /// The same for the unfinished `part` of a file of `size` bytes.
    pub(crate) fn read_part_again(
        &self,
        part: Result<Box<dyn SinkFile>>,
        (size, verify): (u64, Verify),
        left: HashMap<u64, Digest>,
        mut found: impl FnMut(u64, Digest),
    ) -> HashMap<u64, Digest> {
        let mut there = HashMap::new();
        if let Ok(part) = part {
            still_there(&*part, (size, verify), left, &|| self.is_stopped(), &mut |segment, digest| {
                let range = segment_range(segment, size);
                self.ledger.already(range.end - range.start);
                there.insert(segment, digest);
                found(segment, digest);
            });
        }
        there
    }

    /// How long whoever delivers and writers could have worked and did not; who writes what it delivers is a writer.
    pub fn waited(&self) -> (Duration, Duration) {
        let (filling, taking) = self.staging.waited();
        let in_place = if self.sink.has_write_stage() { self.shortcut.in_place() } else { Duration::ZERO };
        (filling + in_place, taking.saturating_sub(in_place))
    }

    // Writing ----------------------------------------------------------------------------------------

    /// Waits for leave to write to a file that others write to as well, where leave is needed.
    pub fn may_write(&self) -> Result<()> {
        self.permit.as_ref().map_or(Ok(()), |permit| permit.obtain())
    }

    /// Bytes written so far.
    pub fn written_bytes(&self) -> u64 {
        self.written_bytes.load(Relaxed)
    }

    /// Bytes have been written, here or past the staging.
    pub fn count_written(&self, bytes: u64) {
        self.written_bytes.fetch_add(bytes, Relaxed);
    }

    /// What one writer does until all ends.
    fn write<H: WriteHandler<File = F>>(&self, handler: &H, index: u16, gate: &Gate) {
        let throttle = Throttle::new(self.limit);
        while gate.pass(index) {
            // A throttled writer sleeps more than it writes: others must not wait for it.
            let block = match throttle {
                Some(_) => self.staging.take(),
                None => self.staging.take_if(occupy),
            };
            let Some(block) = block else { return };
            let pass = self.shortcut.count();
            self.write_block(handler, &block, throttle.as_ref(), WrittenBy::Pool);
            pass.done();
            self.staging.release(block);
            if !gate.is_open(index) {
                self.staging.nudge();
            }
        }
    }

    /// Writes a block that has just arrived where it is, or leaves it to the pool.
    pub fn deliver<H: WriteHandler<File = F>>(&self, handler: &H, block: Block<Arrived<F>>) {
        if self.staging.is_empty()
            && let Some(pass) = self.shortcut.enter()
            && occupy(&block)
        {
            self.write_block(handler, &block, None, WrittenBy::Deliverer);
            pass.own_work_follows();
            pass.done();
            self.staging.release(block);
            // A writer that left the file to us waits, and we do not come back for what it refused.
            if !self.staging.is_empty() {
                self.staging.nudge();
            }
        } else {
            self.staging.put(block);
        }
    }

    fn write_block<H: WriteHandler<File = F>>(
        &self,
        handler: &H,
        block: &Block<Arrived<F>>,
        throttle: Option<&Throttle>,
        by: WrittenBy,
    ) {
        for arrived in &block.frames {
            if incoming(arrived).has_ended() {
                continue;
            }
            // Whoever has lost its lease writes no more where others may by now.
            if incoming(arrived).portion().is_some()
                && let Err(error) = self.may_write()
            {
                handler.fail(error);
                break;
            }
            if let Err(error) = self.write_arrived(handler, arrived, &block.bytes, (throttle, by)) {
                handler.write_failed(&arrived.file, error);
            }
        }
        if let Some(first) = block.frames.first() {
            incoming(first).leave();
        }
    }

    fn write_arrived<H: WriteHandler<File = F>>(
        &self,
        handler: &H,
        arrived: &Arrived<F>,
        bytes: &[u8],
        (throttle, by): (Option<&Throttle>, WrittenBy),
    ) -> Result<()> {
        let (file, offset, length) = (incoming(arrived), arrived.offset, u64::from(arrived.length));
        let Some(part) = file.part_for(offset, &*self.sink, handler.descriptor(&arrived.file))? else {
            // It has come before.
            self.ledger.bytes_again.fetch_add(length, Relaxed);
            return Ok(());
        };
        // What is written counts at once.
        in_portions(throttle, None, arrived.length as usize, &self.stopped, |portion| {
            if arrived.placed {
                // Nothing is to be written.
            } else if !arrived.data.is_empty() {
                let data = &bytes[arrived.data.clone()][portion.clone()];
                part.write_at(offset + portion.start as u64, data)?;
            } else if portion.start == 0 {
                part.zero_at(offset, length)?;
            }
            self.count_written(portion.len() as u64);
            Ok::<(), Error>(())
        })?;
        let change = file.written(offset, arrived.digest)?;
        self.follow(handler, &arrived.file, change);
        handler.written(arrived, bytes, by);
        Ok(())
    }

    /// Does what a change of a file asks for.
    pub(crate) fn follow<H: WriteHandler<File = F>>(&self, handler: &H, file: &Arc<F>, change: Change) {
        match change {
            Change::Nothing => {}
            Change::Checkpoint => self.dirty.lock().push(Arc::clone(file)),
            Change::Complete => handler.complete(file),
            Change::Damaged(range) => {
                self.ledger.bytes_again.fetch_add(range.end - range.start, Relaxed);
                handler.damaged(file, range);
            }
        }
    }

    // Committing -------------------------------------------------------------------------------------

    /// A file is whole and verified, and hashes to `root` if that was asked for: it gets its mode and times, and goes
    /// on to its name.
    pub fn hand_in<H: WriteHandler<File = F>>(&self, handler: &H, file: &Arc<F>, root: Digest) {
        let incoming = F::as_ref(file);
        let portion = incoming.portion();
        let sealed = incoming.part(&*self.sink, handler.descriptor(file)).and_then(|part| {
            let split = portion.map(|portion| CompletePortion {
                part: Arc::clone(&portion.part),
                segments: incoming.take_fresh().map(|(_, segments)| segments).unwrap_or_default(),
                completes: portion.completes,
            });
            if portion.is_none_or(|portion| portion.completes) {
                part.seal(&incoming.entry)?;
            }
            Ok(Complete { id: incoming.id, entry: incoming.recorded(), part, root, split })
        });
        match sealed {
            Ok(complete) => {
                let sender = self.complete.lock().clone();
                if let Some(sender) = sender {
                    let _ = sender.send(complete);
                }
            }
            Err(error) => handler.write_failed(file, error),
        }
    }

    /// What the committing thread does until nothing more can be handed in.
    fn commit<H: WriteHandler<File = F>>(&self, handler: &H) {
        let Some(committer) = self.committer.lock().clone() else { return };
        let completed = self.completed.lock();
        commit_all(
            &committer,
            &completed,
            || self.progress(),
            |committed| match committed {
                Ok(outcomes) => handler.ended(outcomes),
                Err(error) => handler.fail(error),
            },
        );
    }

    /// Records at once what is there of a file that is about to end unfinished, to the block: what nobody but its server
    /// can vouch for, and was proved when it came.
    pub fn checkpoint(&self, file: &Arc<F>) {
        let Some(committer) = self.committer.lock().clone() else { return };
        if let Some((part, segments)) = F::as_ref(file).take_fresh() {
            let blocks = F::as_ref(file).incomplete();
            record(&committer, vec![Progress { file: Arc::clone(file), part, segments, blocks }]);
        }
    }

    /// What is and will be there of a file is recorded as of this `version`, no longer as of the one it was begun as.
    pub fn relabel(&self, file: &Arc<F>, version: Fingerprint) -> Result<()> {
        // What is recorded is made durable first, for which it is open.
        F::as_ref(file).part(&*self.sink, None)?;
        F::as_ref(file).relabel(version);
        self.dirty.lock().push(Arc::clone(file));
        Ok(())
    }

    /// Segments verified since the last time, of files still on their way.
    fn progress(&self) -> Vec<Progress<F>> {
        let dirty = std::mem::take(&mut *self.dirty.lock());
        let fresh = |file: Arc<F>| {
            let (part, segments) = F::as_ref(&file).take_fresh()?;
            Some(Progress { file, part, segments, blocks: Vec::new() })
        };
        dirty.into_iter().filter_map(fresh).collect()
    }
}

/// The threads of a write path: its writers, and the one that commits.
pub struct WriteThreads<H: WriteHandler> {
    handler: Arc<H>,
    writers: Pool,
    committer: Mutex<Option<JoinHandle<()>>>,
}

impl<H: WriteHandler> WriteThreads<H> {
    /// Starts the committing thread; at most `most` writers start once they are allowed, and beyond the first only as
    /// many as there is room for in `share`.
    pub fn start(handler: &Arc<H>, most: u16, share: &Share) -> Self {
        let writers = {
            let handler = Arc::clone(handler);
            Pool::within("write", most, Arc::clone(&share.threads), move |index, gate| {
                let _guard = FailOnPanic(&*handler);
                handler.path().write(&*handler, index, gate);
            })
        };
        let committer = Mutex::new(spawn(handler, "commit", |handler| handler.path().commit(handler)));
        Self { handler: Arc::clone(handler), writers, committer }
    }

    /// Lets this many writers run, for so many that deliver.
    pub fn resize(&self, n: u16, deliverers: u16) {
        self.handler.path().staging.allow(deliverers, n);
        self.writers.resize(n);
        self.handler.path().shortcut.resize(self.writers.size());
    }

    /// How long writers wrote, summed over them, those too that were to write no more and finished what they had begun.
    pub fn worked(&self) -> Duration {
        self.writers.ran().saturating_sub(self.handler.path().staging.waited_in_all().1)
    }

    /// Once stopped: waits until everything that was handed in has ended, and what is verified is recorded.
    pub fn join(&self) {
        self.writers.close();
        self.writers.join();
        self.handler.path().complete.lock().take();
        if let Some(committer) = self.committer.lock().take()
            && committer.join().is_err()
        {
            tracing::error!("the committing thread panicked");
        }
    }
}

/// Starts a thread for a handler, which fails if it cannot be started, or panics.
pub fn spawn<H: WriteHandler>(
    handler: &Arc<H>,
    name: &str,
    work: impl FnOnce(&H) + Send + 'static,
) -> Option<JoinHandle<()>> {
    let shared = Arc::clone(handler);
    let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
        let _guard = FailOnPanic(&*shared);
        work(&shared);
    });
    thread
        .inspect_err(|error| {
            handler.fail(Error::new(ErrorKind::Io, format!("cannot start a thread: {error}")));
        })
        .ok()
}

/// Sees to it that a worker's panic ends everything, which would wait for it else.
pub struct FailOnPanic<'h, H: WriteHandler>(pub &'h H);

impl<H: WriteHandler> Drop for FailOnPanic<'_, H> {
    fn drop(&mut self) {
        if thread::panicking() {
            let why = "a worker panicked, which is a defect; what is safe is kept";
            self.0.fail(Error::new(ErrorKind::Io, why));
        }
    }
}

fn incoming<F: AsRef<Incoming>>(arrived: &Arrived<F>) -> &Incoming {
    F::as_ref(&arrived.file)
}

/// Takes the file that a block is of; `false` if another writer is at it.
fn occupy<F: AsRef<Incoming>>(block: &Block<Arrived<F>>) -> bool {
    block.frames.first().is_none_or(|first| incoming(first).occupy())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::block_digest;
    use crate::manifest::{Kind, Timestamp};
    use crate::path::RelPath;
    use crate::quota::Quota;
    use crate::store::memory::NullSink;

    const SIZE: u64 = 5;

    struct Handler {
        path: WritePath<Incoming>,
        told: Mutex<Vec<String>>,
        panics: bool,
    }

    impl Handler {
        fn new(panics: bool) -> Arc<Self> {
            let path = WritePath::new(WriteSettings {
                sink: Arc::new(NullSink),
                journal: None,
                catalogue: None,
                permit: None,
                ledger: Arc::default(),
                staging: ByteCount::mib(1),
                max_workers: 1,
                limit: None,
                share: &Share::own(),
            });
            Arc::new(Self { path, told: Mutex::default(), panics })
        }

        fn tell(&self, what: impl Into<String>) {
            self.told.lock().push(what.into());
        }

        fn told(&self) -> Vec<String> {
            self.told.lock().clone()
        }

        fn deliver(&self, file: &Arc<Incoming>) {
            let mut block = self.path.staging.acquire().expect("room");
            let digest = block_digest(b"bytes", 0, SIZE);
            block.bytes[..SIZE as usize].copy_from_slice(b"bytes");
            let (file, data) = (Arc::clone(file), 0..SIZE as usize);
            block.frames.push(Arrived { file, offset: 0, length: SIZE as u32, data, digest, placed: false });
            self.path.deliver(self, block);
        }
    }

    impl WriteHandler for Handler {
        type File = Incoming;

        fn path(&self) -> &WritePath<Incoming> {
            &self.path
        }

        fn written(&self, arrived: &Arrived<Incoming>, bytes: &[u8], by: WrittenBy) {
            assert!(!self.panics, "as it was told to");
            assert_eq!(&bytes[arrived.data.clone()], b"bytes");
            self.tell(format!("written by {by:?}"));
        }

        fn complete(&self, file: &Arc<Incoming>) {
            self.tell("complete");
            self.path.hand_in(self, file, file.root());
        }

        fn damaged(&self, _: &Arc<Incoming>, range: Range<u64>) {
            self.tell(format!("damaged {range:?}"));
        }

        fn fail_file(&self, _: &Arc<Incoming>, error: Error) {
            self.tell(format!("one fails: {error}"));
        }

        fn fail(&self, error: Error) {
            self.tell(format!("all fails: {error}"));
            self.path.stop_for(error);
        }

        fn ended(&self, outcomes: Vec<(FileId, Outcome)>) {
            self.tell(format!("ended {outcomes:?}"));
        }
    }

    fn file() -> Arc<Incoming> {
        let path = RelPath::new(*b"file").expect("a name");
        let kind = Kind::File { size: SIZE, fingerprint: [0; 16] };
        let entry = Entry::new(path, kind, 0o644, Timestamp::default());
        Arc::new(Incoming::new(1, entry, Verify::Block, None, &Quota::unlimited()).expect("room"))
    }

    fn eventually(what: impl Fn() -> bool) {
        while !what() {
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_block_is_written_once_by_the_pool_or_in_place_and_its_file_gets_its_name() {
        // Without writers that are allowed, it waits for one.
        for (early, by) in [(false, "Pool"), (true, "Deliverer")] {
            let handler = Handler::new(false);
            let threads = WriteThreads::start(&handler, 1, &Share::own());
            let file = file();
            if early {
                threads.resize(1, 1);
            }
            handler.deliver(&file);
            threads.resize(1, 1);
            eventually(|| handler.told().len() == 3);
            handler.deliver(&file);
            eventually(|| handler.path.ledger.bytes_again.load(Relaxed) == SIZE);
            handler.path.stop();
            threads.join();
            let mut told = handler.told();
            // The committer is another thread.
            told.sort();
            assert_eq!(told, ["complete", "ended [(1, Committed)]", &format!("written by {by}")]);
            assert_eq!(handler.path.written_bytes(), SIZE, "not what came twice");
        }
    }

    #[test]
    fn where_nothing_more_fits_all_ends_and_elsewhere_one_file() {
        let handler = Handler::new(false);
        handler.write_failed(&file(), Error::new(ErrorKind::Io, "no"));
        assert!(!handler.path.is_stopped());
        handler.write_failed(&file(), Error::new(ErrorKind::NoSpace, "full"));
        assert!(handler.path.is_stopped());
        let hint = "all fails: full; free some space and run the same command again";
        assert_eq!(handler.told(), ["one fails: no", hint]);
    }

    #[test]
    fn a_writers_panic_ends_all() {
        let handler = Handler::new(true);
        let threads = WriteThreads::start(&handler, 1, &Share::own());
        handler.deliver(&file());
        threads.resize(1, 1);
        eventually(|| handler.path.failure().is_some());
        threads.join();
        assert!(handler.path.is_stopped());
    }
}
