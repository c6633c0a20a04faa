//! One session at an endpoint: checks what is asked against the ticket, then runs this end of it.

use std::collections::HashSet;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use tidegate_control::ByteCount;

use crate::catalogue::Catalogues;
use crate::counters::NotKept;
use crate::counters::Totals;
use crate::endpoint::report::Report;
use crate::endpoint::rights::{may_delete, may_move, may_read, may_use, may_write};
use crate::endpoint::served::scope;
use crate::endpoint::turns::Candidate;
use crate::endpoint::{Endpoint, Seen, SessionContext, accounts, files, measuring, reach};
use crate::error::{Error, ErrorKind, Result};
use crate::exchange::{PeerLine, Reports, Side, converse};
use crate::fence::Permit;
use crate::hash::Digest;
use crate::journal::{Journal, Leftovers};
use crate::ledger::Ledger;
use crate::mirror::Mirror;
use crate::pipeline::data_streams::{Arrivals, Supply};
use crate::pipeline::receive::{Asked, Destination, Receiver};
use crate::pipeline::send::{Peer, Sender};
use crate::quota::{Share, remember};
use crate::selection::{Deletion, Selection, Taking};
use crate::spec::{RunId, SinkSpec, SourceSpec, Sources, TransferId};
use crate::split::Split;
use crate::store::Source;
use crate::store::apart::{Apart, Removing};
use crate::store::backup::Backup;
use crate::store::file_sink::{FileSink, aim};
use crate::store::file_source::FileSource;
use crate::store::memory::{NullSink, ZeroSource};
use crate::store::named::Reached;
use crate::sys::confined::path_of;
use crate::sys::random;
use crate::sys::sync::Mutex;
use crate::sys::thread;
use crate::terms::{Compare, DataPlane, Purpose, Terms};
use crate::transfer::hearing::Unheard;
use crate::transfer::link;
use crate::transfer::route::{self, STALL, Setup, Transfer, random_run, transfer_id};
use crate::transfer::{Interrupt, Pace};
use crate::wire::channel::Channel;
use crate::wire::joined::BlockTaker;
use crate::wire::message::{
    DELETION_SINCE, DETAIL_SINCE, FENCE_SINCE, LEFT_OUT_SINCE, MODES_SINCE, Message, PLACES_SINCE,
    PLAN_SINCE, RUN_SINCE, Request, SELECTION_SINCE, SHARE_SINCE, SHORT_EPOCHS_SINCE, TELL_SINCE,
    WORKED_SINCE,
};
use crate::wire::session::{self, Inbox, Outbox};
use crate::wire::stepped::split;
use crate::wire::ticket::Address;
use crate::wire::way::Carriers;

/// Most an initiator may ask of this host.
const MAX_STAGING: ByteCount = ByteCount::mib(128);
const MAX_WORKERS: u16 = 512;

/// Epochs that an initiator may ask for.
const EPOCHS: RangeInclusive<Duration> = Duration::from_millis(50)..=Duration::from_secs(120);

/// Most failures told in one message.
const FAILURES_A_MESSAGE: usize = 500;

/// Least time after which an initiator may have a stream replaced.
const LEAST_STALL: Duration = Duration::from_secs(1);

/// What a peer is told whose ticket expires.
const EXPIRED: &str =
    "the ticket has expired: ask for a new one and run the same command with it, which continues";

/// How long an idle initiator is waited for.
const IDLE: Duration = Duration::from_secs(60);

/// How long iperf3 runs at most.
const IPERF3: Duration = Duration::from_secs(300);

/// A session that data streams may join.
#[derive(Debug)]
pub(crate) struct Hosted {
    token: Digest,
    side: Mutex<Option<Arc<Side>>>,
    seen: Seen,
}

impl Hosted {
    /// What binds data streams to this session.
    pub fn token(&self) -> &Digest {
        &self.token
    }

    /// A data stream that has proved itself.
    pub(crate) fn stream_arrived(&self, index: u32, channel: Channel) -> Result<()> {
        if !self.seen.lock().insert(index) {
            return Err(Error::new(
                ErrorKind::Authentication,
                "a data stream was refused: its number was used before",
            ));
        }
        let side = self.side.lock().clone();
        match side {
            Some(side) => side.stream_arrived(index, channel),
            None => return Err(Error::protocol("a data stream before there is a transfer")),
        }
        Ok(())
    }
}

impl Hosted {
    /// What takes blocks over, if this end receives.
    pub fn taker(&self) -> Option<Arc<dyn BlockTaker>> {
        match self.side.lock().as_deref()? {
            Side::Receive(receiver, _) => Some(receiver.taker()),
            Side::Send(_) => None,
        }
    }
}

/// What is known of a session before anything is asked.
#[derive(Debug)]
struct Caller<'a> {
    /// Who it is, and what its ticket allows.
    session: &'a SessionContext,
    /// The address of ours that it reached.
    reached: Option<IpAddr>,
    /// Where it is.
    peer: &'a str,
}

impl Caller<'_> {
    /// Who it is, for the log.
    fn name(&self, endpoint: &Endpoint) -> String {
        let what = if endpoint.identity().is_mutual() { "certificate" } else { "ticket" };
        format!("{} ({what} {})", self.peer, accounts::name(&self.session.account.id))
    }
}

/// What a peer says of its transfer before it asks for it.
#[derive(Debug, Default)]
struct Said {
    /// The run, and when a stream is replaced.
    run: Option<(RunId, Duration)>,
    sources: Sources,
    contents_mode: Option<u32>,
    selection: Selection,
    taking: Taking,
    deletion: Option<Deletion>,
    moving: bool,
    fenced: bool,
    split: Option<Split>,
}

impl Said {
    /// Hears it, and the request.
    fn hear(inbox: &Inbox, version: u16) -> Result<(Request, Self)> {
        let mut all = Self::default();
        loop {
            match inbox.receive_within(IDLE)? {
                Some(Message::Run { id, stall_ms }) if version >= RUN_SINCE && all.run.is_none() => {
                    all.run = Some((id, Duration::from_millis(stall_ms.into()).max(LEAST_STALL)));
                }
                Some(Message::Places(places)) if version >= PLACES_SINCE => all.sources.lie(places)?,
                Some(Message::Roots(named)) if version >= RUN_SINCE && all.sources.roots.is_empty() => {
                    all.sources.roots = named;
                }
                Some(Message::ContentsMode(mode)) if version >= MODES_SINCE => all.contents_mode = mode,
                Some(Message::Selection(said)) if version >= SELECTION_SINCE && all.selection.is_all() => {
                    all.selection = said;
                }
                Some(Message::Taking(said)) if version >= SELECTION_SINCE => all.taking = said,
                Some(Message::Deletion(said)) if version >= DELETION_SINCE && all.deletion.is_none() => {
                    all.deletion = Some(said);
                }
                Some(Message::Moving) if version >= DELETION_SINCE => all.moving = true,
                Some(Message::Fenced) if version >= FENCE_SINCE => all.fenced = true,
                Some(Message::Split(said)) if all.fenced && all.split.is_none() => all.split = Some(said),
                Some(Message::Request(request)) => return Ok((request, all)),
                Some(_) => return Err(Error::protocol("a session begins with a request")),
                None => return Err(Error::new(ErrorKind::Connection, "nothing was asked for a minute")),
            }
        }
    }

    fn memory(&self) -> usize {
        self.sources.memory()
            + self.selection.memory()
            + self.deletion.as_ref().map_or(0, Deletion::memory)
            + self.split.as_ref().map_or(0, Split::memory)
    }
}

/// What is sent on to another endpoint.
struct Relayed<'a> {
    store: Box<dyn Source>,
    spec: &'a SourceSpec,
    /// Whether it is one file.
    single: bool,
    terms: Terms,
    pace: Pace,
}

/// Serves one authenticated session to its end.
pub(super) fn host(endpoint: &Arc<Endpoint>, channel: Channel, session: &SessionContext) -> Result<()> {
    let peer =
        channel.socket().peer_addr().map_or_else(|_| "a peer".to_owned(), |address| address.to_string());
    let reached = channel.socket().local_addr().ok().map(|address| address.ip().to_canonical());
    let (outbox, inbox) = session::start_within(channel, &peer, &session.account.share.metadata)?;
    if let Some(end) = session.claims.end() {
        inbox.end_at(end, EXPIRED);
    }
    let caller = Caller { session, reached, peer: &peer };
    let mut report = None;
    let result = answer(endpoint, &caller, &outbox, &inbox, &mut report);
    if let Err(error) = &result {
        outbox.send(&Message::Refused(error.clone()));
    }
    outbox.close();
    match report {
        // One line for each transfer, also for one that failed.
        Some(report) => {
            report.tell(&result, &endpoint.counted);
            Ok(())
        }
        None => result.map_err(|error| error.within(format!("the session with {peer}"))),
    }
}

fn answer(
    endpoint: &Arc<Endpoint>,
    caller: &Caller<'_>,
    outbox: &Outbox,
    inbox: &Inbox,
    report: &mut Option<Report>,
) -> Result<()> {
    let SessionContext { claims, account, version, .. } = caller.session;
    let (request, mut said) = Said::hear(inbox, *version)?;
    *report = Report::of(&request, caller.name(endpoint));
    report.iter().for_each(|report| report.count(&endpoint.counted));
    let ledger = report.as_ref().map(|report| Arc::clone(&report.ledger)).unwrap_or_default();
    // What it named is there as long as its session.
    let _named = remember(&account.share.metadata, request.memory() + said.memory())?;
    let line = PeerLine { outbox, inbox, version: *version };
    match request {
        Request::OneTimeTicket { path } => {
            may_write(endpoint, claims)?;
            may_use(claims, &path)?;
            if said.deletion.is_some() {
                may_delete(endpoint, claims)?;
            }
            let ticket = endpoint.issue_one_time(&path, said.deletion.is_some(), caller.session)?;
            outbox.send(&Message::Ticket(ticket));
            // Stay until the peer has read it.
            let _ = inbox.receive_within(IDLE);
            Ok(())
        }
        Request::Share { path, expires } => {
            if *version < SHARE_SINCE {
                return Err(Error::protocol(format!(
                    "a URL is asked for in version {SHARE_SINCE} of the protocol"
                )));
            }
            outbox.send(&Message::Shared(endpoint.share(&path, expires, claims)?));
            // Stay until the peer has read it.
            let _ = inbox.receive_within(IDLE);
            Ok(())
        }
        Request::Receive { id, sink, terms } => {
            may_write(endpoint, claims)?;
            if said.deletion.is_some() {
                may_delete(endpoint, claims)?;
            }
            let terms = agree(endpoint, *version, terms)?;
            if terms.compare == Compare::Checksum && !caller.session.learns_hashes {
                let why = "the ticket allows writing alone, and comparing by checksum would tell what is here: leave --checksum out, or ask for a ticket that allows reading too";
                return Err(Error::new(ErrorKind::Denied, why));
            }
            if terms.purpose == Purpose::Plan && !caller.session.learns_hashes {
                let why = "the ticket allows writing alone, and a dry run would tell what is here: ask for a ticket that allows reading too";
                return Err(Error::new(ErrorKind::Denied, why));
            }
            if let SinkSpec::Files { path, .. } = &sink {
                may_use(claims, path)?;
            }
            // A peer that left while its request waited has nothing to begin, and would leave an empty journal.
            here(outbox)?;
            let candidate = Candidate { run: said.run.map(|(id, _)| id), session: outbox.clone() };
            let _turn = endpoint.turns.take((account.id, id), &candidate)?;
            here(outbox)?;
            let removing = Removing { at_destination: said.deletion.is_some(), at_source: said.moving };
            let sources = std::mem::take(&mut said.sources);
            let apart = Apart::from(sources, removing).offering(&said.selection, terms.links);
            let mut destination = open_sink(endpoint, caller.session, (&sink, &id), &terms, &said, apart)?;
            destination.permit = said.fenced.then(|| Permit::of_peer(outbox.clone()));
            said.split.as_ref().map_or(Ok(()), |split| may_split(split, said.moving))?;
            destination.split = said.split;
            let share = account.share.clone();
            let make = || {
                let asked = Asked::Anything;
                let receiver = Receiver::start(asked, destination, terms, outbox.clone(), ledger, share);
                Side::Receive(Arc::new(receiver), None)
            };
            serve(endpoint, line, &[], make)
        }
        Request::Send { source, terms } => {
            may_read(claims)?;
            may_move(endpoint, claims, &terms, said.moving)?;
            let terms = agree(endpoint, *version, terms)?;
            let (source, single) = open_source(endpoint, caller.session, &source, &terms, &said)?;
            let mut told = vec![Message::Single(single)];
            if source.has_read_stage() {
                told.extend(link::told(source.sources(), *version));
            }
            if *version >= MODES_SINCE && source.has_read_stage() {
                told.push(Message::ContentsMode(source.contents_mode()));
            }
            let share = &account.share;
            let peer = Peer::of(*version, said.run.map(|(_, stall)| stall)).asking(*version);
            let make = || {
                let supply = Supply::Await(Arrivals::default());
                Side::Send(Sender::start(source, terms, outbox.clone(), supply, ledger, share, peer))
            };
            serve(endpoint, line, &told, make)
        }
        Request::SendTo { source, destination, pace_ms, terms } => {
            may_read(claims)?;
            may_move(endpoint, claims, &terms, said.moving)?;
            let terms = agree(endpoint, *version, terms)?;
            let (store, single) = open_source(endpoint, caller.session, &source, &terms, &said)?;
            let address = Address::parse(&destination)?;
            let pace = Pace {
                epoch: Duration::from_millis(u64::from(pace_ms.0)).clamp(*EPOCHS.start(), *EPOCHS.end()),
                settle: Duration::from_millis(u64::from(pace_ms.1)),
                stop_after: None,
            };
            let from = Relayed { store, spec: &source, single, terms, pace };
            relay(endpoint, line, &ledger, from, &address, said, &account.share)
        }
        Request::Iperf3 { limit_s } => {
            let limit = Duration::from_secs(u64::from(limit_s)).min(IPERF3);
            let result = measuring::serve(endpoint, caller.session, caller.reached, (outbox, inbox), limit);
            endpoint.has_ended();
            result
        }
        Request::OneTimeIperf3 { reverse } => {
            measuring::ticket(endpoint, caller.session, reverse, (outbox, inbox))
        }
        Request::Iperf3To { destination, test, limit_s } => {
            let limit = Duration::from_secs(u64::from(limit_s)).min(IPERF3);
            let address = Address::parse(&destination)?;
            let result =
                measuring::between(endpoint, caller.session, &address, &test, (outbox, inbox), limit);
            endpoint.has_ended();
            result
        }
        Request::Files => files::serve(endpoint, caller.session, &caller.name(endpoint), (outbox, inbox)),
    }
}

/// Refuses what cannot be split: a file that is removed at its source once a range of it has arrived.
fn may_split(split: &Split, moving: bool) -> Result<()> {
    match moving {
        true => Err(Error::protocol("files that are moved away cannot be split")),
        false => split.check(),
    }
}

/// Whether the peer is still there.
fn here(outbox: &Outbox) -> Result<()> {
    match outbox.is_lost() {
        true => Err(Error::new(ErrorKind::Connection, "the peer left before its transfer began")),
        false => Ok(()),
    }
}

fn agree(endpoint: &Endpoint, version: u16, mut terms: Terms) -> Result<Terms> {
    if terms.purpose == Purpose::Plan && version < PLAN_SINCE {
        return Err(Error::protocol(format!(
            "a dry run is asked for in version {PLAN_SINCE} of the protocol"
        )));
    }
    if terms.data_plane == DataPlane::Clear && !endpoint.config.clear {
        let why = "clear data streams are not allowed here: start the endpoint with --data-plane clear, or leave the option out";
        return Err(Error::new(ErrorKind::Denied, why));
    }
    terms.staging = terms.staging.min(MAX_STAGING);
    terms.max_workers = terms.max_workers.clamp(1, MAX_WORKERS);
    Ok(terms)
}

fn open_sink(
    endpoint: &Endpoint,
    session: &SessionContext,
    (spec, id): (&SinkSpec, &TransferId),
    terms: &Terms,
    said: &Said,
    apart: Apart,
) -> Result<Destination> {
    let deletion = said.deletion.as_ref();
    let SinkSpec::Files { path, single } = spec else {
        return Ok(Destination::nowhere(Arc::new(NullSink)));
    };
    let scope = scope(endpoint, session)?;
    let Reached { base, rest, by_link } = scope.reach(path)?;
    let open_backup = |typed: &[u8]| {
        if by_link {
            let why =
                "a destination that is reached by a link has no backup directory: name where the link leads";
            return Err(Error::new(ErrorKind::Usage, why));
        }
        let (path, _) = aim(&base, &rest, *single)?;
        let backup = Backup::open(&scope.root, typed, &base, &path, &apart, &path, deletion)?;
        may_use(&session.claims, backup.path())?;
        Ok(backup)
    };
    let backup = deletion.and_then(|deletion| deletion.backup.as_deref()).map(open_backup).transpose()?;
    let kept = (terms.purpose, apart);
    let sink = FileSink::for_contents(said.contents_mode, (&base, &rest), *single, id, kept)?;
    let journal = sink.work().map(|work| Journal::open(work, &session.account.share.metadata)).transpose()?;
    let failed = |error| Error::io("tell where the link leads:", path, error);
    let absolute = match by_link {
        false => [endpoint.served.absolute(), b"/", sink.base_path()].concat(),
        true if sink.base_path().is_empty() => path_of(&base).map_err(failed)?,
        true => [&path_of(&base).map_err(failed)?[..], b"/", sink.base_path()].concat(),
    };
    let leftovers = sink.left().and_then(|left| Leftovers::read(left, &session.account.share.metadata).ok());
    let catalogue = endpoint.catalogues.for_purpose(terms.purpose, &absolute);
    let asks_hashes = session.version >= TELL_SINCE && session.learns_hashes;
    let mirror = Mirror::of(&sink, deletion, &session.account.share.metadata, backup)?;
    let sink = Arc::new(sink);
    Ok(Destination {
        sink,
        journal,
        leftovers,
        catalogue,
        asks_hashes,
        tells_modes: session.version >= MODES_SINCE,
        taking: said.taking,
        selection: None,
        moving: said.moving,
        mirror,
        permit: None,
        split: None,
    })
}

fn open_source(
    endpoint: &Endpoint,
    session: &SessionContext,
    spec: &SourceSpec,
    terms: &Terms,
    said: &Said,
) -> Result<(Box<dyn Source>, bool)> {
    match spec {
        SourceSpec::Zero(memory) => Ok((Box::new(ZeroSource(*memory)), true)),
        SourceSpec::Files(paths) => {
            for path in paths {
                may_use(&session.claims, path)?;
            }
            let source = FileSource::beneath(
                &scope(endpoint, session)?,
                paths,
                terms.links,
                &session.account.share.descriptors,
            )?
            .selecting(said.selection.clone())?
            .mirrored(said.deletion.is_some())?
            .moved(said.moving)?;
            let single = source.is_single_file();
            Ok((Box::new(source), single))
        }
    }
}

/// Runs this end until the initiator or the work is done.
fn serve(
    endpoint: &Arc<Endpoint>,
    line: PeerLine<'_>,
    told: &[Message],
    make: impl FnOnce() -> Side,
) -> Result<()> {
    let hosted =
        Arc::new(Hosted { token: random::bytes(), side: Mutex::default(), seen: Mutex::new(HashSet::new()) });
    endpoint.register(&hosted);
    let side = {
        // Streams that arrive at once wait here until there is an end to give them to.
        let mut slot = hosted.side.lock();
        line.outbox.send(&Message::Accepted { token: hosted.token });
        told.iter().for_each(|message| line.outbox.send(message));
        let side = Arc::new(make());
        *slot = Some(Arc::clone(&side));
        side
    };
    let result = converse(&side, line, &Reports::default(), None);
    // Let go of the journal before anybody may take over.
    side.stop();
    hosted.side.lock().take();
    drop(side);
    endpoint.unregister(&hosted);
    result
}

/// Sends to another endpoint, epoch by epoch as the initiator says.
fn relay(
    endpoint: &Endpoint,
    PeerLine { outbox, inbox, version }: PeerLine<'_>,
    ledger: &Ledger,
    Relayed { store, spec, single, terms, pace }: Relayed<'_>,
    address: &Address,
    said: Said,
    share: &Share,
) -> Result<()> {
    let (run, stall) = said.run.unwrap_or_else(|| (random_run(), STALL));
    let (interrupt, unheard) = (Interrupt::default(), Unheard::default());
    let setup = Setup {
        terms: terms.clone(),
        selection: said.selection,
        taking: said.taking,
        plan: (terms.purpose == Purpose::Plan).then(|| unheard.listener(outbox)),
        deletion: said.deletion,
        moving: said.moving,
        fence: None,
        split: None,
        pace,
        run,
        stall,
        interrupt: interrupt.clone(),
        pki: endpoint.pki(),
        catalogues: Catalogues::none(),
        share: share.clone(),
        carriers: Carriers::default(),
    };
    let (id, sink) = match spec {
        SourceSpec::Zero(_) => (*random::bytes().first_chunk().expect("long enough"), SinkSpec::Null),
        SourceSpec::Files(paths) => {
            let names = paths.join(&b'\0');
            let id = transfer_id(&[
                b"relay",
                endpoint.served.absolute(),
                &names,
                &address.identity(),
                &address.path,
            ]);
            (id, SinkSpec::Files { path: address.path.clone(), single })
        }
    };
    let mut transfer = {
        let link =
            reach::open(address, setup.pki.as_ref(), endpoint.config.allow_local_targets, &share.metadata)?;
        route::push(store, address, link, Request::Receive { id, sink, terms }, &setup)?
    };
    outbox.send(&Message::Accepted { token: random::bytes() });
    if version >= SHORT_EPOCHS_SINCE {
        let round_trip = transfer.host().round_trip.unwrap_or_default();
        outbox.send(&Message::RoundTrip(round_trip.as_micros() as u64));
    }
    unheard.begin();
    let mut told = 0;
    loop {
        match inbox.receive()? {
            Message::Step(setpoint) => {
                let seen = step(&mut transfer, setpoint, (inbox, &unheard), &interrupt);
                inbox.check_time()?;
                let totals = transfer.ledger().totals();
                let failures = transfer.ledger().failures();
                for some in failures[told..].chunks(FAILURES_A_MESSAGE) {
                    let failures = some.iter().map(|f| (f.path.clone(), f.error.clone())).collect();
                    let told = Totals { failures, ..totals.clone() };
                    ledger.adopt(told.clone());
                    outbox.send_patiently(&Message::Progress(told), || false);
                }
                told = failures.len();
                let left_out = transfer.ledger().take_left_out();
                for (path, why) in left_out.into_iter().filter(|_| version >= LEFT_OUT_SINCE) {
                    outbox.send_patiently(&Message::LeftOut(path, why), || false);
                }
                ledger.adopt(totals.clone());
                if version >= TELL_SINCE && transfer.ledger().files_refreshed() > 0 {
                    outbox.send(&Message::Refreshed(transfer.ledger().files_refreshed()));
                }
                if version >= DELETION_SINCE && transfer.ledger().entries_deleted() > 0 {
                    outbox.send(&Message::Deleted(transfer.ledger().entries_deleted(), None));
                }
                let not_kept = transfer.ledger().not_kept();
                if version >= MODES_SINCE && not_kept != NotKept::default() {
                    outbox.send(&Message::NotKept(not_kept));
                }
                outbox.send(&Message::Progress(totals));
                let seen = seen?;
                let over = seen.is_none();
                let (seen, detail) = seen.as_ref().map(split).unzip();
                if let Some(detail) = detail.filter(|_| version >= WORKED_SINCE) {
                    outbox.send(&Message::Draining(detail.draining));
                }
                if let Some(detail) = detail.filter(|_| version >= DETAIL_SINCE) {
                    outbox.send(&Message::StepDetail(detail));
                }
                outbox.send(&Message::Stepped(seen, transfer.bounds()));
                if over {
                    let _ = inbox.receive_within(IDLE);
                    return Ok(());
                }
            }
            Message::ShortEpochs(short) => transfer.short_epochs(short),
            Message::Yield(yields) => transfer.yields(yields),
            Message::Heard(count) => unheard.heard(count),
            Message::Stop => {
                return Err(Error::new(ErrorKind::Interrupted, "the initiator stopped the transfer"));
            }
            _ => {
                return Err(Error::protocol(
                    "the initiator of a third-party transfer only says how long epochs may be, step and stop",
                ));
            }
        }
    }
}

/// One epoch, given up if the initiator leaves or says stop meanwhile.
fn step(
    transfer: &mut Transfer,
    setpoint: tidegate_control::Concurrency,
    (inbox, unheard): (&Inbox, &Unheard),
    interrupt: &Interrupt,
) -> Result<Option<tidegate_control::Observation>> {
    let done = std::sync::atomic::AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
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
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        seen
    })
}
