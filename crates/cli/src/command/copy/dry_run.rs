//! A copy that is only said: a line for each entry as it is found, and what they come to.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tidegate_contract::plan_line::{Action, EntryKind, PlanLine, PlanSummary, Tally, TimeSource};
use tidegate_contract::redact;
use tidegate_contract::summary::Status;
use tidegate_contract::text::{self, show};
use tidegate_control::units::duration_in_words;
use tidegate_control::{BitRate, ByteCount, PerStage};
use tidegate_run::drive::{Work, failed_file};
use tidegate_run::known_rate::KnownRate;
use tidegate_transfer::error::{Error, ErrorKind, Result};
use tidegate_transfer::plan::{PlanListener, Planned};
use tidegate_transfer::sys::sync::Mutex;
use tidegate_transfer::transfer::Interrupt;

use crate::caller::Caller;
use crate::summary::complain_of;

/// What is printed of a run that only says what it would do.
#[derive(Clone, Copy, Debug)]
pub struct Shown {
    /// A JSON object a line.
    pub json: bool,
    /// Nothing but what fails.
    pub quiet: bool,
    /// What would stay as it is, too.
    pub same: bool,
}

/// Prints entries as they are told, and counts them.
#[derive(Clone, Debug)]
pub struct Listing {
    shown: Shown,
    caller: Caller,
    told: Arc<Mutex<Told>>,
    interrupt: Interrupt,
}

#[derive(Debug, Default)]
struct Told {
    summary: PlanSummary,
    /// Bytes of files whose content would not be sent.
    unsent_bytes: u64,
    /// Why nothing more can be printed.
    error: Option<Error>,
}

impl Listing {
    /// Nothing yet; raises `interrupt` if it cannot print.
    pub fn new(shown: Shown, caller: Caller, interrupt: Interrupt) -> Self {
        Self { shown, caller, told: Arc::default(), interrupt }
    }

    /// Who is to be told.
    pub fn listener(&self) -> PlanListener {
        let listing = self.clone();
        PlanListener::new(move |planned| listing.hear(planned))
    }

    fn hear(&self, planned: Vec<Planned>) {
        let mut told = self.told.lock();
        let mut lines = Vec::new();
        for planned in planned {
            let line = line(planned);
            told.summary.add(&line);
            if !line.sent && line.action != Action::Delete {
                told.unsent_bytes += line.bytes;
            }
            if !self.shown.quiet && (self.shown.same || line.action != Action::Same) {
                lines.push(if self.shown.json { json(&line) } else { for_people(&line) });
            }
        }
        if !lines.is_empty()
            && told.error.is_none()
            && let Err(error) = self.caller.print_all(&lines)
        {
            told.error = Some(Error::new(ErrorKind::Io, format!("cannot print the list: {error}")));
            self.interrupt.raise();
        }
    }

    /// Has `work` say what it would do, and prints what that comes to; `known` is how fast its path was.
    pub fn run(&self, mut work: Work<'_>, known: Option<KnownRate>) -> anyhow::Result<ExitCode> {
        let (mut failed, mut there) = ((Vec::new(), 0), 0);
        let result = (work.begin)().and_then(|begun| {
            let mut transfer = begun.transfer;
            // Nothing is read or sent, so nobody is needed for it.
            let nobody = PerStage::all(0);
            let result = loop {
                match transfer.step(nobody) {
                    Ok(Some(_)) => {}
                    Ok(None) => break Ok(()),
                    Err(error) => break Err(error),
                }
            };
            let ledger = Arc::clone(transfer.ledger());
            drop(transfer);
            let totals = ledger.totals();
            let failures: Vec<_> = ledger.failures().iter().map(failed_file).collect();
            failed = (failures, totals.files_failed);
            there = totals.bytes_skipped;
            result
        });
        let mut told = self.told.lock();
        // What an earlier run left of files that are not whole is not sent again.
        let left = there.saturating_sub(told.unsent_bytes);
        told.summary.sent_bytes = told.summary.sent_bytes.saturating_sub(left);
        let error = told.error.take().or_else(|| result.err().map(|error| self.in_own_words(error)));
        let (failures, failed) = failed;
        let summary = PlanSummary {
            dry_run: true,
            // What would not be deleted is no entry that fails.
            status: Status::of(error.as_ref().map(|error| error.kind), failed.max(failures.len() as u64)),
            time: known.map(|known| known.time(ByteCount(told.summary.sent_bytes))),
            failed,
            failures,
            error: error.as_ref().map(|error| redact::text(&error.to_string()).into_owned()),
            error_kind: error.as_ref().map(|error| error.kind),
            ..told.summary.clone()
        };
        drop(told);
        self.print(&summary)?;
        Ok(summary.exit().into())
    }

    /// A run that was stopped is no half of a copy.
    fn in_own_words(&self, error: Error) -> Error {
        match error.kind {
            ErrorKind::Interrupted => {
                Error::new(ErrorKind::Interrupted, "interrupted; the list is not whole")
            }
            _ => error,
        }
    }

    fn print(&self, summary: &PlanSummary) -> Result<()> {
        complain_of(&summary.failures, summary.failed, "--json lists up to 10,000");
        let printed = match self.shown {
            Shown { json: true, .. } => self.caller.print_json(summary),
            // Of what is not whole there is no sum.
            _ if self.shown.quiet || summary.error.is_some() => Ok(()),
            _ => self.caller.print(&totals(summary)),
        };
        if let Some(error) = &summary.error {
            self.caller.complain(error);
        }
        printed.map_err(|error| Error::new(ErrorKind::Io, format!("cannot print: {error}")))
    }
}

fn line(planned: Planned) -> PlanLine {
    let Planned { path, kind, size, change } = planned;
    let path = show(path.as_bytes()).into_owned();
    PlanLine { action: change.action, kind, path, bytes: size, sent: change.sent, differs: change.differs }
}

fn json(line: &PlanLine) -> String {
    serde_json::to_string(line).expect("a line is plain data")
}

fn for_people(line: &PlanLine) -> String {
    let (what, slash) = match line.kind {
        EntryKind::File => (ByteCount(line.bytes).to_string(), ""),
        EntryKind::Directory => ("dir".to_owned(), "/"),
        EntryKind::Link => ("link".to_owned(), ""),
    };
    let mut text = format!("{:<7}  {what:>9}  {}{slash}", line.action.name(), line.path);
    if !line.differs.is_empty() {
        let differs: Vec<&str> = line.differs.iter().map(|difference| difference.name()).collect();
        let content = if line.kind == EntryKind::File && !line.sent { "; nothing is sent" } else { "" };
        text.push_str(&format!("  ({}{content})", differs.join(", ")));
    }
    text
}

/// What all of it comes to, for people.
fn totals(summary: &PlanSummary) -> String {
    let all = [
        (&summary.new, "new"),
        (&summary.changed, "changed"),
        (&summary.delete, "to delete"),
        (&summary.same, "the same"),
    ];
    let mut parts: Vec<String> = all
        .into_iter()
        .filter(|(tally, _)| tally.entries() > 0)
        .map(|(tally, what)| format!("{} {what} ({})", tally.entries(), kinds(tally)))
        .collect();
    if summary.failed > 0 {
        parts.push(format!("{} cannot be copied", summary.failed));
    }
    if parts.is_empty() {
        parts.push("nothing there".to_owned());
    }
    format!("{}\n{}", parts.join(", "), to_send(summary))
}

fn kinds(tally: &Tally) -> String {
    let all = [(tally.files, "file"), (tally.directories, "directory"), (tally.links, "link")];
    let word = |(number, what): (u64, &str)| match (number, what) {
        (0, _) => None,
        (2.., "directory") => Some(format!("{number} directories")),
        _ => Some(text::count(number, what)),
    };
    all.into_iter().filter_map(word).collect::<Vec<_>>().join(", ")
}

fn to_send(summary: &PlanSummary) -> String {
    if summary.sent_files == 0 {
        return "nothing to send".to_owned();
    }
    let amount =
        format!("{}, {} to send", text::count(summary.sent_files, "file"), ByteCount(summary.sent_bytes));
    let Some(time) = &summary.time else {
        return format!("{amount}; how long that takes is not known, for nothing is remembered of this path");
    };
    let words = |seconds| duration_in_words(Duration::from_secs(seconds));
    let (lasts, rate, ago) = (words(time.seconds), BitRate(time.rate_bps), words(time.age_s));
    let source = match time.from {
        TimeSource::Memory => "which this path last held",
        TimeSource::History => "as recorded transfers went",
    };
    format!("{amount}; about {lasts} at {rate}, {source} ({ago} ago)")
}

#[cfg(test)]
mod tests {
    use tidegate_contract::plan_line::{Difference, PlannedTime};
    use tidegate_transfer::path::RelPath;
    use tidegate_transfer::plan::PlannedChange;

    use super::*;

    fn planned(path: &[u8], kind: EntryKind, size: u64, change: PlannedChange) -> PlanLine {
        line(Planned { path: RelPath::new(path).expect("a name"), kind, size, change })
    }

    #[test]
    fn a_line_says_what_would_become_of_what_and_why() {
        use EntryKind::{Directory, File, Link};
        let changed = |differs: &[Difference], sent| PlannedChange::of(differs.to_vec(), sent);
        for (path, kind, change, text) in [
            (&b"a/b"[..], File, PlannedChange::new(true), "new        1.5 KiB  a/b"),
            (b"a", Directory, PlannedChange::new(false), "new            dir  a/"),
            (b"l\x1b[2J", Link, changed(&[], false), "same          link  l\\x1b[2J"),
            (
                b"c",
                File,
                changed(&[Difference::Size, Difference::Time], true),
                "changed    1.5 KiB  c  (size, time)",
            ),
            (
                b"c",
                File,
                changed(&[Difference::Mode], false),
                "changed    1.5 KiB  c  (mode; nothing is sent)",
            ),
            (b"d", Directory, changed(&[Difference::Time], false), "changed        dir  d/  (time)"),
        ] {
            let size = if kind == File { 1536 } else { 0 };
            assert_eq!(for_people(&planned(path, kind, size, change)), text);
        }
    }

    #[test]
    fn the_totals_say_what_is_known_and_what_is_not() {
        let mut all = PlanSummary::default();
        assert_eq!(totals(&all), "nothing there\nnothing to send");
        for change in [
            PlannedChange::new(true),
            PlannedChange::of(vec![Difference::Size], true),
            PlannedChange::of(Vec::new(), false),
        ] {
            all.add(&planned(b"a", EntryKind::File, 1 << 20, change));
        }
        for _ in 0..2 {
            all.add(&planned(b"d", EntryKind::Directory, 0, PlannedChange::new(false)));
        }
        let counted =
            "3 new (1 file, 2 directories), 1 changed (1 file), 1 the same (1 file)\n2 files, 2 MiB to send";
        let unknown = "; how long that takes is not known, for nothing is remembered of this path";
        assert_eq!(totals(&all), format!("{counted}{unknown}"));
        let time = PlannedTime { seconds: 130, rate_bps: 8_000_000, from: TimeSource::Memory, age_s: 7200 };
        let known = PlanSummary { time: Some(time), failed: 1, ..all };
        let counted = counted.replace("(1 file)\n", "(1 file), 1 cannot be copied\n");
        let after = "; about 2 minutes at 8 Mbit/s, which this path last held (2 hours ago)";
        assert_eq!(totals(&known), format!("{counted}{after}"));
    }
}
