//! How a run ended: for people in a few lines, for scripts as one JSON object.

use serde::Serialize;
use std::time::Duration;

use tidegate_control::{BitRate, ByteCount, PerStage};
use tidegate_transfer::error::{Error, ErrorKind};
use tidegate_transfer::ledger::Failure;
use tidegate_transfer::text::show;

use crate::exit;

/// Most failures printed one by one; all of them are in the JSON.
const SHOWN_FAILURES: usize = 20;

/// How a run ended; a stable contract.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// `complete`, `incomplete`, `interrupted`, `no_space` or `failed`.
    pub status: &'static str,
    /// Whether every file is at the destination and its content was checked.
    pub verified: bool,
    /// Numbers of files.
    pub files: Files,
    /// Bytes of content that this run moved and committed.
    pub bytes: u64,
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
    /// Files that did not arrive.
    pub failures: Vec<FailedFile>,
    /// What ended the run early.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The run's epochs, one JSON line each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
}

/// Numbers of files.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Files {
    /// Listed at the source.
    pub total: u64,
    /// Moved and committed by this run.
    pub ok: u64,
    /// Not at the destination.
    pub failed: u64,
    /// There already, and verified.
    pub skipped: u64,
}

/// A file that did not arrive.
#[derive(Clone, Debug, Serialize)]
pub struct FailedFile {
    /// Its path, with unprintable bytes as `\x1b`.
    pub path: String,
    /// What kind of failure.
    pub kind: ErrorKind,
    /// Why.
    pub message: String,
}

impl From<&Failure> for FailedFile {
    fn from(failure: &Failure) -> Self {
        Self {
            path: show(&failure.path).into_owned(),
            kind: failure.error.kind,
            message: failure.error.message.clone(),
        }
    }
}

impl Summary {
    /// The status for an end with `error` or with so many failed files.
    pub fn status(error: Option<&Error>, failed: u64) -> &'static str {
        match error.map(|error| error.kind) {
            None if failed == 0 => "complete",
            None => "incomplete",
            Some(ErrorKind::Interrupted) => "interrupted",
            Some(ErrorKind::NoSpace) => "no_space",
            Some(_) => "failed",
        }
    }

    /// The exit code.
    pub fn code(&self, error: Option<&Error>) -> u8 {
        if let Some(error) = error {
            return exit::of_kind(error.kind);
        }
        if self.failures.iter().any(|failure| failure.kind == ErrorKind::NoSpace) {
            return exit::NO_SPACE;
        }
        if self.files.failed > 0 { exit::SOME_FAILED } else { 0 }
    }

    /// Prints it for people: the result on standard output, failures on standard error.
    pub fn print(&self) {
        for failure in self.failures.iter().take(SHOWN_FAILURES) {
            eprintln!("tidegate: {}", failure.message);
        }
        if self.failures.len() > SHOWN_FAILURES {
            eprintln!(
                "tidegate: … and {} more (--json lists them all)",
                self.failures.len() - SHOWN_FAILURES
            );
        }
        let duration = Duration::from_millis(self.duration_ms);
        let Files { total, ok, failed, skipped } = self.files;
        let mut parts = vec![format!("{ok} {}", if ok == 1 { "file" } else { "files" })];
        parts.push(format!("{} in {:.1} s", ByteCount(self.bytes), duration.as_secs_f64()));
        parts.push(BitRate(self.goodput_bps).to_string());
        if skipped > 0 {
            parts.push(format!("{skipped} there already"));
        }
        if failed > 0 {
            parts.push(format!("{failed} of {total} failed"));
        }
        if self.resent_bytes > 0 {
            parts.push(format!("{} sent again", ByteCount(self.resent_bytes)));
        }
        let verdict = if self.verified { "all verified" } else { self.status };
        println!("{}: {}", verdict, parts.join(", "));
        let mean = self.concurrency_mean;
        if mean.network > 0.0 {
            println!(
                "workers on average: read {:.1}, network {:.1}, write {:.1} ({})",
                mean.read, mean.network, mean.write, self.optimizer
            );
        }
        if let Some(log) = &self.log {
            println!("epochs: {log}");
        }
    }
}
