//! Which hosts a worker has a connection to, used or idle, and which of them work as far as its last requests tell.

use std::sync::Arc;

use crate::host::Host;

/// Hosts whose answers a worker remembers.
const MAX_PROVEN: usize = 64;

/// Hosts that answered a worker's last request to them.
#[derive(Debug, Default)]
pub(crate) struct Proven(Vec<Arc<Host>>);

impl Proven {
    /// Whether the last request to `host` was answered.
    pub fn has(&self, host: &Arc<Host>) -> bool {
        self.0.iter().any(|known| Arc::ptr_eq(known, host))
    }

    /// The host answered, as it is told; whether it had before.
    pub fn answered(&mut self, host: &Arc<Host>) -> bool {
        let known = self.has(host);
        host.answered(!known);
        if !known {
            if self.0.len() >= MAX_PROVEN {
                self.0.remove(0);
            }
            self.0.push(Arc::clone(host));
        }
        known
    }

    /// The host did not answer, which it is not told; whether it had before.
    pub fn lost(&mut self, host: &Arc<Host>) -> bool {
        let known = self.0.iter().position(|known| Arc::ptr_eq(known, host));
        known.map(|index| self.0.remove(index)).is_some()
    }
}

/// Hosts that a worker keeps connections to; clients keep no more of them idle.
const MAX_CONNECTED: usize = 8;

/// Hosts to which a worker may have a connection, whether it is used or not: each takes one of the host's places.
#[derive(Debug, Default)]
pub(crate) struct Connected(Vec<Arc<Host>>);

impl Connected {
    /// Whether it may have one to `host`.
    pub fn has(&self, host: &Arc<Host>) -> bool {
        self.0.iter().any(|known| Arc::ptr_eq(known, host))
    }

    /// It has entered `host`, and so has one.
    pub fn opened(&mut self, host: &Arc<Host>) {
        if self.has(host) {
            return;
        }
        if self.0.len() >= MAX_CONNECTED {
            self.0.remove(0).closed();
        }
        self.0.push(Arc::clone(host));
    }

    /// All are closed.
    pub fn close(&mut self) {
        self.0.drain(..).for_each(|host| host.closed());
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        self.close();
    }
}
