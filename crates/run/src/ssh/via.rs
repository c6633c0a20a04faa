//! How data gets to an endpoint that ssh started: straight to its port, by connections that it makes to us, or through
//! further sessions of ssh.

use std::collections::VecDeque;
use std::io::{self, BufReader, Read};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use tidegate_contract::text::one_line;
use tidegate_transfer::error::{Error, ErrorKind, Result};
use tidegate_transfer::sys::sync::{Condvar, Mutex};
use tidegate_transfer::transfer::route::random_run;
use tidegate_transfer::wire::way::Carrier;

use crate::ssh::agent::connect_to_one;
use crate::ssh::conversation::{Bytes, Order, Question, Wanted, listening_places, say};
use crate::ssh::noise::skip_noise;
use crate::ssh::session::{Session, Ssh, complaint, end};

/// How long a port may take to answer before another way is taken.
const PATIENCE: Duration = Duration::from_secs(3);

/// How many sessions of ssh are begun at once: sshd turns more than ten away that have not logged in.
const BEGUN_AT_ONCE: usize = 4;

/// How long one may take to log in.
const LOGIN: Duration = Duration::from_secs(30);

/// How long whoever connects to us may take to show the token.
const TOKEN_TIME: Duration = Duration::from_secs(3);

/// Most connections whose token is awaited at once.
const MAX_UNPROVED: usize = 32;

/// Which way data takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Via {
    /// The first of the others that works, in this order
    #[default]
    Auto,
    /// We connect to the endpoint's port
    Direct,
    /// The endpoint connects to a port of ours
    Reverse,
    /// Through further sessions of ssh, one for each stream
    Ssh,
}

/// What was found.
#[derive(Debug)]
pub struct Found {
    /// Brings connections.
    pub carrier: Arc<dyn Carrier>,
    /// Which way.
    pub via: Via,
    /// Where its port answers, if it does.
    pub at: Option<IpAddr>,
}

/// Finds a way to the endpoint of `session`.
pub fn find(
    session: &Arc<Session>,
    via: Via,
    advertised: Option<&str>,
    ports: Option<(u16, u16)>,
) -> Result<Found> {
    let place = session.ssh.place();
    let failed = |what: &str, error: io::Error| Error::connection(what, &place, error);
    let mut tried = Vec::new();
    if matches!(via, Via::Auto | Via::Direct) {
        match Direct::find(session, advertised) {
            Ok(carrier) => {
                let at = Some(carrier.found.ip());
                return Ok(Found { carrier: Arc::new(carrier), via: Via::Direct, at });
            }
            Err(error) if via == Via::Direct => {
                let what = format!("port {} is not reached at", session.endpoint.port);
                return Err(failed(&what, error));
            }
            Err(error) => {
                tried.push(format!("port {} there is not reached ({error})", session.endpoint.port));
            }
        }
    }
    if matches!(via, Via::Auto | Via::Reverse) {
        match Reverse::find(session, ports) {
            Ok(carrier) => {
                let why = tried.iter().map(|why| format!(": {why}")).collect::<String>();
                tracing::info!("{place} connects to us{why}");
                return Ok(Found { carrier: Arc::new(carrier), via: Via::Reverse, at: None });
            }
            Err(error) if via == Via::Reverse => return Err(failed("no connection came from", error)),
            Err(error) => tried.push(format!("nor does it reach us ({error})")),
        }
    }
    if via == Via::Auto {
        let why = tried.join(", ");
        tracing::warn!(
            "data goes to {place} through ssh itself, which costs processor time at both ends: {why}"
        );
    }
    Ok(Found { carrier: Arc::new(Through::new(session)), via: Via::Ssh, at: None })
}

/// Connections that we make.
#[derive(Debug)]
struct Direct {
    found: SocketAddr,
    /// The one by which it was found, for the session.
    first: Mutex<Option<TcpStream>>,
    /// Made while the session opens, for the first stream: a round trip sooner.
    second: Mutex<Option<JoinHandle<io::Result<TcpStream>>>>,
}

impl Direct {
    fn find(session: &Session, advertised: Option<&str>) -> io::Result<Self> {
        let socket = connect_to_one(&session.candidates(advertised), PATIENCE)?;
        let found = socket.peer_addr()?;
        let second = thread::spawn(move || TcpStream::connect_timeout(&found, PATIENCE));
        Ok(Self { found, first: Mutex::new(Some(socket)), second: Mutex::new(Some(second)) })
    }

    /// One that was made ahead, unless the endpoint has tired of it.
    fn ahead(&self) -> Option<TcpStream> {
        if let Some(first) = self.first.lock().take() {
            return Some(first);
        }
        let second = self.second.lock().take()?;
        second.join().ok()?.ok().filter(is_silent)
    }
}

impl Carrier for Direct {
    fn connection(&self, patience: Duration) -> io::Result<TcpStream> {
        self.ahead().map_or_else(|| TcpStream::connect_timeout(&self.found, patience), Ok)
    }
}

/// Whether the connection is open and nothing has come on it.
fn is_silent(socket: &TcpStream) -> bool {
    let heard = socket.set_nonblocking(true).and_then(|()| socket.peek(&mut [0]));
    let is_open = heard.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
    is_open && socket.set_nonblocking(false).is_ok()
}

/// Connections that the endpoint makes to us.
#[derive(Debug)]
struct Reverse {
    session: Arc<Session>,
    port: u16,
    came: Arc<Came>,
}

/// Connections that came and have shown the token.
#[derive(Debug)]
struct Came {
    token: [u8; 32],
    waiting: Mutex<VecDeque<TcpStream>>,
    changed: Condvar,
    unproved: Mutex<usize>,
    over: AtomicBool,
}

impl Reverse {
    fn find(session: &Arc<Session>, ports: Option<(u16, u16)>) -> io::Result<Self> {
        let listener = listen(ports)?;
        let port = listener.local_addr()?.port();
        let mut token = [0; 32];
        token[..16].copy_from_slice(&random_run());
        token[16..].copy_from_slice(&random_run());
        let came = Arc::new(Came {
            token,
            waiting: Mutex::default(),
            changed: Condvar::new(),
            unproved: Mutex::default(),
            over: AtomicBool::new(false),
        });
        let reverse = Self { session: Arc::clone(session), port, came: Arc::clone(&came) };
        thread::spawn(move || accept(&listener, &came));
        let first = reverse.connection(PATIENCE)?;
        reverse.came.arrived(first);
        Ok(reverse)
    }
}

impl Carrier for Reverse {
    fn connection(&self, patience: Duration) -> io::Result<TcpStream> {
        if let Some(first) = self.came.waiting.lock().pop_front() {
            return Ok(first);
        }
        let token = Bytes(self.came.token.to_vec());
        self.session.order(&Order::Dial { port: self.port, host: None, token })?;
        let until = Instant::now() + patience;
        let mut waiting = self.came.waiting.lock();
        loop {
            if let Some(socket) = waiting.pop_front() {
                return Ok(socket);
            }
            if let Ok(why) = self.session.not_dialled.lock().try_recv() {
                return Err(io::Error::new(io::ErrorKind::ConnectionRefused, one_line(&why)));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let glance = left.min(Duration::from_millis(20));
            waiting = self.came.changed.wait_timeout(waiting, glance).0;
        }
    }
}

impl Drop for Reverse {
    fn drop(&mut self) {
        self.came.over.store(true, Relaxed);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect_timeout(&(Ipv4Addr::LOCALHOST, self.port).into(), Duration::from_secs(1));
    }
}

impl Came {
    fn arrived(&self, socket: TcpStream) {
        self.waiting.lock().push_back(socket);
        self.changed.notify_one();
    }

    /// Waits for the token, and lets the connection in if it is right.
    fn prove(&self, mut socket: TcpStream) {
        let mut shown = [0; 32];
        let read = socket.set_read_timeout(Some(TOKEN_TIME)).and_then(|()| socket.read_exact(&mut shown));
        // blake3::Hash compares in constant time.
        let is_right = blake3::Hash::from_bytes(shown) == blake3::Hash::from_bytes(self.token);
        if read.is_ok() && is_right && socket.set_read_timeout(None).is_ok() {
            self.arrived(socket);
        }
    }
}

fn accept(listener: &TcpListener, came: &Arc<Came>) {
    loop {
        let socket = listener.accept();
        if came.over.load(Relaxed) {
            return;
        }
        let Ok((socket, _)) = socket else {
            thread::sleep(Duration::from_millis(10));
            continue;
        };
        {
            let mut unproved = came.unproved.lock();
            if *unproved >= MAX_UNPROVED {
                continue;
            }
            *unproved += 1;
        }
        let came = Arc::clone(came);
        thread::spawn(move || {
            came.prove(socket);
            *came.unproved.lock() -= 1;
        });
    }
}

/// Listens on the first free port of those allowed.
fn listen(ports: Option<(u16, u16)>) -> io::Result<TcpListener> {
    let mut failed = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for place in listening_places(ports) {
        match TcpListener::bind(place) {
            Ok(listener) => return Ok(listener),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// Connections that sessions of ssh carry, one each.
#[derive(Debug)]
struct Through {
    ssh: Ssh,
    port: u16,
    children: Mutex<Vec<Child>>,
    beginning: Mutex<usize>,
    begun: Condvar,
}

impl Through {
    fn new(session: &Session) -> Self {
        let (ssh, port) = (session.ssh.clone(), session.endpoint.port);
        Self { ssh, port, children: Mutex::default(), beginning: Mutex::default(), begun: Condvar::new() }
    }

    fn begin(&self) -> io::Result<TcpStream> {
        // ssh reads and writes one end of a connection from here to here; the other is ours.
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let ours = TcpStream::connect(listener.local_addr()?)?;
        let theirs = loop {
            let (socket, peer) = listener.accept()?;
            if peer == ours.local_addr()? {
                break socket;
            }
        };
        for socket in [&ours, &theirs] {
            socket.set_nodelay(true)?;
        }
        // A session of its own: over a shared one there would be a single TCP connection. Nobody is asked again.
        let mut command = self.ssh.command(&["-S", "none", "-o", "BatchMode=yes"]);
        let mut child = command
            .stdin(OwnedFd::from(theirs.try_clone()?))
            .stdout(OwnedFd::from(theirs))
            .stderr(Stdio::piped())
            .spawn()?;
        // Both ends of the other one are ssh's alone now.
        drop(command);
        let stderr = child.stderr.take().expect("piped");
        let told = thread::spawn(move || complaint(stderr));
        let question = Question::new(Wanted::Stream(self.port));
        ours.set_read_timeout(Some(LOGIN))?;
        let answered = say(&mut &ours, &question).is_ok()
            // One byte at a time, so that nothing of what follows is taken.
            && skip_noise(&mut BufReader::with_capacity(1, &ours), format!("{}\n", question.mark()).as_bytes())
                .map_err(io::Error::other)?;
        if !answered {
            let status = match child.try_wait()? {
                Some(status) => status,
                None => {
                    end(&mut child);
                    child.wait()?
                }
            };
            let error = self.ssh.failed(status, &told.join().unwrap_or_default());
            let kind = match error.kind {
                ErrorKind::Connection => io::ErrorKind::ConnectionRefused,
                _ => io::ErrorKind::PermissionDenied,
            };
            return Err(io::Error::new(kind, format!("a further session of ssh: {error}")));
        }
        ours.set_read_timeout(None)?;
        let mut children = self.children.lock();
        children.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
        children.push(child);
        Ok(ours)
    }
}

impl Carrier for Through {
    fn connection(&self, _: Duration) -> io::Result<TcpStream> {
        let mut beginning = self.beginning.lock();
        while *beginning >= BEGUN_AT_ONCE {
            beginning = self.begun.wait(beginning);
        }
        *beginning += 1;
        drop(beginning);
        let begun = self.begin();
        *self.beginning.lock() -= 1;
        self.begun.notify_one();
        begun
    }
}

impl Drop for Through {
    fn drop(&mut self) {
        let children = self.children.get_mut();
        // Their connections are closed by now, at both ends, so that most have ended.
        let until = Instant::now() + Duration::from_secs(1);
        while Instant::now() < until && children.iter_mut().any(|child| matches!(child.try_wait(), Ok(None)))
        {
            thread::sleep(Duration::from_millis(5));
        }
        children.iter_mut().for_each(end);
    }
}
