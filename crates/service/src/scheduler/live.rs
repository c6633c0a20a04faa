//! How a job that runs is doing.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tidegate_control::{ByteCount, Epoch};
use tokio::sync::broadcast;

use crate::job::Progress;

use super::Heard;

/// The latest epochs that are kept of a job that runs.
pub const MOST_EPOCHS: usize = 600;
/// Epochs that a slow listener may be behind.
const BEHIND: usize = 64;

/// A job that runs, as it stands.
#[derive(Debug)]
pub struct Live {
    /// How far it is.
    pub progress: Progress,
    /// Its latest epochs, the oldest first.
    pub epochs: Vec<Heard>,
    /// Those to come.
    pub to_come: broadcast::Receiver<Heard>,
}

/// Keeps up with a job.
#[derive(Debug)]
pub struct Tracker {
    progress: Progress,
    epochs: VecDeque<Heard>,
    sender: broadcast::Sender<Heard>,
    /// What was moved by all epochs, and the end of the last.
    moved: (f64, Duration),
}

impl Tracker {
    /// Nothing was heard yet.
    pub fn new() -> Self {
        let (sender, _) = broadcast::channel(BEHIND);
        Self { progress: Progress::default(), epochs: VecDeque::new(), sender, moved: (0.0, Duration::ZERO) }
    }

    /// Hears an epoch.
    pub fn hear(&mut self, epoch: Epoch) {
        let tidegate_control::PerStage { read, network, write } = epoch.throughput_bps;
        let goodput = read.min(network).min(write);
        let at = Duration::from_millis(epoch.t_ms);
        // The time that was left out to settle counts as well.
        let time = at.saturating_sub(self.moved.1);
        self.moved = (self.moved.0 + goodput.bytes_per_second() * time.as_secs_f64(), at);
        self.progress.bytes = ByteCount(self.moved.0 as u64);
        if let Some(left) = epoch.remaining_bytes {
            // The books count a file when it is complete, and rates what is under way.
            let total = self.progress.total_bytes.map_or(left, |total| total.max(left));
            self.progress.total_bytes = Some(total);
            self.progress.bytes = self.progress.bytes.max(total.saturating_sub(left)).min(total);
        }
        self.progress.throughput_bps = goodput;
        self.progress.streams = epoch.concurrency.network;
        let heard: Heard = Arc::new(epoch);
        if self.epochs.len() == MOST_EPOCHS {
            self.epochs.pop_front();
        }
        self.epochs.push_back(Arc::clone(&heard));
        // Nobody may be listening.
        let _ = self.sender.send(heard);
    }

    /// How far it is.
    pub const fn progress(&self) -> Progress {
        self.progress
    }

    /// As it stands.
    pub fn live(&self) -> Live {
        Live {
            progress: self.progress,
            epochs: self.epochs.iter().cloned().collect(),
            to_come: self.sender.subscribe(),
        }
    }
}
