//! Jobs as a service shows them.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde::Deserialize;
use tidegate_control::{BitRate, ByteCount};
use tidegate_service::fleet::Standing;
use tidegate_service::history::Decision;
use tidegate_service::job::{Job, JobId, State};

use super::leases::of;
use super::{PATIENCE, Service};
use crate::exit;
use crate::progress::clock;

/// Between two looks at a job that is waited for.
pub const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// A job, and what was decided for it.
#[derive(Debug, Deserialize)]
pub struct ShownJob {
    /// The job.
    #[serde(flatten)]
    pub job: Job,
    /// What was decided for it.
    #[serde(default)]
    pub decisions: Vec<Decision>,
    /// How its shards and movers stand, if many hosts move it.
    #[serde(default)]
    pub spread: Option<Standing>,
}

impl ShownJob {
    /// The exit code that tells how it ended; 0 while it has not.
    pub fn code(&self) -> ExitCode {
        match self.job.state {
            State::Failed => ExitCode::from(exit::SOME_FAILED),
            State::Cancelled => ExitCode::from(exit::INTERRUPTED),
            _ => ExitCode::SUCCESS,
        }
    }
}

/// Waits until a job is at its end; the service may be started again meanwhile.
pub fn wait_for(service: &Service, id: JobId) -> anyhow::Result<ShownJob> {
    let mut heard = Instant::now();
    loop {
        match service.get::<ShownJob>(&format!("/jobs/{id}")).map_err(of) {
            Ok(shown) if shown.job.state.is_final() => return Ok(shown),
            Ok(_) => heard = Instant::now(),
            // It may be started again, and goes on then.
            Err(error) if error.is_retryable() && heard.elapsed() < PATIENCE => {}
            Err(error) => return Err(error.into()),
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// How far a job has come, in a few words.
pub fn progress(job: &Job) -> String {
    let moved = job.progress;
    match (job.state, &job.summary) {
        (State::Done, Some(summary)) => {
            format!("{}, {}", ByteCount(summary.bytes), BitRate(summary.goodput_bps))
        }
        _ if moved.bytes.0 == 0 => String::new(),
        (state, _) => {
            let mut text = match moved.total_bytes {
                Some(total) if total.0 > 0 => format!("{} of {total}", moved.bytes),
                _ => moved.bytes.to_string(),
            };
            if state.is_active() {
                text.push_str(&format!(", {}", moved.throughput_bps));
                if let Some(left @ 1..) = moved.left_ms {
                    text.push_str(&format!(", {} left", clock(left as f64 / 1000.0)));
                }
            }
            text
        }
    }
}
