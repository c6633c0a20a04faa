//! A server of ssh on the loopback, with keys of its own and a home directory of its own.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use testkit::skip;

use super::{World, eventually, finish};

/// A server that lets one key in, and runs what lies in a directory of programs.
pub struct Sshd {
    child: Child,
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
        let Some(program) = testkit::program("sshd") else {
            skip(test, "sshd is not installed (Debian package openssh-server)");
            return None;
        };
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
        // Somebody else may get the port before it does: then it ends, and takes another.
        let mut started = (0..10).filter_map(|_| {
            let port =
                TcpListener::bind("127.0.0.1:0").and_then(|taken| taken.local_addr()).expect("free").port();
            let settings = [
                format!("Port {port}\nListenAddress 127.0.0.1\nPidFile none\nHostKey {}\n", at("host")),
                format!(
                    "AuthorizedKeysFile {}\nStrictModes no\nUsePAM no\nMaxStartups 100\n",
                    at("authorized")
                ),
                format!("SetEnv PATH={}:/usr/bin:/bin HOME={}\n", programs.display(), home.display()),
            ];
            world.write("sshd/sshd.conf", settings.concat());
            let mut child = Command::new(&program)
                .args(["-D", "-e", "-f", &at("sshd.conf")])
                .stdin(Stdio::null())
                .stderr(fs::File::create(at("log")).expect("made"))
                .spawn()
                .expect("started");
            let listens =
                || fs::read_to_string(at("log")).is_ok_and(|log| log.contains("Server listening on"));
            let mut ended = false;
            eventually(|| {
                ended = child.try_wait().expect("asked").is_some();
                ended || listens()
            });
            (!ended).then_some((child, port))
        });
        let (child, port) = started.next().expect("sshd listens");
        let host = fs::read_to_string(at("host.pub")).expect("a key");
        let host: Vec<&str> = host.split_whitespace().take(2).collect();
        world.write("sshd/known", format!("[127.0.0.1]:{port} {}\n", host.join(" ")));
        let settings = [
            format!("Host dtn other\n HostName 127.0.0.1\n Port {port}\n IdentityFile {}\n", at("user")),
            format!(" IdentitiesOnly yes\n UserKnownHostsFile {}\n GlobalKnownHostsFile none\n", at("known")),
        ];
        world.write("sshd/ssh.conf", settings.concat());
        let command = format!("ssh -F {}", at("ssh.conf"));
        let server = Self { child, command, programs, home };
        server.install(&format!("exec {} \"$@\"", env!("CARGO_BIN_EXE_tidegate")));
        Some(server)
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

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Who we are, as ssh wants it.
pub fn user() -> String {
    finish(Command::new("id").arg("-un")).out.trim().to_owned()
}
