//! A GridFTP server on loopback.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;

use super::server::Program;
use super::{Server, has, is_root};

/// Whether a client and a server are here; says so if not.
pub fn is_there(test: &str) -> bool {
    has(test, &["globus-url-copy", "globus-gridftp-server"])
}

struct Site {
    /// What its addresses begin with.
    host: &'static str,
    more: Vec<String>,
    environment: Vec<(String, OsString)>,
}

impl Program for Site {
    fn command(&self, dir: &Path, ports: &[u16]) -> Command {
        let mut command = Command::new("globus-gridftp-server");
        command.args(["-disable-usage-stats", "-no-detach", "-control-interface", "127.0.0.1"]);
        command.args(["-data-interface", "127.0.0.1", "-port", &ports[0].to_string()]);
        command.args(["-log-level", "ERROR,WARN,INFO", "-logfile"]).arg(dir.join("log"));
        if is_root() {
            command.arg("-allow-root");
        }
        command.args(&self.more).envs(self.environment.iter().cloned());
        command
    }
}

/// One that runs until it is dropped.
pub struct GridFtp(Server<Site>);

impl GridFtp {
    /// One that anybody may use, with these options more.
    pub fn anonymous(more: &[&str]) -> Self {
        let root = is_root().then_some(["-anonymous-user", "root"]);
        let more = ["-aa"].into_iter().chain(root.into_iter().flatten()).chain(more.iter().copied());
        let more = more.map(str::to_owned).collect();
        Self(Server::start(Site { host: "ftp://127.0.0.1", more, environment: Vec::new() }))
    }

    /// One that asks for credentials, and finds its own by these variables.
    pub fn with_credentials<N: Into<String>, V: Into<OsString>>(
        environment: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        let environment = environment.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        Self(Server::start(Site { host: "gsiftp://localhost", more: Vec::new(), environment }))
    }

    /// The address of a file.
    pub fn url(&self, path: &str) -> String {
        format!("{}:{}{path}", self.0.program.host, self.0.port())
    }

    /// What it wrote of each session that has ended.
    pub fn log(&self) -> String {
        fs::read_to_string(self.0.dir().join("log")).unwrap_or_default()
    }
}
