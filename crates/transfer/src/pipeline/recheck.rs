//! What an earlier run left of a file counts only as far as it is still there: every segment of it is read
//! once and compared with what the journal says that it hashes to. Whatever happened to the unfinished file in
//! between then costs time, and never content.

use std::collections::HashMap;

use crate::hash::{Digest, FileHash};
use crate::manifest::{BLOCK, segment_range};
use crate::pipeline::proof::Proof;
use crate::store::SinkFile;
use crate::wire::message::Verify;

/// Shows each segment of `left` that `part` still holds to `found`, in order; ends early once `over`.
///
/// A segment that cannot be read, or was proved in another way than `verify`, is not there.
pub fn still_there(
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
