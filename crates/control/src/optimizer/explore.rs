//! Random concurrency within the bounds, to learn what a path can do.
//!
//! LDM explores five minutes and AutoMDT ten, both drawing each stage's workers uniformly; the
//! recorded epochs then give the rates a simulator is built from.

use crate::observation::Observation;
use crate::optimizer::Optimizer;
use crate::rng::Rng;
use crate::stage::{Bounds, Concurrency, PerStage};

/// How to draw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// Epochs a draw is kept. 1, as published; more where workers take long to reach their rate.
    pub hold_epochs: u16,
}

/// Draws each stage's workers uniformly from its bounds.
#[derive(Clone, Debug)]
pub struct Explore {
    config: Config,
    rng: Rng,
    current: Concurrency,
    age: u16,
}

impl Explore {
    /// Draws from the stream of `seed`.
    pub fn new(config: Config, seed: u64) -> Self {
        Self { config, rng: Rng::new(seed), current: PerStage::all(1), age: 0 }
    }

    fn draw(&mut self, bounds: PerStage<Bounds>) -> Concurrency {
        self.age = 1;
        self.current = bounds.map(|bounds| self.rng.integer(bounds.min, bounds.max));
        self.current
    }
}

impl Optimizer for Explore {
    fn start(&mut self, bounds: PerStage<Bounds>) -> Concurrency {
        self.draw(bounds)
    }

    fn propose(&mut self, _seen: &Observation, bounds: PerStage<Bounds>) -> Concurrency {
        if self.age < self.config.hold_epochs {
            self.age += 1;
            return bounds.clamp(self.current);
        }
        self.draw(bounds)
    }
}
