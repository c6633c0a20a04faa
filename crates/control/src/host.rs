//! What is known before anything has moved.

use std::time::Duration;

use crate::path_memory::PathMemory;

/// What is known of the hosts and of the way between them before anything has moved; what is not known limits nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Host {
    /// Processors of the host that decides.
    pub processors: Option<u16>,
    /// The first round trip that was measured.
    pub round_trip: Option<Duration>,
    /// Network streams that the other end is known to bear from the first second.
    pub streams: Option<u16>,
    /// What the path held when it was last seen.
    pub remembered: Option<PathMemory>,
}
