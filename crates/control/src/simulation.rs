//! A rule on a scenario, and what came of it.

use std::time::Duration;

use serde::Serialize;

use crate::control_loop::{Epoch, run};
use crate::optimizer::Optimizer;
use crate::period::{Period, periods};
use crate::scenario::Scenario;
use crate::simulator::{Delivered, Simulator, SimulatorOptions};
use crate::stage::{Concurrency, PerStage};
use crate::units::BitRate;

/// How near the best goodput counts as there.
const CONVERGED: f64 = 0.95;

/// What a run came to; throughput is what was truly delivered, without measurement noise.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Epochs run.
    pub epochs: u32,
    /// The length of an epoch in ms.
    pub epoch_ms: u64,
    /// Simulated time in ms.
    pub duration_ms: u64,
    /// The first epoch, counted from 1, with 95 % of the best goodput; none if it never came.
    pub epochs_to_95: Option<u32>,
    /// Mean goodput in bit/s.
    pub throughput_bps: BitRate,
    /// What the oracle would have moved in the same time, in bit/s.
    pub best_bps: BitRate,
    /// Mean goodput by the oracle's.
    pub throughput_share: f64,
    /// The same over the second half of the time.
    pub second_half_share: f64,
    /// Mean workers a stage.
    pub concurrency_mean: PerStage<f64>,
    /// Standard deviation of the share of the best goodput by its mean, from the converged epoch
    /// on; less is steadier.
    pub stability: Option<f64>,
    /// The same workers between changes of the path, beside the oracle's.
    pub periods: Vec<Period>,
}

/// A run: what the rule saw and set, and what it came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Simulation {
    /// What the control loop reported.
    pub epochs: Vec<Epoch>,
    /// What was truly delivered.
    pub delivered: Vec<Delivered>,
    /// Both in short.
    pub summary: Summary,
}

/// Runs `optimizer` on `scenario` from its own starting set-point, or from `start`.
///
/// `options` should bound the epochs, unless the scenario has a data set that ends.
///
/// ```
/// use std::time::Duration;
/// use tidegate_control::optimizer::{OptimizerOptions, build};
/// use tidegate_control::{Scenario, SimulatorOptions, simulate};
///
/// let text = "name = 'memory'\ndescription = ''\n[network]\nworker_rate = '100Mbit/s'\n[link]\nrate = '1Gbit/s'";
/// let mut rule = build("auto", &OptimizerOptions::default())?;
/// let options = SimulatorOptions::new(1, rule.epoch_length(), 60);
/// let summary = simulate(&Scenario::from_toml(text)?, rule.as_mut(), None, options).summary;
/// assert!(summary.second_half_share > 0.95, "{summary:?}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn simulate(
    scenario: &Scenario,
    optimizer: &mut dyn Optimizer,
    start: Option<Concurrency>,
    options: SimulatorOptions,
) -> Simulation {
    let mut simulator = Simulator::new(scenario.clone(), options).recording();
    let mut epochs = Vec::new();
    match run(&mut simulator, optimizer, start, |epoch, _| epochs.extend(epoch.cloned())) {
        Ok(()) => {}
        Err(never) => match never {},
    }
    let delivered = simulator.delivered().to_vec();
    let summary = summarize(scenario, &delivered, options.epoch);
    Simulation { epochs, delivered, summary }
}

/// Runs it with what a transfer gives it, and tells what it came to: what `tidegate simulate` and the Python package say. An
/// epoch is as long as the rule asks for, unless `epoch` says otherwise.
pub fn judge(
    scenario: &Scenario,
    optimizer: &mut dyn Optimizer,
    seed: u64,
    epochs: u32,
    epoch: Option<Duration>,
) -> Summary {
    let length = epoch.unwrap_or_else(|| optimizer.epoch_length());
    let options = SimulatorOptions::new(seed, length, epochs).with_short_epochs();
    simulate(scenario, optimizer, None, options).summary
}

/// Reduces what was delivered on `scenario` to a few numbers; all zero if nothing was.
pub fn summarize(scenario: &Scenario, delivered: &[Delivered], epoch: Duration) -> Summary {
    let seconds: f64 = delivered.iter().map(|epoch| epoch.length.as_secs_f64()).sum();
    let mean = |of: &[Delivered], value: &dyn Fn(&Delivered) -> f64| {
        let time: f64 = of.iter().map(|epoch| epoch.length.as_secs_f64()).sum();
        let sum: f64 = of.iter().map(|epoch| value(epoch) * epoch.length.as_secs_f64()).sum();
        if time > 0.0 { sum / time } else { 0.0 }
    };
    let goodput = |epoch: &Delivered| epoch.goodput.0 as f64;
    let best = |epoch: &Delivered| epoch.best.0 as f64;
    let share = |of: &[Delivered]| if of.is_empty() { 0.0 } else { mean(of, &goodput) / mean(of, &best) };
    let converged = delivered.iter().position(|epoch| goodput(epoch) >= CONVERGED * best(epoch));
    let stability = converged.map(|from| {
        let shares: Vec<f64> = delivered[from..].iter().map(|epoch| goodput(epoch) / best(epoch)).collect();
        let count = shares.len() as f64;
        let mean = shares.iter().sum::<f64>() / count;
        (shares.iter().map(|share| (share - mean).powi(2)).sum::<f64>() / count).sqrt() / mean
    });
    let half = delivered.last().map_or(Duration::ZERO, |epoch| epoch.at / 2);
    let second_half = delivered.partition_point(|epoch| epoch.at <= half);
    Summary {
        epochs: delivered.len() as u32,
        epoch_ms: epoch.as_millis() as u64,
        duration_ms: (seconds * 1000.0).round() as u64,
        epochs_to_95: converged.map(|position| {
            // The first steps may have been short ones.
            (delivered[position].at.as_secs_f64() / epoch.as_secs_f64()).ceil().max(1.0) as u32
        }),
        throughput_bps: BitRate::from_bps(mean(delivered, &goodput)),
        best_bps: BitRate::from_bps(mean(delivered, &best)),
        throughput_share: share(delivered),
        second_half_share: share(&delivered[second_half..]),
        concurrency_mean: PerStage::from_fn(|stage| {
            mean(delivered, &|epoch| f64::from(epoch.concurrency[stage]))
        }),
        stability,
        periods: periods(scenario, delivered),
    }
}
