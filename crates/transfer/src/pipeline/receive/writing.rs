//! The write pool, and the shortcut around it.

use std::sync::atomic::Ordering::Relaxed;

use super::Shared;
use crate::error::Result;
use crate::pipeline::incoming::Incoming;
use crate::pipeline::intake::Arrived;
use crate::pipeline::pool::Gate;
use crate::pipeline::staging::Block;
use crate::throttle::Throttle;

impl Shared {
    /// What one writer does until the transfer ends.
    pub(super) fn write(&self, index: u16, gate: &Gate) {
        let throttle = Throttle::new(self.terms.limits.write);
        while gate.pass(index) {
            // A throttled writer sleeps more than it writes: others must not wait for it.
            let block = match throttle {
                Some(_) => self.staging.take(),
                None => {
                    self.staging.take_if(|block| block.frames.first().is_none_or(|first| first.file.occupy()))
                }
            };
            let Some(block) = block else { return };
            let pass = self.shortcut.count();
            self.write_frames(&block, throttle.as_ref());
            pass.done();
            self.staging.release(block);
            if !gate.is_open(index) {
                self.staging.nudge();
            }
        }
    }

    /// Writes a block that has just arrived where it is, or leaves it to the pool.
    pub(super) fn deliver(&self, block: Block<Arrived<Incoming>>) {
        if self.staging.is_empty()
            && let Some(pass) = self.shortcut.enter()
            && block.frames.first().is_some_and(|first| first.file.occupy())
        {
            self.write_frames(&block, None);
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

    fn write_frames(&self, block: &Block<Arrived<Incoming>>, throttle: Option<&Throttle>) {
        for frame in &block.frames {
            if frame.file.has_ended() {
                continue;
            }
            if let Some(throttle) = throttle {
                throttle.take(frame.length as usize, &self.stopped);
            }
            match self.write_frame(frame, &block.bytes) {
                Ok(()) => {
                    self.written_bytes.fetch_add(u64::from(frame.length), Relaxed);
                }
                Err(error) => self.fail_file(&frame.file, error),
            }
        }
        if let Some(first) = block.frames.first() {
            first.file.leave();
        }
    }

    fn write_frame(&self, frame: &Arrived<Incoming>, bytes: &[u8]) -> Result<()> {
        let file = &frame.file;
        let Some(part) = file.part_for(frame.offset, &*self.sink, self.descriptor(file))? else {
            self.again(&(frame.offset..frame.offset + u64::from(frame.length)));
            return Ok(());
        };
        if frame.data.is_empty() {
            part.zero_at(frame.offset, u64::from(frame.length))?;
        } else {
            part.write_at(frame.offset, &bytes[frame.data.clone()])?;
        }
        self.follow(file, file.written(frame.offset, frame.digest)?);
        Ok(())
    }
}
