//! The sending end: lists the source, offers entries, reads what is wanted and sends it.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tidegate_control::{Concurrency, PathSample};

use crate::error::{Error, ErrorKind, Result};
use crate::hash::{Digest, FileHash};
use crate::ledger::Ledger;
use crate::logic::events::EventQueue;
use crate::logic::sender::{SenderEvent, SenderTerms};
use crate::manifest::{BLOCK, FileId, SEGMENT, segment_range};
use crate::pipeline::data_streams::{DataStreams, Supply};
use crate::pipeline::pool::Pool;
use crate::pipeline::shortcut::Shortcut;
use crate::pipeline::staging::Staging;
use crate::pipeline::work::WorkQueue;
use crate::quota::Share;
use crate::store::{Listed, Source};
use crate::sys::sync::Mutex;
use crate::sys::thread;
use crate::terms::Terms;
use crate::throttle::Throttle;
use crate::wire::channel::Channel;
use crate::wire::message::Message;
use crate::wire::session::Outbox;

mod acceptance;
mod aside;
mod congestion;
mod counting;
mod hashing;
mod listing;
mod naming;
mod owner;
mod reading;
mod resending;
mod starting;
mod streaming;
mod yielding;

use acceptance::Acceptance;
use congestion::Trying;
use counting::Tally;
pub(crate) use owner::SenderOwner;
use yielding::Yields;

/// Streams that may wait for a worker beyond one each: they may be quicker than the set-point they belong to.
const SPARE_STREAMS: usize = 8;

/// A file on its way.
#[derive(Debug)]
pub(crate) struct SendFile {
    id: FileId,
    listed: Arc<Listed>,
    size: u64,
    hash: Mutex<Option<FileHash>>,
    resent: AtomicU64,
    arrived: Mutex<Arrived>,
    /// Nothing more of it is read or sent.
    ended: AtomicBool,
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

struct SenderState {
    source: Box<dyn Source>,
    terms: Terms,
    outbox: Outbox,
    /// Where the owner is told what has happened.
    events: EventQueue<SenderEvent>,
    ledger: Arc<Ledger>,
    work: WorkQueue<SendFile>,
    staging: Staging<Sent>,
    bypass: Bypass,
    data_streams: DataStreams<Sent>,
    link: Option<Throttle>,
    tally: Tally,
    ending: Ending,
    policy: StreamPolicy,
    acceptance: Acceptance,
}

/// The way around the read pool.
struct Bypass {
    /// Open while reading and sending are as quick as memory.
    shortcut: Shortcut,
    /// Whether streams' workers read for themselves. Follows the shortcut, and whoever waits is told.
    direct: AtomicBool,
}

/// How its streams are treated.
struct StreamPolicy {
    yields: Yields,
    trying: Trying,
    /// How long a stream may leave everything unconfirmed before the receiver is asked about it; `None` if it is not.
    patience: Option<Duration>,
}

/// How it ends.
#[derive(Debug, Default)]
struct Ending {
    stopped: AtomicBool,
    /// Everything is durable at the receiver: streams end properly.
    confirmed: AtomicBool,
    failure: Mutex<Option<Error>>,
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
        let (events, happened) = EventQueue::new(&outbox);
        let agreed =
            SenderTerms { purpose: terms.purpose, moves: source.is_moved(), tells_left_out: peer.asked };
        let shared = Arc::new(SenderState {
            work: WorkQueue::new(terms.chunk.map(|chunk| chunk.0), terms.pipelining),
            staging: Staging::within(terms.staging, terms.max_workers, Arc::clone(&share.staging)),
            bypass: Bypass {
                shortcut: Shortcut::new(!terms.streams_read() && terms.limits.read.is_none()),
                direct: AtomicBool::new(false),
            },
            data_streams: DataStreams::new(supply, terms.congestion.first()),
            link: Throttle::new(terms.limits.link),
            source,
            outbox,
            events,
            ledger,
            tally: Tally::default(),
            ending: Ending::default(),
            policy: StreamPolicy {
                yields: Yields::default(),
                trying: Trying::default(),
                patience: peer.patience,
            },
            acceptance: Acceptance::new(peer.asked),
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
        if shared.data_streams.joint().is_none() {
            starting::follow(&shared);
            congestion::follow(&shared);
        }
        let owner = SenderOwner::start(&shared, agreed, happened, &share.threads);
        (Self { shared, readers, streams }, owner)
    }

    /// The receiver has agreed to receive.
    pub fn accepted(&self) {
        self.shared.acceptance.give();
    }

    /// Lets this many readers and streams run.
    pub fn resize(&self, setpoint: Concurrency) {
        let readers = if self.shared.terms.streams_read() { 0 } else { setpoint.read };
        // Streams that read for themselves must not be more than the readers there should be.
        let too_few = self.shared.source.has_read_stage() && readers < setpoint.network;
        self.shared.bypass.shortcut.resize(if too_few { 0 } else { setpoint.network });
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

    /// What the kernel tells of the streams at `at`, if any is under way.
    pub fn path_sample(&self, at: Duration) -> Option<PathSample> {
        let seen = self.shared.data_streams.path_sample(at)?;
        Some(PathSample { tries: self.shared.policy.trying.is_under_way(), ..seen })
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
        if let Some(patience) = self.shared.policy.patience {
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

    /// Whether a read stage exists.
    pub(crate) fn has_read_stage(&self) -> bool {
        self.shared.source.has_read_stage() && !self.shared.terms.streams_read()
    }

    /// The error that ended the transfer, if one did.
    pub fn failure(&self) -> Option<Error> {
        self.shared.ending.failure.lock().clone()
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
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.join();
    }
}

impl SenderState {
    fn stop(&self) {
        self.ending.stopped.store(true, Relaxed);
        self.source.stop();
        self.work.close();
        if self.ending.confirmed.load(Relaxed) {
            self.staging.close();
            self.data_streams.close();
        } else {
            self.staging.abort();
            self.data_streams.abort();
        }
    }

    fn is_stopped(&self) -> bool {
        self.ending.stopped.load(Relaxed)
    }

    /// Lets streams' workers read for themselves, or the read pool again.
    fn settle(&self) {
        let open = self.bypass.shortcut.is_open();
        if self.bypass.direct.swap(open, Relaxed) != open {
            self.work.nudge();
            self.staging.recall();
        }
    }

    /// The whole transfer cannot go on.
    fn fail(&self, error: Error) {
        tracing::debug!("sending ends: {error}");
        self.ending.failure.lock().get_or_insert(error);
        self.stop();
    }

    /// Starts a thread besides those of the pools.
    fn spawn(
        self: &Arc<Self>,
        name: &str,
        work: impl FnOnce(&Self) + Send + 'static,
    ) -> Result<thread::JoinHandle<()>> {
        let shared = Arc::clone(self);
        let started = thread::Builder::new().name(name.to_owned()).spawn(move || work(&shared));
        started.map_err(|error| Error::new(ErrorKind::Io, format!("cannot start a thread: {error}")))
    }

    /// A file cannot be completed from here.
    fn give_up(&self, file: &SendFile, error: Error) {
        if !file.ended.swap(true, Relaxed) {
            self.events.tell(SenderEvent::GivenUp(file.id, error));
        }
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
    fn new(id: FileId, listed: Arc<Listed>) -> Self {
        let size = listed.entry.size();
        let (hash, resent, arrived) = (Mutex::default(), AtomicU64::new(0), Mutex::default());
        Self { id, listed, size, hash, resent, arrived, ended: AtomicBool::new(false) }
    }

    /// About how much of it is kept if nothing more arrives, with what the receiver `kept` of earlier runs: whole segments.
    fn is_there(&self, kept: u64) -> u64 {
        (kept + self.arrived.lock().whole).min(self.size)
    }

    /// The receiver has these segments from an earlier run.
    fn have(&self, segments: Vec<(u64, Digest)>) {
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
}
