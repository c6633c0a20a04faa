//! The network pool: each worker keeps one stream and sends whatever block is next.

use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use super::{Sent, Shared};
use crate::pipeline::lanes::Lane;
use crate::pipeline::pool::Gate;
use crate::pipeline::staging::Block;
use crate::throttle::Throttle;

/// How often a worker tries to open a stream before the transfer is given up.
const DIAL_ATTEMPTS: u32 = 5;

impl Shared {
    /// What one stream's worker does until the transfer ends.
    pub(super) fn stream(&self, index: u16, gate: &Gate) {
        let throttle = Throttle::new(self.terms.limits.network);
        let mut lane: Option<Lane> = None;
        while gate.pass(index) {
            let Some(mut block) = self.staging.take() else { break };
            let Some(open) = self.lane(&mut lane) else {
                self.staging.put_back(block);
                continue;
            };
            if !self.send_block(open, &mut block, throttle.as_ref()) {
                lane = None;
            }
            self.staging.release(block);
        }
        if let Some(lane) = lane {
            self.lanes.finish(lane);
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
            let mut lane = None;
            loop {
                if !block.frames.is_empty() {
                    let sent = loop {
                        match self.lane(&mut lane) {
                            Some(open) => break self.send_block(open, &mut block, throttle.as_ref()),
                            None if self.stopped.load(Relaxed) => return,
                            None => {}
                        }
                    };
                    if !sent {
                        lane = None;
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
            if let Some(lane) = lane {
                while !self.lanes.is_settled(&lane) && !self.stopped.load(Relaxed) {
                    thread::sleep(Duration::from_millis(1));
                }
                self.lanes.finish(lane);
            }
        }
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
    fn lane<'l>(&self, lane: &'l mut Option<Lane>) -> Option<&'l mut Lane> {
        if lane.is_none() {
            let mut attempt = 0;
            *lane = loop {
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
        lane.as_mut()
    }
}
