//! `tidegate generate`: shell completions and the man pages, made from the argument definitions.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory, Subcommand};
use clap_complete::Shell;

/// Write shell completions or man pages (for packagers).
#[derive(Debug, Args)]
pub struct GenerateArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Completions for a shell, on standard output
    Completions {
        /// Which shell
        shell: Shell,
    },
    /// One man page a command, into a directory
    Man {
        /// Where to
        directory: PathBuf,
    },
}

/// Runs the command for the program described by `C`.
pub fn run<C: CommandFactory>(args: &GenerateArgs) -> anyhow::Result<ExitCode> {
    match &args.what {
        What::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut C::command(), "tidegate", &mut script);
            crate::terminal::print(String::from_utf8_lossy(&script).trim_end())?;
        }
        What::Man { directory } => {
            std::fs::create_dir_all(directory)?;
            clap_mangen::generate_to(C::command(), directory)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
