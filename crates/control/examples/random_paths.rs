//! Rules on random paths, beside one another and beside an oracle that knows the path.
//!
//! ```text
//! cargo run --release -p tidegate-control --example random_paths -- [--extras] [--training] [--json] RULE...
//! ```
//!
//! Without `--extras` the paths are ideal; without `--training` they are those that training never sees.

use std::time::Duration;

use tidegate_control::optimizer::{OptimizerError, OptimizerOptions, build};
use tidegate_control::random_path::{EPOCHS, training, unseen};
use tidegate_control::simulator::Delivered;
use tidegate_control::{Path, Scenario, SimulatorOptions, Stage, simulate};

const PATHS: u64 = 500;
/// How near the oracle a rule must stay to have converged.
const CONVERGED: f64 = 0.95;
/// Rules of the literature that drive any path untrained.
const PUBLISHED: [&str; 5] = ["aimd", "falcon", "gradient", "bayesian", "marlin"];
/// A lead that is more than the last digit.
const LEAD: f64 = 0.001;

/// What a rule made of one path.
struct Run {
    /// Goodput by the oracle's over the second half of the time, and over all of it.
    steady: f64,
    mean: f64,
    /// Mean workers by the oracle's, over the second half.
    workers: f64,
    /// The epoch, counted from 1, from which goodput stayed near the oracle's; one more than all if none.
    until: f64,
}

fn share(epoch: &Delivered) -> f64 {
    epoch.goodput.0 as f64 / epoch.best.0 as f64
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len() as f64;
    values.sum::<f64>() / count
}

fn play(scenario: &Scenario, rule: &str, seed: u64) -> Result<Run, OptimizerError> {
    let mut optimizer = build(rule, &OptimizerOptions { seed, ..OptimizerOptions::default() })?;
    // The same time for all, whatever the length of their epochs.
    let epochs = EPOCHS / optimizer.epoch_length().as_secs().max(1) as u32;
    let options = SimulatorOptions::new(seed, optimizer.epoch_length(), epochs);
    let delivered = simulate(scenario, optimizer.as_mut(), None, options).delivered;
    let late = &delivered[delivered.len() / 2..];
    let there = |stage: &Stage| scenario.stages()[*stage].is_some();
    let workers = |epoch: &Delivered| {
        let n = |stage| f64::from(epoch.concurrency[stage]);
        // The oracle of the moment: rates change on the way.
        let oracle = Path::at(scenario, epoch.at - Duration::from_millis(1)).oracle().setpoint;
        let best: f64 = Stage::ALL.into_iter().filter(there).map(|stage| f64::from(oracle[stage])).sum();
        Stage::ALL.into_iter().filter(there).map(n).sum::<f64>() / best
    };
    let last_low = delivered.iter().rposition(|epoch| share(epoch) < CONVERGED);
    Ok(Run {
        steady: mean(late.iter().map(share)),
        mean: mean(delivered.iter().map(share)),
        workers: mean(late.iter().map(workers)),
        until: last_low.map_or(1.0, |position| position as f64 + 2.0),
    })
}

/// The value that a share of `part` of all runs does not exceed.
fn quantile(runs: &[Run], part: f64, value: fn(&Run) -> f64) -> f64 {
    let mut values: Vec<f64> = runs.iter().map(value).collect();
    values.sort_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * part).round() as usize]
}

fn main() {
    let (flags, rules): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|argument| argument.starts_with("--"));
    let has = |flag: &str| flags.iter().any(|given| given == flag);
    let draw = if has("--training") { training } else { unseen };
    let paths: Vec<Scenario> =
        (0..PATHS).map(draw).map(|path| if has("--extras") { path } else { path.ideal() }).collect();
    let mut played: Vec<(String, Vec<Run>)> = Vec::new();
    for rule in rules {
        let run = |(seed, path): (usize, &Scenario)| play(path, &rule, seed as u64);
        match paths.iter().enumerate().map(run).collect() {
            Ok(runs) => played.push((rule, runs)),
            Err(error) => {
                eprintln!("random_paths: {error}");
                std::process::exit(2);
            }
        }
    }
    for (rule, runs) in &played {
        // Paths on which no published rule moved more, and those on which each of them moved less.
        let rivals: Vec<&Vec<Run>> = played
            .iter()
            .filter(|(name, _)| name != rule && PUBLISHED.contains(&name.as_str()))
            .map(|(_, runs)| runs)
            .collect();
        let against = |lead: f64| {
            let ahead = |path: &usize| rivals.iter().all(|of| runs[*path].mean > of[*path].mean + lead);
            (0..runs.len()).filter(ahead).count() as f64 / runs.len() as f64
        };
        let row = [
            ("goodput_median", quantile(runs, 0.5, |run| run.steady)),
            ("goodput_p5", quantile(runs, 0.05, |run| run.steady)),
            ("workers_median", quantile(runs, 0.5, |run| run.workers)),
            ("workers_p95", quantile(runs, 0.95, |run| run.workers)),
            ("epochs_to_stay_median", quantile(runs, 0.5, |run| run.until)),
            ("epochs_to_stay_p95", quantile(runs, 0.95, |run| run.until)),
            ("mean_goodput", mean(runs.iter().map(|run| run.mean))),
            ("mean_goodput_p5", quantile(runs, 0.05, |run| run.mean)),
            ("not_behind_published", if rivals.is_empty() { 1.0 } else { against(-LEAD) }),
            ("ahead_of_published", if rivals.is_empty() { 1.0 } else { against(LEAD) }),
        ];
        if has("--behind") {
            for path in
                (0..runs.len()).filter(|&path| rivals.iter().any(|of| runs[path].mean + LEAD < of[path].mean))
            {
                let best: Vec<String> = rivals.iter().map(|of| format!("{:.3}", of[path].mean)).collect();
                eprintln!("{rule} path {path} mean {:.3} rivals {}", runs[path].mean, best.join(" "));
            }
        }
        if has("--json") {
            let fields: Vec<String> =
                row.iter().map(|(name, value)| format!("\"{name}\":{value:.4}")).collect();
            println!("{{\"rule\":\"{rule}\",{}}}", fields.join(","));
        } else {
            let fields: Vec<String> = row.iter().map(|(name, value)| format!("{name} {value:.3}")).collect();
            println!("{rule:12} {}", fields.join("  "));
        }
    }
}
