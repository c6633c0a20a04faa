//! How a run ended, in words for people.

use std::time::Duration;

use tidegate_contract::plan_line::PlanSummary;
use tidegate_contract::redact;
use tidegate_contract::summary::{FailedFile, Files, Status, Summary};
use tidegate_contract::text;
use tidegate_control::{BitRate, ByteCount, Stage};
use tidegate_run::drive::Besides;
use tidegate_transfer::error::Error;

use crate::{exit, terminal};

/// Most failures printed one by one; the first 10,000 are in the JSON.
const SHOWN_FAILURES: usize = 20;

/// Tells the first of `failures` on standard error, and where `all` are if there were more.
pub fn complain_of(failures: &[FailedFile], failed: u64, all: &str) {
    for failure in failures.iter().take(SHOWN_FAILURES) {
        terminal::complain(&failure.message);
    }
    let shown = failures.len().min(SHOWN_FAILURES) as u64;
    if let Some(more @ 1..) = failed.checked_sub(shown) {
        terminal::complain(&format!("… and {more} more ({all})"));
    }
}

/// The summary of a run that ended before anything was begun.
pub fn of_nothing(optimizer: &str, error: &anyhow::Error) -> Summary {
    let ours = error.downcast_ref::<Error>();
    let kind = ours.map(|error| error.kind);
    Summary {
        status: kind.map_or(Status::Failed, |kind| Status::of(Some(kind), 0)),
        optimizer: optimizer.to_owned(),
        error: Some(redact::text(&exit::in_one_line(error)).into_owned()),
        error_kind: kind,
        errno: ours.and_then(Error::errno),
        ..Summary::default()
    }
}

/// The same of a run that was only to say what it would do.
pub fn plan_of_nothing(error: &anyhow::Error) -> PlanSummary {
    let Summary { status, error, error_kind, .. } = of_nothing("", error);
    PlanSummary { dry_run: true, status, error, error_kind, ..PlanSummary::default() }
}

/// Prints it for people: the result on standard output, failures on standard error.
pub fn print(summary: &Summary, besides: &Besides) -> std::io::Result<()> {
    complain(summary);
    terminal::print(&text(summary, besides))
}

/// Tells what failed, on standard error.
pub fn complain(summary: &Summary) {
    let all = match summary.sidecars.iter().any(|name| name == "failed.txt") {
        true => "failed.txt lists what can be tried again",
        false => "--json lists up to 10,000",
    };
    complain_of(&summary.failures, summary.files.failed, all);
}

fn text(summary: &Summary, besides: &Besides) -> String {
    let seconds = Duration::from_millis(summary.duration_ms).as_secs_f64();
    let Files { total, ok, failed, skipped, refreshed, deleted } = summary.files;
    let mut text = if besides.dry {
        match failed {
            // What was not reached is neither the same nor different.
            _ if summary.error.is_some() => {
                format!("not all compared: {} the same, {failed} missing or different so far", count(skipped))
            }
            0 => format!("{} the same on both sides, compared in {seconds:.1} s", count(skipped)),
            _ => format!("{failed} of {} missing or different", count(total)),
        }
    } else if summary.status == Status::Complete && ok == 0 && refreshed > 0 {
        format!(
            "nothing to send: {} there already, mode or time set of {refreshed}, looked at in {seconds:.1} s",
            count(skipped)
        )
    } else if summary.status == Status::Complete && ok == 0 && deleted == 0 {
        // What was told to stay as it is, whether it is there or not, is not counted.
        let there = if skipped > 0 { format!(": {} there already", count(skipped)) } else { String::new() };
        format!("nothing to do{there}, looked at in {seconds:.1} s")
    } else {
        let (before, checked) = match summary.status {
            Status::Complete if summary.verified => ("", "all verified"),
            Status::Complete => ("", "all there"),
            Status::Incomplete => ("incomplete: ", "verified"),
            Status::Interrupted => ("interrupted: ", "verified"),
            Status::NoSpace => ("no space left: ", "verified"),
            Status::Failed => ("failed: ", "verified"),
        };
        let (bytes, rate) = (ByteCount(summary.bytes), BitRate(summary.goodput_bps));
        let mut text = match ok {
            0 if summary.kept_bytes > 0 => format!("{before}nothing complete after {seconds:.1} s"),
            0 => format!("{before}nothing new after {seconds:.1} s"),
            _ => format!("{before}{}, {bytes}, {checked} in {seconds:.1} s: {rate}", count(ok)),
        };
        if summary.kept_bytes > 0 {
            text.push_str(&format!(
                ", about {} of unfinished files kept: the same command continues with them",
                ByteCount(summary.kept_bytes)
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
        if summary.unchecked > 0 {
            text.push_str(&format!(", {} without a checksum to check", summary.unchecked));
        }
        if summary.resent_bytes > 0 {
            text.push_str(&format!(", {} sent again", ByteCount(summary.resent_bytes)));
        }
        text
    };
    if deleted > 0 {
        text.push_str(&format!(", {deleted} deleted"));
    }
    if let Some(last) = besides.setpoint {
        let each = |of: &dyn Fn(Stage) -> String| {
            let stages = besides.stages.iter().map(|stage| format!("{stage} {}", of(*stage)));
            stages.collect::<Vec<_>>().join(", ")
        };
        let mean = each(&|stage| format!("{:.1}", summary.concurrency_mean[stage]));
        text.push_str(&format!("\n  workers  {mean} on average ({})", summary.optimizer));
        text.push_str(&format!("\n  at last  {}", each(&|stage| last[stage].to_string())));
        if let Some(log) = &summary.log {
            text.push_str(&format!("\n  epochs   {log}"));
        }
    }
    if !summary.sidecars.is_empty() {
        text.push_str(&format!("\n  beside   {}", summary.sidecars.join(", ")));
    }
    if !summary.converted.is_empty() {
        text.push_str(&format!("\n  made     {}", summary.converted.join(", ")));
    }
    text
}

/// So many files, in words.
fn count(files: u64) -> String {
    text::count(files, "file")
}

#[cfg(test)]
mod tests {
    use tidegate_transfer::error::ErrorKind;

    use super::*;

    const BESIDES: Besides = Besides { stages: &Stage::ALL, setpoint: None, dry: false };

    fn told(summary: &Summary) -> String {
        text(summary, &BESIDES)
    }

    fn complete() -> Summary {
        Summary { status: Status::Complete, verified: true, ..Summary::default() }
    }

    #[test]
    fn what_was_not_checked_is_not_called_verified() {
        let files = Files { total: 2, ok: 2, ..Files::default() };
        let sidecars = vec!["runs.tsv".to_owned()];
        let got = Summary { files, bytes: 2 << 20, unchecked: 1, sidecars, verified: false, ..complete() };
        assert_eq!(
            told(&got),
            "2 files, 2 MiB, all there in 0.0 s: 0 bit/s, 1 without a checksum to check\n  beside   runs.tsv"
        );
        let put = Summary { files, bytes: 2 << 20, verified: false, ..complete() };
        assert_eq!(told(&put), "2 files, 2 MiB, all there in 0.0 s: 0 bit/s");
    }

    #[test]
    fn the_text_says_what_happened() {
        let files = Files { total: 3, ok: 2, failed: 0, skipped: 1, refreshed: 0, deleted: 0 };
        let copied =
            Summary { files, bytes: 3 << 20, duration_ms: 1500, goodput_bps: 16_777_216, ..complete() };
        assert_eq!(told(&copied), "2 files, 3 MiB, all verified in 1.5 s: 16.8 Mbit/s, 1 there already");
        let files = Files { total: 1, ok: 0, failed: 0, skipped: 1, refreshed: 0, deleted: 0 };
        let nothing = Summary { files, ..complete() };
        assert_eq!(told(&nothing), "nothing to do: 1 file there already, looked at in 0.0 s");
        let stays = Summary { files: Files::default(), ..nothing };
        assert_eq!(told(&stays), "nothing to do, looked at in 0.0 s");
        let files = Files { refreshed: 1, ..files };
        let set = Summary { files, ..complete() };
        let wanted = "nothing to send: 1 file there already, mode or time set of 1, looked at in 0.0 s";
        assert_eq!(told(&set), wanted);
        let files = Files { total: 3, ok: 0, failed: 1, skipped: 2, refreshed: 0, deleted: 0 };
        let nothing_new = Summary { files, status: Status::Incomplete, verified: false, ..complete() };
        let wanted = "incomplete: nothing new after 0.0 s, 1 of 3 failed, 2 there already";
        assert_eq!(told(&nothing_new), wanted);
        let kept = Summary { status: Status::Interrupted, kept_bytes: 60 << 20, ..nothing_new };
        assert_eq!(
            told(&kept),
            "interrupted: nothing complete after 0.0 s, about 60 MiB of unfinished files kept: the same command continues with them, 1 of 3 failed, 2 there already"
        );
        let dry = Besides { dry: true, ..BESIDES };
        let different = Summary { files, verified: false, ..complete() };
        assert_eq!(text(&different, &dry), "1 of 3 files missing or different");
        let ended = Summary { error: Some("the connection was lost".to_owned()), ..different };
        assert_eq!(text(&ended, &dry), "not all compared: 2 files the same, 1 missing or different so far");
    }

    #[test]
    fn scripts_are_told_of_a_run_that_did_not_begin() {
        let error = anyhow::Error::from(Error::new(ErrorKind::NoSpace, "no room at tg://SECRET@h/x"));
        let told = of_nothing("auto", &error);
        assert_eq!((told.status, told.error_kind), (Status::NoSpace, Some(ErrorKind::NoSpace)));
        assert_eq!(told.error.as_deref(), Some("no room at tg://h/x"));
    }
}
