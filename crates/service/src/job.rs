//! What a user asks to be done, and what has become of it.

pub(crate) mod arguments;
pub mod file;
mod stream_rule;
mod values;

mod spec;

mod request;

mod advice;
mod state;
pub(crate) mod stored;

pub use request::{Dependency, JobKind, LogFormat, Request, RequestError};
pub use spec::Spec;
pub use state::{Event, IllegalTransition, State};
pub use stream_rule::{StreamRule, StreamSpec};

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate_contract::error_kind::ErrorKind;
use tidegate_contract::summary::{FailedFile, Files, Status};
use tidegate_control::{BitRate, ByteCount};

/// The number of a job, given when it is submitted and never given again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobId(NonZeroU64);

impl JobId {
    /// The job of this number, which is from 1 to what SQL can hold.
    pub fn new(number: u64) -> Option<Self> {
        NonZeroU64::new(number).filter(|number| i64::try_from(number.get()).is_ok()).map(Self)
    }

    /// Its number.
    pub const fn get(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for JobId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.parse().ok().and_then(Self::new);
        number.ok_or_else(|| {
            format!("{:?} is not the number of a job", text.chars().take(40).collect::<String>())
        })
    }
}

/// A job as it stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Its number.
    pub id: JobId,
    /// What was asked for.
    pub request: Request,
    /// What it is doing.
    pub state: State,
    /// Why it is in that state, in one line.
    pub reason: String,
    /// How often it was begun.
    pub attempts: u32,
    /// How often it failed and was to be tried again.
    pub failures: u32,
    /// When it was submitted, in ms since the epoch.
    pub submitted_ms: i64,
    /// When it was begun last.
    pub started_ms: Option<i64>,
    /// When it ended for good.
    pub ended_ms: Option<i64>,
    /// Not begun again before this time.
    pub not_before_ms: Option<i64>,
    /// Since when an end of it does not answer.
    #[serde(default)]
    pub outage_since_ms: Option<i64>,
    /// How many jobs it still waits for.
    pub waits_for: u32,
    /// How far it had come when this was last noted.
    pub progress: Progress,
    /// How the last attempt ended, with what all of them have moved.
    pub summary: Option<Summary>,
}

impl Job {
    /// The same without the secrets of its addresses, to be shown.
    #[must_use]
    pub fn public(mut self) -> Self {
        self.request = self.request.public();
        self
    }
}

/// How far a job has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Progress {
    /// Bytes of content that are at the destination, committed or not, those that were there before among them.
    pub bytes: ByteCount,
    /// Bytes that will be there in the end, once that is known.
    pub total_bytes: Option<ByteCount>,
    /// How fast they arrive, over the last ten seconds, in bit/s.
    pub throughput_bps: BitRate,
    /// How long the rest takes at that rate, in ms.
    pub left_ms: Option<u64>,
    /// Network streams in the last epoch.
    pub streams: u16,
}

/// How an attempt ended, from the JSON that the program printed, without what is longer than it is useful. That of a job has
/// the numbers of all its attempts together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Summary {
    /// The end in a word.
    pub status: Status,
    /// Whether all content was checked at the destination.
    pub verified: bool,
    /// Numbers of files.
    pub files: Files,
    /// Bytes moved and committed.
    pub bytes: u64,
    /// Bytes moved of files that are not complete, with which the next attempt goes on.
    #[serde(skip_serializing_if = "is_zero")]
    pub unfinished_bytes: u64,
    /// Bytes that had to be sent again.
    pub resent_bytes: u64,
    /// How long it took.
    pub duration_ms: u64,
    /// `bytes` over the duration.
    pub goodput_bps: u64,
    /// The rule that decided.
    pub optimizer: String,
    /// Network streams, averaged over the time.
    pub streams_mean: f64,
    /// The first files that did not arrive.
    pub failures: Vec<FailedFile>,
    /// What ended it early.
    pub error: Option<String>,
    /// What kind of error that was, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_kind: Option<ErrorKind>,
    /// The answer to an estimation job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimate: Option<serde_json::Value>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Summary {
    /// This of the last attempt, with the numbers of those `before` it added: what they moved is there already for this one.
    #[must_use]
    pub fn after(self, before: &Self) -> Self {
        let ok = self.files.ok.saturating_add(before.files.ok);
        let skipped = self.files.skipped.saturating_sub(before.files.ok);
        let files = Files {
            // A source that is moved away has less from attempt to attempt; one that was not reached has none.
            total: self.files.total.max(before.files.total).max(ok + skipped + self.files.failed),
            ok,
            failed: self.files.failed,
            skipped,
            refreshed: self.files.refreshed.saturating_add(before.files.refreshed),
            deleted: self.files.deleted.saturating_add(before.files.deleted),
        };
        let bytes = self.bytes.saturating_add(before.bytes).saturating_add(before.unfinished_bytes);
        let duration_ms = self.duration_ms.saturating_add(before.duration_ms);
        let weighed = |summary: &Self| summary.streams_mean * summary.duration_ms as f64;
        let streams_mean = match duration_ms {
            0 => self.streams_mean,
            all => (weighed(&self) + weighed(before)) / all as f64,
        };
        let optimizer = if self.optimizer.is_empty() { before.optimizer.clone() } else { self.optimizer };
        Self {
            files,
            bytes,
            resent_bytes: self.resent_bytes.saturating_add(before.resent_bytes),
            duration_ms,
            goodput_bps: BitRate::over(ByteCount(bytes), Duration::from_millis(duration_ms)).0,
            optimizer,
            streams_mean,
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_has_what_all_attempts_moved() {
        let files = |total, ok, failed, skipped| Files { total, ok, failed, skipped, ..Files::default() };
        let first = Summary {
            files: files(100, 60, 40, 0),
            bytes: 500,
            unfinished_bytes: 100,
            duration_ms: 1000,
            streams_mean: 2.0,
            optimizer: "auto".to_owned(),
            ..Summary::default()
        };
        // One that reached nobody.
        let second = Summary { duration_ms: 1000, ..Summary::default() }.after(&first);
        assert_eq!((second.files, second.bytes, &second.optimizer[..]), (files(100, 60, 0, 0), 600, "auto"));
        let last = Summary {
            status: Status::Complete,
            verified: true,
            files: files(100, 30, 0, 70),
            bytes: 300,
            duration_ms: 2000,
            streams_mean: 5.0,
            optimizer: "aimd".to_owned(),
            ..Summary::default()
        };
        let all = last.after(&second);
        assert_eq!((all.status, all.verified, &all.optimizer[..]), (Status::Complete, true, "aimd"));
        // Ten were there before the first.
        assert_eq!((all.files, all.bytes, all.duration_ms), (files(100, 90, 0, 10), 900, 4000));
        assert_eq!((all.goodput_bps, all.streams_mean), (1800, 3.0));
        // What is moved away is not listed again.
        let rest = Summary { files: files(40, 40, 0, 0), ..Summary::default() }.after(&first);
        assert_eq!(rest.files, files(100, 100, 0, 0));
    }
}
