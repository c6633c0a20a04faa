//! What a throughput is worth: the papers' utilities.
//!
//! Throughput enters in Mbit/s, because the published constants and the integer rounding were made
//! for that scale, and scores leave in it. T is the aggregate throughput of a stage, n its workers,
//! L the share of segments sent again.
//!
//! With T = αn on an unlimited link each form peaks at n = 1/ln K (50.5 for K = 1.02), whatever the
//! link: K is also a hidden ceiling on n.

use serde::{Deserialize, Serialize};

use crate::stage::{Concurrency, PerStage, Stage};
use crate::units::BitRate;

/// How loss is charged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LossTerm {
    /// Not at all: T/Kⁿ (FastBioDL; each stage of AutoMDT).
    None,
    /// T/Kⁿ − B·L (as printed in the LDM paper; loss counts the same at any rate).
    Ldm,
    /// T/Kⁿ − T·B·L (Falcon, and what the code of its successors computes).
    #[default]
    Falcon,
}

/// T/Kⁿ less what loss costs.
///
/// ```
/// use tidegate_control::Utility;
///
/// let utility = Utility::default();
/// assert!((utility.ceiling() - 50.5).abs() < 0.1, "n workers, beyond which even a perfect gain is worth less");
/// assert!(utility.score(1000.0, 10, 0.0) > utility.score(1000.0, 20, 0.0), "fewer for the same are better");
/// assert!(utility.score(1000.0, 10, 0.0) > utility.score(1000.0, 10, 0.01), "loss costs");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Utility {
    /// K, the price of one more worker; more than 1.
    /// 1.02 scored best of 1.01, 1.02 and 1.05 (FastBioDL, table 1) and is AutoMDT's k.
    pub k: f64,
    /// B, the weight of loss. 10 in Falcon's code and its successors'; LDM prints no value.
    pub b: f64,
    /// How loss is charged.
    pub loss_term: LossTerm,
}

impl Default for Utility {
    fn default() -> Self {
        Self { k: 1.02, b: 10.0, loss_term: LossTerm::Falcon }
    }
}

impl Utility {
    /// What an epoch is worth to a policy that goes on learning, unless told otherwise: loss counts for nothing.
    pub const WITHOUT_LOSS: Self = Self { k: 1.02, b: 10.0, loss_term: LossTerm::None };

    /// The score, in Mbit/s, of `n` workers that together moved `mbps` at a loss of `loss` (0 to 1).
    pub fn score(&self, mbps: f64, n: u16, loss: f64) -> f64 {
        let worth = mbps / self.k.powi(i32::from(n));
        match self.loss_term {
            LossTerm::None => worth,
            LossTerm::Ldm => worth - self.b * loss,
            LossTerm::Falcon => worth - mbps * self.b * loss,
        }
    }

    /// The score of a whole path, in Mbit/s: the sum over the three stages (AutoMDT), where only the
    /// network can lose segments.
    pub fn total(&self, throughput: PerStage<BitRate>, n: Concurrency, loss: f64) -> f64 {
        Stage::ALL
            .into_iter()
            .map(|stage| {
                let loss = if stage == Stage::Network { loss } else { 0.0 };
                self.score(throughput[stage].as_mbps(), n[stage], loss)
            })
            .sum()
    }

    /// The n at which the score of T = αn peaks: 1/ln K.
    pub fn ceiling(&self) -> f64 {
        1.0 / self.k.ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_forms_differ_only_in_loss() {
        let with = |loss_term| Utility { loss_term, ..Utility::default() }.score(1000.0, 2, 0.01);
        let worth = 1000.0 / (1.02 * 1.02);
        assert!((with(LossTerm::None) - worth).abs() < 1e-9);
        assert!((with(LossTerm::Ldm) - (worth - 0.1)).abs() < 1e-9);
        assert!((with(LossTerm::Falcon) - (worth - 100.0)).abs() < 1e-9);
    }

    #[test]
    fn k_is_a_ceiling() {
        let utility = Utility::default();
        let best = (1..200u16).max_by(|&a, &b| {
            let score = |n| utility.score(f64::from(n) * 100.0, n, 0.0);
            score(a).total_cmp(&score(b))
        });
        assert!((utility.ceiling() - 50.5).abs() < 0.01);
        assert!(matches!(best, Some(50 | 51)));
    }

    #[test]
    fn the_path_scores_the_sum_of_its_stages() {
        let utility = Utility { loss_term: LossTerm::None, ..Utility::default() };
        let total = utility.total(PerStage::all(BitRate::mbps(1000)), PerStage::new(13, 7, 5), 0.5);
        let expected: f64 = [13, 7, 5].iter().map(|&n| 1000.0 / 1.02f64.powi(n)).sum();
        assert!((total - expected).abs() < 1e-9);
    }
}
