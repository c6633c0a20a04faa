//! The receiving end: says what it wants, takes it in, writes it, and commits what is verified.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use tidegate_control::{Concurrency, PerStage};

use crate::catalogue::Catalogue;
use crate::counters::{Counters, Glimpse, StageGlimpse};
use crate::error::{Error, ErrorKind, Result};
use crate::fence::Permit;
use crate::filter::Filter;
use crate::hash::Digest;
use crate::journal::{Journal, Leftovers};
use crate::ledger::Ledger;
use crate::manifest::{Entry, FileId, Kind, MAX_SIZE, Timestamp};
use crate::mirror::Mirror;
use crate::offer::{Again, OFFER_ENTRIES, Outcome, WINDOW};
use crate::pipeline::incoming::{Change, Incoming};
use crate::pipeline::intake::receive_frames;
use crate::pipeline::write_path::{WriteHandler, WritePath, WriteSettings, WriteThreads, spawn};
use crate::quota::{Held, Share, remember};
use crate::selection::{Selection, Taking};
use crate::split::Split;
use crate::store::Sink;
use crate::sys::buffers::look_at_receive_buffer;
use crate::sys::clock::Instant;
use crate::sys::net::{Shutdown, TcpStream};
use crate::sys::processors::CpuTime;
use crate::sys::sync::mpsc;
use crate::sys::sync::{Mutex, RwLock};
use crate::sys::tcp;
use crate::sys::thread::{self, JoinHandle};
use crate::terms::{Purpose, Terms};
use crate::wire::channel::Channel;
use crate::wire::message::Message;
use crate::wire::session::Outbox;

mod continuing;
mod deciding;
mod deleting;
mod handing_in;
mod joined;
mod offered;
mod planning;
mod preparing;
mod splitting;
mod stream;

pub(crate) use offered::Asked;

use continuing::Continued;
use deciding::Policy;
use handing_in::BREATH;
use offered::Offered;
use preparing::Intent;
use splitting::Splitting;
use stream::StreamHandler;

/// Streams at once for each worker allowed: lost ones linger until the loss is noticed here.
const LINGERING: usize = 4;

/// Most entries that wait or have not ended: as many as may be offered at once, and as many whose comparison the
/// sender has answered, which it counts no more.
const MAX_OFFERED: usize = 2 * (WINDOW + OFFER_ENTRIES);

/// The receiving end of one transfer.
pub(crate) struct Receiver {
    shared: Arc<ReceiverState>,
    threads: WriteThreads<ReceiverState>,
    streams: Mutex<Vec<Stream>>,
    offers: Mutex<Option<mpsc::Sender<(Intent, Held)>>>,
    background: Mutex<Vec<JoinHandle<()>>>,
    handing_in: Mutex<Option<JoinHandle<()>>>,
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

/// The thread that takes in one stream.
struct Stream {
    index: u32,
    thread: JoinHandle<()>,
    socket: Option<TcpStream>,
    /// Whether it waits for the stream right now, and not for room or a disk.
    waiting: Arc<AtomicBool>,
    _held: Option<Held>,
}

impl Stream {
    /// How long nothing has come; as long as may be where the kernel does not tell.
    fn idle(&self) -> Duration {
        self.socket.as_ref().and_then(tcp::info).map_or(Duration::MAX, |info| info.idle)
    }
}

/// A file that is there, and that the sender reads for its hash.
struct Compared {
    entry: Entry,
    /// What was verified there, if the sender was not told: its hash, and the time it has had since.
    recorded: Option<(Digest, Timestamp)>,
    _held: Held,
}

struct ReceiverState {
    path: WritePath<Incoming>,
    terms: Terms,
    outbox: Outbox,
    share: Share,
    started: Instant,
    files: RwLock<HashMap<FileId, Arc<Incoming>>>,
    /// Files that are there, whose hash the sender still compares.
    compared: Mutex<HashMap<FileId, Compared>>,
    /// Files of which something is left, until that has been read again, and the queue they wait in.
    continued: Mutex<HashMap<FileId, (Entry, Held)>>,
    to_continue: Mutex<Option<mpsc::Sender<Continued>>>,
    /// Files whose last hash came after their content.
    vouched: Mutex<Option<mpsc::Sender<Arc<Incoming>>>>,
    catalogue: Option<Arc<Mutex<Catalogue>>>,
    policy: Policy,
    taking: Taking,
    /// What the sender was asked to leave out, as far as that can be told here.
    filter: Filter,
    /// Bytes that have come, and those of whole blocks.
    network_bytes: AtomicU64,
    taken_bytes: AtomicU64,
    finished: AtomicBool,
    taken: Mutex<HashMap<u32, Taken>>,
    /// What the sender was asked for.
    asked: Asked,
    /// Whether whoever started this asked for it here.
    is_puller: bool,
    /// Which of that nothing was offered of yet.
    missing: Mutex<BTreeSet<usize>>,
    /// The number of the next entry that is offered.
    next: Mutex<FileId>,
    /// The places of those that were, and what their names are taken for where file systems take several for one.
    offered: Mutex<Offered>,
    folded: Mutex<Offered>,
    /// Whether the sender has said that there are no more.
    listed: AtomicBool,
    /// Entries that wait to be prepared.
    waiting: AtomicUsize,
    moving: bool,
    permit: Option<Arc<Permit>>,
    split: Splitting,
    leftovers: Mutex<Option<Leftovers>>,
    /// Until it is acted on.
    mirror: Mutex<Option<Mirror>>,
    /// Held by senders of this process while they hand something over.
    handing_over: RwLock<()>,
}

/// Frames taken from one stream.
#[derive(Default)]
struct Taken {
    frames: u64,
    /// How many of them the sender knows of.
    told: u64,
}

/// What decides for a [`Receiver`].
#[derive(Debug)]
pub(crate) struct ReceiverOwner {
    receiver: Arc<Receiver>,
}

impl ReceiverOwner {
    /// Acts on a message of the sender.
    pub fn hear(&mut self, message: Message) -> Result<()> {
        self.receiver.handle(message)
    }

    /// Acts on what has happened since.
    pub fn turn(&mut self) -> Result<()> {
        Ok(())
    }
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
        let Destination { sink, journal, catalogue, asks_hashes, taking, selection, .. } = destination;
        if taking.ignore_existing {
            sink.keep_existing();
        }
        let Destination { moving, mirror, permit, split, leftovers, .. } = destination;
        let permit = permit.map(Arc::new);
        let is_puller = selection.is_some();
        let checked = selection.as_ref().filter(|selection| selection.can_be_checked());
        let filter = checked.and_then(|selection| selection.filter().ok()).unwrap_or_default();
        let may_miss = selection.is_some_and(|selection| selection.may_leave_out_files());
        let names = if may_miss || taking != Taking::default() { 0 } else { asked.names() };
        let (offers, intents) = mpsc::channel();
        let (to_continue, continued) = mpsc::channel();
        let (to_hand_in, vouched) = mpsc::channel();
        let shared = Arc::new(ReceiverState {
            path: WritePath::new(WriteSettings {
                sink,
                journal,
                catalogue: catalogue.clone(),
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
            compared: Mutex::default(),
            continued: Mutex::default(),
            to_continue: Mutex::new(Some(to_continue)),
            vouched: Mutex::new(Some(to_hand_in)),
            catalogue,
            policy: Policy::of(&terms, asks_hashes),
            taking,
            filter,
            network_bytes: AtomicU64::new(0),
            taken_bytes: AtomicU64::new(0),
            finished: AtomicBool::new(false),
            taken: Mutex::default(),
            missing: Mutex::new((0..names).collect()),
            asked,
            is_puller,
            next: Mutex::default(),
            offered: Mutex::new(Offered::new(&share.metadata)),
            folded: Mutex::new(Offered::new(&share.metadata)),
            leftovers: Mutex::new(leftovers),
            listed: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
            moving,
            permit,
            split: Splitting::of(split),
            mirror: Mutex::new(mirror),
            handing_over: RwLock::default(),
            share,
            terms,
        });
        let threads = WriteThreads::start(&shared, shared.terms.max_workers, &shared.share);
        let background = [
            spawn(&shared, "prepare", move |shared| match shared.terms.purpose {
                Purpose::Plan => shared.plan(&intents),
                Purpose::Copy | Purpose::Compare => shared.prepare(&intents),
            }),
            spawn(&shared, "continue", move |shared| shared.continue_files(&continued)),
        ];
        let background = background.into_iter().flatten().collect();
        let handing_in = spawn(&shared, "hand-in", move |shared| shared.hand_in_vouched(&vouched));
        let receiver = Arc::new(Self {
            shared,
            threads,
            streams: Mutex::default(),
            offers: Mutex::new(Some(offers)),
            background: Mutex::new(background),
            handing_in: Mutex::new(handing_in),
        });
        (Arc::clone(&receiver), ReceiverOwner { receiver })
    }

    /// Lets this many writers run.
    pub fn resize(&self, setpoint: Concurrency) {
        self.threads.resize(setpoint.write, setpoint.network);
    }

    /// Takes in what comes on a new data stream; `closed` is told whether it was of any use.
    pub(crate) fn stream_arrived(
        &self,
        index: u32,
        mut channel: Channel,
        closed: impl FnOnce(bool) + Send + 'static,
    ) {
        let shared = Arc::clone(&self.shared);
        let socket = channel.socket().try_clone().ok();
        let waiting = Arc::new(AtomicBool::new(false));
        let waits = Arc::clone(&waiting);
        let work = move || {
            let handler = StreamHandler { shared: &shared, index, waiting: &waits };
            let result = receive_frames(&mut channel, &shared.path.staging, shared.terms.verify, &handler);
            shared.report_taken();
            let useful = result.is_ok() || shared.taken.lock().contains_key(&index);
            if let Err(error) = result
                && !shared.path.is_stopped()
            {
                tracing::debug!("stream {index}: {error}");
                shared.outbox.send(&Message::StreamLost(index));
            }
            closed(useful);
        };
        let mut streams = self.streams.lock();
        streams.retain(|stream| !stream.thread.is_finished());
        // `join` looks for streams after `stopped` is set: later ones are not taken in.
        if streams.len() >= LINGERING * usize::from(self.shared.terms.max_workers)
            || self.shared.path.is_stopped()
        {
            tracing::debug!("stream {index} is one too many");
            return;
        }
        // One moves everything, if need be.
        let held = if streams.is_empty() { None } else { self.shared.share.threads.take(1) };
        if held.is_none() && !streams.is_empty() {
            tracing::debug!("no thread is free for stream {index}");
            return;
        }
        match thread::Builder::new().name(format!("network-{index}")).spawn(work) {
            Ok(thread) => streams.push(Stream { index, thread, socket, waiting, _held: held }),
            Err(error) => tracing::warn!("cannot take in stream {index}: {error}"),
        }
    }

    /// Acts on a message of the sender.
    pub fn handle(&self, message: Message) -> Result<()> {
        let shared = &self.shared;
        match message {
            Message::Offer { first, entries } => {
                self.check_offer(first, &entries)?;
                self.intend(Intent::Offer(first, entries))?;
            }
            Message::Replace(files) => {
                let answered = files.into_iter().filter_map(|id| Some((id, shared.take_compared(id)?)));
                self.intend(Intent::Replace(answered.collect()))?;
            }
            Message::Keep(files) => {
                let answered =
                    files.into_iter().filter_map(|(id, root)| Some((id, shared.take_compared(id)?, root)));
                self.intend(Intent::Keep(answered.collect()))?;
            }
            Message::Finish => self.intend(Intent::Finish)?,
            Message::Names(directories) => {
                directories.iter().try_for_each(|names| shared.asked.check_directory(&names.directory))?;
                self.intend(Intent::Names(directories))?;
            }
            Message::NamesEnd(error) => self.intend(Intent::NamesEnd(error))?,
            Message::Hashes(hashes) => {
                for (id, segment, digest) in hashes {
                    let file = shared.files.read().get(&id).map(Arc::clone);
                    if let Some(file) = file {
                        match file.expect(segment, digest)? {
                            Change::Complete => shared.vouched_for(file),
                            change => shared.path.follow(&**shared, &file, change),
                        }
                    }
                }
            }
            // In its place among what is told in order.
            Message::Abandon(id, error) if shared.terms.purpose == Purpose::Plan => {
                if let Some(file) = shared.take_compared(id) {
                    self.intend(Intent::Abandon(id, file, error))?;
                }
            }
            Message::Abandon(id, error) => shared.abandon(id, error),
            Message::Permitted(number, leave) => match &shared.permit {
                Some(permit) => permit.answered(number, leave)?,
                None => return Err(Error::protocol("the sender answered what it was not asked")),
            },
            Message::Problem(path, error) => shared.path.ledger.failed(&path, error, false),
            // Whoever sends unasked warns where it is.
            Message::LeftOut(path, why) if shared.is_puller => why.warn(&path),
            Message::Overdue { streams, for_ms } => {
                self.look_after(&streams, Duration::from_millis(for_ms.into()));
            }
            Message::Listed => {
                shared.listed.store(true, Relaxed);
                shared.path.ledger.all_listed();
            }
            Message::Refused(error) => {
                shared.fail(error.clone());
                return Err(error);
            }
            _ => return Err(Error::protocol("the sender sent what only a receiver says")),
        }
        Ok(())
    }

    /// The sender misses confirmations of these streams: ends those that bring nothing, and says that they are lost.
    fn look_after(&self, overdue: &[u32], patience: Duration) {
        let mut streams = self.streams.lock();
        streams.retain(|stream| !stream.thread.is_finished());
        for &index in overdue {
            match streams.iter().find(|stream| stream.index == index) {
                // Whoever waits for room or for a disk comes back for it, and what is slow is not dead.
                Some(stream) if !stream.waiting.load(Relaxed) || stream.idle() < patience / 3 => {}
                Some(Stream { socket: Some(socket), .. }) => {
                    tracing::warn!("data stream {index} delivers nothing: it is replaced");
                    let _ = socket.shutdown(Shutdown::Both);
                }
                // It never got here.
                _ => self.shared.outbox.send(&Message::StreamLost(index)),
            }
        }
    }

    /// Raises the buffers of streams that they hold back; called a few times a second.
    pub(crate) fn check_streams(&self) {
        let streams = self.streams.lock();
        streams.iter().filter_map(|stream| stream.socket.as_ref()).for_each(look_at_receive_buffer);
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

    /// Whether everything is durable and the sender has been told.
    pub fn is_finished(&self) -> bool {
        self.shared.finished.load(Relaxed)
    }

    /// The error that ended the transfer, if one did.
    pub fn failure(&self) -> Option<Error> {
        self.shared.path.failure()
    }

    /// Stops, records what is verified, and waits for every worker. Afterwards the journal is free for
    /// the next run.
    pub fn join(&self) {
        self.shared.path.stop();
        // A stream may wait for a peer that is silent, and would keep the journal open until then.
        let streams = std::mem::take(&mut *self.streams.lock());
        for socket in streams.iter().filter_map(|stream| stream.socket.as_ref()) {
            let _ = socket.shutdown(Shutdown::Both);
        }
        for stream in streams {
            if stream.thread.join().is_err() {
                tracing::error!("a stream's worker panicked");
            }
        }
        drop(self.shared.handing_over.write());
        // What is whole is handed in while somebody commits.
        self.shared.vouched.lock().take();
        join_all(self.handing_in.lock().take());
        self.threads.join();
        self.offers.lock().take();
        self.shared.to_continue.lock().take();
        join_all(std::mem::take(&mut *self.background.lock()));
        let files = self.shared.files.read();
        self.shared.path.ledger.leaves(files.values().map(|file| file.verified_bytes()).sum());
        self.shared.path.release_journal();
    }

    /// Numbers in order, each used once, sizes that a file can have, and nothing that was not asked for.
    fn check_offer(&self, first: FileId, entries: &[Entry]) -> Result<()> {
        if self.shared.listed.load(Relaxed) {
            return Err(Error::protocol("an offer after the last one"));
        }
        for entry in entries {
            entry.extras.read()?;
            if !self.shared.filter.takes_all_of(entry.path.as_bytes(), entry.kind == Kind::Directory) {
                let why = format!(
                    "the other end offered {}, which a filter rule excludes: nothing more is taken from it",
                    entry.path
                );
                return Err(Error::new(ErrorKind::UnsafeName, why));
            }
            if let Some(index) = self.shared.asked.check(entry)? {
                self.shared.missing.lock().remove(&index);
            }
        }
        let mut next = self.shared.next.lock();
        let following = first.checked_add(entries.len() as FileId).filter(|_| first == *next);
        *next = following.ok_or_else(|| Error::protocol("an offer whose numbers are not the next ones"))?;
        match entries.iter().find(|entry| entry.size() > MAX_SIZE) {
            Some(entry) => Err(Error::protocol(format!("{} is longer than any file", entry.path))),
            None => Ok(()),
        }
    }

    fn intend(&self, intent: Intent) -> Result<()> {
        let entries = intent.entries();
        let shared = &self.shared;
        // One lock at a time: who continues a file takes two of them in another order.
        let files = shared.files.read().len();
        let compared = shared.compared.lock().len();
        let continued = shared.continued.lock().len();
        let begun = files + compared + continued;
        if shared.waiting.fetch_add(entries, Relaxed) + entries + begun > MAX_OFFERED {
            return Err(Error::protocol(format!(
                "more than {WINDOW} entries are offered and have not ended"
            )));
        }
        let held = remember(&shared.share.metadata, intent.bytes())?;
        if let Some(offers) = &*self.offers.lock() {
            let _ = offers.send((intent, held));
        }
        Ok(())
    }
}

fn join_all(threads: impl IntoIterator<Item = JoinHandle<()>>) {
    for thread in threads {
        if thread.join().is_err() {
            tracing::error!("a worker of the receiver panicked");
        }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.join();
    }
}

impl ReceiverState {
    /// A file whose comparison the sender has answered: from then on it counts with what waits, and not twice.
    fn take_compared(&self, id: FileId) -> Option<Compared> {
        self.compared.lock().remove(&id)
    }

    /// The sender gives a file up.
    fn abandon(&self, id: FileId, error: Error) {
        if let Some(file) = self.take_compared(id) {
            self.path.ledger.failed(file.entry.path.as_bytes(), error, true);
            return;
        }
        let waited = self.continued.lock().remove(&id);
        let entry = waited
            .map(|(entry, _)| Arc::new(entry))
            .or_else(|| self.end(id).map(|file| Arc::clone(&file.entry)));
        if let Some(entry) = entry {
            self.path.sink.discard(&entry);
            self.path.ledger.failed(entry.path.as_bytes(), error, true);
        }
    }

    /// A file that has not ended, and its size.
    fn file(&self, id: FileId) -> Option<(Arc<Incoming>, u64)> {
        let files = self.files.read();
        files.get(&id).map(|file| (Arc::clone(file), file.size))
    }

    fn end(&self, id: FileId) -> Option<Arc<Incoming>> {
        let file = self.files.write().remove(&id)?;
        file.end();
        Some(file)
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
        if self.end(file.id).is_some() {
            self.path.sink.discard(&file.entry);
            self.path.ledger.failed(file.entry.path.as_bytes(), error.clone(), true);
            self.outbox.send(&Message::Done(vec![(file.id, Outcome::Failed(error))]));
        }
    }

    fn fail(&self, error: Error) {
        tracing::debug!("receiving ends: {error}");
        self.outbox.send(&Message::Refused(error.clone()));
        self.path.stop_for(error);
    }

    fn ended(&self, outcomes: Vec<(FileId, Outcome)>) {
        for (id, outcome) in &outcomes {
            let Some(file) = self.end(*id) else { continue };
            match outcome {
                Outcome::Committed => self.path.ledger.done(file.size - file.kept),
                Outcome::Failed(error) => {
                    self.path.ledger.failed(file.entry.path.as_bytes(), error.clone(), true);
                }
            }
        }
        self.outbox.send(&Message::Done(outcomes));
    }
}
