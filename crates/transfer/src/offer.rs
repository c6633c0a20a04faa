//! What a sender offers at a time, what a receiver answers to each entry, and how it ends.

use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::bounded::at_most;
use crate::error::Error;
use crate::hash::Digest;
use crate::manifest::FileId;
use crate::plan::PlannedChange;
use crate::split::MAX_RANGES;
use crate::text::show;

/// Most entries offered and not yet ended: bounds memory on both ends, and is large enough that a
/// round trip of 100 ms does not limit small files to fewer than 80,000 a second.
pub const WINDOW: usize = 8192;

/// Most bytes of memory that they take.
pub(crate) const WINDOW_BYTES: usize = 4 << 20;

/// Entries in one offer.
pub const OFFER_ENTRIES: usize = 256;

/// As much as they take in memory, about: an offer of the longest paths is a message of ordinary length.
pub(crate) const OFFER_BYTES: usize = WINDOW_BYTES / 16;

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
    /// another verdict follows.
    Tell,
    /// It was asked to be left as it is.
    Leave,
    /// This would become of it, where it is only to be said.
    Would(PlannedChange),
    /// Send these bytes of it, each range from the start of a segment: the rest is there, or others send it.
    WantRanges(#[serde(deserialize_with = "at_most::<MAX_RANGES, _, _>")] Vec<Range<u64>>),
}

/// Why something of a source is not copied, which is no failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LeftOut {
    /// It is a device, a pipe or a socket.
    Special,
    /// It is a link that is followed, and leads to a directory that contains it.
    LinkBack,
}

impl LeftOut {
    /// Warns that `path` is left out.
    pub fn warn(self, path: &[u8]) {
        warn_left_out(path, &self);
    }
}

/// Where warnings are heard of what is left out on purpose. Whoever wants to hear of trouble alone can do without them.
pub const LEFT_OUT: &str = "tidegate_transfer::left_out";

/// Warns that `path` is left out, and says `why`.
pub fn warn_left_out(path: &[u8], why: &dyn fmt::Display) {
    tracing::warn!(target: LEFT_OUT, "left out {}: {why}", show(path));
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Special => "neither a file, a directory nor a link",
            Self::LinkBack => "a link back to a directory above it",
        })
    }
}

/// Most directories that are told of in one message.
pub(crate) const TOLD_DIRECTORIES: usize = 4096;

/// Names that a directory of the source holds, whether they were offered or not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectoryNames {
    /// Its path at the destination; empty for the destination's directory itself.
    pub directory: Vec<u8>,
    /// Whether it was named as a source.
    pub is_root: bool,
    /// The names in ascending order, a NUL byte behind each, after those of earlier messages.
    pub names: Vec<u8>,
    /// Whether these are the last.
    pub is_whole: bool,
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
