//! What went wrong, as one line a person can act on and one kind a program can act on.

use std::io;
use std::sync::Arc;

use rustix::io::Errno;
use serde::{Deserialize, Deserializer, Serialize};
pub use tidegate_contract::error_kind::{ErrorKind, Retry};

use crate::text::{elided, foreign, show};

/// What failed, where and why, in one line.
///
/// What it came from, if that happened here, is its [`source`](std::error::Error::source): for programs, as the message
/// says it already. It is neither sent to a peer nor compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Error {
    /// What a program may act on.
    pub kind: ErrorKind,
    /// What a person reads.
    #[serde(deserialize_with = "read_foreign")]
    pub message: String,
    /// What it came from.
    #[serde(skip)]
    pub cause: Option<Cause>,
}

/// A failure of the operating system, or of TLS within one, that became an [`Error`].
#[derive(Clone, Debug)]
pub struct Cause(Arc<io::Error>);

/// Whether `error` is that a host's name does not exist, and not that nobody can tell now. The resolver's own words are all
/// that the standard library hands on.
pub fn is_no_such_name(error: &io::Error) -> bool {
    let text = error.to_string();
    text.contains("failed to lookup") && !text.contains("Temporary failure") && !text.contains("Try again")
}

/// Two errors are one if they say the same.
impl PartialEq for Cause {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Cause {}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause.as_ref().map(|cause| &*cause.0 as _)
    }
}

/// What is read was written by somebody else, and is made fit to be shown before anybody can show it.
fn read_foreign<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    String::deserialize(deserializer).map(|text| foreign(&text))
}

/// A result with our [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error of `kind` with a one-line `message`, which loses its middle if it is long: many are told at a time.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: elided(message.into().into()).into_owned(), cause: None }
    }

    /// `action` on `path` failed in the operating system.
    pub fn io(action: &str, path: &[u8], error: impl Into<io::Error>) -> Self {
        let error = error.into();
        Self::new(kind_of(&error), format!("cannot {action} {}: {}", show(path), plain(&error)))
            .because(error)
    }

    /// The connection to `peer` failed during `action`.
    pub fn connection(action: &str, peer: impl std::fmt::Display, error: io::Error) -> Self {
        let why = match error.kind() {
            // The system's words are of a resource.
            io::ErrorKind::WouldBlock => "no answer in time".to_owned(),
            _ => plain(&error),
        };
        Self::new(ErrorKind::Connection, format!("{action} {peer}: {why}")).because(error)
    }

    /// The same error, which came from `cause`; the message should say so too.
    #[must_use]
    pub fn because(self, cause: io::Error) -> Self {
        Self { cause: Some(Cause(Arc::new(cause))), ..self }
    }

    /// The peer said something that the protocol does not allow.
    pub fn protocol(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Protocol, message)
    }

    /// The operating system's number for what it came from, if that happened here.
    ///
    /// ```
    /// use tidegate_transfer::error::{Error, ErrorKind};
    ///
    /// let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
    /// let error = Error::connection("cannot reach", "h", refused);
    /// assert_eq!((error.errno(), error.in_words("h is not there").errno()), (Some(111), Some(111)));
    /// assert_eq!(Error::new(ErrorKind::Denied, "no").errno(), None);
    /// ```
    pub fn errno(&self) -> Option<i32> {
        let cause = &self.cause.as_ref()?.0;
        cause.raw_os_error().or_else(|| Some(errno_of(cause.kind())?.raw_os_error()))
    }

    /// Whether it came of a host's name that does not exist.
    pub fn is_no_such_name(&self) -> bool {
        self.cause.as_ref().is_some_and(|cause| is_no_such_name(&cause.0))
    }

    /// The same error in other words.
    #[must_use]
    pub fn in_words(self, message: impl Into<String>) -> Self {
        Self { cause: self.cause, ..Self::new(self.kind, message) }
    }

    /// The same error seen from further out: `context: message`. What it begins with is not said again.
    #[must_use]
    pub fn within(mut self, context: impl std::fmt::Display) -> Self {
        let context = format!("{context}: ");
        if !self.message.starts_with(&context) {
            self.message.insert_str(0, &context);
        }
        self
    }
}

/// An error about how the program was used.
pub fn usage(why: impl Into<String>) -> Error {
    Error::new(ErrorKind::Usage, why)
}

fn kind_of(error: &io::Error) -> ErrorKind {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NOSPC | Errno::DQUOT) => return ErrorKind::NoSpace,
        // What openat2 answers when a path would leave its root.
        Some(Errno::XDEV | Errno::LOOP) => return ErrorKind::UnsafeName,
        Some(Errno::ROFS) => return ErrorKind::Denied,
        _ => {}
    }
    match error.kind() {
        io::ErrorKind::NotFound => ErrorKind::NotFound,
        io::ErrorKind::PermissionDenied => ErrorKind::Denied,
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorKind::NoSpace,
        _ => ErrorKind::Io,
    }
}

/// What the operating system would have called what the standard library or TLS has found out.
fn errno_of(kind: io::ErrorKind) -> Option<Errno> {
    Some(match kind {
        io::ErrorKind::NotFound => Errno::NOENT,
        io::ErrorKind::PermissionDenied => Errno::ACCESS,
        io::ErrorKind::StorageFull => Errno::NOSPC,
        io::ErrorKind::ConnectionRefused => Errno::CONNREFUSED,
        io::ErrorKind::ConnectionAborted => Errno::CONNABORTED,
        io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof => Errno::CONNRESET,
        io::ErrorKind::BrokenPipe => Errno::PIPE,
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => Errno::TIMEDOUT,
        _ => return None,
    })
}

/// The operating system's words without its number.
pub(crate) fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    #[test]
    fn an_error_keeps_what_it_came_from_and_does_not_send_it() {
        let error = Error::io("open", b"file", io::Error::from_raw_os_error(2)).within("here");
        let source = error.source().and_then(|source| source.downcast_ref::<io::Error>());
        assert_eq!(source.and_then(io::Error::raw_os_error), Some(2));
        let bytes = postcard::to_stdvec(&error).expect("plain data");
        assert_eq!(bytes, postcard::to_stdvec(&(error.kind, &error.message)).expect("plain data"));
        let read: Error = postcard::from_bytes(&bytes).expect("whole");
        assert_eq!((read.source().is_none(), read.kind, &read.message), (true, error.kind, &error.message));
    }

    #[test]
    fn who_says_nothing_is_no_resource() {
        let error = Error::connection("no TLS connection to", "h", io::ErrorKind::WouldBlock.into());
        assert_eq!(error.to_string(), "no TLS connection to h: no answer in time");
    }

    #[test]
    fn a_lost_connection_keeps_what_tls_says() {
        let tls = rustls::Error::DecryptError;
        let error =
            Error::connection("lost", "a peer", io::Error::new(io::ErrorKind::InvalidData, tls.clone()));
        let source = error.source().and_then(|source| source.downcast_ref::<io::Error>());
        let inner = source.and_then(io::Error::get_ref).and_then(|inner| inner.downcast_ref());
        assert_eq!(inner, Some(&tls));
    }
}
