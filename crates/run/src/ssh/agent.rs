//! The other end of ssh: an endpoint for as long as the session lasts, or the carrier of one connection to it.

use std::io::{self, BufRead, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use tidegate_contract::home;
use tidegate_transfer::endpoint::{Config, Endpoint};
use tidegate_transfer::error::{Error, Result, usage};
use tidegate_transfer::quota::Allowance;
use tidegate_transfer::wire::greeting::Spoken;
use tidegate_transfer::wire::ticket::Claims;

use crate::beneath::beneath_root;
use crate::settings::TrustArgs;
use crate::ssh::conversation::{
    Answer, Asked, Bytes, Order, Question, Ready, Report, SILENCE, Wanted, hear, listening_places, say,
};

/// How long whoever asked us to connect may take to accept.
const DIAL: Duration = Duration::from_secs(5);

/// How long transfers that are over may take to end after the session has.
const LINGER: Duration = Duration::from_secs(2);

/// How much is carried at once.
const CARRIED: usize = 256 << 10;

/// Does what standard input asks for, until it ends.
pub fn run(trust: &TrustArgs) -> Result<ExitCode> {
    let mut stdin = io::BufReader::new(io::stdin());
    let no_question = |why: String| {
        usage(format!("--once of tidegate {} is for the other end of ssh: {why}", env!("CARGO_PKG_VERSION")))
    };
    let question: Question = hear(&mut stdin)
        .map_err(|error| no_question(format!("what it was asked cannot be read: {error}")))?
        .ok_or_else(|| no_question("it was asked nothing".to_owned()))?;
    let mark = question.mark();
    match question.wanted {
        Wanted::Stream(port) => carry(stdin, port, &mark),
        Wanted::Endpoint(asked) => serve(stdin, &asked, trust, &mark),
    }
}

/// Serves the whole of this host to whoever started us, with the rights of whom they logged in as.
fn serve(
    stdin: impl BufRead + Send + 'static,
    asked: &Asked,
    trust: &TrustArgs,
    mark: &str,
) -> Result<ExitCode> {
    let begun = begin(asked, trust);
    let mut stdout = io::stdout();
    let answered = match &begun {
        Ok((_, ready)) => answer(&mut stdout, mark, &Answer::Ready(ready.clone())),
        Err(error) => answer(&mut stdout, mark, &Answer::Refused(error.clone())),
    };
    let (endpoint, _) = begun?;
    answered.map_err(|error| Error::connection("lost the connection to", "whoever started ssh", error))?;
    let serving = {
        let endpoint = Arc::clone(&endpoint);
        thread::spawn(move || endpoint.serve())
    };
    obey(&endpoint, &heard(stdin));
    endpoint.drain();
    let end = Instant::now() + LINGER;
    while !serving.is_finished() && Instant::now() < end {
        thread::sleep(Duration::from_millis(10));
    }
    // Whatever still runs ends with us: there is nobody to tell, and what is safe is in the journal.
    Ok(ExitCode::SUCCESS)
}

fn answer(stdout: &mut impl Write, mark: &str, answer: &Answer) -> io::Result<()> {
    stdout.write_all(mark.as_bytes())?;
    say(stdout, answer)
}

fn begin(asked: &Asked, trust: &TrustArgs) -> Result<(Arc<Endpoint>, Ready)> {
    let home = home::home().unwrap_or_else(|| PathBuf::from("/"));
    std::env::set_current_dir(&home)
        .map_err(|error| Error::io("enter the home directory", home.as_os_str().as_bytes(), error))?;
    let destination = asked.destination.as_ref();
    let destination = destination.map(|typed| beneath_root(in_home(&typed.0)).map(Bytes)).transpose()?;
    let endpoint = listen(asked, trust)?;
    let ready = Ready {
        program: env!("CARGO_PKG_VERSION").to_owned(),
        protocol: Some(Spoken::ours()),
        endpoint: endpoint.address(&Claims::OWNER)?.to_string(),
        host: session_ends().map(|(_, ours)| ours.to_string()),
        home: Bytes(home.as_os_str().as_bytes().to_vec()),
        destination,
    };
    Ok((endpoint, ready))
}

/// A path as the home directory has it.
fn in_home(path: &[u8]) -> &[u8] {
    match path.strip_prefix(b"~/").unwrap_or(path) {
        b"" | b"~" => b".",
        path => path,
    }
}

/// Listens on the first port of those allowed that is free.
fn listen(asked: &Asked, trust: &TrustArgs) -> Result<Arc<Endpoint>> {
    let state = trust.state_dir()?;
    let mut failed = None;
    for listen in listening_places(asked.ports) {
        let config = Config {
            listen,
            // The channel is ssh's where streams are in the clear, and whoever started us decides.
            clear: true,
            allow_local_targets: true,
            allowance: Allowance::UNLIMITED,
            fleeting: true,
            serves_owner: true,
            ..Config::local("/", &state)
        };
        match Endpoint::bind(config) {
            Ok(endpoint) => return Ok(endpoint),
            Err(error) => failed = Some(error),
        }
    }
    Err(failed.unwrap_or_else(|| usage("the range of ports is empty")))
}

/// Whose address ssh came from, and the one it came to.
fn session_ends() -> Option<(IpAddr, IpAddr)> {
    let words = std::env::var("SSH_CONNECTION").ok()?;
    let mut words = words.split_whitespace();
    let theirs = words.next()?.parse().ok()?;
    Some((theirs, words.nth(1)?.parse().ok()?))
}

/// What is said on standard input, from a thread of its own so that silence can be noticed.
fn heard(mut stdin: impl BufRead + Send + 'static) -> Receiver<Order> {
    let (speak, orders) = mpsc::channel();
    thread::spawn(move || {
        while let Ok(Some(order)) = hear(&mut stdin) {
            if speak.send(order).is_err() {
                break;
            }
        }
    });
    orders
}

/// Does what is asked until the session ends or falls silent.
fn obey(endpoint: &Arc<Endpoint>, orders: &Receiver<Order>) {
    loop {
        match orders.recv_timeout(SILENCE) {
            Ok(Order::Alive) => {}
            Ok(Order::Dial { port, host, token }) => {
                let endpoint = Arc::clone(endpoint);
                thread::spawn(move || {
                    if let Err(error) = dial(&endpoint, port, host.as_deref(), &token) {
                        let _ = say(&mut io::stdout(), &Report::NotDialled(error.to_string()));
                    }
                });
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Connects to whoever started ssh, and serves that connection as if it had come.
fn dial(endpoint: &Arc<Endpoint>, port: u16, host: Option<&str>, token: &Bytes) -> io::Result<()> {
    let unknown = || io::Error::new(io::ErrorKind::NotFound, "it is not known where ssh came from");
    let candidates: Vec<SocketAddr> = match host {
        Some(host) => (host, port).to_socket_addrs()?.collect(),
        None => vec![SocketAddr::new(session_ends().ok_or_else(unknown)?.0, port)],
    };
    let mut socket = connect_to_one(&candidates, DIAL)?;
    socket.write_all(&token.0)?;
    endpoint.take(socket).map_err(io::Error::other)
}

/// Connects to the first of `candidates` that answers, within `patience` in all.
pub(crate) fn connect_to_one(candidates: &[SocketAddr], patience: Duration) -> io::Result<TcpStream> {
    let end = Instant::now() + patience;
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for candidate in candidates {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        match TcpStream::connect_timeout(candidate, left) {
            Ok(socket) => return Ok(socket),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Carries what comes on standard input to the endpoint at `port` of this host, and what it answers back.
fn carry(mut stdin: impl Read + Send + 'static, port: u16, mark: &str) -> Result<ExitCode> {
    let failed =
        |error| Error::connection("cannot reach", format!("the endpoint on port {port} here"), error);
    let socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port))
        .or_else(|_| TcpStream::connect((Ipv6Addr::LOCALHOST, port)))
        .map_err(failed)?;
    let _ = socket.set_nodelay(true);
    let mut stdout = io::stdout();
    let mut there = socket.try_clone().map_err(failed)?;
    writeln!(stdout, "{mark}").and_then(|()| stdout.flush()).map_err(failed)?;
    thread::spawn(move || {
        let _ = pass(&mut stdin, &mut there);
        let _ = there.shutdown(Shutdown::Write);
    });
    // Whoever reads or serves has hung up: that is how it ends.
    let _ = pass(&mut &socket, &mut stdout);
    Ok(ExitCode::SUCCESS)
}

fn pass(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut buffer = vec![0; CARRIED];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(n) => to.write_all(&buffer[..n]).and_then(|()| to.flush())?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
