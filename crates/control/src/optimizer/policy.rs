//! A learned policy in charge of a transfer.
//!
//! The network's answer is data from a file, so nothing is taken for granted: an answer that is no
//! number, or far from any, hands the transfer to the [`Fallback`] for good and says so. Everything else is
//! rounded and clamped to the bounds.

use crate::host::Host;
use crate::observation::Observation;
use crate::optimizer::fallback::{Fallback, is_sensible};
use crate::optimizer::{Optimizer, Proposal};
use crate::policy::{Actions, Features, Policy};
use crate::rng::Rng;
use crate::stage::{Bounds, Concurrency, PerStage};

/// How an action is taken from the policy's distribution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ActionChoice {
    /// Its mean: steady, and the same every time.
    #[default]
    Mean,
    /// A draw, with the recipe's spread, as the papers do in production.
    Sampled,
}

/// Drives a path with a loaded policy.
pub struct Learned {
    policy: Policy,
    features: Box<dyn Features>,
    choice: ActionChoice,
    rng: Rng,
    fallback: Fallback,
}

impl Learned {
    /// Drives with `policy`; `seed` is that of the draws.
    pub fn new(policy: Policy, choice: ActionChoice, seed: u64) -> Self {
        Self {
            features: policy.features(),
            policy,
            choice,
            rng: Rng::new(seed),
            fallback: Fallback::default(),
        }
    }

    /// Whether the policy was given up.
    pub const fn has_fallen_back(&self) -> bool {
        self.fallback.is_in_charge()
    }

    fn act(&mut self, seen: &Observation, bounds: PerStage<Bounds>) -> Option<Concurrency> {
        let mut state = vec![0.0; self.features.inputs()];
        self.features.encode(seen, bounds, &mut state);
        let mut action = self.policy.actor.forward(&state);
        if self.choice == ActionChoice::Sampled && self.features.actions() == Actions::Choice {
            // The greatest after adding Gumbel noise is a draw from the choices.
            for value in &mut action {
                *value -= (-(1.0 - self.rng.unit()).ln()).ln() as f32;
            }
        } else if self.choice == ActionChoice::Sampled {
            let spread = self.policy.spread();
            for (value, log_sigma) in action.iter_mut().zip(&self.policy.log_sigma) {
                *value += log_sigma.exp() * spread * self.rng.normal(0.0, 1.0) as f32;
            }
        }
        is_sensible(&action).then(|| self.features.decode(&action, bounds))
    }
}

impl Optimizer for Learned {
    fn start(&mut self, bounds: PerStage<Bounds>, _host: &Host) -> Proposal {
        self.features.reset();
        let setpoint = bounds.clamp(self.features.start(bounds));
        Proposal { short_epochs: self.features.short_epochs(setpoint), ..setpoint.into() }
    }

    fn propose(&mut self, seen: &Observation, bounds: PerStage<Bounds>) -> Proposal {
        if let Some(next) = self.fallback.propose(seen, bounds) {
            return next;
        }
        match self.act(seen, bounds) {
            // Goodput in bit/s is all the score there is.
            Some(setpoint) => Proposal {
                utility: Some(seen.goodput().0 as f64),
                short_epochs: self.features.short_epochs(setpoint),
                ..bounds.clamp(setpoint).into()
            },
            None => self.fallback.take_over(seen, bounds),
        }
    }
}
