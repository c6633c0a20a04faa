//! `tidegate run`: what another program has written down, as it is, with nothing of it on a command line.

use std::io::Read;

use clap::Args;
use tidegate_spec::run::Run;

use crate::exit::usage;

/// Most bytes that are read.
const MAX_BYTES: u64 = 64 << 20;

/// Run what standard input says, for programs: one JSON object (docs/run.md)
#[derive(Debug, Args)]
pub struct RunArgs {
    /// '-', which is standard input
    #[arg(value_name = "-", value_parser = ["-"])]
    input: String,
}

/// What standard input says is to be run.
pub fn read(_: &RunArgs) -> anyhow::Result<Run> {
    let mut text = Vec::new();
    std::io::stdin().lock().take(MAX_BYTES + 1).read_to_end(&mut text)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(usage("standard input is longer than 64 MiB").into());
    }
    serde_json::from_slice(&text).map_err(|error| usage(format!("standard input: {error}")).into())
}
