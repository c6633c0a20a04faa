//! `tidegate estimate`: how many streams, how fast, how long.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde::{Deserialize, Serialize};
use tidegate_control::{BitRate, ByteCount};
use tidegate_run::place::Place;
use tidegate_run::settings::{TrustArgs, history_url};
use tidegate_service::estimate::{
    Answer, EstimateError, EstimateOrigin, EstimateRequest, Program, Sampled, SamplingEvent,
    estimate_and_wait, signalled,
};
use tidegate_spec::estimate::EstimateSpec;
use tidegate_spec::form::path_option;
use tidegate_spec::options::Options;
use tidegate_transfer::error::Error;
use tidegate_transfer::wire::ticket::Address;

use crate::asked::{only, read};
use crate::caller::Caller;
use crate::exit::{INTERRUPTED, SOME_FAILED, USAGE, in_one_line, of_kind, usage};
use crate::output::JsonArgs;
use crate::service::{address_there, connect};
use crate::terminal;

/// Tell how many streams a path can use, how fast they are, and how long so many bytes take.
///
/// Samples are taken with 1, 2, 4, … streams until more bring too little; a model of throughput through them
/// gives the optimum. Samples and answer are remembered.
#[derive(Debug, Default, Args, Serialize, Deserialize)]
#[serde(default)]
pub struct EstimateArgs {
    /// Where the data is: tg://…, NAME:…, gsiftp://…, ftp://…, http(s)://…, s3://…, gs://… or a path of this host
    #[arg(value_name = "SRC")]
    #[serde(skip)]
    source: OsString,
    /// Where it is to go: tg://…, NAME:…, gsiftp://…, ftp://… or a path of this host
    #[arg(value_name = "DST")]
    #[serde(skip)]
    destination: OsString,
    /// How much there is [default: the size of SRC, if that is a file of this host]
    #[arg(long, value_name = "SIZE")]
    bytes: Option<ByteCount>,
    #[command(flatten)]
    #[serde(flatten)]
    output: JsonArgs,
    #[command(flatten)]
    #[serde(flatten)]
    spec: EstimateSpec,
    /// Where history is kept: sqlite:PATH or postgres://… [default: history.db in the state directory]
    #[arg(
        long,
        value_name = "URL",
        env = "TIDEGATE_DATABASE",
        hide_env_values = true,
        help_heading = "History"
    )]
    database: Option<String>,
    /// Ask the running service at URL, which measures from its host and remembers; paths are paths of that host
    #[arg(long, value_name = "URL", conflicts_with = "database", help_heading = "Service")]
    server: Option<String>,
    /// The certificate authority of its certificate, PEM [default: the system's]
    #[arg(long, value_name = "FILE", env = "TIDEGATE_SERVER_CA", help_heading = "Service")]
    #[serde(with = "path_option")]
    server_ca: Option<PathBuf>,
    #[command(flatten)]
    #[serde(flatten)]
    trust: TrustArgs,
}

/// How often a program is asked whether it still waits.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// What is printed when there is no answer and a script asked.
#[derive(Serialize)]
struct Failed<'a> {
    status: &'static str,
    error: &'a str,
}

/// Runs the command.
pub fn run(args: &EstimateArgs, caller: &Caller) -> anyhow::Result<ExitCode> {
    let result = estimate(args, caller);
    if args.output.json {
        let text = match &result {
            Ok(answer) => serde_json::to_string(answer)?,
            Err((code, error)) => {
                let status = if *code == INTERRUPTED { "interrupted" } else { "failed" };
                serde_json::to_string(&Failed { status, error })?
            }
        };
        caller.print(&text)?;
    }
    match result {
        Ok(answer) => {
            if !args.output.json {
                caller.print(&shown(&answer).join("\n"))?;
            }
            Ok(ExitCode::SUCCESS)
        }
        Err((code, error)) => {
            caller.complain(&error);
            Ok(ExitCode::from(code))
        }
    }
}

/// The answer, or an exit code and why there is none.
fn estimate(args: &EstimateArgs, caller: &Caller) -> Result<Answer, (u8, String)> {
    let misused = |error: Error| (of_kind(error.kind), error.to_string());
    let request = args.request().map_err(misused)?;
    let state = args.trust.state_dir().map_err(misused)?;
    if let Some(server) = &args.server {
        return ask(args, server, &state, &request).map_err(|error| {
            let code = error.downcast_ref::<Error>().map_or(SOME_FAILED, |error| of_kind(error.kind));
            (code, in_one_line(&error))
        });
    }
    let program = Program::ours(args.trust.setup(&state));
    let database = history_url(args.database.as_deref(), &state);
    let tells = !args.output.json && terminal::can_show_view();
    let answer = estimate_and_wait(program, &database, &request, stopped(caller), &mut |event| {
        if tells {
            terminal::tell(&told(&event));
        }
    });
    answer.map_err(|error| {
        let code = match error {
            EstimateError::Usage(_) => USAGE,
            EstimateError::Interrupted => INTERRUPTED,
            _ => SOME_FAILED,
        };
        (code, error.to_string())
    })
}

/// Waits until whoever asked wants no answer any more.
fn stopped(caller: &Caller) -> Pin<Box<dyn Future<Output = ()>>> {
    match caller {
        Caller::Terminal => Box::pin(signalled()),
        Caller::Program(channel) => {
            let interrupt = channel.interrupt.clone();
            Box::pin(async move {
                while !interrupt.is_raised() {
                    tokio::time::sleep(POLL_INTERVAL).await;
                }
            })
        }
    }
}

/// The answer of a running service, which tells how sampling goes.
fn ask(args: &EstimateArgs, server: &str, state: &Path, request: &EstimateRequest) -> anyhow::Result<Answer> {
    let service = connect(Some(server), args.server_ca.as_deref(), state)?;
    let tells = !args.output.json && terminal::can_show_view();
    service.follow("/estimates", request, |name, data| {
        match name {
            "answer" => return Ok(Some(serde_json::from_str(data)?)),
            "sampling" if tells => terminal::tell(&told(&serde_json::from_str(data)?)),
            _ => {}
        }
        Ok(None)
    })
}

impl EstimateArgs {
    /// An estimate with options that are told by their names.
    pub fn asked(options: &Options, sources: Vec<OsString>, destination: OsString) -> Result<Self, Error> {
        let args: Self = read(options)?;
        args.spec.check().map_err(usage)?;
        if args.server.is_some() && args.database.is_some() {
            return Err(usage("--server cannot be used with --database"));
        }
        let database = said("TIDEGATE_DATABASE").filter(|_| args.server.is_none());
        Ok(Self {
            source: only(sources)?,
            destination,
            database: args.database.or_else(|| database.and_then(|url| url.into_string().ok())),
            server_ca: args.server_ca.or_else(|| said("TIDEGATE_SERVER_CA").map(PathBuf::from)),
            trust: args.trust.or_said()?,
            ..args
        })
    }

    fn request(&self) -> Result<EstimateRequest, Error> {
        let bytes = match self.bytes {
            Some(bytes) => bytes,
            None => size_of(&self.source)?,
        };
        let (source, destination) = match self.server {
            // Names are those that the service knows.
            Some(_) => {
                let there = |argument: &OsStr| address_there(&argument.to_string_lossy());
                (there(&self.source)?, there(&self.destination)?)
            }
            None => (address(&self.source)?, address(&self.destination)?),
        };
        Ok(EstimateRequest {
            // A proxy of this host is none of the service's.
            x509proxy: std::env::var_os("X509_USER_PROXY").filter(|_| self.server.is_none()).map(Into::into),
            spec: self.spec.clone(),
            ..EstimateRequest::new(source, destination, bytes)
        })
    }
}

/// What the environment says by that name, if anything.
fn said(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|said| !said.is_empty())
}

/// An argument as the service knows it: a URL as it is, a remembered name as its address, else a path.
fn address(argument: &OsStr) -> Result<String, Error> {
    let text = argument.to_string_lossy();
    if text.contains("://") && !Address::is_address(text.as_bytes()) {
        return Ok(text.into_owned());
    }
    Ok(match Place::parse(argument)? {
        Place::Endpoint(address) => String::from_utf8_lossy(&address.to_bytes()).into_owned(),
        Place::Local(path) => String::from_utf8_lossy(&path).into_owned(),
        Place::Ssh(..) => return Place::endpoint(argument, "estimate").map(|address| address.public()),
    })
}

/// The size of a file of this host.
fn size_of(source: &OsStr) -> Result<ByteCount, Error> {
    let needed = || usage("--bytes SIZE is needed, unless SRC is a file of this host");
    if source.to_string_lossy().contains("://") {
        return Err(needed());
    }
    let file = std::fs::metadata(Path::new(source)).map_err(|_| needed())?;
    if file.is_file() { Ok(ByteCount(file.len())) } else { Err(needed()) }
}

/// A line of what happens.
fn told(event: &SamplingEvent) -> String {
    let streams = |n: u16| format!("{n:>4} {:<7}", if n == 1 { "stream" } else { "streams" });
    match event {
        SamplingEvent::Waiting => "waiting for other estimates".to_owned(),
        SamplingEvent::Sampling { streams: n } => format!("{}  …", streams(*n)),
        SamplingEvent::Sampled(sampled) => {
            let Sampled { throughput, bytes, spent_ms, .. } = sampled;
            format!("{}  {throughput:>12}   {bytes} in {}", streams(sampled.streams), period(*spent_ms))
        }
        SamplingEvent::Failed { streams: n, why, again } => {
            format!("{}  {why}{}", streams(*n), if *again { "; trying again" } else { "" })
        }
    }
}

/// The answer for people.
fn shown(answer: &Answer) -> Vec<String> {
    let mut lines = vec![format!("{}   {}", answer.pair, answer.bytes)];
    let picture = picture(answer);
    if !picture.is_empty() {
        lines.push(String::new());
        lines.extend(picture);
        lines.push(String::new());
    }
    let rate = |rate: Option<BitRate>| rate.map_or_else(|| "not known".to_owned(), |rate| rate.to_string());
    let time = |time: Option<u64>| time.map_or_else(|| "not known".to_owned(), period);
    let by = answer.model.map_or_else(String::new, |model| format!(", by the model {model}"));
    let row = |name: &str, value: String| format!("{name:<12}{value}");
    lines.push(row("streams", format!("{} ({}{by})", answer.streams, answer.reason)));
    lines.push(row("throughput", rate(answer.throughput_bps)));
    lines.push(row("time", time(answer.time_ms)));
    if let (Some(rate), Some(time)) = (answer.single_throughput_bps, answer.single_time_ms) {
        lines.push(row("one stream", format!("{rate}, {}", period(time))));
    }
    lines.push(row("found out", found_out(answer)));
    lines.extend(answer.notes.iter().map(|note| row("note", note.clone())));
    lines
}

fn found_out(answer: &Answer) -> String {
    let by = answer.sampler.map_or_else(|| "transfers".to_owned(), |kind| kind.to_string());
    match answer.origin {
        EstimateOrigin::NotSampled => "not at all".to_owned(),
        EstimateOrigin::History { age_ms } => format!("{} ago, by {by}", period(age_ms)),
        EstimateOrigin::Sampled => {
            let worth = match answer.pays {
                Some(true) => "which pays",
                Some(false) if answer.streams == 1 && answer.samples.len() > 1 => {
                    "and one stream is as good as any"
                }
                Some(false) => "which does not pay for so few bytes",
                None => "which nobody can tell to pay",
            };
            format!("in {} with {} by {by}, {worth}", period(answer.cost_ms), answer.cost_bytes)
        }
    }
}

/// Height and width of the picture.
const ROWS: usize = 9;
const COLUMNS: usize = 56;

/// The samples and the curve believed, over the logarithm of the streams; nothing without two of them.
fn picture(answer: &Answer) -> Vec<String> {
    let curve = answer.curves.iter().find(|curve| curve.chosen).map_or(&[][..], |curve| &curve.points);
    let samples = answer.samples.iter().map(|sampled| (sampled.streams, sampled.throughput));
    let samples: Vec<(u16, BitRate)> = samples.filter(|(streams, _)| *streams > 0).collect();
    let chosen = answer.throughput_bps.map(|rate| (answer.streams, rate));
    let all = || curve.iter().map(|point| (point.streams, point.throughput)).chain(samples.iter().copied());
    let (end, top) =
        all().chain(chosen).fold((1, BitRate::ZERO), |(n, rate), (m, other)| (n.max(m), rate.max(other)));
    if samples.len() < 2 || end < 2 || top == BitRate::ZERO {
        return Vec::new();
    }
    let column = |n: u16| {
        let share = f64::from(n.max(1)).ln() / f64::from(end).ln();
        (share * (COLUMNS - 1) as f64).round() as usize
    };
    let row = |rate: BitRate| {
        let share = (rate.0 as f64 / top.0 as f64).clamp(0.0, 1.0);
        ((1.0 - share) * (ROWS - 1) as f64).round() as usize
    };
    let mut grid = vec![[' '; COLUMNS]; ROWS];
    for point in curve {
        grid[row(point.throughput)][column(point.streams)] = '·';
    }
    for &(streams, rate) in &samples {
        grid[row(rate)][column(streams)] = 'o';
    }
    if let Some((streams, rate)) = chosen {
        grid[row(rate)][column(streams)] = '◆';
    }
    let label = |i: usize| match i {
        0 => top.to_string(),
        _ if i == ROWS - 1 => "0".to_owned(),
        _ => String::new(),
    };
    let mut lines: Vec<String> = grid
        .iter()
        .enumerate()
        .map(|(i, cells)| {
            format!("{:>12} │{}", label(i), cells.iter().collect::<String>()).trim_end().to_owned()
        })
        .collect();
    let mut axis = [' '; COLUMNS + 4];
    let mut free = 0;
    for &(streams, _) in &samples {
        let (at, text) = (column(streams), streams.to_string());
        if at >= free {
            for (i, digit) in text.chars().enumerate() {
                axis[at + i] = digit;
            }
            free = at + text.len() + 1;
        }
    }
    lines.push(format!("{:>12} └{}", "", "─".repeat(COLUMNS)));
    let axis: String = axis.iter().collect();
    lines.push(format!("{:>12}  {}", "streams", axis.trim_end()));
    lines.push(format!("{:>12}  o measured   · model   ◆ chosen", ""));
    lines
}

/// A time, as a person would say it.
fn period(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0 => format!("{ms} ms"),
        1..60 => format!("{:.1} s", ms as f64 / 1000.0),
        60..3600 => format!("{}:{:02} min", seconds / 60, seconds % 60),
        3600..172_800 => format!("{}:{:02} h", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use tidegate_control::throughput_model::{Sample, choose};
    use tidegate_service::sampler::SamplerKind;
    use tidegate_spec::pair::Pair;

    use super::*;

    fn answer(bytes: ByteCount) -> Answer {
        let samples: Vec<Sample> = [1, 2, 4, 8, 16]
            .map(|n: u16| Sample::new(n, BitRate::mbps((u64::from(n) * 100).min(800))))
            .to_vec();
        let pair = Pair::of("/data", "tg://dtn2:7117").expect("a pair");
        let mut answer = Answer::unknown(pair, bytes, "");
        let sampled = |sample: &Sample| Sampled {
            streams: sample.streams,
            throughput: sample.throughput,
            bytes: ByteCount::mib(10),
            spent_ms: 1700,
            note: None,
        };
        answer.samples = samples.iter().map(sampled).collect();
        answer.origin = EstimateOrigin::Sampled;
        answer.sampler = Some(SamplerKind::Native);
        (answer.cost_ms, answer.cost_bytes) = (8500, ByteCount::mib(50));
        answer.chosen(choose(&samples, 32), 32)
    }

    #[test]
    fn an_answer_reads_well() {
        let lines = shown(&answer(ByteCount::gib(10)));
        let all = lines.join("\n");
        assert!(lines.iter().all(|line| line.chars().count() <= 100), "{all}");
        for part in [
            "local → tg://dtn2:7117   10 GiB",
            "800 Mbit/s │",
            "◆",
            "o",
            "14:18 min",
            "in 8.5 s with 50 MiB by native, which pays",
        ] {
            assert!(all.contains(part), "{part}: {all}");
        }
        let axis = lines.iter().find(|line| line.contains("streams  1")).expect("an axis");
        assert_eq!(
            axis.split_whitespace().collect::<Vec<_>>(),
            ["streams", "1", "2", "4", "8", "16"],
            "{all}"
        );
        let small = shown(&answer(ByteCount::mib(20))).join("\n");
        assert!(small.contains("does not pay"), "{small}");
    }

    #[test]
    fn an_answer_of_nothing_reads_well() {
        let pair = Pair::of("/data", "tg://dtn2:7117").expect("a pair");
        let answer = Answer::unknown(pair, ByteCount(0), "there is nothing to move");
        let lines = shown(&answer);
        assert_eq!(lines[1], "streams     1 (there is nothing to move)");
        assert_eq!(lines[3], "time        0 ms");
        assert_eq!(lines.last().map(String::as_str), Some("found out   not at all"));
    }

    #[test]
    fn times_are_said_as_people_do() {
        for (ms, text) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (9_400, "9.4 s"),
            (75_000, "1:15 min"),
            (7_300_000, "2:01 h"),
            (80_000_000_000, "925 days"),
        ] {
            assert_eq!(period(ms), text);
        }
        assert!(!period(u64::MAX).is_empty());
    }
}
