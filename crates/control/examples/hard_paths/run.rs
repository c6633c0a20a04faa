//! One rule on one path.

use std::env;
use std::time::Duration;

use tidegate_control::optimizer::{OptimizerError, OptimizerOptions, RuleDescription, build};
use tidegate_control::simulator::Delivered;
use tidegate_control::{BitRate, Optimizer, Scenario, Share, Simulation, SimulatorOptions, Stage, simulate};

/// Epochs a run, as in `tidegate simulate`.
const EPOCHS: u32 = 60;
/// Those that count as the end, in whole ones.
const END: u32 = 10;

/// A rule, and how hard it pushes beside others where it can be told.
pub struct Contender {
    pub rule: String,
    pub share: Option<Share>,
}

impl Contender {
    pub fn new(rule: &str) -> Self {
        Self { rule: rule.to_owned(), share: None }
    }

    pub fn label(&self) -> String {
        self.share.map_or_else(|| self.rule.clone(), |share| format!("{}, {share}", self.rule))
    }

    pub fn build(&self, seed: u64) -> Result<Box<dyn Optimizer>, OptimizerError> {
        let share = self.share.filter(|_| self.rule == "auto");
        let rule = share.map_or_else(
            || self.rule.clone(),
            |share| RuleDescription::with(&self.rule, "share", share.name()),
        );
        build(&rule, &OptimizerOptions { seed, ..OptimizerOptions::default() })
    }
}

/// Mean workers of a stage between two changes, by the oracle's.
pub struct Ratio {
    pub of: f64,
    pub place: String,
}

/// What one rule made of one path.
pub struct Run {
    pub seed: u64,
    /// Whether there are foreign streams at some time.
    pub shared: bool,
    /// Goodput by the best; over the second half, over the last epochs.
    pub share: f64,
    pub late: f64,
    pub end: f64,
    /// Goodput by what the workers that fill the path alone get beside the others.
    pub fair: f64,
    /// Workers in all stages.
    pub workers: f64,
    /// Worker seconds of the stages that have a choice by the oracle's.
    pub ratio: f64,
    pub ratios: Vec<Ratio>,
}

fn trace(scenario: &Scenario, simulation: &Simulation) {
    println!("{scenario:#?}");
    for epoch in &simulation.epochs {
        println!(
            "{:6.2} {:?} {:.2?} free {:?} -> {:?}",
            epoch.t_ms as f64 / 1e3,
            epoch.concurrency.into_array(),
            epoch.throughput_bps.map(|rate| rate.as_mbps()).into_array(),
            epoch.staging_free_bytes,
            epoch.setpoint.into_array()
        );
    }
}

/// Plays one path; its number is also the seed of all chance.
pub fn run(scenario: &Scenario, seed: u64, contender: &Contender) -> Result<Run, OptimizerError> {
    let mut optimizer = contender.build(seed)?;
    let length = optimizer.epoch_length();
    let options = SimulatorOptions::new(seed, length, EPOCHS).with_short_epochs();
    let simulation = simulate(scenario, optimizer.as_mut(), None, options);
    if env::var("TRACE").is_ok_and(|traced| traced == seed.to_string()) {
        trace(scenario, &simulation);
    }
    let summary = &simulation.summary;
    let mut ratios = Vec::new();
    let (mut fair, mut ours, mut best) = (0.0, 0.0, 0.0);
    for (at, period) in summary.periods.iter().enumerate() {
        let seconds = (period.until_ms - period.from_ms) as f64 / 1e3;
        fair += period.fair_bps.0 as f64 * seconds;
        for stage in Stage::ALL {
            let (mean, oracle) = (period.concurrency_mean[stage], f64::from(period.optimum[stage]));
            if let Some(of) = period.concurrency_ratio[stage] {
                ratios.push(Ratio { of, place: format!("h{seed} {stage} {at}: {mean:.1} for {oracle}") });
                ours += mean * seconds;
                best += oracle * seconds;
            }
        }
    }
    let last = simulation.delivered.last().map_or(Duration::ZERO, |epoch| epoch.at);
    let end = || simulation.delivered.iter().filter(|epoch| epoch.at + END * length > last);
    let moved = |epoch: &Delivered, rate: BitRate| rate.0 as f64 * epoch.length.as_secs_f64();
    let mean = summary.concurrency_mean;
    Ok(Run {
        seed,
        shared: scenario.background.streams > 0
            || scenario.background.bursts.is_some_and(|bursts| bursts.streams > 0)
            || scenario.timeline.iter().any(|change| change.background.streams.is_some()),
        share: summary.throughput_share,
        late: summary.second_half_share,
        end: end().map(|epoch| moved(epoch, epoch.goodput)).sum::<f64>()
            / end().map(|epoch| moved(epoch, epoch.best)).sum::<f64>(),
        fair: summary.throughput_bps.0 as f64 * summary.duration_ms as f64 / 1e3 / fair,
        workers: mean.read + mean.network + mean.write,
        ratio: ours / best,
        ratios,
    })
}

/// The value that a share of `part` of all does not reach.
pub fn percentile(values: impl IntoIterator<Item = f64>, part: f64) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values.get((values.len() as f64 * part) as usize).copied().unwrap_or(f64::NAN)
}

/// The mean.
pub fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len() as f64;
    values.sum::<f64>() / count
}
