//! `iperf3 -s` for a peer that has proved itself, so that it can sample the path to here: what the EOS paper calls
//! TranServer.
//!
//! iperf3 itself asks nobody for a ticket. So a server is started for one test only, on the address that the peer
//! reached, and lives no longer than the session that asked for it. And `iperf3 -c` against the server of another
//! endpoint, for a peer that measures between the two.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, ErrorKind as IoErrorKind, Read};
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::spec::{Iperf3Amount, Iperf3Test};
use crate::sys::net;
use crate::sys::sync::{Mutex, mpsc};
use crate::sys::thread;
use crate::wire::message::MAX_REPORT;

/// Most servers at a time: more tests would only measure each other.
const MAX_SERVERS: usize = 4;

/// How long a server may take to listen.
const STARTING: Duration = Duration::from_secs(5);

/// What it prints then.
const LISTENING: &str = "Server listening";

/// What it says when its port went to somebody else between our look and its start, or when a child that was begun at
/// that moment still held our look open; so often another port is tried.
const IN_USE: &str = "Address already in use";
const TRIES: usize = 8;

/// Most streams that iperf3 opens.
const MAX_STREAMS: u16 = 128;

/// How long a client may take to connect, in ms.
const CONNECTING_MS: &str = "10000";

/// Most of its messages that is looked at.
const MAX_SAID: u64 = 4096;

/// The servers of an endpoint.
#[derive(Debug)]
pub(crate) struct Servers {
    ports: RangeInclusive<u16>,
    taken: Mutex<BTreeSet<u16>>,
    clients: Mutex<usize>,
}

/// One that runs; ended when it is dropped.
#[derive(Debug)]
pub(crate) struct Server<'a> {
    taken: Taken<'a>,
    child: Child,
}

/// A port that is ours for now.
#[derive(Debug)]
struct Taken<'a> {
    servers: &'a Servers,
    port: u16,
}

impl Servers {
    /// On these ports; 0 is any that is free.
    pub fn new(ports: RangeInclusive<u16>) -> Self {
        Self { ports, taken: Mutex::default(), clients: Mutex::default() }
    }

    /// Whether none runs, and no client.
    pub(crate) fn is_idle(&self) -> bool {
        self.taken.lock().is_empty() && *self.clients.lock() == 0
    }

    /// Makes `test` against the server at `address`, for as long as it `goes_on`, and answers with what iperf3 printed.
    ///
    /// # Errors
    /// In one line: as many tests as may be are made already, or iperf3 cannot be run, or it was ended.
    pub fn measure(
        &self,
        address: SocketAddr,
        test: &Iperf3Test,
        goes_on: impl FnMut() -> bool,
    ) -> Result<Vec<u8>> {
        if !(1..=MAX_STREAMS).contains(&test.streams) {
            let why = format!("iperf3 opens 1 to {MAX_STREAMS} streams, not {}", test.streams);
            return Err(Error::new(ErrorKind::Usage, why));
        }
        let _client = Client::begin(self)?;
        let child = client(address, test).spawn().map_err(|error| not_started(&error))?;
        wait(Running(child), goes_on)
    }

    /// Starts one for one test, and waits until it listens on `address`.
    pub fn start(&self, address: IpAddr, limit: Duration) -> Result<Server<'_>> {
        let mut tries = 1;
        loop {
            match self.start_once(address, limit) {
                Err(error) if tries < TRIES && error.to_string().contains(IN_USE) => tries += 1,
                result => return result,
            }
        }
    }

    fn start_once(&self, address: IpAddr, limit: Duration) -> Result<Server<'_>> {
        let taken = self.take(address)?;
        let mut command = Command::new("iperf3");
        // It forgets itself if nobody is left to end it: we may be killed.
        let idle = limit.as_secs().max(1).to_string();
        command.args(["-s", "-1", "--forceflush", "--idle-timeout", &idle]);
        command.args(["-p", &taken.port.to_string(), "-B", &address.to_string()]);
        command.env("LC_ALL", "C").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().map_err(|error| not_started(&error))?;
        let mut server = Server { taken, child };
        let output = server.child.stdout.take();
        match output.is_some_and(listens) {
            true => Ok(server),
            false => Err(server.failed()),
        }
    }

    fn take(&self, address: IpAddr) -> Result<Taken<'_>> {
        let mut taken = self.taken.lock();
        if taken.len() >= MAX_SERVERS {
            let why = format!("{MAX_SERVERS} iperf3 servers run already: try again in a moment");
            return Err(Error::new(ErrorKind::Busy, why));
        }
        // Any free port may be one of a server that does not listen yet.
        let ports = std::iter::repeat_n(self.ports.clone(), if *self.ports.end() == 0 { TRIES } else { 1 });
        let mut untaken = ports.flatten().filter(|port| !taken.contains(port));
        let free = untaken.find_map(|port| {
            let listener = net::listen((address, port)).ok()?;
            listener.local_addr().ok().map(|local| local.port()).filter(|port| !taken.contains(port))
        });
        let port = free.ok_or_else(|| {
            let (first, last) = (self.ports.start(), self.ports.end());
            let why = format!(
                "no port from {first} to {last} is free for iperf3: try again, or give the endpoint more"
            );
            Error::new(ErrorKind::Busy, why)
        })?;
        taken.insert(port);
        Ok(Taken { servers: self, port })
    }
}

fn not_started(error: &std::io::Error) -> Error {
    match error.kind() {
        IoErrorKind::NotFound => Error::new(ErrorKind::Io, "iperf3 is not installed there"),
        _ => Error::new(ErrorKind::Io, format!("iperf3 cannot be started there: {error}")),
    }
}

/// One test that is made here; counted until it is dropped.
#[derive(Debug)]
struct Client<'a>(&'a Servers);

impl<'a> Client<'a> {
    fn begin(servers: &'a Servers) -> Result<Self> {
        let mut clients = servers.clients.lock();
        if *clients >= MAX_SERVERS {
            let why = format!("{MAX_SERVERS} iperf3 tests run already: try again in a moment");
            return Err(Error::new(ErrorKind::Busy, why));
        }
        *clients += 1;
        Ok(Self(servers))
    }
}

impl Drop for Client<'_> {
    fn drop(&mut self) {
        *self.0.clients.lock() -= 1;
    }
}

fn client(address: SocketAddr, test: &Iperf3Test) -> Command {
    let mut command = Command::new("iperf3");
    command.args(["-c", &address.ip().to_string(), "-p", &address.port().to_string(), "-J", "-i", "0"]);
    command.args(["-P", &test.streams.to_string(), "--connect-timeout", CONNECTING_MS]);
    match test.amount {
        Iperf3Amount::Seconds(seconds) => command.args(["-t", &seconds.max(1).to_string()]),
        Iperf3Amount::Bytes(bytes) => command.args(["-n", &bytes.0.max(1).to_string()]),
        Iperf3Amount::SecondsAfter { omitted, measured } => {
            // More than a minute it does not leave out.
            command.args(["-O", &omitted.min(60).to_string(), "-t", &measured.max(1).to_string()])
        }
    };
    if test.reverse {
        command.arg("-R");
    }
    if let Some(buffer) = test.buffer {
        command.args(["-w", &buffer.0.to_string()]);
    }
    command.env("LC_ALL", "C").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A child that is ended when it is dropped.
#[derive(Debug)]
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until a client has ended, and answers with its report.
fn wait(mut running: Running, mut goes_on: impl FnMut() -> bool) -> Result<Vec<u8>> {
    let failed = |why: &str| Error::new(ErrorKind::Io, format!("its iperf3 failed: {why}"));
    let (says, heard) = mpsc::channel();
    let (output, messages) = (running.0.stdout.take(), running.0.stderr.take());
    thread::spawn(move || {
        let mut report = Vec::new();
        if let Some(output) = output {
            let _ = output.take(MAX_REPORT as u64 + 1).read_to_end(&mut report);
        }
        let _ = says.send(report);
    });
    let report = loop {
        match heard.try_recv() {
            Ok(report) => break report,
            Err(_) if goes_on() => {}
            Err(_) => return Err(failed("it did not end in time and was stopped")),
        }
    };
    match report.len() {
        0 => {
            let mut text = String::new();
            if let Some(stream) = messages {
                let _ = stream.take(MAX_SAID).read_to_string(&mut text);
            }
            Err(failed(text.lines().next().unwrap_or("it printed nothing").trim_start_matches("iperf3: ")))
        }
        1..=MAX_REPORT => Ok(report),
        _ => Err(failed("it printed more than 1 MiB")),
    }
}

impl Server<'_> {
    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.taken.port
    }

    /// Whether its test is still to come or under way.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Why it does not listen, after it was ended.
    fn failed(mut self) -> Error {
        let _ = self.child.kill();
        let mut text = String::new();
        if let Some(stream) = self.child.stderr.take() {
            let _ = stream.take(MAX_SAID).read_to_string(&mut text);
        }
        let line = text.lines().next().unwrap_or("it does not listen");
        let line = line.trim_start_matches("iperf3: ").trim_start_matches("error - ");
        Error::new(ErrorKind::Io, format!("its iperf3 server failed: {line}"))
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.servers.taken.lock().remove(&self.port);
    }
}

/// Whether a server says in time that it listens. What it prints later is read and forgotten, as it waits otherwise.
fn listens(output: ChildStdout) -> bool {
    let (says, heard) = mpsc::channel();
    thread::spawn(move || {
        let mut output = BufReader::new(output);
        let mut line = Vec::new();
        while let Ok(1..) = (&mut output).take(MAX_SAID).read_until(b'\n', &mut line) {
            if line.starts_with(LISTENING.as_bytes()) {
                let _ = says.send(());
            }
            line.clear();
        }
    });
    heard.recv_timeout(STARTING).is_ok()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn there_are_so_many_servers_and_each_has_a_port() {
        let local = IpAddr::from([127, 0, 0, 1]);
        let servers = Servers::new(0..=0);
        let mut taken: Vec<_> = (0..MAX_SERVERS).map(|_| servers.take(local).expect("a port")).collect();
        assert_eq!(taken.iter().map(|one| one.port).collect::<BTreeSet<_>>().len(), MAX_SERVERS);
        let error = servers.take(local).expect_err("too many");
        assert_eq!(error.kind, ErrorKind::Busy, "{error}");
        let port = taken.pop().expect("one").port;
        assert!(servers.take(local).is_ok() && !servers.is_idle());
        drop(taken);
        assert!(servers.is_idle());
        // One that is in use is left alone.
        let one = Servers::new(port..=port);
        let held = TcpListener::bind((local, port)).expect("free again");
        assert_eq!(one.take(local).expect_err("in use").kind, ErrorKind::Busy);
        drop(held);
        assert_eq!(one.take(local).expect("free").port, port);
    }
}
