//! Whether the receiver has agreed to receive. What is listed before is offered before; but nobody needs to hear what is left out
//! of a copy that is refused.

use std::time::Duration;

use crate::sys::sync::{Condvar, Mutex};

/// How often whoever waits looks whether all is over.
const GLANCE: Duration = Duration::from_millis(20);

/// The receiver's word.
#[derive(Debug)]
pub(super) struct Acceptance {
    given: Mutex<bool>,
    changed: Condvar,
}

impl Acceptance {
    /// One that is `given` already, or not.
    pub fn new(given: bool) -> Self {
        Self { given: Mutex::new(given), changed: Condvar::new() }
    }

    /// The receiver has agreed.
    pub fn give(&self) {
        *self.given.lock() = true;
        self.changed.notify_all();
    }

    /// Waits until it has; `false` once all is `over`.
    pub fn wait(&self, over: impl Fn() -> bool) -> bool {
        let mut given = self.given.lock();
        while !*given && !over() {
            given = self.changed.wait_timeout(given, GLANCE).0;
        }
        *given
    }
}
