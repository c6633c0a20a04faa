//! One-probe gradient descent: the form FastBioDL, LDM-GD and Marlin share.
//!
//! The slope comes from the last two probes alone. It is taken relative to the earlier score, scaled
//! by n and limited to five workers. Published flaws, kept under the published name: a step is never
//! zero, so the rule circles its optimum for ever; the cache that limits every tenth step drops the
//! newest entry once full, is keyed by score, and so freezes on old news.

use std::time::Duration;

use crate::optimizer::{PUBLISHED_EPOCH, StageOptimizer, StageProposal, StageSample};
use crate::stage::Bounds;
use crate::units::ByteCount;
use crate::utility::Utility;

/// The rule's constants.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GradientConfig {
    /// K = 1.02 and B = 10 with loss charged on throughput (Falcon's successors); FastBioDL charges
    /// no loss, which is the same where no loss is seen.
    pub utility: Utility,
    /// Mend the cache and the zero step: the cache is keyed by n and drops its oldest entry, scores
    /// are not rounded, a slope of zero holds, and the slope is always taken between two different n
    /// (else a limit that repeats n would look like a slope of zero). Off: as published.
    pub repaired: bool,
    /// Charge a stage for filling its staging (Marlin's read stage). Off elsewhere.
    pub charge_staging: bool,
}

/// The most workers one step may add or remove (published).
const MAX_STEP: f64 = 5.0;
/// Scores remembered (published).
const CACHE: usize = 20;
/// Every so many probes n is limited to the best one remembered (published).
const LIMIT_EVERY: u64 = 10;
/// Marlin charges staging beyond 1 GB or half of what there is, whichever is less.
const STAGING_LIMIT: ByteCount = ByteCount(1_000_000_000);

/// The rule between two probes.
#[derive(Clone, Debug)]
pub struct Gradient {
    config: GradientConfig,
    previous: Option<(u16, f64)>,
    /// The newest probe at another n than the previous one's.
    other: Option<(u16, f64)>,
    probes: u64,
    /// (negated score, n), oldest first.
    cache: Vec<(f64, u16)>,
    staged: u64,
}

impl Gradient {
    /// A search that has seen nothing.
    pub const fn new(config: GradientConfig) -> Self {
        Self { config, previous: None, other: None, probes: 0, cache: Vec::new(), staged: 0 }
    }

    /// The score of an epoch, and the value of it that the rule steps by.
    fn score(&mut self, seen: &StageSample) -> (f64, f64) {
        let mbps = seen.throughput.as_mbps();
        let mut score = self.config.utility.score(mbps, seen.n, seen.loss);
        if let (true, Some(output)) = (self.config.charge_staging, seen.output) {
            let before = std::mem::replace(&mut self.staged, output.capacity.saturating_sub(output.free).0);
            let limit = STAGING_LIMIT.0.min(output.capacity.0 / 2);
            if self.staged > limit && self.staged > before {
                score -= mbps * (self.staged - before) as f64 / self.staged as f64;
            }
        }
        (score, if self.config.repaired { -score } else { (-score).round_ties_even() })
    }

    fn remember(&mut self, value: f64, n: u16) {
        let same = |entry: &&mut (f64, u16)| {
            if self.config.repaired { entry.1 == n } else { entry.0.abs() == value.abs() }
        };
        match self.cache.iter_mut().find(same) {
            Some(entry) => *entry = (value, n),
            None => self.cache.push((value, n)),
        }
        if self.cache.len() > CACHE {
            if self.config.repaired {
                self.cache.remove(0);
            } else {
                self.cache.pop();
            }
        }
    }

    /// The n of the best score remembered: the least value, or as published the largest in size.
    fn best(&self) -> Option<u16> {
        let rank = |value: f64| if self.config.repaired { -value } else { value.abs() };
        let mut best: Option<(f64, u16)> = None;
        for &(value, n) in &self.cache {
            if best.is_none_or(|(top, _)| rank(value) > top) {
                best = Some((rank(value), n));
            }
        }
        best.map(|(_, n)| n)
    }

    fn step(&self, (n0, v0): (u16, f64), (n1, v1): (u16, f64)) -> f64 {
        let difference = f64::from(n1) - f64::from(n0);
        let relative = if v0 == 0.0 {
            1.0
        } else if difference == 0.0 {
            (v1 - v0) / v0
        } else {
            (v1 - v0) / (difference * v0)
        };
        let raw = f64::from(n1) * relative;
        if raw > 0.0 {
            raw.round_ties_even().clamp(1.0, MAX_STEP)
        } else if raw == 0.0 && self.config.repaired {
            0.0
        } else {
            raw.round_ties_even().clamp(-MAX_STEP, -1.0)
        }
    }
}

impl StageOptimizer for Gradient {
    fn propose(&mut self, seen: &StageSample, bounds: Bounds) -> StageProposal {
        let (score, value) = self.score(seen);
        self.probes += 1;
        self.remember(value, seen.n);
        let limit = match self.best() {
            Some(best) if self.probes.is_multiple_of(LIMIT_EVERY) => best.min(bounds.max),
            _ => bounds.max,
        };
        let last = (seen.n, value);
        let reference = match self.previous {
            // The repaired rule needs two different n for a slope: look further back.
            Some((n, _)) if self.config.repaired && n == seen.n => self.other.or(self.previous),
            previous => previous,
        };
        let step = match reference {
            Some(before) => self.step(before, last),
            None => 1.0,
        };
        if self.previous.is_some_and(|(n, _)| n != seen.n) {
            self.other = self.previous;
        }
        self.previous = Some(last);
        StageProposal::new(bounds.clamp(bounds.clamp_f64(f64::from(seen.n) + step).min(limit)), score)
    }

    fn epoch_length(&self) -> Duration {
        PUBLISHED_EPOCH
    }
}
