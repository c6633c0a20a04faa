//! A pool of workers whose number can change while they run. Too many of them park between blocks and
//! keep what they hold, such as a warm connection, until they rest; none is ended before the transfer is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering::Relaxed};
use std::time::Duration;

use crate::pipeline::waits::WorkerTime;
use crate::quota::{Held, Quota};
use crate::sys::sync::{Condvar, Mutex, MutexGuard};
use crate::sys::thread::{self, JoinHandle};

/// Lets `n` of a pool's workers run, by their ranks.
#[derive(Debug)]
pub struct Gate {
    ranks: Box<[AtomicU16]>,
    allowed: AtomicU16,
    closed: AtomicBool,
    /// Workers that are not parked.
    running: Mutex<WorkerTime>,
    changed: Condvar,
}

impl Gate {
    /// One for at most `most` workers, of which none may run.
    fn new(most: u16) -> Self {
        let ranks = (0..most).map(AtomicU16::new).collect();
        Self {
            ranks,
            allowed: AtomicU16::new(0),
            closed: AtomicBool::new(false),
            running: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Ranks the first `started` workers: those of `best` in that order, and then the others in the order they have.
    fn rank(&self, best: &[u16], started: usize) {
        let mut order: Vec<u16> = (0..started as u16).collect();
        let place = |index: u16| best.iter().position(|&good| good == index).unwrap_or(best.len());
        order.sort_by_key(|&index| (place(index), self.ranks[usize::from(index)].load(Relaxed)));
        for (rank, index) in order.into_iter().enumerate() {
            self.ranks[usize::from(index)].store(rank as u16, Relaxed);
        }
    }

    /// Whether worker `index` may run right now.
    pub fn is_open(&self, index: u16) -> bool {
        self.ranks[usize::from(index)].load(Relaxed) < self.allowed.load(Relaxed)
    }

    /// Parks worker `index` until it may run; `false` once the pool is closed.
    pub fn pass(&self, index: u16) -> bool {
        if self.is_parked(index) {
            let mut running = self.lock();
            running.end();
            running = self.changed.wait_while(running, |_| self.is_parked(index));
            running.begin();
        }
        !self.closed.load(Relaxed)
    }

    /// As [`pass`](Self::pass); one that stays parked for `patience` does `rest`, once.
    pub fn pass_or_rest(&self, index: u16, patience: Duration, rest: impl FnOnce()) -> bool {
        if self.is_parked(index) {
            let mut running = self.lock();
            running.end();
            let parked = |_: &mut WorkerTime| self.is_parked(index);
            let (mut running, waited) = self.changed.wait_timeout_while(running, patience, parked);
            running.begin();
            drop(running);
            if waited.timed_out() {
                rest();
            }
        }
        self.pass(index)
    }

    fn is_parked(&self, index: u16) -> bool {
        !self.closed.load(Relaxed) && !self.is_open(index)
    }

    fn lock(&self) -> MutexGuard<'_, WorkerTime> {
        self.running.lock()
    }

    fn change(&self, change: impl FnOnce()) {
        let _running = self.lock();
        change();
        self.changed.notify_all();
    }
}

/// Workers of one stage.
pub struct Pool {
    name: &'static str,
    gate: Arc<Gate>,
    work: Arc<dyn Fn(u16, &Gate) + Send + Sync>,
    threads: Mutex<Vec<(JoinHandle<()>, Option<Held>)>>,
    most: u16,
    quota: Arc<Quota>,
}

impl Pool {
    /// A pool of at most `most` workers that each run `work(index, gate)` once, on a thread of their
    /// own that is started when first allowed.
    pub fn new(name: &'static str, most: u16, work: impl Fn(u16, &Gate) + Send + Sync + 'static) -> Self {
        Self::within(name, most, Quota::unlimited(), work)
    }

    /// As [`new`](Self::new); workers but the first are only as many as `quota` has room for.
    pub fn within(
        name: &'static str,
        most: u16,
        quota: Arc<Quota>,
        work: impl Fn(u16, &Gate) + Send + Sync + 'static,
    ) -> Self {
        Self {
            name,
            gate: Arc::new(Gate::new(most)),
            work: Arc::new(work),
            threads: Mutex::default(),
            most,
            quota,
        }
    }

    /// Lets `n` workers run.
    pub fn resize(&self, n: u16) {
        self.resize_to_best(n, &[]);
    }

    /// As [`resize`](Self::resize), but those of `best` are the last to be let go, the first of them the very last.
    pub(crate) fn resize_to_best(&self, n: u16, best: &[u16]) {
        let n = n.min(self.most);
        let mut threads = self.threads.lock();
        self.gate.change(|| {
            if !best.is_empty() {
                self.gate.rank(best, threads.len());
            }
            self.gate.allowed.store(n, Relaxed);
        });
        while threads.len() < usize::from(n) && !self.gate.closed.load(Relaxed) {
            let index = threads.len() as u16;
            let held = if index == 0 { None } else { self.quota.take(1) };
            if index > 0 && held.is_none() {
                tracing::debug!(
                    "no more than {index} {} workers for now: the others' threads are in use",
                    self.name
                );
                break;
            }
            let (gate, work) = (Arc::clone(&self.gate), Arc::clone(&self.work));
            let spawned = thread::Builder::new().name(format!("{}-{index}", self.name)).spawn(move || {
                gate.lock().begin();
                work(index, &gate);
                gate.lock().end();
            });
            match spawned {
                Ok(thread) => threads.push((thread, held)),
                Err(error) => {
                    tracing::warn!("cannot start another {} worker: {error}", self.name);
                    break;
                }
            }
        }
    }

    /// Workers that may run.
    pub fn size(&self) -> u16 {
        self.gate.allowed.load(Relaxed)
    }

    /// How long workers were not parked, summed over them.
    pub fn ran(&self) -> Duration {
        self.gate.lock().of_all()
    }

    /// Ends parked workers, and the others as soon as they look at the gate.
    pub fn close(&self) {
        self.gate.change(|| self.gate.closed.store(true, Relaxed));
    }

    /// Waits until every worker has ended.
    pub fn join(&self) {
        let threads = std::mem::take(&mut *self.threads.lock());
        for (thread, _held) in threads {
            if thread.join().is_err() {
                tracing::error!("a {} worker panicked", self.name);
            }
        }
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("name", &self.name).field("size", &self.size()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    fn eventually(what: impl Fn() -> bool) -> bool {
        let end = Instant::now() + Duration::from_secs(10);
        while Instant::now() < end {
            if what() {
                return true;
            }
            thread::sleep(Duration::from_millis(1));
        }
        false
    }

    #[test]
    fn workers_count_until_they_have_finished_and_parked_ones_do_not() {
        let finish = Arc::new(AtomicBool::new(false));
        let pool = {
            let finish = Arc::clone(&finish);
            Pool::new("test", 2, move |index, gate| {
                while gate.pass(index) {
                    // A piece of work that is finished whatever the gate says.
                    while !finish.load(Relaxed) && !gate.closed.load(Relaxed) {
                        thread::sleep(Duration::from_millis(1));
                    }
                }
            })
        };
        let (begun, spent) = (Instant::now(), |time: Duration| time >= Duration::from_millis(20));
        pool.resize(2);
        assert!(eventually(|| spent(pool.ran())));
        pool.resize(0);
        let before = pool.ran();
        assert!(eventually(|| spent(pool.ran() - before)), "both still work");
        assert!(pool.ran() <= 2 * begun.elapsed());
        finish.store(true, Relaxed);
        let still = || {
            let before = pool.ran();
            thread::sleep(Duration::from_millis(5));
            pool.ran() == before
        };
        assert!(eventually(still), "parked");
        pool.close();
        pool.join();
    }

    #[test]
    fn one_that_stays_parked_rests_once() {
        let rested = Arc::new(AtomicU16::new(0));
        let pool = {
            let rested = Arc::clone(&rested);
            Pool::new("test", 2, move |index, gate| {
                let rest = || {
                    rested.fetch_add(1, Relaxed);
                };
                while gate.pass_or_rest(index, Duration::from_millis(20), rest) {
                    thread::sleep(Duration::from_millis(1));
                }
            })
        };
        pool.resize(2);
        thread::sleep(Duration::from_millis(60));
        assert_eq!(rested.load(Relaxed), 0, "one that runs does not rest");
        pool.resize(1);
        assert!(eventually(|| rested.load(Relaxed) == 1));
        thread::sleep(Duration::from_millis(60));
        assert_eq!(rested.load(Relaxed), 1, "once");
        pool.close();
        pool.join();
    }

    #[test]
    fn the_best_are_the_last_to_be_let_go() {
        let running = Arc::new(Mutex::new(std::collections::BTreeSet::new()));
        let pool = {
            let running = Arc::clone(&running);
            Pool::new("test", 6, move |index, gate| {
                while gate.pass(index) {
                    running.lock().insert(index);
                    while gate.is_open(index) && !gate.closed.load(Relaxed) {
                        thread::sleep(Duration::from_millis(1));
                    }
                    running.lock().remove(&index);
                }
            })
        };
        let run = |these: &[u16]| eventually(|| running.lock().iter().eq(these));
        pool.resize(4);
        assert!(run(&[0, 1, 2, 3]));
        pool.resize_to_best(2, &[3, 1, 0, 2]);
        assert!(run(&[1, 3]), "{running:?}");
        pool.resize_to_best(1, &[7, 3]);
        assert!(run(&[3]), "one that there is not is none: {running:?}");
        pool.resize(6);
        assert!(run(&[0, 1, 2, 3, 4, 5]), "those that come anew rank behind: {running:?}");
        pool.resize(3);
        assert!(run(&[0, 1, 3]), "what was good before stays: {running:?}");
        pool.close();
        pool.join();
    }

    #[test]
    fn shrinking_parks_and_growing_wakes_the_same_workers() {
        let running = Arc::new(AtomicU16::new(0));
        let started = Arc::new(AtomicU16::new(0));
        let pool = {
            let (running, started) = (Arc::clone(&running), Arc::clone(&started));
            Pool::new("test", 8, move |index, gate| {
                started.fetch_add(1, Relaxed);
                while gate.pass(index) {
                    running.fetch_add(1, Relaxed);
                    while gate.is_open(index) && !gate.closed.load(Relaxed) {
                        thread::sleep(Duration::from_millis(1));
                    }
                    running.fetch_sub(1, Relaxed);
                }
            })
        };
        for n in [4, 1, 6, 2, 6] {
            pool.resize(n);
            assert!(eventually(|| running.load(Relaxed) == n), "{n} should run");
        }
        assert_eq!(started.load(Relaxed), 6);
        pool.resize(100);
        assert_eq!(pool.size(), 8);
        pool.close();
        pool.join();
        assert_eq!(running.load(Relaxed), 0);
    }
}
