//! Readers: a part is read whole and summed up before it is sent, so that its checksum can go ahead of
//! it; a file for a server that takes no parts is read while it is sent.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};

use tidegate_transfer::error::{Error, Result};
use tidegate_transfer::manifest::BLOCK;
use tidegate_transfer::pipeline::pool::Gate;
use tidegate_transfer::store::{BlockContent, RangeReader};
use tidegate_transfer::throttle::{Throttle, in_portions};

use crate::put::queue::{Bytes, Chunk, PartContent, ReadTask, Room, SendTask, UploadPart, UploadQueue};
use crate::put::state::UploadState;
use crate::put::target::{Md5Sum, PieceHasher, PieceSums, Present, UploadFile, UploadTries, tag_of_parts};

/// Blocks that a stream may be ahead of the network.
const AHEAD: usize = 8;

/// A reader's life.
pub(crate) fn work(shared: &Arc<UploadState>, index: u16, gate: &Gate) {
    let throttle = Throttle::new(shared.settings.limits.read);
    while gate.pass(index) && !shared.is_over() {
        match shared.queue.next_reading(|| gate.is_open(index)) {
            Some(ReadTask::Compare(file, present)) => compare(shared, &file, &present, throttle.as_ref()),
            Some(ReadTask::Part(file, number, room)) => part(shared, file, number, room, throttle.as_ref()),
            Some(ReadTask::Stream(file)) => stream(shared, &file, throttle.as_ref()),
            None => {}
        }
    }
}

/// Reads `range` of `file` block by block.
struct Front<'a> {
    shared: &'a UploadState,
    reader: Box<dyn RangeReader>,
    range: Range<u64>,
    throttle: Option<&'a Throttle>,
}

impl<'a> Front<'a> {
    fn open(
        shared: &'a UploadState,
        file: &UploadFile,
        range: Range<u64>,
        throttle: Option<&'a Throttle>,
    ) -> Result<Self> {
        let reader = shared.source.open(&file.listed, range.clone())?;
        Ok(Self { shared, reader, range, throttle })
    }

    /// The next bytes, into `block`; `false` at the end.
    fn next(&mut self, block: &mut Bytes) -> Result<bool> {
        let length = (self.range.end - self.range.start).min(BLOCK) as usize;
        if length == 0 {
            return Ok(false);
        }
        if self.shared.is_over() {
            return Err(UploadQueue::stopped_error());
        }
        let buffer = &mut block.bytes[..length];
        in_portions(self.throttle, None, length, &self.shared.over, |portion| {
            let (offset, buffer) = (self.range.start + portion.start as u64, &mut buffer[portion.clone()]);
            if self.reader.read(offset, buffer)? == BlockContent::Zero {
                buffer.fill(0);
            }
            self.shared.read.fetch_add(portion.len() as u64, Relaxed);
            Ok::<(), Error>(())
        })?;
        block.length = length;
        self.range.start += length as u64;
        Ok(true)
    }
}

fn part(
    shared: &Arc<UploadState>,
    file: Arc<UploadFile>,
    number: u32,
    mut room: Room,
    throttle: Option<&Throttle>,
) {
    let range = file.plan.range(number, file.size);
    let length = range.end - range.start;
    let read = || -> Result<PieceSums> {
        let mut front = Front::open(shared, &file, range, throttle)?;
        let mut sums = PieceHasher::new();
        loop {
            let Some(mut block) = room.block() else { return Err(UploadQueue::stopped_error()) };
            let more = front.next(&mut block);
            if more.is_ok() {
                sums.update(&block.bytes[..block.length]);
            }
            room.blocks.push(block);
            if !more? {
                return Ok(sums.finish());
            }
        }
    };
    let sums = match read() {
        Ok(sums) => sums,
        Err(error) => {
            drop(room);
            return shared.part_failed(&file, error);
        }
    };
    if number < file.plan.count && shared.source.is_undivided(&file.listed) {
        shared.queue.read_parts(&file, [number + 1]);
    }
    if file.is_multipart() && shared.has(&file, number, length, sums) {
        return drop(room);
    }
    let number = if file.is_multipart() { number } else { 0 };
    shared.queue.send(SendTask::UploadPart(UploadPart {
        file,
        number,
        content: PartContent::Whole(room, sums),
        tries: UploadTries::default(),
    }));
}

fn compare(
    shared: &Arc<UploadState>,
    file: &Arc<UploadFile>,
    present: &Present,
    throttle: Option<&Throttle>,
) {
    let sum_up = || -> Result<String> {
        let mut block = shared.queue.small_room().block().ok_or_else(UploadQueue::stopped_error)?;
        let mut sums = Vec::<Md5Sum>::with_capacity(file.plan.count as usize);
        let mut read = || -> Result<()> {
            for range in pieces(file, present) {
                let mut front = Front::open(shared, file, range, throttle)?;
                let mut sum = PieceHasher::new();
                while front.next(&mut block)? {
                    sum.update(&block.bytes[..block.length]);
                }
                sums.push(sum.finish().md5);
            }
            Ok(())
        };
        let result = read();
        let mut room = shared.queue.small_room();
        room.blocks.push(block);
        result?;
        Ok(match sums.as_slice() {
            [one] if !present.tag.contains('-') => data_encoding::HEXLOWER.encode(one),
            all => tag_of_parts(all.iter().copied()),
        })
    };
    match sum_up() {
        Ok(tag) if tag == present.tag => shared.same(file, present),
        Ok(_) => shared.begin_anew(file),
        Err(error) => shared.give_up(file, error),
    }
}

/// What the tag of what is there was made of: the whole file, or our parts.
fn pieces(file: &UploadFile, present: &Present) -> Vec<Range<u64>> {
    if present.tag.contains('-') {
        (1..=file.plan.count).map(|number| file.plan.range(number, file.size)).collect()
    } else {
        vec![0..file.size]
    }
}

fn stream(shared: &Arc<UploadState>, file: &Arc<UploadFile>, throttle: Option<&Throttle>) {
    let (to, from) = sync_channel(AHEAD);
    file.state.lock().in_flight += 1;
    let content = PartContent::Stream(from);
    shared.queue.send(SendTask::UploadPart(UploadPart {
        file: Arc::clone(file),
        number: 0,
        content,
        tries: UploadTries::default(),
    }));
    // A stream that ends without its end tells the network that it is cut off; why is kept for later.
    if let Err(error) = pour(shared, file, throttle, &to) {
        shared.note(file, error);
    }
}

fn pour(
    shared: &Arc<UploadState>,
    file: &UploadFile,
    throttle: Option<&Throttle>,
    to: &SyncSender<Chunk>,
) -> Result<()> {
    let mut front = Front::open(shared, file, 0..file.size, throttle)?;
    let mut sums = PieceHasher::new();
    loop {
        let mut room = shared.queue.small_room();
        let Some(mut block) = room.block() else { return Err(UploadQueue::stopped_error()) };
        let more = front.next(&mut block);
        if matches!(more, Ok(true)) {
            sums.update(&block.bytes[..block.length]);
        }
        room.blocks.push(block);
        let chunk = if more? { Chunk::Bytes(room) } else { Chunk::End(sums.clone().finish()) };
        let ended = matches!(chunk, Chunk::End(_));
        // Nobody takes it: the request has failed, and says why itself.
        let sent = match to.try_send(chunk) {
            Err(TrySendError::Full(chunk)) => shared.queue.while_filling(|| to.send(chunk)).is_ok(),
            sent => sent.is_ok(),
        };
        if !sent || ended {
            return Ok(());
        }
    }
}
