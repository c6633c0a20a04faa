//! ±1 on the relative change of throughput (Balaprakash et al., equations 2 to 4).
//!
//! With f the throughput and n the streams of the last two epochs,
//! Δ = (f₋₁ − f₋₂) / f₋₂ and δ = Δ / (n₋₁ − n₋₂):
//! the same n twice and |Δ| > ε adds one; different n and δ > ε adds one, δ < −ε takes one away;
//! everything else holds. Additive only, so a path that needs K streams is learned in K epochs.

use crate::optimizer::{StageOptimizer, StageProposal, StageSample};
use crate::stage::Bounds;

/// What to do in the second epoch, which the equations leave undefined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// Add one, so that δ exists from the third epoch on.
    #[default]
    Step,
    /// Hold, and let |Δ| > ε begin. On a perfectly steady path that never happens.
    Hold,
}

/// The rule's constants.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AimdConfig {
    /// ε, the relative change taken for real. The paper gives none; 0.02, because below saturation
    /// δ is 1/n: the rule then climbs to 50 streams if it must, and ignores what is below 2 %.
    pub epsilon: f64,
    /// The second epoch.
    pub start: Start,
}

impl Default for AimdConfig {
    fn default() -> Self {
        Self { epsilon: 0.02, start: Start::Step }
    }
}

/// The controller and the epoch before the last.
#[derive(Clone, Debug)]
pub struct Aimd {
    config: AimdConfig,
    previous: Option<(u16, f64)>,
}

impl Aimd {
    /// A controller that has seen nothing.
    pub const fn new(config: AimdConfig) -> Self {
        Self { config, previous: None }
    }

    /// +1, 0 or −1 after `(n, throughput)` of the epoch before the last and of the last.
    fn step(&self, (n2, f2): (u16, f64), (n1, f1): (u16, f64)) -> i32 {
        let epsilon = self.config.epsilon;
        if f2 <= 0.0 {
            // Δ would be infinite: any throughput after none is a reason to go on.
            return i32::from(f1 > 0.0);
        }
        let change = (f1 - f2) / f2;
        let difference = f64::from(n1) - f64::from(n2);
        if difference == 0.0 {
            return i32::from(change.abs() > epsilon);
        }
        let slope = change / difference;
        i32::from(slope > epsilon) - i32::from(slope < -epsilon)
    }
}

impl StageOptimizer for Aimd {
    fn propose(&mut self, seen: &StageSample, bounds: Bounds) -> StageProposal {
        let last = (seen.n, seen.throughput.as_mbps());
        let step = match self.previous.replace(last) {
            Some(before) => self.step(before, last),
            None => i32::from(self.config.start == Start::Step),
        };
        StageProposal::new(bounds.clamp_f64(f64::from(seen.n) + f64::from(step)), last.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::BitRate;

    fn sample(n: u16, mbps: u64) -> StageSample {
        StageSample::of_a_second(n, BitRate::mbps(mbps))
    }

    /// What the rule asks for after two epochs, given as (n, Mbit/s).
    fn after(before: (u16, u64), last: (u16, u64)) -> u16 {
        let mut rule = Aimd::new(AimdConfig { epsilon: 0.05, start: Start::Step });
        let bounds = Bounds::new(1, 10);
        rule.propose(&sample(before.0, before.1), bounds);
        rule.propose(&sample(last.0, last.1), bounds).n
    }

    #[test]
    fn it_steps_by_the_sign_of_the_slope() {
        for (before, last, next, why) in [
            ((4, 100), (4, 110), 5, "the same n probes upward on a real gain"),
            ((4, 100), (4, 90), 5, "and on a real loss"),
            ((4, 100), (4, 104), 4, "but not on less than 5 %"),
            ((4, 100), (5, 120), 6, "one more brought more"),
            ((4, 100), (5, 80), 4, "one more brought less"),
            ((4, 100), (5, 104), 5, "one more brought nothing"),
            ((5, 100), (4, 110), 3, "one less brought more: the slope is negative"),
            ((5, 100), (4, 80), 5, "one less brought less"),
            ((2, 100), (5, 112), 5, "the slope is per worker: 12 % over 3 workers is below 5 %"),
            ((4, 0), (4, 10), 5, "nothing moved before: no division by zero"),
            ((5, 0), (4, 10), 5, "with another n neither"),
            ((4, 0), (4, 0), 4, "and nothing still moves"),
            ((9, 100), (10, 200), 10, "the upper bound holds"),
            ((2, 200), (1, 220), 1, "and the lower"),
        ] {
            assert_eq!(after(before, last), next, "{why}");
        }
    }

    #[test]
    fn both_starts_do_what_they_say() {
        let bounds = Bounds::new(1, 10);
        let mut step = Aimd::new(AimdConfig::default());
        assert_eq!(step.propose(&sample(1, 100), bounds).n, 2);
        let mut hold = Aimd::new(AimdConfig { start: Start::Hold, ..AimdConfig::default() });
        assert_eq!(hold.propose(&sample(1, 100), bounds).n, 1);
        assert_eq!(hold.propose(&sample(1, 100), bounds).n, 1);
        assert_eq!(hold.propose(&sample(1, 110), bounds).n, 2);
    }

    #[test]
    fn it_climbs_one_by_one_to_the_knee() {
        let mut rule = Aimd::new(AimdConfig::default());
        let mut n = 1;
        let mut trace = Vec::new();
        for _ in 0..14 {
            trace.push(n);
            n = rule.propose(&sample(n, (u64::from(n) * 100).min(1000)), Bounds::new(1, 64)).n;
        }
        assert_eq!(trace, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 11, 11, 11]);
    }
}
