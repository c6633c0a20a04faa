//! What is counted: by each end, and of the whole transfer.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate_control::{Arrival, ByteCount, PerStage, Remaining};

use crate::record::tagged;
use crate::sys::processors::CpuTime;

/// Entries of which a destination could not keep something, as its file system refuses it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotKept {
    /// Entries with another mode than at the source.
    pub modes: u64,
    /// Entries with another modification time.
    pub times: u64,
}

impl NotKept {
    /// What is said of it, in one line; `None` if all was kept.
    pub fn text(&self) -> Option<String> {
        let what = match self {
            Self { modes: 0, times: 0 } => return None,
            Self { modes, times: 0 } => format!("modes: {modes} have another"),
            Self { modes: 0, times } => format!("times: {times} have another"),
            Self { modes, times } => {
                format!("modes and times: {modes} have another mode, {times} another time")
            }
        };
        Some(format!("the destination's file system refuses {what} than at the source"))
    }
}

/// What one end counted so far; rates are differences over its own clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// The end's monotonic clock, in µs.
    pub(crate) at_us: u64,
    /// Bytes read from the source.
    pub read: u64,
    /// Bytes given to the network (sender) or taken from it (receiver).
    pub network: u64,
    /// Bytes written to the sink.
    pub written: u64,
    /// Bytes of staging in use.
    pub(crate) staging_used: u64,
    /// Bytes of staging.
    pub staging_capacity: u64,
    /// TCP segments sent, over all streams.
    pub(crate) segments_sent: u64,
    /// TCP segments sent again.
    pub retransmits: u64,
    /// Smoothed round-trip time of the streams in µs; 0 if unknown.
    pub rtt_us: u64,
    /// The end's processor time.
    pub cpu: CpuTime,
    /// How long workers had no staging to fill, in µs, summed over them: the sender's readers, the receiver's streams.
    pub(crate) filling_us: u64,
    /// How long workers had no staging to take from, in µs, summed over them: the sender's streams, the receiver's
    /// writers.
    pub(crate) taking_us: u64,
    /// How long workers worked, those included that were to work no more and finished what they had begun, in µs, summed
    /// over them: the sender's readers, the receiver's writers.
    pub(crate) worked_us: u64,
    /// Bytes of whole blocks taken from the network (receiver).
    pub taken: u64,
    /// How uncertain the mean rate of each stage here is since it was asked last, as a share of it in millionths.
    pub(crate) error_ppm: PerStage<Option<u32>>,
    /// What the kernel told of the streams (sender).
    pub streams: Option<StreamCounters>,
}

tagged!(Counters, "counters" {
    2 => at_us,
    4 => read,
    6 => network,
    8 => written,
    10 => staging_used,
    12 => staging_capacity,
    14 => segments_sent,
    16 => retransmits,
    18 => rtt_us,
    20 => cpu,
    22 => filling_us,
    24 => taking_us,
    26 => worked_us,
    28 => taken,
    30 => error_ppm,
    32 => streams: optional,
});

/// `TCP_INFO` of all streams of a sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamCounters {
    /// Streams that are open.
    pub count: u16,
    /// Of these, whose last delivery rate was limited by us.
    pub app_limited: u16,
    /// Of these, that have waited in a queue ever since they began, and are held back for it.
    pub(crate) queued: u16,
    /// Of these, that are held back as they began in a queue.
    pub(crate) held: u16,
    /// Of these, whose congestion control goes by a model of the path.
    pub model_based: u16,
    /// Whether another congestion control is tried, or about to be.
    pub tries: bool,
    /// The shortest round trip that any of them has seen, in µs; 0 if unknown.
    pub min_rtt_us: u64,
    /// Bytes a second that the peer acknowledged last, over the open streams.
    pub(crate) delivery: u64,
    /// The congestion windows of the open streams, in bytes.
    pub window: u64,
    /// How long streams had data under way, in µs, summed over all there were.
    pub(crate) busy_us: u64,
    /// How long the receiver's window held streams back, in µs, summed over all there were.
    pub(crate) receiver_limited_us: u64,
    /// The standard deviation by the mean of what each open stream had acknowledged since the last count, in millionths.
    pub(crate) spread_ppm: u32,
}

tagged!(StreamCounters, "counters of streams" {
    2 => count,
    4 => app_limited,
    6 => min_rtt_us,
    8 => delivery,
    10 => window,
    12 => busy_us,
    14 => receiver_limited_us,
    16 => spread_ppm,
    18 => queued,
    20 => held,
    22 => model_based,
    24 => tries,
});

impl Counters {
    /// The streams' round-trip time, if it is known.
    pub fn rtt(&self) -> Option<Duration> {
        (self.rtt_us > 0).then(|| Duration::from_micros(self.rtt_us))
    }
}

/// What is seen of a stage on this host without asking the other end.
#[derive(Clone, Copy, Debug, Default)]
pub struct StageGlimpse {
    /// What it has moved: bytes, or what goes with them.
    pub moved: u64,
    /// How long its workers have waited, summed over them.
    pub waited: Duration,
}

/// What is seen of each stage on this host; `None` of those elsewhere.
pub type Glimpse = PerStage<Option<StageGlimpse>>;

/// How far a transfer has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Files listed so far.
    pub files_listed: u64,
    /// Files committed.
    pub files_done: u64,
    /// Files that were there already.
    pub files_skipped: u64,
    /// Files that failed.
    pub files_failed: u64,
    /// Bytes listed so far.
    pub bytes_listed: u64,
    /// Bytes of files that need not be sent: skipped, or there from an earlier run.
    pub bytes_skipped: u64,
    /// Bytes of committed files that had to be moved.
    pub bytes_done: u64,
    /// Bytes moved, repeats included.
    pub bytes_moved: u64,
    /// Bytes moved more than once.
    pub bytes_again: u64,
    /// Whether the whole source has been listed.
    pub listed: bool,
}

tagged!(Totals, "totals" {
    2 => files_listed,
    4 => files_done,
    6 => files_skipped,
    8 => files_failed,
    10 => bytes_listed,
    12 => bytes_skipped,
    14 => bytes_done,
    16 => bytes_moved,
    18 => bytes_again,
    20 => listed,
});

impl Totals {
    /// How much has arrived, where so many of the bytes moved are still on their way.
    pub fn arrival(&self, in_flight: u64) -> Arrival {
        let wanted = self.bytes_listed.saturating_sub(self.bytes_skipped);
        // What is moved and not yet committed counts too, as long as it is not more than there is.
        let moved = self.bytes_moved.saturating_sub(self.bytes_again).saturating_sub(in_flight);
        let new = moved.max(self.bytes_done).min(wanted);
        Arrival {
            bytes: ByteCount(self.bytes_skipped.saturating_add(new)),
            new_bytes: ByteCount(new),
            total_bytes: self.listed.then_some(ByteCount(self.bytes_listed)),
        }
    }

    /// What is left to move, once everything has been listed.
    pub fn remaining(&self) -> Option<Remaining> {
        let left = |all: u64, done: u64, skipped: u64| all.saturating_sub(done).saturating_sub(skipped);
        self.listed.then(|| Remaining {
            bytes: ByteCount(left(self.bytes_listed, self.bytes_done, self.bytes_skipped)),
            files: left(self.files_listed, self.files_done, self.files_skipped + self.files_failed),
        })
    }
}
