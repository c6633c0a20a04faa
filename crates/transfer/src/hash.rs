//! BLAKE3 of a file whose blocks arrive in any order.
//!
//! Every block is hashed on its own as the subtree it is; 32 of them merge into a segment, and the
//! segments into the file's root hash, which equals what `b3sum` prints. So parallel, out-of-order
//! transfers need no second read (BLAKE3 paper, §2.1 and §5.1; `blake3::hazmat`).

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use blake3::hazmat::{HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root};
use serde::{Deserialize, Serialize};

use crate::manifest::{BLOCK, SEGMENT, segment_count, segment_range};

/// A hash: a root, or the chaining value of a subtree.
pub type Digest = [u8; 32];

/// The hash of the block at `offset` of a file of `size` bytes. A file of one block is its root.
pub fn block_digest(data: &[u8], offset: u64, size: u64) -> Digest {
    if size <= BLOCK {
        return *blake3::hash(data).as_bytes();
    }
    blake3::Hasher::new().set_input_offset(offset).update(data).finalize_non_root()
}

/// Merges the leaves of one tree, left-balanced as BLAKE3 prescribes. `root` marks the whole file.
fn merge(leaves: &[Digest], root: bool) -> Digest {
    if let [only] = leaves {
        return *only;
    }
    let left = leaves.len().next_power_of_two() / 2;
    let (left, right) = leaves.split_at(left);
    let (left, right) = (merge(left, false), merge(right, false));
    if root {
        *merge_subtrees_root(&left, &right, Mode::Hash).as_bytes()
    } else {
        merge_subtrees_non_root(&left, &right, Mode::Hash)
    }
}

/// Some of a segment's blocks, of which not all are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SomeBlocks {
    /// Which segment.
    pub segment: u64,
    /// Which of its blocks, a bit each.
    pub have: u32,
    /// What their hashes hash to, in their order.
    pub digest: Digest,
}

impl SomeBlocks {
    /// Those of which these are the hashes, in their order.
    pub fn of(segment: u64, have: u32, leaves: &[Digest]) -> Self {
        Self { segment, have, digest: *blake3::hash(leaves.as_flattened()).as_bytes() }
    }

    /// Where in a file of `size` bytes they lie.
    pub fn ranges(self, size: u64) -> impl Iterator<Item = Range<u64>> {
        let first = self.segment.saturating_mul(SEGMENT);
        let bits = (0..u32::BITS).filter(move |bit| self.have & (1 << bit) != 0);
        let starts = bits.map(move |bit| first.saturating_add(u64::from(bit) * BLOCK));
        starts.filter(move |&start| start < size).map(move |start| start..(start + BLOCK).min(size))
    }
}

/// Blocks of a segment that is not complete yet.
#[derive(Debug)]
struct Open {
    have: u32,
    /// The hashes of those it has, in their order.
    leaves: Vec<Digest>,
}

/// Which blocks of one file are there, and their hashes so far.
///
/// Memory: some 64 bytes for every 4 MiB that is there, and 32 for every block of a segment in work. It grows
/// with what arrives, never with the size a peer claims.
///
/// ```
/// use tidegate_transfer::hash::{FileHash, block_digest, hex};
/// use tidegate_transfer::manifest::BLOCK;
///
/// let content = vec![7; 2 * BLOCK as usize + 1];
/// let size = content.len() as u64;
/// let mut hash = FileHash::new(size);
/// for (index, block) in content.chunks(BLOCK as usize).enumerate().rev() {
///     let offset = index as u64 * BLOCK;
///     hash.add_block(offset, block_digest(block, offset, size));
/// }
/// assert_eq!(hex(&hash.root().expect("complete")), blake3::hash(&content).to_hex().as_str());
/// ```
#[derive(Debug)]
pub struct FileHash {
    size: u64,
    done: BTreeMap<u64, Digest>,
    left: u64,
    open: HashMap<u64, Open>,
    /// Leaves of all open segments.
    leaves: usize,
}

impl FileHash {
    /// A file of `size` bytes of which nothing is there.
    pub fn new(size: u64) -> Self {
        Self { size, done: BTreeMap::new(), left: segment_count(size), open: HashMap::new(), leaves: 0 }
    }

    /// The file's size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Whether the block at `offset` is there already.
    pub(crate) fn has_block(&self, offset: u64) -> bool {
        let (segment, bit) = place(offset);
        self.done.contains_key(&segment)
            || self.open.get(&segment).is_some_and(|open| open.have & (1 << bit) != 0)
    }

    /// Adds the block at `offset`; answers with the segment it completed, if any.
    ///
    /// A block that is there already changes nothing.
    pub fn add_block(&mut self, offset: u64, digest: Digest) -> Option<(u64, Digest)> {
        if self.has_block(offset) {
            return None;
        }
        let (segment, bit) = place(offset);
        let range = segment_range(segment, self.size);
        let blocks = ((range.end - range.start).div_ceil(BLOCK) as usize).max(1);
        let open = self.open.entry(segment).or_insert_with(|| Open { have: 0, leaves: Vec::new() });
        let before = (open.have & ((1 << bit) - 1)).count_ones() as usize;
        open.have |= 1 << bit;
        open.leaves.insert(before, digest);
        self.leaves += 1;
        if open.leaves.len() != blocks {
            return None;
        }
        let digest = merge(&open.leaves, segment_count(self.size) == 1);
        self.forget_open(segment);
        self.add_segment(segment, digest);
        Some((segment, digest))
    }

    /// Adds a whole segment, as a journal remembers it; one that the file does not have is ignored.
    pub(crate) fn add_segment(&mut self, segment: u64, digest: Digest) {
        if segment >= segment_count(self.size) {
            return;
        }
        if self.done.insert(segment, digest).is_none() {
            self.left -= 1;
        }
    }

    /// Forgets a segment that turned out to be wrong.
    pub(crate) fn drop_segment(&mut self, segment: u64) {
        self.forget_open(segment);
        if self.done.remove(&segment).is_some() {
            self.left += 1;
        }
    }

    fn forget_open(&mut self, segment: u64) {
        self.leaves -= self.open.remove(&segment).map_or(0, |open| open.leaves.len());
    }

    /// Bytes that segments in work take, about: what a peer can make grow by leaving them so.
    pub fn unfinished_bytes(&self) -> usize {
        self.open.len() * 4 * size_of::<Open>() + self.leaves * 2 * size_of::<Digest>()
    }

    /// The complete segments and their hashes, in order.
    pub fn segments(&self) -> impl Iterator<Item = (u64, Digest)> {
        self.done.iter().map(|(index, digest)| (*index, *digest))
    }

    /// What is there of segments that are not complete.
    pub fn incomplete(&self) -> Vec<SomeBlocks> {
        let some = self.open.iter().map(|(segment, open)| SomeBlocks::of(*segment, open.have, &open.leaves));
        some.collect()
    }

    /// The byte ranges that are there, of segments that are not complete, too; joined where they touch.
    pub fn blocks(&self) -> Vec<Range<u64>> {
        let open = self.incomplete().into_iter().flat_map(|some| some.ranges(self.size));
        let mut all: Vec<Range<u64>> = self.ranges().into_iter().chain(open).collect();
        all.sort_unstable_by_key(|range| range.start);
        let mut joined: Vec<Range<u64>> = Vec::new();
        for range in all {
            match joined.last_mut() {
                Some(last) if last.end == range.start => last.end = range.end,
                _ => joined.push(range),
            }
        }
        joined
    }

    /// The hash of segment `index`, once it is complete.
    pub fn segment(&self, index: u64) -> Option<Digest> {
        self.done.get(&index).copied()
    }

    /// Where the blocks that are there without a gap from `offset` on end.
    pub fn contiguous(&self, offset: u64) -> u64 {
        let mut end = offset;
        while end < self.size && self.has_block(end) {
            let (segment, bit) = place(end);
            end = match self.open.get(&segment) {
                Some(open) => {
                    let more = (open.have >> bit).trailing_ones() as usize;
                    segment * SEGMENT + (bit + more) as u64 * BLOCK
                }
                None => (segment + 1) * SEGMENT,
            };
        }
        end.min(self.size)
    }

    /// Whether every block is there.
    pub fn is_complete(&self) -> bool {
        self.left == 0
    }

    /// The file's root hash, once every block is there.
    pub fn root(&self) -> Option<Digest> {
        let leaves = || self.done.values().copied().collect::<Vec<Digest>>();
        self.is_complete().then(|| merge(&leaves(), true))
    }

    /// The complete segments' byte ranges, joined where they touch.
    pub fn ranges(&self) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for &index in self.done.keys() {
            let range = segment_range(index, self.size);
            match ranges.last_mut() {
                Some(last) if last.end == range.start => last.end = range.end,
                _ => ranges.push(range),
            }
        }
        ranges
    }
}

fn place(offset: u64) -> (u64, usize) {
    (offset / SEGMENT, ((offset % SEGMENT) / BLOCK) as usize)
}

/// As `b3sum` prints it.
pub fn hex(digest: &Digest) -> String {
    data_encoding::HEXLOWER.encode(digest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tidegate_control::Rng;

    fn content(size: u64) -> Vec<u8> {
        (0..size).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
    }

    fn offsets(size: u64) -> Vec<u64> {
        (0..size.max(1)).step_by(BLOCK as usize).collect()
    }

    fn digest_at(data: &[u8], offset: u64) -> Digest {
        let end = (offset + BLOCK).min(data.len() as u64);
        block_digest(&data[offset as usize..end as usize], offset, data.len() as u64)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn any_order_gives_what_b3sum_prints(
            base in prop::sample::select(vec![0, 1, 1024, BLOCK - 1, BLOCK, BLOCK + 1, SEGMENT - 1, SEGMENT, SEGMENT + 1, 2 * SEGMENT, 3 * SEGMENT + BLOCK + 7]),
            extra in 0u64..3000,
            seed in any::<u64>(),
        ) {
            let data = content(base + extra);
            let mut order = offsets(data.len() as u64);
            let mut rng = Rng::new(seed);
            for i in (1..order.len()).rev() {
                order.swap(i, rng.below(i as u64 + 1) as usize);
            }
            let mut hash = FileHash::new(data.len() as u64);
            for &offset in &order {
                prop_assert!(!hash.is_complete());
                hash.add_block(offset, digest_at(&data, offset));
                prop_assert!(hash.has_block(offset));
                let plain = offsets(data.len() as u64).into_iter().find(|&o| !hash.has_block(o));
                prop_assert_eq!(hash.contiguous(0), plain.unwrap_or(data.len() as u64));
            }
            prop_assert!(hash.is_complete());
            prop_assert_eq!(hash.root().expect("complete"), *blake3::hash(&data).as_bytes());
        }
    }

    #[test]
    fn segments_from_a_journal_merge_with_fresh_blocks() {
        let data = content(3 * SEGMENT + 5);
        let mut first = FileHash::new(data.len() as u64);
        for offset in offsets(2 * SEGMENT) {
            first.add_block(offset, digest_at(&data, offset));
        }
        assert_eq!(first.ranges(), vec![0..2 * SEGMENT]);
        let mut resumed = FileHash::new(data.len() as u64);
        for index in [1, 0] {
            resumed.add_segment(index, first.segment(index).expect("complete"));
        }
        for offset in offsets(data.len() as u64) {
            resumed.add_block(offset, digest_at(&data, offset));
        }
        assert_eq!(resumed.root().expect("complete"), *blake3::hash(&data).as_bytes());
    }

    #[test]
    fn a_dropped_segment_must_come_again() {
        let data = content(2 * SEGMENT);
        let mut hash = FileHash::new(data.len() as u64);
        for offset in offsets(data.len() as u64) {
            hash.add_block(offset, digest_at(&data, offset));
        }
        hash.drop_segment(1);
        assert!(!hash.is_complete() && hash.root().is_none());
        assert_eq!(hash.ranges(), vec![0..SEGMENT]);
    }
}
