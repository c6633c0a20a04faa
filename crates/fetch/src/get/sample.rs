//! Compares a sample of what came from several versions that a file's server shows, and sees to what comes of it.

use std::io::Read;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use tidegate_transfer::error::{Error, Result};
use tidegate_transfer::pipeline::write_path::WriteHandler;

use crate::get::digest::place;
use crate::get::fetch::Worker;
use crate::get::file::{Body, Next, Trust};
use crate::get::memory::{ALTERNATING, SEVERAL};
use crate::get::queue::{Job, Task};
use crate::get::sources::SAMPLE;
use crate::get::state::DownloadState;
use crate::remote::{Refusal, Version, Why};

/// How many answers for each connection, and more, may come of a new version and none of the one before, until that is
/// taken for replaced.
const UNDECIDED: (u32, u32) = (2, 8);

/// New connections that are made to find the versions seen before, where a balancer may lead each to another server.
const MAX_RECONNECTS: usize = 6;

/// Why nothing could be compared.
enum Trouble {
    Server(Refusal),
    Disk(Error),
    /// Nobody wants it any more.
    Over,
}

impl DownloadState {
    /// Whether a sample is to tell that a version that is complete is one file.
    pub(super) fn needs_sample(&self, body: &Body) -> bool {
        body.file.lock().trust == Trust::Sample && !body.sources().is_one()
    }
}

impl Worker<'_> {
    /// Another version was shown than the one under way. Unless what is there of the latter differs, both are taken.
    pub(super) fn sample_at_once(
        &mut self,
        job: &Job,
        body: &Arc<Body>,
        again: impl FnOnce(Option<Instant>),
    ) {
        let shared = self.shared;
        // Before anything of the other can be recorded as the first one's.
        if let Err(error) = shared.several(body, SEVERAL) {
            return shared.write_failed(body, error);
        }
        let front = body.incoming.written_from(0);
        let ends = [0..SAMPLE.min(front), front.saturating_sub(SAMPLE)..front];
        let next = match self.compare(job, body, &ends) {
            Ok(false) => self.fails(body),
            Err(Trouble::Disk(error)) => return shared.write_failed(body, error),
            Err(Trouble::Over) => return,
            // A sample of the whole decides, in the end.
            Ok(true) | Err(Trouble::Server(_)) => job.file.lock().sample_holds(body),
        };
        shared.follow(&job.file, Some(body), next, again);
    }

    /// Compares a sample of what is there of `body`, which then goes on, or gets its name if it is complete.
    pub(super) fn sample(&mut self, job: &Job, body: &Arc<Body>) {
        let (file, shared) = (&job.file, self.shared);
        let is_there = |range: &Range<u64>| body.incoming.written_from(range.start) >= range.end;
        let seed = shared.settings.seed ^ u64::from(file.id);
        let places = body.sources().samples(body.size(), seed, is_there);
        let is_complete = body.front().sums.is_some();
        let mut compared = self.compare(job, body, &places);
        for _ in 0..MAX_RECONNECTS {
            if !is_complete || !matches!(compared, Ok(true)) || body.sources().alternate() {
                break;
            }
            self.reconnect();
            compared = self.compare(job, body, &places[..1]);
        }
        let next = match compared {
            Ok(true) if !is_complete => return shared.push_missing(body),
            Ok(true) if body.sources().alternate() => {
                // A later run that finds it complete can rely on it.
                return match shared.several(body, ALTERNATING) {
                    Ok(()) => shared.seal(body),
                    Err(error) => shared.write_failed(body, error),
                };
            }
            Ok(_) => self.fails(body),
            Err(Trouble::Over) => return,
            Err(Trouble::Disk(error)) => return shared.write_failed(body, error),
            Err(Trouble::Server(refusal)) => {
                return self.refused(job, Some(body), refusal, |not_before| {
                    shared.queue.push(file, Task::Sample(Arc::clone(body)), not_before);
                });
            }
        };
        shared.follow(file, Some(body), next, |_| {});
    }

    /// `range` begins to come, of `version`.
    pub(super) fn comes(
        &self,
        body: &Arc<Body>,
        range: &Range<u64>,
        version: &Version,
        asked: Instant,
    ) -> Result<(), Next> {
        if body.file.lock().trust != Trust::Sample {
            return Ok(());
        }
        let (known, alternate, undecided) = {
            let mut sources = body.sources();
            let known = sources.alternate();
            sources.comes(range, version, asked);
            (known, sources.alternate(), sources.undecided)
        };
        if alternate && !known {
            let labelled = self.shared.several(body, ALTERNATING);
            labelled.unwrap_or_else(|error| tracing::debug!("{error}"));
        }
        let (each, more) = UNDECIDED;
        let most = each * u32::from(self.shared.connected.load(Relaxed)) + more;
        if !alternate && undecided > most { Err(self.fails(body)) } else { Ok(()) }
    }

    /// No sample tells that what is there of `body` is one file.
    fn fails(&self, body: &Arc<Body>) -> Next {
        let file = &body.file;
        let alternate = body.sources().alternate();
        let next = file.lock().sample_fails(body, alternate);
        if matches!(next, Next::Anew) {
            let place = place(file, body.mirror);
            match alternate {
                true => tracing::warn!(
                    "{place} gives parts that do not fit together; it comes anew, over one connection"
                ),
                false => tracing::debug!("{place} was replaced while it was fetched"),
            }
        }
        next
    }

    /// Whether what the server gives at `places`, each in one answer, is what is there of `body`.
    fn compare(&mut self, job: &Job, body: &Arc<Body>, places: &[Range<u64>]) -> Result<bool, Trouble> {
        let shared = self.shared;
        let part = body.incoming.part(&*shared.path.sink, None).map_err(Trouble::Disk)?;
        let of_size = Version { bytes: Some(body.size()), ..Version::default() };
        let (mut theirs, mut ours) = (vec![0; SAMPLE as usize], vec![0; SAMPLE as usize]);
        for range in places.iter().filter(|range| !range.is_empty()) {
            let length = (range.end - range.start) as usize;
            let (theirs, ours) = (&mut theirs[..length], &mut ours[..length]);
            let asked_at = Instant::now();
            let ask = Self::ask(&job.file, job.mirror, range.clone(), Some(&of_size));
            let opened = self.remote.open(&ask).map_err(Trouble::Server)?;
            self.answered(&job.file.hosts[job.mirror]);
            if opened.range != *range {
                return Ok(false);
            }
            body.sources().shown(&opened.version, asked_at);
            let mut source = opened.body;
            self.fill(job, body, &mut *source, theirs)?;
            part.read_at(range.start, ours).map_err(Trouble::Disk)?;
            if theirs != ours {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn fill(
        &mut self,
        job: &Job,
        body: &Body,
        source: &mut dyn Read,
        buffer: &mut [u8],
    ) -> Result<(), Trouble> {
        let shared = self.shared;
        let mut filled = 0;
        while filled < buffer.len() {
            if shared.path.is_stopped() || body.has_ended() {
                return Err(Trouble::Over);
            }
            let until = buffer.len().min(filled.saturating_add(self.portion()));
            let broken = match source.read(&mut buffer[filled..until]) {
                Ok(0) => std::io::ErrorKind::UnexpectedEof.into(),
                Ok(n) => {
                    filled += n;
                    self.count(n);
                    shared.path.ledger.bytes_again.fetch_add(n as u64, Relaxed);
                    continue;
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => error,
            };
            let error = Error::connection("reading", place(&job.file, job.mirror), broken);
            return Err(Trouble::Server(Refusal::of(Why::Broken, error)));
        }
        // A body that is read to its end leaves its connection warm.
        let _ = source.read(&mut [0]);
        Ok(())
    }
}
