//! Contents of files, made from seeds. This crate is optimised for it: without that, making them costs more than moving them.

/// Bytes that differ from place to place, the same for the same seed.
pub fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    fastrand::Rng::with_seed(seed).fill(&mut bytes);
    bytes
}

/// The bytes that `seed` makes from `offset` on; zeros for zero.
pub fn fill(seed: u64, offset: u64, buffer: &mut [u8]) {
    if seed == 0 {
        return buffer.fill(0);
    }
    let word = |at: u64| {
        let mixed = ((at / 8) ^ seed.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9).to_le_bytes()
    };
    let (head, rest) = buffer.split_at_mut(((8 - offset % 8) % 8).min(buffer.len() as u64) as usize);
    for (at, byte) in (offset..).zip(head.iter_mut()) {
        *byte = word(at)[(at % 8) as usize];
    }
    let mut at = offset + head.len() as u64;
    for piece in rest.chunks_mut(8) {
        piece.copy_from_slice(&word(at)[..piece.len()]);
        at += 8;
    }
}
