//! A session with an endpoint, as whoever asks for something has it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use rustls::ClientConfig;

use crate::error::{Error, ErrorKind, Result};
use crate::hash::Digest;
use crate::pipeline::dialer::Dialer;
use crate::quota::Quota;
use crate::selection::{Deletion, Selection, Taking};
use crate::spec::{Iperf3Amount, Iperf3Test, RunId, SourcePlaces, Sources, TOLD_PLACES};
use crate::split::Split;
use crate::terms::{Purpose, Terms};
use crate::text::foreign;
use crate::wire::handshake::{self, Opened, Unopened};
use crate::wire::message::{
    DELETION_SINCE, FENCE_SINCE, FILES_SINCE, IPERF3_BETWEEN_SINCE, IPERF3_SINCE, MODES_SINCE, Message,
    OMITTED_SINCE, PLACES_SINCE, PLAN_SINCE, RUN_SINCE, Request, SELECTION_SINCE, SHARE_SINCE, VERSIONS,
};
use crate::wire::session::{self, Inbox, Outbox};
use crate::wire::ticket::{Address, Ticket};
use crate::wire::tls::{Identity, Trust};
use crate::wire::way::Way;

/// How long an endpoint may take to answer a request.
const ANSWER: Duration = Duration::from_secs(60);

/// Most memory that an endpoint is to spend on rules by which it only learns what may be its destination.
const MAX_RULES: usize = 1 << 20;

/// A session with an endpoint.
#[derive(Debug)]
pub struct Link {
    /// What is said.
    pub outbox: Outbox,
    /// What is heard.
    pub inbox: Inbox,
    /// How its data streams connect.
    pub config: Arc<ClientConfig>,
    /// The protocol version agreed on.
    pub version: u16,
    /// Where it was found.
    pub peer: SocketAddr,
    /// How its data streams get there.
    pub way: Way,
    place: String,
    /// Whether its welcome is still to come, before its first answer.
    unwelcomed: AtomicBool,
}

impl Link {
    /// Connects, proves who we are and starts the session.
    pub fn open(address: &Address, pki: Option<&Arc<Identity>>) -> Result<Self> {
        Self::open_within(address, pki, VERSIONS)
    }

    /// The same by `way`; tells failures apart.
    /// What large messages take in memory counts in `metadata`.
    pub fn open_at(
        address: &Address,
        way: &Way,
        pki: Option<&Arc<Identity>>,
        metadata: &Arc<Quota>,
    ) -> Result<Self, Unopened> {
        Self::open_with(address, way, pki, VERSIONS, metadata)
    }

    fn open_within(address: &Address, pki: Option<&Arc<Identity>>, versions: (u16, u16)) -> Result<Self> {
        // First: what looks like a host may be a ticket that was torn, and is not to be asked for or shown.
        check_ticket(address, pki)?;
        Ok(Self::open_with(address, &Way::to(address)?, pki, versions, &Quota::unlimited())?)
    }

    fn open_with(
        address: &Address,
        way: &Way,
        pki: Option<&Arc<Identity>>,
        versions: (u16, u16),
        metadata: &Arc<Quota>,
    ) -> Result<Self, Unopened> {
        let config = check_ticket(address, pki)?.client()?;
        let Opened { channel, version, welcomed } =
            handshake::open_session_at(address, way, &config, versions).map_err(passing)?;
        let lost = |error| Error::connection("lost the connection to", address.place(), error);
        let peer = channel.socket().peer_addr().map_err(lost)?;
        let place = address.place();
        let (outbox, inbox) = session::start_within(channel, &place, metadata)?;
        let unwelcomed = AtomicBool::new(!welcomed);
        Ok(Self { outbox, inbox, config, place, version, peer, way: way.settled(peer), unwelcomed })
    }

    /// Refuses an endpoint that speaks no version of `since`, in which `what` is understood; `instead` says what else helps.
    fn needs(&self, since: u16, what: &str, instead: &str) -> Result<()> {
        if self.version >= since {
            return Ok(());
        }
        let why = format!(
            "the endpoint at {} speaks protocol version {}, and {what} in version {since}: update it{instead}",
            self.place, self.version
        );
        Err(Error::new(ErrorKind::Protocol, why))
    }

    /// Says what of its source the endpoint is to offer.
    ///
    /// # Errors
    /// It is too old to understand that, or that is more than it is told at once.
    pub(crate) fn name_selection(&self, selection: &Selection) -> Result<()> {
        if selection.is_all() {
            return Ok(());
        }
        self.needs(SELECTION_SINCE, "filters are understood", " or leave the filters out")?;
        selection.check_size()?;
        self.outbox.send(&Message::Selection(selection.clone()));
        Ok(())
    }

    /// Says by which rules of `selection` sources leave files out, so that what they leave out may be the destination.
    /// Whoever does not learn them refuses that.
    pub(crate) fn name_rules(&self, selection: &Selection) {
        let rules = Selection { rules: selection.rules.clone(), ..Selection::default() };
        let is_told = self.version >= SELECTION_SINCE && selection.can_be_checked();
        if is_told && !rules.is_all() && rules.memory() <= MAX_RULES {
            self.outbox.send(&Message::Selection(rules));
        }
    }

    /// Says what the destination is to take of what is offered.
    ///
    /// # Errors
    /// It is too old to understand that.
    pub(crate) fn name_taking(&self, taking: Taking) -> Result<()> {
        if taking == Taking::default() {
            return Ok(());
        }
        let what = "--existing, --ignore-existing and --update are understood";
        self.needs(SELECTION_SINCE, what, " or leave them out")?;
        self.outbox.send(&Message::Taking(taking));
        Ok(())
    }

    /// Says what the destination is to remove at the end.
    ///
    /// # Errors
    /// It is too old to understand that, or that is more than it is told at once.
    pub(crate) fn name_deletion(&self, deletion: Option<&Deletion>) -> Result<()> {
        let Some(deletion) = deletion else { return Ok(()) };
        self.needs(DELETION_SINCE, "--delete is understood", " or leave it out")?;
        deletion.check_size()?;
        self.outbox.send(&Message::Deletion(deletion.clone()));
        Ok(())
    }

    /// Says that what has arrived is removed at the source.
    ///
    /// # Errors
    /// It is too old to understand that.
    pub(crate) fn name_moving(&self, moving: bool) -> Result<()> {
        if moving {
            self.needs(DELETION_SINCE, "--move is understood", " or leave it out")?;
            self.outbox.send(&Message::Moving);
        }
        Ok(())
    }

    /// Refuses an endpoint that is too old to be asked about files.
    pub(crate) fn needs_files(&self) -> Result<()> {
        self.needs(FILES_SINCE, "files can be listed and read without a copy", "")
    }

    /// Says that files get their names only by leave.
    ///
    /// # Errors
    /// It is too old to understand that.
    pub(crate) fn name_fence(&self, fenced: bool) -> Result<()> {
        if fenced {
            self.needs(FENCE_SINCE, "leases are understood", "")?;
            self.outbox.send(&Message::Fenced);
        }
        Ok(())
    }

    /// Says which files other transfers move, too; behind [`name_fence`](Self::name_fence).
    pub(crate) fn name_split(&self, split: Option<&Split>) {
        if let Some(split) = split {
            self.outbox.send(&Message::Split(split.clone()));
        }
    }

    /// What the endpoint answers to what was asked.
    pub fn answer(&self) -> Result<Message> {
        self.answer_within(ANSWER)
    }

    fn answer_within(&self, time: Duration) -> Result<Message> {
        if self.unwelcomed.swap(false, Relaxed) && self.hear(time)? != Message::Welcome(self.version) {
            return Err(Error::protocol(format!("the endpoint at {} did not say welcome", self.place)));
        }
        self.hear(time)
    }

    fn hear(&self, time: Duration) -> Result<Message> {
        let late =
            || Error::new(ErrorKind::Connection, format!("the endpoint at {} did not answer", self.place));
        match self.inbox.receive_within(time)?.ok_or_else(late)? {
            Message::Refused(error) => Err(error.within(format!("the endpoint at {}", self.place))),
            message => Ok(message),
        }
    }

    /// Says which run a request belongs to, and how long a stream may deliver nothing.
    pub(crate) fn name_run(&self, id: RunId, stall: Duration) {
        if self.version >= RUN_SINCE {
            let stall_ms = u32::try_from(stall.as_millis()).unwrap_or(u32::MAX);
            self.outbox.send(&Message::Run { id, stall_ms });
        }
    }

    /// Says what will be sent, so that nothing is sent onto or into itself, and nothing of it removed.
    pub(crate) fn name_sources(&self, sources: Sources) {
        if sources.roots.is_empty() {
            return;
        }
        told(sources, self.version).iter().for_each(|message| self.outbox.send(message));
    }

    /// Says what mode the directory has whose contents will be sent.
    pub(crate) fn name_contents_mode(&self, mode: Option<u32>) {
        if self.version >= MODES_SINCE && mode.is_some() {
            self.outbox.send(&Message::ContentsMode(mode));
        }
    }

    /// Dials the data streams of the transfer that was asked for, at `address`.
    pub(crate) fn dialer(&self, address: &Address, terms: &Terms) -> Dialer {
        let place = (address.clone(), self.way.clone());
        let dialer = Dialer::new(place, Arc::clone(&self.config), terms.data_plane, self.version);
        if terms.purpose != Purpose::Plan {
            dialer.begin();
        }
        dialer
    }

    /// Asks for a transfer, which the endpoint then [accepts](Self::accepted) or not.
    ///
    /// # Errors
    /// It is only to be said what would be done, and the endpoint is too old to understand that.
    pub fn request(&self, request: Request) -> Result<()> {
        if request.purpose() == Some(Purpose::Plan) {
            self.needs(PLAN_SINCE, "a dry run is understood", "")?;
        }
        self.outbox.send(&Message::Request(request));
        Ok(())
    }

    /// What data streams of the transfer that was asked for show.
    ///
    /// # Errors
    /// The endpoint refuses.
    pub fn accepted(&self) -> Result<Digest> {
        match self.answer()? {
            Message::Accepted { token } => Ok(token),
            _ => Err(Error::protocol("the endpoint answered something else than was asked")),
        }
    }
}

/// What a peer that speaks `version` is told of `sources`.
pub fn told(sources: Sources, version: u16) -> Vec<Message> {
    let Sources { roots, places } = sources;
    let parts = places.known.chunks(TOLD_PLACES).filter(|_| version >= PLACES_SINCE);
    let host = places.host;
    let part = |known: &[_]| Message::Places(SourcePlaces { host, known: known.to_vec() });
    let mut messages: Vec<Message> = parts.map(part).collect();
    messages.extend((version >= RUN_SINCE).then_some(Message::Roots(roots)));
    messages
}

/// Asks for a ticket that holds once, by `request`, and ends the session.
pub(crate) fn one_time_ticket(link: &Link, request: Request) -> Result<Ticket> {
    link.outbox.send(&Message::Request(request));
    let ticket = match link.answer()? {
        Message::Ticket(text) => Ticket::parse(&text),
        _ => return Err(Error::protocol("the endpoint did not answer with a ticket")),
    };
    link.outbox.close();
    ticket.ok_or_else(|| Error::protocol("a ticket that cannot be read"))
}

/// Has the endpoint at `from` make `test` by iperf3 against the one at `to`, and answers with the JSON that iperf3 printed
/// there. It takes no longer than `limit`, and the time that each end may take to answer.
///
/// # Errors
/// In one line: an end that does not answer, is too old, does not allow it, or cannot run iperf3.
pub fn iperf3_between(
    from: &Address,
    to: &Address,
    pki: Option<&Arc<Identity>>,
    test: Iperf3Test,
    limit: Duration,
) -> Result<Vec<u8>> {
    let new_enough =
        |link: &Link| link.needs(IPERF3_BETWEEN_SINCE, "a test between endpoints is asked for", "");
    let issued = Link::open(to, pki)?;
    new_enough(&issued)?;
    let ticket = one_time_ticket(&issued, Request::OneTimeIperf3 { reverse: test.reverse })?;
    let destination = Address { ticket: Some(ticket), ..to.clone() }.to_bytes();
    let link = Link::open(from, pki)?;
    new_enough(&link)?;
    if matches!(test.amount, Iperf3Amount::SecondsAfter { .. }) {
        link.needs(OMITTED_SINCE, "a test without its start is asked for", "")?;
    }
    let limit_s = u32::try_from(limit.as_secs()).unwrap_or(u32::MAX).max(1);
    link.outbox.send(&Message::Request(Request::Iperf3To { destination, test, limit_s }));
    match link.answer_within(limit + ANSWER)? {
        Message::Iperf3Report(report) => {
            link.outbox.close();
            Ok(report)
        }
        _ => Err(Error::protocol("the endpoint answered something else than was asked")),
    }
}

/// Asks the endpoint at `address` for a URL by which whoever has it reads the address's path over HTTP until `expires`, in
/// seconds since 1970.
///
/// # Errors
/// It is too old, serves nothing over HTTP, or does not allow it.
pub fn share(address: &Address, pki: Option<&Arc<Identity>>, expires: Option<u64>) -> Result<String> {
    let link = Link::open(address, pki)?;
    link.needs(SHARE_SINCE, "a URL is asked for", "")?;
    link.outbox.send(&Message::Request(Request::Share { path: address.path.clone(), expires }));
    match link.answer()? {
        Message::Shared(url) => {
            link.outbox.close();
            Ok(foreign(&url))
        }
        _ => Err(Error::protocol("the endpoint answered something else than was asked")),
    }
}

/// An endpoint that has no room for us now, or is about to stop, has some later.
fn passing(unopened: Unopened) -> Unopened {
    match unopened {
        Unopened::Refused(error) if error.kind == ErrorKind::Busy => {
            Unopened::Refused(Error { kind: ErrorKind::Connection, ..error })
        }
        other => other,
    }
}

/// What the endpoint at `address` is to prove.
pub(crate) fn check_ticket(address: &Address, pki: Option<&Arc<Identity>>) -> Result<Trust> {
    match (&address.ticket, pki) {
        (Some(ticket), None) => Ok(Trust::Pinned(ticket.fingerprint)),
        (Some(ticket), Some(identity)) => Ok(Trust::PinnedPki(ticket.fingerprint, Arc::clone(identity))),
        (None, Some(identity)) => Ok(Trust::Pki(Arc::clone(identity))),
        (None, None) => {
            let why = "the address holds no ticket: take the one the endpoint printed, or give --tls-ca, --tls-cert and --tls-key";
            Err(Error::new(ErrorKind::Usage, why))
        }
    }
}

/// An iperf3 server that an endpoint runs for one test of ours; it ends when this is dropped.
#[derive(Debug)]
pub struct Iperf3Server {
    link: Link,
    address: SocketAddr,
}

impl Iperf3Server {
    /// Asks the endpoint at `address` for one that lives no longer than `limit`.
    pub fn ask(address: &Address, pki: Option<&Arc<Identity>>, limit: Duration) -> Result<Self> {
        Self::ask_over(Link::open(address, pki)?, limit)
    }

    /// Asks for one over a session that there is.
    pub(crate) fn ask_over(link: Link, limit: Duration) -> Result<Self> {
        let instead = ", or run `iperf3 -s` there and name it HOST:PORT";
        link.needs(IPERF3_SINCE, "iperf3 is asked for", instead)?;
        let limit_s = u32::try_from(limit.as_secs()).unwrap_or(u32::MAX).max(1);
        link.outbox.send(&Message::Request(Request::Iperf3 { limit_s }));
        match link.answer()? {
            Message::Iperf3 { port } => {
                let mut address = link.peer;
                address.set_port(port);
                Ok(Self { link, address })
            }
            _ => Err(Error::protocol("the endpoint answered something else than was asked")),
        }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Iperf3Server {
    fn drop(&mut self) {
        self.link.outbox.close();
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tidegate_control::{ByteCount, PerStage};

    use super::*;
    use crate::endpoint::{Config, Endpoint};
    use crate::spec::{Memory, SinkSpec, SourceSpec};
    use crate::terms::{Terms, Verify};
    use crate::wire::ticket::Claims;

    fn endpoint(directory: &Path) -> (Arc<Endpoint>, Address) {
        let config =
            Config { allow_local_targets: true, ..Config::local(directory, directory.join("state")) };
        std::fs::create_dir(&config.state).expect("made");
        let endpoint = Endpoint::bind(config).expect("listens");
        let serving = Arc::clone(&endpoint);
        std::thread::spawn(move || serving.serve());
        let address = endpoint.address(&Claims::FULL).expect("an address");
        (endpoint, address)
    }

    #[test]
    fn an_initiator_of_version_3_hears_nothing_of_version_4() {
        let directory = tempfile::tempdir().expect("a directory");
        let (endpoint, address) = endpoint(directory.path());
        for (newest, told) in [(3, false), (4, true)] {
            let link = Link::open_within(&address, None, (1, newest)).expect("let in");
            let source = SourceSpec::Zero(Memory { bytes: ByteCount::mib(1) });
            let terms = Terms {
                verify: Verify::Block,
                chunk: None,
                staging: ByteCount::mib(4),
                max_workers: 4,
                ..Terms::default()
            };
            let request =
                Request::SendTo { source, destination: address.to_bytes(), pace_ms: (100, 0), terms };
            link.request(request).expect("asked");
            link.accepted().expect("agreed");
            link.outbox.send(&Message::Step(PerStage::all(1)));
            let answer = link.answer().expect("an answer");
            assert_eq!(matches!(answer, Message::RoundTrip(_)), told, "version {newest}: {answer:?}");
            link.outbox.close();
        }
        endpoint.drain();
    }

    #[test]
    fn an_endpoint_that_knows_no_filters_is_refused_in_one_line() {
        let directory = tempfile::tempdir().expect("a directory");
        let (endpoint, address) = endpoint(directory.path());
        let old = Link::open_within(&address, None, (1, SELECTION_SINCE - 1)).expect("let in");
        old.name_selection(&Selection::default()).expect("nothing to say");
        old.name_taking(Taking::default()).expect("nothing to say");
        let selection = Selection { one_file_system: true, ..Selection::default() };
        for error in [
            old.name_selection(&selection).expect_err("too old"),
            old.name_taking(Taking { update: true, ..Taking::default() }).expect_err("too old"),
        ] {
            let message = &error.message;
            assert!(error.kind == ErrorKind::Protocol && message.contains("in version 9"), "{error}");
            assert!(message.contains("update it or leave") && !message.contains('\n'), "{error}");
        }
        // And it takes no such word in an older version.
        old.outbox.send(&Message::Selection(selection));
        let error = old.answer().expect_err("refused");
        assert!(error.message.contains("a session begins with a request"), "{error}");
        endpoint.drain();
    }

    #[test]
    fn nobody_of_an_older_version_is_asked_for_a_dry_run_or_makes_one() {
        let directory = tempfile::tempdir().expect("a directory");
        let (endpoint, address) = endpoint(directory.path());
        let sink = || SinkSpec::Files { path: b"new".to_vec(), single: false };
        let terms = Terms { purpose: Purpose::Plan, ..Terms::default() };
        let receive = || Request::Receive { id: [1; 16], sink: sink(), terms: terms.clone() };
        let old = || Link::open_within(&address, None, (1, PLAN_SINCE - 1)).expect("let in");
        let error = old().request(receive()).expect_err("too old");
        let message = &error.message;
        assert!(error.kind == ErrorKind::Protocol && message.contains("in version 10: update it"), "{error}");
        // Nor does an endpoint take it for anything else.
        let link = old();
        link.outbox.send(&Message::Request(receive()));
        let error = link.answer().expect_err("refused");
        assert!(error.kind == ErrorKind::Protocol && error.message.contains("version 10"), "{error}");
        let link = Link::open(&address, None).expect("let in");
        link.request(receive()).expect("asked");
        link.accepted().expect("agreed");
        assert!(!directory.path().join("new").exists());
        endpoint.drain();
    }

    #[test]
    fn nobody_of_an_older_version_is_asked_about_files() {
        let directory = tempfile::tempdir().expect("a directory");
        let (endpoint, address) = endpoint(directory.path());
        let old = Link::open_within(&address, None, (1, FILES_SINCE - 1)).expect("let in");
        let error = old.needs_files().expect_err("too old");
        let message = &error.message;
        assert!(error.kind == ErrorKind::Protocol && message.contains("in version 11: update it"), "{error}");
        // Nor does an endpoint answer.
        old.request(Request::Files).expect("asked");
        let error = old.accepted().expect_err("refused");
        assert!(error.kind == ErrorKind::Protocol && error.message.contains("version 11"), "{error}");
        endpoint.drain();
    }

    #[test]
    fn whoever_speaks_no_common_version_is_told_who_is_to_be_updated() {
        let directory = tempfile::tempdir().expect("a directory");
        let (endpoint, address) = endpoint(directory.path());
        let (oldest, newest) = VERSIONS;
        for (spoken, older) in [((newest + 1, newest + 2), "this one"), ((0, oldest - 1), "yours")] {
            let error = Link::open_within(&address, None, spoken).expect_err("no common version");
            let wanted = [
                format!("the endpoint at {} refused", address.place()),
                format!("you speak protocol versions {} to {}", spoken.0, spoken.1),
                format!("speaks {oldest} to {newest}: update {older}"),
            ];
            assert!(wanted.iter().all(|words| error.message.contains(words)), "{error}");
            assert!(error.kind == ErrorKind::Protocol && !error.message.contains('\n'), "{error}");
        }
        endpoint.drain();
    }

    #[test]
    fn a_peer_of_version_1_is_told_so_on_either_side() {
        let directory = tempfile::tempdir().expect("a directory");
        let (endpoint, address) = endpoint(directory.path());
        // Nothing is asked of an endpoint that would not understand it.
        let old = Link::open_within(&address, None, (1, 1)).expect("let in");
        assert_eq!(old.version, 1);
        let error = Iperf3Server::ask_over(old, Duration::from_secs(9)).expect_err("too old");
        assert!(error.kind == ErrorKind::Protocol && error.message.contains("update it"), "{error}");
        assert!(!error.to_string().contains('\n'), "{error}");
        // And an endpoint does not do in version 1 what is of version 2.
        let old = Link::open_within(&address, None, (1, 1)).expect("let in");
        old.outbox.send(&Message::Request(Request::Iperf3 { limit_s: 9 }));
        let error = old.answer().expect_err("refused");
        assert!(error.kind == ErrorKind::Protocol && error.message.contains("version 2"), "{error}");
        assert_eq!(Link::open(&address, None).expect("let in").version, VERSIONS.1);
        endpoint.drain();
    }
}
