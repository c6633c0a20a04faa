//! What a transfer is called, where its data comes from and where it goes.

use serde::{Deserialize, Serialize};
use tidegate_control::ByteCount;

use crate::bounded::at_most;
use crate::error::{Error, ErrorKind, Result};
use crate::record::tagged;
use crate::sys::identity::FileIdentity;

/// Sixteen bytes that name one transfer: equal for the same source and destination, so that a
/// second run finds the first one's journal.
pub type TransferId = [u8; 16];

/// Sixteen random bytes that name one run of a command: its later tries take over from its earlier ones, and another
/// run does not.
pub type RunId = [u8; 16];

/// What the memory routes move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// How much, at most.
    pub bytes: ByteCount,
}

/// Most paths in one list.
pub(crate) const MAX_PATHS: usize = 64 << 10;

/// Where data comes from, as told to an endpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum SourceSpec {
    /// Files beneath the endpoint's root; a trailing slash means the contents.
    Files(#[serde(deserialize_with = "at_most::<MAX_PATHS, _, _>")] Vec<Vec<u8>>),
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

/// How much a test by iperf3 is to move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Iperf3Amount {
    /// As much as goes in so many seconds.
    Seconds(u32),
    /// So much.
    Bytes(ByteCount),
    /// As much as goes in so many seconds after others that do not count.
    SecondsAfter {
        /// Of the start, that do not count.
        omitted: u32,
        /// That count.
        measured: u32,
    },
}

/// A test by iperf3 that one endpoint makes against another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Iperf3Test {
    /// How many streams at a time.
    pub streams: u16,
    /// How much.
    pub amount: Iperf3Amount,
    /// Whether data flows to the endpoint that is asked, not from it.
    pub reverse: bool,
    /// The buffer of each socket; the system's choice if absent.
    pub buffer: Option<ByteCount>,
}

/// One thing that a sender was told to send.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceRoot {
    /// What it is called at the destination; empty for a directory's contents.
    pub name: Vec<u8>,
    /// Which one it is, if the receiver is on the same host.
    pub identity: FileIdentity,
}

/// What an identity says of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Relation {
    /// It is a directory that was named, or is mounted beneath one.
    Source,
    /// It contains that in its file system.
    Above,
    /// As `Source`, for hosts that have the same file system.
    SharedSource,
    /// As `Above`, for those.
    SharedAbove,
}

/// Most identities that a sender tells.
const MAX_PLACES: usize = 256 << 10;

/// Where sources lie, told so that who receives them neither removes them nor writes there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourcePlaces {
    /// The sender's host.
    pub host: FileIdentity,
    /// Identities, with what each says.
    pub known: Vec<(Relation, FileIdentity)>,
}

tagged!(SourcePlaces, "places of sources" { 1 => host, 3 => known: list[MAX_PLACES], });

/// All that a sender told of what it sends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    /// What was named.
    pub roots: Vec<SourceRoot>,
    /// Where that lies.
    pub places: SourcePlaces,
}

impl Sources {
    /// Refuses more than any honest sender has.
    pub(crate) fn check_size(&self) -> Result<()> {
        match self.places.known.len() > MAX_PLACES {
            true => {
                let why = format!("the sources lie in more than {MAX_PLACES} directories: copy in parts");
                Err(Error::new(ErrorKind::Usage, why))
            }
            false => Ok(()),
        }
    }

    /// What they take in memory.
    pub fn memory(&self) -> usize {
        let names = self.roots.iter().map(|root| size_of::<SourceRoot>() + root.name.len());
        names.sum::<usize>() + size_of_val(&self.places.known[..])
    }
}
