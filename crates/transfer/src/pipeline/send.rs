//! The sending end: lists the source, offers entries, reads what is wanted and sends it.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tidegate_control::Concurrency;

use crate::error::{Error, ErrorKind, Result};
use crate::hash::{Digest, FileHash};
use crate::ledger::Ledger;
use crate::manifest::{BLOCK, FileId, SEGMENT, missing, segment_range};
use crate::offer::{OFFER_BYTES, OFFER_ENTRIES, Outcome, Verdict, WINDOW, WINDOW_BYTES};
use crate::pipeline::data_streams::{DataStreams, Supply};
use crate::pipeline::pool::Pool;
use crate::pipeline::shortcut::Shortcut;
use crate::pipeline::staging::Staging;
use crate::pipeline::waits::WorkerTime;
use crate::pipeline::work::{Piece, WorkQueue};
use crate::quota::{Quota, Share};
use crate::store::{Listed, Source};
use crate::sys::clock::Instant;
use crate::sys::sync::{Condvar, Mutex, mpsc};
use crate::sys::thread;
use crate::terms::{Purpose, Terms};
use crate::throttle::Throttle;
use crate::wire::channel::Channel;
use crate::wire::message::Message;
use crate::wire::session::Outbox;

mod comparing;
mod counting;
mod listing;
mod moving;
mod naming;
mod planning;
mod reading;
mod resending;
mod streaming;
mod yielding;

use comparing::Comparison;
use naming::Naming;
use planning::Decided;
use yielding::Yields;

/// How often whoever waits for the one that listens looks whether all was stopped.
const LOOK: Duration = Duration::from_millis(50);

/// Streams that may wait for a worker beyond one each: they may be quicker than the set-point they belong to.
const SPARE_STREAMS: usize = 8;

/// A file on its way.
#[derive(Debug)]
pub(crate) struct SendFile {
    id: FileId,
    listed: Listed,
    size: u64,
    hash: Mutex<Option<FileHash>>,
    /// Bytes that were there from an earlier run.
    kept: AtomicU64,
    resent: AtomicU64,
    arrived: Mutex<Arrived>,
    ended: AtomicBool,
    asked: Mutex<Asked>,
}

/// What the receiver has said of a file. It says each thing once: what it says is work for us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    /// Nothing yet.
    Offered,
    /// One of the same size is there: ours is read, to compare them.
    Compared,
    /// It has heard what came of that.
    Told,
    /// It wants it.
    Wanted,
}

/// What the receiver has taken of a file that is not complete.
#[derive(Debug, Default)]
struct Arrived {
    /// Bytes of segments that have not arrived whole.
    parts: HashMap<u64, u64>,
    /// Bytes of those that have.
    whole: u64,
}

/// What is remembered of a frame on its way.
#[derive(Debug)]
pub(crate) struct Sent {
    file: Arc<SendFile>,
    offset: u64,
    length: u32,
}

/// What is known of the receiver.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    /// How long a stream may leave everything unconfirmed before the receiver is asked about it; `None` if it is not.
    pub patience: Option<Duration>,
    /// Whether it asked for the source, and is told what is left out of it.
    pub asked: bool,
}

/// The sending end of one transfer.
#[derive(Debug)]
pub(crate) struct Sender {
    shared: Arc<SenderState>,
    readers: Pool,
    streams: Pool,
}

/// What decides for a [`Sender`].
#[derive(Debug)]
pub(crate) struct SenderOwner {
    shared: Arc<SenderState>,
    finished: bool,
}

impl SenderOwner {
    /// Acts on a message of the receiver.
    pub fn hear(&mut self, message: Message) -> Result<()> {
        self.finished |= self.shared.handle(message)?;
        Ok(())
    }

    /// Acts on what has happened since; `true` once everything is durable at the receiver.
    pub fn turn(&mut self) -> Result<bool> {
        Ok(self.finished)
    }
}

struct SenderState {
    source: Box<dyn Source>,
    terms: Terms,
    outbox: Outbox,
    ledger: Arc<Ledger>,
    started: Instant,
    pending: Mutex<Pending>,
    room: Condvar,
    work: WorkQueue<SendFile>,
    staging: Staging<Sent>,
    /// Around the read pool, while reading and sending are as quick as memory.
    shortcut: Shortcut,
    /// Whether streams' workers read for themselves. Follows the shortcut, and whoever waits is told.
    direct: AtomicBool,
    data_streams: DataStreams<Sent>,
    link: Option<Throttle>,
    read_bytes: AtomicU64,
    sent_bytes: AtomicU64,
    /// Readers without work.
    readers_idle: Mutex<WorkerTime>,
    /// Streams' workers that read for themselves, without work.
    streams_idle: Mutex<WorkerTime>,
    failure: Mutex<Option<Error>>,
    comparisons: Mutex<Option<mpsc::Sender<Comparison>>>,
    /// Where what was decided is told, if it is only to be said.
    decided: Mutex<Option<mpsc::Sender<Decided>>>,
    stopped: AtomicBool,
    yields: Yields,
    /// Threads that there may be besides the pools'.
    threads: Arc<Quota>,
    peer: Peer,
    /// What may be told of names; none once they have been asked for, and told.
    naming: Naming,
}

#[derive(Debug, Default)]
struct Pending {
    files: HashMap<FileId, Arc<SendFile>>,
    /// Entries that are no files and wait for a verdict.
    others: HashMap<FileId, Listed>,
    /// Entries that were decided, and whoever listens was not told yet.
    untold: usize,
    /// Bytes of all their names.
    names: usize,
    listed: bool,
    finish_sent: bool,
    finished: bool,
}

tidegate_contract::opaque!(SenderState);

impl Sender {
    /// Starts listing and offering; nothing is read before workers are allowed.
    pub fn start(
        source: Box<dyn Source>,
        terms: Terms,
        outbox: Outbox,
        supply: Supply,
        ledger: Arc<Ledger>,
        share: &Share,
        peer: Peer,
    ) -> (Self, SenderOwner) {
        let shared = Arc::new(SenderState {
            work: WorkQueue::new(terms.chunk.map(|chunk| chunk.0), terms.pipelining),
            staging: Staging::within(terms.staging, terms.max_workers, Arc::clone(&share.staging)),
            shortcut: Shortcut::new(!terms.streams_read() && terms.limits.read.is_none()),
            direct: AtomicBool::new(false),
            data_streams: DataStreams::new(supply),
            link: Throttle::new(terms.limits.link),
            source,
            outbox,
            ledger,
            started: Instant::now(),
            pending: Mutex::default(),
            room: Condvar::new(),
            read_bytes: AtomicU64::new(0),
            sent_bytes: AtomicU64::new(0),
            readers_idle: Mutex::default(),
            streams_idle: Mutex::default(),
            failure: Mutex::default(),
            comparisons: Mutex::default(),
            decided: Mutex::default(),
            stopped: AtomicBool::new(false),
            yields: Yields::default(),
            threads: Arc::clone(&share.threads),
            peer,
            naming: Naming::default(),
            terms,
        });
        let most = shared.terms.max_workers;
        let readers = {
            let shared = Arc::clone(&shared);
            Pool::within("read", most, Arc::clone(&share.threads), move |index, gate| {
                shared.read(index, gate);
            })
        };
        let streams = {
            let shared = Arc::clone(&shared);
            Pool::within("network", most, Arc::clone(&share.threads), move |index, gate| {
                match shared.terms.streams_read() {
                    false => shared.stream(index, gate),
                    true => shared.stream_claims(index, gate),
                }
            })
        };
        let spawn = |name: &str, work: Box<dyn FnOnce() + Send>| {
            if let Err(error) = thread::Builder::new().name(name.to_owned()).spawn(work) {
                shared.fail(Error::new(ErrorKind::Io, format!("cannot start a thread: {error}")));
            }
        };
        let lister = Arc::clone(&shared);
        spawn("list", Box::new(move || lister.list()));
        let owner = SenderOwner { shared: Arc::clone(&shared), finished: false };
        (Self { shared, readers, streams }, owner)
    }

    /// Lets this many readers and streams run.
    pub fn resize(&self, setpoint: Concurrency) {
        let readers = if self.shared.terms.streams_read() { 0 } else { setpoint.read };
        // Streams that read for themselves must not be more than the readers there should be.
        let too_few = self.shared.source.has_read_stage() && readers < setpoint.network;
        self.shared.shortcut.resize(if too_few { 0 } else { setpoint.network });
        self.shared.allow(readers, setpoint.network);
        self.shared.settle();
        self.readers.resize(readers);
        // Who moves most stays: the others would need long to fill its gap.
        let fewer = setpoint.network < self.streams.size();
        let best = if fewer { self.shared.data_streams.by_rate() } else { Vec::new() };
        self.streams.resize_to_best(setpoint.network, &best);
    }

    /// Lets all streams yield to whatever else is on the path, or no more.
    pub fn yields(&self, yields: bool) {
        yielding::set(&self.shared, yields);
    }

    /// A stream that the receiver dialled.
    pub(crate) fn stream_arrived(&self, index: u32, channel: Channel) {
        // As many as are wanted come at once; workers that are parked have theirs.
        let most = SPARE_STREAMS + usize::from(self.streams.size());
        self.shared.data_streams.arrived(index, channel, most);
    }

    /// Sends again what was on its way on streams that the peer has closed, keeps the kernel's queues of the
    /// others short, and sees whether the way around the read pool is open; called a few times a second.
    pub(crate) fn check_streams(&self) {
        self.shared.settle();
        self.shared.data_streams.tend_queues();
        if let Some(patience) = self.shared.peer.patience {
            let streams = self.shared.data_streams.overdue(patience);
            if !streams.is_empty() {
                tracing::debug!("nothing is confirmed of streams {streams:?}");
                let for_ms = u32::try_from(patience.as_millis()).unwrap_or(u32::MAX);
                self.shared.outbox.send(&Message::Overdue { streams, for_ms });
            }
        }
        for data_stream in self.shared.data_streams.broken() {
            tracing::debug!("stream {data_stream} was closed by the receiver");
            self.shared.lost(data_stream);
        }
    }

    /// Whether every offered file has ended, and the receiver was told so.
    pub(crate) fn has_finished(&self) -> bool {
        self.shared.pending.lock().finish_sent
    }

    /// Whether a read stage exists.
    pub(crate) fn has_read_stage(&self) -> bool {
        self.shared.source.has_read_stage() && !self.shared.terms.streams_read()
    }

    /// The error that ended the transfer, if one did.
    pub fn failure(&self) -> Option<Error> {
        self.shared.failure.lock().clone()
    }

    /// Ends all work: nothing more is offered, read or sent, and streams are cut, unless everything was confirmed
    /// already; then they end properly. Does not wait.
    pub fn stop(&self) {
        self.shared.stop();
        self.readers.close();
        self.streams.close();
    }

    /// Stops and waits for every worker.
    pub fn join(&self) {
        self.stop();
        self.readers.join();
        self.streams.join();
        let pending = self.shared.pending.lock();
        self.shared.ledger.leaves(pending.files.values().map(|file| file.is_there()).sum());
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.join();
    }
}

impl SenderState {
    fn stop(&self) {
        self.stopped.store(true, Relaxed);
        self.work.close();
        let finished = self.pending.lock().finished;
        if finished {
            self.staging.close();
        } else {
            self.staging.abort();
            self.data_streams.abort();
        }
        self.room.notify_all();
        self.naming.close();
    }

    /// Lets streams' workers read for themselves, or the read pool again.
    fn settle(&self) {
        let open = self.shortcut.is_open();
        if self.direct.swap(open, Relaxed) != open {
            self.work.nudge();
            self.staging.recall();
        }
    }

    /// The whole transfer cannot go on.
    fn fail(&self, error: Error) {
        tracing::debug!("sending ends: {error}");
        self.failure.lock().get_or_insert(error);
        self.stop();
    }

    // Messages --------------------------------------------------------------------------------------

    fn handle(self: &Arc<Self>, message: Message) -> Result<bool> {
        match message {
            Message::Verdicts { first, verdicts } => {
                if first.checked_add(verdicts.len() as FileId).is_none() {
                    return Err(Error::protocol("verdicts on files that were never offered"));
                }
                match self.terms.purpose {
                    Purpose::Plan => self.decisions(first, verdicts)?,
                    Purpose::Copy | Purpose::Compare => self.verdicts(first, verdicts)?,
                }
            }
            Message::Have(id, segments) => {
                let pending = self.pending.lock();
                if let Some(file) = pending.files.get(&id) {
                    file.have(segments);
                    self.count_kept(file);
                }
            }
            Message::Taken(counts) => {
                for (data_stream, count) in counts {
                    self.data_streams.confirm(data_stream, count).iter().for_each(Sent::arrived);
                }
            }
            Message::StreamLost(data_stream) => self.lost(data_stream),
            Message::Again(ranges) => ranges.into_iter().try_for_each(|again| self.again(again))?,
            Message::Done(files) => {
                for (id, outcome) in files {
                    self.end(id, |file| match outcome {
                        Outcome::Committed => {
                            if self.moves(file) {
                                self.ledger.done(file.size - file.kept.load(Relaxed));
                            }
                        }
                        Outcome::Failed(error) => self.ledger.failed(file.path(), error, true),
                    });
                }
                self.finish_if_done();
            }
            Message::WantNames(messages) => self.want_names(messages)?,
            Message::Planned(planned) => self.removals(planned)?,
            Message::Deleted(entries, error) => {
                self.ledger.deleted(entries);
                if let Some(error) = error {
                    self.ledger.not_deleted(error);
                }
            }
            Message::Finished(not_kept) => {
                self.ledger.keeps_not(not_kept);
                let mut pending = self.pending.lock();
                if !pending.finish_sent {
                    return Err(Error::protocol("the receiver finished before everything was sent"));
                }
                pending.finished = true;
                // Whoever listens may take their time.
                while pending.untold > 0 && !self.stopped.load(Relaxed) {
                    pending = self.room.wait_timeout(pending, LOOK).0;
                }
                return Ok(true);
            }
            Message::Refused(error) => {
                self.fail(error.clone());
                return Err(error);
            }
            _ => return Err(Error::protocol("the receiver sent what only a sender says")),
        }
        Ok(false)
    }

    /// The files that verdicts are on; other entries have ended with theirs.
    fn decided(&self, first: FileId, verdicts: Vec<Verdict>) -> Vec<(Arc<SendFile>, Verdict)> {
        let mut pending = self.pending.lock();
        let mut files = Vec::with_capacity(verdicts.len());
        for (id, verdict) in (first..).zip(verdicts) {
            if let Some(file) = pending.files.get(&id) {
                files.push((Arc::clone(file), verdict));
            } else if let Some(other) = pending.others.remove(&id) {
                pending.names -= other.entry.memory();
                if let Verdict::Failed(error) = verdict {
                    self.ledger.failed(other.entry.path.as_bytes(), error, false);
                }
            }
        }
        self.call_lister(&pending);
        files
    }

    /// Has the lister go on, if there is room.
    fn call_lister(&self, pending: &Pending) {
        if pending.has_room() {
            self.room.notify_all();
        }
    }

    fn verdicts(self: &Arc<Self>, first: FileId, verdicts: Vec<Verdict>) -> Result<()> {
        let mut pieces = Vec::new();
        for (file, verdict) in self.decided(first, verdicts) {
            let id = file.id;
            match verdict {
                Verdict::Want { have } => {
                    file.asked(&[Asked::Offered, Asked::Told], Asked::Wanted)?;
                    pieces.extend(self.wanted(&file, have));
                }
                Verdict::WantRanges(ranges) => {
                    file.asked(&[Asked::Offered], Asked::Wanted)?;
                    pieces.extend(self.wanted_ranges(&file, ranges)?);
                }
                Verdict::Skip => self.end(id, |file| {
                    if self.stays(file) {
                        self.ledger.skipped(file.size);
                    }
                }),
                Verdict::Made if self.source.is_moved() => {
                    file.asked(&[Asked::Told], Asked::Wanted)?;
                    self.end(id, |file| {
                        if self.moves(file) {
                            self.ledger.skipped(file.size);
                        }
                    });
                }
                Verdict::Made => self.end(id, |file| {
                    self.ledger.skipped(file.size);
                    self.ledger.refreshed();
                }),
                Verdict::Leave => self.end(id, |file| self.ledger.left_out(file.size)),
                Verdict::Exists(theirs) => {
                    file.asked(&[Asked::Offered], Asked::Compared)?;
                    self.compare_aside((file, Some(theirs)));
                }
                Verdict::Tell => {
                    file.asked(&[Asked::Offered], Asked::Compared)?;
                    self.compare_aside((file, None));
                }
                Verdict::Failed(error) => {
                    self.end(id, |file| self.ledger.failed(file.path(), error, true));
                }
                Verdict::Would(_) => {
                    return Err(Error::protocol(
                        "the receiver said what it would do, and was asked to do it",
                    ));
                }
            }
        }
        self.work.push(pieces);
        self.finish_if_done();
        Ok(())
    }

    /// The pieces to send of a wanted file, less what is there already.
    fn wanted(&self, file: &Arc<SendFile>, have: Vec<(u64, Digest)>) -> Vec<Piece<SendFile>> {
        file.have(have);
        let there = self.count_kept(file);
        let ranges = missing(file.size, &there);
        let whole = ranges == [0..file.size];
        let small = whole && file.size <= BLOCK;
        let piece = |range: Range<u64>| Piece { file: Arc::clone(file), range, small };
        ranges.into_iter().filter(|range| range.start < range.end).map(piece).collect()
    }

    /// The pieces to send of a file of which others send the rest.
    fn wanted_ranges(&self, file: &Arc<SendFile>, ranges: Vec<Range<u64>>) -> Result<Vec<Piece<SendFile>>> {
        let is_in = |range: &Range<u64>| {
            range.start < range.end && range.end <= file.size && range.start.is_multiple_of(SEGMENT)
        };
        if !ranges.iter().all(is_in) || ranges.windows(2).any(|pair| pair[0].end > pair[1].start) {
            return Err(Error::protocol(
                "the receiver wants ranges that are not those of the file's segments",
            ));
        }
        let wanted: u64 = ranges.iter().map(|range| range.end - range.start).sum();
        self.keeps(file, file.size - wanted);
        let piece = |range| Piece { file: Arc::clone(file), range, small: false };
        Ok(ranges.into_iter().map(piece).collect())
    }

    /// So much of a file is not to be sent, which may be told bit by bit.
    fn keeps(&self, file: &SendFile, kept: u64) {
        let before = file.kept.fetch_max(kept, Relaxed);
        self.ledger.already(kept.saturating_sub(before));
    }

    /// What the receiver has of a file, which counts from when it says so: it may take long to find it.
    fn count_kept(&self, file: &SendFile) -> Vec<Range<u64>> {
        let there = file.hash.lock().as_ref().map(FileHash::ranges).unwrap_or_default();
        self.keeps(file, there.iter().map(|range| range.end - range.start).sum());
        there
    }

    /// A file will not be completed.
    fn abandon(&self, file: &SendFile, error: Error) {
        self.end(file.id, |file| {
            self.outbox.send(&Message::Abandon(file.id, error.clone()));
            self.ledger.failed(file.path(), error, true);
        });
        self.finish_if_done();
    }

    /// Takes a file off the list and says how it ended, unless it had ended before. Nobody can say that
    /// the transfer is done in between.
    fn end(&self, id: FileId, say: impl FnOnce(&SendFile)) {
        let mut pending = self.pending.lock();
        if let Some(file) = pending.files.remove(&id) {
            pending.names -= file.listed.entry.memory();
            file.ended.store(true, Relaxed);
            say(&file);
            self.call_lister(&pending);
        }
    }

    fn finish_if_done(&self) {
        let mut pending = self.pending.lock();
        if pending.listed && !pending.finish_sent && pending.is_empty() {
            pending.finish_sent = true;
            self.outbox.send(&Message::Finish);
        }
    }
}

impl Pending {
    /// How many entries have not ended.
    fn len(&self) -> usize {
        self.files.len() + self.others.len() + self.untold
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether another offer fits into the window.
    fn has_room(&self) -> bool {
        self.len() + OFFER_ENTRIES <= WINDOW && self.names + OFFER_BYTES <= WINDOW_BYTES
    }
}

impl Sent {
    /// The receiver has taken it.
    fn arrived(&self) {
        // Smaller files are all there or not at all.
        if self.file.size <= SEGMENT {
            return;
        }
        let (segment, length) = (self.offset / SEGMENT, u64::from(self.length));
        let Range { start, end } = segment_range(segment, self.file.size);
        let mut arrived = self.file.arrived.lock();
        let so_far = arrived.parts.entry(segment).or_default();
        *so_far += length;
        if *so_far >= end - start {
            arrived.parts.remove(&segment);
            arrived.whole += end - start;
        }
    }
}

impl SendFile {
    /// The receiver is about to hear what comparing came to, and may answer.
    fn told(&self) {
        *self.asked.lock() = Asked::Told;
    }

    /// The receiver says what is `next` of this file, which it may only after one of `before`.
    fn asked(&self, before: &[Asked], next: Asked) -> Result<()> {
        let mut asked = self.asked.lock();
        if !before.contains(&asked) {
            return Err(Error::protocol("a second verdict on one file"));
        }
        *asked = next;
        Ok(())
    }

    /// About how much of it is kept if nothing more arrives: whole segments, of this run and earlier ones.
    fn is_there(&self) -> u64 {
        let whole = self.arrived.lock().whole;
        (self.kept.load(Relaxed) + whole).min(self.size)
    }

    /// The receiver has these segments from an earlier run.
    fn have(&self, segments: Vec<(u64, Digest)>) {
        if segments.is_empty() {
            return;
        }
        let mut hash = self.hash.lock();
        let hash = hash.get_or_insert_with(|| FileHash::new(self.size));
        segments.into_iter().for_each(|(segment, digest)| hash.add_segment(segment, digest));
    }

    /// Adds a block's hash; answers with the segment it completes, if any.
    fn add_hash(&self, offset: u64, digest: Digest) -> Option<(FileId, u64, Digest)> {
        if self.size <= BLOCK {
            return Some((self.id, 0, digest));
        }
        let mut hash = self.hash.lock();
        let (segment, digest) =
            hash.get_or_insert_with(|| FileHash::new(self.size)).add_block(offset, digest)?;
        Some((self.id, segment, digest))
    }

    fn path(&self) -> &[u8] {
        self.listed.entry.path.as_bytes()
    }
}
