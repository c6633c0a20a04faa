//! Jobs as a service shows them.

use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Deserialize;
use tidegate_control::{BitRate, ByteCount};
use tidegate_fleet::client::{PATIENCE, Service};
use tidegate_fleet::shards::Standing;
use tidegate_service::history::Decision;
use tidegate_service::job::{Job, JobId, State};
use tidegate_transfer::error::Retry;

use crate::exit;
use crate::progress::clock;

/// Between two looks at a job that is waited for.
pub const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// How soon for the first time; who waits for a short job loses little of its time.
const FIRST_POLL: Duration = Duration::from_millis(20);

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
    let began = Instant::now();
    let mut heard = began;
    loop {
        match service.get::<ShownJob>(&format!("/jobs/{id}")) {
            Ok(shown) if shown.job.state.is_final() => return Ok(shown),
            Ok(_) => heard = Instant::now(),
            // It may be started again, and goes on then.
            Err(error) if error.kind.retry() == Retry::Outage && heard.elapsed() < PATIENCE => {}
            Err(error) => return Err(error.into()),
        }
        std::thread::sleep((began.elapsed() / 50).clamp(FIRST_POLL, POLL_INTERVAL));
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

/// A time, here and to the second, and how long ago that is or how soon.
pub fn moment(ms: i64) -> String {
    let Some((at, now)) = Timestamp::from_millisecond(ms).ok().zip(now_ms()) else { return String::new() };
    let at = at.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string();
    match now - ms {
        past @ 0.. => format!("{at}, {} ago", between(past)),
        future => format!("{at}, in {}", between(-future)),
    }
}

/// How long ago that was, in a few characters.
pub fn age(ms: i64) -> String {
    now_ms().map_or_else(String::new, |now| between((now - ms).max(0)))
}

fn now_ms() -> Option<i64> {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_millis()).ok()
}

fn between(ms: i64) -> String {
    let seconds = ms / 1000;
    match seconds {
        ..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_with_their_age() {
        let ago = |seconds: i64| now_ms().expect("a clock") - seconds * 1000 - 100;
        assert_eq!(
            [5, 119, 120, 7200, 200_000].map(|s| age(ago(s))),
            ["5 s", "119 s", "2 min", "2 h", "2 d"]
        );
        let told = moment(ago(300));
        assert!(told.ends_with(", 5 min ago") && told.starts_with("20"), "{told}");
        assert!(moment(ago(-600)).contains(", in 9 min"), "{}", moment(ago(-600)));
        assert_eq!(moment(i64::MAX), "");
    }
}
