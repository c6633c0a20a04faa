//! `tidegate share`: a link by which others read something at an endpoint, with a browser or curl.

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use tidegate_control::units::parse_duration;
use tidegate_run::place::Place;
use tidegate_run::settings::TrustArgs;
use tidegate_transfer::transfer::link::share;

use crate::terminal;
use crate::values::ends_in;

/// Print a URL by which whoever has it reads a file or a directory at an endpoint.
///
/// The endpoint must serve HTTP (`tidegate endpoint --https`). The link opens that path and what is beneath, for reading
/// alone, until its time is over or `tidegate ticket --revoke` ends it, and never longer than the ticket it was made by.
#[derive(Debug, Args)]
pub struct ShareArgs {
    /// What to share: name:/path, or an endpoint's address with a path
    #[arg(value_name = "NAME:PATH")]
    place: OsString,
    /// How long it can be read
    #[arg(long = "for", value_name = "TIME", default_value = "7d", value_parser = parse_duration)]
    time: Duration,
    #[command(flatten)]
    trust: TrustArgs,
}

/// Runs the command.
pub fn run(args: &ShareArgs) -> anyhow::Result<ExitCode> {
    let address = Place::endpoint(&args.place, "tidegate share")?;
    let url = share(&address, args.trust.pki()?.as_ref(), Some(ends_in(args.time)?))?;
    terminal::print(&url)?;
    Ok(ExitCode::SUCCESS)
}
