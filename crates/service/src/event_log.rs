//! The log that a job names: events, appended, one a line or as HTCondor writes them.
//!
//! `2026-11-21T22:31:05.120Z job 12 DONE 10 GiB in 93.1 s: 923 Mbit/s`

mod htcondor;

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::OFlags;
use tidegate_contract::summary::Summary;
use tidegate_contract::text::{count, one_line};
use tidegate_control::{BitRate, ByteCount};

use crate::history::Timestamp;
use crate::job::{JobId, LogFormat, Progress, Request};

/// What happened to a job.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "each is the event that it names")]
pub(crate) enum Logged {
    Submitted(String),
    Started { attempt: u32 },
    Estimate { streams: u16, throughput: BitRate, reason: String },
    NoEstimate(String),
    Progress(Progress),
    Waits(String),
    Retrying { pause: Duration, why: String },
    Paused,
    Resumed,
    Done(Option<Box<Summary>>),
    Failed(String),
    Cancelled,
}

impl Logged {
    /// That a job was submitted, without its secrets.
    pub fn submitted(request: &Request) -> Self {
        Self::Submitted(request.route_in_words())
    }
}

impl Logged {
    /// Whether nothing follows it, unless the job is tried again by its user.
    pub(crate) const fn ends_the_job(&self) -> bool {
        matches!(self, Self::Done(_) | Self::Failed(_) | Self::Cancelled)
    }
}

impl fmt::Display for Logged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Submitted(route) => write!(f, "SUBMITTED {route}"),
            Self::Started { attempt } => write!(f, "STARTED attempt {attempt}"),
            Self::Estimate { streams, throughput, reason } => {
                write!(f, "ESTIMATE {}, {throughput}: {reason}", count(*streams, "stream"))
            }
            Self::NoEstimate(why) => write!(f, "ESTIMATE none: {why}"),
            Self::Progress(Progress { bytes, total_bytes, throughput_bps, streams, .. }) => {
                write!(f, "PROGRESS {bytes}")?;
                if let Some(total) = total_bytes {
                    write!(f, " of {total}")?;
                }
                write!(f, ", {throughput_bps}, {}", count(*streams, "stream"))
            }
            Self::Waits(why) => write!(f, "WAITING {why}"),
            Self::Retrying { pause, why } => write!(f, "RETRYING in {:.1} s: {why}", pause.as_secs_f64()),
            Self::Paused => f.write_str("PAUSED"),
            Self::Resumed => f.write_str("RESUMED"),
            Self::Done(None) => f.write_str("DONE"),
            Self::Done(Some(summary)) => {
                let time = Duration::from_millis(summary.duration_ms).as_secs_f64();
                write!(
                    f,
                    "DONE {} in {time:.1} s: {}",
                    ByteCount(summary.bytes),
                    BitRate(summary.goodput_bps)
                )
            }
            Self::Failed(why) => write!(f, "FAILED {why}"),
            Self::Cancelled => f.write_str("CANCELLED"),
        }
    }
}

/// What a path is called where nothing is to be written.
pub(crate) const NOWHERE: &str = "/dev/null";

/// Appends `event` to the log at `path`, in one write, so that jobs may share a file.
pub(crate) async fn append(path: PathBuf, format: LogFormat, job: JobId, event: &Logged) -> io::Result<()> {
    let text = match format {
        LogFormat::Lines => format!("{} job {job} {}\n", Timestamp::now(), one_line(&event.to_string())),
        LogFormat::Htcondor => htcondor::text(job, Timestamp::now(), event),
    };
    let shown = one_line(&path.display().to_string());
    let written = tokio::task::spawn_blocking(move || write(&path, &text)).await;
    let written = written.unwrap_or_else(|error| Err(io::Error::other(error)));
    written.map_err(|error| io::Error::new(error.kind(), format!("cannot write the log {shown}: {error}")))
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    if path == Path::new(NOWHERE) {
        return Ok(());
    }
    let mut options = OpenOptions::new();
    // A pipe that nobody reads is refused and not waited for.
    options.append(true).create(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    let mut file = options.open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    append_whole(&mut file, text.as_bytes())
}

/// Writes all of it or none: behind a part, where there was no room for the rest, the next event could not be read either.
fn append_whole(file: &mut File, event: &[u8]) -> io::Result<()> {
    let mut written = 0;
    while written < event.len() {
        match file.write(&event[written..]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(more) => written += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                let (end, here) = (file.metadata()?.len(), file.stream_position()?);
                // Unless another job has written behind it.
                if written > 0 && end == here {
                    file.set_len(end.saturating_sub(written as u64))?;
                }
                return Err(error);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_appended_without_secrets_and_pipes_are_refused() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("job.log");
        let id = JobId::new(12).expect("a number");
        let request = Request::transfer("tg://secret@h/a", "/b");
        let summary =
            Summary { bytes: 10 << 30, duration_ms: 93_100, goodput_bps: 923_000_000, ..Summary::default() };
        let events = [
            Logged::submitted(&request),
            Logged::Failed("two\nlines\x1b\u{202e}".to_owned()),
            Logged::Done(Some(Box::new(summary))),
        ];
        for event in &events {
            runtime.block_on(append(path.clone(), LogFormat::Lines, id, event)).expect("appended");
        }
        let text = std::fs::read_to_string(&path).expect("read");
        let lines: Vec<(&str, &str)> = text.lines().filter_map(|line| line.split_once(' ')).collect();
        let said: Vec<&str> = lines.iter().map(|(_, said)| *said).collect();
        assert_eq!(
            said,
            [
                "job 12 SUBMITTED tg://h/a → /b",
                "job 12 FAILED two lines\\x1b\\xe2\\x80\\xae",
                "job 12 DONE 10 GiB in 93.1 s: 923 Mbit/s"
            ]
        );
        for (time, _) in lines {
            assert!(time.ends_with('Z') && time.parse::<jiff::Timestamp>().is_ok(), "{time}");
        }
        let append_to =
            |path: &str| runtime.block_on(append(path.into(), LogFormat::Lines, id, &Logged::Paused));
        assert!(append_to(NOWHERE).is_ok());
        let error = append_to("/dev/zero").expect_err("refused");
        assert!(error.to_string().contains("not a file"), "{error}");
    }
}
