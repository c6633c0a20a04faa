//! A PostgreSQL server on loopback, in a directory of its own, gone at the end.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::Signal;

use super::Server;
use super::server::Program;

pub const USER: &str = "tester";
pub const PASSWORD: &str = "open sesame";

/// Where the server's programs and data are, and who runs them.
struct Cluster {
    programs: PathBuf,
    user: Option<(u32, u32)>,
    settings: Vec<String>,
}

impl Cluster {
    /// A program of it that runs in `dir`.
    fn tool(&self, name: &str, dir: &Path) -> Command {
        let mut command = Command::new(self.programs.join(name));
        command.env_clear().current_dir(dir).stdin(Stdio::null());
        if let Some((uid, gid)) = self.user {
            command.uid(uid).gid(gid);
        }
        command
    }
}

impl Program for Cluster {
    /// It does not wait for its clients; what was committed is on the disk.
    const END: Signal = Signal::INT;

    fn command(&self, dir: &Path, ports: &[u16]) -> Command {
        let mut command = self.tool("postgres", dir);
        command.arg("-D").arg(dir.join("data"));
        let place = [
            "listen_addresses=127.0.0.1".to_owned(),
            format!("port={}", ports[0]),
            format!("unix_socket_directories={}", dir.display()),
        ];
        for setting in place.iter().chain(&self.settings) {
            command.arg("-c").arg(setting);
        }
        command
    }

    fn is_ready(&self, printed: &str) -> bool {
        printed.contains("ready to accept connections")
    }
}

/// A running server.
pub struct Postgres {
    server: Server<Cluster>,
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
        let cluster = Cluster { programs, user, settings };
        let made = cluster
            .tool("initdb", dir.path())
            .arg("-D")
            .arg(dir.path().join("data"))
            .args(["-U", USER, "-A", "scram-sha-256", "-E", "UTF8", "--locale=C", "--no-sync", "--pwfile"])
            .arg(&password)
            .output()
            .expect("initdb runs");
        assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        Ok(Self { server: Server::start_in(dir, cluster), databases: AtomicU32::new(0) })
    }

    /// The process that the others of it are children of; 0 while it does not run.
    pub fn id(&self) -> u32 {
        self.server.id()
    }

    /// Ends the server without waiting for its clients.
    pub fn stop(&mut self) {
        self.server.stop();
    }

    /// Starts it again.
    pub fn restart(&mut self) {
        self.server.restart();
    }

    /// The address of a database of its own, which this makes.
    pub fn fresh(&self) -> String {
        let name = format!("history_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.ask("postgres", &format!("CREATE DATABASE {name}"));
        self.address(&name)
    }

    /// What the database `name` answers to a statement: a line for each row, `|` between columns.
    pub fn ask(&self, name: &str, statement: &str) -> String {
        let port = self.server.port().to_string();
        let asked = self
            .server
            .program
            .tool("psql", self.server.dir())
            .args(["-h", "127.0.0.1", "-p", &port, "-U", USER, "-d", name, "-qAt"])
            .args(["-c", statement])
            .env("PGPASSWORD", PASSWORD)
            .output()
            .expect("psql runs");
        assert!(asked.status.success(), "psql: {}", String::from_utf8_lossy(&asked.stderr));
        String::from_utf8_lossy(&asked.stdout).trim().to_owned()
    }

    /// The address of the database of that name.
    pub fn address(&self, name: &str) -> String {
        format!("postgres://{USER}:open%20sesame@127.0.0.1:{}/{name}", self.server.port())
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
