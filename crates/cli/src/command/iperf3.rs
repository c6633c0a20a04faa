//! `tidegate iperf3`: runs iperf3 against an endpoint, which starts the other side for it.

use std::ffi::OsString;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use tidegate_transfer::error::{Error, ErrorKind};
use tidegate_transfer::transfer::link::Iperf3Server;

use crate::exit::usage;
use crate::place::Place;
use crate::settings::TrustArgs;
use crate::values::time;

/// How often the program is looked after.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Run iperf3 against an endpoint that was started with --iperf3.
///
/// The endpoint runs the server side for this one test, because the ticket allows it; what stands behind `--` goes to
/// iperf3, as in `tidegate iperf3 dtn1: -- -P 4 -t 10`.
#[derive(Debug, Args)]
pub struct Iperf3Args {
    /// The endpoint: tg://… or NAME:
    #[arg(value_name = "ENDPOINT")]
    endpoint: OsString,
    /// How long it may take in all; the endpoint bears no more than 300s
    #[arg(long, value_name = "TIME", default_value = "120s", value_parser = limit)]
    limit: Duration,
    /// What iperf3 is told beside the server
    #[arg(value_name = "ARGUMENT", last = true)]
    arguments: Vec<OsString>,
    #[command(flatten)]
    trust: TrustArgs,
}

fn limit(text: &str) -> Result<Duration, String> {
    time(text, Duration::from_secs(1)..=Duration::from_secs(300), "must be from 1s to 300s")
}

/// Runs the command.
pub fn run(args: &Iperf3Args) -> anyhow::Result<ExitCode> {
    let Place::Endpoint(address) = Place::parse(&args.endpoint)? else {
        return Err(usage("iperf3 is run against an endpoint: tg://… or name:").into());
    };
    let end = Instant::now() + args.limit;
    let server = Iperf3Server::ask(&address, args.trust.pki()?.as_ref(), args.limit)?;
    let child = start(&server, &args.arguments)
        .map_err(|error| Error::new(ErrorKind::Io, format!("iperf3 cannot be started: {error}")))?;
    let Some(status) = wait(child, end)? else {
        let why = format!("iperf3 did not end within {} s and was stopped", args.limit.as_secs());
        return Err(Error::new(ErrorKind::Io, why).into());
    };
    // A signal has no code.
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Begins a client that ends with us, and is told none of our secrets.
fn start(server: &Iperf3Server, arguments: &[OsString]) -> std::io::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    let address = server.address();
    command.args(["with-parent", &std::process::id().to_string(), "iperf3"]);
    command.args(["-c", &address.ip().to_string(), "-p", &address.port().to_string()]).args(arguments);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("TIDEGATE_") {
            command.env_remove(name);
        }
    }
    command.spawn()
}

/// Waits until `end` at most; ends what has not ended then.
fn wait(mut child: Child, end: Instant) -> std::io::Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= end {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(POLL_INTERVAL);
    }
}
