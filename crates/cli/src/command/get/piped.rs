//! `get --pipe`: the content to standard output, verified while it flows.

use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_contract::text::count;
use tidegate_control::{BitRate, ByteCount, Optimizer};
use tidegate_fetch::get::DownloadSettings;
use tidegate_fetch::pipe::{PipeEnd, PipeProgress, PipeSettings, pipe};
use tidegate_fetch::record::{Named, Names, Record};
use tidegate_fetch::remote::Remotes;
use tidegate_transfer::error::{Error, ErrorKind, Result};
use tidegate_transfer::offer::warn_left_out;

use crate::terminal;

/// What a shell says of a program whose reader has gone: 128 and the number of SIGPIPE.
const READER_LEFT: u8 = 141;

/// How often the progress is shown.
const SHOWN_EVERY: Duration = Duration::from_millis(250);

/// Writes all that was named to standard output, and answers with the exit code. Everything is looked up before the first
/// byte is written: half of a stream helps nobody.
pub fn run(
    names: Names,
    remotes: &Arc<dyn Remotes>,
    settings: DownloadSettings,
    rule: Box<dyn Optimizer>,
    quiet: bool,
) -> Result<ExitCode> {
    let records = all(names)?;
    let settings = PipeSettings {
        connections: settings.max_workers,
        pace: settings.pace,
        window: settings.staging,
        ceilings: settings.ceilings,
        held: settings.held,
        limits: settings.limits,
        retries: settings.retries,
        retry_for: settings.retry_for,
        verify: settings.verify,
        interrupt: settings.interrupt,
        seed: settings.seed,
    };
    let begun = Instant::now();
    let has_view = !quiet && terminal::can_show_view();
    let mut shown = begun;
    let mut show = |at: PipeProgress<'_>| {
        if has_view && shown.elapsed() >= SHOWN_EVERY {
            shown = Instant::now();
            terminal::draw(&[line(&at, begun.elapsed())]);
        }
    };
    // Without the buffer that Rust's own keeps for lines.
    let failed =
        |error: io::Error| Error::new(ErrorKind::Io, format!("cannot write to standard output: {error}"));
    let mut out = File::from(io::stdout().as_fd().try_clone_to_owned().map_err(failed)?);
    let end = pipe(records, remotes, settings, rule, &mut out, &mut show);
    terminal::clear();
    match end? {
        PipeEnd::ReaderLeft(_) => Ok(ExitCode::from(READER_LEFT)),
        PipeEnd::Whole(piped) => {
            if piped.unchecked > 0 && !quiet {
                let what = count(piped.unchecked, "file");
                terminal::complain(&format!("{what} of {} had no checksum to check", piped.files));
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Everything that was named, or why something cannot be had.
fn all(names: Names) -> Result<Vec<Record>> {
    let mut records = Vec::new();
    for named in names {
        match named {
            Named::Record(record) => records.push(*record),
            Named::Problem(_, error) => return Err(error),
            Named::LeftOut(path, why) => warn_left_out(path.as_bytes(), &why),
            Named::Note(note) => terminal::complain(&note),
        }
    }
    if records.is_empty() {
        return Err(Error::new(ErrorKind::NotFound, "nothing was named: the list is empty"));
    }
    Ok(records)
}

fn line(at: &PipeProgress<'_>, elapsed: Duration) -> String {
    let of = at.bytes.map_or_else(String::new, |bytes| format!(" of {}", ByteCount(bytes)));
    let rate = BitRate::over(ByteCount(at.total), elapsed);
    let connections = count(at.connections, "connection");
    format!("{}  {}{of}  {rate}  {connections}", at.path, ByteCount(at.done))
}
