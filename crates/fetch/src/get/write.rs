//! The write pool, and the shortcut around it while writing is as quick as memory.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use tidegate_transfer::error::Result;
use tidegate_transfer::hash::Digest;
use tidegate_transfer::manifest::BLOCK;
use tidegate_transfer::pipeline::incoming::Change;
use tidegate_transfer::pipeline::pool::Gate;
use tidegate_transfer::pipeline::staging::Block;
use tidegate_transfer::throttle::Throttle;

use crate::get::file::Body;
use crate::get::shared::Shared;

/// What a block that is all zeros is compared with.
static ZEROS: [u8; BLOCK as usize] = [0; BLOCK as usize];

/// A block of a file that has arrived.
pub(super) struct Arrived {
    pub(super) body: Arc<Body>,
    pub(super) offset: u64,
    pub(super) length: usize,
    pub(super) digest: Digest,
}

/// Who computes a file's checksums: whoever writes a block, or the digest pool later. A connection's own
/// thread leaves them, since it would read nothing meanwhile, but for a file of one block, which is done
/// sooner than handed over.
#[derive(Clone, Copy)]
enum Sums {
    TakenIn,
    Left,
}

impl Shared {
    /// What one writer does until the download ends.
    pub(super) fn write(&self, index: u16, gate: &Gate) {
        let throttle = Throttle::new(self.settings.limits.write);
        while gate.pass(index) {
            // A throttled writer sleeps more than it writes: others must not wait for it.
            let block = match throttle {
                Some(_) => self.staging.take(),
                None => self.staging.take_if(occupy),
            };
            let Some(block) = block else { return };
            let pass = self.shortcut.count();
            self.write_block(&block, throttle.as_ref(), Sums::TakenIn);
            pass.done();
            self.staging.release(block);
            if !gate.is_open(index) {
                self.staging.nudge();
            }
        }
    }

    /// Writes a block that has just arrived where it is, or leaves it to the pool.
    pub(super) fn deliver(&self, block: Block<Arrived>) {
        if self.staging.is_empty()
            && let Some(pass) = self.shortcut.enter()
            && occupy(&block)
        {
            self.write_block(&block, None, Sums::Left);
            pass.done();
            self.staging.release(block);
            // A writer that left the file to us waits, and we do not come back for what it refused.
            if !self.staging.is_empty() {
                self.staging.nudge();
            }
        } else {
            self.staging.put(block);
        }
    }

    fn write_block(&self, block: &Block<Arrived>, throttle: Option<&Throttle>, sums: Sums) {
        for arrived in &block.frames {
            let body = &arrived.body;
            if body.has_ended() || self.is_stopped() {
                continue;
            }
            if let Some(throttle) = throttle {
                throttle.take(arrived.length, &self.stopped);
            }
            let written = self.write_arrived(arrived, &block.bytes[..arrived.length], sums);
            if let Err(error) = written {
                self.fail_write(&body.file, &error);
            }
        }
        if let Some(first) = block.frames.first() {
            first.body.incoming.leave();
        }
    }

    fn write_arrived(&self, arrived: &Arrived, bytes: &[u8], sums: Sums) -> Result<()> {
        let (body, length) = (&arrived.body, bytes.len() as u64);
        let Some(part) = body.incoming.part_for(arrived.offset, &*self.sink, None)? else {
            // Another request brought it before.
            self.ledger.bytes_again.fetch_add(length, Relaxed);
            return Ok(());
        };
        if is_zero(bytes) {
            part.zero_at(arrived.offset, length)?;
        } else {
            part.write_at(arrived.offset, bytes)?;
        }
        let change = body.incoming.written(arrived.offset, arrived.digest)?;
        self.count_written(body, length);
        if change == Change::Checkpoint {
            self.dirty.lock().expect("not poisoned").push(Arc::clone(&body.incoming));
        }
        match sums {
            Sums::Left if body.size() > BLOCK => self.see_to(body),
            _ => self.take_in(body, arrived.offset, bytes),
        }
        Ok(())
    }
}

fn occupy(block: &Block<Arrived>) -> bool {
    block.frames.first().is_none_or(|first| first.body.incoming.occupy())
}

/// Data that is not all zeros is nearly always told by its first bytes.
fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().take(16).all(|&byte| byte == 0) && bytes == &ZEROS[..bytes.len()]
}
