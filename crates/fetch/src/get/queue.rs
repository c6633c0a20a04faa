//! What is left to ask for, in the order it was named, and who gets it: the first piece one of whose
//! mirrors has room. When none is left, an idle worker takes half of what will take longest.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tidegate_control::ByteCount;
use tidegate_transfer::manifest::{BLOCK, FileId, SEGMENT};
use tidegate_transfer::pipeline::work::Claim;
use tidegate_transfer::sys::sync::{Condvar, Mutex, MutexGuard};

use crate::get::file::{Body, DownloadFile};
use crate::host::Host;

/// What a connection is given may grow to what it brings in this time, so that the pause between two
/// requests does not count; and no further than this.
const STRETCH: Duration = Duration::from_secs(4);
const LONGEST: u64 = 256 << 20;

/// Towards the end what is left is handed out in so many rounds, so that all connections end together.
const ROUNDS: u64 = 2;
/// In so many if checksums are computed: these go from a file's first byte to its last, and what arrives far
/// ahead of the front is taken in only after everything has come.
const ROUNDS_SUMMED: u64 = 8;
/// But no piece is so small that waiting for its answer takes more than one part in so many of its time.
const PAUSES: f64 = 50.0;

/// The least worth taking from another connection, in blocks (1 MiB), unless what is left of its claim
/// would take it longer than this.
const LEAST: u64 = (1 << 20) / BLOCK;
const LATE: f64 = 5.0;

/// How long a worker waits before it looks again for what depends on time.
const NAP: Duration = Duration::from_millis(100);

/// What is asked for next of a file.
pub(super) enum Task {
    /// What its server says of it.
    Look,
    /// Its beginning, and with it what its server says.
    First,
    /// A part of a version under way.
    Part(Arc<Body>, Range<u64>),
    /// Whether what came of several of its server's versions are the same bytes, as a sample says.
    Sample(Arc<Body>),
}

struct QueuedTask {
    file: Arc<DownloadFile>,
    task: Task,
    not_before: Option<Instant>,
}

/// A claim and how fast it gets on, in bytes a second.
pub(super) struct ActiveClaim {
    pub(super) claim: Arc<Claim<Body>>,
    pub(super) rate: AtomicU64,
    /// Where the block that is being filled begins.
    pub(super) at: AtomicU64,
    /// Since when its worker waits for the server, in milliseconds of the process; the far future if it does
    /// not.
    waits_since: AtomicU64,
    /// Whether somebody else has been given all that is left of it, the block included.
    taken: AtomicBool,
    /// Whether others may take from it.
    splits: bool,
}

/// What a worker is given. It has entered the mirror's host.
pub(super) struct Job {
    pub(super) file: Arc<DownloadFile>,
    pub(super) mirror: usize,
    pub(super) order: Order,
}

pub(super) enum Order {
    Look,
    /// The first bytes, up to this one.
    First(u64),
    Part(Arc<ActiveClaim>),
    Sample(Arc<Body>),
}

/// The worker that asks for work.
pub(super) trait Asker {
    /// Whether it shall leave instead.
    fn leaves(&self) -> bool;
    /// Whether its last request to `host` was answered.
    fn is_proven(&self, host: &Arc<Host>) -> bool;
    /// Whether it has a connection to `host`, used or idle.
    fn is_connected(&self, host: &Arc<Host>) -> bool;
    /// Bytes a second of its connections.
    fn rate(&self) -> f64;
    /// What an answer takes at least.
    fn latency(&self) -> Duration;

    /// Whether it may make a request to `host` now.
    fn has_room(&self, host: &Arc<Host>, now: Instant) -> bool {
        host.has_room(now, self.is_proven(host), self.is_connected(host))
    }

    /// Takes room for a request to `host`, if there is any.
    fn enter(&self, host: &Arc<Host>, now: Instant) -> bool {
        host.enter(now, self.is_proven(host), self.is_connected(host))
    }

    /// Makes no request after all.
    fn withdraw(&self, host: &Arc<Host>) {
        host.leave(self.is_proven(host));
        if !self.is_connected(host) {
            host.closed();
        }
    }
}

/// The queue.
pub(super) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
    chunk: Option<u64>,
    /// Whether files come with checksums that are verified, so that mirrors may be mixed.
    verify: bool,
}

struct State {
    pieces: BTreeMap<(FileId, u64), QueuedTask>,
    claims: Vec<Arc<ActiveClaim>>,
    /// Bytes that wait, as far as they are known.
    bytes: u64,
    workers: u16,
    closed: bool,
}

impl Queue {
    pub(super) fn new(chunk: Option<ByteCount>, verify: bool) -> Self {
        let state =
            State { pieces: BTreeMap::new(), claims: Vec::new(), bytes: 0, workers: 1, closed: false };
        let chunk = chunk.map(|chunk| chunk.0.max(SEGMENT).next_multiple_of(SEGMENT));
        Self { state: Mutex::new(state), changed: Condvar::new(), chunk, verify }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Whether parts of `file` from several mirrors may be put together.
    pub(super) fn mixes(&self, file: &DownloadFile) -> bool {
        self.verify && !file.record.checksums.is_empty()
    }

    /// Queues a task of `file`, not to be begun before `not_before`.
    pub(super) fn push(&self, file: &Arc<DownloadFile>, task: Task, not_before: Option<Instant>) {
        let mut state = self.lock();
        if state.closed {
            return;
        }
        let start = match &task {
            Task::Part(_, range) if range.start >= range.end => return,
            // Whoever begins a file anew ends its body first and then withdraws its pieces.
            Task::Part(body, _) | Task::Sample(body) if body.has_ended() => return,
            Task::Part(_, range) => range.start,
            Task::Sample(_) => u64::MAX,
            _ => 0,
        };
        state.insert((file.id, start), QueuedTask { file: Arc::clone(file), task, not_before });
        drop(state);
        self.changed.notify_all();
    }

    /// A version has begun: `range` of it belongs to the worker that asked, the rest is queued.
    pub(super) fn begin(
        &self,
        body: &Arc<Body>,
        range: Range<u64>,
        rest: Range<u64>,
        splits: bool,
    ) -> Arc<ActiveClaim> {
        let held = self.lock().hold(body, range, splits && self.chunk.is_some());
        // Whoever sleeps because there was nothing at all may take a part of it.
        self.changed.notify_all();
        self.push(&body.file, Task::Part(Arc::clone(body), rest), None);
        held
    }

    /// Nothing of `body` but what one request from its beginning brings is wanted any more.
    pub(super) fn gather(&self, body: &Arc<Body>) -> Arc<ActiveClaim> {
        self.withdraw(body);
        self.lock().hold(body, 0..body.size(), false)
    }

    /// Everything that waits or is under way of `body` is called off.
    pub(super) fn withdraw(&self, body: &Arc<Body>) {
        let mut state = self.lock();
        let id = body.file.id;
        let gone: Vec<_> = state
            .pieces
            .range((id, 0)..=(id, u64::MAX))
            .filter(|(_, piece)| match &piece.task {
                Task::Part(of, _) | Task::Sample(of) => Arc::ptr_eq(of, body),
                _ => false,
            })
            .map(|(key, _)| *key)
            .collect();
        for key in gone {
            state.remove(key);
        }
        for held in state.claims.iter().filter(|held| Arc::ptr_eq(&held.claim.file, body)) {
            held.claim.take_rest();
        }
    }

    /// A worker has done what it was given.
    pub(super) fn done(&self, held: &Arc<ActiveClaim>) {
        let mut state = self.lock();
        state.claims.retain(|other| !Arc::ptr_eq(other, held));
        drop(state);
        self.changed.notify_all();
    }

    /// A worker stops at `from`: what is left goes to the next one.
    pub(super) fn give_back(&self, held: &Arc<ActiveClaim>, from: Option<u64>, not_before: Option<Instant>) {
        self.lock().claims.retain(|other| !Arc::ptr_eq(other, held));
        let left = held.claim.take_rest();
        let start = from.unwrap_or(left.start).min(left.start);
        let body = &held.claim.file;
        if start < left.end && !body.has_ended() && !held.taken.load(Relaxed) {
            self.push(&body.file, Task::Part(Arc::clone(body), start..left.end), not_before);
        }
        self.changed.notify_all();
    }

    /// The next job; waits for one, `None` once closed or when the worker shall leave.
    pub(super) fn take(&self, asker: &impl Asker) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if state.closed || asker.leaves() {
                return None;
            }
            let now = Instant::now();
            if let Some(job) =
                self.find(&mut state, now, asker).or_else(|| self.steal(&mut state, now, asker))
            {
                return Some(job);
            }
            state = if state.pieces.is_empty() && state.claims.is_empty() {
                self.changed.wait(state)
            } else {
                self.changed.wait_timeout(state, NAP).0
            };
        }
    }

    fn find(&self, state: &mut State, now: Instant, asker: &impl Asker) -> Option<Job> {
        let mut full: Vec<*const Host> = Vec::new();
        let mut gone = Vec::new();
        let mut found = None;
        for (key, piece) in &state.pieces {
            if let Task::Part(body, _) | Task::Sample(body) = &piece.task
                && body.has_ended()
            {
                gone.push(*key);
                continue;
            }
            if piece.not_before.is_some_and(|time| time > now) {
                continue;
            }
            if let [host] = &piece.file.hosts[..]
                && full.contains(&Arc::as_ptr(host))
            {
                continue;
            }
            let part = matches!(&piece.task, Task::Part(..));
            let has_room = |host: &Arc<Host>| asker.has_room(host, now);
            let Some(mirror) = piece.file.choose(part, self.mixes(&piece.file), has_room) else {
                if let [host] = &piece.file.hosts[..]
                    && !has_room(host)
                {
                    full.push(Arc::as_ptr(host));
                }
                continue;
            };
            let host = &piece.file.hosts[mirror];
            if asker.enter(host, now) {
                found = Some((*key, mirror));
                break;
            }
        }
        for key in gone {
            state.remove(key);
        }
        let (key, mirror) = found?;
        let piece = state.remove(key)?;
        let file = piece.file;
        let order = match piece.task {
            Task::Look => Order::Look,
            Task::Sample(body) => Order::Sample(body),
            Task::First => Order::First(self.share(state, &file, file.record.bytes, asker)),
            Task::Part(body, range) => {
                let length = range.end - range.start;
                let share = self.share(state, &file, Some(length), asker);
                let end = match self.chunk {
                    Some(_) => (range.start + share).next_multiple_of(SEGMENT).min(range.end),
                    None => range.end,
                };
                if end < range.end {
                    let rest = Task::Part(Arc::clone(&body), end..range.end);
                    let piece = QueuedTask { file: Arc::clone(&file), task: rest, not_before: None };
                    state.insert((file.id, end), piece);
                }
                let splits = self.chunk.is_some();
                Order::Part(state.hold(&body, range.start..end, splits))
            }
        };
        Some(Job { file, mirror, order })
    }

    /// What one worker is given of `length` bytes, if that is known: less towards the end, so that all
    /// end together.
    fn share(&self, state: &State, file: &DownloadFile, length: Option<u64>, asker: &impl Asker) -> u64 {
        let Some(chunk) = self.chunk else { return u64::MAX };
        let summed = !file.record.checksums.is_empty();
        let rate = asker.rate();
        let worth = (rate * PAUSES * asker.latency().as_secs_f64()) as u64;
        let Some(length) = length.filter(|&length| length > 0) else {
            // How much there is, the answer says: what is asked for blindly holds up the front.
            return if summed { worth.next_multiple_of(SEGMENT).clamp(SEGMENT, chunk) } else { chunk };
        };
        let long = ((rate * STRETCH.as_secs_f64()) as u64).min(LONGEST).max(chunk);
        let rounds = if summed { ROUNDS_SUMMED } else { ROUNDS };
        let left = state.bytes.saturating_add(length);
        let even = |rounds: u64| left / (rounds * u64::from(state.workers.max(1)));
        // Whole segments, so that a journal can speak of them.
        even(rounds).max(worth.min(even(ROUNDS))).clamp(SEGMENT, long).next_multiple_of(SEGMENT)
    }

    fn steal(&self, state: &mut State, now: Instant, asker: &impl Asker) -> Option<Job> {
        let late =
            |held: &ActiveClaim| held.claim.remaining() as f64 / (held.rate.load(Relaxed) as f64).max(1.0);
        let has_room = |host: &Arc<Host>| asker.has_room(host, now);
        let worth = |held: &&Arc<ActiveClaim>| {
            let left = held.claim.remaining();
            held.splits
                && !held.claim.file.has_ended()
                && (left >= 2 * LEAST * BLOCK || (left >= 2 * BLOCK && late(held) > LATE) || held.is_silent())
        };
        let (held, mirror) = state
            .claims
            .iter()
            .filter(worth)
            .max_by(|one, other| {
                let silent = |held: &ActiveClaim| held.is_silent();
                silent(one).cmp(&silent(other)).then(late(one).total_cmp(&late(other)))
            })
            .and_then(|held| {
                let file = &held.claim.file.file;
                let mirror = file.choose(true, self.mixes(file), has_room)?;
                Some((Arc::clone(held), mirror))
            })?;
        let body = Arc::clone(&held.claim.file);
        let host = &body.file.hosts[mirror];
        if !asker.enter(host, now) {
            return None;
        }
        let range = if held.is_silent() {
            held.taken.store(true, Relaxed);
            held.at.load(Relaxed)..held.claim.take_rest().end
        } else {
            let least = if late(&held) > LATE { 1 } else { LEAST };
            let Some(range) = held.claim.split(least) else {
                asker.withdraw(host);
                return None;
            };
            range
        };
        let file = Arc::clone(&body.file);
        let order = Order::Part(state.hold(&body, range, true));
        Some(Job { file, mirror, order })
    }

    /// This many workers may run.
    pub(super) fn resize(&self, workers: u16) {
        self.lock().workers = workers;
        self.changed.notify_all();
    }

    /// Everybody looks again: a host has room.
    pub(super) fn nudge(&self) {
        self.changed.notify_one();
    }

    /// Hands out nothing more.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.pieces.clear();
        drop(state);
        self.changed.notify_all();
    }
}

impl QueuedTask {
    /// Bytes to fetch for it, as far as they are known.
    fn bytes(&self) -> u64 {
        match &self.task {
            Task::Part(_, range) => range.end - range.start,
            Task::First => self.file.record.bytes.unwrap_or(0),
            Task::Look | Task::Sample(_) => 0,
        }
    }
}

impl ActiveClaim {
    /// The worker begins to wait for bytes, or does something else.
    pub(super) fn listen(&self, waits: bool) {
        self.waits_since.store(if waits { clock() } else { u64::MAX }, Relaxed);
    }

    /// Whether nothing has come for long, and nobody has been given the rest yet.
    fn is_silent(&self) -> bool {
        let silence = clock().saturating_sub(self.waits_since.load(Relaxed));
        silence as f64 > 1000.0 * LATE && !self.taken.load(Relaxed)
    }
}

/// Milliseconds since some moment of this process.
fn clock() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_millis() as u64
}

impl State {
    fn hold(&mut self, body: &Arc<Body>, range: Range<u64>, splits: bool) -> Arc<ActiveClaim> {
        let claim = Arc::new(Claim::new(Arc::clone(body), range));
        let held = ActiveClaim {
            at: AtomicU64::new(claim.left().start),
            claim,
            rate: AtomicU64::new(0),
            waits_since: AtomicU64::new(clock()),
            taken: AtomicBool::new(false),
            splits,
        };
        let held = Arc::new(held);
        self.claims.push(Arc::clone(&held));
        held
    }

    fn insert(&mut self, key: (FileId, u64), piece: QueuedTask) {
        self.remove(key);
        self.bytes = self.bytes.saturating_add(piece.bytes());
        self.pieces.insert(key, piece);
    }

    fn remove(&mut self, key: (FileId, u64)) -> Option<QueuedTask> {
        let piece = self.pieces.remove(&key)?;
        self.bytes = self.bytes.saturating_sub(piece.bytes());
        Some(piece)
    }
}
