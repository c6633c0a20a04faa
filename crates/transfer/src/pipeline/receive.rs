//! The receiving end: takes in what it wants, writes it, and commits what is verified. What it wants, and when all of it has
//! ended, its [`ReceiverLogic`](crate::logic::receiver::ReceiverLogic) says, which its [`ReceiverOwner`] has.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tidegate_control::{Concurrency, PerStage};

use crate::catalogue::Catalogue;
use crate::counters::{Counters, Glimpse, StageGlimpse};
use crate::error::{Error, ErrorKind};
use crate::fence::Permit;
use crate::hashed::ByNumber;
use crate::journal::{Journal, Leftovers};
use crate::ledger::Ledger;
use crate::logic::asked::Asked;
use crate::logic::events::EventQueue;
use crate::logic::receiver::ReceiverEvent;
use crate::manifest::FileId;
use crate::mirror::Mirror;
use crate::offer::{Again, Outcome};
use crate::pipeline::incoming::Incoming;
use crate::pipeline::write_path::{WriteHandler, WritePath, WriteSettings, WriteThreads};
use crate::quota::{Held, Share};
use crate::selection::{Selection, Taking};
use crate::split::Split;
use crate::store::Sink;
use crate::store::file_sink::no_room;
use crate::sys::clock::Instant;
use crate::sys::processors::CpuTime;
use crate::sys::sync::{Mutex, RwLock};
use crate::sys::thread;
use crate::terms::Terms;
use crate::wire::channel::Channel;
use crate::wire::message::Message;
use crate::wire::session::Outbox;

mod continuing;
mod disk;
mod handing_in;
mod joined;
mod names;
mod owner;
mod splitting;
mod stream;
mod streams;

pub(crate) use owner::ReceiverOwner;

use handing_in::BREATH;
use owner::Happening;
use streams::NewStream;

/// The receiving end of one transfer, as those see it who do not decide.
pub(crate) struct Receiver {
    shared: Arc<ReceiverState>,
    threads: WriteThreads<ReceiverState>,
}

/// Where received files go.
pub(crate) struct Destination {
    /// Names and directories.
    pub sink: Arc<dyn Sink>,
    /// What is safe; none for memory.
    pub journal: Option<Journal>,
    /// What an earlier run left, where it is only to be said what a copy would do.
    pub leftovers: Option<Leftovers>,
    /// What is verified for ever; none if another process holds it.
    pub catalogue: Option<Arc<Mutex<Catalogue>>>,
    /// Whether the sender can be asked for hashes, and may learn whether they are those of files that are here.
    pub(crate) asks_hashes: bool,
    /// What it takes of what is offered.
    pub taking: Taking,
    /// What was asked of the sender, if that was asked here: nothing else may be offered.
    pub selection: Option<Selection>,
    /// Whether the sender removes what is durable here, and is told of files that were here.
    pub moving: bool,
    /// What becomes of the rest of it once everything is there.
    pub mirror: Option<Mirror>,
    /// What it has to have before a file gets its name, where others may have taken the work over.
    pub permit: Option<Permit>,
    /// Files that others move, too.
    pub split: Option<Split>,
}

impl Destination {
    /// `sink`, which keeps nothing.
    pub fn nowhere(sink: Arc<dyn Sink>) -> Self {
        let (taking, selection) = (Taking::default(), None);
        let (journal, catalogue, mirror, moving) = (None, None, None, false);
        let (permit, split) = (None, None);
        Self {
            sink,
            journal,
            leftovers: None,
            catalogue,
            asks_hashes: false,
            taking,
            selection,
            moving,
            mirror,
            permit,
            split,
        }
    }
}

/// What the threads of a receiver share: the way of blocks.
struct ReceiverState {
    path: WritePath<Incoming>,
    terms: Terms,
    outbox: Outbox,
    share: Share,
    started: Instant,
    /// Files whose blocks are taken in.
    files: RwLock<HashMap<FileId, Arc<Incoming>, ByNumber>>,
    /// Bytes that have come, and those of whole blocks.
    network_bytes: AtomicU64,
    taken_bytes: AtomicU64,
    taken: Mutex<HashMap<u32, Taken>>,
    /// Held by senders of this process while they hand something over.
    handing_over: RwLock<()>,
    events: EventQueue<Happening>,
}

/// Frames taken from one stream.
#[derive(Default)]
struct Taken {
    frames: u64,
    /// How many of them the sender knows of.
    told: u64,
}

tidegate_contract::opaque!(Receiver);

impl Receiver {
    /// Starts receiving what was `asked` for; nothing is written before workers are allowed.
    pub fn start(
        asked: Asked,
        destination: Destination,
        terms: Terms,
        outbox: Outbox,
        ledger: Arc<Ledger>,
        share: Share,
    ) -> (Arc<Self>, ReceiverOwner) {
        let mut destination = destination;
        if destination.taking.ignore_existing {
            destination.sink.keep_existing();
        }
        let permit = destination.permit.take().map(Arc::new);
        let (events, happened) = EventQueue::new(&outbox);
        let shared = Arc::new(ReceiverState {
            path: WritePath::new(WriteSettings {
                sink: Arc::clone(&destination.sink),
                journal: destination.journal.take(),
                catalogue: destination.catalogue.clone(),
                permit: permit.clone(),
                ledger,
                staging: terms.staging,
                max_workers: terms.max_workers,
                limit: terms.limits.write,
                share: &share,
            }),
            outbox,
            started: Instant::now(),
            files: RwLock::default(),
            network_bytes: AtomicU64::new(0),
            taken_bytes: AtomicU64::new(0),
            taken: Mutex::default(),
            handing_over: RwLock::default(),
            events,
            share,
            terms,
        });
        let threads = WriteThreads::start(&shared, shared.terms.max_workers, &shared.share);
        let receiver = Arc::new(Self { shared, threads });
        let owner = ReceiverOwner::start(&receiver, asked, destination, permit, happened);
        (receiver, owner)
    }

    /// Lets this many writers run.
    pub fn resize(&self, setpoint: Concurrency) {
        self.threads.resize(setpoint.write, setpoint.network);
    }

    /// Takes in what comes on a new data stream; `closed` is told whether it was of any use.
    pub(crate) fn stream_arrived(
        &self,
        index: u32,
        channel: Channel,
        closed: impl FnOnce(bool) + Send + 'static,
    ) {
        let stream = NewStream { index, channel, closed: Box::new(closed) };
        self.shared.events.tell(Happening::Stream(stream));
    }

    /// Tells the sender which frames have been taken; called every few milliseconds.
    pub(crate) fn report_taken(&self) {
        self.shared.report_taken();
    }

    /// What was counted so far.
    pub fn counters(&self) -> Counters {
        let shared = &self.shared;
        let (filling, taking) = shared.path.waited();
        Counters {
            at_us: shared.started.elapsed().as_micros() as u64,
            network: shared.network_bytes.load(Relaxed),
            written: shared.path.written_bytes(),
            staging_used: shared.path.staging.used().0,
            staging_capacity: shared.path.staging.capacity().0,
            cpu: CpuTime::now(),
            filling_us: filling.as_micros() as u64,
            taking_us: taking.as_micros() as u64,
            worked_us: self.threads.worked().as_micros() as u64,
            taken: shared.taken_bytes.load(Relaxed),
            ..Counters::default()
        }
    }

    /// What is seen of streams and writers.
    pub fn glimpse(&self) -> Glimpse {
        let (taking_in, writing) = self.shared.path.waited();
        let network = StageGlimpse { moved: self.shared.network_bytes.load(Relaxed), waited: taking_in };
        let write = StageGlimpse { moved: self.shared.path.written_bytes(), waited: writing };
        PerStage { read: None, network: Some(network), write: self.has_write_stage().then_some(write) }
    }

    /// Whether a write stage exists.
    pub(crate) fn has_write_stage(&self) -> bool {
        self.shared.path.sink.has_write_stage()
    }

    /// The error that ended the transfer, if one did.
    pub fn failure(&self) -> Option<Error> {
        self.shared.path.failure()
    }

    /// Nothing more is taken in or written. Its owner waits for the workers.
    pub fn stop(&self) {
        self.shared.path.stop();
    }
}

impl ReceiverState {
    /// Tells what has happened; or that nothing can go on, where the destination is gone or full.
    fn tell(&self, event: ReceiverEvent) {
        let failures = event.failures();
        let full = failures.iter().find(|error| error.kind == ErrorKind::NoSpace);
        let all_fail = match (failures.is_empty(), full) {
            (true, _) => None,
            (false, Some(full)) => Some(no_room(full)),
            (false, None) => self.path.sink.moved(),
        };
        match all_fail {
            Some(error) => self.fail(error),
            None => self.events.tell(Happening::Event(event)),
        }
    }

    /// A file whose blocks are taken in, and its size.
    fn file(&self, id: FileId) -> Option<(Arc<Incoming>, u64)> {
        let files = self.files.read();
        files.get(&id).map(|file| (Arc::clone(file), file.size))
    }

    /// Takes in nothing more of a file.
    fn end(&self, id: FileId) {
        if let Some(file) = self.files.write().remove(&id) {
            file.end();
        }
    }

    fn report_taken(&self) {
        // A later one says the same: none is due while the sender has yet to read earlier ones.
        if self.outbox.is_backed_up() {
            return;
        }
        let counts: Vec<_> = {
            let mut taken = self.taken.lock();
            let news = taken.iter_mut().filter(|(_, taken)| taken.told < taken.frames);
            news.map(|(data_stream, taken)| {
                taken.told = taken.frames;
                (*data_stream, taken.frames)
            })
            .collect()
        };
        if !counts.is_empty() {
            self.outbox.send(&Message::Taken(counts));
        }
    }
}

impl WriteHandler for ReceiverState {
    type File = Incoming;

    fn path(&self) -> &WritePath<Incoming> {
        &self.path
    }

    /// A descriptor for `file`, unless it is open.
    fn descriptor(&self, file: &Incoming) -> Option<Held> {
        while !file.is_open() && !self.path.is_stopped() {
            match self.try_descriptor() {
                Some(held) => return held,
                None => thread::sleep(BREATH),
            }
        }
        None
    }

    fn complete(&self, file: &Arc<Incoming>) {
        self.path.hand_in(self, file, file.root());
    }

    fn damaged(&self, file: &Arc<Incoming>, range: Range<u64>) {
        tracing::warn!("{}: a segment's hash does not match: sent again", file.entry.path);
        self.outbox.send(&Message::Again(vec![Again { file: file.id, range }]));
    }

    fn fail_file(&self, file: &Arc<Incoming>, error: Error) {
        if !file.has_ended() {
            // What still comes of it is not written.
            file.end();
            self.tell(ReceiverEvent::Failed(file.id, error));
        }
    }

    fn fail(&self, error: Error) {
        tracing::debug!("receiving ends: {error}");
        self.outbox.send(&Message::Refused(error.clone()));
        self.path.stop_for(error);
    }

    fn ended(&self, outcomes: Vec<(FileId, Outcome)>) {
        let no_room = |(_, outcome): &(FileId, Outcome)| match outcome {
            Outcome::Failed(error) if error.kind == ErrorKind::NoSpace => Some(no_room(error)),
            _ => None,
        };
        let full = outcomes.iter().find_map(no_room);
        let ended = outcomes.into_iter().filter(|outcome| no_room(outcome).is_none());
        self.tell(ReceiverEvent::Ended(ended.collect()));
        full.into_iter().for_each(|full| self.fail(full));
    }
}
