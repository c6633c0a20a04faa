//! `tidegate mover`: takes shards of a run from a service and moves them, until there are none.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use tidegate_fleet::engine::ending::{CONFIGURATION, TRY_AGAIN};
use tidegate_fleet::mover::{Asked, Mover};
use tidegate_fleet::token;
use tidegate_run::settings::StateArgs;
use tidegate_transfer::error::{Result, Retry};

use crate::signals::interrupt_on_signals;
use crate::terminal;

/// Take shards of a run of a service, and move them until none is left.
///
/// Started by `tidegate spread`, by an engine, or by hand; any number may run, and each may end at any time. Exit codes: 0
/// nothing is left, 75 there is more to do (start it again), 78 it can never run so.
#[derive(Debug, Args)]
pub struct MoverArgs {
    /// The service's address
    #[arg(long, value_name = "URL")]
    service: String,
    /// The file that holds the run's token, which only its owner may read; - reads a line of standard input
    #[arg(long, value_name = "FILE", env = "TIDEGATE_MOVER_TOKEN_FILE")]
    token_file: PathBuf,
    /// What it calls itself: no two at a time may share a name [default: the host and the process]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The certificate authority of the service's certificate, PEM [default: the system's]
    #[arg(long, value_name = "FILE", env = "TIDEGATE_SERVER_CA")]
    server_ca: Option<PathBuf>,
    #[command(flatten)]
    state: StateArgs,
}

/// Runs the command.
pub fn run(args: &MoverArgs) -> anyhow::Result<ExitCode> {
    let code = match args.mover().and_then(|mover| mover.run()) {
        Ok(code) => code,
        Err(error) => {
            terminal::complain(&error.message);
            if error.kind.retry() == Retry::Never { CONFIGURATION } else { TRY_AGAIN }
        }
    };
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)))
}

impl MoverArgs {
    fn mover(&self) -> Result<Mover> {
        let token = token::read(&self.token_file)?;
        let at = Asked { service: &self.service, token, server_ca: self.server_ca.as_deref() };
        Mover::new(at, self.name.clone(), &self.state.state_dir()?, interrupt_on_signals())
    }
}
