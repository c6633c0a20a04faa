//! `tidegate ls`: what lies in a directory, wherever that is.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Args;
use serde::{Deserialize, Serialize};
use tidegate_spec::options::Options;
use tidegate_transfer::error::Result;
use tidegate_transfer::path::split;
use tidegate_transfer::text::show;
use tidegate_transfer::wire::files::{FileKind, FileStatus};

use crate::asked::{only, read};
use crate::caller::Caller;
use crate::exit::SOME_FAILED;
use crate::files::{FileAccess, Files};
use crate::output::JsonArgs;

/// List a directory: at an endpoint, at a host that ssh reaches, or here.
///
/// PLACE is what `copy` takes: tg://…, name:/path, user@host:path or a path of this host. What a link leads to is told,
/// if that may be reached; links are not entered.
#[derive(Debug, Default, Args, Serialize, Deserialize)]
#[serde(default)]
#[command(after_help = crate::exit::HELP)]
pub struct LsArgs {
    /// A directory, or a file
    #[arg(value_name = "PLACE")]
    #[serde(skip)]
    place: OsString,
    /// Show permissions, size and time as well
    #[arg(short, long)]
    long: bool,
    /// List what lies in directories, too
    #[arg(short = 'R', long)]
    recursive: bool,
    #[command(flatten)]
    #[serde(flatten)]
    output: JsonArgs,
    #[command(flatten)]
    #[serde(flatten)]
    access: FileAccess,
}

impl LsArgs {
    /// A list with options that are told by their names.
    pub fn asked(options: &Options, places: Vec<OsString>) -> Result<Self> {
        let args: Self = read(options)?;
        Ok(Self { place: only(places)?, access: args.access.asked()?, ..args })
    }
}

/// A file in the list.
#[derive(Serialize)]
struct Line<'a> {
    path: &'a str,
    kind: &'static str,
    bytes: u64,
    mode: u32,
    modified_s: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    link: Option<&'a str>,
}

/// Runs the command.
pub fn run(args: &LsArgs, caller: &Caller) -> anyhow::Result<ExitCode> {
    let interrupt = caller.interrupt();
    let files = Files::at(&args.place, &args.access, 1, &interrupt)?;
    let listing = files.list(b"", args.recursive, &interrupt)?;
    let print = |path: &[u8], status: &FileStatus| -> Result<(), std::io::Error> {
        let path = show(path);
        let target = status.link.as_deref().map(show);
        match args.output.json {
            true => caller.print_json(&Line {
                path: &path,
                kind: word(status.kind),
                bytes: status.size,
                mode: status.mode,
                modified_s: modified(status),
                link: target.as_deref(),
            }),
            false => caller.print(&line(&path, status, target.as_deref(), args.long)),
        }
    };
    if listing.itself.kind != FileKind::Directory {
        let typed = args.place.as_encoded_bytes();
        print(split(typed.strip_suffix(b"/").unwrap_or(typed)).1, &listing.itself)?;
    }
    for entry in &listing.entries {
        print(entry.path.as_bytes(), &entry.status)?;
    }
    for (_, error) in &listing.problems {
        caller.complain(&error.message);
    }
    Ok(if listing.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(SOME_FAILED) })
}

/// What something is, as scripts read it.
fn word(kind: FileKind) -> &'static str {
    match kind {
        FileKind::File => "file",
        FileKind::Directory => "directory",
        FileKind::Link => "link",
        FileKind::Other => "other",
    }
}

fn modified(status: &FileStatus) -> f64 {
    status.mtime.seconds as f64 + f64::from(status.mtime.nanoseconds) / 1e9
}

/// As people read it; times are in UTC.
fn line(path: &str, status: &FileStatus, target: Option<&str>, long: bool) -> String {
    let slash = if status.kind == FileKind::Directory { "/" } else { "" };
    if !long {
        return format!("{path}{slash}");
    }
    let kind = match (status.kind, &status.link) {
        (FileKind::Link, _) | (_, Some(_)) => 'l',
        (FileKind::Directory, _) => 'd',
        (FileKind::File, _) => '-',
        (FileKind::Other, _) => '?',
    };
    let bits = (0..9).map(|bit| match status.mode & (0o400 >> bit) {
        0 => '-',
        _ => ['r', 'w', 'x'][bit % 3],
    });
    let bits: String = bits.collect();
    let time = jiff::Timestamp::from_second(status.mtime.seconds).unwrap_or_default();
    let time = time.strftime("%Y-%m-%d %H:%M:%S");
    let arrow = target.map(|target| format!(" -> {target}")).unwrap_or_default();
    format!("{kind}{bits} {:>14} {time} {path}{slash}{arrow}", status.size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_transfer::manifest::Timestamp;

    #[test]
    fn a_long_line_has_permissions_size_and_time() {
        let status = FileStatus {
            kind: FileKind::Directory,
            size: 4096,
            mode: 0o750,
            mtime: Timestamp { seconds: 1_700_000_000, nanoseconds: 0 },
            version: [0; 16],
            link: Some(b"there".to_vec()),
        };
        let told = line("here", &status, Some("there"), true);
        assert_eq!(told, "lrwxr-x---           4096 2023-11-14 22:13:20 here/ -> there");
        assert_eq!(line("here", &status, None, false), "here/");
    }
}
