//! Kinds of errors: what a program may act on.

use serde::{Deserialize, Serialize};

/// What kind of thing went wrong; decides exit codes and whether trying again may help.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The source, a file or an endpoint's path does not exist.
    NotFound,
    /// The operating system or the peer refused.
    Denied,
    /// The destination has no room left.
    NoSpace,
    /// A source file changed while it was read.
    Changed,
    /// Bytes did not match their hash, again and again.
    Corrupt,
    /// A name that must not be created here.
    UnsafeName,
    /// Somebody else is using the destination.
    Busy,
    /// The peer's certificate or our secret was not accepted.
    Authentication,
    /// The peer broke the protocol or speaks another version.
    Protocol,
    /// The connection was lost or could not be made; trying again may help.
    Connection,
    /// Stopped on request; resumable.
    Interrupted,
    /// The request makes no sense.
    Usage,
    /// Any other failure of the operating system.
    Io,
}

/// Whether trying again may help, and who does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Retry {
    /// Nobody: the same request meets the same again.
    Never,
    /// Who schedules runs, so often: a run ends with it at once.
    Later,
    /// The run itself, for a time: an end does not answer.
    Outage,
}

impl ErrorKind {
    /// Whether trying again may help.
    pub const fn retry(self) -> Retry {
        match self {
            Self::NotFound | Self::Denied | Self::Authentication | Self::UnsafeName | Self::Usage => {
                Retry::Never
            }
            Self::NoSpace | Self::Changed | Self::Corrupt | Self::Busy | Self::Protocol => Retry::Later,
            Self::Interrupted | Self::Io => Retry::Later,
            Self::Connection => Retry::Outage,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words of programs, and those that each of them is tried again by.
    const WORDS: [(&str, Retry); 13] = [
        ("not_found", Retry::Never),
        ("denied", Retry::Never),
        ("no_space", Retry::Later),
        ("changed", Retry::Later),
        ("corrupt", Retry::Later),
        ("unsafe_name", Retry::Never),
        ("busy", Retry::Later),
        ("authentication", Retry::Never),
        ("protocol", Retry::Later),
        ("connection", Retry::Outage),
        ("interrupted", Retry::Later),
        ("usage", Retry::Never),
        ("io", Retry::Later),
    ];

    #[test]
    fn every_kind_says_whether_trying_again_may_help() {
        for (word, retry) in WORDS {
            let kind: ErrorKind = serde_json::from_value(word.into()).expect("a kind");
            assert_eq!(kind.retry(), retry, "{word}");
        }
        let all = serde_json::from_str::<ErrorKind>("\"none\"").expect_err("no kind").to_string();
        assert_eq!(all.matches('`').count(), 2 * (1 + WORDS.len()), "{all}");
    }

    #[test]
    fn documents_and_packages_know_every_kind_and_what_passes() {
        let python = include_str!("../../python/python/tidegate/errors.py");
        for (document, quote) in [(include_str!("../../../docs/copy.md"), "`"), (python, "\"")] {
            let list = WORDS.map(|(word, _)| format!("{quote}{word}{quote}")).join(",");
            assert!(document.split_whitespace().collect::<String>().contains(&list), "{list}");
        }
        let airflow = include_str!("../../../plugins/airflow/src/tidegate_airflow/operator.py");
        let lasting = airflow.lines().find_map(|line| line.strip_prefix("LASTING = ")).expect("a set");
        let passing = python.lines().find_map(|line| line.strip_prefix("_PASSING = ")).expect("a list");
        for (word, retry) in WORDS {
            let never = if passing.contains(&format!("\"{word}\"")) { Retry::Never } else { Retry::Outage };
            assert_ne!(retry, never, "{word}");
            assert_eq!(retry == Retry::Never, lasting.contains(&format!("\"{word}\"")), "{word}");
        }
    }
}
