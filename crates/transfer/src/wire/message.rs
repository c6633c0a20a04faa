//! The messages of a session: length-prefixed postcard, both ways over TLS.
//!
//! ```text
//! +----------------+--------------------------+
//! | length (u32 LE)| message (postcard)       |
//! +----------------+--------------------------+
//! ```

use std::ops::Range;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate_control::{Arrival, Bounds, ByteCount, Concurrency, Observation, PerStage, Remaining};

use crate::error::{Error, Result};
use crate::hash::Digest;
use crate::manifest::{Entry, FileId};
use crate::sys::identity::Identity;
use crate::sys::processors::CpuTime;
use crate::throttle::Limits;
use crate::wire::bounded::at_most;

/// The oldest and the newest protocol version spoken here. A peer offers a range; the highest common one is used.
pub const VERSIONS: (u16, u16) = (1, 6);

/// The version since which an endpoint can be asked for an iperf3 server.
pub const IPERF3_SINCE: u16 = 2;

/// The version since which a clear data stream proves itself without waiting for a nonce, one round trip sooner.
pub const PROMPT_SINCE: u16 = 3;

/// The version since which the initiator of a third-party transfer learns the round trip and may hurry epochs.
pub const HURRY_SINCE: u16 = 4;

/// The version since which an endpoint tells runs of one transfer apart, and streams that deliver nothing are replaced.
pub const RUN_SINCE: u16 = 5;

/// The version since which a sender can be asked for the hash of a file that looks changed, and a third party tells how
/// many files only got another mode or time.
pub const TELL_SINCE: u16 = 6;

/// The highest version within both ranges.
pub fn common_version(ours: (u16, u16), theirs: (u16, u16)) -> Option<u16> {
    let version = ours.1.min(theirs.1);
    (version >= ours.0.max(theirs.0)).then_some(version)
}

/// Longest message before the peer has proved who it is, and after.
pub const MAX_UNAUTHENTICATED: usize = 64 << 10;
/// Longest message of an authenticated peer.
pub const MAX_MESSAGE: usize = 4 << 20;

/// Most entries offered and not yet ended: bounds memory on both ends, and is large enough that a
/// round trip of 100 ms does not limit small files to fewer than 80,000 a second.
pub const WINDOW: usize = 8192;

/// Most bytes of memory that they take.
pub const WINDOW_BYTES: usize = 4 << 20;

/// Entries in one offer.
pub const OFFER_ENTRIES: usize = 256;

/// Most elements of the lists in one message: what honest peers of every version keep within.
const SEGMENTS: usize = 32 << 10;
const FRAMES: usize = 8 << 10;
const FAILURES: usize = 500;
const PATHS: usize = 64 << 10;

/// Sixteen bytes that name one transfer: equal for the same source and destination, so that a
/// second run finds the first one's journal.
pub type TransferId = [u8; 16];

/// Sixteen random bytes that name one run of a command: its later tries take over from its earlier ones, and another
/// run does not.
pub type RunId = [u8; 16];

/// How the bulk travels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DataPlane {
    /// TLS 1.3.
    #[default]
    Tls,
    /// Not encrypted; bound to the session by a keyed token. Both ends must ask for it.
    Clear,
}

/// How content is checked. Every frame carries a checksum in either case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verify {
    /// BLAKE3 end to end, the expected hashes sent over the encrypted session.
    #[default]
    Blake3,
    /// crc32c alone: finds accidents, not attackers.
    Block,
}

/// What to do about symbolic links in the source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Links {
    /// Copy the link itself.
    #[default]
    Keep,
    /// Leave links out.
    Skip,
    /// Copy what a link points to, as long as that lies within the source tree.
    Follow,
}

/// Which files the receiver may take for being there already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Compare {
    /// Same size and mtime, and a root hash recorded when it was verified.
    #[default]
    Recorded,
    /// Both sides read the file again.
    Checksum,
}

/// What both ends of one transfer need to agree on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Terms {
    /// How the bulk travels.
    pub data_plane: DataPlane,
    /// How content is checked.
    pub verify: Verify,
    /// When a file counts as already there.
    pub compare: Compare,
    /// Whether anything is written at all; `tidegate verify` only compares.
    pub dry: bool,
    /// What to do about symbolic links.
    pub links: Links,
    /// Bytes given to one worker at a time; `None` gives each file to one worker.
    pub chunk: Option<ByteCount>,
    /// Whether a connection serves file after file (infinite pipelining) or just one.
    pub pipelining: bool,
    /// Rates to keep.
    pub limits: Limits,
    /// Staging at each end.
    pub staging: ByteCount,
    /// Most workers a stage.
    pub max_workers: u16,
}

/// What the memory routes move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// How much, at most.
    pub bytes: ByteCount,
}

/// Where data comes from, as told to an endpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum SourceSpec {
    /// Files beneath the endpoint's root; a trailing slash means the contents.
    Files(#[serde(deserialize_with = "at_most::<PATHS, _, _>")] Vec<Vec<u8>>),
    /// Zeros from memory.
    Zero(Memory),
}

/// Where data goes to, as told to an endpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum SinkSpec {
    /// A path beneath the endpoint's root; a trailing slash means a directory.
    Files {
        /// The path as typed.
        path: Vec<u8>,
        /// Whether the source is one single file, which may then be given a new name.
        single: bool,
    },
    /// Nowhere.
    Null,
}

/// One thing that a sender was told to send.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceRoot {
    /// What it is called at the destination; empty for a directory's contents.
    pub name: Vec<u8>,
    /// Which one it is, if the receiver is on the same host.
    pub identity: Identity,
}

/// What the initiator asks of an endpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Request {
    /// Receive what I send.
    Receive {
        /// Names the transfer.
        id: TransferId,
        /// Where to put it.
        sink: SinkSpec,
        /// How.
        terms: Terms,
    },
    /// Send me this.
    Send {
        /// From where.
        source: SourceSpec,
        /// How.
        terms: Terms,
    },
    /// Send this to another endpoint (third-party).
    SendTo {
        /// From where.
        source: SourceSpec,
        /// The other endpoint, with a one-time ticket and the path; zeros go nowhere there.
        destination: Vec<u8>,
        /// Length of an epoch and of its settling time, in ms.
        pace_ms: (u32, u32),
        /// How.
        terms: Terms,
    },
    /// Make a ticket that holds once, for writing to `path`: for the third party of a transfer.
    OneTimeTicket {
        /// The only path it opens.
        path: Vec<u8>,
    },
    /// Run an iperf3 server for one test of mine; since version 2.
    Iperf3 {
        /// It is ended after so long, or when the session ends.
        limit_s: u32,
    },
}

impl Request {
    /// What it takes in memory, with what is kept of each path that it names.
    pub fn memory(&self) -> usize {
        const EACH: usize = 256;
        match self {
            Self::Send { source: SourceSpec::Files(paths), .. }
            | Self::SendTo { source: SourceSpec::Files(paths), .. } => {
                paths.iter().map(|path| EACH + 2 * path.len()).sum()
            }
            _ => 0,
        }
    }
}

impl SourceRoot {
    /// What these take in memory.
    pub fn memory(roots: &[Self]) -> usize {
        roots.iter().map(|root| size_of::<Self>() + root.name.len()).sum()
    }
}

/// What one end counted so far; rates are differences over its own clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// The end's monotonic clock, in µs.
    pub at_us: u64,
    /// Bytes read from the source.
    pub read: u64,
    /// Bytes given to the network (sender) or taken from it (receiver).
    pub network: u64,
    /// Bytes written to the sink.
    pub written: u64,
    /// Bytes of staging in use.
    pub staging_used: u64,
    /// Bytes of staging.
    pub staging_capacity: u64,
    /// TCP segments sent, over all streams.
    pub segments_sent: u64,
    /// TCP segments sent again.
    pub retransmits: u64,
    /// Smoothed round-trip time of the streams in µs; 0 if unknown.
    pub rtt_us: u64,
    /// The end's processor time.
    pub cpu: CpuTime,
}

impl Counters {
    /// The streams' round-trip time, if it is known.
    pub fn rtt(&self) -> Option<Duration> {
        (self.rtt_us > 0).then(|| Duration::from_micros(self.rtt_us))
    }
}

/// What became of one offered entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Verdict {
    /// Send it, less what is there from an earlier run: segments and their hashes.
    Want {
        /// Segments verified by an earlier run.
        #[serde(deserialize_with = "at_most::<OFFER_ENTRIES, _, _>")]
        have: Vec<(u64, Digest)>,
    },
    /// It is there and verified.
    Skip,
    /// It is created; nothing needs to be sent.
    Made,
    /// A file of the same size is there with this root hash; compare.
    Exists(Digest),
    /// It cannot be received.
    Failed(Error),
    /// Something of the same size was verified there, and only its time is another: tell your root hash (`Keep`), and
    /// another verdict follows; since version 6.
    Tell,
}

/// How a file ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Outcome {
    /// Complete, verified, durable and visible.
    Committed,
    /// Not there; the old content, if any, is untouched.
    Failed(Error),
}

/// A range of a file that must come again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Again {
    /// Which file.
    pub file: FileId,
    /// Which bytes.
    pub range: Range<u64>,
}

/// How a session begins, inside TLS and before anything else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Oldest and newest version spoken.
    pub versions: (u16, u16),
    /// What the ticket allows, as the endpoint wrote it; `None` with mutual TLS.
    pub claims: Option<Vec<u8>>,
    /// Proof of knowing the ticket's secret, bound to this TLS connection.
    pub proof: Digest,
}

/// Everything said in a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Message {
    /// The endpoint accepts the peer, with the version to use.
    Welcome(u16),
    /// The initiator asks.
    Request(Request),
    /// The endpoint agrees; data streams show `token`.
    Accepted {
        /// What binds data streams to this session.
        token: Digest,
    },
    /// A one-time ticket, as it stands in an address.
    Ticket(String),
    /// The endpoint as a sender: whether the source is one single file.
    Single(bool),
    /// The endpoint or the peer gives up.
    Refused(Error),

    /// Sender: entries, numbered from `first`.
    Offer {
        /// The number of the first one.
        first: FileId,
        /// In the order they were found.
        #[serde(deserialize_with = "at_most::<OFFER_ENTRIES, _, _>")]
        entries: Vec<Entry>,
    },
    /// Receiver: segments of a file from an earlier run, ahead of its verdict when they are many.
    Have(FileId, #[serde(deserialize_with = "at_most::<SEGMENTS, _, _>")] Vec<(u64, Digest)>),
    /// Receiver: what it wants of them, one each, in order.
    Verdicts {
        /// The number of the first one.
        first: FileId,
        /// One an entry.
        #[serde(deserialize_with = "at_most::<OFFER_ENTRIES, _, _>")]
        verdicts: Vec<Verdict>,
    },
    /// Sender: files found there differ, and come after all (unless nothing is to be written).
    Replace(#[serde(deserialize_with = "at_most::<FRAMES, _, _>")] Vec<FileId>),
    /// Sender: files found there are the same, with these root hashes; or just the hashes of those that were to be told.
    Keep(#[serde(deserialize_with = "at_most::<FRAMES, _, _>")] Vec<(FileId, Digest)>),
    /// Sender: hashes of whole segments, over the encrypted session.
    Hashes(#[serde(deserialize_with = "at_most::<FRAMES, _, _>")] Vec<(FileId, u64, Digest)>),
    /// Sender: a file will not be completed.
    Abandon(FileId, Error),
    /// Receiver: frames taken from each stream so far.
    Taken(#[serde(deserialize_with = "at_most::<FRAMES, _, _>")] Vec<(u32, u64)>),
    /// Receiver: a stream ended without its last frame.
    StreamLost(u32),
    /// Receiver: these bytes were damaged; send them again.
    Again(#[serde(deserialize_with = "at_most::<FRAMES, _, _>")] Vec<Again>),
    /// Receiver: how files ended.
    Done(#[serde(deserialize_with = "at_most::<FRAMES, _, _>")] Vec<(FileId, Outcome)>),
    /// Sender: something could not even be offered.
    Problem(Vec<u8>, Error),
    /// Sender: everything has been offered.
    Listed,
    /// Sender: every offered file has ended; nothing more comes.
    Finish,
    /// Receiver: everything is durable.
    Finished,

    /// Initiator: how many workers a stage.
    Setpoint(Concurrency),
    /// Initiator: tell your counters.
    Poll(u32),
    /// The other end's counters, for the poll of that number.
    Report(u32, Counters),

    /// Third party, initiator to sender: run one epoch with this set-point.
    Step(Concurrency),
    /// Third party, sender to initiator: what the epoch showed and what may be asked for next.
    Stepped(Option<Observation>, PerStage<Bounds>),
    /// Third party: the totals so far.
    Progress(Totals),
    /// Stop; keep what is needed to resume.
    Stop,

    /// The endpoint: an iperf3 server listens on this port of the address that the session reached; since version 2.
    Iperf3 {
        /// The port.
        port: u16,
    },

    /// Third party, sender to initiator, behind `Accepted`: the round trip of the path in µs, the shortest known so far
    /// (0 for none); since version 4.
    RoundTrip(u64),
    /// Third party, initiator to sender: whether the next epochs may be short ones; since version 4.
    Hurry(bool),

    /// Initiator, ahead of its request: which run this is, and how long a stream may deliver nothing; since version 5.
    Run {
        /// Which run.
        id: RunId,
        /// How long, in ms.
        stall_ms: u32,
    },
    /// Sender: nothing of what was sent on these streams has been confirmed for so long; since version 5.
    Overdue {
        /// Which streams.
        #[serde(deserialize_with = "at_most::<FRAMES, _, _>")]
        streams: Vec<u32>,
        /// How long, in ms.
        for_ms: u32,
    },
    /// Sender, ahead of the request or behind `Single`: what it was told to send; since version 5.
    Roots(#[serde(deserialize_with = "at_most::<PATHS, _, _>")] Vec<SourceRoot>),

    /// Third party, sender to initiator, ahead of `Progress`: so many files that were there got another mode or time;
    /// since version 6.
    Refreshed(u64),
}

/// How far a transfer has come.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// Files listed so far.
    pub files_listed: u64,
    /// Files committed.
    pub files_done: u64,
    /// Files that were there already.
    pub files_skipped: u64,
    /// Files that failed.
    pub files_failed: u64,
    /// Bytes listed so far.
    pub bytes_listed: u64,
    /// Bytes of files that need not be sent: skipped, or there from an earlier run.
    pub bytes_skipped: u64,
    /// Bytes of committed files that had to be moved.
    pub bytes_done: u64,
    /// Bytes moved, repeats included.
    pub bytes_moved: u64,
    /// Bytes moved more than once.
    pub bytes_again: u64,
    /// Whether the whole source has been listed.
    pub listed: bool,
    /// Failures since the last report.
    #[serde(deserialize_with = "at_most::<FAILURES, _, _>")]
    pub failures: Vec<(Vec<u8>, Error)>,
}

impl Totals {
    /// How much has arrived, where so many of the bytes moved are still on their way.
    pub fn arrival(&self, in_flight: u64) -> Arrival {
        let wanted = self.bytes_listed.saturating_sub(self.bytes_skipped);
        // What is moved and not yet committed counts too, as long as it is not more than there is.
        let moved = self.bytes_moved.saturating_sub(self.bytes_again).saturating_sub(in_flight);
        let new = moved.max(self.bytes_done).min(wanted);
        Arrival {
            bytes: ByteCount(self.bytes_skipped.saturating_add(new)),
            new_bytes: ByteCount(new),
            total_bytes: self.listed.then_some(ByteCount(self.bytes_listed)),
        }
    }

    /// What is left to move, once everything has been listed.
    pub fn remaining(&self) -> Option<Remaining> {
        let left = |all: u64, done: u64, skipped: u64| all.saturating_sub(done).saturating_sub(skipped);
        self.listed.then(|| Remaining {
            bytes: ByteCount(left(self.bytes_listed, self.bytes_done, self.bytes_skipped)),
            files: left(self.files_listed, self.files_done, self.files_skipped + self.files_failed),
        })
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
pub fn announced(bytes: &[u8]) -> Option<usize> {
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
        assert!(decode::<Message>(&encode(&counts(FRAMES)), MAX_MESSAGE).is_ok());
        assert!(decode::<Message>(&encode(&counts(FRAMES + 1)), MAX_MESSAGE).is_err());
        let paths = |n| {
            let destination = Vec::new();
            let source = SourceSpec::Files(vec![Vec::new(); n]);
            let request = Request::SendTo { source, destination, pace_ms: (1, 1), terms: terms() };
            decode::<Message>(&encode(&Message::Request(request)), MAX_MESSAGE)
        };
        assert!(paths(PATHS).is_ok());
        assert!(paths(PATHS + 1).is_err());
    }

    fn terms() -> Terms {
        Terms {
            data_plane: DataPlane::Tls,
            verify: Verify::Blake3,
            compare: Compare::Recorded,
            dry: false,
            links: Links::Keep,
            chunk: None,
            pipelining: true,
            limits: Limits::default(),
            staging: ByteCount::mib(4),
            max_workers: 4,
        }
    }

    #[test]
    fn oversized_messages_are_refused_before_they_are_read() {
        let bytes = u32::MAX.to_le_bytes();
        assert!(decode::<Message>(&bytes, MAX_UNAUTHENTICATED).is_err());
    }

    #[test]
    fn the_highest_common_version_is_used() {
        for (theirs, version) in [
            ((1, 1), Some(1)),
            ((1, 2), Some(2)),
            ((2, 9), Some(2)),
            ((3, 9), None),
            ((0, 0), None),
            ((2, 1), None),
        ] {
            assert_eq!(common_version((1, 2), theirs), version, "{theirs:?}");
        }
    }

    #[test]
    fn what_is_newer_changes_no_byte_of_what_is_older() {
        // The numbers that version 1 gave to its last messages.
        assert_eq!(encode(&Message::Stop)[4..], [27]);
        assert_eq!(encode(&Request::OneTimeTicket { path: Vec::new() })[4..], [3, 0]);
        assert_eq!(encode(&Message::Request(Request::Iperf3 { limit_s: 60 }))[4..], [1, 4, 60]);
        assert_eq!(encode(&Message::Iperf3 { port: 5201 })[4..], [28, 0xd1, 0x28]);
        assert_eq!(encode(&Message::Hurry(true))[4..], [30, 1]);
        assert_eq!(encode(&Message::Overdue { streams: vec![7], for_ms: 9 })[4..], [32, 1, 7, 9]);
        assert_eq!(encode(&Message::Refreshed(3))[4..], [34, 3]);
        assert_eq!(encode(&Verdict::Tell)[4..], [5]);
    }

    proptest! {
        #[test]
        fn garbage_never_panics(body in prop::collection::vec(any::<u8>(), 0..400)) {
            let mut bytes = (body.len() as u32).to_le_bytes().to_vec();
            bytes.extend(body);
            let _ = decode::<Message>(&bytes, MAX_MESSAGE);
            let _ = decode::<Hello>(&bytes, MAX_UNAUTHENTICATED);
        }
    }
}
