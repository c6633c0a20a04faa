//! How a run ended, as it is written down; the words for people are its caller's.

use std::time::Duration;

use tidegate_contract::summary::{FailedFile, Files, Summary};
use tidegate_contract::text::{count, show};
use tidegate_control::{BitRate, ByteCount, Concurrency, Stage};
use tidegate_transfer::error::Error;
use tidegate_transfer::ledger::Failure;

/// What people are told besides of how a run ended.
#[derive(Clone, Copy, Debug)]
pub struct Besides {
    /// The stages that there were.
    pub stages: &'static [Stage],
    /// Workers in the last epoch.
    pub setpoint: Option<Concurrency>,
    /// Whether both sides were only compared.
    pub dry: bool,
}

/// A file that did not arrive, as it is told.
pub fn failed_file(failure: &Failure) -> FailedFile {
    FailedFile {
        path: show(&failure.path).into_owned(),
        kind: failure.error.kind,
        message: failure.error.message.clone(),
        errno: failure.error.errno(),
    }
}

/// Notes what ended it early.
pub fn ended_by(summary: &mut Summary, error: &Error) {
    summary.error = Some(error.to_string());
    summary.error_kind = Some(error.kind);
    summary.errno = error.errno();
}

/// What was done and how it ended in one line, for a log.
pub(crate) fn line(summary: &Summary, what: &str) -> String {
    let Files { total, ok, failed, skipped, .. } = summary.files;
    let seconds = Duration::from_millis(summary.duration_ms).as_secs_f64();
    let (bytes, rate) = (ByteCount(summary.bytes), BitRate(summary.goodput_bps));
    let mut line = format!(
        "{what}: {}, {ok} of {} moved, {bytes} in {seconds:.1} s, {rate}",
        summary.status.name(),
        count(total, "file")
    );
    for (number, what) in [(skipped, "there already"), (failed, "failed")] {
        if number > 0 {
            line.push_str(&format!(", {number} {what}"));
        }
    }
    let first = summary.failures.first().map(|failure| &failure.message);
    if let Some(why) = summary.error.as_ref().or(first) {
        line.push_str(&format!(": {why}"));
    }
    line
}
