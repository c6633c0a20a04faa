//! `tidegate verify`: reads both sides and compares, without moving or writing anything.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Args;
use serde::{Deserialize, Serialize};
use tidegate_run::ends::Ends;
use tidegate_run::place::Paths;
use tidegate_run::route::RouteArgs;
use tidegate_run::ssh::SshArgs;
use tidegate_spec::filters::FilterSpec;
use tidegate_spec::options::Options;
use tidegate_spec::plane::LinkSpec;
use tidegate_transfer::error::Result;
use tidegate_transfer::terms::{Compare, Purpose};

use crate::asked::read;
use crate::caller::Caller;
use crate::output::JsonArgs;

/// Compare the files of a copy by content, on both sides.
///
/// Takes the same arguments as the copy did. Every file of SRC is read on both sides and its BLAKE3
/// compared; files that are missing at DST or differ are listed and give exit code 1. What is at DST
/// besides is not looked at.
#[derive(Debug, Default, Args, Serialize, Deserialize)]
#[serde(default)]
#[command(override_usage = "tidegate verify [OPTIONS] <SRC>... <DST>", after_help = crate::exit::HELP)]
pub struct VerifyArgs {
    #[command(flatten)]
    #[serde(skip)]
    paths: Paths,
    #[command(flatten)]
    #[serde(flatten)]
    links: LinkSpec,
    #[command(flatten)]
    #[serde(flatten)]
    filters: FilterSpec,
    #[command(flatten)]
    #[serde(flatten)]
    pub output: JsonArgs,
    #[command(flatten)]
    #[serde(flatten)]
    pub route: RouteArgs,
    #[command(flatten)]
    #[serde(flatten)]
    ssh: SshArgs,
}

impl VerifyArgs {
    /// A comparison with options that are told by their names.
    pub fn asked(options: &Options, sources: Vec<OsString>, destination: OsString) -> Result<Self> {
        let args: Self = read(options)?;
        args.ssh.check()?;
        Ok(Self { paths: Paths::of(sources, destination), route: args.route.asked()?, ..args })
    }
}

/// Runs the command.
pub fn run(args: &VerifyArgs, caller: &Caller) -> anyhow::Result<ExitCode> {
    let mut terms = args.route.terms();
    terms.links = args.links.links;
    terms.compare = Compare::Checksum;
    terms.purpose = Purpose::Compare;
    let selection = args.filters.selection()?;
    let ends = Ends::of(&args.paths, &mut terms, &args.route.trust)?;
    let mut setup = args.route.setup(terms, args.route.pace()?, caller.interrupt())?;
    (setup.selection, setup.taking) = (selection, args.filters.taking());
    let work = ends.work(&args.ssh, setup, args.route.patience.retry_for);
    let title = format!("comparing {}", ends.title);
    let (control, state) = (&args.route.control, args.route.trust.state_dir()?);
    args.output.finish(args.output.job(work, control, title, state, caller), caller)
}
