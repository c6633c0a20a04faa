//! Reading: pulls work, reads and hashes it, and hands framed blocks on. The read pool fills staging
//! with them; a stream's worker that reads for itself sends them.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::{SendFile, SenderState, Sent};
use crate::error::{Error, Result};
use crate::hash::Digest;
use crate::manifest::{BLOCK, FileId};
use crate::pipeline::joint::Joint;
use crate::pipeline::pool::Gate;
use crate::pipeline::proof::Proof;
use crate::pipeline::staging::{BUFFER, Block, FileTail};
use crate::pipeline::work::{Admission, Claim, Work};
use crate::store::{BlockContent, RangeReader};
use crate::terms::{DataPlane, Verify};
use crate::throttle::{Throttle, in_portions};
use crate::wire::frame::{Frame, FrameKind, HEADER};
use crate::wire::joined::ReadBack;
use crate::wire::message::Message;

/// Blocks that are sent from the file itself; below this the copy costs less than the call.
const IN_PLACE: usize = 64 << 10;

/// Where the blocks that are read go.
pub(super) trait Outlet {
    /// An empty block; `None` once nothing more is wanted.
    fn block(&mut self) -> Option<Block<Sent>>;

    /// Takes a filled block.
    fn deliver(&mut self, block: Block<Sent>);

    /// Whether another block of the same claim should be read.
    fn goes_on(&self) -> bool;
}

/// Fills staging, as long as reader `index` may.
struct Queued<'s> {
    shared: &'s SenderState,
    index: u16,
    gate: &'s Gate,
}

impl Outlet for Queued<'_> {
    fn block(&mut self) -> Option<Block<Sent>> {
        self.shared.staging.acquire()
    }

    fn deliver(&mut self, block: Block<Sent>) {
        self.shared.staging.put(block);
        // Streams' workers that wait for work of their own must see this block.
        if self.shared.bypass.direct.load(Relaxed) {
            self.shared.work.nudge();
        }
    }

    fn goes_on(&self) -> bool {
        self.gate.is_open(self.index) && !self.shared.bypass.direct.load(Relaxed)
    }
}

/// Reads what a range has become at the receiver, which no change of the file reaches any more.
struct CloneReader(ReadBack);

impl RangeReader for CloneReader {
    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<BlockContent> {
        (self.0)(offset, buffer).map(|()| BlockContent::Data)
    }
}

/// What one reader has at hand.
pub(super) struct ReaderState {
    throttle: Option<Throttle>,
    scratch: Vec<u8>,
    /// Segments it completed and has not told the receiver of.
    hashes: Vec<(FileId, u64, Digest)>,
}

impl ReaderState {
    pub(super) fn new(shared: &SenderState) -> Self {
        let throttle = Throttle::new(shared.terms.limits.read);
        Self { throttle, scratch: vec![0; BLOCK as usize], hashes: Vec::new() }
    }
}

impl SenderState {
    /// What one reader does until the transfer ends.
    pub(super) fn read(&self, index: u16, gate: &Gate) {
        let mut own = ReaderState::new(self);
        let turn = || if self.bypass.direct.load(Relaxed) { Admission::Wait } else { Admission::Take };
        while gate.pass(index) {
            let Some(work) = self.work.take(turn, &self.tally.readers_idle) else { return };
            self.read_work(work, &mut Queued { shared: self, index, gate }, &mut own);
        }
    }

    /// Reads `work` into `outlet`; what is left of it when the outlet stops goes to others.
    pub(super) fn read_work(&self, work: Work<SendFile>, outlet: &mut dyn Outlet, own: &mut ReaderState) {
        match work {
            Work::Chunk(claim) => {
                self.read_chunk(&claim, outlet, own).unwrap_or_else(|error| self.give_up(&claim.file, error));
                // Of a file that has ended nothing is given back: it would be handed out for ever.
                if claim.file.ended.load(Relaxed) {
                    self.work.forget(&claim);
                } else {
                    self.work.give_back(&claim);
                }
            }
            Work::Bundle(files) => self.read_bundle(&files, outlet, own),
        }
    }

    fn read_chunk(
        &self,
        claim: &Claim<SendFile>,
        outlet: &mut dyn Outlet,
        own: &mut ReaderState,
    ) -> Result<()> {
        let file = &claim.file;
        if file.ended.load(Relaxed) {
            return Ok(());
        }
        let mut reader = self.source.open(&file.listed, claim.left())?;
        let cloned = self.cloned(file, &*reader, claim.left())?;
        let is_cloned = cloned.is_some();
        if let Some(cloned) = cloned {
            reader = Box::new(cloned);
        }
        while outlet.goes_on() && !file.ended.load(Relaxed) {
            let Some(mut block) = outlet.block() else { return Ok(()) };
            let Some(range) = claim.next() else {
                self.staging.release(block);
                return Ok(());
            };
            let read = self.read_frame(file, &mut *reader, range, &mut block, own);
            block.placed = is_cloned;
            if reader.is_undivided() {
                claim.keep_undivided();
            }
            self.tell(&mut own.hashes);
            match read {
                Ok(()) => outlet.deliver(block),
                Err(error) => {
                    self.staging.release(block);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// What reads `range` where it shares its blocks with the receiver's file, if it does now: the listed version of it.
    fn cloned(
        &self,
        file: &SendFile,
        reader: &dyn RangeReader,
        range: Range<u64>,
    ) -> Result<Option<CloneReader>> {
        let clone = |joint: &Joint| joint.clone_range(file.id, reader.cloneable()?, range);
        let Some(read_back) = self.data_streams.joint().and_then(clone) else { return Ok(None) };
        reader.check()?;
        Ok(Some(CloneReader(read_back)))
    }

    /// Packs whole small files into as few blocks as possible.
    fn read_bundle(&self, files: &[Arc<SendFile>], outlet: &mut dyn Outlet, own: &mut ReaderState) {
        let Some(mut block) = outlet.block() else { return };
        for file in files {
            if file.ended.load(Relaxed) {
                continue;
            }
            // Nothing can be packed behind a part that is sent from its file.
            let full = block.length + HEADER + file.size as usize > BUFFER - HEADER;
            if full || block.tail.is_some() {
                outlet.deliver(block);
                match outlet.block() {
                    Some(next) => block = next,
                    None => return,
                }
            }
            let read = self
                .source
                .open(&file.listed, 0..file.size)
                .and_then(|mut r| self.read_frame(file, &mut *r, 0..file.size, &mut block, own));
            if let Err(error) = read {
                self.give_up(file, error);
            }
        }
        self.tell(&mut own.hashes);
        if block.frames.is_empty() { self.staging.release(block) } else { outlet.deliver(block) }
    }

    /// Appends one frame to `block`, which is left as it was on failure.
    fn read_frame(
        &self,
        file: &Arc<SendFile>,
        reader: &mut dyn RangeReader,
        range: Range<u64>,
        block: &mut Block<Sent>,
        own: &mut ReaderState,
    ) -> Result<()> {
        let length = (range.end - range.start) as usize;
        // On a clear stream the kernel can send a large block from the file itself. It is read all the
        // same, into a buffer that stays in the cache, for its checksum; if the file changes in between,
        // the receiver notices.
        let is_clear = self.terms.data_plane == DataPlane::Clear && self.data_streams.joint().is_none();
        let in_place = is_clear && length >= IN_PLACE && block.frames.is_empty();
        let file_tail = if in_place { reader.sendable().cloned() } else { None };
        let start = block.length + HEADER;
        let buffer = match &file_tail {
            Some(_) => &mut own.scratch[..length],
            None => &mut block.bytes[start..start + length],
        };
        let piece = self.read_within(own.throttle.as_ref(), reader, range.start, buffer)?;
        let verify = self.terms.verify;
        let (kind, proof) = match piece {
            BlockContent::Data => (FrameKind::Data, Proof::of(buffer, range.start, file.size, verify)),
            BlockContent::Zero => (FrameKind::Zero, Proof::of_zeros(length, range.start, file.size, verify)),
        };
        if verify == Verify::Blake3 {
            own.hashes.extend(file.add_hash(range.start, proof.digest));
        }
        let checksum = proof.checksum;
        let frame = Frame { kind, length: length as u32, file: file.id, checksum, offset: range.start };
        block.bytes[block.length..start].copy_from_slice(&frame.encode());
        block.length = start;
        match file_tail {
            Some(file) if kind == FrameKind::Data => {
                block.tail = Some(FileTail { file, offset: range.start, length });
            }
            _ => block.length += frame.payload(),
        }
        if self.data_streams.joint().is_some() {
            block.digests.push(proof.digest);
        }
        block.frames.push(Sent { file: Arc::clone(file), offset: range.start, length: length as u32 });
        Ok(())
    }

    /// Fills `buffer` from `offset` within the limit; what has been read counts at once.
    fn read_within(
        &self,
        throttle: Option<&Throttle>,
        reader: &mut dyn RangeReader,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<BlockContent> {
        let mut content = BlockContent::Zero;
        in_portions(throttle, None, buffer.len(), &self.ending.stopped, |portion| {
            let read = reader.read(offset + portion.start as u64, &mut buffer[portion.clone()])?;
            self.tally.read.fetch_add(portion.len() as u64, Relaxed);
            match (content, read) {
                (BlockContent::Zero, BlockContent::Zero) => {}
                // Nothing was put there for the zeros before and between what is none.
                (BlockContent::Zero, BlockContent::Data) => buffer[..portion.start].fill(0),
                (BlockContent::Data, BlockContent::Zero) => buffer[portion].fill(0),
                (BlockContent::Data, BlockContent::Data) => {}
            }
            if read == BlockContent::Data {
                content = read;
            }
            Ok::<(), Error>(())
        })?;
        Ok(content)
    }

    /// Tells the receiver what to expect, over the encrypted session.
    fn tell(&self, hashes: &mut Vec<(FileId, u64, Digest)>) {
        if !hashes.is_empty() {
            self.outbox.send(&Message::Hashes(std::mem::take(hashes)));
        }
    }
}
