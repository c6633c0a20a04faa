//! A live transfer, seen by the control loop as an
//! [`Environment`](tidegate_control::Environment): it takes a set-point, lets an
//! epoch pass and tells what it showed.

pub mod file_client;
pub mod link;
mod pace;
mod watch;

pub(crate) mod hearing;
mod paced;
pub(crate) mod relayed;
pub mod route;
mod standstill;

pub use pace::Pace;
pub use paced::{Paced, Running, Tracked};

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use tidegate_control::{
    BitRate, Bounds, ByteCount, Concurrency, Ends, Observation, PathSample, PerStage, Stage, Streams,
};

use crate::counters::{Counters, Glimpse, StreamCounters};
use crate::error::{Error, ErrorKind, Result};
use crate::exchange::{Owner, PeerLine, Reports, Side, converse};
use crate::ledger::Ledger;
use crate::pipeline::waits::share_waited;
use crate::sys::clock::Instant;
use crate::sys::sync::{Condvar, Mutex};
use crate::sys::thread;
use crate::terms::Purpose;
use crate::transfer::route::Setup;
use crate::transfer::standstill::Standstill;
use crate::wire::message::Message;
use crate::wire::order::Part;
use crate::wire::session::{Inbox, Outbox};

/// How often a finished or interrupted transfer is looked for while an epoch passes.
const GLANCE: Duration = Duration::from_millis(10);

/// How long a peer may leave a poll unanswered: it answers at once unless its disk makes it wait.
const SILENCE: Duration = Duration::from_secs(60);

/// How long the end of a transfer that is given up is waited for, so that the journal is free again.
const LETTING_GO: Duration = Duration::from_secs(10);

/// How often the peer hears that we are there, if nothing else is said.
const SIGN_OF_LIFE: Duration = Duration::from_secs(3);

/// Round trips that a new stream takes to connect, to get up to speed and to show it, where its window stays small; who
/// takes longer is still on its way when it is looked at, and is measured later.
const SLOW_START: u32 = 8;

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
pub(crate) struct LiveTransfer {
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
    yields: bool,
    /// `None` where nothing is to move.
    standstill: Option<Standstill>,
}

/// How the conversation ended, once it has.
#[derive(Debug, Default)]
struct End {
    result: Mutex<Option<Result<()>>>,
    changed: Condvar,
}

/// Both ends' counters at about the same moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Snapshot {
    sender: Counters,
    receiver: Counters,
}

impl LiveTransfer {
    /// Takes over `side` and talks with the peer in the background; what ends that is said as `in_words`.
    pub fn start(
        (side, mut owner): (Side, Owner),
        outbox: Outbox,
        inbox: Inbox,
        ledger: Arc<Ledger>,
        bounds: PerStage<Bounds>,
        setup: &Setup,
        in_words: impl Fn(Error) -> Error + Send + 'static,
    ) -> Result<Paced<Self>> {
        let (pace, interrupt, fence) = (setup.pace, setup.interrupt.clone(), setup.sharing.fence.clone());
        let side = Arc::new(side);
        let (reports, end) = (Arc::new(Reports::default()), Arc::new(End::default()));
        let conversation = {
            let (side, outbox, reports, end) =
                (Arc::clone(&side), outbox.clone(), Arc::clone(&reports), Arc::clone(&end));
            move || {
                let result = converse(
                    (&side, &mut owner),
                    PeerLine { outbox: &outbox, inbox: &inbox, part: Part::Endpoint },
                    &reports,
                    fence.as_ref(),
                );
                side.stop();
                owner.end();
                *end.result.lock() = Some(result.map_err(in_words));
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
            yields: false,
            standstill: (setup.terms.purpose != Purpose::Plan).then(|| Standstill::new(setup.stall)),
        };
        Ok(Paced::new(transfer, pace))
    }

    /// The share of the time in which workers could have worked and did not; not known of a stage that does not exist.
    fn waited(
        &self,
        workers: Concurrency,
        (before, sending): (&Snapshot, Duration),
        (after, receiving): (&Snapshot, Duration),
    ) -> PerStage<Option<f64>> {
        let time = |a: &Counters, b: &Counters, of: fn(&Counters) -> u64| {
            Duration::from_micros(of(b).saturating_sub(of(a)))
        };
        let (filling, taking) = (|d: &Counters| d.filling_us, |d: &Counters| d.taking_us);
        let (sender, receiver) = ((&before.sender, &after.sender), (&before.receiver, &after.receiver));
        let waited = |stage: Stage, interval, time| {
            share_waited(interval, (Duration::ZERO, time), workers[stage])
                .filter(|_| !self.bounds[stage].is_fixed())
        };
        let read = time(sender.0, sender.1, filling);
        // The two clocks agree but for the time that asking takes.
        let network = time(sender.0, sender.1, taking).saturating_add(time(receiver.0, receiver.1, filling));
        let write = time(receiver.0, receiver.1, taking);
        PerStage {
            read: waited(Stage::Read, sending, read),
            network: waited(Stage::Network, sending, network),
            write: waited(Stage::Write, receiving, write),
        }
    }

    /// Workers beyond those allowed that worked, by how long all did and the allowed could have and did not; streams' kernel
    /// tells it of them.
    fn draining(
        workers: Concurrency,
        waited: PerStage<Option<f64>>,
        (before, sending): (&Snapshot, Duration),
        (after, receiving): (&Snapshot, Duration),
    ) -> PerStage<f64> {
        let beyond = |stage: Stage, before: &Counters, after: &Counters, interval: Duration| {
            let worked = Duration::from_micros(after.worked_us.saturating_sub(before.worked_us));
            let mean = worked.as_secs_f64() / interval.as_secs_f64();
            let allowed = f64::from(workers[stage]) * (1.0 - waited[stage]?);
            // No stage has more workers, whatever the other end says.
            (mean.is_finite() && mean > allowed).then(|| (mean - allowed).min(u16::MAX.into()))
        };
        PerStage {
            read: beyond(Stage::Read, &before.sender, &after.sender, sending).unwrap_or(0.0),
            network: 0.0,
            write: beyond(Stage::Write, &before.receiver, &after.receiver, receiving).unwrap_or(0.0),
        }
    }

    /// How uncertain the other end's rates are, as far as it says so.
    fn told_errors(&self, after: &Snapshot) -> PerStage<f64> {
        let remote = match &*self.side {
            Side::Send(_) => after.receiver,
            Side::Receive(..) => after.sender,
        };
        remote.error_ppm.map(|ppm| f64::from(ppm.unwrap_or_default()) / 1e6)
    }

    fn ended(&self) -> Option<Result<()>> {
        self.end.result.lock().clone()
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

    fn yields(&mut self, yields: bool) {
        if std::mem::replace(&mut self.yields, yields) != yields {
            match &*self.side {
                Side::Send(sender) => sender.yields(yields),
                Side::Receive(..) => self.outbox.send(&Message::Yield(yields)),
            }
        }
    }

    fn path_sample(&self) -> Option<PathSample> {
        match &*self.side {
            Side::Send(sender) => sender.path_sample(self.started.elapsed()),
            Side::Receive(..) => Some(PathSample::of_arrival(
                self.started.elapsed(),
                self.outbox.round_trip()?,
                ByteCount(self.side.glimpse().network?.moved),
            )),
        }
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
            let result = self.end.result.lock();
            drop(self.end.changed.wait_timeout(result, left.min(GLANCE)));
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
                self.ledger.taken_in(remote.taken);
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
        let done = self.ledger.totals().files_done;
        if let Some(standstill) = self.standstill.as_mut().and_then(|seen| seen.see(&snapshot, done)) {
            tracing::warn!("{standstill}");
        }
        Ok(Some(snapshot))
    }

    fn glimpse(&self) -> Glimpse {
        self.side.glimpse()
    }

    fn round_trip(&self) -> Duration {
        self.rtt.unwrap_or_default()
    }

    fn stops(&self) -> Option<Instant> {
        self.pace.stop_after.map(|time| self.started + time)
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
        let waited = self.waited(setpoint, (before, sending), (after, receiving));
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
            standard_error: self.told_errors(after),
            waited,
            draining: Self::draining(setpoint, waited, (before, sending), (after, receiving)),
            staging_free: Ends { sender: sender.0, receiver: receiver.0 },
            staging_capacity: Ends { sender: sender.1, receiver: receiver.1 },
            loss: (segments > 0).then(|| (again as f64 / segments as f64).min(1.0)),
            rtt: after.sender.rtt(),
            streams: streams(&before.sender, &after.sender, sending),
            queued: share_of(&after.sender, |streams| streams.queued),
            held: share_of(&after.sender, |streams| streams.held),
            model_based: share_of(&after.sender, |streams| streams.model_based),
            tries: after.sender.streams.is_some_and(|streams| streams.tries),
            ramp: Vec::new(),
            cpu: Ends {
                sender: after.sender.cpu.load_since(&before.sender.cpu, sending),
                receiver: after.receiver.cpu.load_since(&before.receiver.cpu, receiving),
            },
            remaining: self.ledger.totals().remaining(),
        }
    }
}

/// What share of the sender's streams that are.
fn share_of(after: &Counters, some: impl Fn(&StreamCounters) -> u16) -> f64 {
    let share = |streams: StreamCounters| f64::from(some(&streams)) / f64::from(streams.count.max(1));
    after.streams.map_or(0.0, share).min(1.0)
}

/// What the sender's kernel told of the streams under way.
fn streams(before: &Counters, after: &Counters, interval: Duration) -> Option<Streams> {
    let (before, after) = (before.streams?, after.streams?);
    let workers = after.count;
    let share = |a: u64, b: u64| {
        let time = Duration::from_micros(b.saturating_sub(a));
        share_waited(interval, (Duration::ZERO, time), workers).unwrap_or(0.0)
    };
    (workers > 0).then(|| Streams {
        count: workers,
        min_rtt: (after.min_rtt_us > 0).then(|| Duration::from_micros(after.min_rtt_us)),
        delivery_rate: BitRate(after.delivery.saturating_mul(8)),
        window: ByteCount(after.window),
        busy: share(before.busy_us, after.busy_us),
        receiver_limited: share(before.receiver_limited_us, after.receiver_limited_us),
        app_limited: (f64::from(after.app_limited) / f64::from(workers)).min(1.0),
        spread: f64::from(after.spread_ppm) / 1e6,
    })
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
        let mut result = self.end.result.lock();
        while result.is_none() && Instant::now() < end {
            result = self.end.changed.wait_timeout(result, GLANCE).0;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;

    use tidegate_control::Environment;

    use super::*;
    use crate::catalogue::Catalogues;
    use crate::endpoint::{Config, Endpoint};
    use crate::error::Retry;
    use crate::manifest::SEGMENT;
    use crate::outage::{Next, Outage, pause};
    use crate::pipeline::data_streams::{Arrivals, Supply};
    use crate::pipeline::send::Peer;
    use crate::pipeline::send::Sender;
    use crate::quota::Share;
    use crate::spec::Memory;
    use crate::store::memory::ZeroSource;
    use crate::sys::clock::manual;
    use crate::sys::confined::Root;
    use crate::sys::net::faulty;
    use crate::terms::Terms;
    use crate::throttle::Limits;
    use crate::transfer::route::{From, STALL, Sharing, To, begin, random_run};
    use crate::wire::session;
    use crate::wire::ticket::Claims;
    use crate::wire::way::Carriers;

    const HOUR: Duration = Duration::from_secs(3600);

    fn setup(directory: &Path) -> Setup {
        let state = Root::open(directory.as_os_str().as_bytes()).expect("opened");
        Setup {
            terms: Terms::default(),
            selection: Default::default(),
            taking: Default::default(),
            deletion: None,
            moving: false,
            sharing: Sharing::default(),
            pace: Pace::new(Duration::from_millis(100)),
            run: random_run(),
            stall: STALL,
            interrupt: Interrupt::default(),
            pki: None,
            plan: None,
            catalogues: Catalogues::new(&state).expect("opened"),
            share: Share::own(),
            carriers: Carriers::default(),
        }
    }

    #[test]
    fn a_peer_that_stays_away_without_leaving_is_given_up() {
        let directory = tempfile::tempdir().expect("a directory");
        let setup = setup(directory.path());
        let (ours, theirs) = session::pair();
        let (outbox, inbox) = session::start(ours, "the peer").expect("started");
        // It hears everything and says nothing.
        let _theirs = session::start(theirs, "us").expect("started");
        let ledger = Arc::new(Ledger::default());
        let source = Box::new(ZeroSource(Memory { bytes: ByteCount::mib(1) }));
        let (terms, to_peer) = (setup.terms.clone(), outbox.clone());
        let peer = Peer { patience: None, asked: false };
        let (sender, owner) = Sender::start(
            source,
            terms,
            to_peer,
            Supply::Await(Arrivals::default()),
            Arc::clone(&ledger),
            &setup.share,
            peer,
        );
        let bounds = PerStage::all(Bounds::new(1, 1));
        let transfer = LiveTransfer::start(
            (Side::Send(sender), Owner::Send(owner)),
            outbox,
            inbox,
            ledger,
            bounds,
            &setup,
            |error| error,
        );
        let mut transfer = transfer.expect("started");
        let clock = manual::stop();
        let began = Instant::now();
        let error = transfer.step(PerStage::all(1)).expect_err("nobody answers");
        let waited = began.elapsed();
        drop(clock);
        assert!(error.kind.retry() == Retry::Outage && error.message.contains("silent"), "{error}");
        assert!((SILENCE..SILENCE + setup.pace.epoch).contains(&waited), "{waited:?}");
    }

    #[test]
    fn a_transfer_goes_on_where_it_was_when_the_network_is_back_after_an_hour() {
        let directory = tempfile::tempdir().expect("a directory");
        let [root, state, file] = ["root", "state", "file"].map(|name| directory.path().join(name));
        std::fs::create_dir(&root).expect("made");
        let content: Vec<u8> = (0..6 * SEGMENT).map(|at| (at % 251) as u8).collect();
        std::fs::write(&file, &content).expect("written");
        let endpoint = Endpoint::bind(Config::local(&root, state)).expect("bound");
        let serving = Arc::clone(&endpoint);
        thread::spawn(move || serving.serve());
        let from = From::Local(vec![file.as_os_str().as_bytes().to_vec()]);
        let to = To::Endpoint(endpoint.address(&Claims::FULL).expect("an address").with_path("copy"));
        let mut setup = setup(directory.path());
        setup.terms.limits = Limits { link: Some(BitRate::mbps(100)), ..Limits::default() };
        let network = faulty::network();

        let mut transfer = begin(&from, &to, &setup).expect("begun");
        let ended = loop {
            if transfer.ledger().totals().bytes_moved > 3 * SEGMENT {
                network.lose();
            }
            match transfer.step(PerStage::all(1)) {
                Ok(Some(_)) => {}
                ended => break ended,
            }
        };
        let error = ended.expect_err("lost before its end");
        assert!(error.kind.retry() == Retry::Outage, "{error}");
        drop(transfer);
        assert!(!root.join("copy").exists());

        // Nobody waits for that hour but this thread's clock.
        let clock = manual::stop();
        let (mut outage, began) = (Outage::default(), Instant::now());
        outage.is_over();
        let (mut tries, mut told) = (0, 0);
        while began.elapsed() < HOUR {
            match outage.failed(Instant::now(), 2 * HOUR) {
                Next::Again { failures, left, tell } => {
                    told += u32::from(tell);
                    thread::sleep(pause(failures, left));
                }
                Next::GiveUp(lasted) => panic!("given up after {lasted:?}"),
            }
            tries += 1;
            let error = begin(&from, &to, &setup).err().expect("there is no network");
            assert!(error.kind.retry() == Retry::Outage, "{error}");
        }
        drop(clock);
        // 31.5 s until pauses are half a minute, and one of these each time from then on.
        assert_eq!((tries, told), (6 + 119, 60));

        network.restore();
        setup.terms.limits = Limits::default();
        let mut transfer = begin(&from, &to, &setup).expect("there it is again");
        while transfer.step(PerStage::all(1)).expect("no error").is_some() {}
        let totals = transfer.ledger().totals();
        assert_eq!((totals.files_done, totals.files_failed), (1, 0));
        assert!(totals.bytes_skipped >= SEGMENT, "nothing was kept: {totals:?}");
        assert!(std::fs::read(root.join("copy")).expect("there") == content);
        endpoint.drain();
    }
}
