//! What of the file that flows is asked for, has come, and is written: pieces are handed out in order, never further
//! ahead of what is written than the window.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tidegate_control::units::duration_in_words;
use tidegate_transfer::error::{Error, ErrorKind};
use tidegate_transfer::manifest::BLOCK;
use tidegate_transfer::outage::{self, Outage};
use tidegate_transfer::pipeline::waits::WorkerTime;
use tidegate_transfer::sys::sync::{Condvar, Mutex, MutexGuard};
use tidegate_transfer::throttle::Throttle;

use crate::checksum::Checksums;
use crate::host::ceilings::CONNECTIONS;
use crate::host::proven::{Connected, Proven};
use crate::host::quickest::Quickest;
use crate::host::{Host, Hosts, put_off};
use crate::pipe::PipeSettings;
use crate::record::Record;
use crate::remote::Version;

/// How long who waits sleeps before it looks again for what depends on time.
const NAP: Duration = Duration::from_millis(50);

/// What writer and workers share.
pub(crate) struct PipeState {
    pub hosts: Hosts,
    pub settings: PipeSettings,
    pub throttle: Option<Throttle>,
    pub stopped: AtomicBool,
    /// How far is fetched ahead, in bytes.
    pub window: u64,
    /// Bytes that came, and bytes that were written.
    pub brought: AtomicU64,
    pub written: AtomicU64,
    pub(crate) quickest: Quickest,
    /// Connections at most, and right now.
    most: u16,
    allowed: AtomicU16,
    /// Connections that the server was last known to bear.
    room: AtomicU16,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    flow: Option<PipeFlow>,
    /// Which file it is: what workers bring of an earlier one is dropped.
    number: u64,
    /// How long connections have found the window full, and the writer nothing to write.
    full: WorkerTime,
    idle: WorkerTime,
}

/// The file that flows.
pub(crate) struct PipeFlow {
    record: Arc<Record>,
    hosts: Arc<[Arc<Host>]>,
    mirrors: Vec<Mirror>,
    mirror: usize,
    size: Option<u64>,
    vouched: Checksums,
    /// The first piece is asked for.
    begun: bool,
    /// It comes in one go.
    whole: bool,
    /// The next byte to hand out, and those given back.
    next: u64,
    back: BTreeMap<u64, u64>,
    ready: BTreeMap<u64, Vec<u8>>,
    written: u64,
    tries: u32,
    /// Since when it is being made ready.
    waits: Outage,
    not_before: Option<Instant>,
    failed: Option<Error>,
}

#[derive(Default)]
struct Mirror {
    /// The version that it showed.
    pin: Option<Version>,
    /// Why it is asked no more.
    gone: Option<Error>,
}

/// What the writer finds.
pub(crate) enum PipeFront {
    /// Nothing yet.
    Waits,
    /// The next bytes.
    Block { bytes: Vec<u8>, size: Option<u64>, vouched: Checksums },
    /// All of the file is written.
    Ended { size: u64, vouched: Checksums },
    /// It cannot be had.
    Failed(Error),
}

/// A piece that a worker has to ask for; it has entered the mirror's host.
pub(crate) struct PipeClaim {
    pub number: u64,
    pub record: Arc<Record>,
    pub hosts: Arc<[Arc<Host>]>,
    pub mirror: usize,
    pub pin: Option<Version>,
    pub range: Range<u64>,
}

impl PipeClaim {
    /// The host it is asked of.
    pub fn host(&self) -> &Arc<Host> {
        &self.hosts[self.mirror]
    }
}

impl PipeFlow {
    /// Nothing of it is asked for yet.
    pub fn new(record: Arc<Record>, hosts: &Hosts) -> Self {
        Self {
            hosts: record.urls.iter().map(|url| hosts.of(url)).collect(),
            mirrors: record.urls.iter().map(|_| Mirror::default()).collect(),
            record,
            mirror: 0,
            size: None,
            vouched: Checksums::none(),
            begun: false,
            whole: false,
            next: 0,
            back: BTreeMap::new(),
            ready: BTreeMap::new(),
            written: 0,
            tries: 0,
            waits: Outage::default(),
            not_before: None,
            failed: None,
        }
    }

    /// The next piece, which is taken by [`take`](Self::take), wherever it ends.
    fn candidate(&self, piece: u64) -> Option<Range<u64>> {
        if let Some((&start, &end)) = self.back.first_key_value() {
            return Some(start..end);
        }
        if !self.begun {
            return Some(0..piece);
        }
        let size = self.size.filter(|&size| !self.whole && self.next < size)?;
        Some(self.next..size.min(self.next + piece))
    }

    /// Whether a piece may be asked for by now: it was before, or is no further ahead than the window.
    fn reaches(&self, range: &Range<u64>, window: u64) -> bool {
        !self.begun || self.back.contains_key(&range.start) || range.end <= self.written + window
    }

    fn take(&mut self, range: &Range<u64>) {
        if self.back.remove(&range.start).is_none() {
            self.begun = true;
            self.next = self.next.max(range.end);
        }
    }

    /// Another mirror, if there is one and parts of both may be put together, or nothing has come yet.
    fn turn(&mut self, mixes: bool) {
        if !mixes && (self.written > 0 || !self.ready.is_empty()) {
            return;
        }
        let n = self.mirrors.len();
        let next = (1..=n).map(|step| (self.mirror + step) % n).find(|&i| self.mirrors[i].gone.is_none());
        self.mirror = next.unwrap_or(self.mirror);
    }
}

impl PipeState {
    /// Without a file yet.
    pub fn new(hosts: Hosts, settings: PipeSettings) -> Self {
        let window = settings.window.0.max(2 * BLOCK);
        Self {
            hosts,
            throttle: Throttle::new(settings.limits.link),
            stopped: AtomicBool::new(false),
            window,
            brought: AtomicU64::new(0),
            written: AtomicU64::new(0),
            quickest: Quickest::default(),
            most: settings.most(),
            allowed: AtomicU16::new(1),
            room: AtomicU16::new(settings.most().min(CONNECTIONS)),
            settings,
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    // The rule's side ----------------------------------------------------------------------------------

    /// No more than `connections` fetch from now on.
    pub fn allow(&self, connections: u16) {
        self.allowed.store(connections.max(1), Relaxed);
        self.lock().full.allow(connections);
        self.changed.notify_all();
    }

    /// Connections that fetch at most right now.
    pub fn allowed(&self) -> u16 {
        self.allowed.load(Relaxed)
    }

    /// Connections that the server bears which is asked right now.
    pub fn room(&self) -> u16 {
        let host = self.lock().flow.as_ref().map(|flow| Arc::clone(&flow.hosts[flow.mirror]));
        if let Some(host) = host {
            self.room.store(host.ceiling(Instant::now()).clamp(1, self.most), Relaxed);
        }
        self.room.load(Relaxed)
    }

    /// How long connections have found the window full, and the writer nothing to write.
    pub fn waited(&self) -> (Duration, Duration) {
        let state = self.lock();
        (state.full.total(), state.idle.total())
    }

    /// In pieces of how much is asked: two for each connection, as while one is written the next one comes.
    fn piece(&self) -> u64 {
        (self.window / (2 * u64::from(self.allowed())) / BLOCK * BLOCK).max(BLOCK)
    }

    // What flows ---------------------------------------------------------------------------------------

    /// The next file flows.
    pub fn begin(&self, flow: PipeFlow) {
        let mut state = self.lock();
        state.number += 1;
        state.flow = Some(flow);
        drop(state);
        self.changed.notify_all();
    }

    /// Everything ends.
    pub fn stop(&self) {
        self.stopped.store(true, Relaxed);
        self.lock().flow = None;
        self.changed.notify_all();
    }

    /// Does something with the file `number`, if that still flows.
    pub fn with<T>(&self, number: u64, what: impl FnOnce(&mut PipeFlow) -> T) -> Option<T> {
        let mut state = self.lock();
        let is_it = state.number == number;
        let done = state.flow.as_mut().filter(|_| is_it).map(what);
        drop(state);
        self.changed.notify_all();
        done
    }

    // The writer's side --------------------------------------------------------------------------------

    /// What comes next; waits for a moment if there is nothing.
    pub fn front(&self) -> PipeFront {
        let mut state = self.lock();
        let Some(flow) = &mut state.flow else { return PipeFront::Waits };
        let at = flow.written;
        if let Some(bytes) = flow.ready.remove(&at) {
            return PipeFront::Block { bytes, size: flow.size, vouched: flow.vouched.clone() };
        }
        if let Some(error) = &flow.failed {
            return PipeFront::Failed(error.clone());
        }
        match flow.size {
            Some(size) if size == at => PipeFront::Ended { size, vouched: flow.vouched.clone() },
            _ => {
                state.idle.begin();
                let mut state = self.changed.wait_timeout(state, NAP).0;
                state.idle.end();
                PipeFront::Waits
            }
        }
    }

    /// So many more bytes are written.
    pub fn wrote(&self, bytes: u64) {
        self.written.fetch_add(bytes, Relaxed);
        if let Some(flow) = &mut self.lock().flow {
            flow.written += bytes;
        }
        self.changed.notify_all();
    }

    // The workers' side --------------------------------------------------------------------------------

    /// The next piece whose host has room for it; `None` once all ends, or who asks `may` not go on.
    pub fn claim(
        &self,
        (proven, connected): (&Proven, &Connected),
        may: impl Fn() -> bool,
    ) -> Option<PipeClaim> {
        let mut state = self.lock();
        loop {
            if self.stopped.load(Relaxed) || !may() {
                return None;
            }
            let number = state.number;
            let mut full = false;
            if let Some(flow) = &mut state.flow {
                let now = Instant::now();
                let waits = flow.failed.is_some() || flow.not_before.is_some_and(|time| time > now);
                let candidate = flow.candidate(self.piece()).filter(|_| !waits);
                let range = candidate.clone().filter(|range| flow.reaches(range, self.window));
                full = candidate.is_some() && range.is_none();
                let host = &flow.hosts[flow.mirror];
                if let Some(range) = range.filter(|_| host.enter(now, proven.has(host), connected.has(host)))
                {
                    flow.take(&range);
                    let (record, hosts, mirror) =
                        (Arc::clone(&flow.record), Arc::clone(&flow.hosts), flow.mirror);
                    let pin = flow.mirrors[mirror].pin.clone();
                    return Some(PipeClaim { number, record, hosts, mirror, pin, range });
                }
            }
            state = if full { self.wait_for_window(state) } else { self.changed.wait_timeout(state, NAP).0 };
        }
    }

    fn wait_for_window<'s>(&'s self, mut state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        state.full.begin();
        state = self.changed.wait_timeout(state, NAP).0;
        state.full.end();
        state
    }

    /// A mirror has answered: whether its version fits what is known. `whole` if all comes through this one answer.
    pub fn answered(&self, claim: &PipeClaim, version: &Version, whole: bool) -> Option<Result<(), String>> {
        self.with(claim.number, |flow| {
            let wanted = flow.size.or(claim.record.bytes);
            if let (Some(bytes), Some(wanted)) = (version.bytes, wanted)
                && bytes != wanted
            {
                return Err(format!("has {bytes} bytes, and not {wanted}"));
            }
            if flow.size.is_none() {
                flow.size = version.bytes;
                flow.vouched.clone_from(&version.checksums);
            }
            flow.whole |= whole;
            flow.mirrors[claim.mirror].pin.get_or_insert_with(|| version.clone());
            Ok(())
        })
    }

    /// Waits until a block at `at` is within the window; `false` if nobody wants it any more.
    pub fn fits(&self, number: u64, at: u64) -> bool {
        let mut state = self.lock();
        loop {
            let is_it = state.number == number && !self.stopped.load(Relaxed);
            match state.flow.as_ref().filter(|flow| is_it && flow.failed.is_none()) {
                None => return false,
                Some(flow) if at < flow.written + self.window => return true,
                Some(_) => state = self.wait_for_window(state),
            }
        }
    }

    /// Bytes have come.
    pub fn bring(&self, number: u64, at: u64, bytes: Vec<u8>) {
        self.with(number, |flow| {
            flow.tries = 0;
            flow.waits.is_over();
            flow.ready.insert(at, bytes);
        });
    }

    /// What came in one go has ended there.
    pub fn ends(&self, number: u64, at: u64) {
        self.with(number, |flow| {
            flow.size = Some(at);
            if let Some(declared) = flow.record.bytes.filter(|&declared| declared != at) {
                let why = format!("{} has {at} bytes, and {declared} were declared", flow.record.path);
                flow.failed.get_or_insert(Error::new(ErrorKind::Corrupt, why));
            }
        });
    }

    /// A piece is for whoever asks next.
    pub fn give_back(&self, number: u64, range: Range<u64>) {
        if range.start < range.end {
            self.with(number, |flow| flow.back.insert(range.start, range.end));
        }
    }

    /// A mirror is asked no more; without any the file fails.
    pub fn leave(&self, claim: &PipeClaim, error: Error) {
        let mixes = self.mixes(&claim.record);
        self.with(claim.number, |flow| {
            flow.mirrors[claim.mirror].gone = Some(error.clone());
            flow.turn(mixes);
            if flow.mirrors[flow.mirror].gone.is_some() {
                flow.failed.get_or_insert(error);
            }
        });
    }

    /// Holds no answer of the claim's mirror against more than its size from now on, as far as a checksum was declared;
    /// `false` if that is so already, or none was.
    pub(crate) fn relies_on_checksum(&self, claim: &PipeClaim) -> bool {
        let is_pinned = claim.pin.as_ref().is_some_and(|pin| pin.tag.is_some() || pin.modified.is_some());
        if !is_pinned || !self.mixes(&claim.record) {
            return false;
        }
        self.with(claim.number, |flow| {
            let pin = &mut flow.mirrors[claim.mirror].pin;
            let bytes = pin.as_ref().and_then(|pin| pin.bytes);
            *pin = Some(Version { bytes, ..Version::default() });
        });
        true
    }

    /// A request failed, which may pass; it is tried again after `wait`.
    pub(crate) fn try_again(&self, claim: &PipeClaim, error: &Error, wait: impl FnOnce(u32) -> Duration) {
        let (mixes, retries) = (self.mixes(&claim.record), self.settings.retries);
        self.with(claim.number, |flow| {
            flow.tries += 1;
            if flow.tries > retries {
                let why = format!("{} (given up after {} tries)", error.message, flow.tries);
                flow.failed.get_or_insert(error.clone().in_words(why));
            }
            flow.turn(mixes);
            flow.not_before = (flow.tries > 1).then(|| Instant::now() + wait(flow.tries - 1));
        });
    }

    /// What is asked for is being made ready, by a server that asks to wait for `asked`.
    pub(crate) fn put_off(&self, claim: &PipeClaim, error: &Error, asked: Option<Duration>) {
        let retry_for = self.settings.retry_for;
        let next = self.with(claim.number, |flow| {
            let (next, not_before) = put_off::later(&mut flow.waits, Instant::now(), asked, retry_for);
            flow.not_before = Some(not_before);
            next
        });
        let Some(next) = next else { return };
        put_off::say(error, asked, next);
        self.outlast(claim, error, next);
    }

    /// A host does not answer, and `next` says how long that is borne.
    pub fn outlast(&self, claim: &PipeClaim, error: &Error, next: outage::Next) {
        match next {
            outage::Next::GiveUp(time) => {
                let why = format!("{} (given up after {})", error.message, duration_in_words(time));
                self.leave(claim, error.clone().in_words(why));
            }
            outage::Next::Again { .. } => {
                let mixes = self.mixes(&claim.record);
                self.with(claim.number, |flow| flow.turn(mixes));
            }
        }
    }

    /// Whether parts of several mirrors may be put together.
    fn mixes(&self, record: &Record) -> bool {
        self.settings.verify && !record.checksums.is_empty()
    }
}
