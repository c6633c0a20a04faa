//! Exit codes, a contract for scripts and for the service.

use std::process::ExitCode;

use crate::error_kind::ErrorKind;

/// How a program of ours ended.
///
/// ```
/// use tidegate_contract::error_kind::ErrorKind;
/// use tidegate_contract::exit::Exit;
///
/// assert_eq!(Exit::of(ErrorKind::NoSpace).code(), 4);
/// assert_eq!(Exit::from_code(130), Some(Exit::Interrupted));
/// assert_eq!(Exit::from_code(101), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Exit {
    /// Everything is at its destination and verified.
    Complete = 0,
    /// Some files failed; each is listed with the reason.
    SomeFailed = 1,
    /// The command makes no sense.
    Usage = 2,
    /// The source does not exist.
    NotFound = 3,
    /// The destination has no room.
    NoSpace = 4,
    /// Permission, the ticket or credentials do not suffice; trying again will not help.
    Refused = 5,
    /// Interrupted; running the same command again continues.
    Interrupted = 130,
}

/// Shown below `--help`.
pub const HELP: &str = "Exit codes: 0 everything verified, 1 some files failed, 2 usage, 3 source not found, \
4 no space left, 5 permission, ticket or credentials refused, 130 interrupted and resumable";

/// Shown below `get --help`.
pub const GET_HELP: &str = "Exit codes: 0 everything there, 1 some files failed, 2 usage, or nothing but malformed names, \
3 nothing found, 4 no space left, 5 permission, ticket or credentials refused, 130 interrupted and resumable; \
141 the reader of --pipe has left";

impl Exit {
    /// Each of them, in the order of codes.
    pub const ALL: [Self; 7] = [
        Self::Complete,
        Self::SomeFailed,
        Self::Usage,
        Self::NotFound,
        Self::NoSpace,
        Self::Refused,
        Self::Interrupted,
    ];

    /// Its number.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// What a program of ours means by a number; `None` for any other, such as that of a panic.
    pub fn from_code(code: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|exit| i32::from(exit.code()) == code)
    }

    /// The end by an error of that kind.
    pub const fn of(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::Usage => Self::Usage,
            ErrorKind::NotFound => Self::NotFound,
            ErrorKind::NoSpace => Self::NoSpace,
            ErrorKind::Authentication | ErrorKind::Denied | ErrorKind::UnsafeName => Self::Refused,
            ErrorKind::Interrupted => Self::Interrupted,
            _ => Self::SomeFailed,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        exit.code().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_read_back_and_explained() {
        for exit in Exit::ALL {
            assert_eq!(Exit::from_code(exit.code().into()), Some(exit));
            for help in [HELP, GET_HELP] {
                let is_told = help
                    .split([':', ','])
                    .any(|part| part.trim().split(' ').next() == Some(&exit.code().to_string()));
                assert!(is_told, "{exit:?}: {help}");
            }
        }
        assert_eq!([6, 101, -9, 386].map(Exit::from_code), [None; 4]);
    }
}
