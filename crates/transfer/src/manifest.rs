//! What is to be moved: entries in the order they are found, and the pieces they are moved in.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::path::RelPath;
use crate::record::{Record, tagged};

/// One staging buffer and one frame of a large file: 128 KiB keeps both ends' buffers in the
/// processor's second-level cache (twice the throughput of 1 MiB, docs/decisions/0003).
pub const BLOCK: u64 = 128 << 10;

/// What is hashed, journalled and re-sent as one: 32 blocks.
pub const SEGMENT: u64 = 4 << 20;

/// Longest file that any file system here holds (`off_t`); a peer that claims more is refused.
pub const MAX_SIZE: u64 = i64::MAX as u64;

/// A file's number within one transfer.
pub type FileId = u32;

/// A point in time as file systems keep it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Timestamp {
    /// Seconds since 1970.
    pub seconds: i64,
    /// Nanoseconds within the second.
    pub nanoseconds: u32,
}

/// What tells one version of a source file from the next: a hash over inode, size, mtime and ctime at
/// the source. Opaque to the receiver, equal only if nothing touched the file.
pub type Fingerprint = [u8; 16];

/// What an entry is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// A regular file.
    File {
        /// Its size in bytes.
        size: u64,
        /// Which version of it was listed.
        fingerprint: Fingerprint,
    },
    /// A directory; listed before what it contains.
    Directory,
    /// A symbolic link, copied as it is.
    Symlink {
        /// Where it points to, as written.
        target: Vec<u8>,
    },
}

/// One thing to create at the destination.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Where, relative to the destination.
    pub path: RelPath,
    /// What.
    pub kind: Kind,
    /// Permission bits, at most 0o777.
    pub mode: u32,
    /// Time of the last modification.
    pub mtime: Timestamp,
    /// What else there is to it.
    pub extras: Record<Extras>,
}

/// What an entry may have besides. Nothing is known of it yet: what comes to be gets a field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extras {}

tagged!(Extras, "an entry" {});

impl Entry {
    /// One without extras.
    pub fn new(path: RelPath, kind: Kind, mode: u32, mtime: Timestamp) -> Self {
        Self { path, kind, mode, mtime, extras: Record::default() }
    }

    /// Bytes that it takes in memory while it is on its way, about.
    pub fn memory(&self) -> usize {
        let target = match &self.kind {
            Kind::Symlink { target } => target.len(),
            _ => 0,
        };
        size_of::<Self>() + self.path.as_bytes().len() + target + self.extras.len()
    }

    /// Bytes to move for it.
    pub fn size(&self) -> u64 {
        match self.kind {
            Kind::File { size, .. } => size,
            _ => 0,
        }
    }
}

/// The number of segments of a file of `size` bytes; an empty file has one, empty.
pub(crate) fn segment_count(size: u64) -> u64 {
    size.div_ceil(SEGMENT).max(1)
}

/// The byte range of segment `index` in a file of `size` bytes.
pub(crate) fn segment_range(index: u64, size: u64) -> Range<u64> {
    let start = index * SEGMENT;
    start..start.saturating_add(SEGMENT).min(size)
}

/// What lies in `0..size` and in none of the sorted, disjoint ranges of `have`.
pub fn missing(size: u64, have: &[Range<u64>]) -> Vec<Range<u64>> {
    missing_within(&[0..size], have)
}

/// What lies in the ranges `wanted` and in none of `have`; each are sorted and disjoint.
pub(crate) fn missing_within(wanted: &[Range<u64>], have: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut gaps = Vec::new();
    for range in wanted {
        let mut next = range.start;
        let first = have.partition_point(|there| there.end <= range.start);
        for there in have[first..].iter().take_while(|there| there.start < range.end) {
            if there.start > next {
                gaps.push(next..there.start);
            }
            next = next.max(there.end);
        }
        if next < range.end {
            gaps.push(next..range.end);
        }
    }
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_cover_a_file_exactly() {
        for size in [0, 1, SEGMENT - 1, SEGMENT, SEGMENT + 1, 10 * SEGMENT] {
            let ranges: Vec<_> = (0..segment_count(size)).map(|i| segment_range(i, size)).collect();
            assert_eq!(ranges.iter().map(|r| r.end - r.start).sum::<u64>(), size);
            assert_eq!(ranges.last().expect("at least one").end, size);
        }
    }

    #[test]
    fn gaps_are_what_is_not_there() {
        assert_eq!(missing(10, &[]), vec![0..10]);
        assert_eq!(missing(10, &[0..10]), Vec::<Range<u64>>::new());
        assert_eq!(missing(10, &[2..4, 4..6, 8..9]), vec![0..2, 6..8, 9..10]);
        assert_eq!(missing(0, &[]), Vec::<Range<u64>>::new());
        assert_eq!(missing_within(&[1..5, 7..9], &[0..2, 4..8]), vec![2..4, 8..9]);
        assert_eq!(missing_within(&[1..5, 7..9], &[5..7, 9..12]), vec![1..5, 7..9]);
        assert_eq!(missing_within(&[2..3], &[0..12]), Vec::<Range<u64>>::new());
    }
}
