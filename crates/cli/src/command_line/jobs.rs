//! Commands of the service: estimates, jobs, history, and copies that many hosts share.

use std::process::ExitCode;

use clap::Subcommand;
use tidegate_transfer::error::Error;

use crate::asked::Call;
use crate::caller::Caller;
use crate::command;
use crate::command::estimate::EstimateArgs;

#[derive(Debug, Subcommand)]
pub enum JobCommand {
    Estimate(Box<EstimateArgs>),
    Serve(command::serve::ServeArgs),
    Submit(Box<command::submit::SubmitArgs>),
    Jobs(command::jobs::JobsArgs),
    Job(command::job::JobArgs),
    Cancel(command::cancel::CancelArgs),
    #[cfg(feature = "fleet")]
    Spread(Box<command::spread::SpreadArgs>),
    #[cfg(feature = "fleet")]
    Mover(command::mover::MoverArgs),
    #[cfg(feature = "fleet")]
    Movers(Box<command::movers::MoversArgs>),
    History(Box<command::history::HistoryArgs>),
}

impl JobCommand {
    /// An estimate that a program asks for.
    pub fn estimate(Call { options, from, to }: Call) -> Result<Self, Error> {
        EstimateArgs::asked(&options, from, to).map(|args| Self::Estimate(Box::new(args)))
    }

    /// Whether nothing is to be said unless something is wrong.
    pub fn is_quiet(&self) -> bool {
        match self {
            #[cfg(feature = "fleet")]
            Self::Spread(args) => args.output.quiet,
            _ => false,
        }
    }

    /// Whether everything that it says goes through its caller.
    pub fn is_for_programs(&self) -> bool {
        matches!(self, Self::Estimate(_))
    }

    pub fn run(&self, caller: &Caller) -> anyhow::Result<ExitCode> {
        match self {
            Self::Estimate(args) => command::estimate::run(args, caller),
            Self::Serve(args) => command::serve::run(args),
            Self::Submit(args) => command::submit::run(args),
            Self::Jobs(args) => command::jobs::run(args),
            Self::Job(args) => command::job::run(args),
            Self::Cancel(args) => command::cancel::run(args),
            #[cfg(feature = "fleet")]
            Self::Spread(args) => command::spread::run(args),
            #[cfg(feature = "fleet")]
            Self::Mover(args) => command::mover::run(args),
            #[cfg(feature = "fleet")]
            Self::Movers(args) => command::movers::run(args),
            Self::History(args) => command::history::run(args),
        }
    }
}
