//! The read pool: pulls work, reads and hashes it, and fills staging with framed blocks.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::{SendFile, Sent, Shared, ZEROS};
use crate::error::Result;
use crate::hash::{Digest, block_digest};
use crate::manifest::FileId;
use crate::pipeline::pool::Gate;
use crate::pipeline::staging::{BUFFER, Block};
use crate::pipeline::work::{Claim, Work};
use crate::store::{Piece, RangeReader};
use crate::throttle::Throttle;
use crate::wire::frame::{Frame, FrameKind, HEADER};
use crate::wire::message::{Message, Verify};

impl Shared {
    /// What one reader does until the transfer ends.
    pub(super) fn read(&self, index: u16, gate: &Gate) {
        let throttle = Throttle::new(self.terms.limits.read);
        while gate.pass(index) {
            match self.work.take() {
                Some(Work::Chunk(claim)) => {
                    if let Err(error) = self.read_chunk(&claim, index, gate, throttle.as_ref()) {
                        self.abandon(&claim.file, error);
                    }
                    // Of a file that has ended nothing is given back: it would be handed out for ever.
                    if claim.file.ended.load(Relaxed) {
                        self.work.forget(&claim);
                    } else {
                        self.work.give_back(&claim);
                    }
                }
                Some(Work::Bundle(files)) => self.read_bundle(&files, throttle.as_ref()),
                None => return,
            }
        }
    }

    fn read_chunk(
        &self,
        claim: &Claim<SendFile>,
        index: u16,
        gate: &Gate,
        throttle: Option<&Throttle>,
    ) -> Result<()> {
        let file = &claim.file;
        if file.ended.load(Relaxed) {
            return Ok(());
        }
        let mut reader = self.source.open(&file.listed, claim.left())?;
        while gate.is_open(index) && !file.ended.load(Relaxed) {
            let Some(mut block) = self.staging.acquire() else { return Ok(()) };
            let Some(range) = claim.next() else {
                self.staging.release(block);
                return Ok(());
            };
            let mut hashes = Vec::new();
            let read = self.read_frame(file, &mut *reader, range, &mut block, &mut hashes, throttle);
            self.tell(hashes);
            match read {
                Ok(()) => self.staging.put(block),
                Err(error) => {
                    self.staging.release(block);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Packs whole small files into as few blocks as possible.
    fn read_bundle(&self, files: &[Arc<SendFile>], throttle: Option<&Throttle>) {
        let Some(mut block) = self.staging.acquire() else { return };
        let mut hashes = Vec::new();
        for file in files {
            if file.ended.load(Relaxed) {
                continue;
            }
            if block.length + HEADER + file.size as usize > BUFFER - HEADER {
                self.staging.put(block);
                match self.staging.acquire() {
                    Some(next) => block = next,
                    None => return,
                }
            }
            let read = self.source.open(&file.listed, 0..file.size).and_then(|mut r| {
                self.read_frame(file, &mut *r, 0..file.size, &mut block, &mut hashes, throttle)
            });
            if let Err(error) = read {
                self.abandon(file, error);
            }
        }
        self.tell(hashes);
        if block.frames.is_empty() { self.staging.release(block) } else { self.staging.put(block) }
    }

    /// Appends one frame to `block`, which is left as it was on failure.
    fn read_frame(
        &self,
        file: &Arc<SendFile>,
        reader: &mut dyn RangeReader,
        range: Range<u64>,
        block: &mut Block<Sent>,
        hashes: &mut Vec<(FileId, u64, Digest)>,
        throttle: Option<&Throttle>,
    ) -> Result<()> {
        let length = (range.end - range.start) as usize;
        if let Some(throttle) = throttle {
            throttle.take(length, &self.stopped);
        }
        let start = block.length + HEADER;
        let piece = reader.read(range.start, &mut block.bytes[start..start + length])?;
        let (kind, data) = match piece {
            Piece::Data => (FrameKind::Data, &block.bytes[start..start + length]),
            Piece::Zero => (FrameKind::Zero, &ZEROS[..length]),
        };
        if self.terms.verify == Verify::Blake3 {
            hashes.extend(file.add_hash(range.start, block_digest(data, range.start, file.size)));
        }
        let checksum = if kind == FrameKind::Data { crc32c::crc32c(data) } else { 0 };
        let frame = Frame { kind, length: length as u32, file: file.id, checksum, offset: range.start };
        block.bytes[block.length..start].copy_from_slice(&frame.encode());
        block.length = start + frame.payload();
        block.frames.push(Sent { file: Arc::clone(file), offset: range.start, length: length as u32 });
        self.read_bytes.fetch_add(length as u64, Relaxed);
        Ok(())
    }

    /// Tells the receiver what to expect, over the encrypted session.
    fn tell(&self, hashes: Vec<(FileId, u64, Digest)>) {
        if !hashes.is_empty() {
            self.outbox.send(&Message::Hashes(hashes));
        }
    }
}
