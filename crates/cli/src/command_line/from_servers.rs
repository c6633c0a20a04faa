//! Commands that speak to servers of others.

use std::process::ExitCode;

use clap::Subcommand;
use tidegate_spec::measure::{RangesRun, SizeRun};
use tidegate_transfer::error::Error;

use crate::asked::Call;
use crate::caller::Caller;
use crate::command;
use crate::command::get::GetArgs;
use crate::command::put::PutArgs;
use crate::servers::Instead;

#[derive(Debug, Subcommand)]
pub enum ServerCommand {
    Get(Box<GetArgs>),
    Put(Box<PutArgs>),
    #[command(skip)]
    Size(Box<SizeRun>),
    #[command(skip)]
    Ranges(Box<RangesRun>),
}

impl From<Instead> for ServerCommand {
    fn from(instead: Instead) -> Self {
        match instead {
            Instead::Get(args) => Self::Get(args),
            Instead::Put(args) => Self::Put(args),
        }
    }
}

impl ServerCommand {
    /// A download that a program asks for.
    pub fn get(Call { options, from, to }: Call) -> Result<Self, Error> {
        GetArgs::asked(&options, from, to.into()).map(|args| Self::Get(Box::new(args)))
    }

    /// An upload that a program asks for.
    pub fn put(Call { options, from, to }: Call) -> Result<Self, Error> {
        PutArgs::asked(&options, from, to).map(|args| Self::Put(Box::new(args)))
    }

    /// Whether a script reads standard output, and what optimizer it asked for.
    pub fn asks_for_json(&self) -> Option<&str> {
        let (json, optimizer) = match self {
            // A dry run prints a list, and a check what it found.
            Self::Get(args) => (args.output.json && !args.dry_run && !args.self_check, args.optimizer()),
            Self::Put(args) => (args.output.json, args.optimizer()),
            Self::Size(_) | Self::Ranges(_) => return None,
        };
        json.then_some(optimizer)
    }

    /// Whether nothing is to be said unless something is wrong.
    pub fn is_quiet(&self) -> bool {
        matches!(self, Self::Put(args) if args.output.quiet)
    }

    /// Whether everything that it says goes through its caller.
    pub fn is_for_programs(&self) -> bool {
        match self {
            Self::Get(args) => !args.prints(),
            Self::Put(_) => true,
            Self::Size(_) | Self::Ranges(_) => false,
        }
    }

    pub fn run(&self, caller: &Caller) -> anyhow::Result<ExitCode> {
        match self {
            Self::Get(args) => command::get::run(args, caller),
            Self::Put(args) => command::put::run(args, caller),
            Self::Size(args) => command::size::run(args),
            Self::Ranges(args) => command::ranges::run(args),
        }
    }
}
