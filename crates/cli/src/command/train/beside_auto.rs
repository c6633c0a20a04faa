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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_below_auto_is_said_to_be() {
        let of = |mbps| {
            let auto = BitRate::mbps(998);
            let below_auto = mbps < 978;
            BesideAuto { throughput_bps: BitRate::mbps(mbps), auto_throughput_bps: auto, below_auto }
                .in_words()
        };
        assert_eq!(
            of(529),
            "on this path it moves 529 Mbit/s, and auto 998 Mbit/s (simulated): use auto there"
        );
        assert_eq!(of(987), "on this path it moves 987 Mbit/s, and auto 998 Mbit/s (simulated)");
    }

    #[test]
    fn both_are_run_on_the_path() {
        let policy = Policy::from_bytes(include_bytes!("../../../../control/policies/universal.safetensors"));
        let text = include_str!("../../../../../scenarios/ldm-1g.toml");
        let scenario = Scenario::from_toml(text).expect("a path");
        let both = BesideAuto::of(&policy.expect("a policy"), &scenario, 1).expect("rules");
        assert!(
            both.auto_throughput_bps > BitRate::mbps(900) && both.throughput_bps > BitRate::mbps(500),
            "{both:?}"
        );
    }
}
