//! The network pool: each worker keeps one stream and sends whatever block is next, or reads it first
//! while that is as quick as memory.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::reading::{Outlet, ReaderState};
use super::{SenderState, Sent};
use crate::pipeline::data_streams::{DataStream, in_vain_pause, open_patiently};
use crate::pipeline::pool::Gate;
use crate::pipeline::shortcut::Pass;
use crate::pipeline::staging::Block;
use crate::pipeline::work::Admission;
use crate::sys::clock::Instant;
use crate::sys::thread;
use crate::throttle::{Throttle, in_portions};

/// A worker's stream, if it has one.
struct StreamSlot {
    worker: u16,
    data_stream: Option<DataStream>,
    /// Streams since the last one that carried anything: the receiver has no room for them.
    in_vain: u32,
}

impl StreamSlot {
    const fn new(worker: u16) -> Self {
        Self { worker, data_stream: None, in_vain: 0 }
    }

    /// The stream is gone.
    fn lose(&mut self) {
        if let Some(data_stream) = self.data_stream.take() {
            self.in_vain = if data_stream.was_useful() { 0 } else { self.in_vain + 1 };
        }
    }

    /// How long to wait before the next one.
    fn pause(&self) -> Duration {
        if self.data_stream.is_some() { Duration::ZERO } else { in_vain_pause(self.in_vain) }
    }
}

/// A worker that sends what it reads itself.
struct ReadingStreamer<'s> {
    shared: &'s SenderState,
    index: u16,
    gate: &'s Gate,
    slot: &'s mut StreamSlot,
    throttle: Option<&'s Throttle>,
}

impl ReadingStreamer<'_> {
    fn is_wanted(&self) -> bool {
        self.gate.is_open(self.index)
    }

    fn send_or_queue(&mut self, block: Block<Sent>) -> bool {
        self.shared.send_or_queue(self.slot, block, self.throttle)
    }
}

/// Sends what its worker has just read, with no queue and no other core in between.
struct Direct<'s> {
    worker: ReadingStreamer<'s>,
    /// Times the block in hand.
    pass: Option<Pass<'s>>,
    /// There is no stream right now.
    stranded: bool,
}

impl Outlet for Direct<'_> {
    fn block(&mut self) -> Option<Block<Sent>> {
        self.pass = self.worker.shared.bypass.shortcut.enter();
        self.worker.shared.staging.acquire_aside()
    }

    fn deliver(&mut self, block: Block<Sent>) {
        if let Some(pass) = &self.pass {
            pass.own_work_follows();
        }
        self.stranded = !self.worker.send_or_queue(block);
        if let Some(pass) = self.pass.take() {
            pass.done();
        }
        self.worker.shared.settle();
    }

    fn goes_on(&self) -> bool {
        !self.stranded && self.worker.is_wanted() && self.worker.shared.bypass.direct.load(Relaxed)
    }
}

/// Sends a whole claim on one stream, however long that takes to open.
struct OneStream<'s>(ReadingStreamer<'s>);

impl Outlet for OneStream<'_> {
    fn block(&mut self) -> Option<Block<Sent>> {
        self.0.shared.staging.acquire_aside()
    }

    fn deliver(&mut self, block: Block<Sent>) {
        let (shared, slot) = (self.0.shared, &mut *self.0.slot);
        while shared.data_stream(slot).is_none() && !shared.is_stopped() {
            shared.rest(slot.pause());
        }
        self.0.send_or_queue(block);
    }

    fn goes_on(&self) -> bool {
        self.0.is_wanted() && !self.0.shared.is_stopped()
    }
}

impl SenderState {
    /// What one stream's worker does until the transfer ends.
    pub(super) fn stream(&self, index: u16, gate: &Gate) {
        let throttle = Throttle::new(self.terms.limits.network);
        let mut slot = StreamSlot::new(index);
        let mut reader = ReaderState::new(self);
        // Blocks that the read pool has left come first.
        let direct = || self.bypass.direct.load(Relaxed);
        let turn = || if direct() && self.staging.is_empty() { Admission::Take } else { Admission::Leave };
        while gate.pass(index) {
            self.rest(slot.pause());
            if let Some(work) = self.work.take(turn, &self.tally.streams_idle) {
                let (slot, throttle) = (&mut slot, throttle.as_ref());
                let worker = ReadingStreamer { shared: self, index, gate, slot, throttle };
                let mut outlet = Direct { worker, pass: None, stranded: false };
                self.read_work(work, &mut outlet, &mut reader);
                continue;
            }
            match self.staging.take_while(|| !direct() || self.is_stopped()) {
                Some(block) => {
                    self.send_or_queue(&mut slot, block, throttle.as_ref());
                }
                None if self.staging.is_closed() => break,
                None => {}
            }
        }
        if let Some(data_stream) = slot.data_stream {
            self.data_streams.finish(data_stream);
        }
    }

    /// Waits for `time`, or until stopped.
    fn rest(&self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end && !self.is_stopped() {
            thread::sleep(Duration::from_millis(10).min(time));
        }
    }

    /// As [`stream`](Self::stream), for claims that belong to one stream each: its worker reads what it sends. Without
    /// pipelining each has a connection of its own, which is closed once all of it has arrived: what tools without
    /// pipelining do (LDM, table II).
    pub(super) fn stream_claims(&self, index: u16, gate: &Gate) {
        let throttle = Throttle::new(self.terms.limits.network);
        let (mut slot, mut reader) = (StreamSlot::new(index), ReaderState::new(self));
        while gate.pass(index) {
            let Some(work) = self.work.take(|| Admission::Take, &self.tally.streams_idle) else { break };
            let (slot, throttle) = (&mut slot, throttle.as_ref());
            let worker = ReadingStreamer { shared: self, index, gate, slot, throttle };
            self.read_work(work, &mut OneStream(worker), &mut reader);
            if !self.terms.pipelining
                && let Some(data_stream) = slot.data_stream.take()
            {
                while !self.data_streams.is_settled(&data_stream) && !self.is_stopped() {
                    thread::sleep(Duration::from_millis(1));
                }
                self.data_streams.finish(data_stream);
            }
        }
        if let Some(data_stream) = slot.data_stream {
            self.data_streams.finish(data_stream);
        }
    }

    /// Sends a block on the worker's stream; `false` if there is none, and the block is the next one
    /// for whoever has a stream.
    fn send_or_queue(
        &self,
        slot: &mut StreamSlot,
        mut block: Block<Sent>,
        throttle: Option<&Throttle>,
    ) -> bool {
        let Some(open) = self.data_stream(slot) else {
            self.staging.put_back(block);
            return false;
        };
        if !self.send_block(open, &mut block, throttle) {
            slot.lose();
        }
        self.staging.release(block);
        true
    }

    /// Sends a block within the limits; `false` if the stream was lost, with what was on it sent again.
    fn send_block(
        &self,
        data_stream: &mut DataStream,
        block: &mut Block<Sent>,
        throttle: Option<&Throttle>,
    ) -> bool {
        let bytes: u64 = block.frames.iter().map(|sent| u64::from(sent.length)).sum();
        let mut uncounted = bytes;
        let sent = self.data_streams.take_up(data_stream, block).and_then(|()| {
            let length = block.wire_length();
            in_portions(throttle, self.link.as_ref(), length, &self.ending.stopped, |portion| {
                // What follows the headers, as far as it is known; what is zeros takes nothing.
                let counts = uncounted.min(portion.len() as u64);
                data_stream.write(block, portion)?;
                uncounted -= counts;
                self.tally.sent.fetch_add(counts, Relaxed);
                Ok(())
            })
        });
        match sent {
            Ok(()) => {
                self.tally.sent.fetch_add(uncounted, Relaxed);
                self.data_streams.written(data_stream, bytes).iter().for_each(Sent::arrived);
                self.ledger.bytes_moved.fetch_add(bytes, Relaxed);
                true
            }
            Err(error) => {
                tracing::debug!("stream {} is lost: {error}", data_stream.index());
                self.lost(data_stream.index());
                // Frames that never left the block.
                for sent in block.frames.drain(..) {
                    self.resend(&sent.file, sent.offset..sent.offset + u64::from(sent.length));
                }
                false
            }
        }
    }

    /// The worker's stream, opened if it has none; `None` if there is none yet or no more.
    fn data_stream<'l>(&self, slot: &'l mut StreamSlot) -> Option<&'l mut DataStream> {
        if slot.data_stream.is_none() {
            let worker = slot.worker;
            let opened = open_patiently(|| self.data_streams.open(worker), || self.is_stopped());
            slot.data_stream = opened.unwrap_or_else(|error| {
                self.fail(error);
                None
            });
        }
        slot.data_stream.as_mut()
    }
}
