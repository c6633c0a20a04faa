//! What the tests of several crates share: servers on loopback, a scripted one for faults, a proxy that does damage,
//! and places of a test's own. Nothing here knows Tidegate.
#![allow(missing_docs, reason = "names say it, and only tests read them")]

pub mod bytes;
pub mod machine;
pub mod ports;

pub mod alone;
pub mod mounted;
pub mod proxy;
pub mod scripted;

pub mod moto;
pub mod nginx;
pub mod postgres;
pub mod standin;
pub mod vsftpd;

use std::fs;
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub use bytes::noise;
pub use machine::{has, is_long, is_root, may_use_installed, program, skip};
pub use ports::free_port;

/// Longest wait for a server program to take connections.
const START: Duration = Duration::from_secs(20);

/// A server program that is killed at the end.
pub struct Running(Child);

impl Running {
    /// Starts `command` and waits until `port` takes connections.
    pub fn start(command: &mut Command, port: u16, log: &Path) -> Result<Self, String> {
        let output = fs::File::create(log).expect("a log");
        let child = command
            .stdin(Stdio::null())
            .stdout(output.try_clone().expect("the log again"))
            .stderr(output)
            .spawn()
            .map_err(|error| format!("{command:?}: {error}"))?;
        let mut running = Self(child);
        running.wait_for(port, log).map_err(|error| format!("{command:?}: {error}"))?;
        Ok(running)
    }

    /// Waits until `port` takes connections.
    pub fn wait_for(&mut self, port: u16, log: &Path) -> Result<(), String> {
        let since = Instant::now();
        while !takes_connections(port) {
            let ended = self.0.try_wait().expect("waited for");
            if ended.is_some() || since.elapsed() > START {
                let said = fs::read_to_string(log).unwrap_or_default();
                return Err(format!("nothing listens on {port} ({ended:?}): {said}"));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A server that was made the head of a group has processes for its sessions.
        if let Some(id) = rustix::process::Pid::from_raw(self.0.id().cast_signed())
            && rustix::process::getpgid(Some(id)) == Ok(id)
        {
            let _ = rustix::process::kill_process_group(id, rustix::process::Signal::KILL);
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whether somebody listens on `port` of loopback. Who connects to a port that nobody has can be given that very port to
/// connect from, and is then connected to itself.
pub fn takes_connections(port: u16) -> bool {
    let to_itself = |stream: &TcpStream| stream.local_addr().ok() == stream.peer_addr().ok();
    TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok_and(|stream| !to_itself(&stream))
}

/// A throw-away authority's certificate, and one of its for `localhost`, `127.0.0.1` and `::1`, as files.
pub struct Certificates {
    pub ca: PathBuf,
    pub chain: PathBuf,
    pub key: PathBuf,
}

impl Certificates {
    pub fn make(dir: &Path) -> Self {
        use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
        let mut authority = CertificateParams::new(Vec::<String>::new()).expect("no names");
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.distinguished_name.push(rcgen::DnType::CommonName, "a throw-away authority");
        let key = KeyPair::generate().expect("a key");
        let ca = authority.self_signed(&key).expect("signed").pem();
        let issuer = Issuer::new(authority, key);
        let names = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).to_vec();
        let mut server = CertificateParams::new(names).expect("names");
        server.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
        let key = KeyPair::generate().expect("a key");
        let chain = server.signed_by(&key, &issuer).expect("signed").pem();
        let write = |name: &str, text: &str| {
            let path = dir.join(name);
            fs::write(&path, text).expect("written");
            path
        };
        Self {
            ca: write("ca.pem", &ca),
            chain: write("chain.pem", &chain),
            key: write("key.pem", &key.serialize_pem()),
        }
    }
}
