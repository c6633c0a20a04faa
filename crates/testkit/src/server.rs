//! A server program on loopback. What they have in common is here: ports that somebody else may take in the meantime,
//! starting, waiting until it serves, starting again, and that nothing stays behind.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getpgid, kill_process, kill_process_group};

use crate::free_port;

/// Longest wait for a server to serve.
const START: Duration = Duration::from_secs(30);

/// Longest wait for one to end by itself.
const END: Duration = Duration::from_secs(10);

/// How often other ports are tried.
const OTHER_PORTS: u32 = 5;

/// What differs between servers.
pub trait Program {
    /// How many ports it listens at.
    const PORTS: usize = 1;

    /// The signal that ends it.
    const END: Signal = Signal::KILL;

    /// How it is started to listen at `ports`; what it reads is written into `dir`, which is its own.
    fn command(&self, dir: &Path, ports: &[u16]) -> Command;

    /// Whether it serves, by what it has printed. That it listens is seen anyway.
    fn is_ready(&self, _printed: &str) -> bool {
        true
    }
}

/// One that runs, until this is dropped.
pub struct Server<P: Program> {
    pub program: P,
    dir: Box<dyn AsRef<Path> + Send + Sync>,
    ports: Vec<u16>,
    child: Option<Child>,
}

impl<P: Program> Server<P> {
    /// Starts it in a directory of its own, and waits until it serves.
    pub fn start(program: P) -> Self {
        Self::start_in(tempfile::tempdir().expect("a directory"), program)
    }

    /// The same in a directory that has been prepared. A temporary one is gone at the end.
    pub fn start_in(dir: impl AsRef<Path> + Send + Sync + 'static, program: P) -> Self {
        let mut server = Self { program, dir: Box::new(dir), ports: Vec::new(), child: None };
        for attempt in 0.. {
            server.ports = (0..P::PORTS).map(|_| free_port()).collect();
            match server.run() {
                Ok(()) => break,
                // Somebody else took a port in the meantime, most likely.
                Err(error) if attempt < OTHER_PORTS => eprintln!("once more: {error}"),
                Err(error) => panic!("{error}"),
            }
        }
        server
    }

    fn run(&mut self) -> Result<(), String> {
        let mut command = self.program.command(self.dir(), &self.ports);
        let output = fs::File::create(self.dir().join("printed")).expect("a file");
        command.stdin(Stdio::null()).stdout(output.try_clone().expect("again")).stderr(output);
        self.child = Some(command.spawn().map_err(|error| format!("{command:?}: {error}"))?);
        let since = Instant::now();
        while !(self.ports.iter().all(|&port| listens(port)) && self.program.is_ready(&self.printed())) {
            let ended = self.child.as_mut().and_then(|child| child.try_wait().expect("waited for"));
            if ended.is_some() || since.elapsed() > START {
                self.stop();
                return Err(format!("{command:?} on {:?} ({ended:?}): {}", self.ports, self.printed()));
            }
            sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Ends it with all its sessions; what it has stored stays.
    pub fn stop(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        let Some(id) = Pid::from_raw(child.id().cast_signed()) else { return };
        // One that was made the head of a group has processes for its sessions.
        let _ = match getpgid(Some(id)) == Ok(id) {
            true => kill_process_group(id, P::END),
            false => kill_process(id, P::END),
        };
        let since = Instant::now();
        while since.elapsed() < END && child.try_wait().expect("waited for").is_none() {
            sleep(Duration::from_millis(5));
        }
        let _ = child.kill();
        let _ = child.wait();
    }

    /// Ends it and starts it again at the same ports: every connection is gone.
    pub fn restart(&mut self) {
        self.stop();
        self.run().expect("started again");
    }

    /// The first port it listens at.
    pub fn port(&self) -> u16 {
        self.ports[0]
    }

    /// All of them.
    pub fn ports(&self) -> &[u16] {
        &self.ports
    }

    /// The directory that is its own.
    pub fn dir(&self) -> &Path {
        (*self.dir).as_ref()
    }

    /// The process that was started; 0 while none runs.
    pub fn id(&self) -> u32 {
        self.child.as_ref().map_or(0, Child::id)
    }

    /// What it has printed since it was started last.
    pub fn printed(&self) -> String {
        fs::read_to_string(self.dir().join("printed")).unwrap_or_default()
    }
}

impl<P: Program> Drop for Server<P> {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Whether somebody listens at `port`. The kernel is asked and not the server, which would take a connection for a client.
fn listens(port: u16) -> bool {
    let local = format!(":{port:04X}");
    ["/proc/net/tcp", "/proc/net/tcp6"].iter().any(|table| {
        let table = fs::read_to_string(table).unwrap_or_default();
        table.lines().any(|line| {
            let mut columns = line.split_whitespace().skip(1);
            let here = columns.next().is_some_and(|address| address.ends_with(&local));
            // 0A: listening.
            here && columns.nth(1) == Some("0A")
        })
    })
}
