//! A PostgreSQL server on loopback, in a directory of its own, gone at the end.

use std::fs;
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::free_port;

/// Longest wait for the server to take connections.
const START: Duration = Duration::from_secs(30);

pub const USER: &str = "tester";
pub const PASSWORD: &str = "open sesame";

/// A running server.
pub struct Postgres {
    child: Option<Child>,
    programs: PathBuf,
    dir: tempfile::TempDir,
    port: u16,
    user: Option<(u32, u32)>,
    settings: Vec<String>,
    databases: AtomicU32,
}

impl Postgres {
    /// Starts one; the reason if there is none here.
    pub fn start() -> Result<Self, String> {
        // Nothing of it has to outlive a power failure.
        Self::start_with(&["fsync=off", "shared_buffers=16MB"])
    }

    /// The same with other settings.
    pub fn start_with(settings: &[&str]) -> Result<Self, String> {
        let programs = programs().ok_or("no PostgreSQL server is installed (Debian: postgresql)")?;
        // The server refuses to be root.
        let user = match rustix::process::geteuid().is_root() {
            true => Some(account("postgres").ok_or("there is no user 'postgres' to run the server as")?),
            false => None,
        };
        let dir = tempfile::tempdir().expect("a directory");
        let password = dir.path().join("password");
        fs::write(&password, PASSWORD).expect("written");
        if let Some((uid, gid)) = user {
            for path in [dir.path(), &password] {
                std::os::unix::fs::chown(path, Some(uid), Some(gid)).expect("given away");
            }
        }
        let settings = settings.iter().map(|&setting| setting.to_owned()).collect();
        let databases = AtomicU32::new(0);
        let mut postgres = Self { child: None, programs, dir, port: 0, user, settings, databases };
        let made = postgres
            .program("initdb")
            .arg("-D")
            .arg(postgres.data())
            .args(["-U", USER, "-A", "scram-sha-256", "-E", "UTF8", "--locale=C", "--no-sync", "--pwfile"])
            .arg(&password)
            .output()
            .expect("initdb runs");
        assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        for attempt in 0.. {
            postgres.port = free_port();
            match postgres.run() {
                Ok(()) => break,
                // Somebody else took the port in the meantime, most likely.
                Err(error) if attempt < 3 => eprintln!("once more: {error}"),
                Err(error) => panic!("{error}"),
            }
        }
        Ok(postgres)
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    fn program(&self, name: &str) -> Command {
        let mut command = Command::new(self.programs.join(name));
        command.env_clear().current_dir(self.dir.path()).stdin(Stdio::null());
        if let Some((uid, gid)) = self.user {
            command.uid(uid).gid(gid);
        }
        command
    }

    /// Starts the server program on its port.
    pub fn run(&mut self) -> Result<(), String> {
        let log = self.dir.path().join("log");
        let output = fs::File::create(&log).expect("a log");
        let mut command = self.program("postgres");
        command.arg("-D").arg(self.data());
        let place = [
            "listen_addresses=127.0.0.1".to_owned(),
            format!("port={}", self.port),
            format!("unix_socket_directories={}", self.dir.path().display()),
        ];
        for setting in place.iter().chain(&self.settings) {
            command.arg("-c").arg(setting);
        }
        let copy = output.try_clone().expect("the log again");
        let child = command.stdout(copy).stderr(output).spawn().map_err(|error| error.to_string())?;
        self.child = Some(child);
        let since = Instant::now();
        loop {
            let said = fs::read_to_string(&log).unwrap_or_default();
            let taking = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_ok();
            if taking && said.contains("ready to accept connections") {
                return Ok(());
            }
            let ended = self.child.as_mut().and_then(|child| child.try_wait().expect("waited for"));
            if ended.is_some() || since.elapsed() > START {
                return Err(format!("postgres on {} ({ended:?}): {said}", self.port));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The process that the others of it are children of; 0 while it does not run.
    pub fn id(&self) -> u32 {
        self.child.as_ref().map_or(0, Child::id)
    }

    /// Ends the server without waiting for its clients; what was committed is on the disk.
    pub fn kill(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        if let Some(id) = rustix::process::Pid::from_raw(child.id().cast_signed()) {
            let _ = rustix::process::kill_process(id, rustix::process::Signal::INT);
        }
        let since = Instant::now();
        while since.elapsed() < Duration::from_secs(10) {
            if child.try_wait().expect("waited for").is_some() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = child.kill();
        let _ = child.wait();
    }

    /// The address of a database of its own, which this makes.
    pub fn fresh(&self) -> String {
        let name = format!("history_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.ask("postgres", &format!("CREATE DATABASE {name}"));
        self.address(&name)
    }

    /// What the database `name` answers to a statement: a line for each row, `|` between columns.
    pub fn ask(&self, name: &str, statement: &str) -> String {
        let asked = self
            .program("psql")
            .args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "-U", USER, "-d", name, "-qAt"])
            .args(["-c", statement])
            .env("PGPASSWORD", PASSWORD)
            .output()
            .expect("psql runs");
        assert!(asked.status.success(), "psql: {}", String::from_utf8_lossy(&asked.stderr));
        String::from_utf8_lossy(&asked.stdout).trim().to_owned()
    }

    /// The address of the database of that name.
    pub fn address(&self, name: &str) -> String {
        format!("postgres://{USER}:open%20sesame@127.0.0.1:{}/{name}", self.port)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Where the server's programs are: the newest of Debian's versions, or in `PATH`.
fn programs() -> Option<PathBuf> {
    if !super::may_use_installed() {
        return None;
    }
    let mut versions: Vec<PathBuf> = fs::read_dir("/usr/lib/postgresql")
        .map(|found| found.flatten().map(|version| version.path().join("bin")).collect())
        .unwrap_or_default();
    versions.sort();
    versions.reverse();
    let path = std::env::var_os("PATH").unwrap_or_default();
    versions.extend(std::env::split_paths(&path));
    versions
        .into_iter()
        .find(|dir| ["initdb", "postgres", "psql"].iter().all(|name| dir.join(name).is_file()))
}

/// The user and group of an account.
fn account(name: &str) -> Option<(u32, u32)> {
    let accounts = fs::read_to_string(Path::new("/etc/passwd")).ok()?;
    let line = accounts.lines().find(|line| line.split(':').next() == Some(name))?;
    let mut fields = line.split(':').skip(2);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}
