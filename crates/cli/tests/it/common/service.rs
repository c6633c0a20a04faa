//! A running `tidegate serve` of a test.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::process::Signal;
use serde_json::Value;

use super::{Ran, World, finish, signal};

/// A service in a process of its own; killed when dropped.
pub struct Service {
    child: Child,
    /// Where it listens.
    pub url: String,
    /// What signs a browser in; nothing of one that stands by.
    pub link: String,
    state: PathBuf,
    log: PathBuf,
}

impl Service {
    /// Starts a service whose state lies in the directory `name`, with more arguments.
    pub fn start(world: &World, name: &str, more: &[&str]) -> Self {
        Self::start_in(world, name, more, &[])
    }

    /// The same in an environment with more in it, which its jobs run in as well.
    pub fn start_in(world: &World, name: &str, more: &[&str], environment: &[(&str, &str)]) -> Self {
        Self::start_at(world, name, "127.0.0.1:0", more, environment).unwrap_or_else(|said| panic!("{said}"))
    }

    /// The same on a given address, as when it is started again; what it said if it did not start.
    pub fn start_at(
        world: &World,
        name: &str,
        listen: &str,
        more: &[&str],
        environment: &[(&str, &str)],
    ) -> Result<Self, String> {
        let (mut service, mut lines) = Self::begin_at(world, name, listen, more, environment)?;
        service.link = lines.next().and_then(Result::ok).unwrap_or_default();
        let Self { url, link, .. } = &service;
        assert!(link.starts_with(url) && link.contains("/login?code="), "{link:?}");
        Ok(service)
    }

    /// One that may be asked, whether it works or another one that it shares a queue with.
    pub fn stand_by(world: &World, name: &str, listen: &str, more: &[&str]) -> Result<Self, String> {
        Self::begin_at(world, name, listen, more, &[]).map(|(service, _)| service)
    }

    fn begin_at(
        world: &World,
        name: &str,
        listen: &str,
        more: &[&str],
        environment: &[(&str, &str)],
    ) -> Result<(Self, Lines<BufReader<ChildStdout>>), String> {
        let (state, log) = (world.path(name), world.path(format!("{name}.log")));
        let log_file = fs::OpenOptions::new().create(true).append(true).open(&log).expect("made");
        let mut child = world
            .command()
            .envs(environment.iter().copied())
            .args(["serve", "-v", "--listen", listen, "--state"])
            .arg(&state)
            .args(more)
            .stdout(Stdio::piped())
            .stderr(log_file)
            .spawn()
            .expect("started");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let url = lines.next().and_then(Result::ok).unwrap_or_default();
        if !url.starts_with("http://127.0.0.1:") && !url.starts_with("https://127.0.0.1:") {
            let _ = child.wait();
            return Err(format!("{url:?}: {:?}", fs::read_to_string(&log)));
        }
        Ok((Self { child, url, link: String::new(), state, log }, lines))
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Who follows a job, and the epochs that it tells.
    pub fn follow(&self, world: &World, job: &str) -> (Child, impl Iterator<Item = Value> + use<>) {
        let mut following = self
            .command(world, &["job", job, "--follow", "--json"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("started");
        let lines = BufReader::new(following.stdout.take().expect("piped")).lines().map_while(Result::ok);
        let told = lines.map(|line| serde_json::from_str::<Value>(&line).expect("JSON"));
        (following, told.filter(|line| line["event"] == "epoch"))
    }

    /// A command that asks it.
    pub fn command<S: AsRef<OsStr>>(&self, world: &World, arguments: &[S]) -> Command {
        let mut command = world.command();
        command.args(arguments).arg("--state").arg(&self.state);
        command
    }

    /// Runs a command that asks it.
    pub fn run<S: AsRef<OsStr>>(&self, world: &World, arguments: &[S]) -> Ran {
        finish(&mut self.command(world, arguments))
    }

    /// Runs a command that asks it with `--json`, and reads what it printed.
    pub fn json<S: AsRef<OsStr>>(&self, world: &World, arguments: &[S]) -> (i32, Value) {
        let ran = finish(self.command(world, arguments).arg("--json"));
        let value =
            serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("no JSON ({error}): {ran:?}"));
        (ran.code, value)
    }

    /// A job as it stands.
    pub fn job(&self, world: &World, id: u64) -> Value {
        self.json(world, &["job", &id.to_string()]).1
    }

    /// What it wrote on standard error.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).expect("a log")
    }

    /// Its token.
    pub fn token(&self) -> String {
        fs::read_to_string(self.state.join("service/token")).expect("a token").trim().to_owned()
    }

    /// Ends it at once, as a crash does.
    pub fn kill(mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Asks it to end, and waits.
    pub fn terminate(mut self) -> i32 {
        signal(self.child.id(), Signal::TERM);
        self.child.wait().expect("waited").code().unwrap_or(-1)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the service answers to a POST by a client that accepts `accept`, its head included.
pub fn post_for(service: &Service, path: &str, accept: &str, body: &str) -> String {
    let place = service.url.strip_prefix("http://").expect("without TLS");
    let mut stream = TcpStream::connect(place).expect("connected");
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {place}\r\nAuthorization: Bearer {}\r\nAccept: {accept}\r\nContent-Type: \
         application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        service.token(),
        body.len()
    );
    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes())).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answered");
    answer
}
