//! Exit codes, a contract for scripts.

use std::process::ExitCode;

use tidegate_transfer::error::{Error, ErrorKind};

/// Some files failed; each is listed with the reason.
pub const SOME_FAILED: u8 = 1;
/// The command makes no sense.
pub const USAGE: u8 = 2;
/// The source does not exist.
pub const NOT_FOUND: u8 = 3;
/// The destination has no room.
pub const NO_SPACE: u8 = 4;
/// Permission, the ticket or credentials do not suffice; trying again will not help.
pub const REFUSED: u8 = 5;
/// Interrupted; running the same command again continues.
pub const INTERRUPTED: u8 = 130;

/// Shown below `--help`.
pub const HELP: &str = "Exit codes: 0 everything verified, 1 some files failed, 2 usage, 3 source not found, \
4 no space left, 5 permission, ticket or credentials refused, 130 interrupted and resumable";

/// Shown below `get --help`.
pub const GET_HELP: &str = "Exit codes: 0 everything there, 1 some files failed, 2 usage, or nothing but malformed names, \
3 nothing found, 4 no space left, 5 permission, ticket or credentials refused, 130 interrupted and resumable";

/// The code for an error that ended everything.
pub fn of_kind(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::Usage => USAGE,
        ErrorKind::NotFound => NOT_FOUND,
        ErrorKind::NoSpace => NO_SPACE,
        ErrorKind::Authentication | ErrorKind::Denied | ErrorKind::UnsafeName => REFUSED,
        ErrorKind::Interrupted => INTERRUPTED,
        _ => SOME_FAILED,
    }
}

/// The code for any error.
pub fn code_of(error: &anyhow::Error) -> ExitCode {
    ExitCode::from(error.downcast_ref::<Error>().map_or(SOME_FAILED, |error| of_kind(error.kind)))
}

/// `error` with what it came from, in one line. An [`Error`] says that itself already.
pub fn in_one_line(error: &anyhow::Error) -> String {
    let mut ours = false;
    let chain = error.chain().take_while(|link| !std::mem::replace(&mut ours, link.is::<Error>()));
    chain.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// An error about how the command was used.
pub fn usage(why: impl Into<String>) -> Error {
    Error::new(ErrorKind::Usage, why)
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
        assert_eq!(line, "here: No such file or directory (os error 2)");
    }
}
