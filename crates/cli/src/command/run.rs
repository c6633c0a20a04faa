//! `tidegate run`: what another program has written down, as it is, with nothing of it on a command line.

use std::collections::BTreeMap;
use std::io::Read;

use clap::Args;
use serde::de::IgnoredAny;
use serde_json::error::Category;
use tidegate_contract::object::Object;
use tidegate_contract::redact::public_text;
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

/// What standard input says is to be run.
pub fn read(_: &RunArgs) -> Result<Run> {
    let mut text = Vec::new();
    let read = std::io::stdin().lock().take(MAX_BYTES + 1).read_to_end(&mut text);
    read.map_err(|error| usage(format!("standard input: {error}")))?;
    if text.len() as u64 > MAX_BYTES {
        return Err(usage("standard input is longer than 64 MiB"));
    }
    run_of(&text).map_err(|why| usage(format!("standard input: {why}")))
}

/// The run that `text` says, or what is wrong with it.
fn run_of(text: &[u8]) -> std::result::Result<Run, String> {
    const WANTED: &str = "one object with one key is expected, as {\"copy\": {…}}";
    let object: BTreeMap<String, Object<IgnoredAny>> =
        serde_json::from_slice(text).map_err(|error| match error.classify() {
            Category::Data => WANTED.to_owned(),
            _ => format!("{WANTED}: {error}"),
        })?;
    if object.len() != 1 {
        let keys: Vec<&str> = object.keys().map(String::as_str).collect();
        return Err(match keys.is_empty() {
            true => WANTED.to_owned(),
            false => format!("{WANTED}, and not {}", public_text(&keys.join(", "))),
        });
    }
    serde_json::from_slice(text).map_err(|error| {
        // A kind of run may have been left out of this program.
        object.keys().find_map(|kind| features::left_out(kind)).unwrap_or_else(|| error.to_string())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_run_is_told_by_what_is_wrong_with_it() {
        let copy = r#""copy": {"sources": ["a"], "destination": "b"}"#;
        assert!(run_of(format!("{{{copy}}}").as_bytes()).is_ok());
        for (text, wanted) in [
            (format!("{{{copy}, \"probe\": {{}}}}"), "is expected, as {\"copy\": {…}}, and not copy, probe"),
            ("{}".to_owned(), "is expected, as {\"copy\": {…}}"),
            (format!("[{{{copy}}}]"), "is expected, as {\"copy\": {…}}"),
            ("7".to_owned(), "is expected, as {\"copy\": {…}}"),
            (String::new(), "EOF while parsing"),
            (format!("{{{copy}}} {{{copy}}}"), "trailing characters"),
            (format!("{{{copy}"), "EOF while parsing"),
            (r#"{"copy": [["a"], "b"]}"#.to_owned(), "is expected, as {\"copy\": {…}}"),
            ("{\"cpoy\": {}}".to_owned(), "unknown variant `cpoy`"),
            ("{\"copy\": {\"sources\": []}}".to_owned(), "missing field `destination`"),
        ] {
            let why = run_of(text.as_bytes()).err().expect(&text);
            assert!(why.contains(wanted) && !why.contains("expected value"), "{text}: {why}");
        }
    }
}
