//! What an earlier run left of a file counts only as far as it is still there: every segment of it is read
//! once and compared with what the journal says that it hashes to. Whatever happened to the unfinished file in
//! between then costs time, and never content.

use std::collections::HashMap;
use std::ops::Range;

use crate::hash::{Digest, FileHash, SomeBlocks};
use crate::manifest::{BLOCK, segment_range};
use crate::pipeline::proof::Proof;
use crate::store::SinkFile;
use crate::terms::Verify;

/// Shows each segment of `left` that `part` still holds to `found`, in order; ends early once `over`.
///
/// A segment that cannot be read, or was proved in another way than `verify`, is not there.
pub(crate) fn still_there(
    part: &dyn SinkFile,
    (size, verify): (u64, Verify),
    left: HashMap<u64, Digest>,
    over: &dyn Fn() -> bool,
    found: &mut dyn FnMut(u64, Digest),
) {
    let mut left: Vec<_> = left.into_iter().collect();
    left.sort_unstable();
    let mut buffer = vec![0; BLOCK as usize];
    for (segment, expected) in left {
        match digest_of(part, (size, verify), segment, &mut buffer, over) {
            Some(digest) if digest == expected => found(segment, digest),
            _ if over() => return,
            _ => tracing::warn!("segment {segment} of an unfinished file is not what it was: sent again"),
        }
    }
}

/// The blocks of `some` with their hashes, if `part` still holds all of them; none once `over`.
pub(crate) fn blocks_there(
    part: &dyn SinkFile,
    (size, verify): (u64, Verify),
    some: SomeBlocks,
    over: &dyn Fn() -> bool,
) -> Vec<(u64, Digest)> {
    let mut buffer = vec![0; BLOCK as usize];
    let read = |range: Range<u64>| {
        let data = &mut buffer[..(range.end - range.start) as usize];
        let is_read = !over() && part.read_at(range.start, data).is_ok();
        is_read.then(|| (range.start, Proof::of(data, range.start, size, verify).digest))
    };
    let found: Option<Vec<(u64, Digest)>> = some.ranges(size).map(read).collect();
    let found = found.unwrap_or_default();
    let leaves: Vec<Digest> = found.iter().map(|(_, digest)| *digest).collect();
    match SomeBlocks::of(some.segment, some.have, &leaves) == some {
        true => found,
        false => Vec::new(),
    }
}

fn digest_of(
    part: &dyn SinkFile,
    (size, verify): (u64, Verify),
    segment: u64,
    buffer: &mut [u8],
    over: &dyn Fn() -> bool,
) -> Option<Digest> {
    let range = segment_range(segment, size);
    let mut hash = FileHash::new(size);
    let mut offset = range.start;
    while offset < range.end {
        if over() {
            return None;
        }
        let data = &mut buffer[..(range.end - offset).min(BLOCK) as usize];
        part.read_at(offset, data).ok()?;
        if let Some((_, digest)) = hash.add_block(offset, Proof::of(data, offset, size, verify).digest) {
            return Some(digest);
        }
        offset += BLOCK;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Error, Result};
    use crate::manifest::{Entry, SEGMENT};

    struct Held(Vec<u8>);

    impl SinkFile for Held {
        fn write_at(&self, _: u64, _: &[u8]) -> Result<()> {
            unreachable!("it is only read")
        }
        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
            let there = self.0.get(offset as usize..offset as usize + buffer.len());
            buffer.copy_from_slice(there.ok_or_else(|| Error::protocol("cut off"))?);
            Ok(())
        }
        fn zero_at(&self, _: u64, _: u64) -> Result<()> {
            unreachable!("it is only read")
        }
        fn seal(&self, _: &Entry) -> Result<()> {
            unreachable!("it is only read")
        }
        fn sync(&self) -> Result<()> {
            unreachable!("it is only read")
        }
    }

    #[test]
    fn only_what_hashes_to_what_the_journal_says_is_there() {
        let size = 3 * SEGMENT + 5;
        let mut part = Held((0..size).map(|i| (i.wrapping_mul(2_654_435_761) >> 23) as u8).collect());
        for verify in [Verify::Blake3, Verify::Block] {
            let of = |part: &Held, segment| {
                let mut buffer = vec![0; BLOCK as usize];
                digest_of(part, (size, verify), segment, &mut buffer, &|| false).expect("readable")
            };
            let left: HashMap<u64, Digest> = [0, 2, 3].map(|segment| (segment, of(&part, segment))).into();
            let there = |part: &Held, left: &HashMap<u64, Digest>, over: bool| {
                let mut there = Vec::new();
                let mut found = |segment, _| there.push(segment);
                still_there(part, (size, verify), left.clone(), &|| over, &mut found);
                there
            };
            assert_eq!(there(&part, &left, false), [0, 2, 3]);
            assert!(there(&part, &left, true).is_empty(), "it was to end");
            for (at, rest) in [(5, [2, 3]), (2 * SEGMENT, [0, 3]), (size - 1, [0, 2])] {
                part.0[at as usize] ^= 1;
                assert_eq!(there(&part, &left, false), rest, "{verify:?}, a bit at {at}");
                part.0[at as usize] ^= 1;
            }
            let other: HashMap<u64, Digest> = [(1, of(&part, 0)), (99, of(&part, 0))].into();
            assert!(there(&part, &other, false).is_empty(), "of another segment, and of none");
        }
        part.0.truncate(SEGMENT as usize);
        let left = [(0, [1; 32]), (1, [1; 32])].into();
        still_there(&part, (size, Verify::Blake3), left, &|| false, &mut |_, _| panic!("cut off"));
    }

    #[test]
    fn some_blocks_of_a_segment_are_there_together_or_not_at_all() {
        let size = SEGMENT + 3 * BLOCK + 5;
        let mut part = Held((0..size).map(|i| (i.wrapping_mul(2_654_435_761) >> 23) as u8).collect());
        let offsets = [SEGMENT, SEGMENT + 2 * BLOCK, SEGMENT + 3 * BLOCK];
        for verify in [Verify::Blake3, Verify::Block] {
            let mut hash = FileHash::new(size);
            for offset in offsets {
                let data = &part.0[offset as usize..(offset + BLOCK).min(size) as usize];
                assert_eq!(hash.add_block(offset, Proof::of(data, offset, size, verify).digest), None);
            }
            let [some] = hash.incomplete()[..] else { panic!("one segment") };
            let there = |part: &Held, some: SomeBlocks, over: bool| {
                let found = blocks_there(part, (size, verify), some, &|| over);
                found.into_iter().map(|(offset, _)| offset).collect::<Vec<_>>()
            };
            assert_eq!(there(&part, some, false), offsets);
            assert!(there(&part, some, true).is_empty(), "it was to end");
            for offset in offsets {
                part.0[offset as usize] ^= 1;
                assert!(there(&part, some, false).is_empty(), "{verify:?}, a bit at {offset}");
                part.0[offset as usize] ^= 1;
            }
            for wrong in [
                SomeBlocks { have: u32::MAX, ..some },
                SomeBlocks { segment: 0, ..some },
                SomeBlocks { segment: u64::MAX, ..some },
            ] {
                assert!(there(&part, wrong, false).is_empty(), "{wrong:?}");
            }
        }
    }
}
