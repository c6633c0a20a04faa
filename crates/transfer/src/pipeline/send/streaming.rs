//! The network pool: each worker keeps one stream and sends whatever block is next, or reads it first
//! while that is as quick as memory.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::reading::{Outlet, ReaderState};
use super::{SenderState, Sent};
use crate::pipeline::lanes::{Lane, in_vain_pause};
use crate::pipeline::pool::Gate;
use crate::pipeline::shortcut::Pass;
use crate::pipeline::staging::Block;
use crate::pipeline::work::Admission;
use crate::sys::clock::Instant;
use crate::sys::thread;
use crate::throttle::Throttle;

/// How often a worker tries to open a stream before the transfer is given up.
const DIAL_ATTEMPTS: u32 = 5;

/// A worker's stream, if it has one.
#[derive(Default)]
struct Berth {
    lane: Option<Lane>,
    /// Streams since the last one that carried anything: the receiver has no room for them.
    in_vain: u32,
}

impl Berth {
    /// The stream is gone.
    fn lose(&mut self) {
        if let Some(lane) = self.lane.take() {
            self.in_vain = if lane.was_useful() { 0 } else { self.in_vain + 1 };
        }
    }

    /// How long to wait before the next one.
    fn pause(&self) -> Duration {
        if self.lane.is_some() { Duration::ZERO } else { in_vain_pause(self.in_vain) }
    }
}

/// Sends what its worker has just read, with no queue and no other core in between.
struct Direct<'s> {
    shared: &'s SenderState,
    index: u16,
    gate: &'s Gate,
    berth: &'s mut Berth,
    throttle: Option<&'s Throttle>,
    /// Times the block in hand.
    pass: Option<Pass<'s>>,
    /// There is no stream right now.
    stranded: bool,
}

impl Outlet for Direct<'_> {
    fn block(&mut self) -> Option<Block<Sent>> {
        self.pass = self.shared.shortcut.enter();
        self.shared.staging.acquire_aside()
    }

    fn deliver(&mut self, block: Block<Sent>) {
        self.stranded = !self.shared.send_or_queue(self.berth, block, self.throttle);
        if let Some(pass) = self.pass.take() {
            pass.done();
        }
        self.shared.settle();
    }

    fn goes_on(&self) -> bool {
        !self.stranded && self.gate.is_open(self.index) && self.shared.direct.load(Relaxed)
    }
}

impl SenderState {
    /// What one stream's worker does until the transfer ends.
    pub(super) fn stream(&self, index: u16, gate: &Gate) {
        let throttle = Throttle::new(self.terms.limits.network);
        let mut berth = Berth::default();
        let mut reader = ReaderState::new(self);
        // Blocks that the read pool has left come first.
        let direct = || self.direct.load(Relaxed);
        let turn = || if direct() && self.staging.is_empty() { Admission::Take } else { Admission::Leave };
        while gate.pass(index) {
            self.rest(berth.pause());
            if let Some(work) = self.work.take(turn) {
                let (berth, throttle) = (&mut berth, throttle.as_ref());
                let mut outlet =
                    Direct { shared: self, index, gate, berth, throttle, pass: None, stranded: false };
                self.read_work(work, &mut outlet, &mut reader);
                continue;
            }
            match self.staging.take_while(|| !direct() || self.stopped.load(Relaxed)) {
                Some(block) => {
                    self.send_or_queue(&mut berth, block, throttle.as_ref());
                }
                None if self.staging.is_closed() => break,
                None => {}
            }
        }
        if let Some(lane) = berth.lane {
            self.lanes.finish(lane);
        }
    }

    /// Waits for `time`, or until stopped.
    fn rest(&self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end && !self.stopped.load(Relaxed) {
            thread::sleep(Duration::from_millis(10).min(time));
        }
    }

    /// As [`stream`](Self::stream), with a connection for each claim that is closed once all of it has
    /// arrived: what tools without pipelining do (LDM, table II).
    pub(super) fn stream_one_by_one(&self, index: u16, gate: &Gate) {
        let throttle = Throttle::new(self.terms.limits.network);
        while gate.pass(index) {
            let free = |block: &Block<Sent>| self.owned.lock().expect("not poisoned").insert(block.work.0);
            let Some(mut block) = self.staging.take_only(free) else { return };
            let (work, mut last) = block.work;
            let mut berth = Berth::default();
            loop {
                if !block.frames.is_empty() {
                    let sent = loop {
                        self.rest(berth.pause());
                        match self.lane(&mut berth) {
                            Some(open) => break self.send_block(open, &mut block, throttle.as_ref()),
                            None if self.stopped.load(Relaxed) => return,
                            None => {}
                        }
                    };
                    if !sent {
                        berth.lose();
                    }
                }
                self.staging.release(block);
                if last {
                    break;
                }
                let Some(next) = self.staging.take_only(|block| block.work.0 == work) else { return };
                last = next.work.1;
                block = next;
            }
            self.owned.lock().expect("not poisoned").remove(&work);
            if let Some(lane) = berth.lane {
                while !self.lanes.is_settled(&lane) && !self.stopped.load(Relaxed) {
                    thread::sleep(Duration::from_millis(1));
                }
                self.lanes.finish(lane);
            }
        }
    }

    /// Sends a block on the worker's stream; `false` if there is none, and the block is the next one
    /// for whoever has a stream.
    fn send_or_queue(&self, berth: &mut Berth, mut block: Block<Sent>, throttle: Option<&Throttle>) -> bool {
        let Some(open) = self.lane(berth) else {
            self.staging.put_back(block);
            return false;
        };
        if !self.send_block(open, &mut block, throttle) {
            berth.lose();
        }
        self.staging.release(block);
        true
    }

    /// Sends a block within the limits; `false` if the stream was lost, with what was on it sent again.
    fn send_block(&self, lane: &mut Lane, block: &mut Block<Sent>, throttle: Option<&Throttle>) -> bool {
        let bytes: u64 = block.frames.iter().map(|sent| u64::from(sent.length)).sum();
        for throttle in throttle.into_iter().chain(&self.link) {
            throttle.take(block.wire_length(), &self.stopped);
        }
        match self.lanes.send(lane, block) {
            Ok(()) => {
                self.sent_bytes.fetch_add(bytes, Relaxed);
                self.ledger.bytes_moved.fetch_add(bytes, Relaxed);
                true
            }
            Err(error) => {
                tracing::debug!("stream {} is lost: {error}", lane.index());
                self.lost(lane.index());
                // Frames that never left the block.
                for sent in block.frames.drain(..) {
                    self.resend(&sent.file, sent.offset..sent.offset + u64::from(sent.length));
                }
                false
            }
        }
    }

    /// The worker's stream, opened if it has none; `None` if there is none yet or no more.
    fn lane<'l>(&self, berth: &'l mut Berth) -> Option<&'l mut Lane> {
        if berth.lane.is_none() {
            let mut attempt = 0;
            berth.lane = loop {
                match self.lanes.open() {
                    Ok(opened) => break opened,
                    Err(error)
                        if error.is_retryable() && attempt < DIAL_ATTEMPTS && !self.stopped.load(Relaxed) =>
                    {
                        tracing::debug!("no stream yet: {error}");
                        thread::sleep(Duration::from_millis(50 << attempt));
                        attempt += 1;
                    }
                    Err(error) => {
                        self.fail(error.within("no data stream"));
                        break None;
                    }
                }
            };
        }
        berth.lane.as_mut()
    }
}
