//! The service that is measured, in a process of its own, and connections to it.

use std::error::Error;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde::Serialize;
use serde::de::DeserializeOwned;
use url::Url;

use crate::http::{Line, ask, connect, request};

/// What may go wrong here is told and ends it.
pub type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// What /proc counts CPU time in, on every platform that this runs on.
const TICKS_PER_S: f64 = 100.0;

/// A running service; killed when dropped.
pub struct Service {
    child: Child,
    url: Url,
    token: String,
    _state: tempfile::TempDir,
}

impl Service {
    /// Starts `program`, with what it keeps in `database`, or in a file.
    pub fn start(program: &str, database: Option<&str>) -> Result<Self> {
        let state = tempfile::tempdir()?;
        let mut command = Command::new(program);
        command.args(["serve", "--listen", "127.0.0.1:0", "--state"]).arg(state.path());
        command.env_remove("TIDEGATE_DATABASE");
        if let Some(database) = database {
            command.arg("--shared-queue").env("TIDEGATE_DATABASE", database);
        }
        let log = state.path().join("log");
        let child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(fs::File::create(&log)?).spawn();
        let mut child = child.map_err(|error| format!("{program}: {error}"))?;
        let mut line = String::new();
        if let Some(out) = child.stdout.take() {
            BufReader::new(out).read_line(&mut line)?;
        }
        let said = || fs::read_to_string(&log).unwrap_or_default();
        let url =
            Url::parse(line.trim()).map_err(|_| format!("the service did not start: {}", said().trim()))?;
        let token = fs::read_to_string(state.path().join("service/token"))?.trim().to_owned();
        Ok(Self { child, url, token, _state: state })
    }

    /// Its owner's token.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// The most memory that it has had, in MB.
    pub fn peak_mb(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
        let kb = line.split_whitespace().next().and_then(|kb| kb.parse::<u64>().ok());
        kb.unwrap_or(0) * 1024 / 1_000_000
    }

    /// The CPU time that it has used.
    pub fn cpu_seconds(&self) -> f64 {
        cpu_seconds(self.child.id())
    }

    /// An open connection by which whoever has `token` asks.
    pub async fn caller(&self, token: &str) -> Result<Caller> {
        let address = self.url.socket_addrs(|| None)?;
        let line = connect(*address.first().ok_or("no address")?).await?;
        Ok(Caller { line, url: self.url.clone(), token: token.to_owned() })
    }
}

/// The CPU time that a process and its children have used, as far as these still run.
pub fn cpu_seconds(id: u32) -> f64 {
    let mut ticks = 0;
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        // Behind the name, which may have spaces in it: state, parent, and from the 12th on the times.
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let number = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
        if entry.file_name().to_str() == Some(&id.to_string()) || number(1) == u64::from(id) {
            ticks += number(11) + number(12);
        }
    }
    ticks as f64 / TICKS_PER_S
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client of the API.
pub struct Caller {
    line: Line,
    url: Url,
    token: String,
}

impl Caller {
    /// Posts `body` to `path`, and reads the answer.
    pub async fn post<B: Serialize, T: DeserializeOwned>(&mut self, path: &str, body: &B) -> Result<T> {
        let url = self.url.join(&format!("/api/v1{path}"))?;
        let body = serde_json::to_string(body)?;
        let (status, answer) = ask(&mut self.line, &request(&url, Some(&self.token), Some(&body))).await?;
        if !(200..300).contains(&status) {
            return Err(format!("{path}: {status}: {}", String::from_utf8_lossy(&answer)).into());
        }
        Ok(serde_json::from_slice(&answer)?)
    }
}
