//! Transfers from here to other endpoints, epoch by epoch as their initiators say; they are counted while they run.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tidegate_control::{Bounds, Concurrency, Observation, PerStage, Proposal};

use crate::catalogue::Catalogues;
use crate::endpoint::{Endpoint, reach};
use crate::error::{Error, ErrorKind, Result};
use crate::exchange::PeerLine;
use crate::ledger::{Failure, Ledger};
use crate::plan::PlanListener;
use crate::quota::Share;
use crate::record::Record;
use crate::spec::{SinkSpec, SourceSpec};
use crate::store::Source;
use crate::sys::random;
use crate::sys::thread;
use crate::terms::Purpose;
use crate::transfer::hearing::Unheard;
use crate::transfer::route::{self, STALL, Setup, Sharing, Transfer, random_run, transfer_id};
use crate::transfer::{Interrupt, Pace};
use crate::wire::message::{Message, Step, Stepped};
use crate::wire::request::{Agreement, Preamble, RequestKind, Run};
use crate::wire::session::{Inbox, Outbox};
use crate::wire::ticket::Address;
use crate::wire::way::Carriers;

/// How long an idle initiator is waited for.
pub(super) const IDLE: Duration = Duration::from_secs(60);

/// Least time after which an initiator may have a stream replaced.
const LEAST_STALL: Duration = Duration::from_secs(1);

/// A transfer to another endpoint: draining waits for it, and no data stream joins it.
#[derive(Debug)]
struct Relaying<'a>(&'a Endpoint);

impl<'a> Relaying<'a> {
    /// One begins.
    fn begin(endpoint: &'a Endpoint) -> Self {
        endpoint.activity.relayed.fetch_add(1, Relaxed);
        Self(endpoint)
    }
}

impl Drop for Relaying<'_> {
    fn drop(&mut self) {
        self.0.activity.relayed.fetch_sub(1, Relaxed);
        self.0.has_ended();
    }
}

/// When a stream of a run is replaced that delivers nothing.
pub(super) fn stall_of(run: &Run) -> Duration {
    run.stall().max(LEAST_STALL)
}

/// What is sent on to another endpoint.
pub(super) struct Relayed<'a> {
    pub store: Box<dyn Source>,
    pub spec: &'a SourceSpec,
    /// Whether it is one file.
    pub single: bool,
    pub pace: Pace,
}

/// Sends to another endpoint, epoch by epoch as the initiator says.
pub(super) fn relay(
    endpoint: &Endpoint,
    PeerLine { outbox, inbox, .. }: PeerLine<'_>,
    ledger: &Ledger,
    Relayed { store, spec, single, pace }: Relayed<'_>,
    address: &Address,
    preamble: Preamble,
    share: &Share,
) -> Result<()> {
    let _relaying = Relaying::begin(endpoint);
    let (interrupt, unheard) = (Interrupt::default(), Unheard::default());
    let mut terms = preamble.terms.clone();
    let congestion_refused = terms.congestion.agree();
    let plan = (terms.purpose == Purpose::Plan).then(|| unheard.listener(outbox));
    let setup = relay_setup(endpoint, Preamble { terms, ..preamble }, plan, pace, share, &interrupt);
    let (id, sink) = match spec {
        SourceSpec::Zero(_) => (*random::bytes().first_chunk().expect("long enough"), SinkSpec::Null),
        SourceSpec::Files(paths) => {
            let (root, names) = (endpoint.served.absolute(), paths.join(&b'\0'));
            let id = transfer_id(&[b"relay", root, &names, &address.identity(), &address.path]);
            (id, SinkSpec::Files { path: address.path.clone(), single })
        }
    };
    let transfer = {
        let link =
            reach::open(address, setup.pki.as_ref(), endpoint.config.allow_local_targets, &share.metadata)?;
        route::push(store, address, link, RequestKind::Receive { id, sink }, &setup)?
    };
    let round_trip_us = transfer.host().round_trip.map(|time| time.as_micros() as u64);
    outbox.send(&Message::accepted(&Agreement {
        token: random::bytes(),
        round_trip_us,
        congestion_refused,
        ..Agreement::default()
    }));
    unheard.begin();
    Relay { transfer, ledger, outbox, inbox, unheard: &unheard, interrupt: &interrupt, told: 0 }.run()
}

/// How this end sends to another endpoint what `preamble` asks for.
fn relay_setup(
    endpoint: &Endpoint,
    preamble: Preamble,
    plan: Option<PlanListener>,
    pace: Pace,
    share: &Share,
    interrupt: &Interrupt,
) -> Setup {
    let Preamble { terms, selection, taking, deletion, moving, run, .. } = preamble;
    let (run, stall) = run.map_or_else(|| (random_run(), STALL), |run| (run.id, stall_of(&run)));
    Setup {
        terms,
        selection,
        taking,
        plan,
        deletion,
        moving,
        sharing: Sharing::default(),
        pace,
        run,
        stall,
        interrupt: interrupt.clone(),
        pki: endpoint.pki(),
        catalogues: Catalogues::none(),
        share: share.clone(),
        carriers: Carriers::default(),
    }
}

/// A transfer to another endpoint under way, and how much of it the initiator was told.
struct Relay<'r> {
    transfer: Transfer,
    ledger: &'r Ledger,
    outbox: &'r Outbox,
    inbox: &'r Inbox,
    unheard: &'r Unheard,
    interrupt: &'r Interrupt,
    /// Failures that were told.
    told: usize,
}

impl Relay<'_> {
    /// Goes on epoch by epoch as the initiator says.
    fn run(mut self) -> Result<()> {
        loop {
            match self.inbox.receive()? {
                Message::Step(asked) => {
                    if self.step(&asked.read()?)? {
                        let _ = self.inbox.receive_within(IDLE);
                        return Ok(());
                    }
                }
                Message::Heard(count) => self.unheard.heard(count),
                Message::Stop => {
                    let why = "the initiator stopped the transfer";
                    return Err(Error::new(ErrorKind::Interrupted, why));
                }
                _ => {
                    let why = "the initiator of a third-party transfer only says step and stop";
                    return Err(Error::protocol(why));
                }
            }
        }
    }

    /// One epoch; `true` if it was the last.
    fn step(&mut self, asked: &Step) -> Result<bool> {
        let (proposal, bounds) = asked_for(asked, self.transfer.bounds());
        self.transfer.heed(&proposal, bounds);
        let seen = step(&mut self.transfer, asked.setpoint, (self.inbox, self.unheard), self.interrupt);
        self.inbox.check_time()?;
        self.tell_failures();
        let at = self.transfer.ledger();
        let totals = at.totals();
        self.ledger.adopt(totals);
        let stepped = Stepped {
            totals,
            refreshed: at.files_refreshed(),
            deleted: at.entries_deleted(),
            not_kept: at.not_kept(),
            unfinished: at.bytes_unfinished(),
            bounds: self.transfer.bounds(),
            failure: seen.as_ref().err().cloned(),
            seen: seen.as_ref().ok().cloned().flatten(),
        };
        self.outbox.send(&Message::Stepped(Record::of(&stepped)));
        Ok(seen?.is_none())
    }

    /// Tells of what failed and was left out since the last time.
    fn tell_failures(&mut self) {
        let at = self.transfer.ledger();
        let failures = at.failures();
        for Failure { path, error } in failures[self.told..].iter().cloned() {
            self.ledger.adopt_failure(path.clone(), error.clone());
            self.outbox.send_patiently(&Message::Problem(path, error), || false);
        }
        self.told = failures.len();
        for (path, why) in at.take_left_out() {
            self.outbox.send_patiently(&Message::LeftOut(path, why), || false);
        }
    }
}

/// What a step asks for besides workers, within what is allowed here.
fn asked_for(asked: &Step, bounds: PerStage<Bounds>) -> (Proposal, PerStage<Bounds>) {
    let Step { short: short_epochs, yields, ramps_to, .. } = *asked;
    let proposal = Proposal { short_epochs, yields, ramps: ramps_to > 0, ..Proposal::default() };
    let network = Bounds::new(bounds.network.min, bounds.network.clamp(ramps_to));
    (proposal, PerStage { network, ..bounds })
}

/// One epoch, given up if the initiator leaves or says stop meanwhile.
fn step(
    transfer: &mut Transfer,
    setpoint: Concurrency,
    (inbox, unheard): (&Inbox, &Unheard),
    interrupt: &Interrupt,
) -> Result<Option<Observation>> {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Relaxed) {
                match inbox.receive_within(Duration::from_millis(10)) {
                    Ok(None) => {}
                    Ok(Some(Message::Heard(count))) => unheard.heard(count),
                    _ => {
                        interrupt.raise();
                        return;
                    }
                }
            }
        });
        let seen = transfer.step(setpoint);
        done.store(true, Relaxed);
        seen
    })
}
