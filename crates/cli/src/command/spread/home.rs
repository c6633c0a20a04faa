//! The service of a run: one that there is, or one that is started for it and ends with it. Where that one has been started for
//! another run, and ends with that, it is started again where it was, so that movers and jobs go on.

use std::io::{BufRead, BufReader, Read};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::Value;
use tidegate_fleet::client::Service;
use tidegate_service::api::DIRECTORY;
use tidegate_transfer::error::{Error, ErrorKind};
use url::Url;

use crate::exit::usage;
use crate::service::{ServiceArgs, connect};
use crate::terminal;

/// How long another run's service may take to start, with the state directory in its hands.
const STARTING: Duration = Duration::from_secs(10);

/// How often it is looked whether the service is there.
const GLANCE: Duration = Duration::from_millis(500);

/// How long a connection to it may take.
const ANSWERING: Duration = Duration::from_secs(3);

/// The file in the service's directory that names the service which was started for a run.
const OF_A_RUN: &str = "run";

/// The most that is read of why it did not start.
const MAX_SAID: u64 = 64 << 10;

/// The service that is started where there is none.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Service")]
pub struct HomeArgs {
    /// Where a service that is started for the run listens, so that movers reach it
    #[arg(long, value_name = "ADDR[:PORT]", default_value = "127.0.0.1:0")]
    listen: String,
    /// It answers other hosts without TLS: tokens and tickets can be read on the way
    #[arg(long)]
    insecure: bool,
    /// It keeps history, jobs and shards there: postgres://…
    #[arg(long, value_name = "URL", env = "TIDEGATE_DATABASE", hide_env_values = true)]
    database: Option<String>,
}

/// A service.
pub struct Home {
    service: Service,
    _kept: Option<Keeper>,
}

/// How a service is started for a run.
struct Starter {
    args: HomeArgs,
    state: PathBuf,
}

/// A thread that sees to it that the service is there.
struct Keeper {
    over: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl HomeArgs {
    /// The one that `args` mean; or, where none answers and none was named, one that is started. Movers elsewhere have to
    /// reach it.
    pub fn service(&self, args: &ServiceArgs, here: bool) -> anyhow::Result<Home> {
        let starter = Starter { args: self.clone(), state: args.state_dir()? };
        let began = Instant::now();
        loop {
            match args.open().and_then(|service| service.get::<Value>("/jobs?limit=1").map(|_| service)) {
                Ok(service) => {
                    let of_a_run = !args.is_named() && starter.noted().as_deref() == Some(service.base());
                    let kept = of_a_run.then(|| Keeper::of(starter, service.base().to_owned(), None));
                    return Ok(Home { service, _kept: kept });
                }
                Err(error) if args.is_named() => return Err(error.into()),
                Err(_) => {}
            }
            if !here && self.listen.starts_with("127.") {
                let why = "no service runs, and movers elsewhere would not reach one that listens here alone: start \
                           `tidegate serve`, name one by --server, or give --listen ADDR";
                return Err(usage(why).into());
            }
            match starter.start(&self.listen) {
                Ok((url, child)) => {
                    let service = connect(Some(&url), None, &starter.state)?;
                    let kept = Some(Keeper::of(starter, url, Some(child)));
                    return Ok(Home { service, _kept: kept });
                }
                // Another run has just started one.
                Err(error)
                    if error.message.contains("in use by another service") && began.elapsed() < STARTING =>
                {
                    thread::sleep(GLANCE / 2);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Starter {
    /// Starts a service that listens at `listen`; its URL.
    fn start(&self, listen: &str) -> Result<(String, Child), Error> {
        let failed = |error: std::io::Error| Error::io("start", b"a service for this run", error);
        let this = std::env::current_exe().map_err(failed)?;
        let mut command = Command::new(&this);
        // It ends with us, however we end.
        command.arg("with-parent").arg(std::process::id().to_string()).arg(&this);
        command.args(["serve", "--listen", listen]).arg("--state").arg(&self.state);
        command.args(self.args.insecure.then_some("--insecure"));
        if let Some(database) = &self.args.database {
            // Not as an argument, which others can see.
            command.env("TIDEGATE_DATABASE", database);
            command.args(database.starts_with("postgres").then_some("--shared-queue"));
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        let (mut stdout, stderr) = (BufReader::new(child.stdout.take().expect("piped")), child.stderr.take());
        let mut messages = BufReader::new(stderr.expect("piped"));
        let mut url = String::new();
        // Who started it is told what it says only once it runs: until then it may be told by an error.
        stdout.read_line(&mut url).map_err(failed)?;
        if url.trim().is_empty() {
            let _ = child.wait();
            let mut said = String::new();
            let _ = messages.by_ref().take(MAX_SAID).read_to_string(&mut said);
            let why = said.lines().last().unwrap_or("it said nothing").trim_start_matches("tidegate: ");
            return Err(Error::new(ErrorKind::Io, format!("the service for this run did not start: {why}")));
        }
        thread::spawn(move || {
            for line in messages.lines().map_while(Result::ok) {
                terminal::tell(&line);
            }
        });
        let url = url.trim().to_owned();
        if let Err(error) = std::fs::write(self.note(), format!("{url}\n")) {
            tracing::warn!("cannot write {}: {error}", self.note().display());
        }
        Ok((url, child))
    }

    fn note(&self) -> PathBuf {
        Path::new(&self.state).join(DIRECTORY).join(OF_A_RUN)
    }

    /// Where a service listens, or did, that was started for a run.
    fn noted(&self) -> Option<String> {
        Some(std::fs::read_to_string(self.note()).ok()?.trim().to_owned())
    }
}

impl Keeper {
    fn of(starter: Starter, url: String, child: Option<Child>) -> Self {
        let (over, heard) = channel();
        let thread = thread::spawn(move || keep(&starter, &url, child, &heard));
        Self { over: Some(over), thread: Some(thread) }
    }
}

/// Starts the service at `url` again as often as it is gone, until this run is over.
fn keep(starter: &Starter, url: &str, mut child: Option<Child>, over: &Receiver<()>) {
    while over.recv_timeout(GLANCE) == Err(RecvTimeoutError::Timeout) {
        if matches!(child.as_mut().map(Child::try_wait), Some(Ok(None))) || answers(url) {
            continue;
        }
        match starter.start(url.trim_start_matches("http://")) {
            Ok((_, started)) => child = Some(started),
            // Another run was quicker, or what it needs is not there for now.
            Err(error) => tracing::info!("{error}"),
        }
    }
    if let Some(mut child) = child {
        let _ = std::fs::remove_file(starter.note());
        tidegate_fleet::engine::ask_to_end(&child);
        let _ = child.wait();
    }
}

/// Whether somebody listens there.
fn answers(url: &str) -> bool {
    let Some(url) = Url::parse(url).ok() else { return true };
    let place = url.host_str().zip(url.port_or_known_default());
    let places = place.and_then(|place| place.to_socket_addrs().ok());
    places.into_iter().flatten().any(|place| TcpStream::connect_timeout(&place, ANSWERING).is_ok())
}

impl Home {
    /// The service.
    pub fn service(&self) -> &Service {
        &self.service
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.over.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
