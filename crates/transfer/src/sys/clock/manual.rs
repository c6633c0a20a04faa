//! A clock that stands still until it is moved on, for tests of one thread: what that thread sleeps or waits moves it on
//! and takes no time. Threads it starts keep the real clock.

use std::cell::Cell;
use std::marker::PhantomData;
use std::time::{Duration, Instant};

thread_local! {
    static NOW: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Stops this thread's clock until dropped.
#[derive(Debug)]
pub(crate) struct Stopped(PhantomData<*const ()>);

/// Stops this thread's clock.
pub fn stop() -> Stopped {
    NOW.set(Some(Instant::now()));
    Stopped(PhantomData)
}

impl Stopped {
    /// Lets `duration` pass.
    pub fn advance(&self, duration: Duration) {
        moved(duration);
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        NOW.set(None);
    }
}

/// What a stopped clock says; `None` if it runs.
pub(super) fn now() -> Option<Instant> {
    NOW.get()
}

/// Moves a stopped clock on; `false` if it runs.
pub(super) fn moved(duration: Duration) -> bool {
    let moved = NOW.get().map(|now| now + duration);
    if moved.is_some() {
        NOW.set(moved);
    }
    moved.is_some()
}
