//! A set-point that never moves: the baseline every adaptive rule is compared with.

use crate::host::Host;
use crate::observation::Observation;
use crate::optimizer::{Optimizer, Proposal};
use crate::stage::{Bounds, Concurrency, PerStage};

/// What is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedConfig {
    /// Workers a stage. 4: what people set by hand, near FastBioDL's fixed baselines of 3 and 5.
    pub setpoint: Concurrency,
}

impl Default for FixedConfig {
    fn default() -> Self {
        Self { setpoint: PerStage::all(4) }
    }
}

/// Holds one set-point.
#[derive(Clone, Debug)]
pub struct Fixed {
    config: FixedConfig,
}

impl Fixed {
    /// Holds `config.setpoint`.
    pub const fn new(config: FixedConfig) -> Self {
        Self { config }
    }
}

impl Optimizer for Fixed {
    fn start(&mut self, bounds: PerStage<Bounds>, _host: &Host) -> Proposal {
        bounds.clamp(self.config.setpoint).into()
    }

    fn propose(&mut self, _seen: &Observation, bounds: PerStage<Bounds>) -> Proposal {
        bounds.clamp(self.config.setpoint).into()
    }
}
