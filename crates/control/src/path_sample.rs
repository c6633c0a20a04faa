//! What is told of a path many times a second, between two epochs.

use std::time::Duration;

use crate::units::ByteCount;

/// What the kernel tells of all streams at one moment; where they end here it does not tell of losses and queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathSample {
    /// When, on any clock that only goes on.
    pub at: Duration,
    /// The smoothed round trip of the stream that has the shortest.
    pub rtt: Duration,
    /// The shortest round trip of any of them.
    pub min_rtt: Duration,
    /// Bytes that have arrived since the start, also those behind a gap where the kernel tells of them.
    pub delivered: ByteCount,
    /// Segments sent again since the start.
    pub retransmits: u64,
    /// Data segments sent since the start, those again among them.
    pub sent: u64,
    /// What a segment carries at most.
    pub segment: ByteCount,
    /// Streams of which something has arrived.
    pub streams: u16,
    /// Streams that are held back by us, as there is nothing to send.
    pub app_limited: u16,
    /// Streams that have waited in a queue before they lost anything.
    pub queued: u16,
    /// Streams with data under way whose congestion control goes by losses.
    pub loss_based: u16,
    /// Streams with data under way whose congestion control goes by a model of the path.
    pub model_based: u16,
    /// Bytes that have arrived on streams while they were model-based.
    pub model_delivered: ByteCount,
    /// Whether another congestion control is tried, or about to be.
    pub tries: bool,
}

/// What a segment carries over Ethernet, with time stamps.
const SEGMENT: ByteCount = ByteCount(1448);

impl PathSample {
    /// What is known where data arrives: how much has, and the round trip.
    pub fn of_arrival(at: Duration, round_trip: Duration, arrived: ByteCount) -> Self {
        Self {
            at,
            rtt: round_trip,
            min_rtt: round_trip,
            delivered: arrived,
            segment: SEGMENT,
            ..Self::default()
        }
    }
}
