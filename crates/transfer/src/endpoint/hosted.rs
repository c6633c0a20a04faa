//! One session at an endpoint: checks what is asked against the ticket, then runs this end of it.

use std::collections::HashSet;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use tidegate_control::ByteCount;

use crate::endpoint::relaying::{IDLE, Relayed, relay, stall_of};
use crate::endpoint::report::Report;
use crate::endpoint::rights::{may_delete, may_move, may_read, may_use, may_write};
use crate::endpoint::served::scope;
use crate::endpoint::turns::Candidate;
use crate::endpoint::{Endpoint, Seen, SessionContext, accounts, files, measuring};
use crate::error::{Error, ErrorKind, Result};
use crate::exchange::{Owner, PeerLine, Reports, Side, converse};
use crate::fence::Permit;
use crate::hash::Digest;
use crate::journal::{Journal, Leftovers};
use crate::ledger::Ledger;
use crate::logic::asked::Asked;
use crate::mirror::Mirror;
use crate::pipeline::data_streams::{Arrivals, Supply};
use crate::pipeline::receive::{Destination, Receiver};
use crate::pipeline::send::{Peer, Sender};
use crate::quota::remember;
use crate::spec::{SinkSpec, SourceSpec, TransferId};
use crate::split::Split;
use crate::store::Source;
use crate::store::apart::{Apart, Removing};
use crate::store::backup::Backup;
use crate::store::destination_path::DestinationPath;
use crate::store::file_sink::{FileSink, aim};
use crate::store::file_source::FileSource;
use crate::store::memory::{NullSink, ZeroSource};
use crate::store::named::{Reached, Scope};
use crate::sys::confined::{Root, path_of};
use crate::sys::random;
use crate::sys::sync::Mutex;
use crate::terms::{Compare, DataPlane, Purpose};
use crate::transfer::Pace;
use crate::wire::channel::Channel;
use crate::wire::joined::BlockTaker;
use crate::wire::message::Message;
use crate::wire::order::Part;
use crate::wire::request::{Agreement, Preamble, Request, RequestKind};
use crate::wire::session::{self, Inbox, Outbox};
use crate::wire::ticket::Address;

/// Most an initiator may ask of this host.
const MAX_STAGING: ByteCount = ByteCount::mib(128);
const MAX_WORKERS: u16 = 512;

/// Epochs that an initiator may ask for.
const EPOCHS: RangeInclusive<Duration> = Duration::from_millis(50)..=Duration::from_secs(120);

/// What a peer is told whose ticket expires.
const EXPIRED: &str =
    "the ticket has expired: ask for a new one and run the same command with it, which continues";

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

/// Hears what the peer asks for.
fn hear(inbox: &Inbox) -> Result<Request> {
    match inbox.receive_within(IDLE)? {
        Some(Message::Request(kind, preamble)) => Request::read(kind, &preamble),
        Some(_) => Err(Error::protocol("a session begins with a request")),
        None => Err(Error::new(ErrorKind::Connection, "nothing was asked for a minute")),
    }
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
    let SessionContext { claims, account, .. } = caller.session;
    let request = hear(inbox)?;
    *report = Report::of(&request, caller.name(endpoint));
    report.iter().for_each(|report| report.count(&endpoint.counted));
    let ledger = report.as_ref().map(|report| Arc::clone(&report.ledger)).unwrap_or_default();
    // What it named is there as long as its session.
    let _named = remember(&account.share.metadata, request.memory())?;
    let line = PeerLine { outbox, inbox, part: Part::Initiator };
    let Request { kind, preamble } = request;
    match kind {
        RequestKind::OneTimeTicket { path } => {
            let delete = preamble.deletion.is_some();
            may_write(endpoint, claims)?;
            may_use(claims, &path)?;
            if delete {
                may_delete(endpoint, claims)?;
            }
            let ticket = endpoint.issue_one_time(&path, delete, caller.session)?;
            outbox.send(&Message::Ticket(ticket));
            // Stay until the peer has read it.
            let _ = inbox.receive_within(IDLE);
            Ok(())
        }
        RequestKind::Share { path, expires } => {
            outbox.send(&Message::Shared(endpoint.share(&path, expires, claims)?));
            // Stay until the peer has read it.
            let _ = inbox.receive_within(IDLE);
            Ok(())
        }
        RequestKind::Receive { id, sink } => {
            receive(endpoint, caller.session, line, ledger, Receiving { id, sink, preamble })
        }
        RequestKind::Send { source } => send(endpoint, caller.session, line, ledger, &source, preamble),
        RequestKind::SendTo { source, destination, pace_ms } => {
            may_read(claims)?;
            let preamble = agree(endpoint, preamble)?;
            may_move(endpoint, claims, &preamble.terms, preamble.moving)?;
            let (store, single) = open_source(endpoint, caller.session, &source, &preamble)?;
            let address = Address::parse(&destination)?;
            let pace = pace_of(pace_ms);
            let from = Relayed { store, spec: &source, single, pace };
            relay(endpoint, line, &ledger, from, &address, preamble, &account.share)
        }
        RequestKind::Iperf3 { limit_s } => {
            let limit = Duration::from_secs(u64::from(limit_s)).min(IPERF3);
            let result = measuring::serve(endpoint, caller.session, caller.reached, (outbox, inbox), limit);
            endpoint.has_ended();
            result
        }
        RequestKind::OneTimeIperf3 { reverse } => {
            measuring::ticket(endpoint, caller.session, reverse, (outbox, inbox))
        }
        RequestKind::Iperf3To { destination, test, limit_s } => {
            let limit = Duration::from_secs(u64::from(limit_s)).min(IPERF3);
            let address = Address::parse(&destination)?;
            let result =
                measuring::between(endpoint, caller.session, &address, &test, (outbox, inbox), limit);
            endpoint.has_ended();
            result
        }
        RequestKind::Files => files::serve(endpoint, caller.session, &caller.name(endpoint), (outbox, inbox)),
    }
}

/// The epochs that an initiator asks for, and the part of each that is not measured, both in ms.
fn pace_of((epoch_ms, settle_ms): (u32, u32)) -> Pace {
    let epoch = Duration::from_millis(epoch_ms.into()).clamp(*EPOCHS.start(), *EPOCHS.end());
    Pace { epoch, settle: Duration::from_millis(settle_ms.into()).min(epoch), stop_after: None }
}

/// What an endpoint is to receive.
struct Receiving {
    id: TransferId,
    sink: SinkSpec,
    preamble: Preamble,
}

fn receive(
    endpoint: &Arc<Endpoint>,
    session: &SessionContext,
    line: PeerLine<'_>,
    ledger: Arc<Ledger>,
    Receiving { id, sink, preamble }: Receiving,
) -> Result<()> {
    let SessionContext { claims, account, .. } = session;
    let outbox = line.outbox;
    may_write(endpoint, claims)?;
    if preamble.deletion.is_some() {
        may_delete(endpoint, claims)?;
    }
    let mut preamble = agree(endpoint, preamble)?;
    if preamble.terms.compare == Compare::Checksum && !session.learns_hashes {
        let why = "the ticket allows writing alone, and comparing by checksum would tell what is here: leave --checksum out, or ask for a ticket that allows reading too";
        return Err(Error::new(ErrorKind::Denied, why));
    }
    if preamble.terms.purpose == Purpose::Plan && !session.learns_hashes {
        let why = "the ticket allows writing alone, and a dry run would tell what is here: ask for a ticket that allows reading too";
        return Err(Error::new(ErrorKind::Denied, why));
    }
    if let SinkSpec::Files { path, .. } = &sink {
        may_use(claims, path)?;
    }
    // A peer that left while its request waited has nothing to begin, and would leave an empty journal.
    here(outbox)?;
    let candidate = Candidate { run: preamble.run.map(|run| run.id), session: outbox.clone() };
    let _turn = endpoint.activity.turns.take((account.id, id), &candidate)?;
    here(outbox)?;
    let removing = Removing { at_destination: preamble.deletion.is_some(), at_source: preamble.moving };
    let sources = std::mem::take(&mut preamble.sources);
    let apart = Apart::from(sources, removing).offering(&preamble.selection, preamble.terms.links);
    let mut destination = open_sink(endpoint, session, (&sink, &id), &preamble, apart)?;
    destination.permit = preamble.fenced.then(|| Permit::of_peer(outbox.clone()));
    preamble.split.as_ref().map_or(Ok(()), |split| may_split(split, &preamble))?;
    destination.split = preamble.split;
    let (mut terms, share) = (preamble.terms, account.share.clone());
    let congestion_refused = terms.congestion.agree();
    serve(endpoint, line, Agreement { congestion_refused, ..Agreement::default() }, || {
        let asked = Asked::Anything;
        let (receiver, owner) = Receiver::start(asked, destination, terms, outbox.clone(), ledger, share);
        (Side::Receive(receiver, None), Owner::Receive(owner))
    })
}

fn send(
    endpoint: &Arc<Endpoint>,
    session: &SessionContext,
    line: PeerLine<'_>,
    ledger: Arc<Ledger>,
    source: &SourceSpec,
    preamble: Preamble,
) -> Result<()> {
    let SessionContext { claims, account, .. } = session;
    may_read(claims)?;
    let mut preamble = agree(endpoint, preamble)?;
    may_move(endpoint, claims, &preamble.terms, preamble.moving)?;
    let (source, single) = open_source(endpoint, session, source, &preamble)?;
    let congestion_refused = preamble.terms.congestion.agree();
    let mut agreement = Agreement { single, congestion_refused, ..Agreement::default() };
    if source.has_read_stage() {
        agreement.sources = source.sources();
        agreement.contents_mode = source.contents_mode();
    }
    let peer = Peer { patience: preamble.run.map(|run| stall_of(&run)), asked: true };
    serve(endpoint, line, agreement, || {
        let supply = Supply::Await(Arrivals::default());
        let outbox = line.outbox.clone();
        let (sender, owner) =
            Sender::start(source, preamble.terms, outbox, supply, ledger, &account.share, peer);
        (Side::Send(sender), Owner::Send(owner))
    })
}

/// Refuses what cannot be split: a file that is removed at its source once a range of it has arrived.
fn may_split(split: &Split, preamble: &Preamble) -> Result<()> {
    if !preamble.fenced {
        return Err(Error::protocol("files are split under a lease alone"));
    }
    match preamble.moving {
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

/// What is asked for within what this host gives.
fn agree(endpoint: &Endpoint, mut preamble: Preamble) -> Result<Preamble> {
    preamble.check()?;
    let terms = &mut preamble.terms;
    if terms.data_plane == DataPlane::Clear && !endpoint.config.clear {
        let why = "clear data streams are not allowed here: start the endpoint with --data-plane clear, or leave the option out";
        return Err(Error::new(ErrorKind::Denied, why));
    }
    terms.staging = terms.staging.min(MAX_STAGING);
    terms.max_workers = terms.max_workers.clamp(1, MAX_WORKERS);
    Ok(preamble)
}

/// The destination `path` of a session, which led to what lies in `base`.
fn destination_path(
    endpoint: &Arc<Endpoint>,
    session: &SessionContext,
    (path, single): (&[u8], bool),
    base: &Root,
) -> DestinationPath {
    let (endpoint, claim, named) = (Arc::clone(endpoint), session.within.clone(), path.to_vec());
    let shown = match path {
        // So it was typed.
        path if path_of(base).is_ok_and(|base| base == b"/") => [b"/", path].concat(),
        b"" => b".".to_vec(),
        path => path.to_vec(),
    };
    DestinationPath::new(shown, move || {
        let scope = Scope { root: endpoint.root()?, claim: &claim, followed: &endpoint.followed };
        let Reached { base, rest, .. } = scope.reach(&named)?;
        let (directory, _) = aim(&base, &rest, single)?;
        base.dir(&directory).map_err(|error| Error::io("open", &named, error))
    })
}

fn open_sink(
    endpoint: &Arc<Endpoint>,
    session: &SessionContext,
    (spec, id): (&SinkSpec, &TransferId),
    preamble: &Preamble,
    apart: Apart,
) -> Result<Destination> {
    let deletion = preamble.deletion.as_ref();
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
    let kept = (preamble.terms.purpose, apart);
    let sink = FileSink::for_contents(preamble.contents_mode, (&base, &rest), *single, id, kept)?
        .found_by(destination_path(endpoint, session, (path, *single), &base));
    let journal = sink.work().map(|work| Journal::open(work, &session.account.share.metadata)).transpose();
    let journal = journal.map_err(|error| sink.unusable(error))?;
    let failed = |error| Error::io("tell where the link leads:", path, error);
    let absolute = match by_link {
        false => [endpoint.served.absolute(), b"/", sink.base_path()].concat(),
        true if sink.base_path().is_empty() => path_of(&base).map_err(failed)?,
        true => [&path_of(&base).map_err(failed)?[..], b"/", sink.base_path()].concat(),
    };
    let leftovers = sink.left().and_then(|left| Leftovers::read(left, &session.account.share.metadata).ok());
    let catalogue = endpoint.catalogues.for_purpose(preamble.terms.purpose, &absolute);
    let asks_hashes = session.learns_hashes;
    let mirror = Mirror::of(&sink, deletion, &session.account.share.metadata, backup)?;
    let sink = Arc::new(sink);
    Ok(Destination {
        sink,
        journal,
        leftovers,
        catalogue,
        asks_hashes,
        taking: preamble.taking,
        selection: None,
        moving: preamble.moving,
        mirror,
        permit: None,
        split: None,
    })
}

fn open_source(
    endpoint: &Endpoint,
    session: &SessionContext,
    spec: &SourceSpec,
    preamble: &Preamble,
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
                preamble.terms.links,
                &session.account.share.descriptors,
            )?
            .selecting(preamble.selection.clone())?
            .mirrored(preamble.deletion.is_some())?
            .moved(preamble.moving)?;
            let single = source.is_single_file();
            Ok((Box::new(source), single))
        }
    }
}

/// Runs this end until the initiator or the work is done.
fn serve(
    endpoint: &Arc<Endpoint>,
    line: PeerLine<'_>,
    agreement: Agreement,
    make: impl FnOnce() -> (Side, Owner),
) -> Result<()> {
    let hosted =
        Arc::new(Hosted { token: random::bytes(), side: Mutex::default(), seen: Mutex::new(HashSet::new()) });
    endpoint.register(&hosted);
    let (side, mut owner) = {
        // Streams that arrive at once wait here until there is an end to give them to.
        let mut slot = hosted.side.lock();
        line.outbox.send(&Message::accepted(&Agreement { token: hosted.token, ..agreement }));
        let (side, owner) = make();
        let side = Arc::new(side);
        *slot = Some(Arc::clone(&side));
        (side, owner)
    };
    let result = converse((&side, &mut owner), line, &Reports::default(), None);
    // Let go of the journal before anybody may take over.
    side.stop();
    owner.end();
    hosted.side.lock().take();
    drop(side);
    endpoint.unregister(&hosted);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_for_a_copy_between_others_sets_no_time_without_bound() {
        let of = |epoch_ms, settle_ms| {
            let Pace { epoch, settle, .. } = pace_of((epoch_ms, settle_ms));
            (epoch, settle)
        };
        assert_eq!(of(1000, 200), (Duration::from_secs(1), Duration::from_millis(200)));
        assert_eq!(of(1000, u32::MAX), (Duration::from_secs(1), Duration::from_secs(1)));
        assert_eq!(of(u32::MAX, u32::MAX), (*EPOCHS.end(), *EPOCHS.end()));
        assert_eq!(of(0, u32::MAX), (*EPOCHS.start(), *EPOCHS.start()));
    }
}
