//! Tickets: all that is needed to reach an endpoint and prove that one may.
//!
//! `tg://<ticket>@host:port/path`, where the ticket is the base64url of the endpoint's certificate
//! fingerprint (SHA-256), a key, and the claims. The key is a keyed BLAKE3 of the claims under the
//! endpoint's secret, so a ticket can be narrowed but never widened, and the endpoint need not
//! remember the tickets it gave.

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use data_encoding::BASE64URL_NOPAD;
use rustls::pki_types::ServerName;
use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::hash::Digest;
use crate::text::show;

/// The scheme of an endpoint's address.
pub const SCHEME: &str = "tg://";

/// The port an endpoint listens on unless told otherwise.
pub const DEFAULT_PORT: u16 = 7117;

/// What a ticket allows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    /// Whether data may be fetched from the endpoint.
    pub read: bool,
    /// Whether data may be put there.
    pub write: bool,
    /// The only path beneath the root that may be used; empty for all.
    pub path: Vec<u8>,
    /// Seconds since 1970 after which it is void.
    pub expires: Option<u64>,
    /// Set on a ticket that holds only once.
    pub once: Option<[u8; 16]>,
    /// Whether what is there may be removed. A byte behind the others, so that tickets without it are what they were
    /// before there was such a right.
    #[serde(skip)]
    pub delete: bool,
}

/// What follows claims that allow deleting.
const DELETE: &[u8] = &[1];

impl Claims {
    /// Reading and writing of everything beneath the root, for ever.
    pub const FULL: Self =
        Self { read: true, write: true, path: Vec::new(), expires: None, once: None, delete: false };

    /// The same, and deleting: for who has the rights of the host's user anyway.
    pub const OWNER: Self =
        Self { read: true, write: true, path: Vec::new(), expires: None, once: None, delete: true };

    /// Whether `path` lies beneath the claimed one.
    pub fn covers(&self, path: &[u8]) -> bool {
        let inside = |path: &[u8]| path.first().is_none_or(|&b| b == b'/');
        self.path.is_empty() || path.strip_prefix(self.path.as_slice()).is_some_and(inside)
    }

    /// When it is void, if ever.
    pub fn end(&self) -> Option<SystemTime> {
        // It holds through its last second.
        self.expires.and_then(|last| UNIX_EPOCH.checked_add(Duration::from_secs(last.checked_add(1)?)))
    }

    /// Refuses a ticket whose time is over.
    pub(crate) fn check_time(&self, now: SystemTime) -> Result<()> {
        match self.end() {
            Some(end) if now >= end => {
                Err(Error::new(ErrorKind::Authentication, "this ticket has expired: ask for a new one"))
            }
            _ => Ok(()),
        }
    }

    /// The bytes that the key is made from and that the peer shows.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = postcard::to_stdvec(self).expect("claims are plain data");
        bytes.extend_from_slice(if self.delete { DELETE } else { &[] });
        bytes
    }

    /// Reads what [`encode`](Self::encode) wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        match postcard::take_from_bytes::<Self>(bytes) {
            Ok((claims, [])) => Ok(claims),
            Ok((claims, DELETE)) => Ok(Self { delete: true, ..claims }),
            _ => Err(Error::new(ErrorKind::Authentication, "the ticket's claims cannot be read")),
        }
    }
}

/// The key for `claims` under the endpoint's `secret`.
pub fn derive_key(secret: &Digest, claims: &[u8]) -> Digest {
    *blake3::keyed_hash(secret, claims).as_bytes()
}

/// What the peer shows to prove that it knows `key`, bound to one connection.
pub fn proof(key: &Digest, purpose: &str, binding: &[u8]) -> blake3::Hash {
    blake3::Hasher::new_keyed(key).update(purpose.as_bytes()).update(b"\0").update(binding).finalize()
}

/// The secret part of an address.
///
/// ```
/// use tidegate_transfer::wire::ticket::{Claims, Ticket, derive_key};
///
/// let claims = Claims { write: false, path: b"public".to_vec(), ..Claims::FULL };
/// assert!(claims.covers(b"public/file") && !claims.covers(b"publicity"));
/// let claims = claims.encode();
/// let ticket = Ticket { fingerprint: [1; 32], key: derive_key(&[2; 32], &claims), claims };
/// assert_eq!(Ticket::parse(&ticket.encode()), Some(ticket));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Ticket {
    /// SHA-256 of the endpoint's certificate.
    pub fingerprint: Digest,
    /// Proves that we may.
    pub key: Digest,
    /// What we may, as the endpoint wrote it.
    pub claims: Vec<u8>,
}

tidegate_contract::opaque!(Ticket);

/// An endpoint's address, with or without a ticket (mutual TLS needs none), and a path there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The ticket, if the address carries one.
    pub ticket: Option<Ticket>,
    /// Name or number of the host, without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// What follows the first slash, as typed.
    pub path: Vec<u8>,
}

impl Address {
    /// Whether `text` looks like an endpoint's address.
    pub fn is_address(text: &[u8]) -> bool {
        text.starts_with(SCHEME.as_bytes())
    }

    /// Reads `tg://[ticket@]host[:port][/path]`.
    pub fn parse(text: &[u8]) -> Result<Self> {
        let refuse = |why: &str| {
            // Never the text itself: it may hold a secret.
            Error::new(
                ErrorKind::Usage,
                format!("not an endpoint's address: {why}; expected tg://TICKET@host:port/path"),
            )
        };
        let rest =
            text.strip_prefix(SCHEME.as_bytes()).ok_or_else(|| refuse("it does not start with tg://"))?;
        let (authority, path) = match rest.iter().position(|&b| b == b'/') {
            Some(slash) => (&rest[..slash], &rest[slash + 1..]),
            None => (rest, &[][..]),
        };
        let authority = std::str::from_utf8(authority).map_err(|_| refuse("the host is not text"))?;
        let (ticket, place) = match authority.rsplit_once('@') {
            Some((ticket, place)) => (
                Some(Ticket::parse(ticket).ok_or_else(|| refuse("the ticket is damaged, copy it whole"))?),
                place,
            ),
            None => (None, authority),
        };
        let Place { host, port } = place.parse().map_err(|_| refuse("host and port cannot be read"))?;
        Ok(Self { ticket, host, port: port.unwrap_or(DEFAULT_PORT), path: path.to_vec() })
    }

    /// The same endpoint with another path.
    #[must_use]
    pub fn with_path(mut self, path: impl Into<Vec<u8>>) -> Self {
        self.path = path.into();
        self
    }

    /// `host:port`, with brackets around an IPv6 number.
    pub fn place(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }

    /// What tells this endpoint from others for as long as it lives: its certificate, which stays when
    /// its port or its name changes, or with a PKI the name.
    pub fn identity(&self) -> Vec<u8> {
        match &self.ticket {
            Some(ticket) => ticket.fingerprint.to_vec(),
            None => self.place().into_bytes(),
        }
    }

    /// The address without its secret, for messages.
    pub fn public(&self) -> String {
        format!("{SCHEME}{}/{}", self.place(), show(&self.path))
    }
}

impl Address {
    /// The whole address, secret included, with the path's bytes as they are.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.clone().with_path([]).to_string().into_bytes();
        bytes.extend_from_slice(&self.path);
        bytes
    }
}

impl fmt::Display for Address {
    /// The whole address, secret included.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(SCHEME)?;
        if let Some(ticket) = &self.ticket {
            write!(f, "{}@", ticket.encode())?;
        }
        write!(f, "{}/{}", self.place(), String::from_utf8_lossy(&self.path))
    }
}

impl Ticket {
    /// The base64url text.
    pub fn encode(&self) -> String {
        BASE64URL_NOPAD.encode(&[&self.fingerprint[..], &self.key, &self.claims].concat())
    }

    /// Reads what [`encode`](Self::encode) wrote.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).ok()?;
        let (fingerprint, rest) = bytes.split_first_chunk()?;
        let (key, claims) = rest.split_first_chunk()?;
        Claims::decode(claims).ok()?;
        Some(Self { fingerprint: *fingerprint, key: *key, claims: claims.to_vec() })
    }
}

/// A host and, if one was said, a port: `host`, `host:port`, `[v6]` or `[v6]:port`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Name or number of the host, without brackets.
    pub host: String,
    /// The port.
    pub port: Option<u16>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]", self.host)?,
            false => f.write_str(&self.host)?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

impl FromStr for Place {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let refuse = |why: &str| {
            let why = format!("'{}' is no HOST[:PORT]: {why}", show(text.as_bytes()));
            Error::new(ErrorKind::Usage, why)
        };
        let (host, port) = match text.strip_prefix('[').map(|rest| rest.split_once(']')) {
            Some(Some((host, rest))) if host.parse::<Ipv6Addr>().is_ok() => {
                let port = rest.strip_prefix(':');
                if port.is_none() && !rest.is_empty() {
                    return Err(refuse("nothing but a port may follow the brackets"));
                }
                (host, port)
            }
            Some(_) => return Err(refuse("brackets are for an IPv6 number")),
            None if text.parse::<Ipv6Addr>().is_ok() => {
                return Err(refuse("an IPv6 number stands in brackets, as in [::1]"));
            }
            None => match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            },
        };
        // What no client could connect to is no host either.
        if ServerName::try_from(host).is_err() {
            return Err(refuse("the host is neither a name nor a number"));
        }
        let port = match port.map(str::parse) {
            None => None,
            Some(Ok(port @ 1..)) => Some(port),
            Some(_) => return Err(refuse("the port is not a number from 1 to 65535")),
        };
        Ok(Self { host: host.to_owned(), port })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticket() -> Ticket {
        let claims = Claims::FULL.encode();
        Ticket { fingerprint: [1; 32], key: derive_key(&[2; 32], &claims), claims }
    }

    #[test]
    fn addresses_survive_printing() {
        for (host, port) in [("example.org", 7117), ("10.0.0.1", 1), ("::1", 65535)] {
            let address =
                Address { ticket: Some(ticket()), host: host.into(), port, path: b"a b/c".to_vec() };
            assert_eq!(Address::parse(address.to_string().as_bytes()), Ok(address));
        }
    }

    #[test]
    fn bad_addresses_are_refused_without_showing_secrets() {
        let bad = [
            "",
            "tg://",
            "tg://@host:1/",
            "tg://AAAA@host:1/",
            "tg://host:notaport/",
            "tg://[::1/",
            "http://x/",
            "tg://x\x1b[2J:1/",
            "tg://foo bar/",
            "tg://::1/",
            "tg://x:0/",
            "tg://[x]:1/",
        ];
        for text in bad {
            let error = Address::parse(text.as_bytes()).expect_err(text);
            assert!(!error.message.contains("AAAA"));
        }
        assert!(!format!("{:?}", ticket()).contains("BwE"));
    }

    #[test]
    fn a_place_is_a_host_and_perhaps_a_port() {
        for (text, host, port) in [
            ("dtn.example.org", "dtn.example.org", None),
            ("dtn_1:443", "dtn_1", Some(443)),
            ("10.0.0.1:65535", "10.0.0.1", Some(65535)),
            ("[2001:db8::1]", "2001:db8::1", None),
            ("[::1]:443", "::1", Some(443)),
        ] {
            assert_eq!(text.parse(), Ok(Place { host: host.to_owned(), port }), "{text}");
        }
        let bad = [
            "", "foo bar", ":1", "x:", "x:0", "x:65536", "x:1:2", "::1", "[::1", "[::1]1", "[x]", "a/b",
            "a@b", "-",
        ];
        for text in bad {
            let error = text.parse::<Place>().expect_err(text);
            assert!(error.kind == ErrorKind::Usage && error.message.contains("HOST[:PORT]"), "{error}");
        }
    }

    #[test]
    fn claims_cover_a_directory_and_not_its_namesakes() {
        let claims = Claims { path: b"data/in".to_vec(), ..Claims::FULL };
        assert!(claims.covers(b"data/in") && claims.covers(b"data/in/x"));
        assert!(!claims.covers(b"data/inside") && !claims.covers(b"data") && !claims.covers(b""));
        assert!(Claims::FULL.covers(b"") && Claims::FULL.covers(b"x"));
    }

    #[test]
    fn a_widened_claim_has_another_key() {
        let secret = [7; 32];
        let narrow = Claims { write: false, ..Claims::FULL }.encode();
        assert_ne!(derive_key(&secret, &narrow), derive_key(&secret, &Claims::FULL.encode()));
    }

    #[test]
    fn a_ticket_of_before_there_was_a_right_to_delete_is_what_it_was() {
        // As version 9 wrote it: read, write, an empty path, no end, not once.
        let old = [1, 1, 0, 0, 0];
        assert_eq!((Claims::decode(&old), Claims::FULL.encode()), (Ok(Claims::FULL), old.to_vec()));
        let owner = Claims::OWNER.encode();
        assert_eq!(Claims::decode(&owner), Ok(Claims::OWNER));
        // Adding the byte, or another one, makes another key.
        assert_ne!(derive_key(&[7; 32], &owner), derive_key(&[7; 32], &old));
        for more in [&[0][..], &[2], &[1, 1]] {
            assert!(Claims::decode(&[&old[..], more].concat()).is_err(), "{more:?}");
        }
    }

    #[test]
    fn tickets_expire() {
        let claims = Claims { expires: Some(100), ..Claims::FULL };
        assert!(claims.check_time(UNIX_EPOCH + Duration::from_secs(100)).is_ok());
        assert!(claims.check_time(UNIX_EPOCH + Duration::from_secs(101)).is_err());
    }
}
