//! A rule of one's own, on the simulator, beside the default one.
//!
//! ```text
//! cargo run --release -p tidegate-control --example own_rule [SCENARIO.toml]
//! ```
//!
//! A rule sees one observation an epoch and answers with three numbers of workers. It needs no socket
//! and no clock, so this file is all there is to it. To offer it as `--optimizer patient`, move it to
//! `src/optimizer/patient.rs` and name it in `registry.rs`.

use std::time::Duration;

use tidegate_control::optimizer::{OptimizerOptions, build};
use tidegate_control::{
    BitRate, Bounds, Observation, Optimizer, PerStage, Proposal, Scenario, SimulatorOptions, Stage, simulate,
};

/// Adds a worker to the slowest stage as long as that brings at least 1 %, then stays.
struct Patient {
    /// The goodput of the last epoch.
    before: BitRate,
    /// Epochs in a row that brought nothing.
    in_vain: u32,
}

impl Optimizer for Patient {
    fn propose(&mut self, seen: &Observation, bounds: PerStage<Bounds>) -> Proposal {
        let goodput = seen.goodput();
        let gained = goodput.0 as f64 >= 1.01 * self.before.0 as f64;
        self.in_vain = if gained { 0 } else { self.in_vain + 1 };
        self.before = self.before.max(goodput);
        let mut next = seen.concurrency;
        if self.in_vain < 5 {
            // The slowest stage holds up the others; where all are equal, the first.
            let rate = |stage: Stage| seen.throughput[stage];
            let stages = [Stage::Read, Stage::Network, Stage::Write];
            if let Some(slowest) = stages.into_iter().min_by_key(|&stage| rate(stage)) {
                next[slowest] += 1;
            }
        }
        Proposal { utility: Some(goodput.as_mbps()), ..bounds.clamp(next).into() }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let default = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/demo.toml");
    let file = std::env::args().nth(1).unwrap_or_else(|| default.to_owned());
    let scenario = Scenario::from_toml(&std::fs::read_to_string(file)?)?;
    let options = SimulatorOptions::new(1, Duration::from_secs(1), 60);
    let mut rules: Vec<(&str, Box<dyn Optimizer>)> = vec![
        ("patient", Box::new(Patient { before: BitRate::ZERO, in_vain: 0 })),
        ("auto", build("auto", &OptimizerOptions::default())?),
    ];
    println!("{}: {}", scenario.name, scenario.description);
    for (name, rule) in &mut rules {
        let simulation = simulate(&scenario, rule.as_mut(), None, options);
        let summary = &simulation.summary;
        let last = simulation.epochs.last().map(|epoch| epoch.concurrency).unwrap_or(PerStage::all(0));
        println!(
            "{name:<8} {:>11}, {:>3.0} % of the best, at last {} readers, {} streams, {} writers",
            summary.throughput_bps.to_string(),
            summary.throughput_share * 100.0,
            last.read,
            last.network,
            last.write
        );
    }
    Ok(())
}
