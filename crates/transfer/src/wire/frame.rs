//! The frame that carries bytes on a data stream: a 32-byte header, then the payload. Pure codec.
//!
//! ```text
//!  0      1      2             4                    8                   12                  16
//! +------+------+-------------+--------------------+-------------------+-------------------+
//! | kind | ver  | zero        | payload length     | file              | checksum          |
//! +------+------+-------------+--------------------+-------------------+-------------------+
//! | offset in the file                             | zero              | crc32c of header  |
//! +------------------------------------------------+-------------------+-------------------+
//! 16                                               24                  28                  32
//! ```
//! All integers are little-endian. The header's own checksum covers bytes 0 to 27.

use crate::error::{Error, Result};
use crate::manifest::{BLOCK, FileId};

/// Bytes of a frame's header.
pub(crate) const HEADER: usize = 32;

/// The version of the frame's layout.
const VERSION: u8 = 1;

/// What a frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// The block's bytes follow.
    Data,
    /// The block is all zeros (a hole); nothing follows. The length still counts.
    Zero,
    /// No more frames come on this stream.
    End,
}

/// One frame's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// What follows.
    pub kind: FrameKind,
    /// Bytes of the file that this frame stands for, at most one block.
    pub length: u32,
    /// Which file.
    pub file: FileId,
    /// Of the payload: its crc32c, or the first four bytes of its hash if BLAKE3 was agreed on; 0 for none.
    pub checksum: u32,
    /// Where in the file; a multiple of the block size.
    pub offset: u64,
}

impl Frame {
    /// The last frame of a stream.
    pub const END: Self = Self { kind: FrameKind::End, length: 0, file: 0, checksum: 0, offset: 0 };

    /// Bytes that follow the header.
    pub fn payload(&self) -> usize {
        if self.kind == FrameKind::Data { self.length as usize } else { 0 }
    }

    /// The header's bytes.
    pub fn encode(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[0] = match self.kind {
            FrameKind::Data => 1,
            FrameKind::Zero => 2,
            FrameKind::End => 3,
        };
        bytes[1] = VERSION;
        bytes[4..8].copy_from_slice(&self.length.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.file.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.checksum.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.offset.to_le_bytes());
        let checksum = crc_fast::crc32_iscsi(&bytes[..28]);
        bytes[28..32].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Reads a header; a wrong one means that the stream's framing is lost.
    pub fn decode(bytes: &[u8; HEADER]) -> Result<Self> {
        let u32_at = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        if u32_at(28) != crc_fast::crc32_iscsi(&bytes[..28]) {
            return Err(Error::protocol("a frame's header was damaged on the way"));
        }
        if bytes[1] != VERSION {
            return Err(Error::protocol(format!("frames of version {} are not known here", bytes[1])));
        }
        let kind = match bytes[0] {
            1 => FrameKind::Data,
            2 => FrameKind::Zero,
            3 => FrameKind::End,
            other => return Err(Error::protocol(format!("a frame of unknown kind {other}"))),
        };
        let offset = u64::from_le_bytes(bytes[16..24].try_into().expect("eight bytes"));
        let frame = Self { kind, length: u32_at(4), file: u32_at(8), checksum: u32_at(12), offset };
        if u64::from(frame.length) > BLOCK || !offset.is_multiple_of(BLOCK) {
            return Err(Error::protocol("a frame longer than a block, or not aligned to one"));
        }
        Ok(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_frame_survives_the_wire(kind in 0..3, length in 0..=BLOCK as u32, file: u32, checksum: u32, block in 0u64..1 << 40) {
            let kind = [FrameKind::Data, FrameKind::Zero, FrameKind::End][kind as usize];
            let frame = Frame { kind, length, file, checksum, offset: block * BLOCK };
            prop_assert_eq!(Frame::decode(&frame.encode()).expect("valid"), frame);
        }

        #[test]
        fn any_single_flipped_bit_is_noticed(file: u32, bit in 0usize..HEADER * 8) {
            let frame = Frame { kind: FrameKind::Data, length: 77, file, checksum: 5, offset: 3 * BLOCK };
            let mut bytes = frame.encode();
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(Frame::decode(&bytes).is_err());
        }

        #[test]
        fn garbage_never_panics(bytes: [u8; HEADER]) {
            let _ = Frame::decode(&bytes);
        }
    }
}
