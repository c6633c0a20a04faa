//! Copies of what servers of others have.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use tidegate_fetch::remote::servers::ServerSettings;
use tidegate_fetch::server_source::ServerOrigin;
use tidegate_run::ends::Ends;
use tidegate_run::place::end;
use tidegate_transfer::error::Result;
use tidegate_transfer::terms::Terms;

use super::CopyArgs;
use crate::signals::end_anyway;

/// Between what it is copied, if servers have the sources.
pub fn ends(args: &CopyArgs, terms: &mut Terms) -> Result<Option<Ends>> {
    let (sources, destination) = args.paths()?;
    let Some(urls) = urls(sources) else { return Ok(None) };
    end_anyway();
    let congestion = args.spec.control.congestion.for_servers()?;
    // Nothing is waited for where it is only said what would be done.
    let retry_for = if args.dry_run { Duration::ZERO } else { args.patience.retry_for };
    let usual = args.servers.settings(args.ca.clone())?;
    let timeout = args.patience.silence(usual.timeout);
    let ssh = args.ssh.command.carrier()?;
    let settings = ServerSettings { ssh, congestion, retry_for, timeout, ..usual };
    let origin = Arc::new(ServerOrigin::new(&urls, settings)?);
    Ends::of_origin(origin, &urls[0], destination, terms, &args.trust).map(Some)
}

/// The sources as URLs, if all are of servers.
fn urls(sources: &[OsString]) -> Option<Vec<String>> {
    let url = |source: &OsString| source.to_str().filter(|_| end(source).is_server()).map(str::to_owned);
    sources.iter().map(url).collect::<Option<Vec<_>>>().filter(|urls| !urls.is_empty())
}
