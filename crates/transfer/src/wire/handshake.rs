//! How a connection begins: who it is, what it is for, and proof of both, within tight limits.
//!
//! A connection opens with a TLS handshake, or with eight bytes for a clear data stream. Then comes one
//! [`Opening`]. Nothing else is looked at before it has been proved.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{
    AlertDescription, ClientConfig, ClientConnection, Connection, InvalidMessage, ServerConfig,
    ServerConnection,
};
use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::hash::Digest;
use crate::record::Record;
use crate::sys::clock::Instant;
use crate::sys::net::TcpStream;
use crate::sys::random;
use crate::sys::tcp;
use crate::sys::thread;
use crate::terms::DataPlane;
use crate::wire::channel::{Channel, retry};
use crate::wire::distrust::in_words;
use crate::wire::greeting::{APPLICATION, Capabilities, Hello, Spoken, Welcome, common_version};
use crate::wire::message::{MAX_UNAUTHENTICATED, Message, decode, encode};
use crate::wire::ticket::{Address, proof};
use crate::wire::way::Way;

/// How long a peer may take to prove itself.
pub const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

/// How long a silent network is borne before a connection counts as dead.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Pauses before a session is opened again that was closed before it was welcome: an endpoint in a crowd of
/// connections that prove nothing has room a moment later. Each is drawn from half to all of itself.
const PAUSES: [Duration; 4] =
    [Duration::from_millis(250), Duration::from_millis(500), Duration::from_secs(1), Duration::from_secs(2)];

/// What a clear data stream begins with; the first byte differs from any TLS record's. Its opening follows at
/// once: its number, which is used once, keeps its proof from being used again.
const CLEAR_PREFACE: &[u8; 8] = b"TIDEGATE";

/// What to do about an end that speaks the protocol of before version 1.
const BEFORE: &str =
    "speaks the protocol from before version 1: install the same build of tidegate at both ends";

/// The first thing said on a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Opening {
    /// A session.
    Session(Record<Hello>),
    /// A data stream of a session that exists.
    Stream(StreamHello),
}

/// What ties a data stream to its session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamHello {
    /// Names the session; not secret.
    pub session: [u8; 16],
    /// The stream's number, used once.
    pub index: u32,
    /// Proof of knowing the session's token, bound to this connection where it has something to be bound to.
    pub proof: Digest,
}

/// The public name of the session with `token`.
pub fn session_name(token: &Digest) -> [u8; 16] {
    let name = blake3::keyed_hash(token, b"tidegate session name");
    name.as_bytes()[..16].try_into().expect("sixteen bytes")
}

/// The proof that data stream `index` belongs to the session with `token`.
pub fn stream_proof(token: &Digest, index: u32, binding: &[u8]) -> blake3::Hash {
    proof(token, "stream", &[&index.to_le_bytes(), binding].concat())
}

/// Why a connection was not opened.
#[derive(Debug)]
pub enum Unopened {
    /// It was made, and closed before it was welcome: trying again may help.
    Closed(Error),
    /// Whoever is there says no in our protocol.
    Refused(Error),
    /// Anything else: nobody is there, or somebody else, or too slow.
    Failed(Error),
}

impl From<Error> for Unopened {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<Unopened> for Error {
    fn from(unopened: Unopened) -> Self {
        match unopened {
            Unopened::Closed(error) | Unopened::Refused(error) | Unopened::Failed(error) => error,
        }
    }
}

impl Unopened {
    /// `error` in our words, from a failure of kind `cause`.
    fn during(cause: io::ErrorKind, error: Error) -> Self {
        use io::ErrorKind as K;
        match cause {
            K::UnexpectedEof | K::ConnectionReset | K::ConnectionAborted | K::BrokenPipe => {
                Self::Closed(error)
            }
            _ => Self::Failed(error),
        }
    }
}

/// Connects within [`HANDSHAKE_TIME`] for each address that is tried; `address` names the endpoint in errors.
fn dial(address: &Address, way: &Way) -> Result<TcpStream> {
    let failed = |what: &'static str| move |error| Error::connection(what, address.place(), error);
    let socket = way.connect(HANDSHAKE_TIME).map_err(failed("cannot connect to"))?;
    tcp::prepare(&socket, PATIENCE).map_err(failed("cannot set up"))?;
    Ok(socket)
}

/// Connects and completes the TLS handshake.
fn dial_tls(address: &Address, way: &Way, config: &Arc<ClientConfig>) -> Result<Channel, Unopened> {
    let socket = dial(address, way)?;
    let name = ServerName::try_from(address.host.clone())
        .map_err(|_| Error::new(ErrorKind::Usage, format!("'{}' is not a host name", address.host)))?;
    let connection = ClientConnection::new(Arc::clone(config), name)
        .map_err(|error| Error::new(ErrorKind::Authentication, format!("cannot start TLS: {error}")))?;
    let mut channel = Channel::tls(Connection::Client(connection), socket);
    channel
        .set_deadline(Some(Instant::now() + HANDSHAKE_TIME))
        .and_then(|()| channel.finish_handshake())
        .map_err(|error| Unopened::during(error.kind(), handshake_error(&address.place(), error)))?;
    match channel.application() {
        Some(APPLICATION) => Ok(channel),
        _ => Err(Error::protocol(format!("the endpoint at {} {BEFORE}", address.place())).into()),
    }
}

fn handshake_error(place: &str, error: io::Error) -> Error {
    use rustls::CertificateError::ApplicationVerificationFailure;
    let why = match error.get_ref().and_then(|inner| inner.downcast_ref()) {
        Some(rustls::Error::InvalidCertificate(ApplicationVerificationFailure)) => format!(
            "refused the endpoint at {place}: its certificate is not the one the ticket names: is the ticket of this endpoint?"
        ),
        Some(rustls::Error::InvalidCertificate(why)) => {
            format!("refused the endpoint at {place}: its certificate is not trusted: {}", in_words(why))
        }
        Some(rustls::Error::AlertReceived(alert)) if is_about_trust(*alert) => {
            format!("the endpoint at {place} refused us: {alert:?}")
        }
        // That and anything else may be damage on the way: trying again may help.
        Some(rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType)) => {
            let why = format!(
                "no TLS connection to {place}: what answers there speaks no TLS: is it the port of an endpoint?"
            );
            return Error::new(ErrorKind::Connection, why).because(error);
        }
        _ => return Error::connection("no TLS connection to", place, error),
    };
    Error::new(ErrorKind::Authentication, why).because(error)
}

/// Whether an alert speaks of our certificate rather than of the bytes on the wire.
fn is_about_trust(alert: AlertDescription) -> bool {
    use AlertDescription as A;
    matches!(
        alert,
        A::NoCertificate
            | A::BadCertificate
            | A::UnsupportedCertificate
            | A::CertificateRevoked
            | A::CertificateExpired
            | A::CertificateUnknown
            | A::UnknownCA
            | A::AccessDenied
            | A::CertificateRequired
            // A signature that does not verify; damaged records are another alert.
            | A::DecryptError
    )
}

/// Opens a session at `address`; afterwards reads no longer time out.
pub fn open_session(address: &Address, config: &Arc<ClientConfig>) -> Result<Channel> {
    Ok(open_session_at(address, &Way::to(address)?, config, &Spoken::ours()).map(|opened| opened.channel)?)
}

/// A session that was asked for.
#[derive(Debug)]
pub(crate) struct Opened {
    /// Its connection.
    pub channel: Channel,
    /// The protocol version to speak.
    pub version: u16,
    /// What the endpoint can be asked for.
    pub capabilities: Capabilities,
    /// Whether the endpoint has said that it lets us in. Where its versions are known that is not waited for, a round
    /// trip: its welcome, or why there is none, comes before anything else it says.
    pub(crate) welcomed: bool,
}

/// The same by `way`, with what is spoken here; tells failures apart.
///
/// One that is closed before it is welcome is tried again after each of `PAUSES`.
pub(crate) fn open_session_at(
    address: &Address,
    way: &Way,
    config: &Arc<ClientConfig>,
    ours: &Spoken,
) -> Result<Opened, Unopened> {
    let begun = Instant::now();
    let mut pauses = PAUSES.iter();
    loop {
        match (try_session(address, way, config, ours), pauses.next()) {
            (Err(Unopened::Closed(_)), Some(pause)) if begun.elapsed() < HANDSHAKE_TIME => {
                let draw = u32::from(random::bytes()[0]);
                thread::sleep(*pause / 2 + *pause * draw / 512);
            }
            (result, _) => return result,
        }
    }
}

fn try_session(
    address: &Address,
    way: &Way,
    config: &Arc<ClientConfig>,
    ours: &Spoken,
) -> Result<Opened, Unopened> {
    let mut channel = dial_tls(address, way, config)?;
    let exporter = channel.exporter();
    let (claims, proof) = match &address.ticket {
        Some(ticket) => (Some(ticket.claims.clone()), *proof(&ticket.key, "session", &exporter).as_bytes()),
        None => (None, [0; 32]),
    };
    let Spoken { versions, capabilities } = ours.clone();
    let hello = Opening::Session(Record::of(&Hello { versions, capabilities, claims, proof }));
    let place = address.place();
    let lost = |error: io::Error| {
        let cause = error.kind();
        let told = match cause {
            io::ErrorKind::InvalidData => handshake_error(&place, error),
            _ => Error::connection("lost the connection to", &place, error),
        };
        Unopened::during(cause, told)
    };
    channel.write_all(&encode(&hello)).map_err(lost)?;
    if let Some(theirs) = way.spoken()
        && let Some(version) = common_version(versions, theirs.versions)
    {
        channel.set_deadline(None).map_err(lost)?;
        return Ok(Opened { channel, version, capabilities: theirs.capabilities(), welcomed: false });
    }
    let said = read_message::<Message>(&mut channel, Instant::now() + HANDSHAKE_TIME).map_err(lost)??;
    let Welcome { version, capabilities } = match said {
        Message::Welcome(welcome) => welcome.read()?,
        Message::Refused(error) => {
            return Err(Unopened::Refused(error.within(format!("the endpoint at {place} refused"))));
        }
        _ => return Err(Error::protocol("the endpoint did not say welcome").into()),
    };
    if !(versions.0..=versions.1).contains(&version) {
        let (oldest, newest) = versions;
        let why = format!(
            "the endpoint at {place} chose protocol version {version}, and {oldest} to {newest} are spoken here"
        );
        return Err(Error::protocol(why).into());
    }
    channel.set_deadline(None).map_err(lost)?;
    let capabilities = Spoken { versions, capabilities }.capabilities();
    Ok(Opened { channel, version, capabilities, welcomed: true })
}

/// A data stream that is opened: of which session, and how.
#[derive(Clone, Copy, Debug)]
pub struct StreamOpening<'a> {
    /// Whether it is encrypted.
    pub plane: DataPlane,
    /// The session's.
    pub token: &'a Digest,
    /// Its number, which no other stream of the session has.
    pub index: u32,
}

/// Opens a data stream to the endpoint at `address`.
pub fn open_stream(
    address: &Address,
    config: &Arc<ClientConfig>,
    stream: &StreamOpening<'_>,
) -> Result<Channel> {
    open_stream_at(address, &Way::to(address)?, config, stream)
}

/// The same by `way`.
pub(crate) fn open_stream_at(
    address: &Address,
    way: &Way,
    config: &Arc<ClientConfig>,
    stream: &StreamOpening<'_>,
) -> Result<Channel> {
    introduce(connect_stream(address, way, config, stream.plane)?, address, stream)
}

/// A connection that a data stream may have, of whatever session.
pub(crate) fn connect_stream(
    address: &Address,
    way: &Way,
    config: &Arc<ClientConfig>,
    plane: DataPlane,
) -> Result<Channel> {
    match plane {
        DataPlane::Tls => Ok(dial_tls(address, way, config)?),
        DataPlane::Clear => Ok(Channel::Clear(dial(address, way)?)),
    }
}

/// Says on a connection of [`connect_stream`] which data stream it is.
pub(crate) fn introduce(
    mut channel: Channel,
    address: &Address,
    stream: &StreamOpening<'_>,
) -> Result<Channel> {
    let StreamOpening { plane, token, index } = *stream;
    let lost = |error: io::Error| Error::connection("lost the connection to", address.place(), error);
    // What is said before the opening, in the same packet, and what the proof is bound to.
    let (preface, binding) = match plane {
        DataPlane::Tls => (&[][..], channel.exporter()),
        DataPlane::Clear => (&CLEAR_PREFACE[..], Vec::new()),
    };
    let proof = *stream_proof(token, index, &binding).as_bytes();
    let hello = encode(&Opening::Stream(StreamHello { session: session_name(token), index, proof }));
    channel.write_all(&[preface, &hello].concat()).map_err(lost)?;
    channel.set_deadline(None).map_err(lost)?;
    Ok(channel)
}

/// What a connection to an endpoint turned out to be, not yet proved.
#[derive(Debug)]
pub struct Arrival {
    /// The connection.
    pub channel: Channel,
    /// What it claims.
    pub opening: Opening,
    /// What its proof must be bound to; empty for a clear stream that was given nothing.
    pub binding: Vec<u8>,
}

/// Reads the opening of a connection, if there is one: a connection for a data stream is made ahead, and may turn out not
/// to be needed. `clear` tells whether clear streams are allowed at all.
///
/// Takes at most [`HANDSHAKE_TIME`] in all, however slowly the peer talks.
pub fn accept(socket: TcpStream, config: &Arc<ServerConfig>, clear: bool) -> Result<Option<Arrival>> {
    let deadline = Instant::now() + HANDSHAKE_TIME;
    let lost = |error: io::Error| Error::connection("a peer", "left during the handshake", error);
    tcp::prepare(&socket, PATIENCE).map_err(lost)?;
    socket.set_read_timeout(Some(HANDSHAKE_TIME)).map_err(lost)?;
    let mut first = [0];
    if retry(|| socket.peek(&mut first)).map_err(lost)? == 0 {
        return Ok(None);
    }
    let (mut channel, binding) = if first == CLEAR_PREFACE[..1] {
        if !clear {
            return Err(Error::new(
                ErrorKind::Authentication,
                "a clear data stream, which is not allowed here",
            ));
        }
        let mut channel = Channel::Clear(socket);
        let mut preface = [0; 8];
        read_before(&mut channel, &mut preface, deadline).map_err(lost)?;
        if preface != *CLEAR_PREFACE {
            return Err(Error::protocol("a peer that speaks neither TLS nor our protocol"));
        }
        (channel, Vec::new())
    } else {
        let connection = ServerConnection::new(Arc::clone(config))
            .map_err(|error| Error::protocol(format!("cannot start TLS: {error}")))?;
        let mut channel = Channel::tls(Connection::Server(connection), socket);
        channel
            .set_deadline(Some(deadline))
            .and_then(|()| channel.finish_handshake())
            .map_err(|error| Error::connection("no TLS with", "a peer", error))?;
        if channel.application() != Some(APPLICATION) {
            let refused = Error::protocol(format!("the program that you run {BEFORE}"));
            let _ = channel.write_all(&encode(&Message::Refused(refused)));
            let _ = channel.finish();
            return Err(Error::protocol(format!("a peer {BEFORE}")));
        }
        let exporter = channel.exporter();
        (channel, exporter)
    };
    let Some(opening) = read_message_if_any(&mut channel, deadline).map_err(lost)? else { return Ok(None) };
    channel.set_deadline(None).map_err(lost)?;
    Ok(Some(Arrival { channel, opening: opening?, binding }))
}

/// Reads one small message before `deadline`, never more bytes than it has.
fn read_message<T: for<'a> Deserialize<'a>>(
    channel: &mut Channel,
    deadline: Instant,
) -> io::Result<Result<T>> {
    read_message_if_any(channel, deadline)?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

/// The same; `None` where the peer has left properly before a byte of it.
fn read_message_if_any<T: for<'a> Deserialize<'a>>(
    channel: &mut Channel,
    deadline: Instant,
) -> io::Result<Option<Result<T>>> {
    let mut bytes = vec![0; 4];
    channel.set_deadline(Some(deadline))?;
    match channel.read(&mut bytes)? {
        0 => return Ok(None),
        n => read_before(channel, &mut bytes[n..], deadline)?,
    }
    let length = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize;
    if length > MAX_UNAUTHENTICATED {
        return Ok(Some(Err(Error::protocol("an opening message that is too long"))));
    }
    bytes.resize(4 + length, 0);
    read_before(channel, &mut bytes[4..], deadline)?;
    Ok(Some(decode(&bytes, MAX_UNAUTHENTICATED).map(|message| message.expect("whole").0)))
}

fn read_before(channel: &mut Channel, mut buffer: &mut [u8], deadline: Instant) -> io::Result<()> {
    while !buffer.is_empty() {
        channel.set_deadline(Some(deadline))?;
        match channel.read(buffer)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => buffer = &mut buffer[n..],
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::sys::clock::manual;
    use crate::sys::net;
    use crate::wire::greeting::VERSIONS;
    use crate::wire::tls::{Identity, Trust};

    #[test]
    fn what_speaks_no_tls_is_told_from_an_endpoint() {
        let listener = net::listen("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let other = thread::spawn(move || {
            let (mut socket, _) = listener.accept().expect("somebody came");
            socket.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").expect("said");
            let _ = socket.read(&mut [0; 4096]);
        });
        let address = Address::parse(format!("tg://127.0.0.1:{port}/").as_bytes()).expect("an address");
        let identity =
            Identity::load_or_create(tempfile::tempdir().expect("a directory").path()).expect("made");
        let config = Trust::Pinned(identity.fingerprint()).client().expect("set up");
        let error = open_session(&address, &config).expect_err("no endpoint");
        assert!(error.message.contains("speaks no TLS") && error.kind == ErrorKind::Connection, "{error}");
        other.join().expect("ended");
    }

    /// A listener that hangs up on `away` connections and welcomes who comes then; tells of how many came.
    fn away_for(away: u32, identity: &Identity) -> (SocketAddr, thread::JoinHandle<u32>) {
        let listener = net::listen("127.0.0.1:0").expect("a port");
        let place = listener.local_addr().expect("bound");
        let config = identity.server().expect("a configuration");
        let listening = thread::spawn(move || {
            for came in 1.. {
                let (socket, _) = listener.accept().expect("somebody came");
                // As many as are ever made by one call.
                let is_last = came == 1 + PAUSES.len() as u32;
                if came > away {
                    let mut arrival = accept(socket, &config, false).expect("a peer").expect("a session");
                    let welcome = encode(&Message::Welcome(Record::of(&Welcome::to(VERSIONS.1))));
                    arrival.channel.write_all(&welcome).expect("welcomed");
                    // The client leaves first.
                    let _ = arrival.channel.read(&mut [0]);
                    return came;
                }
                drop(socket);
                if is_last {
                    return came;
                }
            }
            unreachable!("numbers do not end")
        });
        (place, listening)
    }

    #[test]
    fn a_session_is_opened_again_when_whoever_hung_up_is_there_again() {
        let directory = tempfile::tempdir().expect("a directory");
        let identity = Identity::load_or_create(directory.path()).expect("made");
        let config = Trust::Pinned(identity.fingerprint()).client().expect("a configuration");
        for away in 0..=5 {
            let (place, listening) = away_for(away, &identity);
            let address =
                Address { ticket: None, host: place.ip().to_string(), port: place.port(), path: Vec::new() };
            let clock = manual::stop();
            let began = Instant::now();
            let opened = open_session_at(&address, &Way::Dial(vec![place]), &config, &Spoken::ours())
                .map(|opened| opened.version);
            let waited = began.elapsed();
            drop(clock);
            let most: Duration = PAUSES.iter().take(away as usize).sum();
            assert!((most / 2..=most).contains(&waited), "{waited:?} for {away}");
            match opened {
                Ok(version) => assert!(version == VERSIONS.1 && away <= 4),
                Err(unopened) => {
                    assert!(matches!(unopened, Unopened::Closed(_)) && away == 5, "{unopened:?}");
                }
            }
            assert_eq!(listening.join().expect("heard"), 5.min(away + 1));
        }
    }

    /// Both ends of a TLS handshake of which one names no application protocol: what either finds.
    fn met(client_names: bool, server_names: bool) -> (Result<(), Unopened>, Result<bool>) {
        let directory = tempfile::tempdir().expect("a directory");
        let identity = Identity::load_or_create(directory.path()).expect("made");
        let named = |names: bool| if names { vec![APPLICATION.to_vec()] } else { Vec::new() };
        let mut server = ServerConfig::clone(&identity.server().expect("a configuration"));
        server.alpn_protocols = named(server_names);
        let mut client = ClientConfig::clone(&Trust::Pinned(identity.fingerprint()).client().expect("one"));
        client.alpn_protocols = named(client_names);
        let listener = net::listen("127.0.0.1:0").expect("a port");
        let place = listener.local_addr().expect("bound");
        let listening = thread::spawn(move || {
            let (socket, _) = listener.accept().expect("somebody came");
            accept(socket, &Arc::new(server), false).map(|arrival| arrival.is_some())
        });
        let address =
            Address { ticket: None, host: place.ip().to_string(), port: place.port(), path: Vec::new() };
        let way = Way::Dial(vec![place]);
        let found = match client_names {
            true => dial_tls(&address, &way, &Arc::new(client)).map(drop),
            // As a client of before reads it: a length, the message's number, an error's kind and text.
            false => {
                let name = ServerName::try_from("tidegate").expect("a name");
                let tls = ClientConnection::new(Arc::new(client), name).expect("a client");
                let mut channel = Channel::tls(Connection::Client(tls), dial(&address, &way).expect("there"));
                channel.finish_handshake().expect("shaken");
                let mut said = Vec::new();
                channel.read_to_end(&mut said).expect("said");
                assert_eq!((said[4], said[5]), (5, 8), "a refusal of kind protocol");
                let text = String::from_utf8_lossy(&said[7..]).into_owned();
                Err(Unopened::Refused(Error::protocol(text)))
            }
        };
        (found, listening.join().expect("heard"))
    }

    #[test]
    fn a_peer_from_before_version_1_is_told_so_on_either_side() {
        let message = |unopened: Unopened| Error::from(unopened).message;
        let (client, server) = met(false, true);
        let told = message(client.expect_err("refused"));
        assert!(told.ends_with(BEFORE) && told.starts_with("the program that you run"), "{told}");
        assert!(server.expect_err("refused").message.contains(BEFORE));
        let (client, _) = met(true, false);
        let told = message(client.expect_err("refused"));
        assert!(told.starts_with("the endpoint at 127.0.0.1") && told.ends_with(BEFORE), "{told}");
        let (client, server) = met(true, true);
        let came = server.expect_err("it left").message;
        assert!(client.is_ok() && !came.contains(BEFORE), "both know what they speak: {came}");
    }
}
