//! What a step is worth, and the most it can be.
//!
//! The papers compare an episode's sum with the best of one step, and their utility pays for reading
//! into staging what nothing takes out. Here everything is a mean per step, and what counts is what
//! arrives: the least throughput of the stages, times the papers' price of workers.

use std::time::Duration;

use tidegate_control::{Concurrency, Path, PerStage, Scenario, Stage};

/// The papers' R_max and the utility it is the most of, for one path.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MaxReward {
    /// K, the price of one more worker.
    pub k: f64,
    /// The stages that are paid for.
    pub stages: Vec<Stage>,
    /// The best goodput in Mbit/s.
    pub(crate) best_mbps: f64,
    /// b·Σ k^(−b/TPT), in Mbit/s; with one stage LDM's BW·K^(−BW/TPT).
    pub r_max: f64,
}

impl MaxReward {
    /// Of a scenario at its start, with `k` as the price.
    pub fn new(scenario: &Scenario, k: f64) -> Self {
        let path = Path::at(scenario, Duration::ZERO);
        let bounds = path.bounds();
        let open = Stage::ALL.into_iter().filter(|&stage| !bounds[stage].is_fixed());
        let stages: Vec<Stage> = open.collect();
        let best_mbps = path.oracle().goodput.as_mbps();
        let limits = path.limits();
        let workers = |stage: &Stage| best_mbps / (limits.offered(*stage, 1.0) / 1e6);
        let r_max = best_mbps * stages.iter().map(|stage| k.powf(-workers(stage).max(1.0))).sum::<f64>();
        Self { k, stages, best_mbps, r_max }
    }

    fn price(&self, n: Concurrency) -> f64 {
        self.stages.iter().map(|&stage| self.k.powi(-i32::from(n[stage]))).sum()
    }

    /// End-to-end utility as a share of R_max: what the slowest stage moved, priced.
    pub fn share(&self, throughput_mbps: PerStage<f64>, n: Concurrency) -> f64 {
        let PerStage { read, network, write } = throughput_mbps;
        // Staging filled earlier lets a later stage move more for a while: nothing arrives sooner.
        let goodput = read.min(network).min(write).min(self.best_mbps);
        goodput * self.price(n) / self.r_max
    }

    /// The papers' utility as a share of R_max: each stage paid for what it moved, arrived or not.
    pub(crate) fn published_share(&self, throughput_mbps: PerStage<f64>, n: Concurrency) -> f64 {
        let worth = |stage: &Stage| throughput_mbps[*stage] * self.k.powi(-i32::from(n[*stage]));
        self.stages.iter().map(worth).sum::<f64>() / self.r_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario(text: &str) -> Scenario {
        let head = "name = \"x\"\ndescription = \"x\"\n[link]\nrate = \"1Gbit/s\"\n";
        Scenario::from_toml(&format!("{head}{text}")).expect("a scenario")
    }

    #[test]
    fn r_max_is_that_of_the_papers() {
        let one = MaxReward::new(&scenario("[network]\nworker_rate = \"100Mbit/s\"\n"), 1.02);
        assert!((one.r_max - 1000.0 * 1.02f64.powi(-10)).abs() < 1e-6);
        let three = "[read]\nworker_rate = \"80Mbit/s\"\n[network]\nworker_rate = \"160Mbit/s\"\n\
                     [write]\nworker_rate = \"200Mbit/s\"\n";
        let three = MaxReward::new(&scenario(three), 1.02);
        let wanted: f64 = [12.5, 6.25, 5.0].iter().map(|n| 1000.0 * 1.02f64.powf(-n)).sum();
        assert!((three.r_max - wanted).abs() < 1e-6);
        let best = three.share(PerStage::all(1000.0), PerStage::new(13, 7, 5));
        assert!((0.98..1.0).contains(&best), "{best}");
    }

    #[test]
    fn reading_into_staging_pays_only_in_the_papers() {
        let three = "[read]\nworker_rate = \"400Mbit/s\"\n[network]\nworker_rate = \"100Mbit/s\"\n\
                     [write]\nworker_rate = \"400Mbit/s\"\n";
        let worth = MaxReward::new(&scenario(three), 1.02);
        let (over, n) = (PerStage::new(4000.0, 1000.0, 1000.0), PerStage::new(10, 10, 3));
        assert!(worth.published_share(over, n) > 1.5);
        assert!(worth.share(over, n) < 1.0);
    }
}
