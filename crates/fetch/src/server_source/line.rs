//! Ways to servers that readers take and give back, warm, and what is done where a server refuses: waited for its room,
//! tried again with patience, or given up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tidegate_contract::outage_line;
use tidegate_control::units::duration_in_words;
use tidegate_transfer::error::{Error, ErrorKind, Result};
use tidegate_transfer::outage::{Next, Outage};
use tidegate_transfer::sys::sync::Mutex;
use tidegate_transfer::sys::thread;
use tidegate_transfer::transfer::Interrupt;
use url::Url;

use crate::host::ceilings::Ceilings;
use crate::host::proven::{Connected, Proven};
use crate::host::{Host, Hosts, put_off};
use crate::remote::{Ask, Opened, Refusal, Remote, Remotes, Version, WARM, Why};

/// How often who waits looks whether it is over.
const GLANCE: Duration = Duration::from_millis(10);

/// How often a request is tried again without progress although its server answers.
const RETRIES: u32 = 8;

/// All ways to servers of one source.
pub(super) struct LinePool {
    remotes: Arc<dyn Remotes>,
    hosts: Hosts,
    most: u16,
    idle: Mutex<Vec<Line>>,
    retry_for: Duration,
    interrupt: Interrupt,
    /// Whether the run has begun: until then whoever begins it again sees to the waiting for a server that is away.
    begun: AtomicBool,
    stopped: AtomicBool,
}

/// One worker's way to servers, and what it knows of them.
pub(super) struct Line {
    remote: Box<dyn Remote>,
    proven: Proven,
    connected: Connected,
    /// Where a request of it is under way.
    at: Option<Arc<Host>>,
    used: Instant,
}

/// What was tried for one file since something of it came.
#[derive(Debug, Default)]
pub(super) struct Tries {
    failures: u32,
    since: Option<Instant>,
    waits: Outage,
}

impl Tries {
    /// Something came.
    pub fn progress(&mut self) {
        (self.failures, self.since) = (0, None);
    }

    /// One that was asked for at `asked_at` failed by `error`, and others before it for no longer than `retry_for`; answers with
    /// how many did.
    fn count(&mut self, error: &Error, asked_at: Instant, retry_for: Duration) -> Result<u32> {
        self.failures += 1;
        let lasted = self.since.get_or_insert(asked_at).elapsed();
        let why = if self.failures > RETRIES {
            format!("given up after {} tries", self.failures)
        } else if self.failures > 1 && lasted >= retry_for {
            format!("given up after {}", duration_in_words(lasted))
        } else {
            return Ok(self.failures);
        };
        Err(error.clone().in_words(format!("{} ({why})", error.message)))
    }
}

impl Line {
    /// A request has ended, however it did.
    pub fn leave(&mut self) {
        if let Some(host) = self.at.take() {
            host.leave(self.proven.has(&host));
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.leave();
    }
}

impl LinePool {
    /// No connection yet; a server that is away is waited for as long as `retry_for`.
    pub fn new(remotes: Arc<dyn Remotes>, most: u16, retry_for: Duration, interrupt: Interrupt) -> Self {
        let hosts = Hosts::new(Ceilings::default(), Arc::default(), most, 0);
        let (idle, begun, stopped) = Default::default();
        Self { remotes, hosts, most, idle, retry_for, interrupt, begun, stopped }
    }

    /// The run has begun: a server that is away is waited for here from now on.
    pub fn begin(&self) {
        self.begun.store(true, Relaxed);
    }

    /// The connections that the hosts of `urls` bear together.
    pub fn room<'u>(&self, urls: impl Iterator<Item = &'u Url>) -> u16 {
        let (mut known, mut room) = (Vec::<Arc<Host>>::new(), 0_u32);
        for host in urls.map(|url| self.hosts.of(url)) {
            if !known.iter().any(|other| Arc::ptr_eq(other, &host)) {
                room += u32::from(host.ceiling(Instant::now()));
                known.push(host);
            }
        }
        room.clamp(1, u32::from(self.most)) as u16
    }

    /// Whoever waits shall not any more.
    pub fn stop(&self) {
        self.stopped.store(true, Relaxed);
    }

    /// A way to servers, a warm one if there is any.
    pub fn take(&self) -> Line {
        let mut idle = self.idle.lock();
        idle.retain(|line| line.used.elapsed() < WARM);
        idle.pop().unwrap_or_else(|| Line {
            remote: self.remotes.remote(),
            proven: Proven::default(),
            connected: Connected::default(),
            at: None,
            used: Instant::now(),
        })
    }

    /// Takes it back; its connection stays warm for a while.
    pub fn give_back(&self, mut line: Line) {
        line.leave();
        line.used = Instant::now();
        self.idle.lock().push(line);
    }

    /// What a server says of the file at `url`.
    pub fn look(&self, url: &Url) -> Result<Version, Refusal> {
        let mut line = self.take();
        let ask = Ask { url, headers: &[], range: 0..u64::MAX, version: None };
        let looked = self.patiently(&mut line, url, &mut Tries::default(), |remote| remote.look(&ask));
        self.give_back(line);
        looked
    }

    /// Asks for bytes of a file; the request ends by [`Line::leave`].
    pub fn open(&self, line: &mut Line, ask: &Ask<'_>, tries: &mut Tries) -> Result<Opened> {
        self.patiently(line, ask.url, tries, |remote| remote.open(ask)).map_err(|refusal| refusal.error)
    }

    /// The bytes of an answer broke off by `error`; answers once it makes sense to ask again.
    pub fn broke_off(&self, line: &mut Line, url: &Url, error: Error, tries: &mut Tries) -> Result<()> {
        let host = self.hosts.of(url);
        let refusal = Refusal::of(Why::Broken, error);
        let pause =
            self.refused(line, &host, refusal, Instant::now(), tries).map_err(|refusal| refusal.error);
        line.leave();
        self.rest(pause?)
    }

    /// Asks until there is an answer, or none is to be hoped for.
    fn patiently<T>(
        &self,
        line: &mut Line,
        url: &Url,
        tries: &mut Tries,
        ask: impl Fn(&mut dyn Remote) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let host = self.hosts.of(url);
        loop {
            self.enter(line, &host).map_err(|error| Refusal::of(Why::Senseless, error))?;
            let asked_at = Instant::now();
            match ask(&mut *line.remote) {
                Ok(answer) => {
                    line.proven.answered(&host);
                    return Ok(answer);
                }
                Err(refusal) => {
                    let pause = self.refused(line, &host, refusal, asked_at, tries);
                    line.leave();
                    self.rest(pause?).map_err(|error| Refusal::of(Why::Senseless, error))?;
                }
            }
        }
    }

    /// Waits until `host` has room for a request of `line`, which may become another that has a connection there.
    fn enter(&self, line: &mut Line, host: &Arc<Host>) -> Result<()> {
        line.leave();
        loop {
            if host.enter(Instant::now(), line.proven.has(host), line.connected.has(host)) {
                line.connected.opened(host);
                line.at = Some(Arc::clone(host));
                return Ok(());
            }
            if !line.connected.has(host)
                && let Some(warm) = self.connected_to(host)
            {
                *line = warm;
                continue;
            }
            self.rest(GLANCE)?;
        }
    }

    /// An idle way that has a connection to `host`.
    fn connected_to(&self, host: &Arc<Host>) -> Option<Line> {
        let mut idle = self.idle.lock();
        let index = idle.iter().position(|line| line.connected.has(host))?;
        Some(idle.remove(index))
    }

    /// What a refusal asks for: a pause before the next try, or its error if there is to be none.
    fn refused(
        &self,
        line: &mut Line,
        host: &Arc<Host>,
        refusal: Refusal,
        asked_at: Instant,
        tries: &mut Tries,
    ) -> Result<Duration, Refusal> {
        let now = Instant::now();
        tracing::debug!("{} ({:?})", refusal.error, refusal.why);
        let pause = match refusal.why {
            Why::Missing | Why::Denied | Why::Senseless | Why::Changed => return Err(refusal),
            Why::Busy => {
                let (proven, asked) = (line.proven.lost(host), refusal.retry_after);
                match host.refused(now, asked_at, proven, asked, self.retry_for) {
                    // The host sees to the waiting; it counts only if nobody gets on.
                    None => Ok(Duration::ZERO),
                    Some(next) => {
                        put_off::say(&refusal.error, asked, next);
                        self.outlast(&refusal.error, asked_at, next, tries)
                    }
                }
            }
            Why::Later => {
                line.proven.answered(host);
                let asked = refusal.retry_after;
                let (next, at) = put_off::later(&mut tries.waits, now, asked, self.retry_for);
                put_off::say(&refusal.error, asked, next);
                self.outlast(&refusal.error, asked_at, next, &mut Tries::default())
                    .map(|_| at.saturating_duration_since(now))
            }
            Why::Unreachable if !self.begun.load(Relaxed) => return Err(refusal),
            Why::Unreachable => {
                let proven = line.proven.lost(host);
                if !proven && host.turned_away(now, asked_at) {
                    return Ok(Duration::ZERO);
                }
                let next = host.unreachable(now, proven, self.retry_for);
                if let Next::Again { left, tell: true, .. } = next {
                    let words =
                        outage_line::write(&refusal.error.to_string(), true, &duration_in_words(left));
                    tracing::warn!("{words}");
                }
                self.outlast(&refusal.error, asked_at, next, tries)
            }
            Why::Broken => {
                let proven = line.proven.lost(host);
                if let Some(wait) = host.lost(now, proven) {
                    tracing::warn!("{}; trying again in {:.1} s", refusal.error, wait.as_secs_f64());
                }
                tries.count(&refusal.error, asked_at, self.retry_for).map(|failures| match failures {
                    1 => Duration::ZERO,
                    more => host.jitter(more - 1),
                })
            }
        };
        pause.map_err(|error| Refusal { error, ..refusal })
    }

    /// Waits a moment; fails once nobody wants what is waited for.
    pub fn glance(&self) -> Result<()> {
        self.rest(GLANCE)
    }

    /// Fails once nobody wants what is asked for.
    pub fn goes_on(&self) -> Result<()> {
        match self.stopped.load(Relaxed) || self.interrupt.is_raised() {
            true => Err(Error::new(ErrorKind::Interrupted, "stopped")),
            false => Ok(()),
        }
    }

    /// Waits; fails once nobody wants what is waited for.
    fn rest(&self, time: Duration) -> Result<()> {
        let until = Instant::now() + time;
        loop {
            self.goes_on()?;
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            thread::sleep(left.min(GLANCE));
        }
    }

    /// A server does not answer, or only that it is busy, and `next` says how long that is borne.
    fn outlast(&self, error: &Error, asked_at: Instant, next: Next, tries: &mut Tries) -> Result<Duration> {
        match next {
            Next::GiveUp(time) if time.is_zero() => Err(error.clone()),
            Next::GiveUp(time) => {
                let why = format!("{} (given up after {})", error.message, duration_in_words(time));
                Err(error.clone().in_words(why))
            }
            // Who answers others meanwhile does not answer this.
            Next::Again { failures: 1, .. } => {
                tries.count(error, asked_at, self.retry_for).map(|_| Duration::ZERO)
            }
            Next::Again { .. } => Ok(Duration::ZERO),
        }
    }
}
