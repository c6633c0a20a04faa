//! `tidegate get`: files by accession, URL or list, from other people's servers.

mod looking;
mod names;
mod settings;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clap::Args;
use tidegate_control::Stage;
use tidegate_fetch::get::{Download, DownloadEvent as Event, DownloadListener as Tell, Got};
use tidegate_fetch::record::Record;
use tidegate_fetch::remote::servers::Servers;
use tidegate_fetch::sidecar::{Arrived, Sidecars};
use tidegate_transfer::error::{Error, ErrorKind};
use tidegate_transfer::ledger::Ledger;
use tidegate_transfer::manifest::BLOCK;
use tidegate_transfer::text::show;

use crate::drive::{Ended, Job, Mover, Work, interrupt_on_signals};
use crate::exit;
use crate::progress::{FileBar, UnderWay};
use crate::settings::{ControlArgs, StateArgs};
use crate::terminal;
use settings::{ArchiveArgs, BesideArgs, ListArgs, ServerArgs};

/// Connections to begin with: no more than the ceiling for ENA, and far below what other downloaders open.
const CONNECTIONS: u16 = 8;

/// Get public data by accession, URL or list, verified and resumable.
///
/// NAME is an accession of a sequence archive (run, experiment, sample, study, project, submission,
/// BioSample, or GEO's GSE and GSM), a URL (http, https, ftp, ftps, s3, file; s3://bucket/prefix/
/// for all beneath it), a file that lists any of these,
/// or '-' for such a list on standard input. Lists may be in aria2's syntax, checksum files beside a
/// --base-url, tables (ENA's file reports as they are), JSON, BagIt's fetch.txt, or Metalink 4. Files get
/// their names only when they are complete and verified; what is there already is skipped.
#[derive(Debug, Args)]
#[command(override_usage = "tidegate get [OPTIONS] <NAME>...", after_help = exit::GET_HELP)]
pub struct GetArgs {
    /// Accessions, URLs, files that list them, or '-'
    #[arg(value_name = "NAME", required = true)]
    names: Vec<OsString>,
    /// Where files go
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    outdir: PathBuf,
    /// Replace files of the same names that no earlier run has written, or that were changed since
    #[arg(long)]
    overwrite: bool,
    /// Tell what would be got, and from where; with --json a list that `get` reads again
    #[arg(long)]
    dry_run: bool,
    /// Write what is known of the runs, and get no file of theirs
    #[arg(long, conflicts_with = "dry_run")]
    metadata_only: bool,
    /// Print one JSON object on standard output
    #[arg(long)]
    json: bool,
    /// Show no progress
    #[arg(short, long)]
    quiet: bool,
    /// Write each epoch as one JSON line to FILE
    #[arg(long, value_name = "FILE")]
    epochs: Option<PathBuf>,
    /// Use N connections and let no rule change that
    #[arg(long, value_name = "N", conflicts_with = "optimizer", value_parser = clap::value_parser!(u16).range(1..=512))]
    fixed: Option<u16>,
    #[command(flatten)]
    archive: ArchiveArgs,
    #[command(flatten)]
    list: ListArgs,
    #[command(flatten)]
    beside: BesideArgs,
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    control: ControlArgs,
    #[command(flatten)]
    state: StateArgs,
}

impl GetArgs {
    /// Whether a script reads the result.
    pub fn json(&self) -> bool {
        self.json && !self.dry_run
    }

    /// The rule asked for, by name.
    pub fn optimizer(&self) -> &str {
        &self.control.optimizer
    }
}

/// Runs the command.
pub fn run(args: &GetArgs) -> anyhow::Result<ExitCode> {
    let servers = Arc::new(Servers::new(&args.server.servers()?));
    let names = names::named(args, &servers)?;
    if args.dry_run {
        return Ok(looking::dry_run(names, args.json)?);
    }
    std::fs::create_dir_all(&args.outdir).map_err(|error| cannot_write(args, error))?;
    let directory = args.outdir.canonicalize().map_err(|error| cannot_write(args, error))?;
    let sidecars = args.beside.sidecars(&directory)?;
    if args.metadata_only {
        return Ok(looking::metadata_only(names, sidecars, args.json)?);
    }
    let mut control = args.control.clone();
    if let Some(n) = args.fixed {
        control.optimizer = format!("fixed:{n}");
        control.max_workers = control.max_workers.max(n);
    }
    let pace = control.pace(control.optimizer()?.as_ref());
    let interrupt = interrupt_on_signals();
    let mut settings = args.server.download(&directory, &control, pace, interrupt.clone(), &args.state)?;
    settings.overwrite = args.overwrite;
    let books = Arc::new(Mutex::new(Books { sidecars, unchecked: 0, trouble: None }));
    let staging = settings.staging;
    let mut begun = Some((names, settings, tell(&books)));
    let begin = move || {
        let (names, settings, tell) =
            begun.take().ok_or_else(|| Error::new(ErrorKind::Usage, "begun already"))?;
        let servers = Arc::clone(&servers);
        Ok(Box::new(Download::start(names, servers, settings, tell)?) as Box<dyn Mover>)
    };
    let job = Job {
        work: Work {
            begin: Box::new(begin),
            retry_for: Duration::ZERO,
            stages: &[Stage::Network, Stage::Write],
            streams: Some(CONNECTIONS),
            staging: tidegate_control::ByteCount(staging.0.max(4 * BLOCK)),
            interrupt,
            dry: false,
        },
        control: &control,
        title: format!("{} → {}", shown(&args.names), show(directory.as_os_str().as_encoded_bytes())),
        json: args.json,
        quiet: args.quiet,
        epochs: args.epochs.clone(),
        state: args.state.state_dir()?,
    };
    let ended = job.run()?;
    finish(ended, &books, args.json)
}

/// What is kept while files arrive.
struct Books {
    sidecars: Option<Sidecars>,
    /// Files of which no checksum was known.
    unchecked: u64,
    /// Why the sidecars cannot be written.
    trouble: Option<Error>,
}

impl Books {
    fn arrived(&mut self, record: &Record, got: &Got, moved: bool) {
        self.unchecked += u64::from(!got.checked);
        let arrived = Arrived {
            url: &got.url,
            bytes: Some(got.bytes),
            checksums: &got.checksums,
            seconds: moved.then_some(got.seconds),
            verified: got.checked,
        };
        self.note(|sidecars| sidecars.arrived(record, &arrived));
    }

    /// Notes something for the sidecars, and gives them up when that fails.
    fn note(&mut self, note: impl FnOnce(&mut Sidecars) -> Result<(), Error>) {
        if let Some(Err(error)) = self.sidecars.as_mut().map(note) {
            self.sidecars = None;
            self.trouble = Some(error);
        }
    }
}

/// Notes what the download tells of.
fn tell(books: &Arc<Mutex<Books>>) -> Tell {
    let books = Arc::clone(books);
    Box::new(move |event| {
        let lock = || books.lock().expect("not poisoned");
        match event {
            Event::Done { record, got } => lock().arrived(record, got, true),
            Event::Skipped { record, got } => lock().arrived(record, got, false),
            Event::Failed { named, record, error } => {
                lock().note(|sidecars| sidecars.failed(named, record, error));
            }
            Event::Note(note) => terminal::complain(note),
        }
    })
}

/// Writes what is to stand beside the files, prints how it ended, and answers with the exit code.
fn finish(mut ended: Ended, books: &Mutex<Books>, json: bool) -> anyhow::Result<ExitCode> {
    let mut books = books.lock().expect("not poisoned");
    ended.summary.unchecked = books.unchecked;
    ended.summary.verified &= books.unchecked == 0;
    if ended.error.is_none() && ended.summary.files.total == 0 {
        ended.error = Some(Error::new(ErrorKind::NotFound, "nothing was named: the list is empty"));
        ended.summary.status = "failed";
        ended.summary.verified = false;
        ended.summary.error = ended.error.as_ref().map(ToString::to_string);
        ended.summary.error_kind = ended.error.as_ref().map(|error| error.kind);
    }
    let whole = ended.error.is_none();
    let written = books.sidecars.take().map(|sidecars| sidecars.write(whole)).transpose();
    match written {
        Ok(Some(written)) => {
            written.notes.iter().for_each(|note| terminal::complain(note));
            ended.summary.sidecars = written.files.iter().map(|name| (*name).to_owned()).collect();
        }
        Ok(None) => {}
        Err(error) => books.trouble = books.trouble.take().or(Some(error)),
    }
    if json {
        terminal::print(&serde_json::to_string(&ended.summary)?)?;
    } else {
        ended.summary.print()?;
    }
    if let Some(error) = ended.error.as_ref().or(books.trouble.as_ref()) {
        terminal::complain(&error.message);
    }
    let summary = &ended.summary;
    let code = match (ended.error.as_ref(), books.trouble.as_ref()) {
        (None, Some(trouble)) => exit::of_kind(trouble.kind),
        (Some(_), _) => summary.code(ended.error.as_ref()),
        (None, None) => {
            let kinds: Vec<_> = summary.failures.iter().map(|failure| failure.kind).collect();
            code(summary.files.ok + summary.files.skipped, &kinds)
        }
    };
    Ok(ExitCode::from(code))
}

/// The exit code when `got` files are there and others failed in these ways.
fn code(got: u64, failures: &[ErrorKind]) -> u8 {
    let all = |wanted: &[ErrorKind]| failures.iter().all(|kind| wanted.contains(kind));
    if failures.contains(&ErrorKind::NoSpace) {
        exit::NO_SPACE
    } else if failures.is_empty() {
        // A list that names nothing is not what anybody meant.
        if got == 0 { exit::NOT_FOUND } else { 0 }
    } else if got > 0 {
        exit::SOME_FAILED
    } else if all(&[ErrorKind::Usage, ErrorKind::UnsafeName]) {
        exit::USAGE
    } else if all(&[ErrorKind::NotFound, ErrorKind::Usage, ErrorKind::UnsafeName]) {
        exit::NOT_FOUND
    } else if all(&[ErrorKind::Authentication, ErrorKind::Denied]) {
        exit::REFUSED
    } else {
        exit::SOME_FAILED
    }
}

impl Mover for Download {
    fn ledger(&self) -> &Arc<Ledger> {
        self.ledger()
    }

    fn under_way(&self) -> Option<UnderWay> {
        let watch = self.watch();
        let bars = move || {
            let bar = |file: tidegate_fetch::get::Active| FileBar {
                name: file.path.to_string(),
                done: file.done,
                bytes: file.bytes,
            };
            watch.active().into_iter().map(bar).collect()
        };
        Some(Box::new(bars))
    }
}

fn cannot_write(args: &GetArgs, error: std::io::Error) -> Error {
    Error::io("write to", args.outdir.as_os_str().as_encoded_bytes(), error)
}

/// The names on the command line, for people.
fn shown(names: &[OsString]) -> String {
    let first = names
        .first()
        .map_or(String::new(), |name| tidegate_fetch::list::public_text(&name.to_string_lossy()));
    match names.len() {
        0 | 1 => first,
        n => format!("{first} and {} more", n - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_tell_what_happened() {
        use ErrorKind::{Authentication, Connection, Denied, NoSpace, NotFound, UnsafeName, Usage};
        for (got, failures, wanted) in [
            (1, &[][..], 0),
            (0, &[], 3),
            (1, &[NotFound], 1),
            (1, &[Usage], 1),
            (0, &[Usage, UnsafeName], 2),
            (0, &[NotFound], 3),
            (0, &[NotFound, Usage], 3),
            (0, &[NotFound, Connection], 1),
            (0, &[Connection], 1),
            (0, &[Denied, Authentication], 5),
            (1, &[Authentication], 1),
            (9, &[Connection, NoSpace], 4),
        ] {
            assert_eq!(code(got, failures), wanted, "{got} {failures:?}");
        }
    }
}
