//! Exit codes of errors of any kind; the codes themselves are the contract's.

use std::process::ExitCode;

#[cfg(feature = "get")]
pub use tidegate_contract::exit::GET_HELP;
pub use tidegate_contract::exit::{Exit, HELP};
pub use tidegate_transfer::error::usage;
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

/// The number of an exit code, which the standard library keeps to itself.
pub fn number(code: ExitCode) -> u8 {
    (0..=u8::MAX).find(|&number| ExitCode::from(number) == code).unwrap_or(SOME_FAILED)
}

/// `error` with what it came from, in one line, without numbers of the system. An [`Error`] says what it came from itself.
pub fn in_one_line(error: &anyhow::Error) -> String {
    let mut ours = false;
    let chain = error.chain().take_while(|link| !std::mem::replace(&mut ours, link.is::<Error>()));
    let line = chain.map(ToString::to_string).collect::<Vec<_>>().join(": ");
    let mut parts = line.split(" (os error ");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |line, part| line + part.split_once(')').map_or(part, |(_, rest)| rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_error_came_from_is_said_once() {
        let error = Error::io("read", b"file", std::io::Error::from_raw_os_error(2));
        let line = in_one_line(&anyhow::Error::from(error).context("here"));
        assert_eq!(line, "here: cannot read file: No such file or directory");
        let line = in_one_line(&anyhow::Error::from(std::io::Error::from_raw_os_error(2)).context("here"));
        assert_eq!(line, "here: No such file or directory");
    }
}
