//! `tidegate ticket`: a narrower ticket for somebody else, or a token for HTTP.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use tidegate_control::units::parse_duration;
use tidegate_run::settings::TrustArgs;
use tidegate_transfer::endpoint::{access, ticket_from_state, ticket_name};
use tidegate_transfer::path::RelPath;
use tidegate_transfer::wire::ticket::{Address, Claims, DEFAULT_PORT, Place};

use crate::exit::usage;
use crate::terminal;
use crate::values::ends_in;

/// Make a ticket for an endpoint of this host, narrowed to a path, a direction or a time.
///
/// Needs the endpoint's state directory. A ticket can be narrowed but never widened; it ends when it
/// expires or when the endpoint's secret is removed. With --http it is a token for what the endpoint serves by --https,
/// and can be revoked.
#[derive(Debug, Args)]
pub struct TicketArgs {
    /// Where the endpoint can be reached
    #[arg(value_name = "HOST[:PORT]", required_unless_present_any = ["http", "revoke"])]
    place: Option<Place>,
    /// Make a token for HTTP: to be sent as `Authorization: Bearer TOKEN`, as a password, or as an S3 key pair, which is
    /// what stands before its dot and behind it
    #[arg(long, conflicts_with = "place")]
    http: bool,
    /// Revoke a token for HTTP, or a shared link, given as it is or by the name that the endpoint's log has
    #[arg(
        long, value_name = "TOKEN", allow_hyphen_values = true,
        conflicts_with_all = ["place", "http", "path", "read_only", "write_only", "delete", "expires"]
    )]
    revoke: Option<String>,
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
    let state = args.trust.state.path()?;
    if let Some(token) = &args.revoke {
        let name = access::revoke(&state, token_of(token))?;
        terminal::print(&format!("revoked {name}"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let expires = args.expires.map(ends_in).transpose()?;
    let path = args.path.trim_matches('/').as_bytes().to_vec();
    if !path.is_empty() {
        RelPath::new(&path[..])
            .map_err(|error| usage(format!("--path is beneath the endpoint's root: {error}")))?;
    }
    let (read, write, delete) = (!args.write_only, !args.read_only, args.delete);
    let claims = Claims { read, write, path: path.clone(), expires, once: None, delete };
    let Some(Place { host, port }) = args.place.clone() else {
        let token = access::token_from_state(&state, &claims)?;
        tracing::info!("the endpoint's log calls this token {}", token.name()?);
        terminal::print(&token.to_word())?;
        return Ok(ExitCode::SUCCESS);
    };
    let ticket = Some(ticket_from_state(&state, &claims)?);
    let address = Address { ticket, host, port: port.unwrap_or(DEFAULT_PORT), path };
    if let Some(name) = ticket_name(&address) {
        tracing::info!("the endpoint's log calls this ticket {name}");
    }
    terminal::print(&address.to_string())?;
    Ok(ExitCode::SUCCESS)
}

/// The token in a link, or what was given.
fn token_of(text: &str) -> &str {
    let (_, query) = text.split_once('?').unwrap_or(("", text));
    query.split('&').find_map(|pair| pair.strip_prefix("token=")).unwrap_or(text)
}
