//! Transfers from here to other endpoints, which are counted while they run.

use std::sync::atomic::Ordering::Relaxed;

use crate::endpoint::Endpoint;

/// A transfer to another endpoint: draining waits for it, and no data stream joins it.
#[derive(Debug)]
pub(crate) struct Relaying<'a>(&'a Endpoint);

impl<'a> Relaying<'a> {
    /// One begins.
    pub fn begin(endpoint: &'a Endpoint) -> Self {
        endpoint.activity.relayed.fetch_add(1, Relaxed);
        Self(endpoint)
    }
}

impl Drop for Relaying<'_> {
    fn drop(&mut self) {
        self.0.activity.relayed.fetch_sub(1, Relaxed);
        self.0.has_ended();
    }
}
