//! A daemon that others send to and fetch from, beneath one directory. It proves itself by its
//! certificate, lets nobody near a file before they have proved themselves, and owns no control loop:
//! whoever initiates a transfer decides.

pub mod access;
mod accounts;
mod counted;
mod door;
mod files;
mod hosted;
mod iperf3;
mod log_limiter;
mod measuring;
mod private;
mod reach;
mod relaying;
mod report;
mod rights;
mod served;
mod turns;
mod unauthenticated;

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustls::{RootCertStore, ServerConfig};

use crate::catalogue::Catalogues;
use crate::error::{Error, ErrorKind, Result};
use crate::hash::Digest;
use crate::quota::{Allowance, Held, remember};
use crate::record::Record;
use crate::sys::clock::{self, Instant};
use crate::sys::confined::{self, Root};
use crate::sys::net::{self, Shutdown, TcpStream};
use crate::sys::sync::{Mutex, RwLock};
use crate::sys::thread;
use crate::sys::{fs, host, lock, random};
use crate::wire::channel::Channel;
use crate::wire::greeting::{Hello, VERSIONS, Welcome, common_version};
use crate::wire::handshake::{self, Arrival, Opening, StreamHello, session_name, stream_proof};
use crate::wire::joined::{BlockTaker, Neighbour};
use crate::wire::message::{Message, encode};
use crate::wire::ticket::{Address, Claims, Place, Ticket, derive_key, proof};
use crate::wire::tls::{Identity, write_private};

use accounts::{Account, Accounts};
use counted::Counted;
pub use counted::{EndpointCounts, Moved};
use door::{Activity, Door};
use hosted::Hosted;
use iperf3::Servers;
use served::ServedRoot;
use unauthenticated::{Answer, Origin};

/// How long a one-time ticket holds.
const ONE_TIME: Duration = Duration::from_secs(120);

/// What an endpoint serves and how.
#[derive(Clone, Debug)]
pub struct Config {
    /// The directory that everything stays beneath.
    pub root: PathBuf,
    /// Directories elsewhere that links in it may lead to, where a peer names them.
    pub follow: Vec<PathBuf>,
    /// Where to listen.
    pub listen: SocketAddr,
    /// Certificate, secret and catalogues; only for the owner's eyes. No peer finds it, wherever it lies.
    pub state: PathBuf,
    /// Further directories and files that no peer finds: keys, certificates, other programs' tokens.
    pub private: Vec<PathBuf>,
    /// Whether all peers are the user who runs it: they find what is private, which is theirs.
    pub serves_owner: bool,
    /// Whether data may only be fetched.
    pub read_only: bool,
    /// Whether those whom a PKI lets in may remove what is there; tickets say it of who holds them.
    pub allow_delete: bool,
    /// Whether clear data streams are allowed.
    pub clear: bool,
    /// The site's own PKI, instead of tickets.
    pub pki: Option<Arc<Identity>>,
    /// Where peers should look for it, `None` for the address it listens on; so for the port.
    pub advertise: Option<Place>,
    /// The ports of the iperf3 servers that are run for those who hold a ticket, one test each, and tests against other
    /// endpoints are made; 0 is any that is
    /// free, and `None` runs none.
    pub iperf3: Option<RangeInclusive<u16>>,
    /// Whether it sends, for others, to loopback and link-local addresses too.
    pub allow_local_targets: bool,
    /// What the holder of one ticket may use at one time; all of them together four times as much.
    pub allowance: Allowance,
    /// Whether its tickets end with this process.
    pub fleeting: bool,
}

impl Config {
    /// Serves `root` to holders of tickets on this host, on any free port, with what it needs to remember in `state`;
    /// others are made from it by struct update.
    pub fn local(root: impl Into<PathBuf>, state: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            follow: Vec::new(),
            listen: (std::net::Ipv4Addr::LOCALHOST, 0).into(),
            state: state.into(),
            private: Vec::new(),
            serves_owner: false,
            read_only: false,
            allow_delete: false,
            clear: false,
            pki: None,
            advertise: None,
            iperf3: None,
            allow_local_targets: false,
            allowance: Allowance::default(),
            fleeting: false,
        }
    }
}

/// A running endpoint.
#[derive(Debug)]
pub struct Endpoint {
    config: Config,
    served: ServedRoot,
    followed: Vec<Vec<u8>>,
    /// What lies beneath the root, or where links lead, and no peer finds.
    hidden: Vec<PathBuf>,
    door: Door,
    shown: RwLock<Shown>,
    secret: Digest,
    catalogues: Catalogues,
    activity: Activity,
    accounts: Accounts,
    once: Mutex<HashMap<[u8; 16], OneTime>>,
    iperf3: Option<Servers>,
    /// Where others reach it over HTTP.
    http: OnceLock<String>,
    revoked: Mutex<access::Revoked>,
    counted: Counted,
}

/// Who the endpoint is to those who connect.
#[derive(Clone, Debug)]
struct Shown {
    identity: Arc<Identity>,
    tls: Arc<ServerConfig>,
    /// With a PKI: its authorities, and those of before, of which peers may be whose transfers still run.
    authorities: Option<Arc<RootCertStore>>,
}

impl Neighbour for Endpoint {
    fn taker(&self, token: &Digest) -> Option<Arc<dyn BlockTaker>> {
        self.session(&session_name(token))?.taker()
    }
}

impl Endpoint {
    /// Opens the root and the state, and starts to listen.
    pub fn bind(config: Config) -> Result<Arc<Self>> {
        use std::os::unix::ffi::OsStrExt;
        let root_path = config.root.as_os_str().as_bytes();
        let failed = |error| Error::io("serve", root_path, error);
        let absolute = confined::canonical(root_path).map_err(failed)?;
        let root = Root::open(&absolute).map_err(failed)?;
        let followed: Vec<Vec<u8>> =
            config.follow.iter().map(|path| resolved(path)).collect::<Result<_>>()?;
        let identity = match &config.pki {
            Some(identity) => Arc::clone(identity),
            None => Arc::new(Identity::load_or_create(&config.state)?),
        };
        let secret = match config.fleeting {
            true => random::bytes(),
            false => load_secret(&config.state.join("endpoint.secret"))?,
        };
        let state = Root::open(config.state.as_os_str().as_bytes()).map_err(|error| {
            Error::io("use the state directory", config.state.as_os_str().as_bytes(), error)
        })?;
        let catalogues = Catalogues::new(&state)?;
        let (root, hidden) = private::hide(root, &followed, &config)?;
        let listener = net::listen(config.listen).map_err(|error| {
            let kind =
                if error.kind() == std::io::ErrorKind::AddrInUse { ErrorKind::Busy } else { ErrorKind::Io };
            Error::new(kind, format!("cannot listen on {}: {error}", config.listen))
        })?;
        let door = Door::at(listener);
        let authorities = identity.authorities_with(None);
        let shown = RwLock::new(Shown { tls: identity.server()?, identity, authorities });
        Ok(Arc::new(Self {
            served: ServedRoot::new(root, absolute),
            followed,
            hidden,
            door,
            shown,
            secret,
            catalogues,
            activity: Activity::default(),
            accounts: Accounts::new(config.allowance),
            once: Mutex::default(),
            iperf3: config.iperf3.clone().map(Servers::new),
            http: OnceLock::new(),
            revoked: Mutex::default(),
            counted: Counted::default(),
            config,
        }))
    }

    fn shown(&self) -> Shown {
        self.shown.read().clone()
    }

    fn identity(&self) -> Arc<Identity> {
        self.shown().identity
    }

    /// The site's own PKI, if it has one.
    fn pki(&self) -> Option<Arc<Identity>> {
        Some(self.identity()).filter(|identity| identity.is_mutual())
    }

    /// From now on the site's PKI is this. Sessions that run go on, and so do their data streams, which show what their session
    /// proved.
    ///
    /// # Errors
    /// It cannot be used; then all stays as it was.
    pub fn renew(&self, identity: Arc<Identity>) -> Result<()> {
        let mut shown = self.shown.write();
        let authorities = identity.authorities_with(shown.authorities.as_ref());
        let tls = identity.server_knowing(authorities.clone())?;
        *shown = Shown { identity, tls, authorities };
        Ok(())
    }

    /// The address peers use, with a ticket that allows `claims` (none with a PKI).
    pub fn address(&self, claims: &Claims) -> Result<Address> {
        let local = self.listens_at()?;
        let advertised = self.config.advertise.as_ref();
        let host = match advertised {
            Some(place) => place.host.clone(),
            None if local.ip().is_unspecified() => String::from_utf8_lossy(&host::name()).into_owned(),
            None => local.ip().to_string(),
        };
        let ticket = (!self.identity().is_mutual()).then(|| self.ticket(claims));
        let port = advertised.and_then(|place| place.port).unwrap_or_else(|| local.port());
        Ok(Address { ticket, host, port, path: Vec::new() })
    }

    fn ticket(&self, claims: &Claims) -> Ticket {
        let claims = claims.encode();
        Ticket { fingerprint: self.identity().fingerprint(), key: derive_key(&self.secret, &claims), claims }
    }

    /// Accepts connections until [`drain`](Self::drain) is called and the last transfer has ended.
    pub fn serve(self: &Arc<Self>) {
        loop {
            let socket = self.door.listener.accept();
            // Until the last transfer has ended its data streams may still come.
            if self.activity.draining.load(Relaxed) && self.is_idle() {
                break;
            }
            match socket {
                Ok((socket, peer)) => self.receive(socket, peer),
                Err(error) => {
                    self.could_not_serve(&error);
                    // Out of descriptors, most likely: those of an unauthenticated peer are free in a moment.
                    let peer = self.door.unauthenticated.lock().relieve(Instant::now());
                    if let Some(peer) = peer {
                        let _ = peer.shutdown(Shutdown::Both);
                    }
                    thread::sleep(Duration::from_millis(10));
                }
            }
        }
    }

    /// Serves a connection that we made ourselves to whoever asked for it, as one that was accepted.
    pub fn take(self: &Arc<Self>, socket: TcpStream) -> Result<()> {
        let lost = |error| Error::connection("lost the connection to", "whoever asked for it", error);
        let peer = socket.peer_addr().map_err(lost)?;
        self.receive(socket, peer);
        Ok(())
    }

    /// What lies beneath the root, or in a directory that links may lead to, and is not served.
    pub fn not_served(&self) -> &[PathBuf] {
        &self.hidden
    }

    /// The directory that is served, as it is now.
    fn root(&self) -> Result<Arc<Root>> {
        self.served.open(&self.config, &self.followed)
    }

    /// Counts a request that was answered over HTTP with this status.
    pub fn count_http(&self, status: u16) {
        self.counted.answered(status);
    }

    /// What it did since it began.
    pub fn counts(&self) -> EndpointCounts {
        let unproven = self.door.unauthenticated.lock().len() as u64;
        EndpointCounts { unproven, has_root: self.root().is_ok(), ..self.counted.so_far() }
    }

    /// The port it listens on.
    pub fn port(&self) -> Result<u16> {
        self.listens_at().map(|address| address.port())
    }

    fn listens_at(&self) -> Result<SocketAddr> {
        self.door
            .listener
            .local_addr()
            .map_err(|error| Error::new(ErrorKind::Io, format!("cannot tell where we listen: {error}")))
    }

    fn could_not_serve(&self, error: &std::io::Error) {
        if let Some(count) = self.door.unserved.count(Instant::now()) {
            tracing::warn!("cannot serve a connection ({count} since the last such line): {error}");
        }
    }

    fn is_idle(&self) -> bool {
        self.activity.sessions.lock().is_empty()
            && self.activity.relayed.load(Relaxed) == 0
            && self.iperf3.as_ref().is_none_or(Servers::is_idle)
    }

    /// Takes no new sessions, and lets [`serve`](Self::serve) return once the running ones have ended.
    pub fn drain(&self) {
        self.activity.draining.store(true, Relaxed);
        self.wake();
    }

    /// Lets the accepting thread look whether it is done.
    fn wake(&self) {
        if let Ok(mut address) = self.door.listener.local_addr() {
            if address.ip().is_unspecified() {
                address.set_ip(match address {
                    SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
                    SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
                });
            }
            let _ = net::connect(&address, Duration::from_secs(1));
        }
    }

    fn receive(self: &Arc<Self>, socket: TcpStream, peer: SocketAddr) {
        let origin = Origin::of(peer.ip());
        let known = match socket.try_clone() {
            Ok(known) => known,
            Err(error) => return self.could_not_serve(&error),
        };
        let now = Instant::now();
        let answer = self.door.unauthenticated.lock().arrive(origin, now, known);
        let number = match answer {
            Answer::Welcome(number, None) => number,
            Answer::Welcome(number, Some(ended)) => {
                self.made_room(now);
                let _ = ended.shutdown(Shutdown::Both);
                number
            }
            Answer::TurnedAway => return self.made_room(now),
        };
        let endpoint = Arc::clone(self);
        let welcome = move || {
            let arrival = handshake::accept(socket, &endpoint.shown().tls, endpoint.config.clear);
            endpoint.door.unauthenticated.lock().leave(number);
            match arrival {
                Ok(None) => {}
                Ok(Some(arrival)) => {
                    if let Err(error) = endpoint.admit(arrival, (origin, peer)) {
                        tracing::info!("{error}");
                    }
                }
                Err(error) => {
                    endpoint.counted.refused("handshake");
                    if let Some(count) = endpoint.door.failed.count(Instant::now()) {
                        tracing::info!(
                            "{peer} was refused: {error} ({count} such connections since the last such line)"
                        );
                    }
                }
            }
        };
        if let Err(error) = thread::Builder::new().name("welcome".to_owned()).spawn(welcome) {
            self.door.unauthenticated.lock().leave(number);
            self.could_not_serve(&error);
        }
    }

    fn made_room(&self, now: Instant) {
        if let Some(count) = self.door.crowded.count(now) {
            tracing::warn!("too many connections that prove nothing: {count} ended since the last such line");
        }
    }

    /// Checks an arrival's proof, then serves it.
    fn admit(self: &Arc<Self>, arrival: Arrival, (origin, peer): (Origin, SocketAddr)) -> Result<()> {
        let Arrival { mut channel, opening, binding } = arrival;
        match opening {
            Opening::Stream(hello) => {
                self.admit_stream(channel, &hello, &binding).map_err(|error| error.within(peer.to_string()))
            }
            Opening::Session(hello) => match self.admit_session(&channel, &hello, &binding) {
                Ok((session, version)) => {
                    let _here = Here::new(self, origin);
                    let welcome = encode(&Message::Welcome(Record::of(&Welcome::to(version))));
                    std::io::Write::write_all(&mut channel, &welcome)
                        .map_err(|error| Error::connection("lost", "a peer", error))?;
                    hosted::host(self, channel, &session)
                }
                Err(error) => {
                    let _ =
                        std::io::Write::write_all(&mut channel, &encode(&Message::Refused(error.clone())));
                    let _ = channel.finish();
                    self.counted.refused(word(error.kind));
                    Err(error.within(format!("{peer} was refused")))
                }
            },
        }
    }

    /// What the peer may, whose account that is and its place there, and the version to speak.
    fn admit_session(
        &self,
        channel: &Channel,
        hello: &Record<Hello>,
        binding: &[u8],
    ) -> Result<(SessionContext, u16)> {
        let refuse = |why: &str| Err(Error::new(ErrorKind::Authentication, why));
        if !matches!(channel, Channel::Tls(_)) {
            return refuse("sessions need TLS");
        }
        let hello = hello.read()?;
        let Some(version) = common_version(VERSIONS, hello.versions) else {
            let ((oldest, newest), (first, last)) = (hello.versions, VERSIONS);
            let older = if newest < first { "yours" } else { "this one" };
            let why = format!(
                "you speak protocol versions {oldest} to {newest}, this endpoint speaks {first} to {last}: update {older}"
            );
            return Err(Error::new(ErrorKind::Protocol, why));
        };
        let identity = self.identity();
        // What let it in may have been an authority of before.
        identity.check_peer(channel.peer_certificates())?;
        let claims = match &hello.claims {
            None if identity.is_mutual() => Claims { delete: self.config.allow_delete, ..Claims::FULL },
            None => return refuse("a ticket is needed"),
            Some(claims) => {
                let key = derive_key(&self.secret, claims);
                // blake3::Hash compares in constant time.
                if proof(&key, "session", binding) != blake3::Hash::from_bytes(hello.proof) {
                    return refuse("the ticket is not valid here");
                }
                Claims::decode(claims)?
            }
        };
        claims.check_time(clock::wall())?;
        let (account, learns_hashes, within) = match &claims.once {
            None => {
                let account = self.accounts.of(hello.claims.as_deref(), channel.peer_certificate());
                (account, claims.read, claims.path.clone())
            }
            // It counts as the one that it came of.
            Some(once) => match self.once.lock().remove(once) {
                Some(issued) if issued.at.elapsed() < ONE_TIME => {
                    (issued.account, issued.learns_hashes, issued.within)
                }
                _ => return refuse("the one-time ticket has been used or has expired"),
            },
        };
        if self.activity.draining.load(Relaxed) {
            return Err(Error::new(ErrorKind::Busy, "the endpoint is shutting down"));
        }
        let place = account.enter()?;
        Ok((SessionContext { claims, within, account, _place: place, learns_hashes }, version))
    }

    fn admit_stream(&self, channel: Channel, hello: &StreamHello, binding: &[u8]) -> Result<()> {
        let refuse = |why: &str| {
            Err(Error::new(ErrorKind::Authentication, format!("a data stream was refused: {why}")))
        };
        let Some(hosted) = self.session(&hello.session) else { return refuse("its session is not known") };
        if stream_proof(hosted.token(), hello.index, binding) != blake3::Hash::from_bytes(hello.proof) {
            return refuse("its proof is wrong");
        }
        hosted.stream_arrived(hello.index, channel)
    }

    /// The session whose streams show `name`.
    fn session(&self, name: &[u8; 16]) -> Option<Arc<Hosted>> {
        self.activity.sessions.lock().get(name).map(Arc::clone)
    }

    /// A ticket for writing to `path`, and for deleting there if `delete`.
    fn issue_one_time(&self, path: &[u8], delete: bool, session: &SessionContext) -> Result<String> {
        let path = path.strip_suffix(b"/").unwrap_or(path).to_vec();
        self.issue(session, |once, expires| Claims { read: false, write: true, path, expires, once, delete })
    }

    /// A ticket for an iperf3 server and nothing else: it reads nothing and writes nothing.
    fn issue_for_iperf3(&self, session: &SessionContext) -> Result<String> {
        let path = Vec::new();
        let delete = false;
        self.issue(session, |once, expires| Claims { read: false, write: false, path, expires, once, delete })
    }

    /// A ticket that holds once, with what `claims` makes of its number and of when it expires.
    fn issue(
        &self,
        session: &SessionContext,
        claims: impl FnOnce(Option<[u8; 16]>, Option<u64>) -> Claims,
    ) -> Result<String> {
        let SessionContext { account, learns_hashes, within, .. } = session;
        let nonce = *random::bytes().first_chunk().expect("long enough");
        let mut once = self.once.lock();
        once.retain(|_, issued| issued.at.elapsed() < ONE_TIME);
        let held = remember(&account.share.metadata, 4 * size_of::<OneTime>() + within.len())?;
        let (at, account, within) = (Instant::now(), Arc::clone(account), within.clone());
        once.insert(nonce, OneTime { at, account, learns_hashes: *learns_hashes, within, _held: held });
        // What is done with it ends when the ticket that it came of expires.
        Ok(self.ticket(&claims(Some(nonce), session.claims.expires)).encode())
    }

    /// Makes `hosted` known to data streams.
    fn register(&self, hosted: &Arc<Hosted>) {
        self.activity.sessions.lock().insert(session_name(hosted.token()), Arc::clone(hosted));
    }

    fn unregister(&self, hosted: &Arc<Hosted>) {
        self.activity.sessions.lock().remove(&session_name(hosted.token()));
        self.has_ended();
    }

    /// Something that draining waits for has ended.
    fn has_ended(&self) {
        if self.activity.draining.load(Relaxed) && self.is_idle() {
            self.wake();
        }
    }
}

/// A kind of refusal, in a word.
fn word(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Authentication => "authentication",
        ErrorKind::Protocol => "protocol",
        ErrorKind::Busy => "busy",
        _ => "other",
    }
}

/// A ticket that holds once.
#[derive(Debug)]
struct OneTime {
    at: Instant,
    account: Arc<Account>,
    learns_hashes: bool,
    within: Vec<u8>,
    _held: Held,
}

/// A peer that has proved itself.
#[derive(Debug)]
struct SessionContext {
    /// What its ticket allows.
    claims: Claims,
    /// What links that it names may lead to: the path of its ticket, or of the one that a one-time ticket came of.
    within: Vec<u8>,
    /// Whose ticket it is, and its place there.
    account: Arc<Account>,
    _place: Held,
    /// Whether it may be told hashes of what is here: with a ticket to read, or a one-time ticket that came of one.
    learns_hashes: bool,
}

/// A session of a peer at `origin`, which new connections from there are let in for.
struct Here<'a> {
    endpoint: &'a Endpoint,
    origin: Origin,
}

impl<'a> Here<'a> {
    fn new(endpoint: &'a Endpoint, origin: Origin) -> Self {
        endpoint.door.unauthenticated.lock().session_began(origin);
        Self { endpoint, origin }
    }
}

impl Drop for Here<'_> {
    fn drop(&mut self) {
        self.endpoint.door.unauthenticated.lock().session_ended(self.origin);
    }
}

/// The absolute path of a directory that links may lead to.
fn resolved(path: &Path) -> Result<Vec<u8>> {
    use std::os::unix::ffi::OsStrExt;
    let path = path.as_os_str().as_bytes();
    let failed = |error| Error::io("follow links to", path, error);
    let absolute = confined::canonical(path).map_err(failed)?;
    Root::open(&absolute).map_err(failed)?;
    Ok(absolute)
}

/// Stream numbers seen in one session; each may be used once.
type Seen = Mutex<HashSet<u32>>;

/// The endpoint's secret, made on first use.
fn load_secret(path: &Path) -> Result<Digest> {
    if let Some(secret) = read_secret(path)? {
        return Ok(secret);
    }
    // Of two that begin at once, one makes it, and both have the same.
    let _held = path.parent().map(lock::hold_directory).transpose().map_err(|error| {
        Error::new(ErrorKind::Usage, format!("cannot make {}: {error}", path.display())).because(error)
    })?;
    if let Some(secret) = read_secret(path)? {
        return Ok(secret);
    }
    let secret = random::bytes();
    write_private(path, data_encoding::HEXLOWER.encode(&secret).as_bytes())?;
    Ok(secret)
}

/// The secret in the file at `path`, if there is one.
fn read_secret(path: &Path) -> Result<Option<Digest>> {
    let damaged = || {
        let why = format!("{} is damaged: remove it to make a new secret (old tickets end)", path.display());
        Error::new(ErrorKind::Usage, why)
    };
    match fs::read_to_string(path) {
        Ok(text) => {
            let bytes = data_encoding::HEXLOWER.decode(text.trim().as_bytes()).map_err(|_| damaged())?;
            bytes.try_into().map(Some).map_err(|_| damaged())
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::new(ErrorKind::Usage, format!("cannot read {}: {error}", path.display()))),
    }
}

/// What a ticket is called where its secret must not stand, in logs; none with a PKI.
pub fn ticket_name(address: &Address) -> Option<String> {
    let ticket = address.ticket.as_ref()?;
    Some(accounts::name(&accounts::id_of(Some(&ticket.claims), None)))
}

/// A ticket that allows `claims`, for an endpoint whose state directory is `state`; nothing is made there.
pub fn ticket_from_state(state: &Path, claims: &Claims) -> Result<Ticket> {
    let secret = secret_from_state(state)?;
    let Some(identity) = Identity::load(state)? else { return Err(no_state(state)) };
    let claims = claims.encode();
    Ok(Ticket { fingerprint: identity.fingerprint(), key: derive_key(&secret, &claims), claims })
}

/// The secret of an endpoint whose state directory is `state`; nothing is made there.
fn secret_from_state(state: &Path) -> Result<Digest> {
    read_secret(&state.join("endpoint.secret"))?.ok_or_else(|| no_state(state))
}

fn no_state(state: &Path) -> Error {
    let why = format!(
        "no endpoint keeps its state in {}: start it once (`tidegate endpoint --state DIR`), or name its state directory by --state",
        state.display()
    );
    Error::new(ErrorKind::Usage, why)
}
