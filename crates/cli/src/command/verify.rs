//! `tidegate verify`: reads both sides and compares, without moving or writing anything.

use std::process::ExitCode;

use clap::Args;
use tidegate_transfer::terms::Compare;

use crate::command::copy::{Ends, finish};
use crate::drive::{Job, Work, interrupt_on_signals};
use crate::place::Paths;
use crate::settings::{ControlArgs, LinkRule, TransferArgs, TrustArgs, setup};

/// Compare the files of a copy by content, on both sides.
///
/// Takes the same arguments as the copy did. Every file of SRC is read on both sides and its BLAKE3
/// compared; files that are missing at DST or differ are listed and give exit code 1. What is at DST
/// besides is not looked at.
#[derive(Debug, Args)]
#[command(override_usage = "tidegate verify [OPTIONS] <SRC>... <DST>", after_help = crate::exit::HELP)]
pub struct VerifyArgs {
    #[command(flatten)]
    paths: Paths,
    /// What to do about symbolic links
    #[arg(long, value_name = "RULE", value_enum, default_value_t = LinkRule::Keep)]
    links: LinkRule,
    /// Print one JSON object on standard output
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    control: ControlArgs,
    #[command(flatten)]
    transfer: TransferArgs,
    #[command(flatten)]
    trust: TrustArgs,
}

impl VerifyArgs {
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
pub fn run(args: &VerifyArgs) -> anyhow::Result<ExitCode> {
    let mut terms = args.transfer.terms(args.control.max_workers);
    terms.links = args.links.into();
    terms.compare = Compare::Checksum;
    terms.dry = true;
    let ends = Ends::of(&args.paths, &mut terms, &args.trust)?;
    let optimizer = args.control.optimizer()?;
    let pace = args.control.pace(optimizer.as_ref());
    let loopback = ends.loopback();
    let job = Job {
        work: Work::transfer(
            ends.from,
            ends.to,
            setup(terms, pace, &args.trust, interrupt_on_signals())?,
            args.transfer.retry_for,
        )
        .at_home(loopback),
        control: &args.control,
        title: format!("comparing {}", ends.title),
        json: args.json,
        quiet: false,
        epochs: None,
        state: args.trust.state_dir()?,
    };
    finish(job, args.json)
}
