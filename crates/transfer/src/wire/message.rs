//! The messages of a session: length-prefixed postcard, both ways over TLS.
//!
//! ```text
//! +----------------+--------------------------+
//! | length (u32 LE)| message (postcard)       |
//! +----------------+--------------------------+
//! ```

use serde::{Deserialize, Serialize};
use tidegate_control::{Bounds, Concurrency, PerStage};

use crate::bounded::at_most;
use crate::counters::{CounterDetail, Counters, NotKept, Totals};
use crate::error::{Error, Result};
use crate::hash::Digest;
use crate::manifest::{Entry, FileId};
use crate::offer::{Again, DirectoryNames, LeftOut, OFFER_ENTRIES, Outcome, TOLD_DIRECTORIES, Verdict};
use crate::path::{MAX_PATH, MAX_PIECE};
use crate::plan::Planned;
use crate::selection::{Deletion, Selection, Taking};
use crate::spec::{Iperf3Test, MAX_PATHS, RunId, SinkSpec, SourcePlaces, SourceRoot, SourceSpec, TransferId};
use crate::split::Split;
use crate::terms::{Purpose, Terms};
use crate::wire::files::{FileReply, FileRequest};
use crate::wire::stepped::{StepDetail, Stepped};

/// The oldest and the newest protocol version spoken here. A peer offers a range; the highest common one is used.
pub const VERSIONS: (u16, u16) = (1, 13);

/// The version since which an endpoint can be asked for an iperf3 server.
pub(crate) const IPERF3_SINCE: u16 = 2;

/// The version since which a clear data stream proves itself without waiting for a nonce, one round trip sooner.
pub const PROMPT_SINCE: u16 = 3;

/// The version since which the initiator of a third-party transfer learns the round trip and may ask for short epochs.
pub(crate) const SHORT_EPOCHS_SINCE: u16 = 4;

/// The version since which an endpoint tells runs of one transfer apart, and streams that deliver nothing are replaced.
pub(crate) const RUN_SINCE: u16 = 5;

/// The version since which a sender can be asked for the hash of a file that looks changed, and a third party tells how
/// many files only got another mode or time.
pub(crate) const TELL_SINCE: u16 = 6;

/// The version since which an end tells of waits and streams with its counters, and a third party of how sure it is.
pub(crate) const DETAIL_SINCE: u16 = 7;

/// The version since which endpoints can be asked to measure between them by iperf3.
pub(crate) const IPERF3_BETWEEN_SINCE: u16 = 8;

/// The version since which a sender can be told what of its source to offer, and a receiver what to take of that.
pub(crate) const SELECTION_SINCE: u16 = 9;

/// The version since which it can be asked what a copy would do.
pub(crate) const PLAN_SINCE: u16 = 10;

/// The version since which an entry's path may be longer than the kernel takes at once.
const LONG_PATHS_SINCE: u16 = 10;

/// The longest path that a peer of this version takes.
pub(crate) fn longest_path(version: u16) -> usize {
    if version >= LONG_PATHS_SINCE { MAX_PATH } else { MAX_PIECE }
}

/// The version since which a receiver can be told to remove what the source does not have, and a sender what arrived.
pub(crate) const DELETION_SINCE: u16 = 10;

/// The version since which files can be asked about without a transfer.
pub(crate) const FILES_SINCE: u16 = 11;
/// The version since which an endpoint can be asked for a URL by which others read a path over HTTP.
pub(crate) const SHARE_SINCE: u16 = 11;
/// The version since which a receiver can be told to ask before files get their names.
pub(crate) const FENCE_SINCE: u16 = 11;
/// The version since which a sender can be told to yield to others.
pub(crate) const YIELD_SINCE: u16 = 11;
/// The version since which a test by iperf3 can leave its start out.
pub(crate) const OMITTED_SINCE: u16 = 11;
/// The version since which a sender tells where its sources lie.
pub(crate) const PLACES_SINCE: u16 = 11;
/// The version since which an end tells how long its workers worked.
pub(crate) const WORKED_SINCE: u16 = 11;

/// The version since which a receiver is told the mode of the directory whose contents it gets, and tells how much of modes
/// and times it could not keep.
pub(crate) const MODES_SINCE: u16 = 12;

/// The version since which whoever asked for a source is told what is left out of it.
pub(crate) const LEFT_OUT_SINCE: u16 = 13;

/// The highest version within both ranges.
pub(crate) fn common_version(ours: (u16, u16), theirs: (u16, u16)) -> Option<u16> {
    let version = ours.1.min(theirs.1);
    (version >= ours.0.max(theirs.0)).then_some(version)
}

/// Longest message before the peer has proved who it is, and after.
pub(crate) const MAX_UNAUTHENTICATED: usize = 64 << 10;
/// Longest message of an authenticated peer.
pub(crate) const MAX_MESSAGE: usize = 4 << 20;

/// Most elements of the lists in one message: what honest peers of every version keep within.
const MAX_SEGMENTS: usize = 32 << 10;
const MAX_FRAMES: usize = 8 << 10;
/// Longest report of iperf3: with 128 streams it prints some 100 kB.
pub(crate) const MAX_REPORT: usize = 1 << 20;

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
    /// Make a ticket that holds once, for an iperf3 server and nothing else: for the third party of a test; since version
    /// 8.
    OneTimeIperf3 {
        /// Whether data is to flow from the endpoint that is asked, not to it.
        reverse: bool,
    },
    /// Make this test by iperf3 against another endpoint; since version 8.
    Iperf3To {
        /// The other endpoint, with a one-time ticket.
        destination: Vec<u8>,
        /// What to measure.
        test: Iperf3Test,
        /// It is ended after so long, or when the session ends.
        limit_s: u32,
    },
    /// Answer what I ask about files, one after the other; since version 11.
    Files,
    /// Make a URL by which whoever has it reads `path` over HTTP; since version 11.
    Share {
        /// The only path it opens, and what is beneath.
        path: Vec<u8>,
        /// Seconds since 1970 after which it is void.
        expires: Option<u64>,
    },
}

impl Request {
    /// What the transfer that is asked for is for, if one is.
    pub fn purpose(&self) -> Option<Purpose> {
        match self {
            Self::Receive { terms, .. } | Self::Send { terms, .. } | Self::SendTo { terms, .. } => {
                Some(terms.purpose)
            }
            _ => None,
        }
    }

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
    Have(FileId, #[serde(deserialize_with = "at_most::<MAX_SEGMENTS, _, _>")] Vec<(u64, Digest)>),
    /// Receiver: what it wants of them, one each, in order.
    Verdicts {
        /// The number of the first one.
        first: FileId,
        /// One an entry.
        #[serde(deserialize_with = "at_most::<OFFER_ENTRIES, _, _>")]
        verdicts: Vec<Verdict>,
    },
    /// Sender: files found there differ, and come after all (unless nothing is to be written).
    Replace(#[serde(deserialize_with = "at_most::<MAX_FRAMES, _, _>")] Vec<FileId>),
    /// Sender: files found there are the same, with these root hashes; or just the hashes of those that were to be told.
    Keep(#[serde(deserialize_with = "at_most::<MAX_FRAMES, _, _>")] Vec<(FileId, Digest)>),
    /// Sender: hashes of whole segments, over the encrypted session.
    Hashes(#[serde(deserialize_with = "at_most::<MAX_FRAMES, _, _>")] Vec<(FileId, u64, Digest)>),
    /// Sender: a file will not be completed.
    Abandon(FileId, Error),
    /// Receiver: frames taken from each stream so far.
    Taken(#[serde(deserialize_with = "at_most::<MAX_FRAMES, _, _>")] Vec<(u32, u64)>),
    /// Receiver: a stream ended without its last frame.
    StreamLost(u32),
    /// Receiver: these bytes were damaged; send them again.
    Again(#[serde(deserialize_with = "at_most::<MAX_FRAMES, _, _>")] Vec<Again>),
    /// Receiver: how files ended.
    Done(#[serde(deserialize_with = "at_most::<MAX_FRAMES, _, _>")] Vec<(FileId, Outcome)>),
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
    Stepped(Option<Stepped>, PerStage<Bounds>),
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
    ShortEpochs(bool),

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
        #[serde(deserialize_with = "at_most::<MAX_FRAMES, _, _>")]
        streams: Vec<u32>,
        /// How long, in ms.
        for_ms: u32,
    },
    /// Sender, ahead of the request or behind `Single`: what it was told to send; since version 5.
    Roots(#[serde(deserialize_with = "at_most::<MAX_PATHS, _, _>")] Vec<SourceRoot>),

    /// Third party, sender to initiator, ahead of `Progress`: so many files that were there got another mode or time;
    /// since version 6.
    Refreshed(u64),

    /// The other end, ahead of `Report`: what it counted besides; since version 7.
    Detail(CounterDetail),
    /// Third party, sender to initiator, ahead of `Stepped`: what the epoch showed besides; since version 7.
    StepDetail(StepDetail),

    /// The endpoint that made a test: what iperf3 printed, in JSON; since version 8.
    Iperf3Report(#[serde(deserialize_with = "at_most::<MAX_REPORT, _, _>")] Vec<u8>),

    /// Initiator, ahead of its request: what of the source the endpoint is to offer; since version 9.
    Selection(Selection),
    /// Initiator or sender, ahead of its request: what the destination is to take of that; since version 9.
    Taking(Taking),

    /// Third party, sender to initiator, where it is only to be said: what would become of entries; since version 10.
    Planned(#[serde(deserialize_with = "at_most::<OFFER_ENTRIES, _, _>")] Vec<Planned>),
    /// Third party, initiator to sender: so many more of these were heard; since version 10.
    Heard(u32),
    /// Initiator or sender, ahead of its request: what the destination is to remove at the end, so that the sender will
    /// be asked for all names; since version 10.
    Deletion(Deletion),
    /// Initiator or sender, ahead of its request: the sender removes each file that is safe at the receiver, which says
    /// `Made` of those that were there once they are durable; since version 10.
    Moving,
    /// Receiver, behind `Finish`: so many more messages of names may come; since version 10.
    WantNames(u32),
    /// Sender: what directories hold, each behind the one that holds it; since version 10.
    Names(#[serde(deserialize_with = "at_most::<TOLD_DIRECTORIES, _, _>")] Vec<DirectoryNames>),
    /// Sender: these were all names, or why they cannot be told; since version 10.
    NamesEnd(Option<Error>),
    /// Receiver, and the sender to a third party: so much was removed, and why no more; since version 10.
    Deleted(u64, Option<Error>),

    /// Initiator: a request about files, with its number; since version 11.
    File(u32, FileRequest),
    /// The endpoint: an answer to the request of that number; since version 11.
    FileReply(u32, FileReply),
    /// The endpoint: a URL by which others read what was asked for; since version 11.
    Shared(String),
    /// Initiator and sender, ahead of its request: the receiver asks before files get their names; since version 11.
    Fenced,
    /// Receiver: may files get their names? Since version 11.
    AskPermit(u32),
    /// Sender, for the question of that number: for so many ms from when it was asked, or why not; since version 11.
    Permitted(u32, Result<u32>),

    /// Initiator to sender: whether its streams are to yield to whatever else is on the path; since version 11.
    Yield(bool),
    /// Initiator and sender, ahead of its request and behind `Fenced`: files that other transfers of the run move, too, and
    /// what this one does of them; since version 11.
    Split(Split),

    /// The other end, ahead of `Detail`: how long its workers worked, those included that were let go, in µs; since
    /// version 11.
    Worked(u64),
    /// Third party, sender to initiator, ahead of `Stepped`: workers that were let go and still worked; since version 11.
    Draining(PerStage<f64>),
    /// Sender, ahead of `Roots`: where that lies, in as many messages as it takes; since version 11.
    Places(SourcePlaces),

    /// Sender, behind `Roots`: the mode of the directory whose contents it sends, if it is one, for the directory that is
    /// made for them; since version 12.
    ContentsMode(Option<u32>),
    /// Receiver, and the sender to a third party: what the destination refused to keep; since version 12.
    NotKept(NotKept),

    /// Sender to a receiver that asked, and the sender to a third party ahead of `Progress`: this is left out of the source,
    /// and is no failure; since version 13.
    LeftOut(Vec<u8>, LeftOut),
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
pub(crate) fn decode<T: for<'a> Deserialize<'a>>(bytes: &[u8], limit: usize) -> Result<Option<(T, usize)>> {
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
    use tidegate_control::ByteCount;

    use crate::plan::PlannedChange;
    use crate::spec::Relation;

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
            let destination = Vec::new();
            let source = SourceSpec::Files(vec![Vec::new(); n]);
            let request = Request::SendTo { source, destination, pace_ms: (1, 1), terms: terms() };
            decode::<Message>(&encode(&Message::Request(request)), MAX_MESSAGE)
        };
        assert!(paths(MAX_PATHS).is_ok());
        assert!(paths(MAX_PATHS + 1).is_err());
    }

    fn terms() -> Terms {
        Terms { chunk: None, staging: ByteCount::mib(4), max_workers: 4, ..Terms::default() }
    }

    #[test]
    fn whoever_does_not_know_a_dry_run_cannot_take_it_for_a_copy() {
        // Until version 9 there was one bit in its place: whether both sides are only compared.
        let as_a_bit = |purpose| decode::<bool>(&encode(&purpose), MAX_MESSAGE);
        assert_eq!(as_a_bit(Purpose::Copy), Ok(Some((false, 5))));
        assert_eq!(as_a_bit(Purpose::Compare), Ok(Some((true, 5))));
        assert!(as_a_bit(Purpose::Plan).is_err(), "neither");
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
        assert_eq!(encode(&Message::ShortEpochs(true))[4..], [30, 1]);
        assert_eq!(encode(&Message::Overdue { streams: vec![7], for_ms: 9 })[4..], [32, 1, 7, 9]);
        assert_eq!(encode(&Message::Refreshed(3))[4..], [34, 3]);
        assert_eq!(encode(&Verdict::Tell)[4..], [5]);
        assert_eq!(encode(&Message::Detail(CounterDetail::default()))[4..], [35, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(encode(&Message::Selection(Selection::default()))[4..], [38, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(encode(&Message::Taking(Taking::default()))[4..], [39, 0, 0, 0]);
        assert_eq!(encode(&Verdict::Leave)[4..], [6]);
        assert_eq!(encode(&Verdict::Would(PlannedChange::new(true)))[4..], [7, 0, 0, 1]);
        assert_eq!(encode(&Message::Planned(Vec::new()))[4..], [40, 0]);
        assert_eq!(encode(&Message::Heard(3))[4..], [41, 3]);
        let deletion = Deletion { rules: Vec::new(), excluded: true, most: None, backup: None };
        assert_eq!(encode(&Message::Deletion(deletion))[4..], [42, 0, 1, 0, 0]);
        assert_eq!(encode(&Message::Moving)[4..], [43]);
        assert_eq!(encode(&Message::WantNames(8))[4..], [44, 8]);
        assert_eq!(encode(&Message::Names(Vec::new()))[4..], [45, 0]);
        assert_eq!(encode(&Message::NamesEnd(None))[4..], [46, 0]);
        assert_eq!(encode(&Message::Deleted(5, None))[4..], [47, 5, 0]);
        assert_eq!(encode(&Message::Request(Request::Files))[4..], [1, 7]);
        let stat = FileRequest::Stat { path: b"f".to_vec() };
        assert_eq!(encode(&Message::File(9, stat))[4..], [48, 9, 0, 1, b'f']);
        assert_eq!(encode(&Message::FileReply(9, FileReply::Done))[4..], [49, 9, 1]);
        assert_eq!(encode(&Request::Share { path: Vec::new(), expires: None })[4..], [8, 0, 0]);
        assert_eq!(encode(&Message::Shared(String::new()))[4..], [50, 0]);
        assert_eq!(encode(&Message::Fenced)[4..], [51]);
        assert_eq!(encode(&Message::AskPermit(1))[4..], [52, 1]);
        assert_eq!(encode(&Message::Permitted(1, Ok(7)))[4..], [53, 1, 0, 7]);
        assert_eq!(encode(&Message::Yield(true))[4..], [54, 1]);
        assert_eq!(encode(&Message::Split(Split::default()))[4..], [&[55][..], &[0; 17]].concat());
        assert_eq!(encode(&Message::Worked(7))[4..], [56, 7]);
        assert_eq!(encode(&Message::Draining(PerStage::all(0.0)))[4..], [&[57][..], &[0; 24]].concat());
        let places = SourcePlaces { host: [0; 16], known: vec![(Relation::SharedAbove, [0; 16])] };
        assert_eq!(encode(&Message::Places(places))[4..][16..20], [0, 1, 3, 0]);
        assert_eq!(encode(&Verdict::WantRanges(vec![0..7]))[4..], [8, 1, 0, 7]);
        assert_eq!(encode(&Message::ContentsMode(None))[4..], [59, 0]);
        assert_eq!(encode(&Message::LeftOut(b"p".to_vec(), LeftOut::Special))[4..], [61, 1, b'p', 0]);
        // What is skipped takes no byte, and what an epoch showed is as long as in version 6.
        let counters = Counters { detail: Some(CounterDetail::default()), ..Counters::default() };
        assert_eq!(encode(&counters), encode(&Counters::default()));
        assert_eq!(encode(&Message::Report(1, counters)).len(), 4 + 2 + 13);
        let seen = tidegate_control::Observation { waited: PerStage::all(Some(0.5)), ..Default::default() };
        let (stepped, detail) = crate::wire::stepped::split(&seen);
        assert_eq!(encode(&stepped).len(), 4 + 19);
        assert_eq!(crate::wire::stepped::join(&stepped, Some(detail)), seen);
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
