//! One data stream at the receiver: takes bytes off the wire into staging blocks, checks every frame,
//! and leaves framing behind. Payloads stay where they arrived; only a header or a small frame that is
//! cut off by a block's end is moved to the next block.

use std::io::{self, Read};
use std::ops::Range;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::manifest::{BLOCK, FileId};
use crate::offer::Again;
use crate::pipeline::proof::Proof;
use crate::pipeline::staging::{BUFFER, Block, Staging};
use crate::pipeline::write_path::Arrived;
use crate::terms::Verify;
use crate::wire::channel::Channel;
use crate::wire::frame::{Frame, FrameKind, HEADER};
use crate::wire::joined::Parcel;

/// What a stream's frames are looked up in and told to.
pub(crate) trait FrameHandler<T>: Sync {
    /// The file with this number and its size; `None` if it has ended.
    fn file(&self, id: FileId) -> Option<(Arc<T>, u64)>;

    /// The stream is waited for, or no more.
    fn waits(&self, waiting: bool);

    /// A block of checked frames is ready to be written.
    fn deliver(&self, block: Block<Arrived<T>>);

    /// So many bytes of content have come, of frames that may not be whole yet.
    fn moved(&self, bytes: u64);

    /// So many whole frames have been taken from the stream, and these were damaged.
    fn taken(&self, frames: u64, bytes: u64, damaged: Vec<Again>);
}

/// Takes frames from `channel` until its last one; an error means that the stream is lost.
pub(crate) fn receive_frames<T>(
    channel: &mut Channel,
    staging: &Staging<Arrived<T>>,
    verify: Verify,
    handler: &impl FrameHandler<T>,
) -> Result<()> {
    let lost = |error: io::Error| Error::connection("lost", "a data stream", error);
    // Bytes that arrived behind the last whole frame of the previous block.
    let mut carried: Vec<u8> = Vec::with_capacity(BUFFER);
    let mut progress = Progress::default();
    loop {
        // No block is held while the stream is idle.
        if carried.is_empty() {
            carried.resize(HEADER, 0);
            let n = read_some(channel, &mut carried, handler).map_err(lost)?;
            carried.truncate(n);
        }
        let Some(mut block) = staging.acquire() else { return Ok(()) };
        block.bytes[..carried.len()].copy_from_slice(&carried);
        let mut filled = carried.len();
        carried.clear();
        let mut at = 0;
        let mut ended = false;
        let mut counts = Counts::default();
        let result = loop {
            let arrived = &block.bytes[at..filled];
            let needed = match arrived.first_chunk::<HEADER>() {
                None => HEADER,
                Some(header) => {
                    let frame = match Frame::decode(header) {
                        Ok(frame) => frame,
                        Err(error) => break Err(error),
                    };
                    if frame.kind == FrameKind::End {
                        ended = true;
                        break Ok(());
                    }
                    let length = HEADER + frame.payload();
                    if arrived.len() >= length {
                        check(&frame, at + HEADER, &mut block, verify, handler, &mut counts);
                        progress.whole(&frame);
                        at += length;
                        continue;
                    }
                    progress.part(arrived.len() - HEADER);
                    length
                }
            };
            progress.tell(handler);
            // The frame at `at` is not whole. It continues in this block if it began it; otherwise it
            // moves to the next one, and what came before is passed on, damage included, before the
            // stream is waited for.
            if at > 0 {
                break Ok(());
            }
            // A large frame asks for just its end and the next header, so that payloads never move;
            // small ones ask for all that fits.
            let until = if needed > BUFFER / 2 { (at + needed + HEADER).min(BUFFER) } else { BUFFER };
            match read_some(channel, &mut block.bytes[filled..until], handler) {
                Ok(n) => filled += n,
                Err(error) => break Err(lost(error)),
            }
        };
        progress.tell(handler);
        if !ended {
            carried.extend_from_slice(&block.bytes[at..filled]);
        }
        block.length = at;
        hand_on(block, counts, staging, handler);
        result?;
        if ended {
            return Ok(());
        }
    }
}

/// Passes checked frames on, and says what was taken from the stream.
fn hand_on<T>(
    block: Block<Arrived<T>>,
    counts: Counts,
    staging: &Staging<Arrived<T>>,
    handler: &impl FrameHandler<T>,
) {
    match block.frames.is_empty() {
        true => staging.release(block),
        false => handler.deliver(block),
    }
    if counts.frames > 0 {
        handler.taken(counts.frames, counts.bytes, counts.damaged);
    }
}

/// What has come of the stream's content.
#[derive(Default)]
struct Progress {
    /// Bytes that nobody was told of.
    fresh: u64,
    /// Bytes of the frame under way that count already.
    counted: u64,
}

impl Progress {
    /// So much of the frame under way is there.
    fn part(&mut self, bytes: usize) {
        let bytes = bytes as u64;
        self.fresh += bytes.saturating_sub(self.counted);
        self.counted = self.counted.max(bytes);
    }

    /// The frame under way is whole.
    fn whole(&mut self, frame: &Frame) {
        self.fresh += u64::from(frame.length).saturating_sub(self.counted);
        self.counted = 0;
    }

    fn tell<T>(&mut self, handler: &impl FrameHandler<T>) {
        if self.fresh > 0 {
            handler.moved(std::mem::take(&mut self.fresh));
        }
    }
}

#[derive(Default)]
struct Counts {
    frames: u64,
    bytes: u64,
    damaged: Vec<Again>,
}

/// Adds a whole frame to the block's frames if it is sound and wanted.
fn check<T>(
    frame: &Frame,
    at: usize,
    block: &mut Block<Arrived<T>>,
    verify: Verify,
    handler: &impl FrameHandler<T>,
    counts: &mut Counts,
) {
    counts.frames += 1;
    counts.bytes += u64::from(frame.length);
    let Some((file, size, range)) = wanted(frame, handler) else { return };
    let data = at..at + frame.payload();
    let proof = match frame.kind {
        FrameKind::Data => Proof::of(&block.bytes[data.clone()], frame.offset, size, verify),
        _ => Proof::of_zeros(frame.length as usize, frame.offset, size, verify),
    };
    if frame.kind == FrameKind::Data && proof.checksum != frame.checksum {
        counts.damaged.push(Again { file: frame.file, range });
        return;
    }
    let digest = proof.digest;
    block.frames.push(Arrived {
        file,
        offset: frame.offset,
        length: frame.length,
        data,
        digest,
        placed: false,
    });
}

/// The file that a frame is of, its size, and what of it the frame stands for, if it is wanted.
fn wanted<T>(frame: &Frame, handler: &impl FrameHandler<T>) -> Option<(Arc<T>, u64, Range<u64>)> {
    let (file, size) = handler.file(frame.file)?;
    // A whole block of the file, or nothing: part of one would count for all of it.
    let range = frame.offset..frame.offset.saturating_add(BLOCK).min(size);
    let is_whole = range.start < range.end && u64::from(frame.length) == range.end - range.start;
    is_whole.then_some((file, size, range))
}

/// Takes over the frames of a sender of this process. What it has read and hashed is the very memory that is written, so
/// nothing is hashed again; `false` if there is no room any more, or no reason to `wait` for it.
pub(crate) fn take_over<T>(
    parcel: &mut Parcel<'_>,
    staging: &Staging<Arrived<T>>,
    handler: &impl FrameHandler<T>,
    wait: impl Fn() -> bool,
) -> Result<bool> {
    let Some(mut block) = staging.acquire_while(wait) else { return Ok(false) };
    std::mem::swap(&mut block.bytes, parcel.bytes);
    let (mut at, mut counts) = (0, Counts::default());
    for &digest in parcel.digests {
        let header = block.bytes[at..parcel.length].first_chunk::<HEADER>();
        let header = header.ok_or_else(|| Error::protocol("a block that ends within a frame"));
        let frame = match header.and_then(Frame::decode) {
            Ok(frame) => frame,
            Err(error) => {
                staging.release(block);
                return Err(error);
            }
        };
        let data = at + HEADER..at + HEADER + frame.payload();
        at = data.end;
        counts.frames += 1;
        counts.bytes += u64::from(frame.length);
        if let Some((file, ..)) = wanted(&frame, handler) {
            let (offset, length) = (frame.offset, frame.length);
            block.frames.push(Arrived { file, offset, length, data, digest, placed: parcel.placed });
        }
    }
    block.length = at;
    handler.moved(counts.bytes);
    match block.frames.is_empty() {
        true => staging.release(block),
        false => handler.deliver(block),
    }
    handler.taken(counts.frames, counts.bytes, Vec::new());
    Ok(true)
}

fn read_some<T>(
    channel: &mut Channel,
    buffer: &mut [u8],
    handler: &impl FrameHandler<T>,
) -> io::Result<usize> {
    loop {
        handler.waits(true);
        let read = channel.read(buffer);
        handler.waits(false);
        match read {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}
