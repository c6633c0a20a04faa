//! Begins a transfer: push, pull, third-party, or memory to memory. A route only says which end is
//! local and which stages exist; everything after that is the same.

use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use tidegate_control::{Bounds, PerStage};

use crate::catalogue::Catalogues;
use crate::error::{Error, ErrorKind, Result};
use crate::exchange::{Owner, Side, StreamKeeper};
use crate::fence::{Fence, Permit};
use crate::hash::Digest;
use crate::journal::{Journal, Leftovers};
use crate::ledger::Ledger;
use crate::logic::asked::Asked;
use crate::mirror::Mirror;
use crate::pipeline::data_streams::Supply;
use crate::pipeline::joint::Joint;
use crate::pipeline::receive::{Destination, Receiver};
use crate::pipeline::send::{Peer, Sender};
use crate::plan::PlanListener;
use crate::quota::{Quota, Share};
use crate::selection::{Deletion, Selection, Taking};
use crate::spec::{Memory, RunId, SinkSpec, SourceSpec, TransferId};
use crate::split::Split;
use crate::store::Source;
use crate::store::apart::{Apart, Removing};
use crate::store::backup::Backup;
use crate::store::destination_path::DestinationPath;
use crate::store::file_sink::{FileSink, aim};
use crate::store::file_source::FileSource;
use crate::store::memory::{NullSink, ZeroSource};
use crate::sys::confined::{self, Root};
use crate::sys::{host, random};
use crate::terms::Terms;
use crate::text::show;
use crate::transfer::link::{Link, check_ticket, one_time_ticket};
use crate::transfer::relayed::RelayedTransfer;
use crate::transfer::{Interrupt, LiveTransfer, Pace, Tracked};
use crate::wire::request::{Agreement, Preamble, Request, RequestKind, Run};
use crate::wire::ticket::Address;
use crate::wire::tls::Identity;
use crate::wire::way::Carriers;

/// How long a stream may deliver nothing unless told otherwise.
pub const STALL: Duration = Duration::from_secs(30);

/// Most memory that an endpoint is to spend on rules by which it only learns what may be its destination.
const MAX_RULES: usize = 1 << 20;

/// A name for a new run.
pub fn random_run() -> RunId {
    *random::bytes().first_chunk().expect("long enough")
}

/// What makes a source for each try of a copy, where that is neither a path nor an endpoint.
pub trait SourceOrigin: fmt::Debug + Send + Sync {
    /// What it names, as a transfer is called after it: the same for the same.
    fn identity(&self) -> Vec<u8>;

    /// A source of it that offers what `setup` selects.
    ///
    /// # Errors
    /// There is nothing, or `setup` asks for what it cannot do.
    fn open(&self, setup: &Setup) -> Result<Box<dyn Source>>;
}

/// Where data comes from.
#[derive(Clone, Debug)]
pub enum From {
    /// Local paths as typed.
    Local(Vec<Vec<u8>>),
    /// What another crate knows how to read.
    Origin(Arc<dyn SourceOrigin>),
    /// Paths at an endpoint.
    Endpoint(Address, Vec<Vec<u8>>),
    /// Zeros made here.
    Zero(Memory),
    /// Zeros made at an endpoint.
    EndpointZero(Address, Memory),
}

/// Where data goes to.
#[derive(Clone, Debug)]
pub enum To {
    /// A local path as typed.
    Local(Vec<u8>),
    /// An endpoint, with the path there.
    Endpoint(Address),
    /// Nowhere, here.
    Null,
}

/// Everything else that begins a transfer.
#[derive(Debug)]
pub struct Setup {
    /// What both ends agree on.
    pub terms: Terms,
    /// What of the source is offered.
    pub selection: Selection,
    /// What the destination takes of that.
    pub taking: Taking,
    /// Who hears what would be done, if that is only to be said.
    pub plan: Option<PlanListener>,
    /// What the destination removes at the end, if it is to be a mirror.
    pub deletion: Option<Deletion>,
    /// Whether files are removed at the source once they have arrived.
    pub moving: bool,
    /// What of it others do, or may take over.
    pub sharing: Sharing,
    /// How it is driven.
    pub pace: Pace,
    /// Names the run, for all its tries.
    pub run: RunId,
    /// How long a stream may deliver nothing before it is replaced.
    pub stall: Duration,
    /// Stops it.
    pub interrupt: Interrupt,
    /// Our certificate and CA, if the site has its own PKI.
    pub pki: Option<Arc<Identity>>,
    /// What was verified here before.
    pub catalogues: Catalogues,
    /// What it may use here, and what the peer may make us remember.
    pub share: Share,
    /// Who brings connections to endpoints that are not simply dialled.
    pub carriers: Carriers,
}

/// What movers of one run share.
#[derive(Clone, Debug, Default)]
pub struct Sharing {
    /// The lease under which it is made, if others may take it over.
    pub fence: Option<Fence>,
    /// Files that other transfers of the same run move, too, if it is made under a lease.
    pub split: Option<Split>,
}

impl Setup {
    /// What a transfer is called: under each lease otherwise, so that no two write one unfinished file.
    fn id_of(&self, id: TransferId) -> TransferId {
        self.sharing
            .fence
            .as_ref()
            .map_or(id, |fence| transfer_id(&[b"lease", &id, &fence.lease().to_le_bytes()]))
    }

    /// What every request of it says.
    fn preamble(&self) -> Result<Preamble> {
        self.selection.check_size()?;
        self.deletion.as_ref().map_or(Ok(()), Deletion::check_size)?;
        let preamble = Preamble {
            run: Some(Run::new(self.run, self.stall)),
            terms: self.terms.clone(),
            taking: self.taking,
            deletion: self.deletion.clone(),
            moving: self.moving,
            ..Preamble::default()
        };
        preamble.check().map(|()| preamble)
    }

    /// The rules by which sources leave files out, so that what they leave out may be the destination. Whoever does not learn
    /// them refuses that.
    fn told_rules(&self) -> Selection {
        let rules = Selection { rules: self.selection.rules.clone(), ..Selection::default() };
        match self.selection.can_be_checked() && rules.memory() <= MAX_RULES {
            true => rules,
            false => Selection::default(),
        }
    }

    fn removing(&self) -> Removing {
        Removing { at_destination: self.deletion.is_some(), at_source: self.moving }
    }

    /// What keeps what is removed or replaced here, if that was asked for.
    fn backup(&self, local: &LocalDestination, single: bool, apart: &Apart) -> Result<Option<Backup>> {
        let Some(typed) = self.deletion.as_ref().and_then(|deletion| deletion.backup.as_deref()) else {
            return Ok(None);
        };
        // The user named it and is trusted.
        let root = Root::open(b"/").map_err(|error| Error::io("open", b"/", error))?;
        let (path, _) = aim(&local.root, &local.path, single)?;
        let deletion = self.deletion.as_ref();
        Backup::open(&root, typed, &local.root, &path, apart, &local.absolute, deletion).map(Some)
    }

    /// A session with the endpoint at `address`.
    fn link(&self, address: &Address) -> Result<Link> {
        check_ticket(address, self.pki.as_ref())?;
        let way = self.carriers.way(address)?;
        Ok(Link::open_at(address, &way, self.pki.as_ref(), &Quota::unlimited())?)
    }
}

/// A transfer that has begun: `LiveTransfer` if one end is here, one that is relayed if both are elsewhere.
pub type Transfer = Box<dyn Tracked>;

/// Begins to move `from` there `to` here or elsewhere.
pub fn begin(from: &From, to: &To, setup: &Setup) -> Result<Transfer> {
    let nonsense = |why: &str| Err(Error::new(ErrorKind::Usage, why));
    if let Some(split) = &setup.sharing.split {
        split.check()?;
        if setup.sharing.fence.is_none() || setup.moving {
            return nonsense("a file is split under a lease, and not where it is moved away");
        }
    }
    if matches!((from, to), (From::Local(_) | From::Zero(_), _) | (_, To::Local(_) | To::Null)) {
        setup.terms.congestion.asked.check_here()?;
    }
    match (from, to) {
        (From::Local(paths), To::Endpoint(address)) => {
            let source = FileSource::local(paths, setup.terms.links)?
                .selecting(setup.selection.clone())?
                .mirrored(setup.deletion.is_some())?
                .moved(setup.moving)?;
            push_files(Box::new(source), &local_identity(paths)?, address, setup)
        }
        (From::Origin(origin), To::Endpoint(address)) => {
            push_files(origin.open(setup)?, &origin.identity(), address, setup)
        }
        (From::Zero(memory), To::Endpoint(address)) => {
            let id = *random::bytes().first_chunk().expect("long enough");
            let kind = RequestKind::Receive { id, sink: SinkSpec::Null };
            push(Box::new(ZeroSource(*memory)), address, setup.link(address)?, kind, setup)
        }
        (From::Endpoint(address, paths), To::Local(path)) => {
            let source = SourceSpec::Files(paths.clone());
            let single = paths.len() == 1 && !paths[0].ends_with(b"/");
            pull(address, source, Some((path, single)), setup)
        }
        (From::EndpointZero(address, memory), To::Null) => {
            pull(address, SourceSpec::Zero(*memory), None, setup)
        }
        (From::Endpoint(source, paths), To::Endpoint(destination)) => {
            third_party(source, SourceSpec::Files(paths.clone()), destination, setup)
        }
        (From::EndpointZero(source, memory), To::Endpoint(destination)) => {
            third_party(source, SourceSpec::Zero(*memory), destination, setup)
        }
        (From::Local(_) | From::Origin(_), To::Local(_)) => {
            nonsense("both sides are local: one needs an endpoint")
        }
        (_, To::Null) | (From::Zero(_) | From::EndpointZero(..), To::Local(_)) => {
            nonsense("memory is measured against an endpoint, and not into files")
        }
    }
}

/// Sends the files of `source`, which `identity` names, to the endpoint at `address`.
fn push_files(
    source: Box<dyn Source>,
    identity: &[u8],
    address: &Address,
    setup: &Setup,
) -> Result<Transfer> {
    let id = setup.id_of(transfer_id(&[b"push", identity, &address.identity(), &address.path]));
    let sink = SinkSpec::Files { path: address.path.clone(), single: source.is_single_file() };
    push(source, address, setup.link(address)?, RequestKind::Receive { id, sink }, setup)
}

/// Sends `source` to the endpoint at `address` over a session with it; used by initiators and by endpoints told to.
pub(crate) fn push(
    source: Box<dyn Source>,
    address: &Address,
    link: Link,
    kind: RequestKind,
    setup: &Setup,
) -> Result<Transfer> {
    let has_write_stage = !matches!(kind, RequestKind::Receive { sink: SinkSpec::Null, .. });
    let (sources, most_readers) = (source.sources(), source.most_readers());
    sources.check_size()?;
    let preamble = Preamble {
        selection: setup.told_rules(),
        fenced: setup.sharing.fence.is_some(),
        split: setup.sharing.split.clone(),
        sources,
        contents_mode: source.contents_mode(),
        ..setup.preamble()?
    };
    link.ask(&Request { kind, preamble })?;
    let (supply, accepted) = streams_to(address, &link, setup);
    let ledger = Arc::new(Ledger::of_plan(setup.plan.clone()));
    // It offers while the endpoint makes up its mind.
    let (sender, mut owner) = Sender::start(
        source,
        setup.terms.clone(),
        link.outbox.clone(),
        supply,
        Arc::clone(&ledger),
        &setup.share,
        Peer { patience: Some(setup.stall), asked: false },
    );
    let agreed = link.accepted_meanwhile(&mut || owner.turn().map(drop))?;
    setup.terms.congestion.hear(agreed.congestion_refused.as_ref());
    accepted(agreed.token);
    sender.accepted();
    let Link { outbox, inbox, .. } = link;
    let mut bounds = bounds(setup.terms.max_workers, sender.has_read_stage(), has_write_stage);
    if let Some(most) = most_readers.filter(|_| !bounds.read.is_fixed()) {
        bounds.read = Bounds::new(1, most.clamp(1, setup.terms.max_workers));
    }
    let side = (Side::Send(sender), Owner::Send(owner));
    let address = address.clone();
    let in_words = move |error| destination_as_typed(error, &address);
    let transfer = LiveTransfer::start(side, outbox, inbox, ledger, bounds, setup, in_words)?;
    Ok(Box::new(transfer))
}

/// An error of the endpoint at `address` that calls the destination as the endpoint does.
fn destination_as_typed(error: Error, address: &Address) -> Error {
    let path = if address.path.is_empty() { b"." } else { &address.path[..] };
    let there = format!("the destination {} ", show(path));
    match error
        .message
        .strip_prefix(&there)
        .map(|rest| format!("the destination {} {rest}", address.public()))
    {
        Some(message) => error.in_words(message),
        None => error,
    }
}

/// Streams to the endpoint at `address`, and what is told the token they show once it has accepted.
fn streams_to(address: &Address, link: &Link, setup: &Setup) -> (Supply, Box<dyn FnOnce(Digest)>) {
    match setup.carriers.neighbour(address).cloned() {
        Some(neighbour) => {
            let joint = Joint::default();
            let found = joint.clone();
            let accepted =
                move |token| neighbour.taker(&token).into_iter().for_each(|taker| found.found(taker));
            (Supply::Join(joint), Box::new(accepted))
        }
        None => {
            let dialer = link.dialer(address, &setup.terms);
            let dials = dialer.clone();
            (Supply::Dial(dialer), Box::new(move |token| dials.accepted(token)))
        }
    }
}

fn pull(address: &Address, source: SourceSpec, to: Option<(&[u8], bool)>, setup: &Setup) -> Result<Transfer> {
    let has_read_stage = matches!(source, SourceSpec::Files(_));
    let link = setup.link(address)?;
    let single = to.is_some_and(|(_, single)| single);
    let spec = source.clone();
    let preamble =
        Preamble { selection: setup.selection.clone(), taking: Taking::default(), ..setup.preamble()? };
    link.ask(&Request { kind: RequestKind::Send { source }, preamble })?;
    let dialer = link.dialer(address, &setup.terms);
    let Agreement { token, single: is_single, sources, contents_mode, congestion_refused, .. } =
        link.accepted()?;
    setup.terms.congestion.hear(congestion_refused.as_ref());
    dialer.accepted(token);
    let Link { outbox, inbox, .. } = link;
    // The endpoint says whether the one path it was asked for is a file.
    let single = single && is_single;
    let (asked, destination) = match to {
        None => {
            let sink = Arc::new(NullSink);
            (Asked::OneFile, Destination::nowhere(sink))
        }
        Some((path, _)) => {
            let local = LocalDestination::resolve(path, single)?;
            let SourceSpec::Files(paths) = &spec else { return Err(Error::protocol("memory has no files")) };
            let names = paths.join(&b'\0');
            let id = transfer_id(&[b"pull", &address.identity(), &names, &local.absolute]);
            let id = setup.id_of(id);
            let apart = Apart::from(sources, setup.removing());
            let apart = apart.offering(&setup.selection, setup.terms.links);
            let backup = setup.backup(&local, single, &apart)?;
            let kept = (setup.terms.purpose, apart);
            let to = (&local.root, &local.path[..]);
            let sink = FileSink::for_contents(contents_mode, to, single, &id, kept)?
                .found_by(LocalDestination::found_again(path, single));
            let journal = sink.work().map(|work| Journal::open(work, &setup.share.metadata)).transpose();
            let journal = journal.map_err(|error| sink.unusable(error))?;
            let leftovers = sink.left().and_then(|left| Leftovers::read(left, &setup.share.metadata).ok());
            let catalogue = setup.catalogues.for_purpose(setup.terms.purpose, &local.absolute);
            let asked = Asked::of(paths, local.takes_name);
            let (taking, selection) = (setup.taking, Some(setup.selection.clone()));
            let mirror = Mirror::of(&sink, setup.deletion.as_ref(), &setup.share.metadata, backup)?;
            let sink = Arc::new(sink);
            (
                asked,
                Destination {
                    sink,
                    journal,
                    leftovers,
                    catalogue,
                    asks_hashes: true,
                    taking,
                    selection,
                    moving: setup.moving,
                    mirror,
                    permit: setup.sharing.fence.clone().map(Permit::of),
                    split: setup.sharing.split.clone(),
                },
            )
        }
    };
    let (ledger, terms) = (Arc::new(Ledger::of_plan(setup.plan.clone())), setup.terms.clone());
    let (receiver, owner) =
        Receiver::start(asked, destination, terms, outbox.clone(), Arc::clone(&ledger), setup.share.clone());
    let has_read_stage = has_read_stage && !setup.terms.streams_read();
    let bounds = bounds(setup.terms.max_workers, has_read_stage, receiver.has_write_stage());
    let keeper = StreamKeeper::start(&receiver, dialer, setup.terms.max_workers)?;
    let side = (Side::Receive(receiver, Some(keeper)), Owner::Receive(owner));
    let transfer = LiveTransfer::start(side, outbox, inbox, ledger, bounds, setup, |error| error)?;
    Ok(Box::new(transfer))
}

fn third_party(from: &Address, source: SourceSpec, to: &Address, setup: &Setup) -> Result<Transfer> {
    if setup.sharing.fence.is_some() {
        let why = "under a lease one side is the mover's own: it asks before files get their names";
        return Err(Error::new(ErrorKind::Usage, why));
    }
    let issued = setup.link(to)?;
    let ticket = Request {
        kind: RequestKind::OneTimeTicket { path: to.path.clone() },
        preamble: Preamble { deletion: setup.deletion.clone(), ..Preamble::default() },
    };
    let ticket = one_time_ticket(&issued, &ticket)?;
    let destination = Address { ticket: Some(ticket), ..to.clone() }.to_bytes();
    let link = setup.link(from)?;
    let pace_ms = (setup.pace.epoch.as_millis() as u32, setup.pace.settle.as_millis() as u32);
    let kind = RequestKind::SendTo { source, destination, pace_ms };
    let preamble = Preamble { selection: setup.selection.clone(), ..setup.preamble()? };
    link.ask(&Request { kind, preamble })?;
    let agreed = link.accepted()?;
    setup.terms.congestion.hear(agreed.congestion_refused.as_ref());
    let round_trip = agreed.round_trip_us.map(Duration::from_micros);
    let bounds = bounds(setup.terms.max_workers, !setup.terms.streams_read(), true);
    let ledger = Arc::new(Ledger::of_plan(setup.plan.clone()));
    let driven = (setup.pace, setup.interrupt.clone());
    let transfer = RelayedTransfer::start(link, (bounds, round_trip), driven, ledger, setup.terms.purpose)?;
    Ok(Box::new(transfer))
}

fn bounds(most: u16, has_read_stage: bool, has_write_stage: bool) -> PerStage<Bounds> {
    let of = |exists| if exists { Bounds::new(1, most) } else { Bounds::fixed(1) };
    PerStage { read: of(has_read_stage), network: of(true), write: of(has_write_stage) }
}

/// A local destination: a directory that exists, and the path to make beneath it.
struct LocalDestination {
    root: Root,
    path: Vec<u8>,
    absolute: Vec<u8>,
    /// Whether the path's last name is that of the one file.
    takes_name: bool,
}

impl LocalDestination {
    /// Where `path` leads once a copy is under way.
    fn found_again(path: &[u8], single: bool) -> DestinationPath {
        let typed = path.to_vec();
        DestinationPath::new(path.to_vec(), move || {
            let Self { root, path, .. } = Self::resolve(&typed, single)?;
            let (directory, _) = aim(&root, &path, single)?;
            root.dir(&directory).map_err(|error| Error::io("open", &typed, error))
        })
    }

    /// The user named `path` and is trusted: symlinks in its existing part are followed.
    fn resolve(path: &[u8], single: bool) -> Result<Self> {
        let failed = |error| Error::io("use the destination", path, error);
        let trimmed = path.strip_suffix(b"/").unwrap_or(path);
        let trimmed = if trimmed.is_empty() { b"/" } else { trimmed };
        let real = match confined::is_link(trimmed) {
            true => confined::canonical(trimmed).map_err(|error| match error {
                Errno::NOENT => leads_nowhere(path),
                error => failed(error),
            })?,
            false => trimmed.to_vec(),
        };
        let typed = Path::new(std::ffi::OsStr::from_bytes(&real));
        let is_directory = typed.is_dir();
        let takes_name = single && !path.ends_with(b"/") && !is_directory;
        let directory =
            if takes_name { typed.parent().filter(|p| !p.as_os_str().is_empty()) } else { Some(typed) };
        let directory = directory.unwrap_or(Path::new("."));
        // The deepest part that exists is resolved now; the rest is made beneath it.
        let mut existing = directory;
        let mut rest = Vec::new();
        while !existing.is_dir() {
            let Some(name) = existing.file_name() else { break };
            rest.push(name.as_bytes().to_vec());
            existing = existing.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        }
        let base = confined::canonical(existing.as_os_str().as_bytes()).map_err(failed)?;
        rest.reverse();
        let mut absolute = base.clone();
        for name in &rest {
            absolute.push(b'/');
            absolute.extend_from_slice(name);
        }
        let mut path = rest.join(&b'/');
        if takes_name {
            let name = typed.file_name().map(|name| name.as_bytes().to_vec()).unwrap_or_default();
            path = if path.is_empty() { name } else { [path, name].join(&b'/') };
        } else if !path.is_empty() {
            path.push(b'/');
        }
        Ok(Self { root: Root::open(&base).map_err(failed)?, path, absolute, takes_name })
    }
}

/// A destination cannot be made through a link.
pub fn leads_nowhere(path: &[u8]) -> Error {
    let why = format!("cannot use the destination {}: it is a link that leads nowhere", show(path));
    Error::new(ErrorKind::UnsafeName, why)
}

/// What names the local source, so that a second run finds the first one's journal.
fn local_identity(paths: &[Vec<u8>]) -> Result<Vec<u8>> {
    let mut identity = host::name();
    for path in paths {
        identity.push(0);
        identity.extend(confined::canonical(path).map_err(|error| Error::io("read", path, error))?);
        identity.push(u8::from(path.ends_with(b"/")));
    }
    Ok(identity)
}

/// A name for the transfer with these particulars.
pub fn transfer_id(parts: &[&[u8]]) -> TransferId {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
    }
    *hasher.finalize().as_bytes().first_chunk().expect("long enough")
}
