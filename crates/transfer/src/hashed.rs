//! Tables whose keys are hashes already, and so need no hashing of their own.

use std::hash::{BuildHasherDefault, Hasher};

/// Has a key that is a hash stand for itself.
pub(crate) type ByItself = BuildHasherDefault<FirstWord>;

/// Has numbers that follow each other spread over a table.
pub(crate) type ByNumber = BuildHasherDefault<Spread>;

/// A number, times 2⁶⁴ divided by the golden ratio.
#[derive(Debug, Default)]
pub(crate) struct Spread(u64);

impl Hasher for Spread {
    /// Numbers of another width are not keys of such a table.
    fn write(&mut self, bytes: &[u8]) {
        self.write_u32(bytes.first_chunk().map_or(0, |number| u32::from_le_bytes(*number)));
    }

    fn write_u32(&mut self, number: u32) {
        self.0 = u64::from(number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// The first eight bytes of a key, or a key of eight bytes.
#[derive(Debug, Default)]
pub(crate) struct FirstWord(u64);

impl Hasher for FirstWord {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = word;
    }

    /// The length that arrays are told with is one for all.
    fn write_usize(&mut self, _: usize) {}

    fn finish(&self) -> u64 {
        self.0
    }
}
