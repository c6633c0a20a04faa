//! What this host and this process are.

use rustix::process::{Resource, getrlimit};

/// The host's name, as it calls itself.
pub fn name() -> Vec<u8> {
    rustix::system::uname().nodename().to_bytes().to_vec()
}

/// The user whose rights this process has.
pub(crate) fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// How many descriptors this process may have.
pub fn descriptors() -> usize {
    getrlimit(Resource::Nofile).current.and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX)
}
