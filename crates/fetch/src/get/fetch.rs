//! What one connection does: asks for a beginning, a part, or what a server says of a file, and sees to what
//! comes of it. Its connections stay with it, and for a while also when it is parked.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_contract::outage_line;
use tidegate_control::units::duration_in_words;
use tidegate_transfer::error::{Error, ErrorKind, Result, Retry};
use tidegate_transfer::manifest::BLOCK;
use tidegate_transfer::outage;
use tidegate_transfer::pipeline::pool::Gate;
use tidegate_transfer::throttle::Throttle;
use url::Url;

use crate::get::digest::place;
use crate::get::event::Got;
use crate::get::file::{Body, DownloadFile, Next, Trust};
use crate::get::memory::fingerprint;
use crate::get::queue::{ActiveClaim, Asker, Job, Order, Task};
use crate::get::state::DownloadState;
use crate::host::proven::{Connected, Proven};
use crate::host::{Host, put_off};
use crate::remote::{Ask, Refusal, Remote, Remotes, Version, WARM, Why};

/// One network worker.
pub(super) struct Worker<'s> {
    pub(super) shared: &'s DownloadState,
    remotes: &'s dyn Remotes,
    pub(super) remote: Box<dyn Remote>,
    pub(super) throttle: Option<Throttle>,
    proven: Proven,
    connected: Connected,
    /// Bytes a second.
    pub(super) rate: f64,
    /// What it asks for, or asked for last.
    pub(super) asked: CurrentRequest,
}

/// A request of a worker's.
#[derive(Clone, Copy, Debug)]
pub(super) struct CurrentRequest {
    at: Instant,
    /// How long its first byte took, if its connection was warm, and among how many requests to the host.
    pub(super) first_byte: Option<(Duration, u16)>,
}

/// A worker beside its gate.
struct AtGate<'w, 's> {
    worker: &'w Worker<'s>,
    index: u16,
    gate: &'w Gate,
}

impl Asker for AtGate<'_, '_> {
    fn leaves(&self) -> bool {
        !self.gate.is_open(self.index)
    }

    fn is_proven(&self, host: &Arc<Host>) -> bool {
        self.worker.proven.has(host)
    }

    fn is_connected(&self, host: &Arc<Host>) -> bool {
        self.worker.connected.has(host)
    }

    fn rate(&self) -> f64 {
        self.worker.rate
    }

    fn latency(&self) -> Duration {
        self.worker.shared.quickest.time()
    }
}

impl<'s> Worker<'s> {
    pub(super) fn new(shared: &'s DownloadState, remotes: &'s dyn Remotes) -> Self {
        let throttle = Throttle::new(shared.settings.limits.network);
        let asked = CurrentRequest { at: Instant::now(), first_byte: None };
        Self {
            shared,
            remotes,
            remote: remotes.remote(),
            throttle,
            proven: Proven::default(),
            connected: Connected::default(),
            rate: 0.0,
            asked,
        }
    }

    /// Works until the download ends.
    pub(super) fn work(&mut self, index: u16, gate: &Gate) {
        let shared = self.shared;
        while gate.pass_or_rest(index, WARM, || self.disconnect()) && !shared.path.is_stopped() {
            let job = shared.queue.take(&AtGate { worker: self, index, gate });
            let Some(job) = job else { continue };
            self.connected.opened(&job.file.hosts[job.mirror]);
            let parked = || !gate.is_open(index);
            self.asked = CurrentRequest { at: Instant::now(), first_byte: None };
            match &job.order {
                Order::Look => self.look(&job),
                Order::First(end) => self.first(&job, *end, &parked),
                Order::Part(held) => self.part(&job, held, &parked),
                Order::Sample(body) => self.sample(&job, body),
            }
            let host = &job.file.hosts[job.mirror];
            host.leave(self.proven.has(host));
            if !shared.settings.pipelining {
                self.disconnect();
            }
            shared.queue.nudge();
        }
    }

    /// Closes its connections; the next request opens another.
    fn disconnect(&mut self) {
        self.remote = self.remotes.remote();
        self.connected.close();
    }

    /// Has the next request open another connection to the host that it is at.
    pub(super) fn reconnect(&mut self) {
        self.remote = self.remotes.remote();
    }

    /// The host answered.
    pub(super) fn answered(&mut self, host: &Arc<Host>) {
        let known = self.proven.answered(host);
        self.asked.first_byte = known.then(|| (self.asked.at.elapsed(), host.active()));
    }

    pub(super) fn ask<'a>(
        file: &'a DownloadFile,
        mirror: usize,
        range: std::ops::Range<u64>,
        pin: Option<&'a Version>,
    ) -> Ask<'a> {
        Ask { url: &file.record.urls[mirror], headers: &file.record.headers, range, version: pin }
    }

    // Looking ----------------------------------------------------------------------------------------

    /// Asks what the server says of a file of which something is there.
    fn look(&mut self, job: &Job) {
        let (file, shared) = (&job.file, self.shared);
        file.lock().started.get_or_insert_with(Instant::now);
        let answer = self.remote.look(&Self::ask(file, job.mirror, 0..u64::MAX, None));
        let seen = match answer {
            Ok(seen) => seen,
            Err(refusal) if refusal.why.retry() != Retry::Never => {
                return self.refused(job, None, refusal, |not_before| {
                    shared.queue.push(file, Task::Look, not_before);
                });
            }
            // Some servers do not let one look. Then what is there does not help.
            Err(refusal) => {
                tracing::debug!("{}", refusal.error);
                return shared.queue.push(file, Task::First, None);
            }
        };
        self.answered(&file.hosts[job.mirror]);
        let url = &file.record.urls[job.mirror];
        let version = fingerprint(&file.record.checksums, file.record.bytes, url, &seen);
        if let Some(before) = &file.before
            && Some(before.version) == version
            && seen.bytes.is_none_or(|bytes| bytes == before.size)
        {
            let got = Got {
                bytes: before.size,
                checked: shared.settings.verify && before.proves(&seen.checksums),
                checksums: before.checksums(),
                seconds: 0.0,
                url: url.clone(),
                modified: seen.time(),
            };
            return shared.skip(file, &got);
        }
        if let Some(got) = shared.complete_before(file, job.mirror, &seen) {
            return shared.skip(file, &got);
        }
        match shared.existing(&file.record) {
            Err(error) => return shared.fail_one(file, &error),
            Ok(Some(existing)) if shared.gives_way(file, &existing).is_err() => {
                return shared.compare(file, existing, job.mirror, seen);
            }
            Ok(_) => {}
        }
        let (Some(bytes), Some(_), true) = (seen.bytes, version, seen.ranges) else {
            return shared.queue.push(file, Task::First, None);
        };
        if let Err(error) = self.fits(file, job.mirror, bytes) {
            return self.leave(job, None, error);
        }
        match shared.begin_body(file, job.mirror, &seen, Some(bytes)) {
            Ok(body) => {
                shared.go_on(&body);
                shared.version_started(&body);
            }
            Err(error) => shared.fail_one(file, &error),
        }
    }

    // A beginning --------------------------------------------------------------------------------------

    fn first(&mut self, job: &Job, end: u64, parked: &dyn Fn() -> bool) {
        let (file, shared) = (&job.file, self.shared);
        file.lock().started.get_or_insert_with(Instant::now);
        let asked_at = Instant::now();
        let one_answer = file.lock().trust == Trust::OneAnswer;
        let end = if one_answer { u64::MAX } else { end };
        let opened = match self.remote.open(&Self::ask(file, job.mirror, 0..end, None)) {
            Ok(opened) => opened,
            Err(refusal) => {
                return self.refused(job, None, refusal, |not_before| {
                    shared.queue.push(file, Task::First, not_before);
                });
            }
        };
        self.answered(&file.hosts[job.mirror]);
        shared.quickest.answered(asked_at.elapsed());
        if opened.range.start != 0 {
            let why = format!("{} did not begin at its first byte", place(file, job.mirror));
            return self.leave(job, None, Error::new(ErrorKind::Protocol, why));
        }
        let Some(bytes) = opened.version.bytes else {
            return self.stream(job, opened, asked_at);
        };
        if let Err(error) = self.fits(file, job.mirror, bytes) {
            return self.leave(job, None, error);
        }
        // All comes although less was asked for, or nothing but all ever comes.
        let first = opened.range.end.min(bytes);
        let whole = first == bytes && (bytes > end || !opened.version.ranges || one_answer);
        // Fewer bytes than were asked for are taken in whole blocks.
        let first = if first < bytes { first / BLOCK * BLOCK } else { bytes };
        file.lock().mirrors[job.mirror].whole = whole;
        let body = match shared.begin_body(file, job.mirror, &opened.version, Some(bytes)) {
            Ok(body) => body,
            Err(error) => return shared.fail_one(file, &error),
        };
        if body.incoming.kept > 0 && !whole {
            // The beginning is there already, or more than that: what is not is asked for.
            shared.go_on(&body);
            return shared.version_started(&body);
        }
        shared.version_started(&body);
        let held = shared.queue.begin(&body, 0..first, first..bytes, !whole);
        self.read(job, &held, opened, asked_at, parked);
    }

    /// Whether a mirror has as many bytes as were declared.
    fn fits(&self, file: &DownloadFile, mirror: usize, bytes: u64) -> Result<()> {
        match file.record.bytes.filter(|&declared| declared != bytes) {
            None => Ok(()),
            Some(declared) => {
                let place = place(file, mirror);
                let why =
                    format!("{place} has {bytes} bytes, and {declared} were declared for {}", file.name());
                Err(Error::new(ErrorKind::Corrupt, why))
            }
        }
    }

    // A part -------------------------------------------------------------------------------------------

    fn part(&mut self, job: &Job, held: &Arc<ActiveClaim>, parked: &dyn Fn() -> bool) {
        let (file, shared) = (&job.file, self.shared);
        let body = &held.claim.file;
        let left = held.claim.left();
        if left.start >= left.end || body.has_ended() {
            return shared.queue.done(held);
        }
        let pin = file.lock().pin(job.mirror);
        let asked_at = Instant::now();
        let opened = match self.remote.open(&Self::ask(file, job.mirror, left.clone(), pin.as_ref())) {
            Ok(opened) => opened,
            Err(refusal) => {
                self.refused(job, Some(body), refusal, |not_before| {
                    shared.queue.give_back(held, None, not_before);
                });
                return shared.queue.done(held);
            }
        };
        self.answered(&file.hosts[job.mirror]);
        shared.quickest.answered(asked_at.elapsed());
        let version = &opened.version;
        let url = &file.record.urls[job.mirror];
        if let Some(pin) = &pin
            && pin.differs(version)
        {
            self.refused(job, Some(body), changed(url), |not_before| {
                shared.queue.give_back(held, None, not_before);
            });
            return shared.queue.done(held);
        }
        if version.bytes.is_some_and(|bytes| bytes != body.size()) {
            // A mirror that has not been asked before has another file.
            let why = format!(
                "{} has {} bytes, and another mirror {}",
                place(file, job.mirror),
                version.bytes.unwrap_or(0),
                body.size()
            );
            shared.queue.give_back(held, None, None);
            return self.leave(job, Some(body), Error::new(ErrorKind::Corrupt, why));
        }
        {
            let mut state = file.lock();
            if state.concerns(Some(body)) && state.mirrors[job.mirror].pin.is_none() {
                state.mirrors[job.mirror].pin = Some(version.clone());
            }
        }
        if let Err(next) = self.comes(body, &left, version, asked_at) {
            shared.queue.give_back(held, None, None);
            return shared.follow(file, Some(body), next, |_| {});
        }
        if opened.range.start == left.start {
            return self.read(job, held, opened, asked_at, parked);
        }
        if opened.range.start != 0 {
            let why = format!("{} sent another part than was asked for", place(file, job.mirror));
            shared.queue.give_back(held, None, None);
            return self.leave(job, Some(body), Error::new(ErrorKind::Protocol, why));
        }
        // It sends the file as a whole. If nobody sends parts, all comes through this one request.
        let parts = {
            let mut state = file.lock();
            state.mirrors[job.mirror].whole = true;
            state.gives_parts(shared.queue.mixes(file))
        };
        shared.queue.give_back(held, None, None);
        if !parts {
            let held = shared.queue.gather(body);
            self.read(job, &held, opened, asked_at, parked);
        }
    }

    // What went wrong ------------------------------------------------------------------------------------

    /// A mirror is asked no more for this file.
    pub(super) fn leave(&self, job: &Job, body: Option<&Arc<Body>>, error: Error) {
        let (file, shared) = (&job.file, self.shared);
        let mixes = shared.queue.mixes(file);
        let next = file.lock().leave(body, job.mirror, error, mixes);
        shared.follow(file, body, next, |not_before| {
            if body.is_none() {
                shared.queue.push(file, Task::First, not_before);
            }
        });
    }

    /// Does what a refusal asks for; `again` puts the work back.
    pub(super) fn refused(
        &mut self,
        job: &Job,
        body: Option<&Arc<Body>>,
        refusal: Refusal,
        again: impl FnOnce(Option<Instant>),
    ) {
        let (file, shared) = (&job.file, self.shared);
        let host = &file.hosts[job.mirror];
        let Refusal { why, error, retry_after, .. } = refusal;
        tracing::debug!("{error} ({why:?})");
        let now = Instant::now();
        let retries = shared.settings.retries;
        let mixes = shared.queue.mixes(file);
        let mut state = file.lock();
        let next = match why {
            Why::Missing | Why::Denied | Why::Senseless => state.leave(body, job.mirror, error, mixes),
            Why::Changed => match body.filter(|body| state.may_sample(body, mixes)) {
                Some(body) => {
                    drop(state);
                    return self.sample_at_once(job, body, again);
                }
                None => state.changed(body, &error, mixes),
            },
            Why::Busy => {
                let proven = self.proven.lost(host);
                let retry_for = shared.settings.retry_for;
                let next = host.refused(now, self.asked.at, proven, retry_after, retry_for);
                drop(state);
                // The host sees to the waiting; it counts only if nobody gets on.
                let Some(next) = next else { return again(None) };
                put_off::say(&error, retry_after, next);
                state = file.lock();
                state.outlast(body, job.mirror, error, next, retries, mixes)
            }
            Why::Later => {
                self.answered(host);
                let (next, not_before) =
                    put_off::later(&mut state.waits, now, retry_after, shared.settings.retry_for);
                put_off::say(&error, retry_after, next);
                match next {
                    outage::Next::Again { .. } if state.concerns(body) => Next::Again(Some(not_before)),
                    next => state.outlast(body, job.mirror, error, next, retries, mixes),
                }
            }
            Why::Unreachable => {
                let proven = self.proven.lost(host);
                // Who served this worker a moment ago is away, rather than full.
                if !proven && host.turned_away(now, self.asked.at) {
                    drop(state);
                    return again(None);
                }
                let next = host.unreachable(now, proven, shared.settings.retry_for);
                if let outage::Next::Again { left, tell: true, .. } = next {
                    tracing::warn!(
                        "{}",
                        outage_line::write(&error.to_string(), true, &duration_in_words(left))
                    );
                }
                state.outlast(body, job.mirror, error, next, retries, mixes)
            }
            Why::Broken => {
                let proven = self.proven.lost(host);
                if let Some(wait) = host.lost(now, proven) {
                    tracing::warn!("{error}; trying again in {:.1} s", wait.as_secs_f64());
                }
                state.try_again(body, job.mirror, &error, retries, mixes, |n| now + host.jitter(n))
            }
        };
        drop(state);
        shared.follow(file, body, next, again);
    }
}

fn changed(url: &Url) -> Refusal {
    let place = format!("{}://{}{}", url.scheme(), url.host_str().unwrap_or_default(), url.path());
    let error = Error::new(ErrorKind::Changed, format!("{place} changed while it was fetched"));
    Refusal::of(Why::Changed, error)
}
