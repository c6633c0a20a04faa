//! Rules on random paths, beside one another and beside an oracle that knows the path.

use std::fmt::Write as _;
use std::time::Duration;

use tidegate_control::random_path::EPOCHS;
use tidegate_control::simulator::Delivered;
use tidegate_control::{Path, Scenario, SimulatorOptions, Stage, simulate};

use crate::Result;
use crate::contenders::Contender;

const PATHS: u64 = 500;
/// How near the oracle a rule must stay to have converged.
const CONVERGED: f64 = 0.95;
/// Rules of the literature that drive any path untrained, and decide within a minute.
const PUBLISHED: [&str; 5] = ["aimd", "falcon", "gradient", "bayesian", "marlin"];
/// One that is slower than that.
const SLOW: &str = "fts3";
/// Rules of ours that are held against it too.
const OURS: [&str; 2] = ["auto", "universal"];
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

fn play(scenario: &Scenario, contender: &Contender, seed: u64) -> Result<Run> {
    let mut optimizer = contender.optimizer(seed)?;
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

/// The paths, in %, on which a contender is more than `lead` above each of the `rivals`.
fn ahead(
    played: &[(&Contender, Vec<Run>)],
    (contender, runs): (&Contender, &[Run]),
    rivals: &[&str],
    lead: f64,
) -> f64 {
    let is_rival = |name: &String| *name != contender.name && rivals.contains(&name.as_str());
    let of: Vec<&Vec<Run>> =
        played.iter().filter(|(rival, _)| is_rival(&rival.name)).map(|(_, runs)| runs).collect();
    let is_ahead = |path: &usize| of.iter().all(|of| runs[*path].mean > of[*path].mean + lead);
    100.0 * (0..runs.len()).filter(is_ahead).count() as f64 / runs.len() as f64
}

/// Plays every contender on every path of `draw` and puts it in a table.
pub fn table(contenders: &[Contender], draw: impl Fn(u64) -> Scenario) -> Result<String> {
    let paths: Vec<Scenario> = (0..PATHS).map(draw).collect();
    let mut played: Vec<(&Contender, Vec<Run>)> = Vec::new();
    for contender in contenders {
        eprint!("\r{} on {PATHS} paths                    ", contender.name);
        let run = |(seed, path): (usize, &Scenario)| play(path, contender, seed as u64);
        played.push((contender, paths.iter().enumerate().map(run).collect::<Result<_>>()?));
    }
    eprintln!();
    let mut page = String::from(
        "| rule | goodput / oracle, late: median | 5th percentile | workers / oracle's, late: median | 95th | \
         epochs until goodput stays ≥ 0.95: median | 95th | mean goodput / oracle | 5th percentile | not behind any \
         published rule | ahead of every one |\n|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for (contender, runs) in &played {
        // Paths on which no published rule moved more, and those on which each of them moved less.
        let against = |lead| ahead(&played, (contender, runs), &PUBLISHED, lead);
        writeln!(
            page,
            "| {} | {:.3} | {:.3} | {:.2} | {:.2} | {} | {} | {:.3} | {:.3} | {:.0} % | {:.0} % |",
            contender.name,
            quantile(runs, 0.5, |run| run.steady),
            quantile(runs, 0.05, |run| run.steady),
            quantile(runs, 0.5, |run| run.workers),
            quantile(runs, 0.95, |run| run.workers),
            quantile(runs, 0.5, |run| run.until),
            quantile(runs, 0.95, |run| run.until),
            mean(runs.iter().map(|run| run.mean)),
            quantile(runs, 0.05, |run| run.mean),
            against(-LEAD),
            against(LEAD),
        )?;
    }
    let mut with_slow = Vec::new();
    for (contender, runs) in played.iter().filter(|(contender, _)| OURS.contains(&contender.name.as_str())) {
        let share = ahead(&played, (contender, runs), &[&PUBLISHED[..], &[SLOW]].concat(), -LEAD);
        with_slow.push(format!("{} {share:.0} %", contender.name));
    }
    writeln!(page, "\nNot behind any of them nor {SLOW}: {}.", with_slow.join(", "))?;
    Ok(page)
}
