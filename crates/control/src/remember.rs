//! From the epochs of a run to what its path held, whatever the rule was.

use crate::control_loop::Epoch;
use crate::look::Look;
use crate::path_estimator::{ERROR, IDLE, STARVED};
use crate::path_memory::{MAX_LOOKS, PathMemory, StageMemory};
use crate::stage::{PerStage, Stage};
use crate::units::BitRate;

/// Fewer epochs in which something moved say nothing.
pub const MIN_EPOCHS: usize = 5;

/// What is looked back at, in ms: before that it may have been another path.
const LASTING_MS: u64 = 60_000;

/// What the path of these epochs held at their end; none if they are too few.
///
/// How many workers were held is the median over the second half of the time, so that neither the way up nor what was
/// tried in between counts.
pub fn remember(epochs: &[Epoch], at_unix_s: u64) -> Option<PathMemory> {
    // Readers and writers may have nothing to do for an epoch; the streams do where anything goes on.
    let moving: Vec<&Epoch> = epochs.iter().filter(|epoch| epoch.throughput_bps.network.0 > 0).collect();
    let (first, last) = (moving.first()?, moving.last()?);
    if moving.len() < MIN_EPOCHS {
        return None;
    }
    let half = first.t_ms.midpoint(last.t_ms).max(last.t_ms.saturating_sub(LASTING_MS));
    let held: Vec<&Epoch> = moving.iter().copied().filter(|epoch| epoch.t_ms > half).collect();
    let recent: Vec<&Epoch> =
        moving.iter().copied().filter(|epoch| epoch.t_ms + LASTING_MS > last.t_ms).collect();
    let stages = PerStage::from_fn(|stage| {
        let workers = median(&held, stage);
        let moved = held.iter().map(|epoch| epoch.throughput_bps[stage].0 as f64 * epoch.interval_ms as f64);
        let time: u64 = held.iter().map(|epoch| epoch.interval_ms).sum();
        let throughput = moved.sum::<f64>() / time.max(1) as f64;
        StageMemory {
            workers,
            throughput_bps: BitRate::from_bps(throughput),
            looks: looks(&recent, stage, workers),
        }
    });
    let round_trip_us = recent.iter().filter_map(|epoch| epoch.rtt_us).min();
    Some(PathMemory { at_unix_s, epochs: moving.len() as u64, round_trip_us, stages })
}

/// The number of workers that was held, the median over the time.
fn median(epochs: &[&Epoch], stage: Stage) -> u16 {
    let mut numbers: Vec<(u16, u64)> =
        epochs.iter().map(|epoch| (epoch.concurrency[stage], epoch.interval_ms)).collect();
    numbers.sort_unstable();
    let all: u64 = numbers.iter().map(|(_, time)| time).sum();
    let mut time = 0;
    let middle = numbers.iter().find(|(_, own)| {
        time += own;
        2 * time >= all
    });
    middle.map_or(0, |(number, _)| *number)
}

/// What workers of a stage could do: as many as were held, and the nearest clearly fewer and more.
fn looks(epochs: &[&Epoch], stage: Stage, held: u16) -> Vec<Look> {
    let mut numbers: Vec<u16> = epochs.iter().map(|epoch| epoch.concurrency[stage]).collect();
    numbers.sort_unstable_by_key(|&n| (n.abs_diff(held), n));
    numbers.dedup();
    let mut looks: Vec<Look> = Vec::new();
    for n in numbers {
        let apart = |look: &Look| {
            let (n, other) = (f64::from(n), f64::from(look.workers));
            n.max(other) >= 1.5 * n.min(other)
        };
        if looks.len() < MAX_LOOKS && looks.iter().all(apart) {
            looks.extend(look(epochs, stage, n));
        }
    }
    looks.sort_unstable_by_key(|look| look.workers);
    looks
}

/// What `n` workers of a stage could do, in the mean over the time.
fn look(epochs: &[&Epoch], stage: Stage, n: u16) -> Option<Look> {
    let most = if stage == Stage::Network { STARVED } else { 1.0 - IDLE };
    let (mut time, mut sum, mut squares, mut count) = (0.0, 0.0, 0.0, 0.0);
    for epoch in epochs.iter().filter(|epoch| epoch.concurrency[stage] == n) {
        let waited = epoch.waited[stage].unwrap_or(0.0);
        if waited <= most && epoch.throughput_bps[stage].0 > 0 {
            // Those that were let go moved their part of it.
            let worked = 1.0 - waited + epoch.draining[stage] / f64::from(n.max(1));
            let (able, own) = (epoch.throughput_bps[stage].0 as f64 / worked, epoch.interval_ms as f64);
            time += own;
            sum += own * able;
            squares += own * able * able;
            count += 1.0;
        }
    }
    let mean = sum / time;
    let variance = (squares / time - mean * mean).max(0.0) / count;
    (mean > 0.0).then(|| Look {
        workers: n,
        able_bps: BitRate::from_bps(mean),
        standard_error: (variance.sqrt() / mean).max(ERROR),
    })
}
