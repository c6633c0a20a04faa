//! What both ends of one transfer agree on.

use serde::{Deserialize, Serialize};
use tidegate_control::ByteCount;

use crate::congestion::CongestionTerms;
use crate::record::tagged;
use crate::throttle::Limits;

/// How the bulk travels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum DataPlane {
    /// TLS 1.3
    #[default]
    Tls,
    /// Not encrypted, bound to the session; the endpoint must allow it too
    Clear,
}

/// How content is checked. Every frame carries a checksum in either case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Verify {
    /// BLAKE3 end to end, as b3sum prints it
    #[default]
    Blake3,
    /// crc32c of every block: finds accidents, not attackers
    Block,
}

impl Verify {
    /// Its name, as it is chosen by.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Blake3 => "blake3",
            Self::Block => "block",
        }
    }
}

tidegate_control::named!(Verify);

/// What to do about symbolic links in the source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Links {
    /// Copy the link itself
    #[default]
    Keep,
    /// Leave links out
    Skip,
    /// Copy what they point to, if that lies within the source
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

/// What it is all for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Purpose {
    /// The source's files are to be at the destination.
    #[default]
    Copy,
    /// Both sides are only compared, as `tidegate verify` does: nothing is written at the destination, and a file that is
    /// missing there or differs counts as failed.
    Compare,
    /// It is only said what a copy would do: nothing is written anywhere.
    Plan,
}

/// What both ends of one transfer need to agree on.
#[derive(Clone, Debug, PartialEq)]
pub struct Terms {
    /// How the bulk travels.
    pub data_plane: DataPlane,
    /// How content is checked.
    pub verify: Verify,
    /// When a file counts as already there.
    pub compare: Compare,
    /// What it is all for.
    pub purpose: Purpose,
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
    /// Which congestion control streams have.
    pub congestion: CongestionTerms,
}

tagged!(Terms, "terms" {
    1 => data_plane,
    3 => verify,
    5 => compare,
    7 => purpose,
    9 => links,
    11 => chunk,
    13 => pipelining,
    15 => limits,
    17 => staging,
    19 => max_workers,
    20 => congestion,
});

impl Terms {
    /// Whether a stream's worker reads what it sends, for a file or a chunk that belongs to that stream alone: then
    /// there is no read stage, and no staging in which the streams' shares could crowd each other out.
    pub(crate) fn streams_read(&self) -> bool {
        self.chunk.is_none() || !self.pipelining
    }
}

/// What a transfer is like unless asked otherwise; others are made from it by struct update.
///
/// ```
/// use tidegate_transfer::terms::{Purpose, Terms, Verify};
///
/// let terms = Terms { verify: Verify::Block, ..Terms::default() };
/// assert!(terms.pipelining && terms.purpose == Purpose::Copy);
/// ```
impl Default for Terms {
    fn default() -> Self {
        Self {
            data_plane: DataPlane::default(),
            verify: Verify::default(),
            compare: Compare::default(),
            purpose: Purpose::default(),
            links: Links::default(),
            chunk: Some(ByteCount::mib(64)),
            pipelining: true,
            limits: Limits::default(),
            staging: ByteCount::mib(16),
            max_workers: 16,
            congestion: CongestionTerms::default(),
        }
    }
}
