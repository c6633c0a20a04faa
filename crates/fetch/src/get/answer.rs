//! Takes the bytes of an answer, block by block, as far as they are claimed.
//!
//! A worker that is to stop finishes what is nearly done; else it gives the rest back at once, so that a
//! smaller set-point takes effect within a fraction of a second.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use tidegate_transfer::error::{Error, ErrorKind};
use tidegate_transfer::manifest::BLOCK;
use tidegate_transfer::pipeline::proof::{Proof, ZEROS};
use tidegate_transfer::pipeline::write_path::Arrived;
use tidegate_transfer::throttle::Throttle;

use crate::get::digest::place;
use crate::get::fetch::Worker;
use crate::get::queue::{ActiveClaim, Job};
use crate::host::Host;
use crate::remote::{Opened, Refusal, Why};

/// What is finished all the same by a worker that is to stop: what takes no longer than this, or as little
/// as this that takes no longer than that.
const SOON: Duration = Duration::from_millis(250);
const NEARLY: u64 = 1 << 20;
const LATER: Duration = Duration::from_secs(2);

/// Weight of the latest request in a worker's rate.
const WEIGHT: f64 = 0.5;

/// How a body ended.
enum End {
    /// As far as it was wanted.
    Done,
    /// The worker is to stop; the block at this offset is not complete.
    Parked(u64),
    /// It broke off, and the block at this offset is not complete.
    Lost(u64, Error),
    /// It is not what was announced, from the block at this offset on.
    Wrong(u64, Error),
    /// Nobody wants the rest.
    Over,
}

impl Worker<'_> {
    /// Takes the bytes of an answer as far as they are claimed, and sees to what comes of it.
    pub(super) fn read(
        &mut self,
        job: &Job,
        held: &Arc<ActiveClaim>,
        opened: Opened,
        asked_at: Instant,
        parked: &dyn Fn() -> bool,
    ) {
        let (file, shared) = (&job.file, self.shared);
        let body = &held.claim.file;
        file.lock().mirrors[job.mirror].used = true;
        let promised = opened.range.end.min(body.size());
        let mut source = opened.body;
        let mut moved = 0;
        // What comes in one go cannot be continued by another.
        let whole = !file.lock().gives_parts(shared.queue.mixes(file));
        let parked = || !whole && parked();
        let end = self.take(held, &mut *source, opened.range.start, promised, asked_at, &parked, &mut moved);
        let host = &file.hosts[job.mirror];
        self.measured(host, moved, asked_at);
        // What is less than a block, or cannot be continued, brings the file no further.
        if matches!(end, End::Done) || (moved >= BLOCK && !whole) {
            file.lock().progress(job.mirror);
        }
        match end {
            End::Done => {
                // Less may have come than was asked for, as was announced: the rest is asked for.
                shared.queue.give_back(held, None, None);
            }
            End::Wrong(at, error) => {
                shared.queue.give_back(held, Some(at), None);
                self.leave(job, Some(body), error);
            }
            End::Parked(at) => shared.queue.give_back(held, Some(at), None),
            End::Over => shared.queue.done(held),
            End::Lost(at, error) => {
                drop(source);
                let refusal = Refusal::of(Why::Broken, error);
                self.refused(job, Some(body), refusal, |not_before| {
                    if whole {
                        shared.begin_anew(file, Some(body), not_before);
                    } else {
                        shared.queue.give_back(held, Some(at), not_before);
                    }
                });
                shared.queue.done(held);
            }
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn take(
        &mut self,
        held: &ActiveClaim,
        source: &mut dyn Read,
        from: u64,
        promised: u64,
        asked_at: Instant,
        parked: &dyn Fn() -> bool,
        moved: &mut u64,
    ) -> End {
        let shared = self.shared;
        let body = &held.claim.file;
        let proof = shared.proof(&body.file);
        debug_assert!(from.is_multiple_of(BLOCK));
        let mut at = from;
        held.listen(false);
        while at < promised {
            let Some(range) = held.claim.next() else { break };
            held.at.store(range.start, Relaxed);
            debug_assert_eq!(range.start, at);
            let Some(mut block) = shared.path.staging.acquire() else { return End::Over };
            let length = (range.end - range.start) as usize;
            let mut filled = 0;
            while filled < length {
                if shared.path.is_stopped() || body.has_ended() {
                    shared.path.staging.release(block);
                    return End::Over;
                }
                if parked() {
                    let left = held.claim.remaining() + (length - filled) as u64;
                    let rate = *moved as f64 / asked_at.elapsed().as_secs_f64().max(1e-6);
                    let time = if left > NEARLY { SOON } else { LATER };
                    if left as f64 > rate * time.as_secs_f64() {
                        shared.path.staging.release(block);
                        return End::Parked(range.start);
                    }
                }
                held.listen(true);
                let until = length.min(filled.saturating_add(self.portion()));
                let read = source.read(&mut block.bytes[filled..until]);
                held.listen(false);
                match read {
                    Ok(0) => {
                        shared.path.staging.release(block);
                        let why = format!(
                            "{} broke off after {} of {promised} bytes",
                            place(&body.file, body.mirror),
                            range.start + filled as u64
                        );
                        return End::Lost(range.start, Error::new(ErrorKind::Connection, why));
                    }
                    Ok(n) => {
                        filled += n;
                        *moved += n as u64;
                        self.count(n);
                    }
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    Err(error) => {
                        shared.path.staging.release(block);
                        let error = Error::connection("reading", place(&body.file, body.mirror), error);
                        return End::Lost(range.start, error);
                    }
                }
            }
            // Before the last block counts: a longer body is none that was asked for. And a body that is read
            // to its end leaves its connection warm.
            if range.end == promised
                && let Ok(1..) = source.read(&mut [0])
            {
                shared.path.staging.release(block);
                let why = format!("{} sent more bytes than it promised", place(&body.file, body.mirror));
                return End::Wrong(range.start, Error::new(ErrorKind::Protocol, why));
            }
            let digest = Proof::of(&block.bytes[..length], range.start, body.size(), proof).digest;
            block.length = length;
            let data = 0..if is_zero(&block.bytes[..length]) { 0 } else { length };
            let (file, offset) = (Arc::clone(body), range.start);
            block.frames.push(Arrived { file, offset, length: length as u32, data, digest, placed: false });
            shared.path.deliver(shared, block);
            at = range.end;
            let rate = *moved as f64 / asked_at.elapsed().as_secs_f64().max(1e-6);
            held.rate.store(rate as u64, Relaxed);
        }
        End::Done
    }

    /// The most to be read at once, so that what comes within a limit is an even flow.
    pub(super) fn portion(&self) -> usize {
        let throttles = [&self.throttle, &self.shared.link].into_iter().flatten();
        throttles.map(Throttle::portion).min().unwrap_or(usize::MAX)
    }

    /// Bytes have come.
    pub(super) fn count(&self, bytes: usize) {
        let shared = self.shared;
        shared.network_bytes.fetch_add(bytes as u64, Relaxed);
        shared.path.ledger.bytes_moved.fetch_add(bytes as u64, Relaxed);
        for throttle in [&self.throttle, &shared.link].into_iter().flatten() {
            throttle.take(bytes, shared.path.stopped());
        }
    }

    /// A request brought `moved` bytes.
    pub(super) fn measured(&mut self, host: &Host, moved: u64, asked_at: Instant) {
        // A few bytes say more of the round trip than of the rate.
        if moved < BLOCK {
            return;
        }
        let rate = moved as f64 / asked_at.elapsed().as_secs_f64().max(1e-6);
        host.measured(Instant::now(), rate, self.asked.first_byte);
        self.rate = if self.rate > 0.0 { self.rate + WEIGHT * (rate - self.rate) } else { rate };
    }
}

/// Data that is not all zeros is nearly always told by its first bytes.
fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().take(16).all(|&byte| byte == 0) && bytes == &ZEROS[..bytes.len()]
}
