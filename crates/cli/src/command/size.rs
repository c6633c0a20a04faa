//! `tidegate size`: how much lies at URLs, as servers say without sending it. The service asks so before it estimates.

use std::io::Read;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use tidegate_fetch::remote::servers::{ServerSettings, Servers};
use tidegate_fetch::remote::{Ask, Remotes};
use url::Url;

use crate::exit::usage;
use crate::terminal;

/// Most bytes of the list.
const MAX_LIST: u64 = 1 << 20;
/// How long a server may be silent.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Tell how much lies at the URLs that standard input lists
#[derive(Debug, Args)]
pub struct SizeArgs {
    /// Certificates (PEM) to trust besides the system's
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
}

#[derive(Serialize)]
struct Report {
    /// All together; none if a server does not say.
    bytes: Option<u64>,
}

/// Runs the command.
pub fn run(args: &SizeArgs) -> anyhow::Result<ExitCode> {
    let mut list = String::new();
    std::io::stdin().lock().take(MAX_LIST).read_to_string(&mut list)?;
    let settings = ServerSettings { ca: args.ca.clone(), timeout: TIMEOUT, ..ServerSettings::from_env() };
    let mut remote = Servers::new(&settings).remote();
    let mut bytes = Some(0_u64);
    for line in list.lines() {
        let url: Url = line.parse().map_err(|error| usage(format!("that is no URL: {error}")))?;
        let ask = Ask { url: &url, headers: &[], range: 0..u64::MAX, version: None };
        let version = remote.look(&ask).map_err(|refusal| refusal.error)?;
        bytes = bytes.zip(version.bytes).map(|(sum, bytes)| sum.saturating_add(bytes));
    }
    terminal::print_json(&Report { bytes })?;
    Ok(ExitCode::SUCCESS)
}
