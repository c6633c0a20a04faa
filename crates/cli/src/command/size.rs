//! How much lies at URLs, as servers say without sending it: the service asks so before it estimates, by `tidegate run -`.

use std::process::ExitCode;
use std::time::Duration;

use serde::Serialize;
use tidegate_fetch::remote::servers::{ServerSettings, Servers};
use tidegate_fetch::remote::{Ask, Remotes};
use tidegate_spec::measure::SizeRun;
use url::Url;

use crate::exit::usage;
use crate::terminal;

/// How long a server may be silent.
const TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Serialize)]
struct Report {
    /// All together; none if a server does not say.
    bytes: Option<u64>,
}

/// Runs it.
pub fn run(asked: &SizeRun) -> anyhow::Result<ExitCode> {
    let ca = asked.setup.ca.clone();
    let settings = ServerSettings { ca, timeout: TIMEOUT, ..ServerSettings::from_env() };
    let mut remote = Servers::new(&settings).remote();
    let mut bytes = Some(0_u64);
    for text in &asked.urls {
        let url: Url = text.parse().map_err(|error| usage(format!("that is no URL: {error}")))?;
        let ask = Ask { url: &url, headers: &[], range: 0..u64::MAX, version: None };
        let version = remote.look(&ask).map_err(|refusal| refusal.error)?;
        bytes = bytes.zip(version.bytes).map(|(sum, bytes)| sum.saturating_add(bytes));
    }
    terminal::print_json(&Report { bytes })?;
    Ok(ExitCode::SUCCESS)
}
