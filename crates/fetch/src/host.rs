//! Other people's servers, one by one: how many connections each bears, when it is to be left alone,
//! and how fast it is.
//!
//! Two things are kept apart. A server that refuses because too much is asked of it (`Host::refused`)
//! gets half as many connections, and none but those that have worked; the others wait, and one more is tried now and
//! then. So does one that turns new connections away while it serves others (`Host::turned_away`), or that answers
//! later for nothing (`first_bytes`). A server that cannot be reached (`Host::lost`) is left alone altogether for a
//! while.

pub mod ceilings;
mod first_bytes;
pub mod held;
pub(crate) mod proven;
pub(crate) mod put_off;
pub(crate) mod quickest;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tidegate_control::Rng;
use tidegate_transfer::outage::{self, Outage};
use tidegate_transfer::sys::sync::{Mutex, MutexGuard};
use url::Url;

use crate::host::ceilings::Ceilings;
use crate::host::first_bytes::FirstBytes;
use crate::host::held::HeldCeilings;

/// First and longest wait after a refusal or a lost connection; it doubles in between, and the time waited
/// is drawn from zero up to it.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Longest wait for a server that does not answer: so soon it is noticed when it is back, and people hear about once a
/// minute that it is not.
const LONGEST_AWAY: Duration = Duration::from_secs(15);

/// Longest wait that a server can ask of some for, while it serves others.
const LONGEST_ASKED: Duration = Duration::from_secs(600);

/// When one more connection is first tried after a refusal; doubles each time that is refused too.
const FIRST_RAISE: Duration = Duration::from_secs(30);
const LONGEST_RAISE: Duration = Duration::from_secs(1800);
/// How soon the next one is tried while they work.
const QUICKEST_RAISE: Duration = Duration::from_secs(5);

/// Connections lost in a row, with none that worked in between, after which a host rests.
const LOST_IN_A_ROW: u32 = 3;

/// Weight of the latest request in a host's rate.
const WEIGHT: f64 = 0.3;

/// Hosts remembered before those that no file lies at are forgotten.
const REMEMBERED: usize = 4096;

/// All hosts of a run.
#[derive(Debug)]
pub(crate) struct Hosts {
    ceilings: Ceilings,
    /// What pushed back in earlier runs, and is told what pushes back in this one.
    held: Arc<HeldCeilings>,
    most: u16,
    known: Mutex<HashMap<String, Arc<Host>>>,
    rng: Mutex<Rng>,
}

impl Hosts {
    /// No host yet; none may have more than `most` connections.
    pub fn new(ceilings: Ceilings, held: Arc<HeldCeilings>, most: u16, seed: u64) -> Self {
        Self { ceilings, held, most, known: Mutex::default(), rng: Mutex::new(Rng::new(seed)) }
    }

    /// The host that a URL leads to.
    pub fn of(&self, url: &Url) -> Arc<Host> {
        let name = url.host_str().unwrap_or_default();
        let place = match url.port_or_known_default() {
            Some(port) => format!("{name}:{port}"),
            None => format!("{}://{name}", url.scheme()),
        };
        let mut known = self.known.lock();
        if let Some(host) = known.get(&place) {
            return Arc::clone(host);
        }
        if known.len() >= REMEMBERED {
            known.retain(|_, host| host.wanted.load(Relaxed) > 0);
        }
        let seed = self.rng.lock().fork();
        let most = self.ceilings.of(name).min(self.most);
        let host = Host::new(most, seed).remembering(&place, &self.held, Instant::now());
        let host = Arc::new(host);
        known.insert(place, Arc::clone(&host));
        host
    }

    /// The connections that all hosts with work bear together, at least one.
    pub fn room(&self, now: Instant) -> u16 {
        let known = self.known.lock();
        let wanted = known.values().filter(|host| host.wanted.load(Relaxed) > 0);
        let sum: u32 = wanted.map(|host| u32::from(host.ceiling(now))).sum();
        sum.clamp(1, u32::from(self.most)) as u16
    }
}

/// One server.
#[derive(Debug)]
pub(crate) struct Host {
    /// Files under way that lie there.
    wanted: AtomicUsize,
    state: Mutex<State>,
    /// What remembers its push-back, and by what name.
    held: Option<(Arc<HeldCeilings>, String)>,
}

/// What can be hoped for from a host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Promise {
    rate: f64,
    active: u16,
}

impl Promise {
    /// The better one first.
    pub fn order(&self, other: &Self) -> std::cmp::Ordering {
        other.rate.total_cmp(&self.rate).then(self.active.cmp(&other.active))
    }
}

#[derive(Debug)]
struct State {
    /// Most connections now, and by settings.
    ceiling: u16,
    most: u16,
    /// Workers that may have a connection here, used or idle.
    connections: u16,
    /// Requests under way.
    active: u16,
    /// Of these, requests of workers whose last one here was answered: this one, or the one before.
    good: u16,
    /// Until when those that are not proven wait, or everybody.
    rest: Option<Rest>,
    refusals: u32,
    lost: u32,
    outage: Outage,
    raise_at: Option<Instant>,
    raise_every: Duration,
    /// What answers that a push-back overtook may bring the ceiling back to.
    bound: u16,
    /// When it was last lowered: requests from before speak of the same push-back.
    lowered_at: Option<Instant>,
    /// The ceiling before a push-back that may be a network that goes away.
    doubt: Option<u16>,
    /// One connection more than is known to work is being tried.
    trying: bool,
    /// So many were used since.
    reached: bool,
    /// In this run it bore some connections and refused others.
    pushed_back: bool,
    /// It did so after what was noted of it last, which so was too much.
    is_news: bool,
    /// Bytes a second of one connection; 0 while unknown.
    rate: f64,
    first_bytes: FirstBytes,
    rng: Rng,
}

#[derive(Clone, Copy, Debug)]
struct Rest {
    until: Instant,
    everybody: bool,
}

impl Host {
    fn new(most: u16, rng: Rng) -> Self {
        let state = State {
            ceiling: most.max(1),
            most: most.max(1),
            connections: 0,
            active: 0,
            good: 0,
            rest: None,
            refusals: 0,
            lost: 0,
            outage: Outage::default(),
            raise_at: None,
            raise_every: FIRST_RAISE,
            bound: most.max(1),
            lowered_at: None,
            doubt: None,
            trying: false,
            reached: false,
            pushed_back: false,
            is_news: false,
            rate: 0.0,
            first_bytes: FirstBytes::default(),
            rng,
        };
        Self { wanted: AtomicUsize::new(0), state: Mutex::new(state), held: None }
    }

    /// Begins at what this host bore when it last pushed back, and lets `held` know when it does again. One connection
    /// more is tried as after a refusal.
    fn remembering(mut self, place: &str, held: &Arc<HeldCeilings>, now: Instant) -> Self {
        let state = self.state.get_mut();
        if let Some(bore) = held.of(place).filter(|&bore| bore < state.most) {
            state.ceiling = bore.max(1);
            state.bound = state.ceiling;
            state.raise_at = Some(now + state.raise_every);
        }
        self.held = Some((Arc::clone(held), place.to_owned()));
        self
    }

    /// What it bears now is to be remembered, if it has pushed back.
    fn hold(&self, state: &mut State) {
        if let Some((held, place)) = self.held.as_ref().filter(|_| state.pushed_back) {
            // The one that is being tried has not worked yet.
            let bears = (state.ceiling - u16::from(state.trying)).max(1);
            held.note(place, bears, std::mem::take(&mut state.is_news));
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// A file that lies here is under way, or is no more.
    pub fn want(&self, more: bool) {
        match more {
            true => self.wanted.fetch_add(1, Relaxed),
            false => self.wanted.fetch_sub(1, Relaxed),
        };
    }

    /// Most connections now.
    pub fn ceiling(&self, now: Instant) -> u16 {
        let mut state = self.lock();
        state.raise(now);
        self.hold(&mut state);
        state.ceiling
    }

    /// Whether a request may be made now, by a worker whose last one here was answered (`proven`) or not, and that has a
    /// connection here (`connected`) or opens one.
    pub fn has_room(&self, now: Instant, proven: bool, connected: bool) -> bool {
        self.lock().has_room(now, proven, connected)
    }

    /// Takes room for a request; `false` if there is none. [`leave`](Self::leave) must follow, and where it was not
    /// connected, sometime [`closed`](Self::closed).
    pub fn enter(&self, now: Instant, proven: bool, connected: bool) -> bool {
        let mut state = self.lock();
        let room = state.has_room(now, proven, connected);
        state.active += u16::from(room);
        state.good += u16::from(room && proven);
        state.connections += u16::from(room && !connected);
        state.reached |= state.active >= state.ceiling;
        room
    }

    /// A worker has no connection here any more.
    pub fn closed(&self) {
        self.lock().connections -= 1;
    }

    /// Requests under way.
    pub fn active(&self) -> u16 {
        self.lock().active
    }

    /// A request has ended, however it did; `proven` if the worker's last one here was answered by now.
    pub fn leave(&self, proven: bool) {
        let mut state = self.lock();
        state.active -= 1;
        state.good -= u16::from(proven);
    }

    /// A worker's request was answered; `first` if its last one here was not.
    pub fn answered(&self, first: bool) {
        let mut state = self.lock();
        state.good += u16::from(first);
        (state.lost, state.refusals) = (0, 0);
        state.outage.is_over();
        // A refusal may overtake answers to others that asked at the same time.
        let worked = state.good.min(state.bound);
        let is_sure = state.doubt.take().is_some();
        state.pushed_back |= is_sure;
        if worked > state.ceiling || is_sure {
            state.ceiling = state.ceiling.max(worked);
            self.hold(&mut state);
        }
        // It answers again: whom it answers goes on, the others wait as long as it asked.
        if let Some(rest) = &mut state.rest {
            rest.everybody = false;
        }
    }

    /// Bytes of a request have come at `rate` a second. If its connection was warm, `first` is how long it waited for
    /// the first of them, and among how many.
    pub fn measured(&self, now: Instant, rate: f64, first: Option<(Duration, u16)>) {
        let mut state = self.lock();
        state.rate = if state.rate > 0.0 { state.rate + WEIGHT * (rate - state.rate) } else { rate };
        let Some((wait, among)) = first else { return };
        let connections = among.max(state.active);
        let Some(too_many) = state.first_bytes.add(connections, wait, rate) else { return };
        tracing::debug!("first bytes come later with {too_many} connections, and no more of them");
        state.lower_to(now, too_many / 2, too_many / 2);
        (state.pushed_back, state.is_news) = (true, true);
        self.hold(&mut state);
    }

    /// What another connection promises, beside other hosts': a host that nobody has tried is tried, then
    /// the one whose connections bring most, then the one that is asked for least.
    pub fn promise(&self) -> Promise {
        let state = self.lock();
        let rate = match (state.rate > 0.0, state.active) {
            (true, _) => state.rate,
            (false, 0) => f64::INFINITY,
            (false, _) => 0.0,
        };
        Promise { rate, active: state.active }
    }

    /// The host asks for less, of a request that was made at `asked_at`. `proven` if the worker's last request here was
    /// answered, which counts no more. `asked` is the wait it asks for. Answers nothing while any other worker still
    /// gets on; else what follows, of tries for up to `retry_for`.
    pub fn refused(
        &self,
        now: Instant,
        asked_at: Instant,
        proven: bool,
        asked: Option<Duration>,
        retry_for: Duration,
    ) -> Option<outage::Next> {
        let mut state = self.lock();
        state.good -= u16::from(proven);
        let works = state.good;
        state.lower(now, asked_at);
        // Who refuses everybody says nothing of a number.
        state.pushed_back |= works > 0;
        self.hold(&mut state);
        let next = (works == 0).then(|| {
            state.outage.is_known();
            state.outage.failed(now, retry_for)
        });
        let most = match next {
            None => LONGEST_ASKED.min(retry_for),
            Some(outage::Next::Again { left, .. }) => left,
            Some(outage::Next::GiveUp(_)) => Duration::ZERO,
        };
        let wait = state.put_off(now, asked).min(most);
        state.rest(now + wait, works == 0);
        next
    }

    /// A new connection was not made, or closed before it was answered. While others get on it is one too many, which
    /// this answers; that is remembered once one of them is answered after it.
    pub(crate) fn turned_away(&self, now: Instant, asked_at: Instant) -> bool {
        let mut state = self.lock();
        if state.good == 0 {
            state.is_away();
            return false;
        }
        state.doubt = state.doubt.or(Some(state.ceiling));
        state.lower(now, asked_at);
        let wait = state.put_off(now, None);
        state.rest(now + wait, false);
        true
    }

    /// A connection was not made or was lost. `proven` as for [`refused`](Self::refused). Answers with the
    /// rest that begins for everybody, if this was one too many in a row.
    pub fn lost(&self, now: Instant, proven: bool) -> Option<Duration> {
        self.lock().lost(now, proven, LONGEST_WAIT)
    }

    /// Nobody answered, who is tried again for up to `retry_for`. `proven` as for [`refused`](Self::refused).
    pub fn unreachable(&self, now: Instant, proven: bool, retry_for: Duration) -> outage::Next {
        let mut state = self.lock();
        let next = state.outage.failed(now, retry_for);
        let longest = match next {
            outage::Next::Again { left, .. } => left.min(LONGEST_AWAY),
            outage::Next::GiveUp(_) => Duration::ZERO,
        };
        state.lost(now, proven, longest);
        next
    }

    /// Whether it has ever answered in this run.
    pub(crate) fn has_answered(&self) -> bool {
        self.lock().outage.has_known()
    }

    /// How long to wait before the `n`-th try of something, with jitter.
    pub(crate) fn jitter(&self, n: u32) -> Duration {
        self.lock().wait(n)
    }
}

impl State {
    fn has_room(&mut self, now: Instant, proven: bool, connected: bool) -> bool {
        self.raise(now);
        if let Some(rest) = self.rest {
            if rest.until <= now {
                self.rest = None;
            } else if rest.everybody || !proven {
                return false;
            }
        }
        self.active < self.ceiling && (connected || self.connections < self.ceiling)
    }

    /// A request made at `asked_at` was one too many. What is refused of one connection more than works is that one.
    /// Else as many are asked for as work, and at most half of what was: nobody knows who else wants the rest.
    fn lower(&mut self, now: Instant, asked_at: Instant) {
        let works = self.good;
        // Refusals that come together are one push-back.
        if self.lowered_at.is_none_or(|lowered| asked_at > lowered) {
            let tried = std::mem::take(&mut self.trying);
            let every = if tried { 2 * self.raise_every } else { self.raise_every };
            self.raise_every = every.min(LONGEST_RAISE);
            self.bound = if tried { self.ceiling - 1 } else { self.ceiling.min(self.active) / 2 };
            self.is_news |= works > 0;
        }
        self.lower_to(now, self.bound, works);
    }

    /// At most `n` connections from now on, or as many as are answered yet, up to `bound`, until one more is tried.
    fn lower_to(&mut self, now: Instant, bound: u16, n: u16) {
        self.bound = bound.clamp(1, self.ceiling.max(self.bound));
        self.ceiling = n.min(bound).clamp(1, self.ceiling);
        self.trying = false;
        self.lowered_at = Some(now);
        self.raise_at = Some(now + self.raise_every);
    }

    /// How long who was refused waits. Refusals that come together count once.
    fn put_off(&mut self, now: Instant, asked: Option<Duration>) -> Duration {
        if self.rest.is_none_or(|rest| rest.until <= now) {
            self.refusals += 1;
        }
        let refusals = self.refusals;
        asked.unwrap_or_else(|| self.wait(refusals))
    }

    /// Nobody gets on: what looked like push-back was a server or a network that went away.
    fn is_away(&mut self) {
        if let Some(before) = self.doubt.take() {
            (self.ceiling, self.bound) = (before, before);
        }
    }

    fn raise(&mut self, now: Instant) {
        let Some(at) = self.raise_at.filter(|&at| at <= now) else { return };
        if self.trying && !self.reached {
            // Nobody has asked for so many, so nobody knows.
            self.raise_at = Some(at.max(now) + self.raise_every);
            return;
        }
        self.reached = false;
        if self.trying {
            // The last one was not refused: it works, and the next is tried sooner.
            self.raise_every = (self.raise_every / 2).max(QUICKEST_RAISE);
        }
        self.trying = self.ceiling < self.most;
        self.raise_at = self.trying.then(|| at.max(now) + self.raise_every);
        if self.trying {
            self.ceiling += 1;
            self.bound = self.bound.max(self.ceiling);
        } else {
            self.raise_every = FIRST_RAISE;
        }
    }

    fn lost(&mut self, now: Instant, proven: bool, longest: Duration) -> Option<Duration> {
        self.good -= u16::from(proven);
        if self.good == 0 {
            self.is_away();
        }
        self.lost += 1;
        if self.lost < LOST_IN_A_ROW || self.rest.is_some_and(|rest| rest.until > now) {
            return None;
        }
        let wait = self.wait(self.lost - LOST_IN_A_ROW + 1).min(longest);
        self.rest(now + wait, true);
        Some(wait)
    }

    fn wait(&mut self, n: u32) -> Duration {
        let longest = FIRST_WAIT.saturating_mul(1 << n.saturating_sub(1).min(16)).min(LONGEST_WAIT);
        longest.mul_f64(self.rng.unit())
    }

    fn rest(&mut self, until: Instant, everybody: bool) {
        self.rest = Some(match self.rest {
            Some(rest) => Rest { until: rest.until.max(until), everybody: rest.everybody || everybody },
            None => Rest { until, everybody },
        });
    }
}

#[cfg(test)]
mod tests;
