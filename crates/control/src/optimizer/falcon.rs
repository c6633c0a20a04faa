//! Falcon's two-probe gradient descent (Arifuzzaman and Arslan, SC '21).
//!
//! Around a centre c it measures c − 1 and c + 1, takes the slope between them relative to the first
//! and moves c by θ·⌈c·slope⌉, where θ counts how many decisions in a row went the same way.

use std::time::Duration;

use crate::optimizer::{PUBLISHED_EPOCH, StageOptimizer, StageProposal, StageSample};
use crate::stage::Bounds;
use crate::utility::Utility;

/// The rule's constants.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FalconConfig {
    /// K = 1.02 and B = 10 with loss charged on throughput, as published.
    pub utility: Utility,
}

/// How far above the centre of the best score the search may go (published).
const REACH: i64 = 10;

/// The rule between two probes.
#[derive(Clone, Debug)]
pub struct Falcon {
    config: FalconConfig,
    centre: i64,
    /// Consecutive decisions in one direction, signed.
    momentum: i64,
    /// The best score so far; scores are negated as published, so the least is the best.
    least: f64,
    soft_limit: Option<i64>,
    /// The score at c − 1 once it is known.
    below: Option<f64>,
}

impl Falcon {
    /// A search around 2.
    pub const fn new(config: FalconConfig) -> Self {
        Self { config, centre: 2, momentum: 0, least: 0.0, soft_limit: None, below: None }
    }

    fn limit(&self, bounds: Bounds) -> i64 {
        self.soft_limit.unwrap_or(i64::MAX).min(i64::from(bounds.max))
    }

    fn moved(&mut self, below: f64, above: f64, bounds: Bounds) {
        let slope = (above - below) / 2.0;
        // Nothing moved at c − 1: a full relative slope, as the later form of the rule has it.
        let relative = if below == 0.0 { 1.0 } else { (slope / below).abs() };
        self.momentum = match (slope > 0.0, self.momentum) {
            (true, momentum) if momentum <= 0 => momentum - 1,
            (true, _) => -1,
            (false, momentum) if momentum >= 0 => momentum + 1,
            (false, _) => 1,
        };
        let step = (self.momentum as f64 * (self.centre as f64 * relative).ceil()) as i64;
        let highest = (self.limit(bounds) - 1).max(2);
        self.centre = self.centre.saturating_add(step).clamp(2, highest);
    }
}

impl StageOptimizer for Falcon {
    fn propose(&mut self, seen: &StageSample, bounds: Bounds) -> StageProposal {
        let utility = self.config.utility.score(seen.throughput.as_mbps(), seen.n, seen.loss);
        let score = (-utility).round_ties_even();
        if score < self.least {
            self.least = score;
            self.soft_limit = Some(self.centre + REACH);
        }
        let next = match self.below.take() {
            None => {
                self.below = Some(score);
                self.centre + 1
            }
            Some(below) => {
                self.moved(below, score, bounds);
                self.centre - 1
            }
        };
        StageProposal::new(bounds.clamp(u16::try_from(next).unwrap_or(u16::MAX)), utility)
    }

    fn epoch_length(&self) -> Duration {
        PUBLISHED_EPOCH
    }
}
