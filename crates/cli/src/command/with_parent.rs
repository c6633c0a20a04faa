//! `tidegate with-parent`: a program that ends when the one that began it does.
//!
//! The service begins its jobs by this: a service that was killed leaves nothing behind that still writes to where
//! its successor begins again.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use clap::Args;
use rustix::process::{Signal, getppid, set_parent_process_death_signal};

use crate::exit::usage;

/// Run a program that is killed when its parent ends
#[derive(Debug, Args)]
pub struct WithParentArgs {
    /// The process that is the parent
    parent: u32,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    program: Vec<OsString>,
}

/// Becomes the program.
pub fn run(args: &WithParentArgs) -> anyhow::Result<ExitCode> {
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(io::Error::from)?;
    // It may have ended before we asked, and then nobody tells us.
    if getppid().is_none_or(|parent| parent.as_raw_nonzero().get().unsigned_abs() != args.parent) {
        return Err(usage("the process that began this is gone").into());
    }
    let Some((program, arguments)) = args.program.split_first() else {
        return Err(usage("a program is needed").into());
    };
    let error = Command::new(program).args(arguments).exec();
    let shown = program.to_string_lossy();
    Err(match error.kind() {
        io::ErrorKind::NotFound if shown == "globus-url-copy" => {
            usage("globus-url-copy is not installed here: install globus-gass-copy-progs")
        }
        io::ErrorKind::NotFound => usage(format!("{shown} is not installed here")),
        _ => usage(format!("{shown} cannot be run: {error}")),
    }
    .into())
}
