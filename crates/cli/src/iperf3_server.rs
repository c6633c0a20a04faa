//! `iperf3 -s` beside an endpoint, so that others can sample the path to here: what the EOS paper calls TranServer.

use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tidegate_transfer::error::Error;

use crate::exit::usage;

/// A server waits so many seconds for a client and is then replaced: one that we could not end, because we were
/// killed, ends by itself.
const IDLE: &str = "60";

/// How often the server is looked after.
const LOOK: Duration = Duration::from_millis(20);

/// A server that ends sooner than this has failed; so long it is waited before the next one.
const FAILED: Duration = Duration::from_millis(200);
const PAUSE: Duration = Duration::from_secs(2);

/// Keeps a server running until it is dropped.
pub struct Iperf3Server {
    over: Arc<AtomicBool>,
    keeping: Option<JoinHandle<()>>,
}

impl Iperf3Server {
    /// Listens on `port` of the address that the endpoint listens on.
    pub fn start(listen: SocketAddr, port: u16) -> Result<Self, Error> {
        let version =
            Command::new("iperf3").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        if let Err(error) = version {
            return Err(usage(format!("--iperf3 needs the program iperf3 (the package iperf3): {error}")));
        }
        let over = Arc::new(AtomicBool::new(false));
        let theirs = Arc::clone(&over);
        let keeping = thread::spawn(move || keep(listen.ip(), port, &theirs));
        Ok(Self { over, keeping: Some(keeping) })
    }
}

impl Drop for Iperf3Server {
    fn drop(&mut self) {
        self.over.store(true, Relaxed);
        if let Some(keeping) = self.keeping.take() {
            let _ = keeping.join();
        }
    }
}

/// One server after the other: each serves one client.
fn keep(address: IpAddr, port: u16, over: &AtomicBool) {
    let mut told = false;
    while !over.load(Relaxed) {
        let begun = Instant::now();
        let why = match serve(address, port) {
            Ok(mut child) => {
                let ended = wait(&mut child, over);
                let failed = ended.is_some_and(|good| !good) && begun.elapsed() < FAILED;
                failed.then(|| said(&mut child))
            }
            Err(error) => Some(error.to_string()),
        };
        if let Some(why) = why {
            if !std::mem::replace(&mut told, true) {
                tracing::warn!("iperf3 cannot serve on port {port}: {why}");
            }
            let end = Instant::now() + PAUSE;
            while Instant::now() < end && !over.load(Relaxed) {
                thread::sleep(LOOK);
            }
        }
    }
}

fn serve(address: IpAddr, port: u16) -> std::io::Result<Child> {
    let mut command = Command::new("iperf3");
    command.args(["-s", "-1", "--idle-timeout", IDLE, "-p", &port.to_string()]);
    if !address.is_unspecified() {
        command.args(["-B", &address.to_string()]);
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()
}

/// Waits for the server to end, and says whether it ended well; ends it when all is over.
fn wait(child: &mut Child, over: &AtomicBool) -> Option<bool> {
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status.success()),
            Ok(None) if !over.load(Relaxed) => thread::sleep(LOOK),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                return None;
            }
        }
    }
}

/// The first line of what the server complained of.
fn said(child: &mut Child) -> String {
    let mut text = String::new();
    if let Some(stream) = child.stderr.take() {
        let _ = stream.take(4096).read_to_string(&mut text);
    }
    let line = text.lines().next().unwrap_or("it ended at once");
    line.trim_start_matches("iperf3: ").trim_start_matches("error - ").to_owned()
}
