//! `tidegate job`: one job of a running service, and what to do with it.

use std::io::BufRead;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::Value;
use tidegate_contract::epoch_line;
use tidegate_contract::text::count;
use tidegate_control::units::duration_in_words;
use tidegate_control::{BitRate, ByteCount, Meter};
use tidegate_fleet::client::Service;
use tidegate_fleet::shards::{MoverStanding, Standing};
use tidegate_service::job::{JobId, JobKind, State};

use crate::service::ServiceArgs;
use crate::service::jobs::{POLL_INTERVAL, ShownJob, moment, progress};
use crate::terminal;

/// Show a job of a running service.
///
/// Exits 0 unless the job has failed (1) or was cancelled (130).
#[derive(Debug, Args)]
pub struct JobArgs {
    /// Its number
    #[arg(value_name = "ID")]
    id: JobId,
    /// Follow it, epoch by epoch, until it is at its end
    #[arg(long)]
    follow: bool,
    /// Let it rest; what it moved is kept
    #[arg(long, conflicts_with_all = ["resume", "retry", "follow"])]
    pause: bool,
    /// Let it go on
    #[arg(long, conflicts_with_all = ["retry", "follow"])]
    resume: bool,
    /// Try it again after it has failed, and what failed because it did; or at once, where it waits to be
    #[arg(long, conflicts_with = "follow")]
    retry: bool,
    /// With --retry: all that failed, or wait, for the same reason as well
    #[arg(long, requires = "retry")]
    alike: bool,
    /// Print a JSON object; with --follow, a line for each event
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    service: ServiceArgs,
}

/// Runs the command.
pub fn run(args: &JobArgs) -> anyhow::Result<ExitCode> {
    let service = args.service.open()?;
    let value: Value = match (args.pause, args.resume) {
        (true, _) => service.post(&format!("/jobs/{}/pause", args.id), &Value::Null)?,
        (_, true) => service.post(&format!("/jobs/{}/resume", args.id), &Value::Null)?,
        _ if args.retry => {
            service.post(&format!("/jobs/{}/retry?alike={}", args.id, args.alike), &Value::Null)?
        }
        _ if args.follow => return follow(args, &service),
        _ => service.get(&format!("/jobs/{}", args.id))?,
    };
    let shown: ShownJob = serde_json::from_value(value.clone())?;
    let mut text = if args.json { value.to_string() } else { text(&shown) };
    if let (false, Some(others @ 1..)) = (args.json, value["retried"].as_u64().map(|count| count - 1)) {
        text += &match others {
            1 => "\n1 other job is tried again with it".to_owned(),
            _ => format!("\n{others} other jobs are tried again with it"),
        };
    }
    terminal::print(&text)?;
    Ok(shown.code())
}

fn text(shown: &ShownJob) -> String {
    let job = &shown.job;
    let request = &job.request;
    let mut lines = vec![format!("job {} {}", job.id, job.state.in_words())];
    let mut add = |name: &str, value: String| {
        if !value.is_empty() {
            lines.push(format!("  {name:9} {value}"));
        }
    };
    add("why", job.reason.clone());
    add("from", request.sources.join(", "));
    add("to", request.destination.clone());
    if request.kind == JobKind::Estimation {
        add("kind", "estimation".to_owned());
    }
    add("progress", progress(job));
    add("submitted", moment(job.submitted_ms));
    add("started", job.started_ms.map(moment).unwrap_or_default());
    if let Some(next) = job.not_before_ms.filter(|_| job.state == State::Retrying) {
        add("again", moment(next));
    }
    add("ended", job.ended_ms.map(moment).unwrap_or_default());
    add("attempts", job.attempts.to_string());
    if request.priority != 0 {
        add("priority", request.priority.to_string());
    }
    if let Some(summary) = &job.summary {
        let seconds = Duration::from_millis(summary.duration_ms).as_secs_f64();
        if summary.duration_ms > 0 {
            let verified = if summary.verified { ", all verified" } else { "" };
            add("moved", format!("{} in {seconds:.1} s{verified}", ByteCount(summary.bytes)));
            add(
                "streams",
                format!("{:.1} on average ({})", summary.concurrency_mean.network, summary.optimizer),
            );
        }
        for failure in summary.failures.iter().take(5) {
            add("failed", failure.message.clone());
        }
        if let Some(estimate) = &summary.estimate {
            let number = |key: &str| estimate.get(key).and_then(Value::as_u64);
            if let (Some(streams), Some(bps)) = (number("streams"), number("throughput_bps")) {
                add("estimate", format!("{}: {}", count(streams, "stream"), BitRate(bps)));
            }
        }
    }
    if let Some(spread) = &shown.spread {
        add("shards", format!("{} of {} at their end", spread.ended_shards, spread.shards));
        for mover in &spread.movers {
            add("mover", mover_in_words(mover));
        }
    }
    for decision in &shown.decisions {
        add("decided", format!("{}: {}", decision.action, decision.reason));
    }
    lines.join("\n")
}

/// A mover, its host, what it does and did, and when it was last heard.
fn mover_in_words(mover: &MoverStanding) -> String {
    let MoverStanding { name, host, endpoint, leases, shards, files, bytes, .. } = mover;
    // Those that call themselves nothing else have their host in their names.
    let host =
        if host.is_empty() || name.starts_with(&host[..]) { String::new() } else { format!(" on {host}") };
    let by = endpoint.as_ref().map(|endpoint| format!(" by way of {endpoint}")).unwrap_or_default();
    let now = match leases {
        0 => "rests".to_owned(),
        _ => format!("{}, {}", BitRate(mover.throughput_bps), count(mover.streams, "stream")),
    };
    let (files, bytes) = (count(*files, "file"), ByteCount(*bytes));
    let heard = duration_in_words(Duration::from_secs(mover.silent_ms / 1000));
    format!("{name}{host}{by}: {now}; {}, {files}, {bytes}; heard {heard} ago", count(*shards, "shard"))
}

/// Prints what the service tells of a job until it is at its end.
fn follow(args: &JobArgs, service: &Service) -> anyhow::Result<ExitCode> {
    loop {
        let mut last: Option<ShownJob> = None;
        let mut meter = Meter::default();
        let mut event = String::new();
        for line in service.lines(&format!("/jobs/{}/epochs", args.id))?.lines() {
            let Ok(line) = line else { break };
            if let Some(name) = line.strip_prefix("event:") {
                event = name.trim().to_owned();
            }
            let Some(data) = line.strip_prefix("data:") else { continue };
            let data = data.trim();
            if args.json {
                terminal::print(&format!("{{\"event\":\"{event}\",\"data\":{data}}}"))?;
            }
            if event == "epoch" {
                let Some(epoch) = epoch_line::read(data.as_bytes()) else { continue };
                let (n, at) = (epoch.concurrency, Duration::from_millis(epoch.t_ms));
                meter.hear(at, epoch.arrived.unwrap_or_default().new_bytes);
                if !args.json {
                    let (seconds, rate) = (at.as_secs_f64(), meter.rate(at));
                    let text = format!(
                        "{seconds:>7.1} s  {:>12}  read {}  network {}  write {}",
                        rate.to_string(),
                        n.read,
                        n.network,
                        n.write
                    );
                    terminal::print(&text)?;
                }
            } else if event == "spread" {
                let standing: Standing = serde_json::from_str(data)?;
                // As a line of JSON it stands there already.
                if !args.json {
                    for mover in &standing.movers {
                        terminal::print(&format!("           mover {}", mover_in_words(mover)))?;
                    }
                }
            } else {
                let shown: ShownJob = serde_json::from_str(data)?;
                let changed = last.as_ref().is_none_or(|last| last.job.state != shown.job.state);
                let waits = shown.job.state == State::Running && shown.job.outage_since_ms.is_some();
                if (changed || waits) && !args.json && !shown.job.state.is_final() {
                    let job = &shown.job;
                    terminal::tell(&format!("job {} {}: {}", job.id, job.state.in_words(), job.reason));
                }
                last = Some(shown);
            }
        }
        // A stream also ends when the service does: what the job is now decides.
        let shown: ShownJob = match last {
            Some(shown) if shown.job.state.is_final() => shown,
            _ => service.get(&format!("/jobs/{}", args.id))?,
        };
        if shown.job.state.is_final() {
            if !args.json {
                terminal::print(&text(&shown))?;
            }
            return Ok(shown.code());
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}
