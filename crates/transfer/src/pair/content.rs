//! What files of a [`Pair`](super::Pair) hold: nothing is kept of it but what tells contents apart.

use std::cell::RefCell;
use std::collections::HashMap;

use crate::hash::{Digest, FileHash};
use crate::manifest::{BLOCK, SEGMENT, segment_range};
use crate::pipeline::proof::Proof;
use crate::terms::Verify;

thread_local! {
    /// Hashes of blocks, made once: by content, offset and kind of proof.
    static BLOCKS: RefCell<HashMap<(ModelContent, u64, bool), Digest>> = RefCell::default();
}

/// What a file holds. Two of one size and different seeds differ in every block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ModelContent {
    /// What tells it from others.
    pub seed: u64,
    /// Its size in bytes.
    pub size: u64,
}

impl ModelContent {
    /// What vouches for the block at `offset`, as `verify` has it.
    pub fn block(self, offset: u64, verify: Verify) -> Digest {
        let key = (self, offset, verify == Verify::Blake3);
        let known = BLOCKS.with_borrow(|blocks| blocks.get(&key).copied());
        known.unwrap_or_else(|| {
            let length = (self.size - offset).min(BLOCK) as usize;
            let mut data = vec![self.seed as u8; length];
            let told = self.seed.to_le_bytes();
            let told = &told[..told.len().min(length)];
            data[..told.len()].copy_from_slice(told);
            let digest = Proof::of(&data, offset, self.size, verify).digest;
            BLOCKS.with_borrow_mut(|blocks| blocks.insert(key, digest));
            digest
        })
    }

    /// The hash of a segment.
    pub fn segment(self, segment: u64, verify: Verify) -> Digest {
        let mut hash = FileHash::new(self.size);
        let blocks = segment_range(segment, self.size).step_by(BLOCK as usize);
        let mut blocks = blocks.map(|offset| hash.add_block(offset, self.block(offset, verify)));
        blocks.find_map(|done| done).map(|(_, digest)| digest).expect("all of its blocks")
    }

    /// The root hash.
    pub fn root(self) -> Digest {
        let mut hash = FileHash::new(self.size);
        for offset in (0..self.size.max(1)).step_by(BLOCK as usize) {
            hash.add_block(offset, self.block(offset, Verify::Blake3));
        }
        hash.root().expect("complete")
    }
}

/// Sizes at which something changes.
pub(crate) const SIZES: [u64; 6] = [0, 1, BLOCK, BLOCK + 1, SEGMENT, SEGMENT + 2 * BLOCK + 7];
