//! What a peer may use here at one time: sessions, threads, memory. Whoever holds a ticket has one quota for
//! everything that is done with it, and all of them together have a larger one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use tidegate_control::ByteCount;

use crate::error::{Error, ErrorKind, Result};
use crate::sys::host;

/// So much of something, at most.
///
/// ```
/// use tidegate_transfer::quota::Quota;
///
/// let whole = Quota::new(10);
/// let part = whole.within(6, 0); // at most six of the ten
/// let held = part.take(4).expect("there is room");
/// assert!(part.take(3).is_none());
/// assert_eq!(whole.used(), 4);
/// drop(held);
/// assert_eq!(whole.used(), 0);
/// ```
#[derive(Debug)]
pub struct Quota {
    most: usize,
    used: AtomicUsize,
    /// What it is a part of, and how much of this part is not taken from there: whatever others use, that is left.
    whole: Option<(Arc<Self>, usize)>,
}

/// A part of a quota that is in use, until dropped.
#[derive(Debug)]
pub struct Held {
    quota: Arc<Quota>,
    amount: usize,
}

impl Quota {
    /// At most `most`.
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, used: AtomicUsize::new(0), whole: None })
    }

    /// No limit.
    pub fn unlimited() -> Arc<Self> {
        Self::new(usize::MAX)
    }

    /// At most `most`, a part of this one but for the first `own` of it.
    pub fn within(self: &Arc<Self>, most: usize, own: usize) -> Arc<Self> {
        Arc::new(Self { most, used: AtomicUsize::new(0), whole: Some((Arc::clone(self), own)) })
    }

    /// Takes `amount`, if so much is left here and in the whole.
    pub fn take(self: &Arc<Self>, amount: usize) -> Option<Held> {
        self.add(amount).then(|| Held { quota: Arc::clone(self), amount })
    }

    /// The most that may be used.
    pub fn most(&self) -> usize {
        self.most
    }

    /// What is in use right now.
    pub fn used(&self) -> usize {
        self.used.load(Relaxed)
    }

    /// Whether so much is in use, here or in the whole, that who can wait should not begin anything new.
    pub(crate) fn is_crowded(&self) -> bool {
        let used = self.used();
        used > self.most / 4 * 3
            || self.whole.as_ref().is_some_and(|(whole, own)| used >= own / 4 * 3 && whole.is_crowded())
    }

    fn add(&self, amount: usize) -> bool {
        let mut used = self.used();
        loop {
            let Some(sum) = used.checked_add(amount).filter(|&sum| sum <= self.most) else { return false };
            let charge = self.charge(sum) - self.charge(used);
            if !self.whole.as_ref().is_none_or(|(whole, _)| whole.add(charge)) {
                return false;
            }
            match self.used.compare_exchange_weak(used, sum, Relaxed, Relaxed) {
                Ok(_) => return true,
                Err(now) => {
                    self.refund(charge);
                    used = now;
                }
            }
        }
    }

    fn give(&self, amount: usize) {
        let before = self.used.fetch_sub(amount, Relaxed);
        self.refund(self.charge(before) - self.charge(before - amount));
    }

    /// What of `used` is taken from the whole.
    fn charge(&self, used: usize) -> usize {
        self.whole.as_ref().map_or(0, |(_, own)| used.saturating_sub(*own))
    }

    fn refund(&self, charge: usize) {
        if let Some((whole, _)) = &self.whole {
            whole.give(charge);
        }
    }
}

impl Held {
    /// Holds `amount` from now on; `false`, with nothing changed, if there is not enough left.
    pub fn resize(&mut self, amount: usize) -> bool {
        let enough = amount <= self.amount || self.quota.add(amount - self.amount);
        if enough {
            self.quota.give(self.amount.saturating_sub(amount));
            self.amount = amount;
        }
        enough
    }

    /// What it is a part of.
    pub fn quota(&self) -> &Quota {
        &self.quota
    }

    /// What is held.
    pub fn amount(&self) -> usize {
        self.amount
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.quota.give(self.amount);
    }
}

/// What the holder of one ticket may use at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// Sessions.
    pub sessions: usize,
    /// Threads beyond the few that each session has anyway.
    pub threads: usize,
    /// Memory: one half for staging, the other for what is known of entries on their way.
    pub memory: ByteCount,
}

impl Allowance {
    /// As much as there is.
    pub const UNLIMITED: Self =
        Self { sessions: usize::MAX, threads: usize::MAX, memory: ByteCount(u64::MAX) };
}

impl Default for Allowance {
    fn default() -> Self {
        Self { sessions: 32, threads: 160, memory: ByteCount::mib(192) }
    }
}

/// One peer's part of what a host has.
#[derive(Clone, Debug)]
pub struct Share {
    /// How many sessions it has.
    pub sessions: Arc<Quota>,
    /// How many threads work for it, beyond the first of each kind.
    pub threads: Arc<Quota>,
    /// Bytes of staging, beyond the least that moves anything.
    pub staging: Arc<Quota>,
    /// Bytes that hold what it said of entries on their way.
    pub metadata: Arc<Quota>,
    /// Descriptors of sources and of unfinished files.
    pub descriptors: Arc<Quota>,
}

impl Share {
    /// What all peers share who are allowed so much each: half as much again, so that nobody has all of it and all
    /// of them together stay within what a host bears.
    pub fn whole(each: &Allowance) -> Self {
        let whole = |one: usize| Quota::new(one.saturating_add(one.div_ceil(2)));
        let half = each.memory.0 as usize / 2;
        Self {
            sessions: whole(each.sessions),
            threads: whole(each.threads),
            staging: whole(half),
            metadata: whole(half),
            descriptors: Quota::new(host::descriptors() / 2),
        }
    }

    /// The part of one that is allowed so much. A sixteenth of it is left however much others use.
    pub fn part(&self, each: &Allowance) -> Self {
        let part = |whole: &Arc<Quota>, most: usize| whole.within(most, most.div_ceil(16));
        let half = each.memory.0 as usize / 2;
        Self {
            sessions: part(&self.sessions, each.sessions),
            threads: part(&self.threads, each.threads),
            staging: part(&self.staging, half),
            metadata: part(&self.metadata, half),
            descriptors: part(&self.descriptors, self.descriptors.most() / 3 * 2),
        }
    }

    /// For a transfer of one's own: its threads and staging are what the user asked for, and only what a peer
    /// makes us remember is limited.
    pub fn own() -> Self {
        Self {
            sessions: Quota::unlimited(),
            threads: Quota::unlimited(),
            staging: Quota::unlimited(),
            metadata: Quota::new(512 << 20),
            descriptors: Quota::new(host::descriptors() / 2),
        }
    }
}

/// More is said of entries on their way than may be remembered.
pub(crate) fn too_much_to_remember(quota: &Quota) -> Error {
    let most = ByteCount(quota.most() as u64);
    let why =
        format!("more is under way than may be remembered here for one peer ({most}): copy in smaller parts");
    Error::new(ErrorKind::Busy, why)
}

/// Holds `amount` of `quota`.
///
/// # Errors
///
/// `Busy` if there is not enough left.
pub(crate) fn remember(quota: &Arc<Quota>, amount: usize) -> Result<Held> {
    quota.take(amount).ok_or_else(|| too_much_to_remember(quota))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_limited_by_itself_and_by_the_whole() {
        let whole = Quota::new(10);
        let (one, other) = (whole.within(6, 0), whole.within(6, 0));
        let mut held = one.take(4).expect("enough");
        assert!(one.take(3).is_none() && one.used() == 4);
        assert!(held.resize(6) && !held.resize(7) && held.amount() == 6);
        let rest = other.take(4).expect("what the whole has left");
        assert!(other.take(1).is_none());
        assert_eq!((one.used(), other.used(), whole.used()), (6, 4, 10));
        assert!(whole.is_crowded() && one.is_crowded() && held.resize(1) && !one.is_crowded());
        drop(rest);
        assert_eq!((one.used(), other.used(), whole.used()), (1, 0, 1));
        drop(held);
        assert_eq!(whole.used(), 0);
    }

    #[test]
    fn a_little_is_left_for_each_whatever_others_use() {
        let whole = Quota::new(10);
        let (one, other) = (whole.within(12, 2), whole.within(12, 2));
        let mut all = one.take(12).expect("its own and the whole");
        assert_eq!(whole.used(), 10);
        assert!(other.take(3).is_none());
        let little = other.take(2).expect("left for it");
        assert!(other.take(1).is_none() && other.is_crowded());
        assert!(all.resize(7));
        assert_eq!(whole.used(), 5);
        let more = other.take(4).expect("room");
        assert_eq!(whole.used(), 9);
        drop((all, little, more));
        assert_eq!((one.used(), other.used(), whole.used()), (0, 0, 0));
    }

    #[test]
    fn parts_that_are_used_by_many_threads_add_up() {
        let whole = Quota::new(1000);
        let parts: Vec<_> = (0..4).map(|_| whole.within(400, 10)).collect();
        std::thread::scope(|scope| {
            for (number, part) in parts.iter().cycle().take(8).enumerate() {
                scope.spawn(move || {
                    for i in 0..20_000 {
                        let held = part.take(1 + (i * 7 + number) % 60);
                        assert!(part.used() <= 400);
                        if let Some(mut held) = held {
                            held.resize(1 + i % 45);
                        }
                    }
                });
            }
        });
        assert!(parts.iter().all(|part| part.used() == 0) && whole.used() == 0);
    }
}
