//! Why something did not work, and what is tried next.

use std::io;
use std::time::Duration;

use tidegate_transfer::error::{Error, ErrorKind};
use url::Url;

use super::reply::Status;
use crate::foreign::io_words;
use crate::remote::{Refusal, Why, shown};

/// Why something did not work.
#[derive(Debug)]
pub(crate) enum SftpTrouble {
    /// The server says so.
    Status(Status),
    /// The session ended, or could not be begun.
    Lost(Error),
    /// Nothing came for that long.
    Silent(Duration),
    /// What came makes no sense.
    Senseless(&'static str),
    /// It cannot be had for another reason, which names it.
    Refused(Refusal),
}

impl SftpTrouble {
    /// That of reading or writing the stream of a session.
    pub fn of_stream(error: &io::Error, timeout: Duration) -> Self {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Self::Silent(timeout),
            io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => {
                Self::Lost(Error::new(ErrorKind::Connection, "the session of ssh ended"))
            }
            _ => Self::Lost(Error::new(ErrorKind::Connection, io_words(error))),
        }
    }

    /// Whether its session can be used no more.
    pub const fn loses_session(&self) -> bool {
        matches!(self, Self::Lost(_) | Self::Silent(_) | Self::Senseless(_))
    }

    /// Whether the server says `code`.
    pub fn is(&self, code: u32) -> bool {
        matches!(self, Self::Status(status) if status.code == code)
    }

    /// What is told of it where `action` was to be done with what lies at `url`.
    pub fn refusal(self, action: &str, url: &Url) -> Refusal {
        let place = shown(url);
        let refuse = |why, words: String| Refusal::new(why, format!("cannot {action} {place}: {words}"));
        match self {
            Self::Refused(refusal) => refusal,
            Self::Status(status) => refuse(why(status.code), words(&status)),
            Self::Silent(timeout) => {
                let said = format!("its server said nothing for {} s", timeout.as_secs());
                refuse(Why::Unreachable, said)
            }
            Self::Senseless(what) => {
                let advice = "is there an SFTP server, and is the shell there silent?";
                refuse(Why::Senseless, format!("{what}: {advice}"))
            }
            Self::Lost(error) => {
                let why = match error.kind {
                    ErrorKind::Connection => Why::Unreachable,
                    ErrorKind::Busy => Why::Busy,
                    _ => Why::Denied,
                };
                Refusal::of(why, error.within(format!("cannot {action} {place}")))
            }
        }
    }
}

const fn why(code: u32) -> Why {
    match code {
        Status::NO_SUCH_FILE => Why::Missing,
        Status::DENIED => Why::Denied,
        Status::NO_CONNECTION | Status::CONNECTION_LOST => Why::Broken,
        _ => Why::Senseless,
    }
}

/// What a server says, or what it should have said.
fn words(status: &Status) -> String {
    let usual = match status.code {
        Status::OK | Status::END => "its server sent another answer than was asked for",
        Status::NO_SUCH_FILE => "there is no such file",
        Status::DENIED => "its server does not let us",
        Status::UNSUPPORTED => "its server cannot do that",
        _ => "its server says that it failed, and no more",
    };
    let is_more = !matches!(status.code, Status::OK..=Status::FAILURE) && !status.words.is_empty();
    if is_more { format!("its server says: {}", status.words) } else { usual.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_what_and_why_in_one_line() {
        let url = Url::parse("sftp://me@host/data/x").expect("a URL");
        let status = |code, words: &str| SftpTrouble::Status(Status { code, words: words.to_owned() });
        for (trouble, why, said) in [
            (
                status(2, "No such file"),
                Why::Missing,
                "cannot read sftp://host/data/x: there is no such file",
            ),
            (status(3, "Permission denied"), Why::Denied, "does not let us"),
            (status(9, "a\nb\u{1b}"), Why::Senseless, "its server says: a"),
            (SftpTrouble::Silent(Duration::from_secs(60)), Why::Unreachable, "said nothing for 60 s"),
            (SftpTrouble::Senseless("what came is no packet"), Why::Senseless, "is the shell there silent"),
            (
                SftpTrouble::Lost(Error::new(ErrorKind::Authentication, "ssh was not let in at ssh://host")),
                Why::Denied,
                "ssh was not let in",
            ),
        ] {
            let refusal = trouble.refusal("read", &url);
            let message = &refusal.error.message;
            assert_eq!(refusal.why, why, "{message}");
            assert!(message.contains(said) && !message.contains(['\n', '\u{1b}']), "{message}");
        }
    }
}
