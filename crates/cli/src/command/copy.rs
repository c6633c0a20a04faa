//! `tidegate copy`: push, pull, third-party, from here to here, or from servers of others. To those it is `put`, and from them to
//! here mostly `get`.

mod dry_run;
#[cfg(feature = "get")]
mod from_servers;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde::{Deserialize, Serialize};
use tidegate_run::drive::Job;
use tidegate_run::ends::Ends;
use tidegate_run::known_rate::{KnownRate, Remembers};
use tidegate_run::path_store::PathStore;
use tidegate_run::place::Paths;
use tidegate_run::route::setup;
use tidegate_run::run_memory::MemoryArgs;
use tidegate_run::settings::{TrustArgs, optimizer, pace};
use tidegate_run::ssh::SshArgs;
use tidegate_spec::control::{Control, ControlLocal};
use tidegate_spec::copy::CopySpec;
use tidegate_spec::deletion::BackupDir;
use tidegate_spec::options::Options;
use tidegate_spec::pair::PathKey;
use tidegate_spec::plane::Patience;
use tidegate_spec::run::CopyRun;
use tidegate_transfer::error::Result;
use tidegate_transfer::terms::{Purpose, Terms};

use dry_run::{Listing, Shown};

use crate::asked::read;
use crate::caller::Caller;
use crate::exit::usage;
use crate::output::OutputArgs;
#[cfg(feature = "servers")]
use crate::server_access::ServerAccess;

/// Copy files and directories, verified and resumable.
///
/// Each side is a local path, an endpoint's address with a path (tg://TICKET@host:port/path), or a
/// remembered endpoint's name with a path (name:/path). `copy dir DST/` puts the tree at DST/dir,
/// `copy dir/ DST/` its contents at DST/. A single file is given DST as its name unless DST is a
/// directory or ends in a slash. What is already there and verified is skipped; nothing is deleted, unless
/// --delete asks for it.
///
/// Sources may be at servers, too: https://host/dir/, ftp://host/file, s3://bucket/prefix/ or gs://bucket/key. What they have passes
/// through this host's memory. Into a directory of this host it does what `tidegate get` does, and with s3://bucket/prefix/
/// or https://host/directory/ as DST what `tidegate put` does.
#[derive(Debug, Default, Args, Serialize, Deserialize)]
#[serde(default)]
#[command(override_usage = "tidegate copy [OPTIONS] <SRC>... <DST>", after_help = crate::exit::HELP)]
pub struct CopyArgs {
    #[command(flatten)]
    #[serde(skip)]
    paths: Paths,
    /// Do nothing, and say of each entry what would be done: new, changed and why; with -v also what would stay the same
    #[arg(short = 'n', long, conflicts_with_all = ["epochs", "move"])]
    dry_run: bool,
    #[command(flatten)]
    #[serde(flatten)]
    spec: CopySpec,
    #[command(flatten)]
    #[serde(flatten)]
    backup: BackupDir,
    #[command(flatten)]
    #[serde(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    #[serde(flatten)]
    control: ControlLocal,
    #[command(flatten)]
    #[serde(flatten)]
    patience: Patience,
    #[command(flatten)]
    #[serde(flatten)]
    trust: TrustArgs,
    #[command(flatten)]
    #[serde(flatten)]
    ssh: SshArgs,
    #[command(flatten)]
    #[serde(flatten)]
    memory: MemoryArgs,
    #[cfg(feature = "servers")]
    #[command(flatten)]
    #[serde(flatten)]
    servers: ServerAccess,
    /// Certificates that are trusted besides the system's where servers have the sources.
    #[arg(skip)]
    #[serde(skip)]
    ca: Option<PathBuf>,
}

impl From<CopyRun> for CopyArgs {
    fn from(run: CopyRun) -> Self {
        let CopyRun { sources, destination, spec, setup } = run;
        Self {
            paths: Paths::of(sources, destination),
            dry_run: false,
            spec,
            backup: BackupDir::default(),
            output: OutputArgs::of(&setup),
            ca: setup.ca.clone(),
            patience: setup.retry_for.map_or_else(Patience::default, |retry_for| Patience { retry_for }),
            trust: TrustArgs::of(&setup),
            control: setup.control,
            ssh: SshArgs::default(),
            memory: MemoryArgs::default(),
            #[cfg(feature = "servers")]
            servers: ServerAccess::default(),
        }
    }
}

impl CopyArgs {
    /// A copy with options that are told by their names.
    pub fn asked(options: &Options, sources: Vec<OsString>, destination: OsString) -> Result<Self> {
        let args: Self = read(options)?;
        args.ssh.check()?;
        args.patience.check().map_err(usage)?;
        Ok(Self { paths: Paths::of(sources, destination), trust: args.trust.or_said()?, ..args })
    }

    /// What is copied, and where to.
    pub fn paths(&self) -> Result<(&[OsString], &OsStr)> {
        self.paths.split()
    }

    /// Whether a script reads what would be done.
    pub const fn is_listed_in_json(&self) -> bool {
        self.dry_run && self.output.json
    }

    /// The rule that decides.
    pub fn optimizer(&self) -> &str {
        &self.spec.control.optimizer
    }
}

/// Runs the command; `verbose` if more is to be said.
pub fn run(args: &CopyArgs, caller: &Caller, verbose: bool) -> anyhow::Result<ExitCode> {
    let CopyArgs { spec, trust, .. } = args;
    spec.check(args.backup.backup_dir.is_some()).map_err(usage)?;
    let control = Control { spec: spec.control.clone(), local: args.control.clone() };
    let mut terms = spec.terms(control.local.max_workers);
    if args.dry_run {
        terms.purpose = Purpose::Plan;
    }
    let selection = spec.filters.selection()?;
    let deletion = spec.deletion.at_destination(&selection.rules, args.backup.backup_dir.as_deref());
    let ends = ends(args, &mut terms)?;
    let state = trust.state_dir()?;
    let key = ends.key(&terms, &control);
    let pace = pace(&control, optimizer(&control)?.as_ref());
    let mut setup = setup(trust, terms, pace, caller.interrupt())?;
    setup.stall = spec.stalls.stall_timeout;
    (setup.selection, setup.taking, setup.deletion) = (selection, spec.filters.taking(), deletion);
    setup.moving = spec.deletion.moving;
    if args.dry_run {
        let shown = Shown { json: args.output.json, quiet: args.output.quiet, same: verbose };
        let listing = Listing::new(shown, caller.clone(), setup.interrupt.clone());
        setup.plan = Some(listing.listener());
        let known = key.filter(|_| args.memory.is_wanted()).and_then(|key| known_rate(&key, &state));
        return listing.run(ends.work(&args.ssh, setup, Duration::ZERO), known);
    }
    let memory = args.memory.of(key, &control, &state);
    let work = ends.work(&args.ssh, setup, args.patience.retry_for);
    let title = ends.title.clone();
    let job = Job { memory, ..args.output.job(work, &control, title, state, caller) };
    args.output.finish(job, caller)
}

/// Between what it is copied.
fn ends(args: &CopyArgs, terms: &mut Terms) -> Result<Ends> {
    #[cfg(feature = "get")]
    if let Some(ends) = from_servers::ends(args, terms)? {
        return Ok(ends);
    }
    #[cfg(feature = "servers")]
    args.servers.check_unused()?;
    Ends::of(&args.paths, terms, &args.trust)
}

/// How fast the path was, as what an earlier run over it left says, or else what the history of this host has of it.
fn known_rate(path: &PathKey, state: &Path) -> Option<KnownRate> {
    let held = PathStore::new(state);
    #[cfg(feature = "service")]
    let stores: [&dyn Remembers; 2] = [&held, &tidegate_service::history::Recorded::of(state)];
    #[cfg(not(feature = "service"))]
    let stores: [&dyn Remembers; 1] = [&held];
    KnownRate::of(path, &stores)
}
