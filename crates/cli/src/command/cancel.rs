//! `tidegate cancel`: ends jobs of a running service.

use std::process::ExitCode;

use clap::Args;
use serde_json::Value;
use tidegate_service::job::{JobId, State};

use crate::exit;
use crate::service::ServiceArgs;
use crate::terminal;

/// End jobs of a running service; what arrived complete stays.
#[derive(Debug, Args)]
pub struct CancelArgs {
    /// Their numbers
    #[arg(value_name = "ID", required = true)]
    ids: Vec<JobId>,
    /// Print a JSON array of the jobs as they stand now
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    service: ServiceArgs,
}

/// Runs the command.
pub fn run(args: &CancelArgs) -> anyhow::Result<ExitCode> {
    let service = args.service.open()?;
    let mut jobs: Vec<Value> = Vec::new();
    let mut refused = Vec::new();
    for id in &args.ids {
        match service.post::<Value>(&format!("/jobs/{id}/cancel"), &Value::Null) {
            Ok(job) => jobs.push(job),
            Err(error) => refused.push(error),
        }
    }
    if args.json {
        terminal::print_json(&jobs)?;
    } else {
        for job in &jobs {
            let state = job.get("state").and_then(Value::as_str).and_then(|state| state.parse().ok());
            let (id, state) = (job.get("id").unwrap_or(&Value::Null), state.unwrap_or(State::Cancelled));
            terminal::print(&format!("job {id} {}", state.in_words()))?;
        }
    }
    match (refused.pop(), jobs.is_empty()) {
        (None, _) => Ok(ExitCode::SUCCESS),
        (Some(error), true) if refused.is_empty() => Err(error.into()),
        (Some(last), _) => {
            for error in refused.iter().chain([&last]) {
                terminal::complain(&error.message);
            }
            Ok(ExitCode::from(exit::SOME_FAILED))
        }
    }
}
