//! What an initiator asks of an endpoint, all in one message, and what the endpoint agrees to.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::hash::Digest;
use crate::record::{Record, tagged};
use crate::selection::{Deletion, Selection, Taking};
use crate::spec::{Iperf3Test, MAX_PATHS, RunId, SinkSpec, SourceSpec, Sources, TransferId};
use crate::split::Split;
use crate::terms::{Purpose, Terms};
use crate::wire::greeting::Capability;

/// What an endpoint is asked to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum RequestKind {
    /// Receive what I send.
    Receive {
        /// Names the transfer.
        id: TransferId,
        /// Where to put it.
        sink: SinkSpec,
    },
    /// Send me this.
    Send {
        /// From where.
        source: SourceSpec,
    },
    /// Send this to another endpoint (third-party).
    SendTo {
        /// From where.
        source: SourceSpec,
        /// The other endpoint, with a one-time ticket and the path; zeros go nowhere there.
        destination: Vec<u8>,
        /// Length of an epoch and of its settling time, in ms.
        pace_ms: (u32, u32),
    },
    /// Make a ticket that holds once, for writing to `path`: for the third party of a transfer.
    OneTimeTicket {
        /// The only path it opens.
        path: Vec<u8>,
    },
    /// Run an iperf3 server for one test of mine.
    Iperf3 {
        /// It is ended after so long, or when the session ends.
        limit_s: u32,
    },
    /// Make a ticket that holds once, for an iperf3 server and nothing else: for the third party of a test.
    OneTimeIperf3 {
        /// Whether data is to flow from the endpoint that is asked, not to it.
        reverse: bool,
    },
    /// Make this test by iperf3 against another endpoint.
    Iperf3To {
        /// The other endpoint, with a one-time ticket.
        destination: Vec<u8>,
        /// What to measure.
        test: Iperf3Test,
        /// It is ended after so long, or when the session ends.
        limit_s: u32,
    },
    /// Answer what I ask about files, one after the other.
    Files,
    /// Make a URL by which whoever has it reads `path` over HTTP.
    Share {
        /// The only path it opens, and what is beneath.
        path: Vec<u8>,
        /// Seconds since 1970 after which it is void.
        expires: Option<u64>,
    },
}

impl RequestKind {
    /// A request for it under these terms.
    pub fn under(self, terms: Terms) -> Request {
        Request { kind: self, preamble: Preamble { terms, ..Preamble::default() } }
    }
}

/// Which run of a transfer a session is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Names the run.
    pub id: RunId,
    /// How long a stream may deliver nothing before it is replaced, in ms.
    pub stall_ms: u32,
}

impl Run {
    /// The run `id`, with that patience.
    pub fn new(id: RunId, stall: Duration) -> Self {
        Self { id, stall_ms: u32::try_from(stall.as_millis()).unwrap_or(u32::MAX) }
    }

    /// How long a stream may deliver nothing.
    pub fn stall(&self) -> Duration {
        Duration::from_millis(self.stall_ms.into())
    }
}

/// What holds for all that is asked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Preamble {
    /// Which run it is of.
    pub run: Option<Run>,
    /// What both ends agree on.
    pub terms: Terms,
    /// What of its source the endpoint is to offer. Whoever sends says here what it leaves out of its own by rules: a
    /// destination that lies there may lie in the source.
    pub selection: Selection,
    /// What the destination takes of what is offered.
    pub taking: Taking,
    /// What is removed at the destination at the end.
    pub deletion: Option<Deletion>,
    /// Whether files are removed at the source once they have arrived.
    pub moving: bool,
    /// Whether the receiver asks before files get their names.
    pub fenced: bool,
    /// Files that other transfers of the run move, too.
    pub split: Option<Split>,
    /// What will be sent, and where that lies.
    pub sources: Sources,
    /// The mode of the directory whose contents will be sent, for the one that is made for them.
    pub contents_mode: Option<u32>,
}

tagged!(Preamble, "what was said of a transfer" {
    2 => run,
    3 => terms: record,
    5 => selection: record,
    7 => taking: record,
    9 => deletion: optional,
    11 => moving,
    13 => fenced,
    15 => split: optional,
    17 => sources: record,
    18 => contents_mode,
});

tagged!(Sources, "where sources lie" { 1 => roots: list[MAX_PATHS], 3 => places: record, });

impl Preamble {
    /// Refuses what contradicts itself: whatever is moved away would be deleted at the destination by the next run.
    pub(crate) fn check(&self) -> Result<()> {
        match self.moving && self.deletion.is_some() {
            true => Err(Error::new(
                ErrorKind::Usage,
                "files are moved away from the source, and what it lacks is to be deleted at the destination: leave one of both out",
            )),
            false => Ok(()),
        }
    }

    fn memory(&self) -> usize {
        self.sources.memory()
            + self.selection.memory()
            + self.deletion.as_ref().map_or(0, Deletion::memory)
            + self.split.as_ref().map_or(0, Split::memory)
    }
}

/// What is asked, and what holds for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// What is to be done.
    pub kind: RequestKind,
    /// What holds for it.
    pub preamble: Preamble,
}

impl From<RequestKind> for Request {
    fn from(kind: RequestKind) -> Self {
        Self { kind, preamble: Preamble::default() }
    }
}

impl Request {
    /// What a message said.
    pub(crate) fn read(kind: RequestKind, preamble: &Record<Preamble>) -> Result<Self> {
        Ok(Self { kind, preamble: preamble.read()? })
    }

    /// What the transfer that is asked for is for, if one is.
    pub fn purpose(&self) -> Option<Purpose> {
        match self.kind {
            RequestKind::Receive { .. } | RequestKind::Send { .. } | RequestKind::SendTo { .. } => {
                Some(self.preamble.terms.purpose)
            }
            _ => None,
        }
    }

    /// What an endpoint must know to do it.
    pub fn needs(&self) -> Vec<Capability> {
        let preamble = &self.preamble;
        [
            (self.purpose() == Some(Purpose::Plan), Capability::Plan),
            (preamble.deletion.is_some(), Capability::Delete),
            (preamble.moving, Capability::Move),
            (preamble.fenced || preamble.split.is_some(), Capability::Lease),
            (self.kind == RequestKind::Files, Capability::Files),
            (matches!(self.kind, RequestKind::Share { .. }), Capability::Share),
            (
                matches!(
                    self.kind,
                    RequestKind::Iperf3 { .. }
                        | RequestKind::OneTimeIperf3 { .. }
                        | RequestKind::Iperf3To { .. }
                ),
                Capability::Iperf3,
            ),
        ]
        .into_iter()
        .filter_map(|(is_needed, capability)| is_needed.then_some(capability))
        .collect()
    }

    /// What it takes in memory, with what is kept of each path that it names.
    pub fn memory(&self) -> usize {
        const EACH: usize = 256;
        let paths = match &self.kind {
            RequestKind::Send { source: SourceSpec::Files(paths) }
            | RequestKind::SendTo { source: SourceSpec::Files(paths), .. } => {
                paths.iter().map(|path| EACH + 2 * path.len()).sum()
            }
            _ => 0,
        };
        paths + self.preamble.memory()
    }
}

/// What an endpoint agrees to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Agreement {
    /// What binds data streams to this session.
    pub token: Digest,
    /// Of a sender: whether the source is one single file.
    pub single: bool,
    /// Of a sender: what it was told to send, and where that lies.
    pub sources: Sources,
    /// Of a sender: the mode of the directory whose contents it sends.
    pub contents_mode: Option<u32>,
    /// Of a third party: the shortest round trip of the path so far, in µs; `None` if it is not known.
    pub round_trip_us: Option<u64>,
    /// Why streams cannot have the congestion control there that was asked for, if they cannot.
    pub congestion_refused: Option<Error>,
}

tagged!(Agreement, "an agreement" {
    1 => token,
    3 => single,
    5 => sources: record,
    6 => contents_mode,
    8 => round_trip_us,
    10 => congestion_refused,
});
