//! Real servers on loopback.
#![allow(dead_code, missing_docs)]

pub mod postgres;

use std::fs;
use std::io::Write as _;

/// Says that a test could not run; `scripts/test` reads it.
pub fn skip(test: &str, reason: &str) {
    eprintln!("skipped: {reason}");
    if let Some(log) = std::env::var_os("TIDEGATE_SKIP_LOG") {
        let mut log = fs::OpenOptions::new().append(true).create(true).open(log).expect("opened");
        writeln!(log, "{test}: {reason}").expect("written");
    }
}
