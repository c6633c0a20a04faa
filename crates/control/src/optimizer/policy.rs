//! A learned policy in charge of a transfer.
//!
//! The network's answer is data from a file, so nothing is taken for granted: an answer that is no
//! number, or far from any, hands the transfer to [`ModelBased`] for good and says so. Everything else is
//! rounded and clamped to the bounds.

use crate::observation::Observation;
use crate::optimizer::Optimizer;
use crate::optimizer::model_based::{self, ModelBased};
use crate::policy::{Actions, Features, Policy};
use crate::rng::Rng;
use crate::stage::{Bounds, Concurrency, PerStage};

/// How an action is taken from the policy's distribution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// Its mean: steady, and the same every time.
    #[default]
    Mean,
    /// A draw, with the recipe's spread, as the papers do in production.
    Sampled,
}

/// Beyond this an action is nonsense: no recipe's actions are larger than a number of workers.
const SENSIBLE: f32 = 1e6;

/// Drives a path with a loaded policy.
pub struct Learned {
    policy: Policy,
    features: Box<dyn Features>,
    choice: Choice,
    rng: Rng,
    /// Goodput in bit/s, for reports.
    goodput: Option<f64>,
    fallback: Option<ModelBased>,
    notice: Option<String>,
}

impl Learned {
    /// Drives with `policy`; `seed` is that of the draws.
    pub fn new(policy: Policy, choice: Choice, seed: u64) -> Self {
        Self {
            features: policy.features(),
            policy,
            choice,
            rng: Rng::new(seed),
            goodput: None,
            fallback: None,
            notice: None,
        }
    }

    /// Whether the policy was given up.
    pub const fn has_fallen_back(&self) -> bool {
        self.fallback.is_some()
    }

    fn act(&mut self, seen: &Observation, bounds: PerStage<Bounds>) -> Option<Concurrency> {
        let mut state = vec![0.0; self.features.inputs()];
        self.features.encode(seen, bounds, &mut state);
        let mut action = self.policy.actor.forward(&state);
        if self.choice == Choice::Sampled && self.features.actions() == Actions::Choice {
            // The greatest after adding Gumbel noise is a draw from the choices.
            for value in &mut action {
                *value -= (-(1.0 - self.rng.unit()).ln()).ln() as f32;
            }
        } else if self.choice == Choice::Sampled {
            let spread = self.features.spread();
            for (value, log_sigma) in action.iter_mut().zip(&self.policy.log_sigma) {
                *value += log_sigma.exp() * spread * self.rng.normal(0.0, 1.0) as f32;
            }
        }
        let sensible = action.iter().all(|value| value.is_finite() && value.abs() < SENSIBLE);
        sensible.then(|| self.features.decode(&action, bounds))
    }
}

impl Optimizer for Learned {
    fn start(&mut self, bounds: PerStage<Bounds>) -> Concurrency {
        self.features.reset();
        bounds.clamp(self.features.start(bounds))
    }

    fn propose(&mut self, seen: &Observation, bounds: PerStage<Bounds>) -> Concurrency {
        if let Some(fallback) = &mut self.fallback {
            return fallback.propose(seen, bounds);
        }
        self.goodput = Some(seen.goodput().0 as f64);
        if let Some(setpoint) = self.act(seen, bounds) {
            return bounds.clamp(setpoint);
        }
        self.notice =
            Some("the policy's answer makes no sense; `model_based` decides from here on".to_owned());
        let mut fallback = ModelBased::new(model_based::Config::default());
        let setpoint = fallback.propose(seen, bounds);
        self.fallback = Some(fallback);
        setpoint
    }

    fn utility(&self) -> Option<f64> {
        self.fallback.as_ref().map_or(self.goodput, Optimizer::utility)
    }

    fn notice(&mut self) -> Option<String> {
        self.notice.take()
    }
}
