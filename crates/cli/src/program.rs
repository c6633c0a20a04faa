//! The program, which is what it is called: `tidegate`, or HTCondor's plug-in.

use std::ffi::OsString;
use std::process::ExitCode;
#[cfg(feature = "service")]
use std::{ffi::OsStr, path::Path};

use tidegate_contract::own_program;

#[cfg(feature = "service")]
use crate::condor;
use crate::{command_line, exit};

/// Runs the program on a command line, which begins with the name it is called by, in a process that is the program itself.
pub fn main(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    if let Ok(here) = std::env::current_exe() {
        own_program::is_at(here);
    }
    run(words)
}

/// The same in a process that goes on afterwards, which gets the exit code's number.
pub fn main_in_process(words: impl IntoIterator<Item = OsString>) -> u8 {
    exit::number(run(words))
}

fn run(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    let words: Vec<OsString> = words.into_iter().collect();
    #[cfg(feature = "service")]
    if words.first().and_then(|word| Path::new(word).file_name()) == Some(OsStr::new(condor::NAME)) {
        return condor::main(&words[1..]);
    }
    command_line::main(&words)
}
