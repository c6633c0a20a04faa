//! What one epoch showed.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::look::Look;
use crate::stage::{Bounds, Concurrency, Ends, PerStage, Stage};
use crate::units::{BitRate, ByteCount};

/// A stage whose workers waited for more than this share of the time did nothing because there was nothing to do.
const IDLE: f64 = 0.5;

/// What is left to move.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remaining {
    /// Bytes listed, and neither committed nor there before.
    pub bytes: ByteCount,
    /// Files listed and not yet committed.
    pub files: u64,
}

/// What a host's processors did during an epoch, as shares of all their time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuLoad {
    /// The share that this transfer's process had, 0 to 1.
    pub ours: f64,
    /// The share that nobody used, 0 to 1.
    pub idle: f64,
}

/// What the sender's kernel told of the network streams (`TCP_INFO`), over all of them; shares are of the interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Streams {
    /// Streams that were asked.
    pub count: u16,
    /// The shortest round trip that any of them has seen.
    pub min_rtt: Option<Duration>,
    /// What the peer acknowledged last, summed; of no use while streams are limited by the application.
    pub delivery_rate: BitRate,
    /// Their congestion windows, summed.
    pub window: ByteCount,
    /// The mean share of the time in which a stream had data under way, 0 to 1.
    pub busy: f64,
    /// The mean share of the time in which the receiver's window held a stream back, 0 to 1.
    pub receiver_limited: f64,
    /// The share of streams whose last measurement was limited by the application, 0 to 1.
    pub app_limited: f64,
    /// How unequal they are: the standard deviation of what they moved by its mean.
    pub spread: f64,
}

/// Share of a host's processor time: with less than this idle it has none to spare, ...
const SPENT_IDLE: f64 = 0.1;
/// Share of a host's processor time: ... if so much of it is ours. Beside others' work our workers get their turn, and
/// on a far path more of them move more. 0.4: less than half, as one host may hold both ends.
const SPENT_OURS: f64 = 0.4;

/// What one epoch showed: the only thing an optimizer ever sees.
///
/// ```
/// use tidegate_control::{BitRate, Observation, PerStage};
///
/// let seen = Observation {
///     concurrency: PerStage::new(4, 8, 2),
///     throughput: PerStage::new(BitRate::mbps(900), BitRate::mbps(700), BitRate::mbps(750)),
///     ..Observation::default()
/// };
/// assert_eq!(seen.goodput(), BitRate::mbps(700));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// The end of the interval, counted from the start of the transfer.
    pub at: Duration,
    /// The time measured; the settling time after a change is left out.
    pub interval: Duration,
    /// Workers that were allowed to run; what was asked for, unless a set-point takes effect late. 1 for a stage
    /// that a route lacks.
    pub concurrency: Concurrency,
    /// What each stage moved, in bit/s; a stage that a route lacks moves what the network does, so that it is never
    /// the slowest.
    pub throughput: PerStage<BitRate>,
    /// The standard error of each throughput, as a share of it; 0 where nobody knows.
    #[serde(default)]
    pub standard_error: PerStage<f64>,
    /// The share of the interval for which a stage's workers had no staging to take from or to fill, in the mean over
    /// them, 0 to 1; not known of a stage that is not ours.
    #[serde(default)]
    pub waited: PerStage<Option<f64>>,
    /// Workers beyond those allowed that finished what they had begun before they were let go, in the mean over the
    /// interval; 0 where nobody knows. Of streams the kernel tells it.
    #[serde(default)]
    pub draining: PerStage<f64>,
    /// Free staging at each end at the end of the interval.
    pub staging_free: Ends<ByteCount>,
    /// Size of the staging at each end; a full one holds up the stage before it, an empty one the stage after it.
    /// 0 where there is none.
    pub staging_capacity: Ends<ByteCount>,
    /// Segments retransmitted per segment sent, 0 to 1; a receiver cannot see it.
    pub loss: Option<f64>,
    /// Smoothed round-trip time, if the sender's kernel told it.
    pub rtt: Option<Duration>,
    /// What the sender's kernel told of the network streams, if it is ours.
    #[serde(default)]
    pub streams: Option<Streams>,
    /// The share of streams that have waited in a queue ever since they began, so that the sender holds them back, or that go by
    /// a model and fill the path, 0 to 1.
    #[serde(default)]
    pub queued: f64,
    /// The share of streams that the sender holds back, as they began in a queue, 0 to 1.
    #[serde(default)]
    pub held: f64,
    /// The share of streams whose congestion control goes by a model of the path, as BBR does, 0 to 1: losses tell nothing of
    /// their windows.
    #[serde(default)]
    pub model_based: f64,
    /// Whether another congestion control is tried, or about to be: it will be known before long what streams can do.
    #[serde(default)]
    pub tries: bool,
    /// What a [`Ramp`](crate::Ramp) ahead of the interval has seen of other numbers of streams.
    #[serde(default)]
    pub ramp: Vec<Look>,
    /// What each end's processors did; not known of an end that is not ours.
    #[serde(default)]
    pub cpu: Ends<Option<CpuLoad>>,
    /// What is left to move, if the whole list is known.
    pub remaining: Option<Remaining>,
}

impl Observation {
    /// End-to-end throughput: what the slowest stage moved. One that moved nothing as its workers waited is not the slowest:
    /// beside a slow path it works in bursts, of a block that is filled or emptied every few epochs.
    pub fn goodput(&self) -> BitRate {
        self.slowest(|_| true)
    }

    /// The same of the stages that may have more or fewer workers; nothing where none may.
    pub fn free_goodput(&self, bounds: PerStage<Bounds>) -> BitRate {
        self.slowest(|stage| !bounds[stage].is_fixed())
    }

    fn slowest(&self, counts: impl Fn(Stage) -> bool) -> BitRate {
        let waits = |stage: Stage| {
            self.throughput[stage] == BitRate::ZERO && self.waited[stage].is_some_and(|waited| waited > IDLE)
        };
        let stages = Stage::ALL.into_iter().filter(|&stage| counts(stage) && !waits(stage));
        stages.map(|stage| self.throughput[stage]).min().unwrap_or_default()
    }

    /// The stages that run on a host without processor time to spare; the network's workers are on both.
    pub fn spent(&self) -> PerStage<bool> {
        let spent = |load: Option<CpuLoad>| {
            load.is_some_and(|load| load.idle < SPENT_IDLE && load.ours >= SPENT_OURS)
        };
        let (sender, receiver) = (spent(self.cpu.sender), spent(self.cpu.receiver));
        PerStage::new(sender, sender || receiver, receiver)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(read: (u64, Option<f64>), write: (u64, Option<f64>)) -> Observation {
        Observation {
            throughput: PerStage::new(BitRate::mbps(read.0), BitRate::mbps(9), BitRate::mbps(write.0)),
            waited: PerStage::new(read.1, Some(0.0), write.1),
            ..Observation::default()
        }
    }

    #[test]
    fn who_had_nothing_to_do_is_not_the_slowest() {
        for (read, write, wanted) in [
            ((0, Some(1.0)), (0, Some(0.9)), 9),
            ((0, Some(1.0)), (4, Some(0.9)), 4),
            ((30, Some(0.9)), (0, Some(1.0)), 9),
            // It could have moved something, or nobody knows.
            ((0, Some(0.1)), (9, Some(0.0)), 0),
            ((0, None), (9, None), 0),
        ] {
            assert_eq!(seen(read, write).goodput(), BitRate::mbps(wanted), "{read:?}, {write:?}");
        }
        let waits = seen((0, Some(1.0)), (0, Some(1.0)));
        let bounds = PerStage { network: Bounds::fixed(1), ..PerStage::all(Bounds::new(1, 4)) };
        assert_eq!(waits.free_goodput(bounds), BitRate::ZERO, "of the others none moved anything");
        assert_eq!(waits.free_goodput(PerStage::all(Bounds::new(1, 4))), BitRate::mbps(9));
    }
}
