//! `tidegate run`: what another program has written down, as it is, with nothing of it on a command line.

use std::io::Read;

use clap::Args;
use serde_json::{Map, Value};
use tidegate_spec::run::Run;
use tidegate_transfer::error::Result;

use crate::exit::usage;
use crate::features;

/// Most bytes that are read.
const MAX_BYTES: u64 = 64 << 20;

/// Run what standard input says, for programs: one JSON object (docs/run.md)
#[derive(Debug, Args)]
pub struct RunArgs {
    /// '-', which is standard input
    #[arg(value_name = "-", value_parser = ["-"])]
    input: String,
}

/// What is wrong with `text`: a kind of run may have been left out of this program.
fn wrong(text: &[u8], error: &serde_json::Error) -> String {
    let kinds = serde_json::from_slice::<Map<String, Value>>(text).unwrap_or_default();
    kinds.keys().find_map(|kind| features::left_out(kind)).unwrap_or_else(|| error.to_string())
}

/// What standard input says is to be run.
pub fn read(_: &RunArgs) -> Result<Run> {
    let mut text = Vec::new();
    let read = std::io::stdin().lock().take(MAX_BYTES + 1).read_to_end(&mut text);
    read.map_err(|error| usage(format!("standard input: {error}")))?;
    if text.len() as u64 > MAX_BYTES {
        return Err(usage("standard input is longer than 64 MiB"));
    }
    serde_json::from_slice(&text).map_err(|error| usage(format!("standard input: {}", wrong(&text, &error))))
}
