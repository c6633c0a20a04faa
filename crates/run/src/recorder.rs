//! The epochs of a run: kept, and written as one JSON line each, where the user says or in the state directory.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};

use tidegate_contract::epoch_line;
use tidegate_control::{Concurrency, Epoch, PerStage};
use tidegate_transfer::error::Result;

/// Most run logs kept in the state directory.
const KEPT_LOGS: usize = 100;

/// Runs of this process so far.
static RUNS: AtomicU64 = AtomicU64::new(0);

/// Keeps the epochs, and writes each as one JSON line.
pub struct Recorder {
    /// The epochs so far.
    pub epochs: Vec<Epoch>,
    files: Vec<BufWriter<File>>,
    /// Where they are written.
    pub path: Option<PathBuf>,
    /// Whether the user named the file.
    asked: bool,
}

impl Recorder {
    /// Writes to the file `asked` for, or else to a log in `state`.
    pub fn new(asked: Option<&Path>, state: &Path) -> Result<Self> {
        let mut files = Vec::new();
        let path = if let Some(path) = asked {
            let file = File::create(path).map_err(|error| {
                tidegate_transfer::error::usage(format!("cannot write {}: {error}", path.display()))
            })?;
            files.push(BufWriter::new(file));
            Some(path.to_path_buf())
        } else {
            let runs = state.join("runs");
            let made = std::fs::create_dir_all(&runs).and_then(|()| {
                prune(&runs);
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
                // A process may begin several runs at once.
                let run = RUNS.fetch_add(1, Relaxed);
                let path = runs.join(format!("{now}-{}-{run}.jsonl", std::process::id()));
                Ok((BufWriter::new(File::create(&path)?), path))
            });
            match made {
                Ok((file, path)) => {
                    files.push(file);
                    Some(path)
                }
                Err(error) => {
                    tracing::warn!("no run log: {error}");
                    None
                }
            }
        };
        Ok(Self { epochs: Vec::new(), files, path, asked: asked.is_some() })
    }

    /// Keeps an epoch.
    pub fn add(&mut self, epoch: Epoch) {
        let line = epoch_line::write(&epoch);
        self.files.retain_mut(|file| {
            let written = writeln!(file, "{line}").and_then(|()| file.flush());
            if let Err(error) = &written {
                tracing::warn!("epochs are no longer written: {error}");
            }
            written.is_ok()
        });
        self.epochs.push(epoch);
    }

    /// Removes a log of our own choosing that has nothing to tell.
    pub fn finish(&mut self) {
        if self.epochs.is_empty() && !self.asked {
            self.files.clear();
            if let Some(path) = self.path.take() {
                let _ = std::fs::remove_file(path);
            }
        }
    }

    /// Workers a stage, averaged over the time.
    pub fn concurrency_mean(&self) -> PerStage<f64> {
        // Epochs may differ in length.
        let time: f64 = self.epochs.iter().map(|epoch| epoch.interval_ms as f64).sum();
        if time <= 0.0 {
            return PerStage::all(0.0);
        }
        let mean = |of: fn(&Concurrency) -> u16| {
            let sum = |epoch: &Epoch| f64::from(of(&epoch.concurrency)) * epoch.interval_ms as f64;
            self.epochs.iter().map(sum).sum::<f64>() / time
        };
        let round = |value: f64| (value * 100.0).round() / 100.0;
        PerStage::new(mean(|n| n.read), mean(|n| n.network), mean(|n| n.write)).map(round)
    }
}

/// Forgets the oldest run logs.
fn prune(runs: &Path) {
    let Ok(entries) = std::fs::read_dir(runs) else { return };
    let mut logs: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    logs.sort();
    let surplus = logs.len().saturating_sub(KEPT_LOGS - 1);
    logs.iter().take(surplus).for_each(|log| drop(std::fs::remove_file(log)));
}
