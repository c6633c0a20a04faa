//! The program, which is what it is called: `tidegate`, or HTCondor's plug-in.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

use crate::{command_line, condor, exit};

/// Runs the program on a command line, which begins with the name it is called by.
pub fn main(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    let words: Vec<OsString> = words.into_iter().collect();
    let name = words.first().and_then(|word| Path::new(word).file_name());
    match name == Some(OsStr::new(condor::NAME)) {
        true => condor::main(&words[1..]),
        false => command_line::main(&words),
    }
}

/// The same in a process that goes on afterwards, which gets the exit code's number.
pub fn main_in_process(words: impl IntoIterator<Item = OsString>) -> u8 {
    exit::number(main(words))
}
