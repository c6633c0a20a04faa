//! Checksums that archives publish go from a file's first byte to its last, while its parts arrive in any
//! order. Whoever writes a block at the front takes it in while it is at hand; what was written further on
//! is read back by a few threads of their own, mostly from memory, once the front has reached it. So one
//! slow sum holds up nobody else's file.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use rustix::io::Errno;
use tidegate_transfer::error::{Error, ErrorKind, Result};
use tidegate_transfer::manifest::BLOCK;
use tidegate_transfer::pipeline::write_path::WriteHandler;

use crate::checksum::{Algorithm, Checksums, Difference, Hashers};
use crate::get::digest_queue::{Check, DigestJob};
use crate::get::event::Got;
use crate::get::existing::ExistingFile;
use crate::get::file::{Body, DownloadFile, Next};
use crate::get::memory::{Fetched, fingerprint};
use crate::get::queue::Task;
use crate::get::state::DownloadState;
use crate::remote::{Version, shown};

/// What is read back of one file before others have their turn.
const TURN: u64 = 64 << 20;

impl DownloadState {
    /// What one thread of the digest pool does until the download ends.
    pub(super) fn digest(&self) {
        let mut buffer = vec![0; 8 * BLOCK as usize];
        while let Some(job) = self.digests.take() {
            match job {
                DigestJob::Follow(body) => self.read_back(&body, &mut buffer),
                DigestJob::Check(check) => self.go_through(check, &mut buffer),
            }
        }
    }

    /// A block has been written: takes it in if it is at the front, and sees to what follows it.
    pub(super) fn take_in(&self, body: &Arc<Body>, offset: u64, bytes: &[u8]) {
        let hashers = {
            let mut front = body.front();
            if front.at == offset { front.hashers.take() } else { None }
        };
        if let Some(mut hashers) = hashers {
            hashers.update(bytes);
            self.advance(body, hashers, bytes.len() as u64);
        } else {
            self.see_to(body);
        }
    }

    /// The front has moved by `length`.
    fn advance(&self, body: &Arc<Body>, hashers: Hashers, length: u64) {
        let whole = {
            let mut front = body.front();
            front.at += length;
            if front.at < body.size() {
                front.hashers = Some(hashers);
                None
            } else {
                Some(hashers)
            }
        };
        match whole {
            Some(hashers) => self.completed(body, hashers),
            None => self.see_to(body),
        }
    }

    /// Has what is written at the front and not taken in yet read back.
    pub(super) fn see_to(&self, body: &Arc<Body>) {
        let mut front = body.front();
        if front.hashers.is_none() || front.queued {
            return;
        }
        if front.hashers.as_ref().is_some_and(Hashers::is_empty) {
            // Nothing to compute: the front is where the gaps end.
            let end = body.incoming.written_from(front.at);
            front.at = end;
            if end == body.size() {
                let hashers = front.hashers.take().unwrap_or_default();
                drop(front);
                self.completed(body, hashers);
            }
            return;
        }
        if body.incoming.written_from(front.at) > front.at {
            front.queued = true;
            drop(front);
            self.digests.push(DigestJob::Follow(Arc::clone(body)));
        }
    }

    /// A stream has ended.
    pub(super) fn streamed(&self, body: &Arc<Body>) {
        let hashers = body.front().hashers.take();
        self.completed(body, hashers.unwrap_or_default());
    }

    /// A version has begun, of which earlier runs may have left something, or everything.
    pub(super) fn version_started(&self, body: &Arc<Body>) {
        if body.size() == 0 {
            let hashers = body.front().hashers.take();
            self.completed(body, hashers.unwrap_or_default());
        } else if body.incoming.kept > 0 {
            self.see_to(body);
        }
    }

    fn read_back(&self, body: &Arc<Body>, buffer: &mut [u8]) {
        let (mut hashers, from) = {
            let mut front = body.front();
            front.queued = false;
            // A writer is at it, and will see to what follows.
            let Some(hashers) = front.hashers.take() else { return };
            (hashers, front.at)
        };
        let end = body.incoming.written_from(from).min(from + TURN);
        let mut at = from;
        let read = body.incoming.part(&*self.path.sink, None).and_then(|part| {
            while at < end && !body.has_ended() && !self.path.is_stopped() {
                let length = (end - at).min(buffer.len() as u64);
                let piece = &mut buffer[..length as usize];
                part.read_at(at, piece)?;
                hashers.update(piece);
                at += length;
            }
            Ok(())
        });
        match read {
            Err(error) => self.write_failed(body, error),
            Ok(()) if body.has_ended() || self.path.is_stopped() => {}
            Ok(()) => self.advance(body, hashers, at - from),
        }
    }

    /// All of a version is written and taken in: it is what was declared, or it is dropped.
    fn completed(&self, body: &Arc<Body>, hashers: Hashers) {
        let file = &body.file;
        let mut sums = hashers.finish();
        if self.wants_blake3(file) && sums.get(Algorithm::Blake3).is_none() {
            sums.add(Algorithm::Blake3, body.incoming.whole().unwrap_or_default());
        }
        if self.settings.verify
            && let Err(error) = verify(body, &sums)
        {
            let next = file.lock().mismatched(body, error.clone());
            match next {
                Next::Anew => tracing::warn!("{error}; it is fetched once more from nothing"),
                _ => tracing::debug!("{error}"),
            }
            self.follow(file, Some(body), next, |_| {});
            return;
        }
        let is_proved = file.record.checksums.agrees(&sums) || body.vouched.agrees(&sums);
        body.front().sums = Some(sums);
        if !(self.settings.verify && is_proved) && self.needs_sample(body) {
            return self.queue.push(file, Task::Sample(Arc::clone(body)), None);
        }
        self.seal(body);
    }

    /// A version is right: it gets its mode and times, and goes on to its name.
    pub(super) fn seal(&self, body: &Arc<Body>) {
        // Somebody may have taken the name since.
        if let Err(error) = self.is_free(&body.file) {
            return self.fail_one(&body.file, &error);
        }
        self.path.hand_in(self, body, body.incoming.whole().unwrap_or_default());
    }

    /// Whether a file's BLAKE3 is asked for; that comes from its blocks, in whatever order they arrive.
    pub(super) fn wants_blake3(&self, file: &DownloadFile) -> bool {
        file.record.checksums.get(Algorithm::Blake3).is_some()
            || self.settings.extra.contains(&Algorithm::Blake3)
    }

    /// Computes what is declared of a file, vouched for by its server, and asked for besides; `all` of it,
    /// or without BLAKE3.
    pub(super) fn hashers(&self, file: &DownloadFile, vouched: &Checksums, all: bool) -> Hashers {
        let of_parts = vouched.of_parts().filter(|_| self.settings.verify);
        let declared = |algorithm: &Algorithm| file.record.checksums.get(*algorithm).is_some();
        let vouched = |algorithm: &Algorithm| self.settings.verify && vouched.get(*algorithm).is_some();
        let extra = |algorithm: &Algorithm| self.settings.extra.contains(algorithm);
        let wanted = |algorithm: &Algorithm| declared(algorithm) || vouched(algorithm) || extra(algorithm);
        let here = |algorithm: &Algorithm| all || *algorithm != Algorithm::Blake3;
        Hashers::new(Algorithm::ALL.into_iter().filter(here).filter(wanted)).and_of_parts(of_parts)
    }

    // What is there already ---------------------------------------------------------------------------

    /// Has a file that is there read, and compared with what was declared of it or with what its server, `seen` at
    /// `mirror`, vouches for.
    pub(super) fn check(
        &self,
        file: &Arc<DownloadFile>,
        existing: ExistingFile,
        mirror: usize,
        seen: Version,
    ) {
        let Some(content) = existing.content else { return self.queue.push(file, Task::First, None) };
        let hashers = self.hashers(file, &seen.checksums, true);
        let (file, size, mtime) = (Arc::clone(file), existing.size, existing.mtime);
        let check = Check { file, content, size, mtime, hashers, at: 0, mirror, seen };
        self.digests.push(DigestJob::Check(Box::new(check)));
    }

    /// What is there and must not be replaced is what is wanted only if its server vouches for what it sums up to.
    pub(super) fn compare(
        &self,
        file: &Arc<DownloadFile>,
        existing: ExistingFile,
        mirror: usize,
        seen: Version,
    ) {
        let vouched = self.settings.verify && !seen.checksums.is_empty() && existing.content.is_some();
        if vouched && existing.may_have(seen.bytes) {
            return self.check(file, existing, mirror, seen);
        }
        if let Err(error) = self.gives_way(file, &existing) {
            self.fail_one(file, &error);
        }
    }

    fn go_through(&self, mut check: Box<Check>, buffer: &mut [u8]) {
        let end = check.size.min(check.at + TURN);
        while check.at < end {
            if self.path.is_stopped() {
                return;
            }
            let length = (end - check.at).min(buffer.len() as u64) as usize;
            match rustix::io::pread(&check.content, &mut buffer[..length], check.at) {
                Ok(n) if n > 0 => {
                    check.hashers.update(&buffer[..n]);
                    check.at += n as u64;
                }
                Err(Errno::INTR) => {}
                // It changes under our hands, or cannot be read: fetched anew.
                _ => return self.queue.push(&check.file, Task::First, None),
            }
        }
        if check.at < check.size {
            return self.digests.push(DigestJob::Check(check));
        }
        let file = &check.file;
        let sums = check.hashers.finish();
        let declared = &file.record.checksums;
        let expected = if declared.is_empty() { &check.seen.checksums } else { declared };
        let differs = expected.differs(&sums);
        if differs.is_some() || !expected.agrees(&sums) {
            return match self.gives_way_to(file, differs.as_ref()) {
                Ok(()) => self.queue.push(file, Task::First, None),
                Err(error) => self.fail_one(file, &error),
            };
        }
        let url = &file.record.urls[check.mirror];
        let version = fingerprint(declared, file.record.bytes, url, &check.seen);
        if let Some(version) = version {
            let fetched = Fetched::new(check.size, check.mtime, version, &sums.without(declared));
            self.remember(file, &fetched);
        }
        let got = Got {
            bytes: check.size,
            checksums: sums,
            checked: self.settings.verify,
            seconds: 0.0,
            url: url.clone(),
            modified: Some(check.mtime),
        };
        self.skip(file, &got);
    }
}

/// Whether a version's sums are those that were declared, and those its servers vouch for.
fn verify(body: &Body, sums: &Checksums) -> Result<()> {
    let file = &body.file;
    let wrong = |differs: Difference, whose: &str| {
        let Difference { kind, expected, computed } = differs;
        let why = format!(
            "{}: {kind} is {computed}, and {whose} {expected}; {} bytes came from {}",
            file.name(),
            body.written.load(Relaxed),
            place(file, body.mirror),
        );
        Error::new(ErrorKind::Corrupt, why)
    };
    if let Some(differs) = file.record.checksums.differs(sums) {
        return Err(wrong(differs, "should be"));
    }
    body.vouched.contradicts(sums).map_or(Ok(()), |differs| Err(wrong(differs, "its server says")))
}

/// A mirror for people: without what may be secret.
pub(super) fn place(file: &DownloadFile, mirror: usize) -> String {
    let mut url = file.record.urls[mirror].clone();
    url.set_query(None);
    shown(&url)
}
