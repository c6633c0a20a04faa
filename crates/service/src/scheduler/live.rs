//! How a job that runs is doing.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_control::{Arrival, Epoch, Meter};
use tokio::sync::broadcast;

use crate::job::Progress;

/// The latest epochs that are kept of a job that runs.
pub(crate) const MAX_EPOCHS: usize = 600;
/// How long after an epoch the next one may be heard, if the transfer goes on.
const SILENCE: Duration = Duration::from_secs(3);
/// Epochs that a slow listener may be behind.
const BEHIND: usize = 64;

/// A job that runs, as it stands.
#[derive(Debug)]
pub struct Live {
    /// How far it is.
    pub progress: Progress,
    /// Its latest epochs, the oldest first.
    pub epochs: Vec<Arc<Epoch>>,
    /// Those to come.
    pub to_come: broadcast::Receiver<Arc<Epoch>>,
}

/// Keeps up with a job.
#[derive(Debug)]
pub struct Tracker {
    arrived: Arrival,
    meter: Meter,
    streams: u16,
    /// The end of the last epoch, and when it was heard.
    last: (Duration, Instant),
    epochs: VecDeque<Arc<Epoch>>,
    sender: broadcast::Sender<Arc<Epoch>>,
}

impl Tracker {
    /// Nothing was heard yet.
    pub fn new() -> Self {
        let (sender, _) = broadcast::channel(BEHIND);
        Self {
            arrived: Arrival::default(),
            meter: Meter::default(),
            streams: 0,
            last: (Duration::ZERO, Instant::now()),
            epochs: VecDeque::new(),
            sender,
        }
    }

    /// Hears an epoch.
    pub fn hear(&mut self, epoch: Epoch) {
        let at = Duration::from_millis(epoch.t_ms);
        if let Some(arrived) = epoch.arrived {
            self.arrived = arrived;
            self.meter.hear(at, arrived.new_bytes);
        }
        self.last = (at, Instant::now());
        self.streams = epoch.concurrency.network;
        let heard: Arc<Epoch> = Arc::new(epoch);
        if self.epochs.len() == MAX_EPOCHS {
            self.epochs.pop_front();
        }
        self.epochs.push_back(Arc::clone(&heard));
        // Nobody may be listening.
        let _ = self.sender.send(heard);
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        self.progress_after(self.last.1.elapsed())
    }

    /// The same when nothing was heard for so long. A transfer that tells nothing any more, as while it waits for who
    /// does not answer, moves nothing.
    fn progress_after(&self, silent: Duration) -> Progress {
        let rate = self.meter.rate(self.last.0 + silent.saturating_sub(SILENCE));
        let left = self.arrived.time_left(rate);
        Progress {
            bytes: self.arrived.bytes,
            total_bytes: self.arrived.total_bytes,
            throughput_bps: rate,
            left_ms: left.map(|left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX)),
            streams: self.streams,
        }
    }

    /// As it stands.
    pub fn live(&self) -> Live {
        Live {
            progress: self.progress(),
            epochs: self.epochs.iter().cloned().collect(),
            to_come: self.sender.subscribe(),
        }
    }
}

#[cfg(test)]
mod tests {
    use tidegate_control::{BitRate, ByteCount};

    use super::*;

    /// An epoch in which the stages moved so much, after which so much had arrived of 600 MB.
    fn epoch(second: u64, mbps: [u64; 3], arrived: u64) -> Epoch {
        let stages = |[read, network, write]: [u64; 3]| serde_json::json!({ "read": read, "network": network, "write": write });
        let value = serde_json::json!({
            "t_ms": second * 1000, "interval_ms": 1000, "concurrency": stages([1; 3]), "setpoint": stages([1; 3]),
            "throughput_bps": stages(mbps.map(|mbps| mbps * 1_000_000)),
            "staging_free_bytes": { "sender": 0, "receiver": 0 }, "loss": null, "rtt_us": null, "utility": null,
            // The books have no file that is complete.
            "remaining_bytes": 600_000_000,
            "arrived": { "bytes": 100_000_000 + arrived, "new_bytes": arrived, "total_bytes": 700_000_000 },
        });
        serde_json::from_value(value).expect("an epoch")
    }

    #[test]
    fn bursts_of_reading_do_not_hide_what_arrives() {
        let mut tracker = Tracker::new();
        for second in 1..=60 {
            // A disk is read in one second of six, and the network is steady.
            let read = if second % 6 == 0 { 360 } else { 0 };
            tracker.hear(epoch(second, [read, 60, 60], second * 7_500_000));
            let progress = tracker.progress_after(Duration::ZERO);
            assert_eq!(progress.throughput_bps, BitRate::mbps(60), "{second}");
            assert_eq!(progress.bytes, ByteCount(100_000_000 + second * 7_500_000));
            assert_eq!(progress.left_ms, Some((80 - second) * 1000));
        }
        // Silence is not a rate.
        let silent = |seconds| tracker.progress_after(SILENCE + Duration::from_secs(seconds));
        assert_eq!(silent(5).throughput_bps, BitRate::mbps(30));
        assert_eq!((silent(10).throughput_bps, silent(10).left_ms), (BitRate::ZERO, None));
        // A try that begins anew tells what came before it too.
        tracker.hear(epoch(90, [0, 0, 0], 460_000_000));
        assert_eq!(tracker.progress_after(Duration::ZERO).throughput_bps, BitRate(2_666_667));
    }
}
