//! What threads wait on, as `std::sync`, but that a lock is the guard itself: where a thread panicked under it, what it
//! guards may be half changed, and whoever takes it panics too. Waits for a time go by the [`clock`](super::clock).

pub use std::sync::{MutexGuard, OnceLock, RwLockReadGuard, RwLockWriteGuard, WaitTimeoutResult, mpsc};

use std::sync::LockResult;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use super::clock::passing;

/// What is there of a lock, or of what it guarded.
#[inline]
#[track_caller]
fn sound<T>(locked: LockResult<T>) -> T {
    locked.expect("no thread panicked under the lock")
}

/// As `std::sync::Mutex`.
#[derive(Debug, Default)]
pub struct Mutex<T: ?Sized>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    /// One that guards `value`.
    #[inline]
    pub const fn new(value: T) -> Self {
        Self(std::sync::Mutex::new(value))
    }

    /// What it guards, for good.
    #[inline]
    #[track_caller]
    pub fn into_inner(self) -> T {
        sound(self.0.into_inner())
    }

    /// What it guards, without a lock: nobody else can have it.
    #[inline]
    #[track_caller]
    pub fn get_mut(&mut self) -> &mut T {
        sound(self.0.get_mut())
    }

    /// Waits for its turn.
    #[inline]
    #[track_caller]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        sound(self.0.lock())
    }

    /// `None` if another has it.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock().ok()
    }
}

/// As `std::sync::RwLock`.
#[derive(Debug, Default)]
pub struct RwLock<T: ?Sized>(std::sync::RwLock<T>);

impl<T> RwLock<T> {
    /// One that guards `value`.
    #[inline]
    pub const fn new(value: T) -> Self {
        Self(std::sync::RwLock::new(value))
    }

    /// Waits until nobody writes.
    #[inline]
    #[track_caller]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        sound(self.0.read())
    }

    /// Waits until it is alone.
    #[inline]
    #[track_caller]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        sound(self.0.write())
    }
}

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
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        let _waits = Waits::on(&self.waiting);
        sound(self.inner.wait(guard))
    }

    /// Waits until `condition` holds no more.
    #[inline]
    pub(crate) fn wait_while<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        condition: impl FnMut(&mut T) -> bool,
    ) -> MutexGuard<'a, T> {
        let _waits = Waits::on(&self.waiting);
        sound(self.inner.wait_while(guard, condition))
    }

    /// Waits to be woken for at most `duration`.
    #[inline]
    pub fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        duration: Duration,
    ) -> (MutexGuard<'a, T>, WaitTimeoutResult) {
        let _waits = Waits::on(&self.waiting);
        sound(self.inner.wait_timeout(guard, passing(duration)))
    }

    /// Waits until `condition` holds no more, for at most `duration`.
    #[inline]
    pub fn wait_timeout_while<'a, T>(
        &self,
        #[cfg_attr(not(test), expect(unused_mut, reason = "looked at with a clock set by hand"))]
        mut guard: MutexGuard<'a, T>,
        duration: Duration,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> (MutexGuard<'a, T>, WaitTimeoutResult) {
        // With a clock set by hand, time passes only if there is something to wait for.
        #[cfg(test)]
        let duration = if condition(&mut guard) { passing(duration) } else { duration };
        let _waits = Waits::on(&self.waiting);
        sound(self.inner.wait_timeout_while(guard, duration, &mut condition))
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
                let theirs = turn.lock();
                let mut number = changed.wait_while(theirs, |number| *number % 2 != ours);
                *number += 1;
                drop(number);
                changed.notify_one();
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| play(0));
            play(1);
        });
        assert_eq!((*turn.lock(), changed.waiting.load(SeqCst)), (2 * TURNS, 0));
    }
}
