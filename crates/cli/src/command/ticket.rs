//! `tidegate ticket`: a narrower ticket for somebody else.

use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use tidegate_control::units::parse_duration;
use tidegate_transfer::endpoint::{ticket_from_state, ticket_name};
use tidegate_transfer::path::RelPath;
use tidegate_transfer::wire::ticket::{Address, Claims, DEFAULT_PORT, Place};

use crate::exit::usage;
use crate::settings::TrustArgs;
use crate::terminal;

/// Make a ticket for an endpoint of this host, narrowed to a path, a direction or a time.
///
/// Needs the endpoint's state directory. A ticket can be narrowed but never widened; it ends when it
/// expires or when the endpoint's secret is removed.
#[derive(Debug, Args)]
pub struct TicketArgs {
    /// Where the endpoint can be reached
    #[arg(value_name = "HOST[:PORT]")]
    place: Place,
    /// The only path beneath the endpoint's root that it opens
    #[arg(long, value_name = "PATH", default_value = "")]
    path: String,
    /// Allow fetching only
    #[arg(long, conflicts_with = "write_only")]
    read_only: bool,
    /// Allow putting only
    #[arg(long)]
    write_only: bool,
    /// Allow removing what is there, too, as copy --delete and --move do
    #[arg(long)]
    delete: bool,
    /// How long it holds, as in 24h
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    expires: Option<Duration>,
    #[command(flatten)]
    trust: TrustArgs,
}

/// Runs the command.
pub fn run(args: &TicketArgs) -> anyhow::Result<ExitCode> {
    let expires = match args.expires {
        None => None,
        Some(time) => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            Some(now.checked_add(time).ok_or_else(|| usage("that is too long"))?.as_secs())
        }
    };
    let path = args.path.trim_matches('/').as_bytes().to_vec();
    if !path.is_empty() {
        RelPath::new(&path[..])
            .map_err(|error| usage(format!("--path is beneath the endpoint's root: {error}")))?;
    }
    let (read, write, delete) = (!args.write_only, !args.read_only, args.delete);
    let claims = Claims { read, write, path: path.clone(), expires, once: None, delete };
    let ticket = Some(ticket_from_state(&args.trust.state.path()?, &claims)?);
    let Place { host, port } = args.place.clone();
    let address = Address { ticket, host, port: port.unwrap_or(DEFAULT_PORT), path };
    if let Some(name) = ticket_name(&address) {
        tracing::info!("the endpoint's log calls this ticket {name}");
    }
    terminal::print(&address.to_string())?;
    Ok(ExitCode::SUCCESS)
}
