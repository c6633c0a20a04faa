//! `tidegate verify`: reads both sides and compares, without moving or writing anything.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Args;
use tidegate_transfer::transfer::route::{From, To};
use tidegate_transfer::wire::message::{Compare, DataPlane};

use crate::command::copy::finish;
use crate::command::endpoint::Loopback;
use crate::drive::{Job, interrupt_on_signals};
use crate::place::{Place, sources};
use crate::settings::{ControlArgs, LinkRule, TransferArgs, TrustArgs, setup};

/// Compare the files of a copy by content, on both sides.
///
/// Takes the same arguments as the copy did. Every file of SRC is read on both sides and its BLAKE3
/// compared; files that are missing at DST or differ are listed and give exit code 1. What is at DST
/// besides is not looked at.
#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// What was copied
    #[arg(required = true, value_name = "SRC")]
    sources: Vec<OsString>,
    /// Where to
    #[arg(value_name = "DST")]
    destination: OsString,
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
    let (paths, endpoint) = sources(&args.sources)?;
    let destination = Place::parse(&args.destination)?;
    let mut terms = args.transfer.terms(args.control.max_workers);
    terms.links = args.links.into();
    terms.compare = Compare::Checksum;
    terms.dry = true;
    let title = format!("comparing with {}", destination.show());
    let (from, to, _loopback) = match (endpoint, destination) {
        (None, Place::Endpoint(address)) => (From::Local(paths), To::Endpoint(address), None),
        (Some(source), Place::Local(path)) => (From::Endpoint(source, paths), To::Local(path), None),
        (Some(source), Place::Endpoint(address)) => {
            (From::Endpoint(source, paths), To::Endpoint(address), None)
        }
        (None, Place::Local(path)) => {
            terms.data_plane = DataPlane::Clear;
            let loopback = Loopback::start(std::path::Path::new("/"), &args.trust.state_dir()?)?;
            let address = loopback.address()?.with_path(super::copy::absolute(&path)?);
            (From::Local(paths), To::Endpoint(address), Some(loopback))
        }
    };
    let optimizer = args.control.optimizer()?;
    let pace = args.control.pace(optimizer.as_ref());
    let job = Job {
        from,
        to,
        setup: setup(terms, pace, &args.trust, interrupt_on_signals())?,
        control: &args.control,
        title,
        json: args.json,
        quiet: false,
        epochs: None,
        state: args.trust.state_dir()?,
    };
    finish(job, args.json)
}
