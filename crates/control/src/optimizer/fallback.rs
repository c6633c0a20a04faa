//! The last resort of rules that were learned: a network's answer is data from a file, so nothing is taken for granted.

use crate::observation::Observation;
use crate::optimizer::optimistic::Optimistic;
use crate::optimizer::{Optimizer, Proposal};
use crate::share::Share;
use crate::stage::{Bounds, PerStage};

/// Beyond this an action is nonsense: no recipe's actions are larger than a number of workers.
const MAX_ACTION: f32 = 1e6;

/// Whether `action` holds numbers that may be what a policy wants.
pub fn is_sensible(action: &[f32]) -> bool {
    action.iter().all(|value| value.is_finite() && value.abs() < MAX_ACTION)
}

/// Decides for a policy that has answered nonsense, from then on for good, and says so.
#[derive(Clone, Debug, Default)]
pub struct Fallback {
    rule: Option<Optimistic>,
}

impl Fallback {
    /// Whether it has taken over.
    pub const fn is_in_charge(&self) -> bool {
        self.rule.is_some()
    }

    /// What it decides once it has taken over; before, nothing.
    pub fn propose(&mut self, seen: &Observation, bounds: PerStage<Bounds>) -> Option<Proposal> {
        let next = self.rule.as_mut()?.propose(seen, bounds);
        Some(Proposal { utility: next.utility, ..next.setpoint.into() })
    }

    /// Takes over with this epoch.
    pub fn take_over(&mut self, seen: &Observation, bounds: PerStage<Bounds>) -> Proposal {
        self.rule = Some(Optimistic::new(Share::default()));
        let notice = "the policy's answer makes no sense; `auto` decides from here on";
        Proposal { notice: Some(notice.to_owned()), ..self.propose(seen, bounds).unwrap_or_default() }
    }
}
