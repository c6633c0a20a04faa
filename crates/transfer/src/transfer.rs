//! A live transfer, seen by the control loop as an [`Environment`]: it takes a set-point, lets an
//! epoch pass and tells what it showed.

pub mod relayed;
pub mod route;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use tidegate_control::{
    BitRate, Bounds, ByteCount, Concurrency, Ends, Environment, Observation, PerStage, Remaining,
};

use crate::error::{Error, ErrorKind, Result};
use crate::exchange::{Reports, Side, converse};
use crate::ledger::Ledger;
use crate::wire::message::{Counters, Message};
use crate::wire::session::{Inbox, Outbox};

/// How often a finished or interrupted transfer is looked for while an epoch passes.
const GLANCE: Duration = Duration::from_millis(10);

/// How often the first bytes are looked for.
const FIRST_LOOK: Duration = Duration::from_millis(20);

/// How long a peer may leave a poll unanswered: it answers at once unless its disk makes it wait.
const SILENCE: Duration = Duration::from_secs(60);

/// How long the end of a transfer that is given up is waited for, so that the journal is free again.
const LETTING_GO: Duration = Duration::from_secs(10);

/// Round trips that a new stream takes to get up to speed, and as many again to show it.
const SLOW_START: u32 = 15;

/// Stops a transfer from outside, such as from a signal handler.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Asks the transfer to stop; what is needed to resume is kept.
    pub fn raise(&self) {
        self.0.store(true, Relaxed);
    }

    /// Whether somebody asked.
    pub fn is_raised(&self) -> bool {
        self.0.load(Relaxed)
    }
}

/// How a transfer is driven.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// One epoch, settling included.
    pub epoch: Duration,
    /// The part of it after a change that is not measured.
    pub settle: Duration,
    /// When to end a transfer that has no end of its own (memory to memory).
    pub stop_after: Option<Duration>,
}

impl Pace {
    /// Epochs of this length, of which a fifth, at most 500 ms, is left out to settle.
    pub fn new(epoch: Duration) -> Self {
        Self { epoch, settle: (epoch / 5).min(Duration::from_millis(500)), stop_after: None }
    }

    /// The same for one step on the way up: a quarter of the time, unless the path is so long that new
    /// streams are then still in slow start.
    #[must_use]
    pub fn hurried(self, rtt: Option<Duration>) -> Self {
        let epoch = (self.epoch / 4).max(SLOW_START * rtt.unwrap_or_default()).min(self.epoch);
        Self { epoch, settle: Self::new(epoch).settle, ..self }
    }
}

/// The initiator's side of a transfer between this host and an endpoint.
#[derive(Debug)]
pub struct LiveTransfer {
    side: Arc<Side>,
    outbox: Outbox,
    reports: Arc<Reports>,
    end: Arc<End>,
    ledger: Arc<Ledger>,
    interrupt: Interrupt,
    pace: Pace,
    started: Instant,
    polls: AtomicU32,
    bounds: PerStage<Bounds>,
    before: Option<Snapshot>,
    setpoint: Option<Concurrency>,
    hurried: bool,
    rtt: Option<Duration>,
}

/// How the conversation ended, once it has.
#[derive(Debug, Default)]
struct End {
    result: Mutex<Option<Result<()>>>,
    changed: Condvar,
}

/// Both ends' counters at about the same moment.
#[derive(Clone, Copy, Debug)]
struct Snapshot {
    sender: Counters,
    receiver: Counters,
}

impl LiveTransfer {
    /// Takes over `side` and talks with the peer in the background.
    pub fn start(
        side: Side,
        outbox: Outbox,
        inbox: Inbox,
        ledger: Arc<Ledger>,
        bounds: PerStage<Bounds>,
        pace: Pace,
        interrupt: Interrupt,
    ) -> Result<Self> {
        let side = Arc::new(side);
        let (reports, end) = (Arc::new(Reports::default()), Arc::new(End::default()));
        let conversation = {
            let (side, outbox, reports, end) =
                (Arc::clone(&side), outbox.clone(), Arc::clone(&reports), Arc::clone(&end));
            move || {
                let result = converse(&side, &outbox, &inbox, &reports);
                side.stop();
                *end.result.lock().expect("not poisoned") = Some(result);
                end.changed.notify_all();
            }
        };
        thread::Builder::new()
            .name("converse".to_owned())
            .spawn(conversation)
            .map_err(|error| Error::new(ErrorKind::Io, format!("cannot start a thread: {error}")))?;
        let started = Instant::now();
        let polls = AtomicU32::new(0);
        Ok(Self {
            side,
            outbox,
            reports,
            end,
            ledger,
            interrupt,
            pace,
            started,
            polls,
            bounds,
            before: None,
            setpoint: None,
            hurried: false,
            rtt: None,
        })
    }

    /// The transfer's books.
    pub fn ledger(&self) -> &Arc<Ledger> {
        &self.ledger
    }

    fn ended(&self) -> Option<Result<()>> {
        self.end.result.lock().expect("not poisoned").clone()
    }

    /// Lets time pass until `until`, or until the transfer ends.
    fn pass(&self, until: Instant) -> Result<Option<()>> {
        loop {
            if self.interrupt.is_raised() {
                let why = "interrupted; run the same command again to continue";
                return Err(Error::new(ErrorKind::Interrupted, why));
            }
            if let Some(end) = self.ended() {
                return end.map(|()| None);
            }
            let stop = self.pace.stop_after.is_some_and(|time| self.started.elapsed() >= time);
            if stop {
                return Ok(None);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Some(()));
            }
            let result = self.end.result.lock().expect("not poisoned");
            drop(self.end.changed.wait_timeout(result, left.min(GLANCE)).expect("not poisoned"));
        }
    }

    /// `None` if the transfer ended while we asked.
    fn snapshot(&self) -> Result<Option<Snapshot>> {
        let number = self.polls.fetch_add(1, Relaxed) + 1;
        self.outbox.send(&Message::Poll(number));
        let local = self.side.counters();
        let asked = Instant::now();
        let over = || self.ended().is_some() || self.interrupt.is_raised();
        let remote = self.reports.wait(number, || over() || asked.elapsed() >= SILENCE);
        match (remote, &*self.side) {
            (Some(remote), Side::Send(_)) => Ok(Some(Snapshot { sender: local, receiver: remote })),
            (Some(remote), Side::Receive(..)) => Ok(Some(Snapshot { sender: remote, receiver: local })),
            (None, _) if over() => Ok(None),
            (None, _) => Err(Error::new(ErrorKind::Connection, "the other end has fallen silent")),
        }
    }

    /// Waits for the first bytes, so that connecting is not measured, but not beyond `until`.
    fn wait_for_data(&self, until: Instant) -> Result<Option<()>> {
        while Instant::now() < until {
            if self.pass(Instant::now() + FIRST_LOOK)?.is_none() {
                return Ok(None);
            }
            match self.snapshot()? {
                Some(now) if now.receiver.network > 0 => break,
                Some(_) => {}
                None => return self.pass(Instant::now()).map(|_| None),
            }
        }
        Ok(Some(()))
    }

    fn observe(&self, setpoint: Concurrency, before: &Snapshot, after: &Snapshot) -> Observation {
        let interval = |a: &Counters, b: &Counters| Duration::from_micros(b.at_us.saturating_sub(a.at_us));
        let rate = |a: u64, b: u64, time| BitRate::over(ByteCount(b.saturating_sub(a)), time);
        let sending = interval(&before.sender, &after.sender);
        let receiving = interval(&before.receiver, &after.receiver);
        let network = rate(before.receiver.network, after.receiver.network, receiving);
        let staging = |counters: &Counters| {
            (
                ByteCount(counters.staging_capacity.saturating_sub(counters.staging_used)),
                ByteCount(counters.staging_capacity),
            )
        };
        let (sender, receiver) = (staging(&after.sender), staging(&after.receiver));
        let segments = after.sender.segments_sent.saturating_sub(before.sender.segments_sent);
        let again = after.sender.retransmits.saturating_sub(before.sender.retransmits);
        let totals = self.ledger.totals();
        let left = |all: u64, done: u64, skipped: u64| all.saturating_sub(done).saturating_sub(skipped);
        Observation {
            at: self.started.elapsed(),
            interval: sending,
            concurrency: setpoint,
            throughput: PerStage {
                // A stage that does not exist moves what the network does: filling staging with zeros, half of
                // it at a time, would say nothing of the path.
                read: match self.bounds.read.is_fixed() {
                    true => network,
                    false => rate(before.sender.read, after.sender.read, sending),
                },
                network,
                write: match self.bounds.write.is_fixed() {
                    true => network,
                    false => rate(before.receiver.written, after.receiver.written, receiving),
                },
            },
            staging_free: Ends { sender: sender.0, receiver: receiver.0 },
            staging_capacity: Ends { sender: sender.1, receiver: receiver.1 },
            loss: (segments > 0).then(|| (again as f64 / segments as f64).min(1.0)),
            rtt: (after.sender.rtt_us > 0).then(|| Duration::from_micros(after.sender.rtt_us)),
            remaining: totals.listed.then(|| Remaining {
                bytes: ByteCount(left(totals.bytes_listed, totals.bytes_done, totals.bytes_skipped)),
                files: left(
                    totals.files_listed,
                    totals.files_done,
                    totals.files_skipped + totals.files_failed,
                ),
            }),
        }
    }
}

impl Environment for LiveTransfer {
    type Error = Error;

    fn bounds(&self) -> PerStage<Bounds> {
        self.bounds
    }

    fn hurry(&mut self, hurried: bool) {
        self.hurried = hurried;
    }

    fn step(&mut self, setpoint: Concurrency) -> Result<Option<Observation>> {
        let pace = if self.hurried { self.pace.hurried(self.rtt) } else { self.pace };
        let mut begun = Instant::now();
        let changed = self.setpoint != Some(setpoint);
        if changed {
            let first = self.setpoint.replace(setpoint).is_none();
            self.side.resize(setpoint);
            self.outbox.send(&Message::Setpoint(setpoint));
            if first && self.hurried {
                if self.wait_for_data(begun + self.pace.epoch)?.is_none() {
                    return Ok(None);
                }
                begun = Instant::now();
            }
            if self.pass(begun + pace.settle)?.is_none() {
                return Ok(None);
            }
        }
        // Without a change the last epoch's end is this one's beginning.
        let before = match self.before.filter(|_| !changed) {
            Some(before) => Some(before),
            None => self.snapshot()?,
        };
        if self.pass(begun + pace.epoch)?.is_none() {
            return Ok(None);
        }
        let after = self.snapshot()?;
        self.before = after;
        match (before, after) {
            (Some(before), Some(after)) => {
                let seen = self.observe(setpoint, &before, &after);
                self.rtt = seen.rtt;
                Ok(Some(seen))
            }
            // The transfer ended while we asked.
            _ => Ok(self.pass(Instant::now())?.and(None)),
        }
    }
}

impl Drop for LiveTransfer {
    fn drop(&mut self) {
        if self.ended().is_none() {
            self.outbox.send(&Message::Stop);
        }
        self.outbox.close();
        self.side.stop();
        // The conversation may be the one that waits for the workers: what they hold is free after it.
        let end = Instant::now() + LETTING_GO;
        let mut result = self.end.result.lock().expect("not poisoned");
        while result.is_none() && Instant::now() < end {
            result = self.end.changed.wait_timeout(result, GLANCE).expect("not poisoned").0;
        }
    }
}
