//! Lets the worker of one stage do a neighbour's work on the block in its hands, while that work is as
//! quick as memory: the block then never leaves the processor's cache for a queue and another core.
//! The set-point holds all the same: no more blocks are worked on at once than the neighbour has
//! workers. As soon as the work takes longer than a queue would cost, it goes back to the pool.

use std::sync::atomic::{AtomicU16, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::sys::clock::Instant;

/// A late return from the scheduler must not count for a slow medium: on a busy host it costs one block in
/// twenty a few milliseconds.
const LONGEST: Duration = Duration::from_millis(4);

/// Weight of the latest block in the mean: the inverse of this.
const WEIGHT: u64 = 64;

/// Work on a block that takes longer, on average, belongs to the pool: 128 KiB in 1 ms is 1 Gbit/s a
/// worker.
const QUICK: Duration = Duration::from_millis(1);

/// How long the pool keeps the work before it is tried in place again.
const PAUSE: Duration = Duration::from_millis(250);

/// Decides whether a neighbour's work may be done in place.
#[derive(Debug)]
pub(crate) struct Shortcut {
    enabled: bool,
    started: Instant,
    allowed: AtomicU16,
    busy: AtomicU16,
    /// Mean time for a block, in ns.
    usual: AtomicU64,
    /// When work may be done in place again, in ns since the start.
    closed_until: AtomicU64,
    /// Time that neighbours have spent on this stage's work, in ns.
    in_place: AtomicU64,
}

/// One block's work, counted as under way until dropped; its time counts only if it is [`done`](Pass::done).
#[derive(Debug)]
pub(crate) struct Pass<'s> {
    shortcut: &'s Shortcut,
    begun: Instant,
}

impl Shortcut {
    /// A shortcut around a stage; one that is throttled has none.
    pub fn new(enabled: bool) -> Self {
        Self {
            enabled,
            started: Instant::now(),
            allowed: AtomicU16::new(0),
            busy: AtomicU16::new(0),
            usual: AtomicU64::new(0),
            closed_until: AtomicU64::new(0),
            in_place: AtomicU64::new(0),
        }
    }

    /// The stage has `n` workers.
    pub fn resize(&self, n: u16) {
        self.allowed.store(n, Relaxed);
    }

    /// Whether work has been quick of late, and the stage has workers.
    pub fn is_open(&self) -> bool {
        self.is_open_at(Instant::now())
    }

    fn is_open_at(&self, now: Instant) -> bool {
        let now = now.saturating_duration_since(self.started).as_nanos() as u64;
        self.enabled && self.allowed.load(Relaxed) > 0 && now >= self.closed_until.load(Relaxed)
    }

    /// Whether work may be done in place; it counts as one of the stage's workers meanwhile.
    pub fn enter(&self) -> Option<Pass<'_>> {
        let begun = Instant::now();
        if !self.is_open_at(begun) {
            return None;
        }
        if self.busy.fetch_add(1, Relaxed) >= self.allowed.load(Relaxed) {
            self.busy.fetch_sub(1, Relaxed);
            return None;
        }
        Some(Pass { shortcut: self, begun })
    }

    /// How long neighbours have worked for this stage, summed over them.
    pub fn in_place(&self) -> Duration {
        Duration::from_nanos(self.in_place.load(Relaxed))
    }

    /// Counts one of the stage's own workers at work.
    pub fn count(&self) -> Pass<'_> {
        self.busy.fetch_add(1, Relaxed);
        Pass { shortcut: self, begun: Instant::now() }
    }
}

impl Pass<'_> {
    /// What a neighbour does for the stage ends here; what follows is its own work.
    pub(crate) fn own_work_follows(&self) {
        self.shortcut.in_place.fetch_add(self.begun.elapsed().as_nanos() as u64, Relaxed);
    }

    /// The block's work is done.
    pub fn done(self) {
        let shortcut = self.shortcut;
        if !shortcut.enabled {
            return;
        }
        let time = self.begun.elapsed().min(LONGEST).as_nanos() as u64;
        let usual = shortcut.usual.load(Relaxed);
        let usual = usual - usual / WEIGHT + time / WEIGHT;
        let quick = QUICK.as_nanos() as u64;
        if usual > quick {
            let until = shortcut.started.elapsed() + PAUSE;
            shortcut.closed_until.store(until.as_nanos() as u64, Relaxed);
            shortcut.usual.store(quick / 8 * 7, Relaxed);
        } else {
            shortcut.usual.store(usual, Relaxed);
        }
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        self.shortcut.busy.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::clock::manual;

    #[test]
    fn no_more_work_at_once_than_the_stage_has_workers() {
        let shortcut = Shortcut::new(true);
        assert!(shortcut.enter().is_none());
        shortcut.resize(2);
        let worker = shortcut.count();
        let first = shortcut.enter();
        assert!(first.is_some() && shortcut.enter().is_none());
        drop(worker);
        assert!(shortcut.enter().is_some());
    }

    #[test]
    fn what_neighbours_do_for_a_stage_is_counted_up_to_where_their_own_work_follows() {
        let clock = manual::stop();
        let shortcut = Shortcut::new(true);
        shortcut.resize(2);
        let (ours, neighbour) = (shortcut.count(), shortcut.enter().expect("open"));
        clock.advance(QUICK);
        neighbour.own_work_follows();
        clock.advance(QUICK);
        neighbour.done();
        ours.done();
        assert_eq!(shortcut.in_place(), QUICK);
    }

    #[test]
    fn slow_work_goes_back_to_the_pool() {
        let shortcut = Shortcut::new(true);
        shortcut.resize(1);
        let mut slow = 0;
        while let Some(pass) = shortcut.enter() {
            slow += 1;
            assert!(slow < 100, "it should have been noticed");
            std::thread::sleep(2 * QUICK);
            pass.done();
            // What came to nothing says nothing of how quick the medium is.
            drop(shortcut.enter());
        }
        assert!(slow > 1, "one slow block is no slow medium");
    }
}
