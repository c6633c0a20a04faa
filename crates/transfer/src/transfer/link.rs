//! A session with an endpoint, as whoever asks for something has it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use rustls::ClientConfig;

use crate::error::{Error, ErrorKind, Result};
use crate::pipeline::dialer::Dialer;
use crate::quota::Quota;
use crate::spec::Iperf3Test;
use crate::sys::clock::Instant;
use crate::terms::{Purpose, Terms};
use crate::text::foreign;
use crate::wire::greeting::{Capabilities, Spoken, Welcome};
use crate::wire::handshake::{self, Opened, Unopened};
use crate::wire::message::{MAX_MESSAGE, Message, encode};
use crate::wire::request::{Agreement, Request, RequestKind};
use crate::wire::session::{self, Inbox, Outbox};
use crate::wire::ticket::{Address, Ticket};
use crate::wire::tls::{Identity, Trust};
use crate::wire::way::Way;

/// How long an endpoint may take to answer a request.
const ANSWER: Duration = Duration::from_secs(60);

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
    version: u16,
    /// What the endpoint can be asked for.
    capabilities: Capabilities,
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
        Self::open_within(address, pki, &Spoken::ours())
    }

    /// The same by `way`; tells failures apart.
    /// What large messages take in memory counts in `metadata`.
    pub fn open_at(
        address: &Address,
        way: &Way,
        pki: Option<&Arc<Identity>>,
        metadata: &Arc<Quota>,
    ) -> Result<Self, Unopened> {
        Self::open_with(address, way, pki, &Spoken::ours(), metadata)
    }

    fn open_within(address: &Address, pki: Option<&Arc<Identity>>, ours: &Spoken) -> Result<Self> {
        // First: what looks like a host may be a ticket that was torn, and is not to be asked for or shown.
        check_ticket(address, pki)?;
        Ok(Self::open_with(address, &Way::to(address)?, pki, ours, &Quota::unlimited())?)
    }

    fn open_with(
        address: &Address,
        way: &Way,
        pki: Option<&Arc<Identity>>,
        ours: &Spoken,
        metadata: &Arc<Quota>,
    ) -> Result<Self, Unopened> {
        let config = check_ticket(address, pki)?.client()?;
        let Opened { channel, version, capabilities, welcomed } =
            handshake::open_session_at(address, way, &config, ours).map_err(passing)?;
        let lost = |error| Error::connection("lost the connection to", address.place(), error);
        let peer = channel.socket().peer_addr().map_err(lost)?;
        let place = address.place();
        let (outbox, inbox) = session::start_within(channel, &place, metadata)?;
        let unwelcomed = AtomicBool::new(!welcomed);
        let way = way.settled(peer);
        Ok(Self { outbox, inbox, config, place, version, capabilities, peer, way, unwelcomed })
    }

    /// Asks for something.
    ///
    /// # Errors
    /// The endpoint does not know how to do that, or it is more than it is told at once.
    pub fn ask(&self, request: &Request) -> Result<()> {
        let peer = format!("the endpoint at {}", self.place);
        request.needs().into_iter().try_for_each(|capability| self.capabilities.need(capability, &peer))?;
        let message = Message::from(request);
        if encode(&message).len() > MAX_MESSAGE {
            let why = format!(
                "filter rules, names and paths are more than an endpoint is told at once ({} MiB): copy in parts",
                MAX_MESSAGE >> 20
            );
            return Err(Error::new(ErrorKind::Usage, why));
        }
        self.outbox.send(&message);
        Ok(())
    }

    /// What the endpoint answers to what was asked.
    pub fn answer(&self) -> Result<Message> {
        self.answer_within(ANSWER, &mut || Ok(()))
    }

    fn answer_within(&self, time: Duration, meanwhile: &mut dyn FnMut() -> Result<()>) -> Result<Message> {
        if self.unwelcomed.swap(false, Relaxed) {
            let welcome = match self.hear(time, meanwhile)? {
                Message::Welcome(welcome) => welcome.read()?,
                _ => Welcome::default(),
            };
            if welcome.version != self.version {
                return Err(Error::protocol(format!("the endpoint at {} did not say welcome", self.place)));
            }
        }
        self.hear(time, meanwhile)
    }

    /// What is said within `time`; this end does something `meanwhile`, each time it is nudged.
    fn hear(&self, time: Duration, meanwhile: &mut dyn FnMut() -> Result<()>) -> Result<Message> {
        let end = Instant::now() + time;
        loop {
            meanwhile()?;
            match self.inbox.receive_within(end.saturating_duration_since(Instant::now()))? {
                Some(Message::Refused(error)) => {
                    return Err(error.within(format!("the endpoint at {}", self.place)));
                }
                Some(message) => return Ok(message),
                None if Instant::now() < end => {}
                None => {
                    let why = format!("the endpoint at {} did not answer", self.place);
                    return Err(Error::new(ErrorKind::Connection, why));
                }
            }
        }
    }

    /// Dials the data streams of the transfer that was asked for, at `address`.
    pub(crate) fn dialer(&self, address: &Address, terms: &Terms) -> Dialer {
        let place = (address.clone(), self.way.clone());
        let dialer = Dialer::new(place, Arc::clone(&self.config), terms.data_plane);
        if terms.purpose != Purpose::Plan {
            dialer.begin();
        }
        dialer
    }

    /// What the endpoint agrees to.
    ///
    /// # Errors
    /// It refuses.
    pub fn accepted(&self) -> Result<Agreement> {
        self.accepted_meanwhile(&mut || Ok(()))
    }

    /// The same; this end does something `meanwhile`, each time it is nudged.
    pub(crate) fn accepted_meanwhile(&self, meanwhile: &mut dyn FnMut() -> Result<()>) -> Result<Agreement> {
        match self.answer_within(ANSWER, meanwhile)? {
            Message::Accepted(agreement) => agreement.read(),
            _ => Err(Error::protocol("the endpoint answered something else than was asked")),
        }
    }
}

/// Asks for a ticket that holds once, by `request`, and ends the session.
pub(crate) fn one_time_ticket(link: &Link, request: &Request) -> Result<Ticket> {
    link.ask(request)?;
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
    let issued = Link::open(to, pki)?;
    let ticket = one_time_ticket(&issued, &RequestKind::OneTimeIperf3 { reverse: test.reverse }.into())?;
    let destination = Address { ticket: Some(ticket), ..to.clone() }.to_bytes();
    let link = Link::open(from, pki)?;
    let limit_s = u32::try_from(limit.as_secs()).unwrap_or(u32::MAX).max(1);
    link.ask(&RequestKind::Iperf3To { destination, test, limit_s }.into())?;
    match link.answer_within(limit + ANSWER, &mut || Ok(()))? {
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
    link.ask(&RequestKind::Share { path: address.path.clone(), expires }.into())?;
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
        let limit_s = u32::try_from(limit.as_secs()).unwrap_or(u32::MAX).max(1);
        link.ask(&RequestKind::Iperf3 { limit_s }.into())?;
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

    use super::*;
    use crate::endpoint::{Config, Endpoint};
    use crate::record::Writer;
    use crate::selection::Deletion;
    use crate::spec::{SinkSpec, SourceSpec};
    use crate::sys::random;
    use crate::wire::greeting::{Capability, VERSIONS};
    use crate::wire::order::{self, Part, Phase};
    use crate::wire::request::Preamble;
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
    fn an_endpoint_is_asked_for_nothing_that_it_does_not_know() {
        let directory = tempfile::tempdir().expect("a directory");
        let (endpoint, address) = endpoint(directory.path());
        let link = Link::open(&address, None).expect("let in");
        let sink = || SinkSpec::Files { path: b"new".to_vec(), single: false };
        let asked = |preamble| Request { kind: RequestKind::Receive { id: [1; 16], sink: sink() }, preamble };
        let plan = Terms { purpose: Purpose::Plan, ..Terms::default() };
        for (capability, request) in [
            (Capability::Plan, asked(Preamble { terms: plan, ..Preamble::default() })),
            (
                Capability::Delete,
                asked(Preamble { deletion: Some(Deletion::default()), ..Preamble::default() }),
            ),
            (Capability::Move, asked(Preamble { moving: true, ..Preamble::default() })),
            (Capability::Lease, asked(Preamble { fenced: true, ..Preamble::default() })),
            (Capability::Files, RequestKind::Files.into()),
            (Capability::Share, RequestKind::Share { path: Vec::new(), expires: None }.into()),
            (Capability::Iperf3, RequestKind::Iperf3 { limit_s: 9 }.into()),
        ] {
            assert_eq!(request.needs(), [capability]);
            let link = Link { capabilities: Capabilities::ours().without(capability), ..reopen(&address) };
            let error = link.ask(&request).expect_err("not known there");
            assert!(error.kind == ErrorKind::Protocol && error.message.contains("update it"), "{error}");
            assert!(error.message.starts_with(&format!("the endpoint at {}", address.place())), "{error}");
        }
        assert!(link.capabilities == Capabilities::ours(), "it tells what it knows");
        assert!(!directory.path().join("new").exists());
        endpoint.drain();
    }

    fn reopen(address: &Address) -> Link {
        Link::open(address, None).expect("let in")
    }

    #[test]
    fn whoever_says_something_out_of_turn_is_hung_up_on_and_others_are_served() {
        let directory = tempfile::tempdir().expect("a directory");
        let (endpoint, address) = endpoint(directory.path());
        std::fs::write(directory.path().join("file"), "content").expect("written");
        let sink = || SinkSpec::Files { path: b"in/".to_vec(), single: false };
        let source = || SourceSpec::Files(vec![b"file".to_vec()]);
        let id = || *random::bytes().first_chunk().expect("long enough");
        let mut walked = 0;
        for (part, phase) in [
            (Part::Sender, Phase::Moving),
            (Part::Receiver, Phase::Moving),
            (Part::Initiator, Phase::Files),
            (Part::Initiator, Phase::Asking),
        ] {
            let parts = [Part::Initiator, part];
            for message in order::tests::all() {
                if order::check(&message, parts, phase).is_ok() {
                    continue;
                }
                let link = reopen(&address);
                let kind = match (part, phase) {
                    (Part::Sender, _) => Some(RequestKind::Receive { id: id(), sink: sink() }),
                    (Part::Receiver, _) => Some(RequestKind::Send { source: source() }),
                    (_, Phase::Files) => Some(RequestKind::Files),
                    _ => None,
                };
                if let Some(kind) = kind {
                    link.ask(&kind.into()).expect("asked");
                    link.accepted().expect("agreed");
                }
                link.outbox.send(&message);
                // What was on its way comes first.
                let error = loop {
                    match link.answer() {
                        Ok(Message::Refused(error)) | Err(error) => break error,
                        Ok(_) => {}
                    }
                };
                assert!(error.kind == ErrorKind::Protocol, "{message:?}: {error}");
                assert!(!error.message.contains('\n'), "{error}");
                walked += 1;
            }
        }
        assert!(walked > 100, "{walked}");
        reopen(&address).ask(&RequestKind::Files.into()).expect("served");
        endpoint.drain();
    }

    #[test]
    fn a_field_that_is_not_known_is_skipped_or_refused_as_its_tag_says() {
        let directory = tempfile::tempdir().expect("a directory");
        let (endpoint, address) = endpoint(directory.path());
        let with = |tag: u32| {
            let mut fields = Writer::default();
            fields.plain(3, &());
            fields.plain(tag, &"new");
            let bytes = fields.bytes().to_vec();
            // The terms, all as usual, are an empty record.
            let bytes = postcard::to_stdvec(&[&[3, 0], &bytes[2..]].concat()).expect("plain");
            let preamble = postcard::from_bytes(&bytes).expect("bytes");
            let sink = SinkSpec::Files { path: b"in/".to_vec(), single: false };
            let link = reopen(&address);
            let kind = RequestKind::Receive { id: [tag as u8; 16], sink };
            link.outbox.send(&Message::Request(kind, preamble));
            link.accepted()
        };
        with(98).expect("skipped");
        let error = with(99).expect_err("refused");
        assert!(
            error.message.ends_with("with a field 99, which whoever read it does not know: update that end"),
            "{error}"
        );
        endpoint.drain();
    }

    #[test]
    fn more_than_a_message_may_hold_is_not_asked_for() {
        let directory = tempfile::tempdir().expect("a directory");
        let (endpoint, address) = endpoint(directory.path());
        let source = SourceSpec::Files(vec![vec![b'x'; 4000]; 3000]);
        let error = reopen(&address).ask(&RequestKind::Send { source }.into()).expect_err("12 MB of paths");
        assert!(error.kind == ErrorKind::Usage && error.message.contains("copy in parts"), "{error}");
        endpoint.drain();
    }

    #[test]
    fn whoever_speaks_no_common_version_is_told_who_is_to_be_updated() {
        let directory = tempfile::tempdir().expect("a directory");
        let (endpoint, address) = endpoint(directory.path());
        let (oldest, newest) = VERSIONS;
        for (spoken, older) in [((newest + 1, newest + 2), "this one"), ((0, oldest - 1), "yours")] {
            let error = Link::open_within(&address, None, &Spoken::with(spoken, Capabilities::ours()))
                .expect_err("no common version");
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
}
