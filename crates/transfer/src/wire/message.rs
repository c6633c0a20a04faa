//! The messages of a session: length-prefixed postcard, both ways over TLS.
//!
//! ```text
//! +----------------+--------------------------+
//! | length (u32 LE)| message (postcard)       |
//! +----------------+--------------------------+
//! ```
//!
//! What is said often is positional; what is said seldom is a [`Record`] of fields.

use serde::{Deserialize, Serialize};
use tidegate_control::look::Look;
use tidegate_control::{Bounds, Concurrency, Observation, PerStage};

use crate::bounded::at_most;
use crate::counters::{Counters, NotKept, Totals};
use crate::error::{Error, Result};
use crate::hash::Digest;
use crate::manifest::{Entry, FileId};
use crate::offer::{Again, DirectoryNames, LeftOut, OFFER_ENTRIES, Outcome, TOLD_DIRECTORIES, Verdict};
use crate::plan::Planned;
use crate::record::{Record, tagged};
use crate::wire::files::{FileReply, FileRequest};
use crate::wire::greeting::Welcome;
use crate::wire::request::{Agreement, Preamble, Request, RequestKind};

/// Longest message before the peer has proved who it is, and after.
pub(crate) const MAX_UNAUTHENTICATED: usize = 64 << 10;
/// Longest message of an authenticated peer.
pub(crate) const MAX_MESSAGE: usize = 8 << 20;

/// Most elements of the lists in one message: what honest peers keep within.
const MAX_SEGMENTS: usize = 32 << 10;
const MAX_FRAMES: usize = 8 << 10;
/// Longest report of iperf3: with 128 streams it prints some 100 kB.
pub(crate) const MAX_REPORT: usize = 1 << 20;

/// What an end counted, for the poll of that number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CounterReport {
    /// The poll's.
    pub number: u32,
    /// What was counted.
    pub counters: Counters,
}

tagged!(CounterReport, "a report" { 1 => number, 2 => counters: record, });

/// One epoch of a third-party transfer, as its initiator wants it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// How many workers a stage.
    pub setpoint: Concurrency,
    /// Whether it may be a short one, while the rule is on its way up.
    pub short: bool,
    /// Whether streams are to yield to whatever else is on the path.
    pub yields: bool,
    /// As many streams as may come within the epoch; 0 for none but those of the set-point.
    pub ramps_to: u16,
}

tagged!(Step, "a step" { 1 => setpoint, 2 => short, 3 => yields, 4 => ramps_to, });

/// What an epoch of a third-party transfer showed.
#[derive(Clone, Debug, PartialEq)]
pub struct Stepped {
    /// What was seen; nothing once the transfer is over.
    pub seen: Option<Observation>,
    /// Why it is over, if it has failed.
    pub failure: Option<Error>,
    /// What may be asked for next.
    pub bounds: PerStage<Bounds>,
    /// How far the transfer is.
    pub totals: Totals,
    /// How many files that were there got another mode or time.
    pub refreshed: u64,
    /// How much was removed at the destination.
    pub deleted: u64,
    /// What the destination refused to keep.
    pub not_kept: NotKept,
    /// How much is kept of files that are not complete, once it is over.
    pub unfinished: u64,
}

impl Default for Stepped {
    fn default() -> Self {
        let bounds = PerStage::all(Bounds::fixed(1));
        let (totals, not_kept) = (Totals::default(), NotKept::default());
        Self { seen: None, failure: None, bounds, totals, refreshed: 0, deleted: 0, not_kept, unfinished: 0 }
    }
}

tagged!(Stepped, "what an epoch showed" {
    1 => seen: optional,
    3 => bounds,
    5 => totals: record,
    7 => failure,
    8 => refreshed,
    10 => deleted,
    12 => not_kept,
    14 => unfinished,
});

tagged!(Observation, "an observation" {
    2 => at,
    4 => interval,
    6 => concurrency,
    8 => throughput,
    10 => standard_error,
    12 => waited,
    14 => draining,
    16 => staging_free,
    18 => staging_capacity,
    20 => loss,
    22 => rtt,
    24 => streams,
    26 => cpu,
    28 => remaining,
    30 => queued,
    32 => held,
    34 => model_based,
    36 => tries,
    38 => ramp: list[16],
});

tagged!(Look, "a look" {
    2 => workers,
    4 => able_bps,
    6 => standard_error,
});

/// Everything said in a session.
///
/// `docs/protocol.md` says who says what and when. A message keeps its number for ever: new ones come last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Message {
    /// The endpoint lets the peer in.
    Welcome(Record<Welcome>),
    /// The initiator asks.
    Request(RequestKind, Record<Preamble>),
    /// The endpoint agrees.
    Accepted(Record<Agreement>),
    /// A one-time ticket, as it stands in an address.
    Ticket(String),
    /// The endpoint: a URL by which others read what was asked for.
    Shared(String),
    /// The endpoint or the peer gives up. Peers from before version 1 understand it, too.
    Refused(Error),
    /// The endpoint: an iperf3 server listens on this port of the address that the session reached.
    Iperf3 {
        /// The port.
        port: u16,
    },
    /// The endpoint that made a test: what iperf3 printed, in JSON.
    Iperf3Report(#[serde(deserialize_with = "at_most::<MAX_REPORT, _, _>")] Vec<u8>),
    /// Stop; keep what is needed to resume.
    Stop,

    /// Sender: entries, numbered from `first`.
    Offer {
        /// The number of the first one.
        first: FileId,
        /// In the order they were found.
        #[serde(deserialize_with = "at_most::<OFFER_ENTRIES, _, _>")]
        entries: Vec<Entry>,
    },
    /// Sender: files found there differ, and come after all (unless nothing is to be written).
    Replace(#[serde(deserialize_with = "at_most::<MAX_FRAMES, _, _>")] Vec<FileId>),
    /// Sender: files found there are the same, with these root hashes; or just the hashes of those that were to be told.
    Keep(#[serde(deserialize_with = "at_most::<MAX_FRAMES, _, _>")] Vec<(FileId, Digest)>),
    /// Sender: hashes of whole segments, over the encrypted session.
    Hashes(#[serde(deserialize_with = "at_most::<MAX_FRAMES, _, _>")] Vec<(FileId, u64, Digest)>),
    /// Sender: a file will not be completed.
    Abandon(FileId, Error),
    /// Sender, and the sending endpoint to a third party: something could not be offered, or did not arrive.
    Problem(Vec<u8>, Error),
    /// Sender to a receiver that asked, and to a third party: this is left out of the source, and is no failure.
    LeftOut(Vec<u8>, LeftOut),
    /// Sender: nothing of what was sent on these streams has been confirmed for so long.
    Overdue {
        /// Which streams.
        #[serde(deserialize_with = "at_most::<MAX_FRAMES, _, _>")]
        streams: Vec<u32>,
        /// How long, in ms.
        for_ms: u32,
    },
    /// Sender: everything has been offered.
    Listed,
    /// Sender: every offered file has ended; nothing more comes.
    Finish,
    /// Sender: what directories hold, each behind the one that holds it.
    Names(#[serde(deserialize_with = "at_most::<TOLD_DIRECTORIES, _, _>")] Vec<DirectoryNames>),
    /// Sender: these were all names, or why they cannot be told.
    NamesEnd(Option<Error>),
    /// Sender, for the question of that number: files may get their names for so many ms from when it was asked, or why not.
    Permitted(u32, Result<u32>),

    /// Receiver: segments of a file from an earlier run, ahead of its verdict when they are many.
    Have(FileId, #[serde(deserialize_with = "at_most::<MAX_SEGMENTS, _, _>")] Vec<(u64, Digest)>),
    /// Receiver: what it wants of them, one each, in order.
    Verdicts {
        /// The number of the first one.
        first: FileId,
        /// One an entry.
        #[serde(deserialize_with = "at_most::<OFFER_ENTRIES, _, _>")]
        verdicts: Vec<Verdict>,
    },
    /// Receiver: frames taken from each stream so far.
    Taken(#[serde(deserialize_with = "at_most::<MAX_FRAMES, _, _>")] Vec<(u32, u64)>),
    /// Receiver: a stream ended without its last frame.
    StreamLost(u32),
    /// Receiver: these bytes were damaged; send them again.
    Again(#[serde(deserialize_with = "at_most::<MAX_FRAMES, _, _>")] Vec<Again>),
    /// Receiver: how files ended.
    Done(#[serde(deserialize_with = "at_most::<MAX_FRAMES, _, _>")] Vec<(FileId, Outcome)>),
    /// Receiver: may files get their names?
    AskPermit(u32),
    /// Receiver, behind `Finish`: so many more messages of names may come.
    WantNames(u32),
    /// Receiver: so much was removed, and why no more.
    Deleted(u64, Option<Error>),
    /// Receiver: everything is durable, but for what the destination's file system refused to keep.
    Finished(NotKept),

    /// Initiator: how many workers a stage.
    Setpoint(Concurrency),
    /// Initiator to sender: whether its streams are to yield to whatever else is on the path.
    Yield(bool),
    /// Initiator: tell your counters.
    Poll(u32),
    /// The other end's counters.
    Report(Record<CounterReport>),

    /// Third party, initiator to sender: run one epoch.
    Step(Record<Step>),
    /// Third party, sender to initiator: what the epoch showed.
    Stepped(Record<Stepped>),
    /// Receiver, and the sending endpoint to a third party, where it is only to be said: what would become of entries.
    Planned(#[serde(deserialize_with = "at_most::<OFFER_ENTRIES, _, _>")] Vec<Planned>),
    /// Third party, initiator to sender: so many more of these were heard.
    Heard(u32),

    /// Initiator: a request about files, with its number.
    File(u32, FileRequest),
    /// The endpoint: an answer to the request of that number.
    FileReply(u32, FileReply),
}

impl From<&Request> for Message {
    fn from(request: &Request) -> Self {
        Self::Request(request.kind.clone(), Record::of(&request.preamble))
    }
}

impl From<Request> for Message {
    fn from(request: Request) -> Self {
        Self::from(&request)
    }
}

impl Message {
    /// The endpoint agrees to this.
    pub fn accepted(agreement: &Agreement) -> Self {
        Self::Accepted(Record::of(agreement))
    }

    /// These are the counters for the poll of that number.
    pub fn report(number: u32, counters: Counters) -> Self {
        Self::Report(Record::of(&CounterReport { number, counters }))
    }
}

/// Encodes `message` with its length prefix.
pub fn encode<T: Serialize>(message: &T) -> Vec<u8> {
    let mut bytes = vec![0; 4];
    bytes = postcard::to_extend(message, bytes).expect("messages are plain data");
    let length = (bytes.len() - 4) as u32;
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    bytes
}

/// The length of the message that `bytes` begin with, its prefix included, once that is there.
pub(crate) fn announced(bytes: &[u8]) -> Option<usize> {
    let prefix = bytes.first_chunk::<4>()?;
    Some((u32::from_le_bytes(*prefix) as usize).saturating_add(4))
}

/// Takes one whole message off the front of `bytes`; `None` until enough bytes are there.
pub fn decode<T: for<'a> Deserialize<'a>>(bytes: &[u8], limit: usize) -> Result<Option<(T, usize)>> {
    let Some(length) = announced(bytes).map(|whole| whole - 4) else { return Ok(None) };
    if length > limit {
        return Err(Error::protocol(format!(
            "a message of {length} bytes; at most {limit} are allowed here"
        )));
    }
    let Some(body) = bytes.get(4..4 + length) else { return Ok(None) };
    match postcard::take_from_bytes(body) {
        Ok((message, [])) => Ok(Some((message, 4 + length))),
        _ => Err(Error::protocol("a message that cannot be read")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    use crate::spec::{MAX_PATHS, SourceSpec};
    use crate::wire::greeting::Hello;

    #[test]
    fn messages_survive_the_wire_in_pieces() {
        let message = Message::Hashes(vec![(1, 2, [3; 32]), (4, 5, [6; 32])]);
        let bytes = encode(&message);
        for end in 0..bytes.len() {
            assert_eq!(decode::<Message>(&bytes[..end], MAX_MESSAGE), Ok(None));
        }
        let (back, used) = decode::<Message>(&bytes, MAX_MESSAGE).expect("valid").expect("whole");
        assert_eq!((back, used), (message, bytes.len()));
    }

    #[test]
    fn lists_of_more_elements_than_any_honest_peer_sends_are_refused() {
        let counts = |n| Message::Taken(vec![(0, 0); n]);
        assert!(decode::<Message>(&encode(&counts(MAX_FRAMES)), MAX_MESSAGE).is_ok());
        assert!(decode::<Message>(&encode(&counts(MAX_FRAMES + 1)), MAX_MESSAGE).is_err());
        let paths = |n| {
            let source = SourceSpec::Files(vec![Vec::new(); n]);
            let kind = RequestKind::SendTo { source, destination: Vec::new(), pace_ms: (1, 1) };
            decode::<Message>(&encode(&Message::Request(kind, Record::default())), MAX_MESSAGE)
        };
        assert!(paths(MAX_PATHS).is_ok());
        assert!(paths(MAX_PATHS + 1).is_err());
    }

    #[test]
    fn oversized_messages_are_refused_before_they_are_read() {
        let bytes = u32::MAX.to_le_bytes();
        assert!(decode::<Message>(&bytes, MAX_UNAUTHENTICATED).is_err());
    }

    #[test]
    fn a_refusal_is_what_it_was_before_version_1() {
        let error = Error::protocol("no");
        assert_eq!(encode(&Message::Refused(error))[4..], [5, 8, 2, b'n', b'o']);
    }

    proptest! {
        #[test]
        fn garbage_never_panics(body in prop::collection::vec(any::<u8>(), 0..400)) {
            let mut bytes = (body.len() as u32).to_le_bytes().to_vec();
            bytes.extend(&body);
            match decode::<Message>(&bytes, MAX_MESSAGE) {
                Ok(Some((Message::Request(_, preamble), _))) => drop(preamble.read()),
                Ok(Some((Message::Accepted(agreement), _))) => drop(agreement.read()),
                _ => {}
            }
            let _ = crate::record::read::<Hello>(&body);
            let _ = crate::record::read::<Preamble>(&body);
            let _ = crate::record::read::<Stepped>(&body);
        }
    }
}
