//! `tidegate probe`: how much a path carries, memory to memory.

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use tidegate_contract::summary::Status;
use tidegate_contract::text::count;
use tidegate_control::{BitRate, ByteCount, Epoch};
use tidegate_run::drive::Work;
use tidegate_run::place::Place;
use tidegate_run::route::RouteArgs;
use tidegate_run::settings::TrustArgs;
use tidegate_run::steady::Steady;
use tidegate_spec::control::Control;
use tidegate_spec::measure::{ProbeRun, Until};
use tidegate_spec::plane::Patience;
use tidegate_spec::range::Range;
use tidegate_transfer::spec::Memory;
use tidegate_transfer::terms::Verify;
use tidegate_transfer::transfer::Pace;
use tidegate_transfer::transfer::route::{From, To};

use crate::caller::Caller;
use crate::exit::{self, usage};
use crate::output::OutputArgs;
use crate::signals::interrupt_on_signals;
use crate::terminal;

/// More than any probe moves.
const ENDLESS: ByteCount = ByteCount(1 << 60);

/// A rate is judged by so many epochs, of no less than this, unless it is said how long they are.
const STEADY_EPOCHS: u32 = 5;
const MIN_EPOCH: Duration = Duration::from_millis(100);

/// Measure what a path carries, from memory to memory: no disk on either side.
#[derive(Debug, Args)]
pub struct ProbeArgs {
    /// The endpoint to measure against
    #[arg(value_name = "DST")]
    destination: OsString,
    /// Measure from this endpoint to DST instead of from here
    #[arg(long, value_name = "SRC", conflicts_with = "pull")]
    from: Option<OsString>,
    /// Measure the way back, from DST to here
    #[arg(long)]
    pull: bool,
    /// How long
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = |text: &str| TIMES.time(text))]
    time: Duration,
    /// End as soon as the rate has stopped rising and was seen for so long; --time is the most that this may take
    #[arg(long, value_name = "TIME", value_parser = |text: &str| STEADY_TIMES.time(text))]
    steady: Option<Duration>,
    /// End after so much, if that is before the time is over [default: no such end]
    #[arg(long, value_name = "SIZE", value_parser = |text: &str| SIZES.size(text))]
    bytes: Option<ByteCount>,
    #[command(flatten)]
    pub output: OutputArgs<false>,
    #[command(flatten)]
    pub route: RouteArgs,
}

impl std::convert::From<ProbeRun> for ProbeArgs {
    fn from(run: ProbeRun) -> Self {
        let ProbeRun { source, destination, until, longest, control, plane, setup } = run;
        let (from, pull, destination) = match (source, destination) {
            (Some(source), None) => (None, true, source),
            (source, destination) => (source, false, destination.unwrap_or_default()),
        };
        let (steady, bytes) = match until {
            Until::Steady(time) => (Some(time), None),
            Until::Bytes(bytes) => (None, Some(bytes)),
        };
        let patience = setup.retry_for.map_or_else(Patience::default, |retry_for| Patience { retry_for });
        Self {
            destination: destination.into(),
            from: from.map(OsString::from),
            pull,
            time: longest,
            steady,
            bytes,
            output: OutputArgs::of(&setup),
            route: RouteArgs {
                trust: TrustArgs::of(&setup),
                control: Control { spec: control, local: setup.control },
                plane,
                patience,
            },
        }
    }
}

/// How long it may take, and be steady, and how much may be moved.
const TIMES: Range<Duration> =
    Range::new(Duration::from_millis(500), Duration::from_secs(86_400), "must be from 500ms to 86400s");
const STEADY_TIMES: Range<Duration> =
    Range::new(Duration::from_millis(100), Duration::from_secs(3600), "must be from 100ms to 3600s");
const SIZES: Range<ByteCount> = Range::new(ByteCount(1), ENDLESS, "must be from 1B to 1EiB");

#[derive(Serialize)]
struct Report<'a> {
    status: Status,
    optimizer: &'a str,
    duration_ms: u64,
    bytes: u64,
    throughput_bps: u64,
    best_throughput_bps: u64,
    best_concurrency: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    steady: Option<SteadyRate>,
    loss: Option<f64>,
    rtt_us: Option<u64>,
    epochs: &'a [Epoch],
}

/// What was seen since the rate stopped rising.
#[derive(Serialize)]
struct SteadyRate {
    throughput_bps: u64,
    duration_ms: u64,
}

/// Runs the command.
pub fn run(args: &ProbeArgs) -> anyhow::Result<ExitCode> {
    let RouteArgs { control, plane, .. } = &args.route;
    control.spec.check().and_then(|()| plane.check()).map_err(usage)?;
    let endpoint = |text| Place::endpoint(text, "probe");
    let destination = endpoint(&args.destination)?;
    let memory = Memory { bytes: args.bytes.unwrap_or(ENDLESS) };
    let title = format!("measuring {} for {} s", destination.public(), args.time.as_secs_f64());
    let (from, to) = match (&args.from, args.pull) {
        (Some(source), _) => (From::EndpointZero(endpoint(source)?, memory), To::Endpoint(destination)),
        (None, true) => (From::EndpointZero(destination, memory), To::Null),
        (None, false) => (From::Zero(memory), To::Endpoint(destination)),
    };
    let mut pace = args.route.pace()?;
    if let (Some(least), None) = (args.steady, args.route.control.spec.epoch) {
        pace = Pace::new((least / STEADY_EPOCHS).max(MIN_EPOCH));
    }
    pace.stop_after = Some(args.time);
    let mut terms = args.route.terms();
    // There is no content to verify; a damaged block is noticed all the same.
    terms.verify = Verify::Block;
    let setup = args.route.setup(terms, pace, interrupt_on_signals())?;
    let mut work = Work::transfer(from, to, setup, args.route.patience.retry_for);
    if let Some(least) = args.steady {
        work = work.until_steady(least);
    }
    let job =
        args.output.job(work, &args.route.control, title, args.route.trust.state_dir()?, &Caller::Terminal);
    let ended = job.run()?;
    if let Some(error) = ended.error {
        return Err(error.into());
    }
    let epochs = &ended.epochs;
    let network = |epoch: &Epoch| epoch.throughput_bps.network;
    let time: u64 = epochs.iter().map(|epoch| epoch.interval_ms).sum();
    let weighted: f64 = epochs.iter().map(|epoch| network(epoch).0 as f64 * epoch.interval_ms as f64).sum();
    let mean = BitRate::from_bps(weighted / time.max(1) as f64);
    let best = epochs.iter().max_by_key(|epoch| network(epoch));
    let last = epochs.last();
    let steady = args.steady.and_then(|least| Steady::of(epochs, least).rate());
    // Who completed no epoch has measured nothing.
    let code = if epochs.is_empty() { ExitCode::from(exit::SOME_FAILED) } else { ExitCode::SUCCESS };
    if args.output.json {
        let report = Report {
            status: if epochs.is_empty() { Status::Incomplete } else { ended.summary.status },
            optimizer: &args.route.control.spec.optimizer,
            duration_ms: ended.summary.duration_ms,
            bytes: ended.moved.0,
            throughput_bps: mean.0,
            best_throughput_bps: best.map_or(0, |epoch| network(epoch).0),
            best_concurrency: best.map_or(0, |epoch| epoch.concurrency.network),
            steady: steady.map(|(rate, time)| SteadyRate {
                throughput_bps: rate.0,
                duration_ms: time.as_millis() as u64,
            }),
            loss: last.and_then(|epoch| epoch.loss),
            rtt_us: last.and_then(|epoch| epoch.rtt_us),
            epochs,
        };
        terminal::print_json(&report)?;
        return Ok(code);
    }
    let mut lines =
        vec![format!("{:>8}  {:>7}  {:>12}  {:>8}  {:>8}", "time", "streams", "throughput", "loss", "rtt")];
    lines.extend(epochs.iter().map(|epoch| {
        format!(
            "{:>6.1} s  {:>7}  {:>12}  {:>8}  {:>8}",
            epoch.t_ms as f64 / 1000.0,
            epoch.concurrency.network,
            network(epoch).to_string(),
            epoch.loss.map_or_else(|| "-".to_owned(), |loss| format!("{:.2} %", loss * 100.0)),
            epoch.rtt_us.map_or_else(|| "-".to_owned(), |rtt| format!("{:.1} ms", rtt as f64 / 1000.0)),
        )
    }));
    lines.push(match best {
        Some(best) => {
            let streams = count(best.concurrency.network, "stream");
            format!("mean {mean}, best {} with {streams}", network(best))
        }
        None => "no epoch was completed: give --time more, or --epoch less".to_owned(),
    });
    if args.steady.is_some() && !epochs.is_empty() {
        lines.push(match steady {
            Some((rate, time)) => format!("steady {rate} over the last {:.1} s", time.as_secs_f64()),
            None => "it still rose: give --time more".to_owned(),
        });
    }
    terminal::print(&lines.join("\n"))?;
    Ok(code)
}
