//! Exit codes of errors of any kind; the codes themselves are the contract's.

use std::process::ExitCode;

pub use tidegate_contract::exit::{Exit, GET_HELP, HELP};
use tidegate_transfer::error::{Error, ErrorKind};

/// Some files failed.
pub const SOME_FAILED: u8 = Exit::SomeFailed.code();
/// The command makes no sense.
pub const USAGE: u8 = Exit::Usage.code();
/// The source does not exist.
pub const NOT_FOUND: u8 = Exit::NotFound.code();
/// The destination has no room.
pub const NO_SPACE: u8 = Exit::NoSpace.code();
/// Permission, the ticket or credentials do not suffice.
pub const REFUSED: u8 = Exit::Refused.code();
/// Interrupted.
pub const INTERRUPTED: u8 = Exit::Interrupted.code();

/// The code for an error that ended everything.
pub fn of_kind(kind: ErrorKind) -> u8 {
    Exit::of(kind).code()
}

/// The code for any error.
pub fn code_of(error: &anyhow::Error) -> ExitCode {
    error.downcast_ref::<Error>().map_or(Exit::SomeFailed, |error| Exit::of(error.kind)).into()
}

/// An error about how the command was used.
pub fn usage(why: impl Into<String>) -> Error {
    Error::new(ErrorKind::Usage, why)
}
