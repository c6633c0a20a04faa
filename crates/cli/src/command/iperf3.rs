//! `tidegate iperf3`: runs iperf3 against an endpoint, which starts the other side for it; or asks one endpoint to run it
//! against another.

use std::ffi::OsString;
use std::io::Write;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use tidegate_contract::own_program;
use tidegate_contract::text::one_line;
use tidegate_control::ByteCount;
use tidegate_run::place::Place;
use tidegate_run::settings::TrustArgs;
use tidegate_spec::measure::{Iperf3Between, Iperf3By, Iperf3For, Iperf3Run};
use tidegate_spec::range::Range;
use tidegate_transfer::error::{Error, ErrorKind};
use tidegate_transfer::spec::{Iperf3Amount, Iperf3Test};
use tidegate_transfer::transfer::link::{Iperf3Server, iperf3_between};
use tidegate_transfer::wire::ticket::Address;

/// How long a test between endpoints lasts unless that is said.
const TIME: Duration = Duration::from_secs(10);

/// How long it may take, measure, and leave out.
const LIMITS: Range<Duration> =
    Range::new(Duration::from_secs(1), Duration::from_secs(300), "must be from 1s to 300s");
const LENGTHS: Range<Duration> =
    Range::new(Duration::from_millis(1), Duration::from_secs(300), "must be from 1ms to 300s");
const OMITTED: Range<Duration> =
    Range::new(Duration::ZERO, Duration::from_secs(60), "must be from 0s to 60s");

/// How often the program is looked after.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Run iperf3 against an endpoint that was started with --iperf3, or between two.
///
/// The endpoint runs the server side for this one test, because the ticket allows it; what stands behind `--` goes to
/// iperf3, as in `tidegate iperf3 dtn1: -- -P 4 -t 10`.
///
/// With --to it is the endpoint that runs iperf3 against another one, as in `tidegate iperf3 dtn1: --to dtn2: --streams 4
/// --time 10s`: this host only asks, and prints the JSON that iperf3 printed there. It needs tickets as a copy the same
/// way does: to read where data comes from, to write where it goes to.
#[derive(Debug, Args)]
pub struct Iperf3Args {
    /// The endpoint: tg://… or NAME:
    #[arg(value_name = "ENDPOINT")]
    endpoint: OsString,
    /// How long it may take in all; the endpoint bears no more than 300s
    #[arg(long, value_name = "TIME", default_value = "120s", value_parser = |text: &str| LIMITS.time(text))]
    limit: Duration,
    /// Measure from ENDPOINT to this one: tg://… or NAME:
    #[arg(long, value_name = "OTHER")]
    to: Option<OsString>,
    /// Measure from OTHER to ENDPOINT, which still is the one that runs `iperf3 -c`
    #[arg(long, requires = "to")]
    reverse: bool,
    /// Streams at a time, up to 128
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=128), requires = "to")]
    streams: u16,
    /// How long to measure, rounded up to whole seconds [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = |text: &str| LENGTHS.time(text), requires = "to", conflicts_with = "bytes")]
    time: Option<Duration>,
    /// Leave so much of the start out, before --time, rounded up to whole seconds
    #[arg(long, value_name = "TIME", value_parser = |text: &str| OMITTED.time(text), requires = "to", conflicts_with = "bytes")]
    omit: Option<Duration>,
    /// How much to move, instead
    #[arg(long, value_name = "SIZE", requires = "to")]
    bytes: Option<ByteCount>,
    /// The buffer of each socket [default: the system's choice]
    #[arg(long, value_name = "SIZE", requires = "to")]
    tcp_buffer: Option<ByteCount>,
    /// What iperf3 is told beside the server
    #[arg(value_name = "ARGUMENT", last = true, conflicts_with = "to")]
    arguments: Vec<OsString>,
    #[command(flatten)]
    trust: TrustArgs,
}

impl From<Iperf3Run> for Iperf3Args {
    fn from(run: Iperf3Run) -> Self {
        let Iperf3Run { endpoint, limit, by, setup } = run;
        let alone = Self {
            endpoint: endpoint.into(),
            limit,
            to: None,
            reverse: false,
            streams: 1,
            time: None,
            omit: None,
            bytes: None,
            tcp_buffer: None,
            arguments: Vec::new(),
            trust: TrustArgs::of(&setup),
        };
        match by {
            Iperf3By::Us(arguments) => {
                Self { arguments: arguments.into_iter().map(OsString::from).collect(), ..alone }
            }
            Iperf3By::Endpoint(Iperf3Between { to, reverse, streams, amount, omit, buffer }) => {
                let (time, bytes) = match amount {
                    Iperf3For::Time(time) => (Some(time), None),
                    Iperf3For::Bytes(bytes) => (None, Some(bytes)),
                };
                let to = Some(to.into());
                Self { to, reverse, streams, time, omit, bytes, tcp_buffer: buffer, ..alone }
            }
        }
    }
}

/// Runs the command.
pub fn run(args: &Iperf3Args) -> anyhow::Result<ExitCode> {
    let address = endpoint(&args.endpoint)?;
    if let Some(other) = &args.to {
        return between(args, &address, &endpoint(other)?);
    }
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

fn endpoint(text: &OsString) -> anyhow::Result<Address> {
    Ok(Place::endpoint(text, "iperf3")?)
}

/// Has one endpoint measure against the other, and prints what iperf3 told there.
fn between(args: &Iperf3Args, from: &Address, to: &Address) -> anyhow::Result<ExitCode> {
    let seconds = |time: Duration| u32::try_from(time.as_millis().div_ceil(1000)).unwrap_or(u32::MAX);
    let measured = seconds(args.time.unwrap_or(TIME));
    let amount = match (args.bytes, args.omit.map_or(0, seconds)) {
        (Some(bytes), _) => Iperf3Amount::Bytes(bytes),
        (None, 0) => Iperf3Amount::Seconds(measured),
        (None, omitted) => Iperf3Amount::SecondsAfter { omitted, measured },
    };
    let test = Iperf3Test { streams: args.streams, amount, reverse: args.reverse, buffer: args.tcp_buffer };
    let report = iperf3_between(from, to, args.trust.pki()?.as_ref(), test, args.limit)?;
    let told: serde_json::Value = serde_json::from_slice(&report).map_err(|error| {
        Error::new(ErrorKind::Protocol, format!("the endpoint answered with no report of iperf3: {error}"))
    })?;
    std::io::stdout().write_all(&report)?;
    match told.get("error").and_then(serde_json::Value::as_str) {
        None => Ok(ExitCode::SUCCESS),
        Some(why) => {
            let why = one_line(why.trim_start_matches("error - "));
            let (from, to) = (from.place(), to.place());
            let why = format!("iperf3 at {from}, against the server at {to}: {why}");
            Err(Error::new(ErrorKind::Io, why).into())
        }
    }
}

/// Begins a client that ends with us, and is told none of our secrets.
fn start(server: &Iperf3Server, arguments: &[OsString]) -> std::io::Result<Child> {
    let mut command = Command::new(own_program::path());
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
