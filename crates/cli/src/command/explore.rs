//! `tidegate explore`: random concurrency against a live path, and what the path can do.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use tidegate_control::calibration::{Calibration, MIN_EPOCHS, calibrate, read_log};
use tidegate_control::utility::Utility;
use tidegate_control::{BitRate, ByteCount, Epoch, PerStage, Stage};
use tidegate_run::ends::Ends;
use tidegate_run::place::Place;
use tidegate_run::route::RouteArgs;
use tidegate_run::settings::{optimizer, pace};
use tidegate_run::ssh::SshArgs;
use tidegate_run::whole_file::WholeFile;
use tidegate_spec::control::{Control, ControlSpec};
use tidegate_spec::range::Range;
use tidegate_transfer::error::{Error, ErrorKind};
use tidegate_transfer::spec::Memory;
use tidegate_transfer::terms::{Terms, Verify};
use tidegate_transfer::transfer::route::{From, To};

use crate::caller::Caller;
use crate::exit::usage;
use crate::output::JsonArgs;
use crate::signals::interrupt_on_signals;
use crate::terminal;

/// More than any exploration moves.
const ENDLESS: ByteCount = ByteCount(1 << 60);

/// Learn what a path can do, by trying random numbers of workers on it.
///
/// Moves zeros from memory to the endpoint DST and drops them there (no file is touched on either side),
/// or with --files copies SRC to DST for as long: what has arrived by then stays, and `tidegate copy`
/// does the rest. Prints a line an epoch, and at the end what one worker moves, what all of them move at
/// most, and the numbers of workers that reach it. docs/learning.md says how long is long enough.
#[derive(Debug, Args)]
#[command(after_help = crate::exit::HELP, mut_arg("optimizer", |arg| arg.default_value("explore:isolate")))]
pub struct ExploreArgs {
    /// The endpoint to explore the path to; with --files, where to copy to
    #[arg(value_name = "DST", required_unless_present = "from")]
    destination: Option<OsString>,
    /// Copy this to DST, so that reading and writing are explored too; may be given several times
    #[arg(long, value_name = "SRC")]
    files: Vec<OsString>,
    /// Explore the way back, from DST to here
    #[arg(long, conflicts_with = "files")]
    pull: bool,
    /// How long
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = |text: &str| TIMES.time(text))]
    duration: Duration,
    /// Write the log, one JSON line an epoch, to LOG once it is whole
    #[arg(id = "output", short = 'o', long = "output", value_name = "LOG")]
    log: Option<PathBuf>,
    /// Write the path that was found to FILE, as a scenario for `tidegate simulate` and `tidegate train`
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
    /// Explore nothing, and look at this log of an exploration
    #[arg(long, value_name = "LOG", conflicts_with_all = ["destination", "files", "pull", "output"])]
    from: Option<PathBuf>,
    #[command(flatten)]
    pub output: JsonArgs,
    #[command(flatten)]
    pub route: RouteArgs,
    #[command(flatten)]
    ssh: SshArgs,
}

/// How long it may take.
const TIMES: Range<Duration> =
    Range::new(Duration::from_secs(1), Duration::from_secs(86_400), "must be from 1s to 86400s");

#[derive(Serialize)]
struct Report<'a> {
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    /// For the utility's K.
    r_max_mbps: f64,
    utility_k: f64,
    log: Option<&'a Path>,
    scenario: Option<&'a Path>,
    #[serde(flatten)]
    calibration: &'a Calibration,
}

impl ExploreArgs {
    fn k(&self) -> f64 {
        self.route.control.spec.utility_k.unwrap_or(Utility::default().k)
    }
}

/// Runs the command.
pub fn run(args: &ExploreArgs) -> anyhow::Result<ExitCode> {
    let scenario = args.scenario.as_deref().map(WholeFile::begin).transpose()?;
    let (log, name) = match &args.from {
        Some(file) => (read(file)?, file.clone()),
        None => {
            let output = args.log.as_deref().map(WholeFile::begin).transpose()?;
            let name = args.log.clone().unwrap_or_else(|| PathBuf::from("this exploration"));
            (explore(args, output)?, name)
        }
    };
    let calibration =
        calibrate(&log).map_err(|error| Error::new(ErrorKind::Io, format!("{}: {error}", name.display())))?;
    if let (Some(file), Some(path)) = (scenario, &args.scenario) {
        let stem = path.file_stem().unwrap_or_default();
        file.commit(calibration.to_toml(&stem.to_string_lossy()))?;
    }
    if args.output.json {
        let report = Report {
            status: "complete",
            seed: args.from.is_none().then_some(args.route.control.spec.seed),
            r_max_mbps: calibration.r_max(args.k()),
            utility_k: args.k(),
            log: args.from.as_deref().or(args.log.as_deref()),
            scenario: args.scenario.as_deref(),
            calibration: &calibration,
        };
        terminal::print_json(&report)?;
    } else {
        terminal::print(&text(&calibration, args.k()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn read(file: &Path) -> Result<Vec<Epoch>, Error> {
    let name = file.display();
    let text = fs::read_to_string(file).map_err(|error| {
        let kind =
            if error.kind() == std::io::ErrorKind::NotFound { ErrorKind::NotFound } else { ErrorKind::Io };
        Error::new(kind, format!("{name}: {error}"))
    })?;
    read_log(&text).map_err(|error| Error::new(ErrorKind::Io, format!("{name}: {error}")))
}

/// Tries random concurrency for as long as asked. What was seen is written to `output` also when it ends
/// early.
fn explore(args: &ExploreArgs, output: Option<WholeFile>) -> anyhow::Result<Vec<Epoch>> {
    // K is that of R_max; no rule that explores has one.
    let Control { spec, local } = args.route.control.clone();
    let control = Control { spec: ControlSpec { utility_k: None, ..spec }, local };
    let mut pace = pace(&control, optimizer(&control)?.as_ref());
    let epochs = args.duration.as_millis() / pace.epoch.as_millis().max(1);
    if epochs < MIN_EPOCHS as u128 {
        let (time, epoch) = (args.duration.as_secs_f64(), pace.epoch.as_secs_f64());
        let why = format!("{time} s are {epochs} epochs of {epoch} s, and at least {MIN_EPOCHS} are needed");
        return Err(usage(format!("{why}: give --duration more, or --epoch less")).into());
    }
    // The last epoch is to end, too.
    pace.stop_after = Some(args.duration + pace.epoch / 2);
    let mut terms = args.route.terms();
    let ends = ends(args, &mut terms)?;
    let three = !args.files.is_empty();
    let shows = !args.output.json;
    if shows {
        let seconds = args.duration.as_secs_f64();
        let ControlSpec { optimizer, seed, .. } = &control.spec;
        terminal::print(&format!("{} for {seconds} s, {optimizer}, seed {seed}", ends.title))?;
        terminal::print(&heading(three))?;
    }
    let setup = args.route.setup(terms, pace, interrupt_on_signals())?;
    let work = ends.work(&args.ssh, setup, args.route.patience.retry_for);
    let shown = JsonArgs { quiet: true, ..args.output.clone() };
    let state = args.route.trust.state_dir()?;
    let job = shown.job(work, &control, String::new(), state, &Caller::Terminal);
    let ended = job.run_and_show(|epoch| {
        if shows {
            // A reader who has left is no reason to stop.
            let _ = terminal::print(&line(epoch, three));
        }
    })?;
    drop(ends);
    if let (Some(file), false) = (output, ended.epochs.is_empty()) {
        let line = |epoch| serde_json::to_string(epoch).map(|line| line + "\n");
        file.commit(&ended.epochs.iter().map(line).collect::<Result<String, _>>()?)?;
    }
    match ended.error {
        Some(error) if error.kind == ErrorKind::Interrupted => {
            let why = format!("interrupted after {} of {epochs} epochs", ended.epochs.len());
            Err(Error::new(ErrorKind::Interrupted, why).into())
        }
        Some(error) => Err(error.into()),
        None => {
            if three && (ended.epochs.len() as u128) < epochs {
                let seen = ended.epochs.len();
                terminal::complain(&format!("everything was copied after {seen} of {epochs} epochs"));
            }
            Ok(ended.epochs)
        }
    }
}

fn ends(args: &ExploreArgs, terms: &mut Terms) -> Result<Ends, Error> {
    let destination = args.destination.as_deref().unwrap_or_default();
    if !args.files.is_empty() {
        return Ends::between(&args.files, destination, terms, &args.route.trust);
    }
    let address = Place::endpoint(destination, "exploring without --files")?;
    // There is no content to verify; a damaged block is noticed all the same.
    terms.verify = Verify::Block;
    let title = format!("exploring {}", address.public());
    let memory = Memory { bytes: ENDLESS };
    let (from, to) = match args.pull {
        true => (From::EndpointZero(address, memory), To::Null),
        false => (From::Zero(memory), To::Endpoint(address)),
    };
    Ok(Ends::of_memory(from, to, title))
}

fn heading(three: bool) -> String {
    match three {
        true => format!(
            "{:>8}  {:>8}  {:>11}  {:>11}  {:>11}  {:>15}",
            "time", "workers", "read", "network", "write", "staging"
        ),
        false => format!("{:>8}  {:>7}  {:>11}  {:>15}", "time", "streams", "network", "staging"),
    }
}

/// One epoch: time, workers, throughput, and how full the staging is at the sender and the receiver.
fn line(epoch: &Epoch, three: bool) -> String {
    let used = |free: ByteCount, size: ByteCount| 100.0 * (1.0 - free.0 as f64 / size.0.max(1) as f64);
    let (free, size) = (epoch.staging_free_bytes, epoch.staging_capacity_bytes);
    let used = |free, size: ByteCount| match size.0 {
        0 => "-".to_owned(),
        _ => format!("{:.0} %", used(free, size)),
    };
    let staging =
        format!("{:>6} / {:>6}", used(free.sender, size.sender), used(free.receiver, size.receiver));
    let time = format!("{:.1} s", epoch.t_ms as f64 / 1000.0);
    let n = epoch.concurrency;
    let PerStage { read, network, write } = epoch.throughput_bps.map(|rate| rate.to_string());
    match three {
        true => {
            let workers = format!("{}/{}/{}", n.read, n.network, n.write);
            format!("{time:>8}  {workers:>8}  {read:>11}  {network:>11}  {write:>11}  {staging:>15}")
        }
        false => format!("{time:>8}  {:>7}  {network:>11}  {staging:>15}", n.network),
    }
}

/// What was found, for people.
fn text(found: &Calibration, k: f64) -> String {
    let mut lines = vec![format!(
        "{:<8}  {:>13}  {:>13}  {:>8}  {:>4}",
        "", "one worker", "all workers", "readings", "best"
    )];
    for stage in Stage::ALL {
        let Some(fit) = found.stages[stage] else { continue };
        let readings = fit.worker_readings + fit.total_readings;
        let least = if fit.worker_readings == 0 { "≥ " } else { "" };
        lines.push(format!(
            "{:<8}  {:>13}  {:>13}  {readings:>8}  {:>4}",
            stage.name(),
            format!("{least}{}", fit.worker_rate_bps),
            fit.total_rate_bps.map_or_else(|| "no limit seen".to_owned(), |total| total.to_string()),
            found.optimum[stage]
        ));
    }
    let reached = if found.bandwidth_reached { "" } else { ", and more with more workers" };
    let r_max = BitRate::from_mbps(found.r_max(k));
    lines.push(format!(
        "{} with the best numbers{reached}; measurements are {:.1} % off; R_max {r_max} (K = {k})",
        found.bandwidth_bps,
        found.noise * 100.0
    ));
    lines.join("\n")
}
