//! `tidegate clean`: removes what transfers left unfinished that nobody came back to.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use tidegate_contract::text::count;
use tidegate_control::ByteCount;
use tidegate_control::units::{duration_in_words, parse_duration};
use tidegate_transfer::error::{Error, Result};
use tidegate_transfer::store::abandoned::{self, Abandoned, Removal};
use tidegate_transfer::sys::confined::Root;
use tidegate_transfer::text::show;

use crate::exit;
use crate::terminal;

/// Remove what unfinished transfers left beneath directories and nobody came back to
///
/// A transfer keeps its unfinished files in `.tidegate/` at its destination, so that the same command continues
/// where it stopped. What was not continued for 30 days is removed by the next transfer into the same directory, or
/// by this command. Transfers that run are left alone.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub struct CleanArgs {
    /// Directories to look through, with all beneath them and what is mounted there; links are not followed
    #[arg(value_name = "DIR", required = true)]
    directories: Vec<PathBuf>,
    /// Remove what was not continued for so long, such as 7d or 12h; 0s for all that does not run
    #[arg(long, value_name = "TIME", default_value = "30d", value_parser = parse_duration)]
    older_than: Duration,
    /// Say what would be removed, and remove nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Print one JSON object instead
    #[arg(long)]
    json: bool,
}

/// What became of one.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Removed,
    WouldBeRemoved,
    TooYoung,
    Running,
    Failed,
}

#[derive(Serialize)]
struct Line {
    path: String,
    bytes: u64,
    idle_seconds: u64,
    state: State,
}

#[derive(Default, Serialize)]
struct Report {
    unfinished: Vec<Line>,
    bytes_removed: u64,
    errors: Vec<String>,
}

/// Runs the command.
pub fn run(args: &CleanArgs) -> anyhow::Result<ExitCode> {
    // All of them before anything is removed: a mistyped one removes nothing.
    let directories: Vec<(&Path, Root)> = args
        .directories
        .iter()
        .map(|path| {
            let bytes = path.as_os_str().as_bytes();
            let root = Root::open(bytes).map_err(|error| Error::io("look through", bytes, error))?;
            Ok((path.as_path(), root))
        })
        .collect::<Result<_>>()?;
    let mut report = Report::default();
    for (named, root) in &directories {
        let mut errors = Vec::new();
        let mut look = |found: Abandoned| {
            let (line, error) = clean(named, found, args);
            if !args.json && line.state != State::Failed {
                // Whoever reads it may have left; the work goes on.
                let _ = terminal::print(&line.text());
            }
            report.bytes_removed += if line.state == State::Removed { line.bytes } else { 0 };
            report.errors.extend(error.map(|error| error.to_string()));
            report.unfinished.push(line);
        };
        abandoned::beneath(root, &mut look, &mut |error| errors.push(error.to_string()));
        report.errors.extend(errors);
    }
    if args.json {
        terminal::print_json(&report)?;
    } else {
        for error in &report.errors {
            terminal::complain(error);
        }
        terminal::print(&report.text(args.dry_run))?;
    }
    Ok(if report.errors.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(exit::SOME_FAILED) })
}

fn clean(named: &Path, found: Abandoned, args: &CleanArgs) -> (Line, Option<Error>) {
    let path = show(named.join(std::ffi::OsStr::from_bytes(&found.path)).as_os_str().as_bytes()).into_owned();
    let (bytes, idle) = (found.size.0, found.idle);
    let (state, error) = match idle >= args.older_than {
        false => (State::TooYoung, None),
        true if args.dry_run => match found.is_running() {
            true => (State::Running, None),
            false => (State::WouldBeRemoved, None),
        },
        true => match found.remove() {
            Ok(Removal::Removed) => (State::Removed, None),
            Ok(Removal::Running) => (State::Running, None),
            Err(error) => (State::Failed, Some(error)),
        },
    };
    (Line { path, bytes, idle_seconds: idle.as_secs(), state }, error)
}

impl Line {
    fn text(&self) -> String {
        let what = match self.state {
            State::Removed => "removed",
            State::WouldBeRemoved => "would be removed",
            State::TooYoung => "kept, it can be continued",
            State::Running => "kept, it is running",
            State::Failed => "cannot be removed",
        };
        format!(
            "{} ({}, untouched for {}): {what}",
            self.path,
            ByteCount(self.bytes),
            duration_in_words(Duration::from_secs(self.idle_seconds))
        )
    }
}

/// What is counted.
const WHAT: &str = "unfinished transfer";

impl Report {
    fn text(&self, dry: bool) -> String {
        let number = |state| self.unfinished.iter().filter(|line| line.state == state).count();
        let bytes = |state| {
            ByteCount(self.unfinished.iter().filter(|line| line.state == state).map(|line| line.bytes).sum())
        };
        let (state, said) = match dry {
            true => (State::WouldBeRemoved, "would remove"),
            false => (State::Removed, "removed"),
        };
        match (number(state), self.unfinished.len()) {
            (0, 0) => "no unfinished transfers there".to_owned(),
            (0, found) => format!("nothing to remove: {} kept", count(found as u64, WHAT)),
            (removed, found) => {
                format!("{said} {}, {}; {} kept", count(removed as u64, WHAT), bytes(state), found - removed)
            }
        }
    }
}
