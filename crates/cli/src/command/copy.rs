//! `tidegate copy`: push, pull, third-party, or from here to here. To and from servers of others it is `put` and `get`.

mod dry_run;
mod known_rate;

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use tidegate_transfer::terms::{Compare, Purpose};

use dry_run::{Listing, Shown};
use known_rate::KnownRate;

use crate::caller::Caller;
use crate::drive::Job;
use crate::ends::Ends;
use crate::filters::FilterArgs;
use crate::mirror::MirrorArgs;
use crate::output::{OutputArgs, finish};
use crate::place::Paths;
use crate::route::RouteArgs;
use crate::run_memory::MemoryArgs;
use crate::settings::{LinkArgs, stall_timeout};
use crate::ssh::SshArgs;

/// Copy files and directories, verified and resumable.
///
/// Each side is a local path, an endpoint's address with a path (tg://TICKET@host:port/path), or a
/// remembered endpoint's name with a path (name:/path). `copy dir DST/` puts the tree at DST/dir,
/// `copy dir/ DST/` its contents at DST/. A single file is given DST as its name unless DST is a
/// directory or ends in a slash. What is already there and verified is skipped; nothing is deleted, unless
/// --delete asks for it.
///
/// With s3://bucket/prefix/ or https://host/directory/ as DST it does what `tidegate put` does, and with sources that
/// are https://, s3://, gs:// or ftp:// and a directory as DST what `tidegate get` does.
#[derive(Debug, Args)]
#[command(override_usage = "tidegate copy [OPTIONS] <SRC>... <DST>", after_help = crate::exit::HELP)]
pub struct CopyArgs {
    #[command(flatten)]
    paths: Paths,
    /// Read files that are there already on both sides and compare, instead of trusting size, time
    /// and the recorded hash
    #[arg(long)]
    checksum: bool,
    /// Do nothing, and say of each entry what would be done: new, changed and why; with -v also what would stay the same
    #[arg(short = 'n', long, conflicts_with = "epochs")]
    dry_run: bool,
    #[command(flatten)]
    links: LinkArgs,
    #[command(flatten)]
    filters: FilterArgs,
    #[command(flatten)]
    mirror: MirrorArgs,
    /// How long a data stream may deliver nothing before it is replaced, and everything stand still before that is
    /// said
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = stall_timeout, hide_short_help = true)]
    stall_timeout: Duration,
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub route: RouteArgs,
    #[command(flatten)]
    ssh: SshArgs,
    #[command(flatten)]
    memory: MemoryArgs,
}

/// Runs the command; `verbose` if more is to be said.
pub fn run(args: &CopyArgs, caller: &Caller, verbose: bool) -> anyhow::Result<ExitCode> {
    let mut terms = args.route.terms();
    terms.links = args.links.links.into();
    if args.checksum {
        terms.compare = Compare::Checksum;
    }
    if args.dry_run {
        terms.purpose = Purpose::Plan;
    }
    let selection = args.filters.selection()?;
    let deletion = args.mirror.deletion(&selection)?;
    let moving = args.mirror.moving(&mut terms)?;
    let ends = Ends::of(&args.paths, &mut terms, &args.route.trust)?;
    let (control, state) = (&args.route.control, args.route.trust.state_dir()?);
    let key = ends.key(&terms, control);
    let mut setup = args.route.setup(terms, args.route.pace()?, caller.interrupt())?;
    setup.stall = args.stall_timeout;
    (setup.selection, setup.taking, setup.deletion) = (selection, args.filters.taking(), deletion);
    setup.moving = moving;
    if args.dry_run {
        let shown = Shown { json: args.output.json, quiet: args.output.quiet, same: verbose };
        let listing = Listing::new(shown, caller.clone(), setup.interrupt.clone());
        setup.plan = Some(listing.listener());
        let known = key.filter(|_| args.memory.is_wanted()).and_then(|key| KnownRate::of(&key, &state));
        return listing.run(ends.work(&args.ssh, setup, Duration::ZERO), known);
    }
    let memory = args.memory.of(key, control, &state);
    let work = ends.work(&args.ssh, setup, args.route.transfer.retry_for);
    let title = ends.title.clone();
    finish(Job { memory, caller: caller.clone(), ..args.output.job(work, control, title, state) })
}
