//! One connection of a pipe: asks for pieces and brings them block by block. What broke off is asked for from there on.

use std::io::Read;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use tidegate_contract::outage_line;
use tidegate_control::units::duration_in_words;
use tidegate_transfer::error::{Error, ErrorKind};
use tidegate_transfer::manifest::BLOCK;
use tidegate_transfer::outage;
use tidegate_transfer::pipeline::pool::Gate;
use tidegate_transfer::throttle::Throttle;

use crate::host::proven::{Connected, Proven};
use crate::host::put_off;
use crate::pipe::flow::{PipeClaim, PipeState};
use crate::remote::{Ask, Opened, Refusal, Remote, Remotes, WARM, Why, shown};

/// One worker.
pub(crate) struct PipeWorker<'s> {
    state: &'s PipeState,
    remote: Box<dyn Remote>,
    proven: Proven,
    connected: Connected,
    remotes: &'s dyn Remotes,
    throttle: Option<Throttle>,
}

/// How a piece ended.
enum End {
    Done,
    Lost(Error),
    Over,
}

impl<'s> PipeWorker<'s> {
    /// Without a connection yet.
    pub fn new(state: &'s PipeState, remotes: &'s dyn Remotes) -> Self {
        let throttle = Throttle::new(state.settings.limits.network);
        let (proven, connected) = (Proven::default(), Connected::default());
        Self { state, remote: remotes.remote(), proven, connected, remotes, throttle }
    }

    /// Works until the pipe ends, while `gate` lets worker `index` pass.
    pub fn work(&mut self, index: u16, gate: &Gate) {
        while gate.pass_or_rest(index, WARM, || self.disconnect()) {
            while let Some(claim) = self.state.claim((&self.proven, &self.connected), || gate.is_open(index))
            {
                self.connected.opened(claim.host());
                self.fetch(&claim);
                claim.host().leave(self.proven.has(claim.host()));
            }
            if self.state.stopped.load(Relaxed) {
                return;
            }
        }
    }

    /// Closes its connections; the next request opens another.
    fn disconnect(&mut self) {
        self.remote = self.remotes.remote();
        self.connected.close();
    }

    fn fetch(&mut self, claim: &PipeClaim) {
        let (state, asked_at, range) = (self.state, Instant::now(), claim.range.clone());
        let (url, headers) = (&claim.record.urls[claim.mirror], &claim.record.headers[..]);
        let ask = Ask { url, headers, range: range.clone(), version: claim.pin.as_ref() };
        let opened = match self.remote.open(&ask) {
            Ok(opened) => opened,
            Err(refusal) => {
                state.give_back(claim.number, range);
                return self.refused(claim, asked_at, refusal);
            }
        };
        let known = self.proven.answered(claim.host());
        state.quickest.answered(asked_at.elapsed());
        let first_byte = known.then(|| (asked_at.elapsed(), claim.host().active()));
        // All comes although less was asked for, or nobody knows how much.
        let first = range.start == 0 && claim.pin.is_none();
        let end = opened.range.end.min(opened.version.bytes.unwrap_or(u64::MAX));
        let whole = first && (end > range.end || !opened.version.ranges);
        match state.answered(claim, &opened.version, whole) {
            None => return,
            Some(Ok(())) => {}
            Some(Err(why)) => {
                state.give_back(claim.number, range);
                let why = format!("{} {why}", shown(url));
                return state.leave(claim, Error::new(ErrorKind::Corrupt, why));
            }
        }
        if opened.range.start != range.start && opened.range.start != 0 {
            state.give_back(claim.number, range);
            let why = format!("{} sent another part than was asked for", shown(url));
            return state.leave(claim, Error::new(ErrorKind::Protocol, why));
        }
        let wanted = range.start..if whole { end } else { range.end.min(end) };
        // Less may come than was asked for, as was announced: the rest is asked for.
        let rest = range.end.min(opened.version.bytes.unwrap_or(wanted.end));
        state.give_back(claim.number, wanted.end..rest);
        let mut at = wanted.start;
        let ended = self.read(claim, opened, wanted.clone(), &mut at);
        if at - range.start >= BLOCK {
            let rate = (at - range.start) as f64 / asked_at.elapsed().as_secs_f64().max(1e-6);
            claim.host().measured(Instant::now(), rate, first_byte);
        }
        if let End::Lost(error) = ended {
            state.give_back(claim.number, at..wanted.end);
            self.refused(claim, asked_at, Refusal::of(Why::Broken, error));
        }
    }

    /// Brings the bytes of `wanted`; `at` is where it stopped. What an answer has before them is passed over.
    fn read(&self, claim: &PipeClaim, opened: Opened, wanted: Range<u64>, at: &mut u64) -> End {
        let place = || shown(&claim.record.urls[claim.mirror]);
        let mut source = opened.body;
        let mut over = wanted.start - opened.range.start;
        let mut buffer = Vec::new();
        while *at < wanted.end {
            if !self.state.fits(claim.number, *at) {
                return End::Over;
            }
            let length = if over > 0 { over.min(BLOCK) } else { (wanted.end - *at).min(BLOCK) };
            buffer.resize(length as usize, 0);
            let (filled, failure) = self.fill(&mut *source, &mut buffer);
            buffer.truncate(filled);
            let ended = (filled as u64) < length && failure.is_none();
            if over > 0 {
                over -= filled as u64;
            } else if filled > 0 {
                self.state.bring(claim.number, *at, std::mem::take(&mut buffer));
                *at += filled as u64;
            }
            if let Some(error) = failure {
                return End::Lost(Error::connection("reading", place(), error));
            }
            if ended && wanted.end == u64::MAX && over == 0 {
                self.state.ends(claim.number, *at);
                return End::Done;
            }
            if ended {
                let why = format!("{} broke off after {} of {} bytes", place(), *at, wanted.end);
                return End::Lost(Error::new(ErrorKind::Connection, why));
            }
        }
        // A body that is read to its end leaves its connection warm.
        let _ = source.read(&mut [0]);
        End::Done
    }

    /// Fills the buffer as far as bytes come; how far, and what went wrong.
    fn fill(&self, source: &mut dyn Read, buffer: &mut [u8]) -> (usize, Option<std::io::Error>) {
        let mut filled = 0;
        while filled < buffer.len() {
            let portion = self.throttles().map(Throttle::portion).min().unwrap_or(usize::MAX);
            let until = buffer.len().min(filled.saturating_add(portion));
            match source.read(&mut buffer[filled..until]) {
                Ok(0) => break,
                Ok(n) => {
                    filled += n;
                    self.state.brought.fetch_add(n as u64, Relaxed);
                    self.throttles().for_each(|throttle| throttle.take(n, &self.state.stopped));
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return (filled, Some(error)),
            }
        }
        (filled, None)
    }

    fn throttles(&self) -> impl Iterator<Item = &Throttle> {
        [&self.throttle, &self.state.throttle].into_iter().flatten()
    }

    /// Does what a refusal asks for; the piece is given back already.
    fn refused(&mut self, claim: &PipeClaim, asked_at: Instant, refusal: Refusal) {
        let (state, host, now) = (self.state, claim.host(), Instant::now());
        let Refusal { why, error, retry_after, .. } = refusal;
        tracing::debug!("{error} ({why:?})");
        let retry_for = state.settings.retry_for;
        match why {
            // Behind a balancer each server may have a tag of its own for the same bytes: the checksum tells.
            Why::Changed if state.relies_on_checksum(claim) => {}
            // What was written is of the version before: there is no way back.
            Why::Missing | Why::Denied | Why::Senseless | Why::Changed => state.leave(claim, error),
            Why::Busy => {
                let proven = self.proven.lost(host);
                if let Some(next) = host.refused(now, asked_at, proven, retry_after, retry_for) {
                    put_off::say(&error, retry_after, next);
                    state.outlast(claim, &error, next);
                }
            }
            Why::Later => {
                self.proven.answered(host);
                state.put_off(claim, &error, retry_after);
            }
            Why::Unreachable => {
                let proven = self.proven.lost(host);
                if proven || !host.turned_away(now, asked_at) {
                    let next = host.unreachable(now, proven, retry_for);
                    if let outage::Next::Again { left, tell: true, .. } = next {
                        tracing::warn!(
                            "{}",
                            outage_line::write(&error.to_string(), true, &duration_in_words(left))
                        );
                    }
                    state.outlast(claim, &error, next);
                }
            }
            Why::Broken => {
                let proven = self.proven.lost(host);
                let rest = host.lost(now, proven).unwrap_or(Duration::ZERO);
                state.try_again(claim, &error, |tries| rest.max(host.jitter(tries)));
            }
        }
    }
}
