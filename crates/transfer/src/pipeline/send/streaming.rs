//! The network pool: each worker keeps one stream and sends whatever block is next.

use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use super::Shared;
use crate::pipeline::lanes::Lane;
use crate::pipeline::pool::Gate;
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
            let bytes: u64 = block.frames.iter().map(|sent| u64::from(sent.length)).sum();
            if let Some(throttle) = &throttle {
                throttle.take(block.length, &self.stopped);
            }
            if let Some(link) = &self.link {
                link.take(block.length, &self.stopped);
            }
            match self.lanes.send(open, &mut block) {
                Ok(()) => {
                    self.sent_bytes.fetch_add(bytes, Relaxed);
                    self.ledger.bytes_moved.fetch_add(bytes, Relaxed);
                }
                Err(error) => {
                    tracing::debug!("stream {} is lost: {error}", open.index());
                    self.lost(open.index());
                    // Frames that never left the block.
                    for sent in block.frames.drain(..) {
                        self.resend(&sent.file, sent.offset..sent.offset + u64::from(sent.length));
                    }
                    lane = None;
                }
            }
            self.staging.release(block);
        }
        if let Some(lane) = lane {
            self.lanes.finish(lane);
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
