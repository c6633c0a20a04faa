//! How a run ended: for people in a few lines, for scripts as one JSON object.

use serde::Serialize;
use std::time::Duration;

use tidegate_control::{BitRate, ByteCount, Concurrency, PerStage, Stage};
use tidegate_transfer::error::{Error, ErrorKind};
use tidegate_transfer::ledger::Failure;
use tidegate_transfer::text::show;

use crate::{exit, terminal};

/// Most failures printed one by one; the first 10,000 are in the JSON.
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
    /// What kind of error that was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_kind: Option<ErrorKind>,
    /// The run's epochs, one JSON line each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
    /// Files that are there, and of which no checksum was known to hold them against.
    #[serde(skip_serializing_if = "is_none")]
    pub unchecked: u64,
    /// What was written beside the files.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sidecars: Vec<String>,
    /// The stages that there were.
    #[serde(skip)]
    pub stages: &'static [Stage],
    /// Workers in the last epoch.
    #[serde(skip)]
    pub setpoint: Option<Concurrency>,
    /// Whether both sides were only compared.
    #[serde(skip)]
    pub dry: bool,
    /// About how much of unfinished files the next run continues with.
    #[serde(skip)]
    pub kept: ByteCount,
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
    /// Those of them that were only given another mode or time.
    #[serde(skip_serializing_if = "is_none")]
    pub refreshed: u64,
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

    /// The summary of a run that ended before anything was begun.
    pub fn of_nothing(optimizer: &str, error: &anyhow::Error) -> Self {
        let ours = error.downcast_ref::<Error>();
        Self {
            status: ours.map_or("failed", |error| Self::status(Some(error), 0)),
            verified: false,
            files: Files::default(),
            bytes: 0,
            resent_bytes: 0,
            duration_ms: 0,
            goodput_bps: 0,
            optimizer: optimizer.to_owned(),
            concurrency_mean: PerStage::all(0.0),
            failures: Vec::new(),
            error: Some(terminal::redact(&exit::in_one_line(error)).into_owned()),
            error_kind: ours.map(|error| error.kind),
            log: None,
            unchecked: 0,
            sidecars: Vec::new(),
            stages: &Stage::ALL,
            setpoint: None,
            dry: false,
            kept: ByteCount(0),
        }
    }

    /// Prints it for people: the result on standard output, failures on standard error.
    pub fn print(&self) -> std::io::Result<()> {
        self.complain();
        terminal::print(&self.text())
    }

    /// Tells what failed, on standard error.
    pub fn complain(&self) {
        for failure in self.failures.iter().take(SHOWN_FAILURES) {
            terminal::complain(&failure.message);
        }
        let shown = self.failures.len().min(SHOWN_FAILURES) as u64;
        if let Some(more @ 1..) = self.files.failed.checked_sub(shown) {
            let all = if self.sidecars.iter().any(|name| name == "failed.txt") {
                "failed.txt lists what can be tried again"
            } else {
                "--json lists up to 10,000"
            };
            terminal::complain(&format!("… and {more} more ({all})"));
        }
    }

    /// What was done and how it ended in one line, for a log.
    pub fn line(&self, what: &str) -> String {
        let Files { total, ok, failed, skipped, .. } = self.files;
        let seconds = Duration::from_millis(self.duration_ms).as_secs_f64();
        let (bytes, rate) = (ByteCount(self.bytes), BitRate(self.goodput_bps));
        let mut line = format!(
            "{what}: {}, {ok} of {} moved, {bytes} in {seconds:.1} s, {rate}",
            self.status,
            count(total)
        );
        for (number, what) in [(skipped, "there already"), (failed, "failed")] {
            if number > 0 {
                line.push_str(&format!(", {number} {what}"));
            }
        }
        let first = self.failures.first().map(|failure| &failure.message);
        if let Some(why) = self.error.as_ref().or(first) {
            line.push_str(&format!(": {why}"));
        }
        line
    }

    fn text(&self) -> String {
        let seconds = Duration::from_millis(self.duration_ms).as_secs_f64();
        let Files { total, ok, failed, skipped, refreshed } = self.files;
        let mut text = if self.dry {
            match failed {
                0 => format!("{} the same on both sides, compared in {seconds:.1} s", count(skipped)),
                _ => format!("{failed} of {} missing or different", count(total)),
            }
        } else if self.status == "complete" && ok == 0 && refreshed > 0 {
            format!(
                "nothing to send: {} there already, mode or time set of {refreshed}, looked at in {seconds:.1} s",
                count(skipped)
            )
        } else if self.status == "complete" && ok == 0 {
            format!("nothing to do: {} there already, looked at in {seconds:.1} s", count(skipped))
        } else {
            let (before, checked) = match self.status {
                "complete" if self.unchecked == 0 => ("", "all verified"),
                "complete" => ("", "all there"),
                "incomplete" => ("incomplete: ", "verified"),
                "interrupted" => ("interrupted: ", "verified"),
                "no_space" => ("no space left: ", "verified"),
                _ => ("failed: ", "verified"),
            };
            let (bytes, rate) = (ByteCount(self.bytes), BitRate(self.goodput_bps));
            let mut text = match ok {
                0 if self.kept.0 > 0 => format!("{before}nothing complete after {seconds:.1} s"),
                0 => format!("{before}nothing new after {seconds:.1} s"),
                _ => format!("{before}{}, {bytes}, {checked} in {seconds:.1} s: {rate}", count(ok)),
            };
            if self.kept.0 > 0 {
                text.push_str(&format!(
                    ", about {} of unfinished files kept: the same command continues with them",
                    self.kept
                ));
            }
            if failed > 0 {
                text.push_str(&format!(", {failed} of {total} failed"));
            }
            if skipped > 0 {
                text.push_str(&format!(", {skipped} there already"));
            }
            if refreshed > 0 {
                text.push_str(&format!(", mode or time set of {refreshed}"));
            }
            if self.unchecked > 0 {
                text.push_str(&format!(", {} without a checksum to check", self.unchecked));
            }
            if self.resent_bytes > 0 {
                text.push_str(&format!(", {} sent again", ByteCount(self.resent_bytes)));
            }
            text
        };
        if let Some(last) = self.setpoint {
            let each = |of: &dyn Fn(Stage) -> String| {
                let stages = self.stages.iter().map(|stage| format!("{stage} {}", of(*stage)));
                stages.collect::<Vec<_>>().join(", ")
            };
            let mean = each(&|stage| format!("{:.1}", self.concurrency_mean[stage]));
            text.push_str(&format!("\n  workers  {mean} on average ({})", self.optimizer));
            text.push_str(&format!("\n  at last  {}", each(&|stage| last[stage].to_string())));
            if let Some(log) = &self.log {
                text.push_str(&format!("\n  epochs   {log}"));
            }
        }
        if !self.sidecars.is_empty() {
            text.push_str(&format!("\n  beside   {}", self.sidecars.join(", ")));
        }
        text
    }
}

/// Whether there is nothing to say.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
fn is_none(number: &u64) -> bool {
    *number == 0
}

/// So many files, in words.
pub fn count(files: u64) -> String {
    if files == 1 { "1 file".to_owned() } else { format!("{files} files") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary() -> Summary {
        let error = anyhow::anyhow!("no");
        Summary {
            status: "complete",
            verified: true,
            error: None,
            error_kind: None,
            ..Summary::of_nothing("auto", &error)
        }
    }

    #[test]
    fn what_was_not_checked_is_not_called_verified() {
        let files = Files { total: 2, ok: 2, failed: 0, skipped: 0, refreshed: 0 };
        let got = Summary { files, bytes: 2 << 20, unchecked: 1, stages: &[], verified: false, ..summary() };
        let sidecars = vec!["runs.tsv".to_owned()];
        let got = Summary { sidecars, ..got };
        assert_eq!(
            got.text(),
            "2 files, 2 MiB, all there in 0.0 s: 0 bit/s, 1 without a checksum to check\n  beside   runs.tsv"
        );
    }

    #[test]
    fn the_text_says_what_happened() {
        let files = Files { total: 3, ok: 2, failed: 0, skipped: 1, refreshed: 0 };
        let copied =
            Summary { files, bytes: 3 << 20, duration_ms: 1500, goodput_bps: 16_777_216, ..summary() };
        assert_eq!(copied.text(), "2 files, 3 MiB, all verified in 1.5 s: 16.8 Mbit/s, 1 there already");
        let files = Files { total: 1, ok: 0, failed: 0, skipped: 1, refreshed: 0 };
        let nothing = Summary { files, ..summary() };
        assert_eq!(nothing.text(), "nothing to do: 1 file there already, looked at in 0.0 s");
        let files = Files { refreshed: 1, ..files };
        let set = Summary { files, ..summary() };
        let wanted = "nothing to send: 1 file there already, mode or time set of 1, looked at in 0.0 s";
        assert_eq!(set.text(), wanted);
        let files = Files { total: 3, ok: 0, failed: 1, skipped: 2, refreshed: 0 };
        let nothing_new = Summary { files, status: "incomplete", verified: false, ..summary() };
        assert_eq!(nothing_new.text(), "incomplete: nothing new after 0.0 s, 1 of 3 failed, 2 there already");
        let kept = Summary { status: "interrupted", kept: ByteCount::mib(60), ..nothing_new };
        assert_eq!(
            kept.text(),
            "interrupted: nothing complete after 0.0 s, about 60 MiB of unfinished files kept: the same command continues with them, 1 of 3 failed, 2 there already"
        );
        let different = Summary { files, dry: true, verified: false, ..summary() };
        assert_eq!(different.text(), "1 of 3 files missing or different");
    }
}
