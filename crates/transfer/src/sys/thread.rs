//! Threads, as `std::thread`. What a new one logs goes where the one that started it logs: a program that runs several
//! transfers hears of each by itself.

use std::io;

use tracing::dispatcher::{self, Dispatch};

pub use super::clock::sleep;
pub use std::thread::{JoinHandle, Scope, ScopedJoinHandle, panicking, scope};

/// `work`, which logs where this thread does.
fn logged<T>(work: impl FnOnce() -> T) -> impl FnOnce() -> T {
    let here = dispatcher::get_default(Dispatch::clone);
    move || dispatcher::with_default(&here, work)
}

/// Starts a thread.
pub fn spawn<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    std::thread::spawn(logged(work))
}

/// What a thread is to be called.
#[derive(Debug)]
pub struct Builder(std::thread::Builder);

impl Builder {
    /// A thread without a name.
    #[expect(clippy::new_without_default, reason = "as that of std")]
    pub fn new() -> Self {
        Self(std::thread::Builder::new())
    }

    /// Gives it a name.
    #[must_use]
    pub fn name(self, name: String) -> Self {
        Self(self.0.name(name))
    }

    /// Starts it.
    ///
    /// # Errors
    /// There are as many threads as the host allows.
    pub fn spawn<T: Send + 'static>(
        self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<JoinHandle<T>> {
        self.0.spawn(logged(work))
    }

    /// Starts it within `scope`.
    ///
    /// # Errors
    /// There are as many threads as the host allows.
    pub(crate) fn spawn_scoped<'scope, T: Send + 'scope>(
        self,
        scope: &'scope Scope<'scope, '_>,
        work: impl FnOnce() -> T + Send + 'scope,
    ) -> io::Result<ScopedJoinHandle<'scope, T>> {
        self.0.spawn_scoped(scope, logged(work))
    }
}
