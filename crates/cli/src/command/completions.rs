//! `tidegate completions`: what a shell completes, made from the argument definitions.

use std::process::ExitCode;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::terminal;

/// Print what a shell needs to complete commands and options.
///
/// For bash: `tidegate completions bash > ~/.local/share/bash-completion/completions/tidegate`. For fish:
/// `~/.config/fish/completions/tidegate.fish`. For zsh: `_tidegate` in a directory of $fpath.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// Which shell
    shell: Shell,
}

/// Runs the command for the program described by `C`.
pub fn run<C: CommandFactory>(args: &CompletionsArgs) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut C::command(), "tidegate", &mut script);
    terminal::print(String::from_utf8_lossy(&script).trim_end())?;
    Ok(ExitCode::SUCCESS)
}
