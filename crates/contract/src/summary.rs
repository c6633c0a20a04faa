//! How a run ended, as the one JSON object that `--json` prints: what scripts read, and what the service reads of the
//! programs that it runs.

use std::time::Duration;

use serde::de::IntoDeserializer;
use serde::de::value::StringDeserializer;
use serde::{Deserialize, Deserializer, Serialize};
use tidegate_control::{BitRate, ByteCount, PerStage};

use crate::error_kind::ErrorKind;
use crate::exit::Exit;

/// How a run ended; a stable contract. What a text lacks is read as nothing, so that an older program's is understood.
///
/// ```
/// use tidegate_contract::exit::Exit;
/// use tidegate_contract::summary::{Files, Status, Summary};
///
/// let files = Files { total: 3, ok: 2, failed: 1, ..Files::default() };
/// let summary = Summary { status: Status::of(None, files.failed), files, bytes: 1 << 20, ..Summary::default() };
/// let text = serde_json::to_string(&summary)?;
/// let read: Summary = serde_json::from_str(&text)?;
/// assert_eq!(read, summary);
/// assert_eq!((read.status, read.exit(None)), (Status::Incomplete, Exit::SomeFailed));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Summary {
    /// The end in a word.
    #[serde(deserialize_with = "status")]
    pub status: Status,
    /// Whether every file is at the destination and its content was checked.
    pub verified: bool,
    /// Numbers of files.
    pub files: Files,
    /// Bytes of content that this run moved and committed.
    pub bytes: u64,
    /// Bytes that it moved of files that are not complete, about, with which the next run goes on.
    #[serde(skip_serializing_if = "is_zero")]
    pub unfinished_bytes: u64,
    /// Bytes that are kept of files that are not complete, about, whichever run moved them.
    #[serde(skip_serializing_if = "is_zero")]
    pub kept_bytes: u64,
    /// Bytes that had to be sent again.
    pub resent_bytes: u64,
    /// From the start of the command's work to its end.
    pub duration_ms: u64,
    /// `bytes` over the duration.
    pub goodput_bps: u64,
    /// The rule that decided.
    pub optimizer: String,
    /// Workers a stage, averaged over the time.
    pub concurrency_mean: PerStage<f64>,
    /// Files that did not arrive: the first 10,000.
    pub failures: Vec<FailedFile>,
    /// What ended the run early.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What kind of error that was, where that is known.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "some_kind")]
    pub error_kind: Option<ErrorKind>,
    /// The operating system's number for it, if it was the system of this host that said so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errno: Option<i32>,
    /// The run's epochs, one JSON line each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
    /// Files that are there, and of which no checksum was known to hold them against.
    #[serde(skip_serializing_if = "is_zero")]
    pub unchecked: u64,
    /// What was written beside the files.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sidecars: Vec<String>,
    /// Files that archives were converted to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub converted: Vec<String>,
    /// The answer to an estimation job, as the service's `Estimate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimate: Option<serde_json::Value>,
}

/// How a run ended, in a word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Every file is at its destination.
    Complete,
    /// Some files failed.
    Incomplete,
    /// It was asked to stop, and continues when it is run again.
    Interrupted,
    /// The destination has no room.
    NoSpace,
    /// An error ended it.
    #[default]
    Failed,
}

/// Numbers of files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Files {
    /// Listed at the source.
    pub total: u64,
    /// Moved and committed by this run.
    pub ok: u64,
    /// Not at the destination.
    pub failed: u64,
    /// There already, and verified.
    pub skipped: u64,
    /// Those of them that were only given another mode or time.
    #[serde(skip_serializing_if = "is_zero")]
    pub refreshed: u64,
    /// Files and directories that were removed at the destination, or moved to the backup directory.
    #[serde(skip_serializing_if = "is_zero")]
    pub deleted: u64,
}

/// A file that did not arrive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FailedFile {
    /// Its path, with unprintable bytes as `\x1b`.
    pub path: String,
    /// What kind of failure.
    #[serde(deserialize_with = "kind")]
    pub kind: ErrorKind,
    /// Why.
    pub message: String,
    /// The operating system's number for it, if it was the system of this host that said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errno: Option<i32>,
}

impl Status {
    /// The status for an end by an error of kind `error`, or with so many failed files.
    pub const fn of(error: Option<ErrorKind>, failed: u64) -> Self {
        match error {
            None if failed == 0 => Self::Complete,
            None => Self::Incomplete,
            Some(ErrorKind::Interrupted) => Self::Interrupted,
            Some(ErrorKind::NoSpace) => Self::NoSpace,
            Some(_) => Self::Failed,
        }
    }

    /// Its word in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Incomplete => "incomplete",
            Self::Interrupted => "interrupted",
            Self::NoSpace => "no_space",
            Self::Failed => "failed",
        }
    }
}

impl Summary {
    /// The exit code, where an error of kind `error` ended the run if any did.
    pub fn exit(&self, error: Option<ErrorKind>) -> Exit {
        match error {
            Some(kind) => Exit::of(kind),
            None if self.failures.iter().any(|failure| failure.kind == ErrorKind::NoSpace) => Exit::NoSpace,
            None if self.files.failed > 0 || !self.failures.is_empty() => Exit::SomeFailed,
            None => Exit::Complete,
        }
    }

    /// This of the last run, with the numbers of those `before` it added: what they moved is there already for this one.
    #[must_use]
    pub fn after(self, before: &Self) -> Self {
        let ok = self.files.ok.saturating_add(before.files.ok);
        let skipped = self.files.skipped.saturating_sub(before.files.ok);
        let files = Files {
            // A source that is moved away has less from run to run; one that was not reached has none.
            total: self.files.total.max(before.files.total).max(ok + skipped + self.files.failed),
            ok,
            failed: self.files.failed,
            skipped,
            refreshed: self.files.refreshed.saturating_add(before.files.refreshed),
            deleted: self.files.deleted.saturating_add(before.files.deleted),
        };
        let bytes = self.bytes.saturating_add(before.bytes).saturating_add(before.unfinished_bytes);
        let duration_ms = self.duration_ms.saturating_add(before.duration_ms);
        let weighed = |summary: &Self, stage| summary.concurrency_mean[stage] * summary.duration_ms as f64;
        let concurrency_mean = match duration_ms {
            0 => self.concurrency_mean,
            all => PerStage::from_fn(|stage| (weighed(&self, stage) + weighed(before, stage)) / all as f64),
        };
        let optimizer = if self.optimizer.is_empty() { before.optimizer.clone() } else { self.optimizer };
        Self {
            files,
            bytes,
            resent_bytes: self.resent_bytes.saturating_add(before.resent_bytes),
            duration_ms,
            goodput_bps: BitRate::over(ByteCount(bytes), Duration::from_millis(duration_ms)).0,
            optimizer,
            concurrency_mean,
            ..self
        }
    }

    /// Whether nothing is there, and all that failed was refused.
    pub fn is_refused(&self) -> bool {
        let refused = [ErrorKind::Authentication, ErrorKind::Denied];
        let nothing = self.files.ok + self.files.skipped == 0 && self.files.failed > 0;
        nothing && self.failures.iter().all(|failure| refused.contains(&failure.kind))
    }
}

/// Nothing was done.
impl Default for Summary {
    fn default() -> Self {
        Self {
            status: Status::default(),
            verified: false,
            files: Files::default(),
            bytes: 0,
            unfinished_bytes: 0,
            kept_bytes: 0,
            resent_bytes: 0,
            duration_ms: 0,
            goodput_bps: 0,
            optimizer: String::new(),
            concurrency_mean: PerStage::all(0.0),
            failures: Vec::new(),
            error: None,
            error_kind: None,
            errno: None,
            log: None,
            unchecked: 0,
            sidecars: Vec::new(),
            converted: Vec::new(),
            estimate: None,
        }
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// What a word means; `None` for one of a newer program than this.
fn known<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<Option<T>, D::Error> {
    let word: StringDeserializer<serde::de::value::Error> = String::deserialize(from)?.into_deserializer();
    Ok(T::deserialize(word).ok())
}

fn status<'de, D: Deserializer<'de>>(from: D) -> Result<Status, D::Error> {
    known(from).map(Option::unwrap_or_default)
}

/// A kind that is not known may pass, as failures of the operating system may.
fn kind<'de, D: Deserializer<'de>>(from: D) -> Result<ErrorKind, D::Error> {
    Ok(known(from)?.unwrap_or(ErrorKind::Io))
}

fn some_kind<'de, D: Deserializer<'de>>(from: D) -> Result<Option<ErrorKind>, D::Error> {
    kind(from).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: &str = r#"{"status":"incomplete","verified":false,"files":{"total":5,"ok":2,"failed":1,"skipped":2,"refreshed":1},"bytes":3145728,"unfinished_bytes":512,"kept_bytes":1024,"resent_bytes":4096,"duration_ms":1500,"goodput_bps":16777216,"optimizer":"auto","concurrency_mean":{"read":1.5,"network":2.0,"write":3.25},"failures":[{"path":"a\\x1b","kind":"unsafe_name","message":"a\\x1b: no","errno":18}],"error":"the end is gone","error_kind":"connection","errno":104,"log":"/state/runs/7.jsonl","unchecked":1,"sidecars":["runs.tsv","failed.txt"],"converted":["SRR1_1.fastq"]}"#;
    const EMPTY: &str = r#"{"status":"failed","verified":false,"files":{"total":0,"ok":0,"failed":0,"skipped":0},"bytes":0,"resent_bytes":0,"duration_ms":0,"goodput_bps":0,"optimizer":"","concurrency_mean":{"read":0.0,"network":0.0,"write":0.0},"failures":[]}"#;

    #[test]
    fn the_json_is_what_scripts_know() {
        let read: Summary = serde_json::from_str(FULL).expect("a summary");
        assert_eq!((read.status, read.files.refreshed), (Status::Incomplete, 1));
        assert_eq!(
            (read.failures[0].kind, read.error_kind),
            (ErrorKind::UnsafeName, Some(ErrorKind::Connection))
        );
        assert_eq!(serde_json::to_string(&read).expect("JSON"), FULL);
        let python = include_str!("../../python/python/tidegate/results.py");
        let told: serde_json::Map<String, serde_json::Value> = serde_json::from_str(FULL).expect("an object");
        for key in told.keys() {
            assert!(python.contains(&format!("\n    {key}: ")), "TransferResult is to have {key}");
        }
        assert_eq!(serde_json::to_string(&Summary::default()).expect("JSON"), EMPTY);
        assert_eq!(serde_json::from_str::<Summary>("{}").expect("a summary"), Summary::default());
    }

    #[test]
    fn words_of_a_newer_program_are_understood_as_far_as_they_can_be() {
        let text =
            r#"{"status":"x","error_kind":"y","failures":[{"path":"p","kind":"z","message":"m"}],"w":1}"#;
        let read: Summary = serde_json::from_str(text).expect("a summary");
        let kinds = (read.failures[0].kind, read.error_kind);
        assert_eq!((read.status, kinds), (Status::Failed, (ErrorKind::Io, Some(ErrorKind::Io))));
    }

    #[test]
    fn a_status_and_a_code_follow_from_the_error_and_the_failures() {
        let failed = |kind, failed| {
            let failure = FailedFile { path: "x".to_owned(), kind, message: "no".to_owned(), errno: None };
            let files = Files { failed, ..Files::default() };
            Summary { files, failures: vec![failure], ..Summary::default() }
        };
        assert_eq!(Summary::default().exit(None), Exit::Complete);
        assert_eq!(failed(ErrorKind::NoSpace, 1).exit(None), Exit::NoSpace);
        assert_eq!(failed(ErrorKind::Denied, 1).exit(None), Exit::SomeFailed);
        assert_eq!(failed(ErrorKind::NoSpace, 1).exit(Some(ErrorKind::Interrupted)), Exit::Interrupted);
        for (error, failed, status) in [
            (None, 0, Status::Complete),
            (None, 1, Status::Incomplete),
            (Some(ErrorKind::Interrupted), 1, Status::Interrupted),
            (Some(ErrorKind::NoSpace), 0, Status::NoSpace),
            (Some(ErrorKind::Io), 0, Status::Failed),
        ] {
            assert_eq!(Status::of(error, failed), status);
            assert_eq!(serde_json::to_value(status).expect("JSON"), status.name());
        }
    }

    #[test]
    fn a_summary_has_what_all_runs_moved() {
        let files = |total, ok, failed, skipped| Files { total, ok, failed, skipped, ..Files::default() };
        let first = Summary {
            files: files(100, 60, 40, 0),
            bytes: 500,
            unfinished_bytes: 100,
            duration_ms: 1000,
            concurrency_mean: PerStage::all(2.0),
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
            concurrency_mean: PerStage::all(5.0),
            optimizer: "aimd".to_owned(),
            ..Summary::default()
        };
        let all = last.after(&second);
        assert_eq!((all.status, all.verified, &all.optimizer[..]), (Status::Complete, true, "aimd"));
        // Ten were there before the first.
        assert_eq!((all.files, all.bytes, all.duration_ms), (files(100, 90, 0, 10), 900, 4000));
        assert_eq!((all.goodput_bps, all.concurrency_mean), (1800, PerStage::all(3.0)));
        // What is moved away is not listed again.
        let rest = Summary { files: files(40, 40, 0, 0), ..Summary::default() }.after(&first);
        assert_eq!(rest.files, files(100, 100, 0, 0));
    }
}
