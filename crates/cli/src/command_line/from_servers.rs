//! Commands that speak to servers of others.

use std::process::ExitCode;

use clap::Subcommand;
#[cfg(feature = "get")]
use tidegate_spec::measure::{RangesRun, SizeRun};
use tidegate_transfer::error::Error;

use crate::asked::Call;
use crate::caller::Caller;
use crate::command;
#[cfg(feature = "get")]
use crate::command::get::GetArgs;
#[cfg(feature = "put")]
use crate::command::put::PutArgs;
use crate::servers::Instead;

#[derive(Debug, Subcommand)]
pub enum ServerCommand {
    #[cfg(feature = "get")]
    Get(Box<GetArgs>),
    #[cfg(feature = "put")]
    Put(Box<PutArgs>),
    #[cfg(feature = "get")]
    #[command(skip)]
    Size(Box<SizeRun>),
    #[cfg(feature = "get")]
    #[command(skip)]
    Ranges(Box<RangesRun>),
}

impl From<Instead> for ServerCommand {
    fn from(instead: Instead) -> Self {
        match instead {
            #[cfg(feature = "get")]
            Instead::Get(args) => Self::Get(args),
            #[cfg(feature = "put")]
            Instead::Put(args) => Self::Put(args),
        }
    }
}

impl ServerCommand {
    /// A download that a program asks for.
    #[cfg(feature = "get")]
    pub fn get(Call { options, from, to }: Call) -> Result<Self, Error> {
        GetArgs::asked(&options, from, to.into()).map(|args| Self::Get(Box::new(args)))
    }

    /// An upload that a program asks for.
    #[cfg(feature = "put")]
    pub fn put(Call { options, from, to }: Call) -> Result<Self, Error> {
        PutArgs::asked(&options, from, to).map(|args| Self::Put(Box::new(args)))
    }

    /// Whether a script reads standard output, and what optimizer it asked for.
    pub fn asks_for_json(&self) -> Option<&str> {
        let (json, optimizer) = match self {
            // A dry run prints a list, and a check what it found.
            #[cfg(feature = "get")]
            Self::Get(args) => (args.output.json && !args.dry_run && !args.self_check, args.optimizer()),
            #[cfg(feature = "put")]
            Self::Put(args) => (args.output.json, args.optimizer()),
            #[cfg(feature = "get")]
            Self::Size(_) | Self::Ranges(_) => return None,
        };
        json.then_some(optimizer)
    }

    /// Whether a script reads what would be sent.
    #[cfg(feature = "put")]
    pub const fn is_listed_in_json(&self) -> bool {
        matches!(self, Self::Put(args) if args.is_listed_in_json())
    }

    /// Whether nothing is to be said unless something is wrong.
    pub fn is_quiet(&self) -> bool {
        match self {
            #[cfg(feature = "put")]
            Self::Put(args) => args.output.quiet,
            #[cfg(feature = "get")]
            _ => false,
        }
    }

    /// Whether everything that it says goes through its caller.
    pub fn is_for_programs(&self) -> bool {
        match self {
            #[cfg(feature = "get")]
            Self::Get(args) => !args.prints(),
            #[cfg(feature = "put")]
            Self::Put(_) => true,
            #[cfg(feature = "get")]
            Self::Size(_) | Self::Ranges(_) => false,
        }
    }

    pub fn run(&self, caller: &Caller) -> anyhow::Result<ExitCode> {
        match self {
            #[cfg(feature = "get")]
            Self::Get(args) => command::get::run(args, caller),
            #[cfg(feature = "put")]
            Self::Put(args) => command::put::run(args, caller),
            #[cfg(feature = "get")]
            Self::Size(args) => command::size::run(args),
            #[cfg(feature = "get")]
            Self::Ranges(args) => command::ranges::run(args),
        }
    }
}
