//! What threads wait on, as `std::sync`. Only waits for a time are ours: they go by the [`clock`](super::clock).

pub use std::sync::{Mutex, MutexGuard, OnceLock, RwLock, WaitTimeoutResult, mpsc};

use std::sync::LockResult;
use std::time::Duration;

use super::clock::passing;

/// As `std::sync::Condvar`.
#[derive(Debug, Default)]
pub struct Condvar(std::sync::Condvar);

impl Condvar {
    /// One that nobody waits on.
    #[inline]
    pub const fn new() -> Self {
        Self(std::sync::Condvar::new())
    }

    /// Waits to be woken.
    #[inline]
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        self.0.wait(guard)
    }

    /// Waits until `condition` holds no more.
    #[inline]
    pub fn wait_while<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        condition: impl FnMut(&mut T) -> bool,
    ) -> LockResult<MutexGuard<'a, T>> {
        self.0.wait_while(guard, condition)
    }

    /// Waits to be woken for at most `duration`.
    #[inline]
    pub fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        duration: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        self.0.wait_timeout(guard, passing(duration))
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
        self.0.wait_timeout_while(guard, duration, &mut condition)
    }

    /// Wakes one that waits.
    #[inline]
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all that wait.
    #[inline]
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}
