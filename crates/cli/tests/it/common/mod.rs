//! A scratch world for the real binary: its own home and state, directories to copy, and endpoints on
//! the loopback.

pub mod archive;
pub mod browser;
pub mod counter;
pub mod grid;
pub mod scheduler;
pub mod service;
pub mod sshd;

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// A directory that everything of one test lies in.
pub struct World {
    directory: TempDir,
}

/// How one run of the command ended.
#[derive(Debug)]
pub struct Ran {
    /// The exit code; -1 after a signal.
    pub code: i32,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

/// An endpoint in a process of its own; killed when dropped.
pub struct Server {
    child: Child,
    /// The address it printed, ticket included.
    pub address: String,
    /// What it serves.
    pub root: PathBuf,
    log: PathBuf,
}

impl World {
    /// An empty world.
    pub fn new() -> Self {
        Self { directory: tempfile::tempdir().expect("a directory") }
    }

    /// An empty world in memory, where syncing costs nothing, if there is such a place.
    pub fn in_memory() -> Self {
        match tempfile::tempdir_in("/dev/shm") {
            Ok(directory) => Self { directory },
            Err(_) => Self::new(),
        }
    }

    /// A path in it.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A path in it, as text.
    pub fn text(&self, name: &str) -> String {
        self.path(name).to_str().expect("text").to_owned()
    }

    /// Writes `content` to a file, making its directories.
    pub fn write(&self, name: impl AsRef<Path>, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        fs::write(path, content).expect("written");
    }

    /// Writes a file of `size` bytes that do not compress.
    pub fn fill(&self, name: impl AsRef<Path>, size: usize, seed: u64) {
        self.write(name, testkit::noise(seed, size));
    }

    /// What a file holds.
    pub fn read(&self, name: impl AsRef<Path>) -> Vec<u8> {
        let path = self.path(name);
        fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// Everything beneath a directory: paths with `/` behind directories, sorted.
    pub fn tree(&self, name: impl AsRef<Path>) -> Vec<String> {
        fn walk(directory: &Path, prefix: &str, found: &mut Vec<String>) {
            for entry in fs::read_dir(directory).expect("listed") {
                let entry = entry.expect("listed");
                let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
                if entry.file_type().expect("known").is_dir() {
                    found.push(format!("{name}/"));
                    walk(&entry.path(), &format!("{name}/"), found);
                } else {
                    found.push(name);
                }
            }
        }
        let mut found = Vec::new();
        walk(&self.path(name), "", &mut found);
        found.sort();
        found
    }

    /// The command, in an environment of its own.
    pub fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin");
        command.env("HOME", self.path("home")).env("XDG_STATE_HOME", self.path("state"));
        command.env("XDG_CONFIG_HOME", self.path("config")).current_dir(self.directory.path());
        command.stdin(Stdio::null());
        command
    }

    /// Runs the command to its end.
    pub fn run<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Ran {
        finish(self.command().args(arguments))
    }

    /// Runs the command, which must succeed and say nothing on standard error.
    pub fn ok<S: AsRef<OsStr> + std::fmt::Debug>(&self, arguments: &[S]) -> String {
        let ran = self.run(arguments);
        assert!(ran.code == 0 && ran.err.is_empty(), "{arguments:?}: {ran:?}");
        ran.out
    }

    /// Runs the command with `--json` and reads what it printed.
    pub fn json<S: AsRef<OsStr>>(&self, arguments: &[S]) -> (i32, Value) {
        let ran = finish(self.command().args(arguments).arg("--json"));
        let object =
            serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("no JSON ({error}): {ran:?}"));
        (ran.code, object)
    }

    /// Starts an endpoint that serves the directory `name`, with more arguments.
    pub fn endpoint(&self, name: &str, more: &[&str]) -> Server {
        self.endpoint_at(name, "127.0.0.1:0", more)
    }

    /// The same on a given address.
    pub fn endpoint_at(&self, name: &str, listen: &str, more: &[&str]) -> Server {
        self.endpoint_by(self.command(), name, listen, more)
    }

    /// Starts an endpoint whose programs are found in the directory `programs` alone.
    pub fn endpoint_with(&self, programs: &Path, name: &str, more: &[&str]) -> Server {
        let mut command = self.command();
        command.env("PATH", programs);
        self.endpoint_by(command, name, "127.0.0.1:0", more)
    }

    /// The same begun by `command`, which is given what an endpoint is told.
    pub fn endpoint_by(&self, mut command: Command, name: &str, listen: &str, more: &[&str]) -> Server {
        let root = self.path(name);
        fs::create_dir_all(&root).expect("made");
        let log = self.path(format!("{name}.log"));
        let mut child = command
            .args(["endpoint", "-vv", "--allow-local-targets", "--listen", listen, "--root"])
            .arg(&root)
            .arg("--state")
            .arg(self.state_of(name))
            .args(more)
            .stdout(Stdio::piped())
            .stderr(fs::File::create(&log).expect("made"))
            .spawn()
            .expect("started");
        let mut address = String::new();
        let mut out = BufReader::new(child.stdout.take().expect("piped"));
        out.read_line(&mut address).expect("a first line");
        let address = address.trim_end().to_owned();
        assert!(address.starts_with("tg://"), "{address:?}: {:?}", fs::read_to_string(&log));
        Server { child, address, root, log }
    }

    /// The state directory of the endpoint that serves `name`.
    pub fn state_of(&self, name: &str) -> PathBuf {
        self.path(format!("{name}.state"))
    }
}

/// Runs a command to its end.
pub fn finish(command: &mut Command) -> Ran {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
    wait(child)
}

/// Waits for a command to end, at most two minutes.
pub fn wait(child: Child) -> Ran {
    wait_within(child, Duration::from_secs(120))
}

/// Waits for a command to end, and kills it after `patience`.
pub fn wait_within(child: Child, patience: Duration) -> Ran {
    let id = child.id();
    let (done, over) = std::sync::mpsc::channel::<()>();
    let watchdog = std::thread::spawn(move || {
        if over.recv_timeout(patience).is_err() {
            signal(id, rustix::process::Signal::KILL);
        }
    });
    let output = child.wait_with_output().expect("waited");
    let _ = done.send(());
    watchdog.join().expect("no panic");
    Ran {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Sends a signal to a process of ours.
pub fn signal(id: u32, signal: rustix::process::Signal) {
    let id = rustix::process::Pid::from_raw(id as i32).expect("a process");
    let _ = rustix::process::kill_process(id, signal);
}

/// Waits until `what` comes true.
pub fn eventually(mut what: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(120);
    while !what() {
        assert!(Instant::now() < end, "it never came true");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Whether `md5sum` finds everything as the `md5sums.txt` of a directory says.
pub fn md5sum_agrees(directory: &Path) -> bool {
    let mut command = Command::new("md5sum");
    command.args(["-c", "--strict", "--quiet", "md5sums.txt"]).current_dir(directory).stdout(Stdio::null());
    command.status().expect("md5sum").success()
}

/// The size of the journal beneath a directory; 0 if there is none yet.
pub fn journal(directory: &Path) -> u64 {
    let runs = fs::read_dir(directory).into_iter().flatten().flatten();
    runs.filter_map(|run| fs::metadata(run.path().join("journal")).ok()).map(|about| about.len()).sum()
}

impl Server {
    /// Its address with a path.
    pub fn at(&self, path: &str) -> String {
        format!("{}{path}", self.address)
    }

    /// The secret part of its address.
    pub fn secret(&self) -> &str {
        self.address.strip_prefix("tg://").and_then(|rest| rest.split_once('@')).expect("a ticket").0
    }

    /// `host:port`.
    pub fn place(&self) -> String {
        let place = self.address.rsplit_once('@').expect("a ticket").1;
        place.trim_end_matches('/').to_owned()
    }

    /// What it wrote on standard error.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).expect("a log")
    }

    /// Asks it to end, and waits.
    pub fn terminate(mut self) -> i32 {
        signal(self.child.id(), rustix::process::Signal::TERM);
        self.child.wait().expect("waited").code().unwrap_or(-1)
    }

    /// Waits for it to end by itself, and answers with its exit code.
    pub fn end(mut self) -> i32 {
        eventually(|| self.has_ended());
        self.child.wait().expect("waited").code().unwrap_or(-1)
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("asked").is_some()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
