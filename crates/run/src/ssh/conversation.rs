//! What is said over an ssh session with Tidegate at its other end: one line of JSON for each message.
//!
//! Everything that is asked stands here and nothing in an argument list: paths, options, the ticket. The answer comes
//! behind a word that only whoever read the question knows, since a shell may print anything before it.

use std::io::{self, BufRead, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use data_encoding::{BASE64, HEXLOWER};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tidegate_transfer::error::Error;
use tidegate_transfer::transfer::route::random_run;
use tidegate_transfer::wire::greeting::Spoken;

/// Longest message.
const MAX_LINE: u64 = 64 << 10;

/// How long either end hears nothing before it takes the other for gone.
pub const SILENCE: std::time::Duration = std::time::Duration::from_secs(60);

/// The first line from whoever started ssh. What the other end does not know of it, it refuses.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// Comes before the answer.
    pub nonce: String,
    /// What is to be done there.
    pub wanted: Wanted,
}

/// What the program at the other end of ssh is for.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Wanted {
    /// Serve for as long as this session lasts.
    Endpoint(Asked),
    /// Hand this session's bytes to the endpoint that listens on a port there.
    Stream(u16),
}

/// How the endpoint is wanted.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// Where data will be put: what is there already of its path is resolved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination: Option<Bytes>,
    /// The first and the last port that it may listen on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ports: Option<(u16, u16)>,
}

/// What comes back first.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// It serves.
    Ready(Ready),
    /// It does not, for this reason.
    Refused(Error),
}

/// Where and how it serves.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Ready {
    /// The program's version.
    pub program: String,
    /// What it speaks; programs from before version 1 of the protocol do not say it.
    #[serde(default)]
    pub protocol: Option<Spoken>,
    /// The endpoint's address with its ticket; the host is its own name for itself.
    pub endpoint: String,
    /// The address that ssh came to.
    pub host: Option<String>,
    /// The home directory.
    pub home: Bytes,
    /// The destination beneath the root.
    pub destination: Option<Bytes>,
}

/// What is said to an endpoint that serves.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Nothing but that we are here.
    Alive,
    /// Connect to us, show the token, and serve that connection.
    Dial {
        /// Our port.
        port: u16,
        /// Where we are to be found, if not where ssh came from.
        host: Option<String>,
        /// Shown first.
        token: Bytes,
    },
}

/// What it says while it serves.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Report {
    /// A connection that was asked for could not be made.
    NotDialled(String),
}

/// Bytes that need not be text, as Base64.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Bytes(pub Vec<u8>);

impl From<Bytes> for String {
    fn from(bytes: Bytes) -> Self {
        BASE64.encode(&bytes.0)
    }
}

impl TryFrom<String> for Bytes {
    type Error = data_encoding::DecodeError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        BASE64.decode(text.as_bytes()).map(Self)
    }
}

/// Where either end may listen, in the order in which that is tried: on the ports from the first to the last, or on any.
pub fn listening_places(ports: Option<(u16, u16)>) -> impl Iterator<Item = SocketAddr> {
    let (first, last) = ports.unwrap_or((0, 0));
    // The former hears IPv4 too, where there is IPv6.
    let hosts: [IpAddr; 2] = [Ipv6Addr::UNSPECIFIED.into(), Ipv4Addr::UNSPECIFIED.into()];
    (first..=last).flat_map(move |port| hosts.map(|host| SocketAddr::new(host, port)))
}

impl Question {
    /// Asks for something, with a nonce of its own.
    pub fn new(wanted: Wanted) -> Self {
        Self { nonce: HEXLOWER.encode(&random_run()), wanted }
    }

    /// The word that comes before the answer.
    pub fn mark(&self) -> String {
        format!("TIDEGATE {} ", self.nonce)
    }
}

/// Says something in one line.
pub fn say(to: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    to.write_all(&line)?;
    to.flush()
}

/// Hears one line; `None` once nobody speaks any more.
pub fn hear<T: DeserializeOwned>(from: &mut impl BufRead) -> io::Result<Option<T>> {
    let mut line = Vec::new();
    io::Read::take(&mut *from, MAX_LINE).read_until(b'\n', &mut line)?;
    match line.last() {
        None => Ok(None),
        Some(b'\n') => Ok(Some(serde_json::from_slice(&line)?)),
        Some(_) => Err(io::Error::new(io::ErrorKind::InvalidData, "a message without an end")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_the_way_whatever_bytes_a_path_has() {
        let asked = Asked { destination: Some(Bytes(b"a\n\xff b".to_vec())), ports: Some((1, 2)) };
        let question = Question::new(Wanted::Endpoint(asked));
        let mut line = Vec::new();
        say(&mut line, &question).expect("said");
        assert_eq!(line.iter().filter(|&&b| b == b'\n').count(), 1);
        let heard: Question = hear(&mut &line[..]).expect("heard").expect("a message");
        let Wanted::Endpoint(asked) = heard.wanted else { panic!("{heard:?}") };
        assert_eq!(asked.destination, Some(Bytes(b"a\n\xff b".to_vec())));
        assert_ne!(Question::new(Wanted::Stream(1)).mark(), question.mark());
    }

    #[test]
    fn what_is_not_known_is_refused_and_what_has_no_end_is_no_message() {
        let unknown = br#"{"nonce":"x","wanted":{"endpoint":{"colour":"blue"}}}"#;
        let error = hear::<Question>(&mut &[&unknown[..], b"\n"].concat()[..]).expect_err("unknown");
        assert!(error.to_string().contains("colour"), "{error}");
        assert!(hear::<Order>(&mut &b""[..]).expect("the end").is_none());
        hear::<Order>(&mut &b"\"alive\""[..]).expect_err("cut off");
        let endless = vec![b'x'; 2 * MAX_LINE as usize];
        hear::<Order>(&mut &endless[..]).expect_err("too long");
    }
}
