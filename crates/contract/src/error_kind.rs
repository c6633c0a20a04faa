//! Kinds of errors: what a program may act on.

use serde::{Deserialize, Serialize};

/// What kind of thing went wrong; decides exit codes and whether trying again may help.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
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

impl ErrorKind {
    /// Whether an error of this kind comes of an end that does not answer, which time may mend.
    pub const fn is_outage(self) -> bool {
        matches!(self, Self::Connection | Self::Busy)
    }

    /// Whether the same request meets an error of this kind again.
    pub const fn is_lasting(self) -> bool {
        matches!(self, Self::NotFound | Self::Denied | Self::Authentication | Self::UnsafeName | Self::Usage)
    }
}
