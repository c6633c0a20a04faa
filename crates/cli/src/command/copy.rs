//! `tidegate copy`: push, pull, third-party, or from here to here.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use tidegate_transfer::terms::{Compare, DataPlane, Terms};
use tidegate_transfer::transfer::route::{From, To, leads_nowhere};

use crate::command::endpoint::Loopback;
use crate::drive::{Ended, Job, Work, interrupt_on_signals};
use crate::exit::usage;
use crate::place::{Paths, Place, refuse_servers, sources};
use crate::settings::{ControlArgs, LinkRule, TransferArgs, TrustArgs, setup, stall_timeout};
use crate::terminal;

/// Copy files and directories, verified and resumable.
///
/// Each side is a local path, an endpoint's address with a path (tg://TICKET@host:port/path), or a
/// remembered endpoint's name with a path (name:/path). `copy dir DST/` puts the tree at DST/dir,
/// `copy dir/ DST/` its contents at DST/. A single file is given DST as its name unless DST is a
/// directory or ends in a slash. What is already there and verified is skipped; nothing is deleted.
#[derive(Debug, Args)]
#[command(override_usage = "tidegate copy [OPTIONS] <SRC>... <DST>", after_help = crate::exit::HELP)]
pub struct CopyArgs {
    #[command(flatten)]
    paths: Paths,
    /// Read files that are there already on both sides and compare, instead of trusting size, time
    /// and the recorded hash
    #[arg(long)]
    checksum: bool,
    /// What to do about symbolic links
    #[arg(long, value_name = "RULE", value_enum, default_value_t = LinkRule::Keep)]
    links: LinkRule,
    /// How long a data stream may deliver nothing before it is replaced, and everything stand still before that is
    /// said
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = stall_timeout, hide_short_help = true)]
    stall_timeout: Duration,
    /// Print one JSON object on standard output
    #[arg(long)]
    json: bool,
    /// Say nothing unless something is wrong
    #[arg(short, long)]
    quiet: bool,
    /// Write each epoch as one JSON line to FILE
    #[arg(long, value_name = "FILE")]
    epochs: Option<PathBuf>,
    #[command(flatten)]
    control: ControlArgs,
    #[command(flatten)]
    transfer: TransferArgs,
    #[command(flatten)]
    trust: TrustArgs,
}

impl CopyArgs {
    /// Whether a script reads the result.
    pub fn json(&self) -> bool {
        self.json
    }

    /// The rule asked for, by name.
    pub fn optimizer(&self) -> &str {
        &self.control.optimizer
    }
}

/// Runs the command.
pub fn run(args: &CopyArgs) -> anyhow::Result<ExitCode> {
    let mut terms = args.transfer.terms(args.control.max_workers);
    terms.links = args.links.into();
    if args.checksum {
        terms.compare = Compare::Checksum;
    }
    let ends = Ends::of(&args.paths, &mut terms, &args.trust)?;
    let optimizer = args.control.optimizer()?;
    let pace = args.control.pace(optimizer.as_ref());
    let mut setup = setup(terms, pace, &args.trust, interrupt_on_signals())?;
    setup.stall = args.stall_timeout;
    let loopback = ends.loopback();
    let job = Job {
        work: Work::transfer(ends.from, ends.to, setup, args.transfer.retry_for).at_home(loopback),
        control: &args.control,
        title: ends.title,
        json: args.json,
        quiet: args.quiet,
        epochs: args.epochs.clone(),
        state: args.trust.state_dir()?,
    };
    finish(job, args.json)
}

/// The two ends of a copy.
pub struct Ends {
    /// From where.
    pub from: From,
    /// To where.
    pub to: To,
    /// Both, for people.
    pub title: String,
    loopback: Option<Loopback>,
}

impl Ends {
    /// What the paths on the command line mean.
    pub fn of(paths: &Paths, terms: &mut Terms, trust: &TrustArgs) -> anyhow::Result<Self> {
        let (typed, destination) = paths.split()?;
        Self::between(typed, destination, terms, trust)
    }

    /// Where the endpoint in between is, in a copy from here to here.
    pub fn loopback(&self) -> Option<String> {
        self.loopback.as_ref().and_then(|loopback| Some(loopback.address().ok()?.place()))
    }

    /// Memory at one end and nowhere at the other.
    pub const fn of_memory(from: From, to: To, title: String) -> Self {
        Self { from, to, title, loopback: None }
    }

    /// From the paths `typed` to `destination`. From here to here goes through an endpoint of our own, on
    /// the loopback and in the clear.
    pub fn between(
        typed: &[OsString],
        destination: &OsStr,
        terms: &mut Terms,
        trust: &TrustArgs,
    ) -> anyhow::Result<Self> {
        refuse_servers(typed, destination)?;
        let (sources, endpoint) = sources(typed)?;
        let destination = Place::parse(destination)?;
        let title = format!("{} → {}", shown_sources(typed), destination.show());
        let (from, to, loopback) = match (endpoint, destination) {
            (None, Place::Endpoint(address)) => (From::Local(sources), To::Endpoint(address), None),
            (Some(source), Place::Local(path)) => (From::Endpoint(source, sources), To::Local(path), None),
            (Some(source), Place::Endpoint(address)) => {
                (From::Endpoint(source, sources), To::Endpoint(address), None)
            }
            (None, Place::Local(path)) => {
                terms.data_plane = DataPlane::Clear;
                let loopback = Loopback::start(Path::new("/"), &trust.state_dir()?)?;
                let address = loopback.address()?.with_path(absolute(&path)?);
                (From::Local(sources), To::Endpoint(address), Some(loopback))
            }
        };
        Ok(Self { from, to, title, loopback })
    }
}

/// Runs a job, prints how it ended, and answers with the exit code.
pub fn finish(job: Job<'_>, json: bool) -> anyhow::Result<ExitCode> {
    let quiet = job.quiet && !json;
    let ended = job.run()?;
    if !quiet {
        return report(&ended, json);
    }
    ended.summary.complain();
    Ok(code_of(&ended))
}

/// Prints how a job ended, and answers with the exit code.
pub fn report(ended: &Ended, json: bool) -> anyhow::Result<ExitCode> {
    if json {
        terminal::print(&serde_json::to_string(&ended.summary)?)?;
    } else {
        ended.summary.print()?;
    }
    Ok(code_of(ended))
}

/// What ended a job early is told, and its exit code.
fn code_of(ended: &Ended) -> ExitCode {
    if let Some(error) = &ended.error {
        terminal::complain(&error.message);
    }
    ExitCode::from(ended.summary.code(ended.error.as_ref()))
}

fn shown_sources(sources: &[OsString]) -> String {
    let first = sources.first().and_then(|source| Place::parse(source).ok()).map(|place| place.show());
    match sources.len() {
        0 | 1 => first.unwrap_or_default(),
        n => format!("{} and {} more", first.unwrap_or_default(), n - 1),
    }
}

/// A local destination as a path beneath `/`, symlinks in its existing part resolved.
fn absolute(path: &[u8]) -> anyhow::Result<Vec<u8>> {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    let typed = Path::new(OsStr::from_bytes(path));
    let mut existing = std::path::absolute(typed)?;
    let mut rest = Vec::new();
    while !existing.exists() {
        if existing.is_symlink() {
            return Err(leads_nowhere(path).into());
        }
        let Some(name) = existing.file_name() else { break };
        rest.push(name.to_owned());
        existing.pop();
    }
    let mut resolved = existing.canonicalize()?;
    for name in rest.into_iter().rev() {
        if name == ".." {
            return Err(usage("the destination's path goes up out of a directory that does not exist").into());
        }
        resolved.push(name);
    }
    let mut bytes = resolved.into_os_string().into_vec();
    bytes.remove(0);
    if path.ends_with(b"/") && !bytes.is_empty() {
        bytes.push(b'/');
    }
    Ok(bytes)
}
