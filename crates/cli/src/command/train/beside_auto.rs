//! A policy on the path that it was trained for, beside what `auto` does there.

use serde::Serialize;
use tidegate_control::optimizer::policy::{ActionChoice, Learned};
use tidegate_control::optimizer::{OptimizerError, OptimizerOptions, build};
use tidegate_control::{BitRate, Policy, Scenario, judge};

/// Epochs of each, as many as `tidegate simulate` runs.
const EPOCHS: u32 = 60;
/// The share of what `auto` moves from which on a policy counts as not below it: what noise of 2 % hides.
const ENOUGH: f64 = 0.98;

/// What both move in simulation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct BesideAuto {
    /// The policy's most likely actions.
    pub throughput_bps: BitRate,
    /// The rule `auto`.
    pub auto_throughput_bps: BitRate,
    /// Whether the policy moves less.
    pub below_auto: bool,
}

impl BesideAuto {
    /// Of `policy` on `scenario`, whose noise comes from `seed`.
    pub fn of(policy: &Policy, scenario: &Scenario, seed: u64) -> Result<Self, OptimizerError> {
        let mut auto = build("auto", &OptimizerOptions { seed, ..OptimizerOptions::default() })?;
        let mut learned = Learned::new(policy.clone(), ActionChoice::Mean, seed);
        let throughput_bps = judge(scenario, &mut learned, seed, EPOCHS, None).throughput_bps;
        let auto_throughput_bps = judge(scenario, auto.as_mut(), seed, EPOCHS, None).throughput_bps;
        let below_auto = (throughput_bps.0 as f64) < ENOUGH * auto_throughput_bps.0 as f64;
        Ok(Self { throughput_bps, auto_throughput_bps, below_auto })
    }

    /// In a line.
    pub fn in_words(&self) -> String {
        let Self { throughput_bps, auto_throughput_bps, below_auto } = self;
        let advice = if *below_auto { ": use auto there" } else { "" };
        format!("on this path it moves {throughput_bps}, and auto {auto_throughput_bps} (simulated){advice}")
    }
}
