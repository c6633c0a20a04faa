//! A live transfer, seen by the control loop as an
//! [`Environment`](tidegate_control::Environment): it takes a set-point, lets an
//! epoch pass and tells what it showed.

pub mod link;
mod pace;
mod paced;
pub(crate) mod relayed;
pub mod route;
mod standstill;

pub use pace::Pace;
pub use paced::{Paced, Running, Tracked};

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use tidegate_control::{BitRate, Bounds, ByteCount, Concurrency, Ends, Observation, PerStage};

use crate::counters::Counters;
use crate::error::{Error, ErrorKind, Result};
use crate::exchange::{Reports, Side, converse};
use crate::ledger::Ledger;
use crate::sys::clock::Instant;
use crate::sys::sync::{Condvar, Mutex};
use crate::sys::thread;
use crate::transfer::route::Setup;
use crate::transfer::standstill::Standstill;
use crate::wire::message::Message;
use crate::wire::session::{Inbox, Outbox};

/// How often a finished or interrupted transfer is looked for while an epoch passes.
const GLANCE: Duration = Duration::from_millis(10);

/// How long a peer may leave a poll unanswered: it answers at once unless its disk makes it wait.
const SILENCE: Duration = Duration::from_secs(60);

/// How long the end of a transfer that is given up is waited for, so that the journal is free again.
const LETTING_GO: Duration = Duration::from_secs(10);

/// How often the peer hears that we are there, if nothing else is said.
const SIGN_OF_LIFE: Duration = Duration::from_secs(3);

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
    rtt: Option<Duration>,
    /// What was said last of the set-point, and when.
    told: (Option<Concurrency>, Instant),
    standstill: Standstill,
}

/// How the conversation ended, once it has.
#[derive(Debug, Default)]
struct End {
    result: Mutex<Option<Result<()>>>,
    changed: Condvar,
}

/// Both ends' counters at about the same moment.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot {
    sender: Counters,
    receiver: Counters,
}

impl LiveTransfer {
    /// Takes over `side` and talks with the peer in the background.
    pub fn start(
        side: Side,
        (outbox, inbox): (Outbox, Inbox),
        ledger: Arc<Ledger>,
        bounds: PerStage<Bounds>,
        setup: &Setup,
    ) -> Result<Paced<Self>> {
        let (pace, interrupt) = (setup.pace, setup.interrupt.clone());
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
        let rtt = outbox.round_trip();
        let transfer = Self {
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
            rtt,
            told: (None, started),
            standstill: Standstill::new(setup.stall),
        };
        Ok(Paced::new(transfer, pace))
    }

    fn ended(&self) -> Option<Result<()>> {
        self.end.result.lock().expect("not poisoned").clone()
    }
}

impl Running for LiveTransfer {
    type Counters = Snapshot;

    fn ledger(&self) -> &Arc<Ledger> {
        &self.ledger
    }

    fn bounds(&self) -> PerStage<Bounds> {
        self.bounds
    }

    fn other_end(&self) -> (Option<Duration>, Option<u16>) {
        (self.outbox.round_trip(), None)
    }

    fn resize(&mut self, setpoint: Concurrency) {
        self.side.resize(setpoint);
        self.outbox.send(&Message::Setpoint(setpoint));
        self.told = (Some(setpoint), Instant::now());
    }

    /// Lets time pass until `until`, or until the transfer ends.
    fn pass(&mut self, until: Instant) -> Result<Option<()>> {
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
            if let (Some(setpoint), at) = self.told
                && at.elapsed() >= SIGN_OF_LIFE
            {
                self.resize(setpoint);
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
    fn counters(&mut self) -> Result<Option<Snapshot>> {
        let number = self.polls.fetch_add(1, Relaxed) + 1;
        self.outbox.send(&Message::Poll(number));
        let local = self.side.counters();
        let asked = Instant::now();
        let over = || self.ended().is_some() || self.interrupt.is_raised();
        let remote = self.reports.wait(number, || over() || asked.elapsed() >= SILENCE);
        let (sender, receiver) = match (remote, &*self.side) {
            (Some(remote), Side::Send(_)) => {
                self.ledger.taken_in(remote.network);
                (local, remote)
            }
            (Some(remote), Side::Receive(..)) => (remote, local),
            (None, _) if over() => return Ok(None),
            (None, _) => {
                return Err(Error::new(ErrorKind::Connection, "the other end has fallen silent"));
            }
        };
        self.rtt = sender.rtt().or(self.rtt);
        let snapshot = Snapshot { sender, receiver };
        self.standstill.see(&snapshot, self.ledger.totals().files_done);
        Ok(Some(snapshot))
    }

    fn moved(&self, counters: &Snapshot) -> u64 {
        counters.receiver.network
    }

    fn warm_up(&self) -> Duration {
        SLOW_START * self.rtt.unwrap_or_default()
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
            rtt: after.sender.rtt(),
            cpu: Ends {
                sender: after.sender.cpu.load_since(&before.sender.cpu, sending),
                receiver: after.receiver.cpu.load_since(&before.receiver.cpu, receiving),
            },
            remaining: self.ledger.totals().remaining(),
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
