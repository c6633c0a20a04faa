//! The fast recipe on the papers' six paths: time to their criterion, time to the end, and where the
//! policy comes to rest.

use std::fmt::Write as _;
use std::time::Instant;

use tidegate_control::policy::Recipe;
use tidegate_control::{Concurrency, Path, Stage};
use tidegate_train::ppo::PpoConfig;
use tidegate_train::practice::PathTask;
use tidegate_train::session::{Session, Stop, Trainer};

use crate::{Result, scenario};

const PATHS: [&str; 6] = ["automdt-read", "automdt-network", "automdt-write", "ldm-40g", "ldm-10g", "ldm-1g"];

/// One training.
struct Training {
    to_criterion_s: f64,
    to_end_s: f64,
    episodes: u64,
    score: f32,
    /// The most workers by which the greedy action misses the oracle in any stage.
    off: u16,
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn most(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(0.0, f64::max)
}

fn train(name: &str, seed: u64) -> Result<Training> {
    let scenario = scenario(name)?;
    let best = Path::at(&scenario, std::time::Duration::ZERO).oracle().setpoint;
    let task = PathTask::of(&scenario, Recipe::Fast, 1.02);
    let begin = Instant::now();
    let scales = (Recipe::Fast, task.scales);
    let mut session = Session::new(&task, scales, PpoConfig::default(), Stop::default(), seed);
    let mut converged = f64::INFINITY;
    let progress = loop {
        let progress = session.advance();
        if progress.converged_at.is_some() {
            converged = converged.min(begin.elapsed().as_secs_f64());
        }
        if progress.done {
            break progress;
        }
    };
    let rest = session.marks().map(|marks| marks.rest.clone()).unwrap_or_default();
    let off = |n: &Concurrency| {
        Stage::ALL.into_iter().map(|stage| n[stage].abs_diff(best[stage])).max().unwrap_or(0)
    };
    Ok(Training {
        to_criterion_s: converged,
        to_end_s: begin.elapsed().as_secs_f64(),
        episodes: progress.episodes,
        score: progress.best,
        off: rest.iter().map(off).max().unwrap_or(u16::MAX),
    })
}

/// Trains `seeds` times on each path and puts it in a table.
pub fn table(seeds: u64) -> Result<String> {
    let mut page = String::from(
        "| path | to 0.9 R_max, s: median (worst) | and 1,000 idle episodes, s | episodes/s | workers off the oracle, \
         at most | utility / R_max, at least |\n|---|---|---|---|---|---|\n",
    );
    let mut all = Vec::new();
    let row = |page: &mut String, name: &str, runs: &[Training]| {
        let criterion = || runs.iter().map(|run| run.to_criterion_s);
        let end = || runs.iter().map(|run| run.to_end_s);
        let rate = median(runs.iter().map(|run| run.episodes as f64 / run.to_end_s).collect());
        let off = runs.iter().map(|run| run.off).max().unwrap_or(0);
        let score = runs.iter().map(|run| run.score).fold(f32::INFINITY, f32::min);
        writeln!(
            page,
            "| {name} | {:.2} ({:.2}) | {:.2} ({:.2}) | {rate:.0} | {off} | {score:.3} |",
            median(criterion().collect()),
            most(criterion()),
            median(end().collect()),
            most(end()),
        )
    };
    for name in PATHS {
        let mut runs = Vec::new();
        for seed in 1..=seeds {
            runs.push(train(name, seed)?);
            eprint!("\rtraining {name}, seed {seed}        ");
        }
        row(&mut page, name, &runs)?;
        all.extend(runs);
    }
    row(&mut page, "**all**", &all)?;
    eprintln!();
    Ok(page)
}
