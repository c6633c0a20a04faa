//! `tidegate put`: files of this host, of endpoints or of servers to an S3-compatible store, a WebDAV-style server or a server
//! of SFTP.

mod sources;

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use clap::Args;
use serde::{Deserialize, Serialize};
#[cfg(not(feature = "ssh"))]
use tidegate_contract::feature;
use tidegate_contract::redact;
use tidegate_contract::summary::{FailedFile, Summary};
use tidegate_contract::text::count;
use tidegate_control::{ByteCount, Stage};
use tidegate_fetch::put::dav::DavTarget;
use tidegate_fetch::put::s3::S3Target;
#[cfg(feature = "ssh")]
use tidegate_fetch::put::sftp::{SftpTarget, SftpWriting};
use tidegate_fetch::put::target::Target;
use tidegate_fetch::put::{Upload, UploadEvent as Event, UploadSettings as Settings};
use tidegate_fetch::remote::s3::place::Object;
use tidegate_fetch::remote::servers::ServerSettings;
use tidegate_fetch::remote::shown;
use tidegate_run::drive::{Begun, Ended, Job, Work};
use tidegate_run::place::Paths;
use tidegate_run::run_memory::MemoryArgs;
use tidegate_run::settings::{TrustArgs, optimizer, pace};
use tidegate_run::ssh::SshArgs;
use tidegate_spec::control::{Control, ControlLocal};
use tidegate_spec::form::{path_option, texts};
use tidegate_spec::options::Options;
use tidegate_spec::pair::{Pair, PathKey, Site};
use tidegate_spec::plane::Patience;
use tidegate_spec::put::PutSpec;
use tidegate_spec::run::PutRun;
use tidegate_transfer::catalogue::Catalogues;
use tidegate_transfer::error::{ErrorKind, Result};
use tidegate_transfer::offer::warn_left_out;
use tidegate_transfer::sys::confined::Root;
use tidegate_transfer::sys::sync::Mutex;
use tidegate_transfer::text::show;
use tidegate_transfer::transfer::Interrupt;
use url::Url;

use sources::PutSources;

use crate::asked::read;
use crate::caller::Caller;
use crate::exit::{self, usage};
use crate::google::GoogleArgs;
use crate::header::HeaderLine;
use crate::output::{OutputArgs, report};
use crate::s3::S3Args;
use crate::summary;

/// Put files and directories into an S3-compatible store, onto a WebDAV server or by SFTP, verified and resumable.
///
/// The destination is s3://bucket/prefix/, https://host/directory/ or sftp://user@host/directory/. Sources are on this host, at an
/// endpoint (tg://…, name:/path), at a host that ssh reaches (user@host:path), or at servers: https://host/dir/,
/// ftp://host/file, sftp://host/path, s3://bucket/prefix/, gs://bucket/key. `put dir DST` puts the tree at
/// DST/dir, `put dir/ DST` its contents at DST. A single file is given DST as its name unless DST ends in
/// a slash. Large files go to S3 in parts, several at a time; an upload that was interrupted goes on with
/// the parts that are there. What is there already with the same content is skipped; nothing is deleted,
/// unless --delete asks for it.
///
/// Credentials for S3 come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or from the profile
/// AWS_PROFILE in ~/.aws; a login for WebDAV from ~/.netrc or the URL.
#[derive(Debug, Default, Args, Serialize, Deserialize)]
#[serde(default)]
#[command(override_usage = "tidegate put [OPTIONS] <SRC>... <DST>", after_help = crate::exit::HELP)]
#[command(mut_arg("quiet", |arg| arg.help("Show no progress")))]
#[command(mut_arg("retry_for", |arg| arg.help(PATIENCE)))]
pub struct PutArgs {
    #[command(flatten)]
    #[serde(skip)]
    paths: Paths,
    #[command(flatten)]
    #[serde(flatten)]
    spec: PutSpec,
    /// Only say what would be sent
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    #[serde(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    #[serde(flatten)]
    control: ControlLocal,
    #[command(flatten)]
    #[serde(flatten)]
    memory: MemoryArgs,
    #[command(flatten)]
    #[serde(flatten)]
    s3: S3Args,
    #[command(flatten)]
    #[serde(flatten)]
    google: GoogleArgs,
    #[command(flatten)]
    #[serde(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    #[serde(flatten)]
    patience: Patience,
    #[command(flatten)]
    #[serde(flatten)]
    ssh: SshArgs,
    #[command(flatten)]
    #[serde(flatten)]
    trust: TrustArgs,
}

const PATIENCE: &str = "How long a server or an endpoint that does not answer, or is busy, is waited for";

/// How servers are spoken to.
#[derive(Debug, Args, Serialize, Deserialize)]
#[serde(default)]
#[command(next_help_heading = "Server")]
struct ServerArgs {
    /// A header line for each request to a WebDAV server, such as 'Authorization: Bearer …'
    #[arg(long, value_name = "LINE")]
    #[serde(with = "texts")]
    header: Vec<HeaderLine>,
    /// Compare sizes only, instead of reading files back from a WebDAV or SFTP server
    #[arg(long)]
    no_read_back: bool,
    /// Certificates (PEM) to trust besides the system's
    #[arg(long, value_name = "FILE")]
    #[serde(with = "path_option")]
    ca: Option<PathBuf>,
    /// How often a request to the destination is tried again
    #[arg(long, value_name = "N", default_value_t = Self::default().retries, hide_short_help = true)]
    retries: u32,
}

impl Default for ServerArgs {
    fn default() -> Self {
        Self { header: Vec::new(), no_read_back: false, ca: None, retries: 8 }
    }
}

/// The destination, as typed.
enum Place {
    S3(Object),
    Dav(Url),
    #[cfg(feature = "ssh")]
    Sftp(Url),
}

impl Place {
    fn parse(text: &OsStr) -> Result<Self> {
        let shown = redact::public_text(&text.to_string_lossy());
        let wrong = |why: &str| usage(format!("the destination {shown} {why}"));
        let needed = "is none of s3://bucket/prefix/, https://host/directory/ and sftp://host/directory/";
        let url = text.to_str().and_then(|text| Url::parse(text).ok()).ok_or_else(|| wrong(needed))?;
        match url.scheme() {
            "s3" => Object::of(&url).map(Self::S3),
            "http" | "https" => Ok(Self::Dav(url)),
            #[cfg(feature = "ssh")]
            "sftp" => Ok(Self::Sftp(url)),
            #[cfg(not(feature = "ssh"))]
            "sftp" => Err(usage(feature::missing(&shown, "ssh"))),
            _ => Err(wrong(needed)),
        }
    }

    /// What it is called.
    fn url(&self) -> Result<Url> {
        match self {
            Self::S3(object) => object.url(),
            Self::Dav(url) => Ok(url.clone()),
            #[cfg(feature = "ssh")]
            Self::Sftp(url) => Ok(url.clone()),
        }
    }

    fn shown(&self) -> String {
        match self {
            Self::S3(object) => {
                object.url().map_or_else(|_| format!("s3://{}", object.bucket), |url| url.to_string())
            }
            Self::Dav(url) => shown(url),
            #[cfg(feature = "ssh")]
            Self::Sftp(url) => shown(url),
        }
    }

    fn target(
        &self,
        single: bool,
        args: &PutArgs,
        settings: &ServerSettings,
        state: &Root,
    ) -> Result<Arc<dyn Target>> {
        Ok(match self {
            Self::S3(object) => Arc::new(S3Target::new(
                settings,
                object.clone(),
                single,
                args.spec.requests.part_size,
                Some(state),
            )?),
            Self::Dav(url) => {
                let headers = args.server.header.iter().map(|line| (line.name.clone(), line.value.clone()));
                let headers = headers.collect();
                Arc::new(DavTarget::new(settings, url.clone(), single, headers, !args.server.no_read_back)?)
            }
            #[cfg(feature = "ssh")]
            Self::Sftp(url) => {
                let part = args.spec.requests.part_size;
                let (reads_back, compares) = (!args.server.no_read_back, args.spec.compares());
                let writing = SftpWriting { part, reads_back, compares };
                Arc::new(SftpTarget::new(settings, url, single, writing)?)
            }
        })
    }
}

impl From<PutRun> for PutArgs {
    fn from(run: PutRun) -> Self {
        let PutRun { sources, destination, spec, setup } = run;
        Self {
            ssh: SshArgs::default(),
            trust: TrustArgs::of(&setup),
            paths: Paths::of(sources, destination),
            spec,
            dry_run: false,
            output: OutputArgs::of(&setup),
            memory: MemoryArgs::default(),
            s3: S3Args::default(),
            google: GoogleArgs::default(),
            server: ServerArgs { ca: setup.ca, ..ServerArgs::default() },
            patience: setup.retry_for.map_or_else(Patience::default, |retry_for| Patience { retry_for }),
            control: setup.control,
        }
    }
}

impl PutArgs {
    /// An upload with options that are told by their names.
    pub fn asked(options: &Options, sources: Vec<OsString>, destination: OsString) -> Result<Self> {
        let args: Self = read(options)?;
        args.patience.check().map_err(usage)?;
        args.ssh.check()?;
        Ok(Self { paths: Paths::of(sources, destination), trust: args.trust.or_said()?, ..args })
    }

    /// The rule that decides.
    pub fn optimizer(&self) -> &str {
        &self.spec.control.optimizer
    }

    /// Whether a script reads what would be sent.
    pub const fn is_listed_in_json(&self) -> bool {
        self.dry_run && self.output.json
    }

    fn control(&self) -> Control {
        Control { spec: self.spec.control.clone(), local: self.control.clone() }
    }

    fn servers(&self, place: &Place) -> Result<ServerSettings> {
        let s3 = match place {
            Place::S3(_) => Some(self.s3.settings()?),
            _ => self.s3.asked()?,
        };
        let (ca, timeout) = (self.server.ca.clone(), self.patience.silence(self.spec.requests.timeout));
        let congestion = self.spec.control.congestion.for_servers()?;
        let (gs, ssh) = (self.google.asked()?, self.ssh.command.carrier()?);
        Ok(ServerSettings { s3, gs, ssh, ca, timeout, congestion, ..ServerSettings::from_env() })
    }
}

impl PutArgs {
    /// What the path is remembered by.
    fn key(&self, sources: &PutSources, place: &Place, servers: &ServerSettings) -> Option<PathKey> {
        let (to, store) = match place {
            Place::S3(_) => (place.shown(), servers.s3.as_ref().and_then(|s3| s3.endpoint.as_ref())),
            Place::Dav(url) => (url.to_string(), None),
            #[cfg(feature = "ssh")]
            Place::Sftp(url) => (url.to_string(), None),
        };
        let store = store.and_then(|url| Site::of(url.as_str()).ok()).map(|url| format!("at {url}"));
        let parts = format!("parts of {}", self.spec.requests.part_size);
        let terms: Vec<&str> = [&parts[..]].into_iter().chain(store.as_deref()).collect();
        let source = sources.site()?;
        let pair = Pair { source, destination: Site::of(&to).ok()? };
        Some(PathKey::new(pair, &terms, &self.spec.requests.limits(), &self.control()))
    }
}

/// A file that would be sent.
#[derive(Clone, Debug, Serialize)]
pub struct Planned {
    path: String,
    bytes: u64,
}

/// What would become of files.
#[derive(Clone, Debug, Default)]
struct Planning {
    files: Vec<Planned>,
    delete: Vec<String>,
}

/// What a dry run found.
#[derive(Debug, Serialize)]
pub struct Plan<'a> {
    dry_run: bool,
    files: &'a [Planned],
    /// What would be removed at the destination.
    delete: &'a [String],
    skipped: u64,
    failures: &'a [FailedFile],
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_kind: Option<ErrorKind>,
}

impl Plan<'_> {
    /// Nothing, because of `error`.
    pub fn of_nothing(error: &anyhow::Error) -> Self {
        let Summary { error, error_kind, .. } = summary::of_nothing("", error);
        Self { dry_run: true, files: &[], delete: &[], skipped: 0, failures: &[], error, error_kind }
    }
}

/// Runs the command.
pub fn run(args: &PutArgs, caller: &Caller) -> anyhow::Result<ExitCode> {
    let (typed, destination) = args.paths.split()?;
    let place = Place::parse(destination)?;
    let state_dir = args.trust.state_dir()?;
    let state = args.trust.state.open()?;
    let catalogues = Catalogues::new(&state)?;
    args.spec.check().map_err(usage)?;
    if args.spec.deletion.moving && args.server.no_read_back {
        return Err(
            usage("--move removes only what was read back and compared: leave --no-read-back out").into()
        );
    }
    if !args.server.header.is_empty() && !matches!(place, Place::Dav(_)) {
        return Err(usage("--header is for a WebDAV server as the destination: leave it out").into());
    }
    let selection = args.spec.filters.selection()?;
    let deletion = args.spec.deletion.at_destination(&selection.rules, None);
    let control = args.control();
    let pace = pace(&control, optimizer(&control)?.as_ref());
    let interrupt = caller.interrupt();
    let servers = args.servers(&place)?;
    let sources = PutSources::of(typed, &place, &servers, args)?;
    let planned = Arc::new(Mutex::new(Planning::default()));
    let unverified = Arc::new(AtomicBool::new(false));
    let begun = AtomicBool::new(false);
    let begin = || -> Result<Begun> {
        *planned.lock() = Planning::default();
        let source = sources.open(&selection, args, &interrupt)?;
        let target = place.target(source.is_single_file(), args, &servers, &state)?;
        let settings = Settings {
            staging: args.spec.requests.staging,
            max_workers: args.control.max_workers,
            limits: args.spec.requests.limits(),
            retries: args.server.retries,
            retry_for: args.patience.retry_for,
            pace,
            interrupt: interrupt.clone(),
            seed: control.spec.seed,
            dry: args.dry_run,
            checksum: args.spec.compares(),
            taking: args.spec.filters.taking(),
            deletion: deletion.clone(),
            catalogue: catalogues.of(&target.identity()),
            unverified: Arc::clone(&unverified),
        };
        let upload = Upload::start(source, target, settings, tell(&planned))?;
        begun.store(true, Relaxed);
        Ok(Begun { transfer: Box::new(upload), under_way: None })
    };
    let work = Work {
        begin: Box::new(begin),
        retry_for: sources.retry_for(args),
        stages: &[Stage::Read, Stage::Network],
        staging: args.spec.requests.staging,
        interrupt: Interrupt::clone(&interrupt),
        dry: false,
        words: sources.words(),
        landed: Box::new(|| Ok(())),
    };
    let key = args.key(&sources, &place, &servers).filter(|_| !args.dry_run);
    let memory = args.memory.of(key, &control, &state_dir);
    let output = OutputArgs { quiet: args.output.quiet || args.dry_run, ..args.output.clone() };
    let job = output.job(work, &control, title(&sources, typed.len(), &place), state_dir, caller);
    let mut ended = Job { memory, ..job }.run()?;
    ended.summary.verified &= !unverified.load(Relaxed);
    if args.dry_run && ended.error.is_none() {
        let planned = planned.lock();
        return print_plan(&ended, &planned, args.output.json, caller);
    }
    let code = match args.is_listed_in_json() {
        true => print_plan(&ended, &planned.lock(), true, caller)?,
        false => report(&ended, args.output.json, caller)?,
    };
    // The sources were there when it began: what does not exist is a bucket or a directory at the destination.
    let destination =
        begun.load(Relaxed) && ended.error.as_ref().is_some_and(|error| error.kind == ErrorKind::NotFound);
    Ok(match ended.error {
        Some(_) if destination => ExitCode::from(exit::SOME_FAILED),
        None if ended.summary.is_refused() => ExitCode::from(exit::REFUSED),
        _ => code,
    })
}

fn title(sources: &PutSources, count: usize, place: &Place) -> String {
    let first = sources.first();
    match count {
        0 | 1 => format!("{first} → {}", place.shown()),
        n => format!("{first} and {} more → {}", n - 1, place.shown()),
    }
}

/// Logs what becomes of files, and keeps what would be sent.
fn tell(planned: &Arc<Mutex<Planning>>) -> tidegate_fetch::put::UploadListener {
    let planned = Arc::clone(planned);
    Box::new(move |event| match event {
        Event::Done(path, bytes) => tracing::info!("{path}: {} sent and verified", ByteCount(bytes)),
        Event::Skipped(path, _) => tracing::info!("{path}: there already"),
        Event::Left(path) => tracing::info!("{path}: left as it is there"),
        Event::Would(path, bytes) => {
            planned.lock().files.push(Planned { path: path.to_string(), bytes });
        }
        Event::Deleted(path) => tracing::info!("{path}: deleted, as the source does not have it"),
        Event::WouldDelete(path) => planned.lock().delete.push(path.to_string()),
        // Listed at the end.
        Event::Failed(path, error) => tracing::debug!("{}: {error}", show(path)),
        Event::Note(path, why) => warn_left_out(path, why),
    })
}

fn print_plan(ended: &Ended, planning: &Planning, json: bool, caller: &Caller) -> anyhow::Result<ExitCode> {
    let Planning { files: mut planned, mut delete } = planning.clone();
    planned.sort_by(|a, b| a.path.cmp(&b.path));
    delete.sort();
    let summary = &ended.summary;
    let skipped = summary.files.skipped;
    if json {
        let (error, error_kind) = (summary.error.clone(), summary.error_kind);
        let failures = &summary.failures;
        caller.print_json(&Plan {
            dry_run: true,
            files: &planned,
            delete: &delete,
            skipped,
            failures,
            error,
            error_kind,
        })?;
        if let Some(error) = &ended.error {
            caller.complain(&error.message);
        }
    } else {
        for failure in &summary.failures {
            caller.complain(&failure.message);
        }
        for file in &planned {
            caller.print(&format!("{}  {}", file.path, ByteCount(file.bytes)))?;
        }
        for path in &delete {
            caller.print(&format!("{path}  to delete"))?;
        }
        let bytes = planned.iter().map(|file| file.bytes).sum();
        caller.print(&format!(
            "{}, {} would be sent, {skipped} there already{}",
            count(planned.len() as u64, "file"),
            ByteCount(bytes),
            if delete.is_empty() { String::new() } else { format!(", {} to delete", delete.len()) }
        ))?;
    }
    Ok(summary.exit(ended.error.as_ref().map(|error| error.kind)).into())
}
