//! What threads wait on, as `std::sync`. Only waits for a time are ours: they go by the [`clock`](super::clock).

pub use std::sync::{Mutex, MutexGuard, OnceLock, RwLock, WaitTimeoutResult, mpsc};

use std::sync::LockResult;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use super::clock::passing;

/// As `std::sync::Condvar`, but that waking nobody is no call of the system. What is waited for is changed under the
/// mutex, as ever.
#[derive(Debug, Default)]
pub struct Condvar {
    inner: std::sync::Condvar,
    waiting: AtomicUsize,
}

/// One that waits, until dropped.
struct Waits<'c>(&'c AtomicUsize);

impl<'c> Waits<'c> {
    /// To be made under the mutex.
    fn on(waiting: &'c AtomicUsize) -> Self {
        waiting.fetch_add(1, SeqCst);
        Self(waiting)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

impl Condvar {
    /// One that nobody waits on.
    #[inline]
    pub const fn new() -> Self {
        Self { inner: std::sync::Condvar::new(), waiting: AtomicUsize::new(0) }
    }

    /// Waits to be woken.
    #[inline]
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        let _waits = Waits::on(&self.waiting);
        self.inner.wait(guard)
    }

    /// Waits until `condition` holds no more.
    #[inline]
    pub fn wait_while<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        condition: impl FnMut(&mut T) -> bool,
    ) -> LockResult<MutexGuard<'a, T>> {
        let _waits = Waits::on(&self.waiting);
        self.inner.wait_while(guard, condition)
    }

    /// Waits to be woken for at most `duration`.
    #[inline]
    pub fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        duration: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        let _waits = Waits::on(&self.waiting);
        self.inner.wait_timeout(guard, passing(duration))
    }

    /// Waits until `condition` holds no more, for at most `duration`.
    #[inline]
    pub fn wait_timeout_while<'a, T>(
        &self,
        #[cfg_attr(not(test), expect(unused_mut, reason = "looked at with a clock set by hand"))]
        mut guard: MutexGuard<'a, T>,
        duration: Duration,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        // With a clock set by hand, time passes only if there is something to wait for.
        #[cfg(test)]
        let duration = if condition(&mut guard) { passing(duration) } else { duration };
        let _waits = Waits::on(&self.waiting);
        self.inner.wait_timeout_while(guard, duration, &mut condition)
    }

    /// Wakes one that waits.
    #[inline]
    pub fn notify_one(&self) {
        if self.waiting.load(SeqCst) > 0 {
            self.inner.notify_one();
        }
    }

    /// Wakes all that wait.
    #[inline]
    pub fn notify_all(&self) {
        if self.waiting.load(SeqCst) > 0 {
            self.inner.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two hand a number to and fro, so that each wake is needed: one that is lost ends this in a hang.
    #[test]
    fn no_wake_is_lost() {
        const TURNS: u32 = 20_000;
        let (turn, changed) = (Mutex::new(0), Condvar::new());
        let play = |ours: u32| {
            for _ in 0..TURNS {
                let theirs = turn.lock().expect("not poisoned");
                let mut number =
                    changed.wait_while(theirs, |number| *number % 2 != ours).expect("not poisoned");
                *number += 1;
                drop(number);
                changed.notify_one();
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| play(0));
            play(1);
        });
        assert_eq!((*turn.lock().expect("not poisoned"), changed.waiting.load(SeqCst)), (2 * TURNS, 0));
    }
}
