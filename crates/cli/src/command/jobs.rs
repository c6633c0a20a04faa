//! `tidegate jobs`: what a running service has to do, does and did.

use std::collections::BTreeMap;
use std::process::ExitCode;

use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tidegate_service::job::{Job, State};

use crate::service::ServiceArgs;
use crate::service::jobs::{age, progress};
use crate::terminal;

/// Jobs asked for at once.
const PAGE: u32 = 100;

/// List the jobs of a running service, the newest first.
#[derive(Debug, Args)]
pub struct JobsArgs {
    /// Only jobs in this state: blocked, queued, running, pausing, paused, retrying, cancelling, done, failed or
    /// cancelled
    #[arg(long, value_name = "STATE")]
    only: Option<State>,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 30)]
    limit: u32,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    service: ServiceArgs,
}

#[derive(Default, Deserialize, Serialize)]
struct Page {
    jobs: Vec<Value>,
    next: Option<String>,
    counts: BTreeMap<String, u64>,
}

/// Runs the command.
pub fn run(args: &JobsArgs) -> anyhow::Result<ExitCode> {
    let service = args.service.open()?;
    let mut all = Page::default();
    let mut left = args.limit;
    loop {
        let mut path = format!("/jobs?limit={}", left.clamp(1, PAGE));
        if let Some(state) = args.only {
            path.push_str(&format!("&state={state}"));
        }
        if let Some(next) = &all.next {
            path.push_str(&format!("&cursor={next}"));
        }
        let page: Page = service.get(&path)?;
        left = left.saturating_sub(page.jobs.len() as u32);
        let ends = page.jobs.is_empty() || left == 0 || page.next.is_none();
        all.jobs.extend(page.jobs);
        (all.next, all.counts) = (page.next, page.counts);
        if ends {
            break;
        }
    }
    if args.json {
        terminal::print_json(&all)?;
        return Ok(ExitCode::SUCCESS);
    }
    let jobs: Vec<Job> = all.jobs.into_iter().map(serde_json::from_value).collect::<Result<_, _>>()?;
    let mut lines: Vec<String> = Vec::new();
    if !jobs.is_empty() {
        let [job, state, age, started, ended] = ["job", "state", "age", "started", "ended"];
        let when = format!("{age:>7}  {started:>10}  {ended:>10}");
        lines.push(format!("{job:>8}  {state:10}  {when}  {:42}  from → to", "progress"));
    }
    for job in &jobs {
        let ago = |at: Option<i64>| at.map_or("-".to_owned(), |ms| format!("{} ago", age(ms)));
        let (started, ended) = (ago(job.started_ms), ago(job.ended_ms));
        let when = format!("{:>7}  {started:>10}  {ended:>10}", age(job.submitted_ms));
        let (progress, route) = (progress(job), job.request.route_in_words());
        lines.push(format!("{:>8}  {:10}  {when}  {progress:42}  {route}", job.id, job.state));
        lines.extend(why(job).map(|why| format!("{:>8}  {why}", "")));
    }
    let counts: Vec<String> = all
        .counts
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(state, count)| format!("{count} {state}"))
        .collect();
    lines.push(if counts.is_empty() { "no jobs".to_owned() } else { counts.join(", ") });
    terminal::print(&lines.join("\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// Why a job does not get on, or did not.
fn why(job: &Job) -> Option<&str> {
    let tells = match job.state {
        State::Failed | State::Retrying => true,
        State::Running | State::Queued => job.outage_since_ms.is_some(),
        _ => false,
    };
    (tells && !job.reason.is_empty()).then_some(&job.reason[..])
}
