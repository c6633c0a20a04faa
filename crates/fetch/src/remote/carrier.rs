//! How a host is reached: whoever runs ssh hands it in.

use std::fmt::Debug;
use std::os::unix::net::UnixStream;

use tidegate_transfer::error::{Error, Result};
use url::Url;

/// Begins sessions of the subsystem `sftp` at hosts.
pub trait SftpCarrier: Debug + Send + Sync {
    /// A session at the host of `url`, which need not have logged in yet: over a connection of its own, or one that the user has
    /// opened, if it `shares` one.
    fn begin(&self, url: &Url, shares: bool) -> Result<SftpChannel>;
}

/// A session that was begun.
pub struct SftpChannel {
    /// What the server sends, and what is sent to it.
    pub stream: UnixStream,
    /// What carries it, which ends when it is dropped.
    pub process: Box<dyn SftpProcess>,
}

/// What carries a session.
pub trait SftpProcess: Send {
    /// Why it ended, as far as it tells; `None` if it tells nothing.
    fn complaint(&mut self) -> Option<Error>;
}
