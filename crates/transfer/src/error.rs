//! What went wrong, as one line a person can act on and one kind a program can act on.

use std::io;

use serde::{Deserialize, Deserializer, Serialize};
pub use tidegate_contract::error_kind::ErrorKind;

use crate::text::{foreign, show};

/// What failed, where and why, in one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{message}")]
pub struct Error {
    /// What a program may act on.
    pub kind: ErrorKind,
    /// What a person reads.
    #[serde(deserialize_with = "read_foreign")]
    pub message: String,
}

/// What is read was written by somebody else, and is made fit to be shown before anybody can show it.
fn read_foreign<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    String::deserialize(deserializer).map(|text| foreign(&text))
}

/// A result with our [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error of `kind` with a one-line `message`.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// `action` on `path` failed in the operating system.
    pub fn io(action: &str, path: &[u8], error: impl Into<io::Error>) -> Self {
        let error = error.into();
        Self::new(kind_of(&error), format!("cannot {action} {}: {}", show(path), plain(&error)))
    }

    /// The connection to `peer` failed during `action`.
    pub fn connection(action: &str, peer: impl std::fmt::Display, error: &io::Error) -> Self {
        Self::new(ErrorKind::Connection, format!("{action} {peer}: {}", plain(error)))
    }

    /// The peer said something that the protocol does not allow.
    pub fn protocol(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Protocol, message)
    }

    /// Whether the same request may succeed later without anybody's help.
    pub fn is_retryable(&self) -> bool {
        matches!(self.kind, ErrorKind::Connection)
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

fn kind_of(error: &io::Error) -> ErrorKind {
    use rustix::io::Errno;
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

/// The operating system's words without its number.
fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}
