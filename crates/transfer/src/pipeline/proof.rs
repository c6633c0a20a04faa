//! What vouches for a block: the checksum in its frame, and its hash.

use std::sync::LazyLock;

use crate::hash::{Digest, block_digest};
use crate::manifest::BLOCK;
use crate::terms::Verify;

/// A block of a hole. Made when it is needed: as a constant it would lie in the program's file.
pub static ZEROS: LazyLock<Box<[u8]>> = LazyLock::new(|| vec![0; BLOCK as usize].into());

/// A block's checksum and hash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Proof {
    /// Finds accidents at once, with the frame they happened to.
    pub checksum: u32,
    /// The BLAKE3 chaining value; the checksum and zeros for [`Verify::Block`], so that a journal tells too
    /// what a segment was.
    pub digest: Digest,
}

impl Proof {
    /// Of `data`, the block at `offset` of a file of `size` bytes. The hash, where there is one, gives
    /// the checksum too: another pass over the data would find nothing more.
    pub fn of(data: &[u8], offset: u64, size: u64, verify: Verify) -> Self {
        match verify {
            Verify::Blake3 => {
                let digest = block_digest(data, offset, size);
                let [a, b, c, d, ..] = digest;
                Self { checksum: u32::from_le_bytes([a, b, c, d]), digest }
            }
            Verify::Block => {
                let checksum = crc_fast::crc32_iscsi(data);
                let mut digest = Digest::default();
                digest[..4].copy_from_slice(&checksum.to_le_bytes());
                Self { checksum, digest }
            }
        }
    }

    /// Of `length` zeros, which carry no checksum.
    pub(crate) fn of_zeros(length: usize, offset: u64, size: u64, verify: Verify) -> Self {
        Self { checksum: 0, ..Self::of(&ZEROS[..length], offset, size, verify) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_gives_the_checksum_and_zeros_carry_none() {
        let data = [7; 1000];
        let hashed = Proof::of(&data, 0, 1000, Verify::Blake3);
        assert_eq!(hashed.digest, *blake3::hash(&data).as_bytes());
        assert_eq!(hashed.checksum.to_le_bytes(), hashed.digest[..4]);
        let summed = Proof::of(&data, 0, 1000, Verify::Block);
        assert_eq!(summed.checksum, crc_fast::crc32_iscsi(&data));
        assert_eq!(
            (&summed.digest[..4], &summed.digest[4..]),
            (&summed.checksum.to_le_bytes()[..], &[0; 28][..])
        );
        let zeros = Proof::of_zeros(1000, 0, 1000, Verify::Blake3);
        assert_eq!((zeros.checksum, zeros.digest), (0, *blake3::hash(&[0; 1000]).as_bytes()));
        let zeros = Proof::of_zeros(1000, 0, 1000, Verify::Block);
        assert_eq!((zeros.checksum, zeros.digest), (0, Proof::of(&[0; 1000], 0, 1000, Verify::Block).digest));
    }
}
