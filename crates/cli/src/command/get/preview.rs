//! `get` without getting: what would be fetched, and what is known of runs.

use std::process::ExitCode;

use tidegate_contract::text::count;
use tidegate_control::ByteCount;
use tidegate_fetch::checksum::Checksums;
use tidegate_fetch::list::{json_line, public};
use tidegate_fetch::record::{Named, Names, Record};
use tidegate_fetch::sidecar::{Arrived, Sidecars};
use tidegate_transfer::error::{Error, ErrorKind, Result};
use tidegate_transfer::offer::warn_left_out;

use super::code;
use crate::caller::Caller;

/// What the names came to.
#[derive(Default)]
struct Found {
    files: u64,
    bytes: u64,
    /// Files of unknown size.
    unknown: u64,
    failures: Vec<ErrorKind>,
}

impl Found {
    fn add(&mut self, record: &Record) {
        self.files += 1;
        self.bytes = self.bytes.saturating_add(record.bytes.unwrap_or(0));
        self.unknown += u64::from(record.bytes.is_none());
    }

    fn fail(&mut self, error: &Error, caller: &Caller) {
        caller.complain(&error.message);
        self.failures.push(error.kind);
    }

    fn code(&self) -> ExitCode {
        ExitCode::from(code(self.files, &self.failures))
    }

    fn total(&self) -> String {
        let mut total = format!("{}, {}", count(self.files, "file"), ByteCount(self.bytes));
        if self.unknown > 0 {
            total.push_str(&format!(" and {} of unknown size", self.unknown));
        }
        if !self.failures.is_empty() {
            total.push_str(&format!("; {} not found or refused", self.failures.len()));
        }
        total
    }
}

/// Prints every file that would be fetched: for people, or as a list that is read again.
pub fn dry_run(names: Names, json: bool, caller: &Caller) -> Result<ExitCode> {
    let print = |text: &str| {
        caller.print(text).map_err(|error| Error::new(ErrorKind::Io, format!("cannot print: {error}")))
    };
    let mut found = Found::default();
    for named in names {
        match named {
            Named::Record(record) => {
                found.add(&record);
                print(&if json { json_line(&record) } else { line(&record) })?;
            }
            Named::Problem(_, error) => found.fail(&error, caller),
            Named::LeftOut(path, why) => warn_left_out(path.as_bytes(), &why),
            Named::Note(note) => caller.complain(&note),
        }
    }
    if !json {
        print(&found.total())?;
    }
    Ok(found.code())
}

fn line(record: &Record) -> String {
    let bytes = record.bytes.map_or_else(|| "-".to_owned(), |bytes| ByteCount(bytes).to_string());
    // The strongest one known.
    let strongest = record.checksums.algorithms().last();
    let sum = strongest.map_or_else(
        || "-".to_owned(),
        |algorithm| format!("{algorithm}:{}", record.checksums.hex(algorithm).unwrap_or_default()),
    );
    let from = record.urls.first().map(public).unwrap_or_default();
    let mirrors = match record.urls.len() {
        0 | 1 => String::new(),
        n => format!(" and {} more", n - 1),
    };
    format!("{}  {bytes}  {sum}  {from}{mirrors}", record.path)
}

/// Writes what is known of the runs, and fetches nothing.
pub fn metadata_only(
    names: Names,
    sidecars: Option<Sidecars>,
    json: bool,
    caller: &Caller,
) -> Result<ExitCode> {
    let mut found = Found::default();
    let mut sidecars = sidecars
        .ok_or_else(|| crate::exit::usage("--metadata-only and --no-sidecars leave nothing to do"))?;
    let none = Checksums::none();
    for named in names {
        match named {
            Named::Record(record) => {
                found.add(&record);
                let Some(url) = record.urls.first() else { continue };
                let known = Arrived { url, bytes: None, checksums: &none, seconds: None, verified: false };
                sidecars.arrived(&record, &known)?;
            }
            Named::Problem(named, error) => {
                found.fail(&error, caller);
                sidecars.failed(&named, None, &error)?;
            }
            Named::LeftOut(path, why) => warn_left_out(path.as_bytes(), &why),
            Named::Note(note) => caller.complain(&note),
        }
    }
    let written = sidecars.write(true)?;
    written.notes.iter().for_each(|note| caller.complain(note));
    let text = if json {
        let (files, bytes, failed) = (found.files, found.bytes, found.failures.len());
        serde_json::json!({"files": files, "bytes": bytes, "failed": failed, "sidecars": written.files})
            .to_string()
    } else {
        let beside = if written.files.is_empty() { "nothing".to_owned() } else { written.files.join(", ") };
        format!("{}\n  written  {beside}", found.total())
    };
    caller.print(&text).map_err(|error| Error::new(ErrorKind::Io, format!("cannot print: {error}")))?;
    Ok(found.code())
}
