//! Whether learning goes on to pay while a transfer runs: agents on the path they know and on others.

use std::fmt::Write as _;

use tidegate_control::optimizer::EPOCH;
use tidegate_control::optimizer::policy::{ActionChoice, Learned};
use tidegate_control::policy::{Policy, Recipe};
use tidegate_control::simulation::{simulate, summarize};
use tidegate_control::simulator::{Delivered, SimulatorOptions};
use tidegate_control::utility::Utility;
use tidegate_control::{Optimizer, Stage};
use tidegate_train::online::Online;

use crate::contenders::trained;
use crate::{Result, scenario};

/// An hour of transfer.
const EPOCHS: u32 = 3_600;
/// What is looked at, at the beginning and at the end.
const LOOK: usize = 300;

/// The path an agent has learned, and one it meets.
const PAIRS: [(&str, &str); 6] = [
    ("automdt-read", "automdt-read"),
    ("automdt-read", "automdt-network"),
    ("automdt-read", "automdt-write"),
    ("automdt-write", "automdt-read"),
    ("ldm-10g", "ldm-10g"),
    ("ldm-10g", "per-stream-cap"),
];

/// How an agent is let decide.
const WAYS: [&str; 3] = ["most likely action", "drawn", "drawn and learned from"];

fn rule(way: usize, policy: &Policy, seed: u64) -> Box<dyn Optimizer> {
    match way {
        0 => Box::new(Learned::new(policy.clone(), ActionChoice::Mean, seed)),
        1 => Box::new(Learned::new(policy.clone(), ActionChoice::Sampled, seed)),
        _ => Box::new(Online::new(policy.clone(), seed, Utility::WITHOUT_LOSS)),
    }
}

/// Mean of a stage's price k^-n, the part of the utility that workers cost.
fn worth(of: &[Delivered]) -> f64 {
    let k = Utility::default().k;
    let price = |epoch: &Delivered| {
        Stage::ALL.into_iter().map(|stage| k.powi(-i32::from(epoch.concurrency[stage]))).sum::<f64>() / 3.0
    };
    let share = |epoch: &Delivered| epoch.goodput.0 as f64 / epoch.best.0 as f64;
    of.iter().map(|epoch| share(epoch) * price(epoch)).sum::<f64>() / of.len() as f64
}

/// Each agent on each path for an hour, `seeds` times.
pub fn table(seeds: u64) -> Result<String> {
    let mut page = String::from(
        "| learned on | drives | its answer | goodput / oracle, first 300 epochs | last 300 | utility / oracle's \
         goodput, first 300 | last 300 |\n|---|---|---|---|---|---|---|\n",
    );
    for (home, path) in PAIRS {
        let policy = trained(Recipe::Fast, home)?;
        let scenario = scenario(path)?;
        for (way, answer) in WAYS.iter().enumerate() {
            let mut sums = [0.0; 4];
            for seed in 1..=seeds {
                let options = SimulatorOptions::new(seed, EPOCH, EPOCHS);
                let run = simulate(&scenario, rule(way, &policy, seed).as_mut(), None, options).delivered;
                let (first, last) = (&run[..LOOK.min(run.len())], &run[run.len().saturating_sub(LOOK)..]);
                let share = |of: &[Delivered]| summarize(&scenario, of, options.epoch).throughput_share;
                for (sum, value) in
                    sums.iter_mut().zip([share(first), share(last), worth(first), worth(last)])
                {
                    *sum += value / seeds as f64;
                }
            }
            let [first, last, worth_first, worth_last] = sums;
            writeln!(
                page,
                "| {home} | {path} | {answer} | {first:.3} | {last:.3} | {worth_first:.3} | {worth_last:.3} |"
            )?;
            eprint!("\r{home} on {path}        ");
        }
    }
    eprintln!();
    Ok(page)
}
