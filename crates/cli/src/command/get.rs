//! `tidegate get`: files by accession, URL or list, from other people's servers.

mod names;
mod piped;
mod preview;
mod self_check;
mod settings;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use clap::Args;
use serde::{Deserialize, Serialize};
use tidegate_contract::redact;
use tidegate_contract::summary::Status;
use tidegate_control::Stage;
use tidegate_fetch::get::{Active, Download, DownloadEvent as Event, DownloadListener as Tell, Got, Watch};
use tidegate_fetch::record::{Names, Record};
use tidegate_fetch::remote::Remotes;
use tidegate_fetch::remote::servers::Servers;
use tidegate_fetch::sidecar::{Arrived, Sidecars};
use tidegate_run::audience::{FileBar, UnderWay};
use tidegate_run::conversion::{Archive, ConvertTo, Converted, Converter, Converting};
use tidegate_run::drive::{Begun, Ended, Job, Work, ended_by};
use tidegate_run::run_memory::MemoryArgs;
use tidegate_run::settings::{StateArgs, optimizer, pace};
use tidegate_run::ssh::Words;
use tidegate_run::{file_system, pushed_back, refresh};
use tidegate_spec::control::{Control, ControlLocal, ControlSpec, perhaps_workers, workers};
use tidegate_spec::get::GetSpec;
use tidegate_spec::options::Options;
use tidegate_spec::pair::{Pair, PathKey};
use tidegate_spec::run::{GetRun, NamedUrl};
use tidegate_transfer::error::{Error, ErrorKind};
use tidegate_transfer::manifest::BLOCK;
use tidegate_transfer::sys::sync::Mutex;
use tidegate_transfer::text::show;
use tidegate_transfer::transfer::Interrupt;

use crate::asked::read;
use crate::caller::Caller;
use crate::exit::{self, usage};
use crate::output::{self, OutputArgs};
use settings::{ArchiveArgs, ListArgs, ServerArgs, SidecarArgs};

/// Get public data by accession, URL or list, verified and resumable.
///
/// NAME is an accession of a sequence archive (run, experiment, sample, study, project, submission,
/// BioSample, or GEO's GSE and GSM), a URL (http, https, ftp, ftps, s3, gs, file; s3://bucket/prefix/
/// or gs://bucket/prefix/ for all beneath it, and https://host/dir/ with -r), a file that lists any of these,
/// or '-' for such a list on standard input. Lists may be in aria2's syntax, checksum files beside a
/// --base-url, tables (ENA's file reports as they are), JSON, BagIt's fetch.txt, or Metalink 4. Files get
/// their names only when they are complete and verified; what is there already is skipped.
#[derive(Debug, Default, Args, Serialize, Deserialize)]
#[serde(default)]
#[command(override_usage = "tidegate get [OPTIONS] <NAME>...", after_help = exit::GET_HELP)]
#[command(mut_arg("quiet", |arg| arg.help("Show no progress")))]
pub struct GetArgs {
    /// Accessions, URLs, files that list them, or '-'
    #[arg(value_name = "NAME", required_unless_present = "self_check")]
    #[serde(skip)]
    names: Vec<OsString>,
    /// Files that another program names.
    #[arg(skip)]
    #[serde(skip)]
    urls: Vec<NamedUrl>,
    /// Where files go
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    #[serde(skip)]
    outdir: PathBuf,
    #[command(flatten)]
    #[serde(flatten)]
    spec: GetSpec,
    /// Tell what would be got, and from where; with --json a list that `get` reads again
    #[arg(long)]
    pub dry_run: bool,
    /// Write what is known of the runs, and get no file of theirs
    #[arg(long, conflicts_with = "dry_run")]
    metadata_only: bool,
    /// Write the content to standard output, one file after the other, and keep nothing; it is verified while it flows,
    /// so whoever reads has to look at the exit status
    #[arg(long, conflicts_with_all = ["dry_run", "metadata_only", "json", "epochs", "outdir", "overwrite", "convert"])]
    pipe: bool,
    /// Ask each archive for one known run, or for NAME, and tell what of the answers is not as expected
    #[arg(long, conflicts_with_all = ["pipe", "dry_run", "metadata_only", "convert"])]
    pub self_check: bool,
    /// Get all that lies beneath each NAME, a directory that a server lists: https://host/dir/, ftp://host/dir/, sftp://host/dir/
    #[arg(short, long, conflicts_with = "self_check")]
    recursive: bool,
    /// Get a fresh link by COMMAND when a server refuses one (401, 403, or 400 as expired): it is run with the URL as its
    /// last argument and prints another; taken from the command line only
    #[arg(long, value_name = "COMMAND")]
    refresh_url_with: Option<String>,
    /// Convert SRA archives as they arrive; needs fasterq-dump of NCBI's SRA toolkit
    #[arg(long, value_name = "FORMAT", conflicts_with_all = ["dry_run", "metadata_only"])]
    convert: Option<ConvertTo>,
    #[command(flatten)]
    #[serde(flatten)]
    pub output: OutputArgs,
    /// Use N connections and let no rule change that
    #[arg(long, value_name = "N", conflicts_with = "optimizer", value_parser = workers())]
    #[serde(deserialize_with = "perhaps_workers")]
    fixed: Option<u16>,
    #[command(flatten)]
    #[serde(flatten)]
    archive: ArchiveArgs,
    #[command(flatten)]
    #[serde(flatten)]
    list: ListArgs,
    #[command(flatten)]
    #[serde(flatten)]
    sidecars: SidecarArgs,
    #[command(flatten)]
    #[serde(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    #[serde(flatten)]
    control: ControlLocal,
    #[command(flatten)]
    #[serde(flatten)]
    memory: MemoryArgs,
    #[command(flatten)]
    #[serde(flatten)]
    state: StateArgs,
}

impl From<GetRun> for GetArgs {
    fn from(run: GetRun) -> Self {
        let GetRun { names, urls, outdir, sidecars, spec, setup } = run;
        Self {
            names: names.into_iter().map(OsString::from).collect(),
            urls,
            outdir: outdir.into(),
            spec,
            dry_run: false,
            metadata_only: false,
            pipe: false,
            self_check: false,
            recursive: false,
            refresh_url_with: None,
            convert: None,
            output: OutputArgs::of(&setup),
            fixed: None,
            archive: ArchiveArgs::of_environment(),
            list: ListArgs::default(),
            sidecars: SidecarArgs { no_sidecars: !sidecars },
            server: ServerArgs::of(&setup),
            memory: MemoryArgs::default(),
            state: StateArgs::at(setup.state),
            control: setup.control,
        }
    }
}

impl GetArgs {
    /// A download with options that are told by their names.
    pub fn asked(options: &Options, names: Vec<OsString>, outdir: PathBuf) -> Result<Self, Error> {
        let args: Self = read(options)?;
        if args.fixed.is_some() && args.spec.control.optimizer != ControlSpec::default().optimizer {
            return Err(usage("--fixed cannot be used with --optimizer"));
        }
        if args.convert.is_some() && (args.dry_run || args.metadata_only) {
            return Err(usage("--convert needs files that are got: leave --dry-run and --metadata-only out"));
        }
        args.server.check().map_err(usage)?;
        let (archive, state) = (args.archive.or_said(), args.state.or_said());
        Ok(Self { names, outdir, archive, state, ..args })
    }

    /// The rule that decides.
    pub fn optimizer(&self) -> &str {
        &self.spec.control.optimizer
    }

    /// Whether standard output gets what is no result for scripts.
    pub fn prints(&self) -> bool {
        self.pipe || self.self_check
    }
}

/// Runs the command.
pub fn run(args: &GetArgs, caller: &Caller) -> anyhow::Result<ExitCode> {
    args.spec.check().map_err(usage)?;
    if args.self_check {
        return self_check::run(args);
    }
    let servers = Servers::new(&args.server.servers(&args.spec)?);
    let names = names::named(args, &servers)?;
    if args.dry_run {
        return Ok(preview::dry_run(names, args.output.json, caller)?);
    }
    let interrupt = caller.interrupt();
    let refresh = args.refresh_url_with.as_deref().map(|command| refresh::by(command, interrupt.clone()));
    let servers = Arc::new(servers.refreshed_by(refresh.transpose()?));
    if args.pipe {
        let remotes: Arc<dyn Remotes> = servers;
        return pipe(args, names, &remotes, interrupt);
    }
    std::fs::create_dir_all(&args.outdir).map_err(|error| cannot_write(args, error))?;
    let directory = args.outdir.canonicalize().map_err(|error| cannot_write(args, error))?;
    let converter = args
        .convert
        .map(|ConvertTo::Fastq| Converter::find(&directory, args.spec.overwrite, interrupt.clone()));
    let converter = converter.transpose()?;
    let sidecars = args.sidecars.sidecars(&directory, &args.spec.archive)?;
    if args.metadata_only {
        return Ok(preview::metadata_only(names, sidecars, args.output.json, caller)?);
    }
    let control = control(args);
    let pace = pace(&control, optimizer(&control)?.as_ref());
    let mut settings =
        args.server.download(&directory, (&args.spec, &control), pace, interrupt.clone(), &args.state)?;
    settings.typed = args.outdir.as_os_str().as_encoded_bytes().to_vec();
    let state = args.state.state_dir()?;
    if args.memory.is_wanted() {
        settings.held = Arc::new(pushed_back::recall(&state));
    }
    let held = Arc::clone(&settings.held);
    let key = names::source(args).zip(file_system::site_of(&directory)).map(|(source, destination)| {
        let how = if source.is_archive() { args.archive.terms(&args.spec.archive) } else { Vec::new() };
        let requests = args.spec.requests.terms();
        let terms: Vec<&str> = requests.into_iter().chain(how.iter().map(String::as_str)).collect();
        PathKey::new(Pair { source, destination }, &terms, &settings.limits, &control)
    });
    let memory = args.memory.of(key, &control, &state);
    let converting = converter.map(Converting::begin).transpose()?;
    let archives = converting.as_ref().map(Converting::queue);
    let results = Arc::new(Mutex::new(Results { sidecars, unchecked: 0, error: None, archives }));
    let staging = settings.staging;
    let mut begun = Some((names, settings, tell(&results, caller)));
    let begin = move || {
        let (names, settings, tell) =
            begun.take().ok_or_else(|| Error::new(ErrorKind::Usage, "begun already"))?;
        let servers = Arc::clone(&servers);
        let download = Download::start(names, servers, settings, tell)?;
        Ok(Begun { under_way: Some(under_way(download.watch())), transfer: Box::new(download) })
    };
    let work = Work {
        begin: Box::new(begin),
        retry_for: Duration::ZERO,
        stages: &[Stage::Network, Stage::Write],
        staging: tidegate_control::ByteCount(staging.0.max(4 * BLOCK)),
        interrupt,
        dry: false,
        words: Words::default(),
        landed: Box::new(|| Ok(())),
    };
    let title = format!("{} → {}", shown(&args.names), show(directory.as_os_str().as_encoded_bytes()));
    let job = Job { memory, ..args.output.job(work, &control, title, state.clone(), caller) };
    let ended = job.run();
    if args.memory.is_wanted() {
        pushed_back::keep(&held, &state);
    }
    let mut ended = ended?;
    if let Some(converting) = converting {
        convert(converting, &mut ended, &results, caller);
    }
    finish(ended, &results, args.output.json, caller)
}

/// The rule that is asked for.
fn control(args: &GetArgs) -> Control {
    let mut control = Control { spec: args.spec.control.clone(), local: args.control.clone() };
    if let Some(n) = args.fixed {
        control.spec.optimizer = format!("fixed:{n}");
        control.local.max_workers = control.local.max_workers.max(n);
    }
    control
}

/// Writes what was named to standard output.
fn pipe(
    args: &GetArgs,
    names: Names,
    servers: &Arc<dyn Remotes>,
    interrupt: Interrupt,
) -> anyhow::Result<ExitCode> {
    let here = std::env::current_dir()?;
    let control = control(args);
    let rule = optimizer(&control)?;
    let pace = pace(&control, rule.as_ref());
    let mut settings = args.server.download(&here, (&args.spec, &control), pace, interrupt, &args.state)?;
    let state = args.state.state_dir()?;
    if args.memory.is_wanted() {
        settings.held = Arc::new(pushed_back::recall(&state));
    }
    let held = Arc::clone(&settings.held);
    let code = piped::run(names, servers, settings, rule, args.output.quiet);
    if args.memory.is_wanted() {
        pushed_back::keep(&held, &state);
    }
    Ok(code?)
}

/// Waits for what is converted, and tells of each archive that cannot be.
fn convert(converting: Converting, ended: &mut Ended, results: &Mutex<Results>, caller: &Caller) {
    results.lock().archives = None;
    let whole = ended.error.is_none();
    let Converted { archives, made, failed, interrupted } = converting.end(whole);
    ended.summary.converted.extend(made);
    if whole && archives == 0 {
        caller.complain("there is nothing to convert: --format sra gets SRA archives");
    }
    if !failed.is_empty() && ended.summary.status == Status::Complete {
        ended.summary.status = Status::Incomplete;
    }
    for error in failed {
        // The last one is told of at the end.
        if let Some(before) = results.lock().error.replace(error) {
            caller.complain(&before.message);
        }
    }
    if let Some(error) = interrupted.filter(|_| whole) {
        ended.summary.status = Status::Interrupted;
        ended_by(&mut ended.summary, &error);
        ended.error = Some(error);
    }
}

/// What is kept while files arrive.
struct Results {
    sidecars: Option<Sidecars>,
    /// Files of which no checksum was known.
    unchecked: u64,
    /// Why the sidecars cannot be written, or what was not converted.
    error: Option<Error>,
    /// Who converts SRA archives that are there, if anybody does.
    archives: Option<Sender<Archive>>,
}

impl Results {
    fn arrived(&mut self, record: &Record, got: &Got, moved: bool) {
        self.unchecked += u64::from(!got.checked);
        if let Some(archives) = self.archives.as_ref().filter(|_| Converter::takes(&record.path)) {
            let reads = record.meta.get("read_count").and_then(|reads| reads.trim().parse().ok());
            // Who converts lives as long as this.
            let _ = archives.send((record.path.clone(), reads));
        }
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
            self.error = Some(error);
        }
    }
}

/// Notes what the download tells of.
fn tell(results: &Arc<Mutex<Results>>, caller: &Caller) -> Tell {
    let (results, caller) = (Arc::clone(results), caller.clone());
    Box::new(move |event| {
        let lock = || results.lock();
        match event {
            Event::Done { record, got } => lock().arrived(record, got, true),
            Event::Skipped { record, got } => lock().arrived(record, got, false),
            Event::Failed { named, record, error } => {
                lock().note(|sidecars| sidecars.failed(named, record, error));
            }
            Event::Note(note) => caller.complain(note),
        }
    })
}

/// Writes what is to stand beside the files, prints how it ended, and answers with the exit code.
fn finish(
    mut ended: Ended,
    results: &Mutex<Results>,
    json: bool,
    caller: &Caller,
) -> anyhow::Result<ExitCode> {
    let mut results = results.lock();
    ended.summary.unchecked = results.unchecked;
    ended.summary.verified &= results.unchecked == 0;
    if ended.error.is_none() && ended.summary.files.total == 0 {
        let error = Error::new(ErrorKind::NotFound, "nothing was named: the list is empty");
        ended.summary.status = Status::Failed;
        ended.summary.verified = false;
        ended_by(&mut ended.summary, &error);
        ended.error = Some(error);
    }
    let whole = ended.error.is_none();
    let written = results.sidecars.take().map(|sidecars| sidecars.write(whole)).transpose();
    match written {
        Ok(Some(written)) => {
            written.notes.iter().for_each(|note| caller.complain(note));
            ended.summary.sidecars = written.files.iter().map(|name| (*name).to_owned()).collect();
        }
        Ok(None) => {}
        Err(error) => results.error = results.error.take().or(Some(error)),
    }
    output::print(&ended, json, caller)?;
    if let Some(error) = ended.error.as_ref().or(results.error.as_ref()) {
        caller.complain(&error.message);
    }
    let summary = &ended.summary;
    let code = match (ended.error.as_ref(), results.error.as_ref()) {
        (None, Some(error)) => exit::of_kind(error.kind),
        (Some(_), _) => summary.exit(ended.error.as_ref().map(|error| error.kind)).code(),
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

/// What shows the files under way.
fn under_way(watch: Watch) -> UnderWay {
    let bar = |file: Active| FileBar { name: file.path.to_string(), done: file.done, bytes: file.bytes };
    Box::new(move || watch.active().into_iter().map(bar).collect())
}

fn cannot_write(args: &GetArgs, error: std::io::Error) -> Error {
    Error::io("write to", args.outdir.as_os_str().as_encoded_bytes(), error)
}

/// The names on the command line, for people.
fn shown(names: &[OsString]) -> String {
    let first = names.first().map_or(String::new(), |name| redact::public_text(&name.to_string_lossy()));
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
