//! A learned policy as data: its networks, what it is shown, and what it was trained on.
//!
//! Training (crate `train`) writes one, `--optimizer policy` drives a transfer with one. The forward
//! pass is here and needs no framework; [`mod@file`] is its form on disk, bytes in and bytes out.

use std::collections::BTreeMap;

pub mod features;
pub mod file;
pub mod network;

pub use features::{Actions, Features, Recipe, Scales};
pub use file::PolicyError;
pub use network::{Block, Network, Shape};

/// The fact of a policy that says what its deviations are multiplied by when a transfer draws, where that is not its
/// recipe's.
pub const SIGMA_FACTOR: &str = "driving.sigma";

/// The fact of a policy that says how often it has learned while it drove.
pub const UPDATES: &str = "online.updates";

/// A trained policy: a Gaussian over actions whose mean a network gives.
///
/// ```
/// use tidegate_control::optimizer::{OptimizerOptions, build};
/// use tidegate_control::policy::{Policy, Recipe};
///
/// let file = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/policies/universal.safetensors"));
/// let policy = Policy::from_bytes(file)?;
/// assert_eq!(policy.recipe, Recipe::Universal);
/// assert_eq!(policy.to_bytes(), file);
/// let options = OptimizerOptions { policy: Some(policy), ..OptimizerOptions::default() };
/// assert!(build("policy", &options).is_ok());
/// # Ok::<(), tidegate_control::policy::PolicyError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// How it sees and acts.
    pub recipe: Recipe,
    /// What it knows of its path.
    pub scales: Scales,
    /// The mean of each action.
    pub actor: Network,
    /// The logarithm of each action's standard deviation, whatever the state; empty for choices.
    pub log_sigma: Vec<f32>,
    /// What a state is worth: needed to train on, not to drive.
    pub critic: Option<Network>,
    /// Seed, scenario, episodes: where it came from, for whoever reads the file.
    pub facts: BTreeMap<String, String>,
}

impl Policy {
    /// Its encoder and decoder.
    pub fn features(&self) -> Box<dyn Features> {
        self.recipe.features(&self.scales)
    }

    /// What the deviations of its actions are multiplied by when a transfer draws them.
    pub fn spread(&self) -> f32 {
        let own = self.facts.get(SIGMA_FACTOR).and_then(|text| text.parse().ok());
        own.unwrap_or_else(|| self.features().spread())
    }
}
