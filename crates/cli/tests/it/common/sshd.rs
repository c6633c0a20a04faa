//! A server of ssh on the loopback, with keys of its own and a home directory of its own.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::server::Program;
use testkit::skip;

use super::{World, finish};

/// How it is started, with keys that are there.
struct Daemon {
    home: PathBuf,
    programs: PathBuf,
    has_sftp: bool,
}

impl Program for Daemon {
    fn command(&self, dir: &Path, ports: &[u16]) -> Command {
        let at = |name: &str| dir.join(name).display().to_string();
        let settings = [
            format!("Port {}\nListenAddress 127.0.0.1\nPidFile none\nHostKey {}\n", ports[0], at("host")),
            format!("AuthorizedKeysFile {}\nStrictModes no\nUsePAM no\nMaxStartups 100\n", at("authorized")),
            format!("SetEnv PATH={}:/usr/bin:/bin HOME={}\n", self.programs.display(), self.home.display()),
        ];
        let sftp = if self.has_sftp { "Subsystem sftp internal-sftp\n" } else { "" };
        fs::write(dir.join("sshd.conf"), settings.concat() + sftp).expect("written");
        let mut command = Command::new(testkit::program("sshd").expect("it was there a moment ago"));
        command.args(["-D", "-e", "-f", &at("sshd.conf")]);
        command
    }
}

/// A server that lets one key in, and runs what lies in a directory of programs.
pub struct Sshd {
    _server: testkit::Server<Daemon>,
    /// What `--ssh` is told.
    pub command: String,
    /// The only directory of programs besides the system's.
    pub programs: PathBuf,
    /// The home directory of whoever logs in.
    pub home: PathBuf,
}

impl Sshd {
    /// Starts one in `world`, with `tidegate` among its programs; `None` where there is no sshd.
    pub fn start(world: &World, test: &str) -> Option<Self> {
        Self::start_with(world, test, false)
    }

    /// The same, with a server of SFTP if it is to have one.
    pub fn start_with(world: &World, test: &str, has_sftp: bool) -> Option<Self> {
        if testkit::program("sshd").is_none() {
            skip(test, "sshd is not installed (Debian package openssh-server)");
            return None;
        }
        let directory = world.path("sshd");
        let (home, programs) = (world.path("sshd/home"), world.path("sshd/programs"));
        for made in [&home, &programs] {
            fs::create_dir_all(made).expect("made");
        }
        // It drops its rights to a directory that must be there, empty and root's.
        let _ = fs::create_dir_all("/run/sshd");
        let at = |name: &str| directory.join(name).display().to_string();
        for key in ["host", "user"] {
            let made =
                Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f", &at(key)]).status();
            assert!(made.expect("ssh-keygen").success());
        }
        fs::copy(at("user.pub"), at("authorized")).expect("copied");
        let server = testkit::Server::start_in(
            directory.clone(),
            Daemon { home: home.clone(), programs: programs.clone(), has_sftp },
        );
        let port = server.port();
        let host = fs::read_to_string(at("host.pub")).expect("a key");
        let host: Vec<&str> = host.split_whitespace().take(2).collect();
        world.write("sshd/known", format!("[127.0.0.1]:{port} {}\n", host.join(" ")));
        let settings = [
            format!("Host dtn other\n HostName 127.0.0.1\n Port {port}\n IdentityFile {}\n", at("user")),
            format!(" IdentitiesOnly yes\n UserKnownHostsFile {}\n GlobalKnownHostsFile none\n", at("known")),
        ];
        world.write("sshd/ssh.conf", settings.concat());
        let command = format!("ssh -F {}", at("ssh.conf"));
        let sshd = Self { _server: server, command, programs, home };
        sshd.install(&format!("exec {} \"$@\"", env!("CARGO_BIN_EXE_tidegate")));
        Some(sshd)
    }

    /// Makes `tidegate` there a script of the shell.
    pub fn install(&self, script: &str) {
        let path = self.programs.join("tidegate");
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("made executable");
    }

    /// How many programs run in its home directory's name.
    pub fn running(&self) -> usize {
        let home = format!("HOME={}", self.home.display());
        let processes = fs::read_dir("/proc").expect("listed").flatten();
        let environment = |process: fs::DirEntry| fs::read(process.path().join("environ")).ok();
        let ours = |words: &Vec<u8>| words.split(|&b| b == 0).any(|word| word == home.as_bytes());
        processes.filter_map(environment).filter(ours).count()
    }
}

/// Who we are, as ssh wants it.
pub fn user() -> String {
    finish(Command::new("id").arg("-un")).out.trim().to_owned()
}
