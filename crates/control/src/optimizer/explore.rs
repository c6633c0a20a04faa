//! Random concurrency within the bounds, to learn what a path can do.
//!
//! LDM explores five minutes and AutoMDT ten, both drawing each stage's workers uniformly; the
//! recorded epochs then give the rates a simulator is built from. Uniform draws rarely hit the few
//! workers at which a stage shows one worker's rate (of 32, a stage that five workers fill: one epoch
//! in eight, and only if no other stage is slower then), and that is why the papers need minutes.
//! [`Draw::Mixed`] draws every other epoch logarithmically, so that both ends are seen soon.

use crate::observation::Observation;
use crate::optimizer::Optimizer;
use crate::rng::Rng;
use crate::stage::{Bounds, Concurrency, PerStage};

/// How to draw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// Epochs a draw is kept. 1, as published; more where workers take long to reach their rate.
    pub hold_epochs: u16,
    /// From which distribution.
    pub draw: Draw,
}

/// How one stage's workers are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Draw {
    /// Each number equally often, as published.
    #[default]
    Uniform,
    /// Uniformly and by turns with a uniform logarithm: 1 as often as 2 and 3 together.
    Mixed,
}

/// Draws each stage's workers from its bounds, independently.
#[derive(Clone, Debug)]
pub struct Explore {
    config: Config,
    rng: Rng,
    current: Concurrency,
    age: u16,
    draws: u64,
}

impl Explore {
    /// Draws from the stream of `seed`.
    pub fn new(config: Config, seed: u64) -> Self {
        Self { config, rng: Rng::new(seed), current: PerStage::all(1), age: 0, draws: 0 }
    }

    fn draw(&mut self, bounds: PerStage<Bounds>) -> Concurrency {
        self.age = 1;
        let logarithmic = self.config.draw == Draw::Mixed && self.draws % 2 == 1;
        self.draws += 1;
        let rng = &mut self.rng;
        self.current = bounds.map(|bounds| match logarithmic {
            true => {
                let (low, high) = (f64::from(bounds.min), f64::from(bounds.max) + 1.0);
                bounds.clamp_f64(rng.log_uniform(low, high).floor())
            }
            false => rng.integer(bounds.min, bounds.max),
        });
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

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(draw: Draw, count: usize) -> Vec<u16> {
        let mut rule = Explore::new(Config { draw, ..Config::default() }, 1);
        let bounds = PerStage::all(Bounds::new(1, 32));
        (0..count).flat_map(|_| rule.draw(bounds).into_array()).collect()
    }

    #[test]
    fn mixed_draws_see_few_workers_more_often_and_many_still() {
        let count = |draw, range: std::ops::RangeInclusive<u16>| {
            drawn(draw, 1000).into_iter().filter(|n| range.contains(n)).count()
        };
        // Of 3000: uniformly 4 in 32 are at most 4; mixed, half of the draws have ln 5 / ln 33 there.
        assert!((300..450).contains(&count(Draw::Uniform, 1..=4)));
        assert!((800..950).contains(&count(Draw::Mixed, 1..=4)));
        assert!((850..1100).contains(&count(Draw::Mixed, 17..=32)));
        assert!(drawn(Draw::Mixed, 1000).iter().all(|n| (1..=32).contains(n)));
    }
}
