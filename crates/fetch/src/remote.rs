//! A server's files, by whatever protocol: what may be asked of one, and what it may answer.
//!
//! A worker has a [`Remote`] of its own, and with it connections that stay warm from request to request.

// What all protocols share.
pub mod carrier;
pub mod gs_settings;
pub(crate) mod listing;
pub(crate) mod login;
pub(crate) mod object;
pub mod patience;
mod public;
mod reach;
pub mod s3_credentials;
pub mod s3_settings;
pub(crate) mod settings;
pub(crate) mod signed;
pub(crate) mod tls;

// One protocol each.
#[cfg(feature = "ftp")]
pub(crate) mod ftp;
pub(crate) mod gs;
pub(crate) mod http;
pub(crate) mod index;
pub(crate) mod local;
pub mod request;
pub mod s3;
#[cfg(feature = "sftp")]
pub(crate) mod sftp;

pub mod fresh;

// All of them, by the scheme of a URL.
pub mod servers;

use std::io::Read;
use std::ops::Range;
use std::time::Duration;

use tidegate_contract::{redact, text};
use tidegate_transfer::error::{Error, ErrorKind, Retry};
use tidegate_transfer::manifest::Timestamp;
use url::Url;

use crate::checksum::Checksums;
use crate::foreign;
pub use crate::remote::tls::check_system_certificates;

/// How long a parked worker keeps its connections. Servers count those too that nobody uses, and may refuse others
/// for them; a worker that is only parked for an epoch or two needs no new one.
pub(crate) const WARM: Duration = Duration::from_secs(2);

/// Makes remotes, one a worker. What they share (TLS settings, resolved names, credentials) lives here.
pub trait Remotes: Send + Sync {
    /// A remote with no connection yet.
    fn remote(&self) -> Box<dyn Remote>;
}

/// One worker's way to servers.
pub trait Remote: Send {
    /// Asks for bytes of a file.
    fn open(&mut self, ask: &Ask<'_>) -> Result<Opened, Refusal>;

    /// Asks what a server says of a file, without its content.
    fn look(&mut self, ask: &Ask<'_>) -> Result<Version, Refusal>;
}

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Ask<'a> {
    /// Where it lies.
    pub url: &'a Url,
    /// Further header lines (HTTP).
    pub headers: &'a [(String, String)],
    /// Which bytes; an end of `u64::MAX`, or any other beyond it, is the end of the file. A start beyond
    /// the end of the file makes no sense, but 0 does for an empty one.
    pub range: Range<u64>,
    /// The version they must be of; anything else is refused as [`Why::Changed`].
    pub version: Option<&'a Version>,
}

#[cfg(any(feature = "ftp", feature = "sftp"))]
impl Ask<'_> {
    /// Why `version` is not what is asked for.
    pub(crate) fn unfit(&self, version: &Version) -> Option<Refusal> {
        if self.version.is_some_and(|wanted| wanted.differs(version)) {
            let what = format!("{}: the file has changed on the server", shown(self.url));
            return Some(Refusal::new(Why::Changed, what));
        }
        let start = self.range.start;
        let size = version.bytes.filter(|&size| start > 0 && start >= size)?;
        let what = format!("{}: the file ends at byte {size}, before the part asked for", shown(self.url));
        Some(Refusal::new(Why::Senseless, what))
    }
}

/// What tells one version of a server's file from the next, as far as the server says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Version {
    /// Its whole size.
    pub bytes: Option<u64>,
    /// A strong entity tag.
    pub tag: Option<String>,
    /// When it was last modified there.
    pub modified: Option<Timestamp>,
    /// When it was last modified where it came from, if that was kept with it.
    pub kept: Option<Timestamp>,
    /// Whether a part of it can be asked for.
    pub ranges: bool,
    /// Checksums of the whole file that the server vouches for.
    pub checksums: Checksums,
}

/// An answer that carries bytes.
pub struct Opened {
    /// Of which version.
    pub version: Version,
    /// Which bytes come: those asked for, or all from 0 where a server ignores ranges. An end of
    /// `u64::MAX` is not known before it comes.
    pub range: Range<u64>,
    /// The bytes. A body that ends before its range does is an error of kind `UnexpectedEof`. Dropping it
    /// half read may cost the connection; read to its end, the connection stays warm.
    pub body: Box<dyn Read + Send>,
}

impl std::fmt::Debug for Opened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Opened")
            .field("version", &self.version)
            .field("range", &self.range)
            .finish_non_exhaustive()
    }
}

/// Why a server did not answer with bytes; decides what is tried next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It is not there (404, 410, 550): another mirror may have it, trying again does not help.
    Missing,
    /// We may not have it (401, 403, a certificate that is not trusted).
    Denied,
    /// The server asks for less (429, 503, 421): fewer connections, later.
    Busy,
    /// It is being made ready, as a copy is that is staged from tape (202): it is given later.
    Later,
    /// Another version is there than the one asked for (412, another tag, size or date).
    Changed,
    /// The connection was lost amid an answer, or a server's own fault (500): trying again may help.
    Broken,
    /// Nobody answered: the connection was not made, or lost or silent before an answer, or whoever stands before
    /// the server does not reach it (502, 504). It may be back any time.
    Unreachable,
    /// The answer makes no sense, such as a range that was not asked for, or a redirect to less safety.
    Senseless,
}

impl Why {
    /// Whether the same request may be answered later.
    pub const fn retry(self) -> Retry {
        match self {
            Self::Missing | Self::Denied | Self::Changed | Self::Senseless => Retry::Never,
            Self::Busy | Self::Later | Self::Broken => Retry::Later,
            Self::Unreachable => Retry::Outage,
        }
    }
}

/// An answer without bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What is tried next.
    pub why: Why,
    /// For people, in one line that names the URL.
    pub error: Error,
    /// What the server says to wait first.
    pub retry_after: Option<Duration>,
    /// Whether it is the link that is refused, so that a fresh one may be taken (401, 403, and 400 that says so).
    pub(crate) refuses_link: bool,
    /// Whether there is no host of that name, as far as the resolver knows.
    pub(crate) names_no_host: bool,
}

impl Refusal {
    /// A refusal with a one-line `message`; its kind of error follows from `why`.
    pub fn new(why: Why, message: impl Into<String>) -> Self {
        let kind = match why {
            Why::Missing => ErrorKind::NotFound,
            Why::Denied => ErrorKind::Denied,
            Why::Busy | Why::Later => ErrorKind::Busy,
            Why::Changed => ErrorKind::Changed,
            Why::Broken | Why::Unreachable => ErrorKind::Connection,
            Why::Senseless => ErrorKind::Protocol,
        };
        Self::of(why, Error::new(kind, message))
    }

    /// A refusal for a reason of another kind. Servers choose words of it, which are escaped here.
    pub fn of(why: Why, error: Error) -> Self {
        Self {
            why,
            error: foreign::error(error),
            retry_after: None,
            refuses_link: false,
            names_no_host: false,
        }
    }

    /// The same refusal, speaking of `object` rather than of the URL it was asked for by.
    #[must_use]
    pub(crate) fn speaking_of(mut self, asked: &Url, object: &Url) -> Self {
        self.error.message = self.error.message.replace(&shown(asked), &shown(object));
        self
    }

    /// The same refusal with a wait that the server asks for.
    #[must_use]
    pub const fn after(mut self, wait: Option<Duration>) -> Self {
        self.retry_after = wait;
        self
    }
}

impl Version {
    /// The time that a copy is to have.
    pub fn time(&self) -> Option<Timestamp> {
        self.kept.or(self.modified)
    }

    /// Whether `other` is another version than this one, by the strongest thing that both say of
    /// themselves. What only one of them says tells nothing.
    pub fn differs(&self, other: &Self) -> bool {
        fn both<T: PartialEq>(one: Option<&T>, other: Option<&T>) -> Option<bool> {
            Some(one? != other?)
        }
        both(self.bytes.as_ref(), other.bytes.as_ref()) == Some(true)
            || both(self.tag.as_ref(), other.tag.as_ref())
                .or_else(|| both(self.modified.as_ref(), other.modified.as_ref()))
                == Some(true)
    }
}

/// A URL for people: without a user's name, a password, and a query, which may be signed.
pub fn shown(url: &Url) -> String {
    text::show(redact::marked(url.as_str()).as_bytes()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shown_url_keeps_its_secrets() {
        let url = Url::parse("https://user:pass@host.example:8443/a%20b?X-Sig=1234&x=2#f").expect("a URL");
        assert_eq!(shown(&url), "https://host.example:8443/a%20b?…");
        let url = Url::parse("file:///data/x").expect("a URL");
        assert_eq!(shown(&url), "file:///data/x");
    }

    #[test]
    fn versions_differ_by_the_strongest_thing_both_say() {
        let at = |seconds| Some(Timestamp { seconds, nanoseconds: 0 });
        let one = Version { bytes: Some(9), tag: Some("a".into()), modified: at(1), ..Version::default() };
        let same_tag = Version { modified: at(2), ..one.clone() };
        assert!(!one.differs(&same_tag), "a tag is stronger than a time");
        let no_tag = Version { tag: None, ..same_tag };
        assert!(one.differs(&no_tag));
        assert!(one.differs(&Version { bytes: Some(8), ..one.clone() }));
        assert!(!one.differs(&Version::default()), "silence tells nothing");
    }
}
