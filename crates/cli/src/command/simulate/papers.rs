//! Rules on the simulators that the papers' agents learned on.

use std::process::ExitCode;

use serde::Serialize;
use tidegate_control::paper_path::{PaperPath, PaperSimulator};
use tidegate_control::{BitRate, Epoch, PerStage, Rng, Scenario, Stage, run as drive};

use super::{Named, SimulateArgs};
use crate::terminal;

#[derive(Serialize)]
struct Report<'a> {
    scenario: &'a str,
    simulator: &'static str,
    seed: u64,
    results: Vec<Line<'a>>,
}

/// What a rule did, and the most that was seen on the way.
#[derive(Serialize)]
struct Line<'a> {
    optimizer: &'a str,
    epochs: usize,
    throughput_bps: BitRate,
    concurrency_mean: PerStage<f64>,
    max_throughput_bps: PerStage<BitRate>,
    max_worker_throughput_bps: PerStage<BitRate>,
}

/// Runs each rule on a path of its own.
pub fn run(
    args: &SimulateArgs,
    scenario: &Scenario,
    rules: Vec<Named<'_>>,
    simulator: PaperSimulator,
) -> anyhow::Result<ExitCode> {
    let path = simulator.path(scenario);
    let mut results = Vec::new();
    for (name, mut rule) in rules {
        let length = args.epoch.unwrap_or_else(|| rule.epoch_length());
        let path = PaperPath::new(&path, simulator, &mut Rng::new(args.seed));
        let mut path = path.lasting(args.epochs, length);
        let mut epochs: Vec<Epoch> = Vec::new();
        let Ok(()) = drive(&mut path, rule.as_mut(), None, |epoch, _| epochs.extend(epoch.cloned()));
        results.push(Line {
            optimizer: name,
            epochs: epochs.len(),
            throughput_bps: goodput(&epochs),
            concurrency_mean: PerStage::from_fn(|stage| {
                mean(&epochs, |epoch| f64::from(epoch.concurrency[stage]))
            }),
            max_throughput_bps: path.most(),
            max_worker_throughput_bps: path.most_each(),
        });
    }
    let report = Report { scenario: &scenario.name, simulator: simulator.name(), seed: args.seed, results };
    if args.json {
        terminal::print_json(&report)?;
    } else {
        terminal::print(&table(&report))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A mean over time.
fn mean(epochs: &[Epoch], value: impl Fn(&Epoch) -> f64) -> f64 {
    let time: f64 = epochs.iter().map(|epoch| epoch.interval_ms as f64).sum();
    let sum: f64 = epochs.iter().map(|epoch| value(epoch) * epoch.interval_ms as f64).sum();
    if time > 0.0 { sum / time } else { 0.0 }
}

/// What arrived: the least that a stage moved, in the mean.
fn goodput(epochs: &[Epoch]) -> BitRate {
    let least = |epoch: &Epoch| {
        Stage::ALL.into_iter().map(|stage| epoch.throughput_bps[stage].0).min().unwrap_or(0) as f64
    };
    BitRate::from_bps(mean(epochs, least))
}

fn table(report: &Report<'_>) -> String {
    let names = report.results.iter().map(|line| line.optimizer.len()).max().unwrap_or(0).max(9);
    let three = |of: &PerStage<BitRate>| {
        let PerStage { read, network, write } = of;
        format!("{:.0}/{:.0}/{:.0}", read.as_mbps(), network.as_mbps(), write.as_mbps())
    };
    let mut lines = vec![
        format!("{} on the simulator of {}, seed {}", report.scenario, report.simulator, report.seed),
        String::new(),
        format!(
            "{:<names$}  {:>11}  {:<14}  {:<20}  max T/n",
            "optimizer", "throughput", "mean workers", "max T, Mbit/s"
        ),
    ];
    for line in &report.results {
        let PerStage { read, network, write } = line.concurrency_mean;
        lines.push(format!(
            "{:<names$}  {:>11}  {:<14}  {:<20}  {}",
            line.optimizer,
            line.throughput_bps.to_string(),
            format!("{read:.1}/{network:.1}/{write:.1}"),
            three(&line.max_throughput_bps),
            three(&line.max_worker_throughput_bps)
        ));
    }
    lines.join("\n")
}
