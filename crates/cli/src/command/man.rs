//! `tidegate man`: the man pages, made from the argument definitions.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory};

use crate::exit::usage;
use crate::terminal;

/// Print a man page, or write all of them.
///
/// `tidegate man copy | man -l -` shows one. `tidegate man --all ~/.local/share/man/man1` has `man tidegate-copy` find them.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Of which command, as in `remote add` [default: of the program]
    #[arg(conflicts_with = "all")]
    command: Vec<String>,
    /// Write one page a command into this directory
    #[arg(long, value_name = "DIR")]
    all: Option<PathBuf>,
}

/// Runs the command for the program described by `C`.
pub fn run<C: CommandFactory>(args: &ManArgs) -> anyhow::Result<ExitCode> {
    if let Some(directory) = &args.all {
        let failed = |error| usage(format!("cannot write the pages into {}: {error}", directory.display()));
        std::fs::create_dir_all(directory)
            .and_then(|()| clap_mangen::generate_to(C::command(), directory))
            .map_err(failed)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut program = C::command();
    program.build();
    let mut command = &program;
    for name in &args.command {
        command = command.find_subcommand(name).ok_or_else(|| {
            usage(format!("there is no command '{}': `tidegate --help` lists them", args.command.join(" ")))
        })?;
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    terminal::print(String::from_utf8_lossy(&page).trim_end())?;
    Ok(ExitCode::SUCCESS)
}
