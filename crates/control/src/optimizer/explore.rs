//! Random concurrency within the bounds, to learn what a path can do.
//!
//! LDM explores five minutes and AutoMDT ten, both drawing each stage's workers uniformly; the
//! recorded epochs then give the rates a simulator is built from. A stage shows what one of its workers
//! moves only while it has few, and the others so many that none of them is slower. Uniform draws rarely
//! hit that (a stage that five of 32 workers fill: less than one epoch in ten), and that is why the papers
//! need minutes. [`Draw::Isolate`] arranges for it.
//!
//! On a far path a stream that has just begun, or was parked, takes seconds to come to its rate. A draw that is
//! kept for one epoch shows little else than that; [`Hold::Settled`] waits for it.

use crate::host::Host;
use crate::observation::Observation;
use crate::optimizer::{Optimizer, Proposal};
use crate::rng::Rng;
use crate::stage::{Bounds, Concurrency, PerStage, Stage};
use crate::units::BitRate;

/// How to draw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExploreConfig {
    /// How long a draw is kept.
    pub hold: Hold,
    /// From which distribution.
    pub draw: Draw,
}

/// How long a draw is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hold {
    /// One epoch, as published.
    #[default]
    Epoch,
    /// Two epochs, and more as long as each brings more than the one before; at most [`MAX_HOLD`].
    Settled,
}

/// The most epochs that a draw is kept for.
pub const MAX_HOLD: u16 = 8;

/// A goodput that rose by less than this share has settled.
const SETTLED: f64 = 0.05;

/// How workers are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Draw {
    /// Each number of each stage equally often, as published.
    #[default]
    Uniform,
    /// So one epoch in three. In the others one stage, each in its turn, has by turns its fewest workers,
    /// which no limit of the stage hides, and a uniform logarithm (1 as often as 2 and 3 together); the
    /// others draw uniformly from the upper half.
    Isolate,
}

/// Draws each stage's workers from its bounds, independently.
#[derive(Clone, Debug)]
pub struct Explore {
    config: ExploreConfig,
    rng: Rng,
    current: Concurrency,
    /// Epochs for which the draw has been kept.
    age: u16,
    /// What the epoch before brought under the same draw.
    before: Option<BitRate>,
    draws: u64,
}

impl Explore {
    /// Draws from the stream of `seed`.
    pub fn new(config: ExploreConfig, seed: u64) -> Self {
        Self { config, rng: Rng::new(seed), current: PerStage::all(1), age: 0, before: None, draws: 0 }
    }

    fn draw(&mut self, bounds: PerStage<Bounds>) -> Concurrency {
        (self.age, self.before) = (1, None);
        let isolated = self.isolated(bounds);
        let rng = &mut self.rng;
        self.current = PerStage::from_fn(|stage| {
            let Bounds { min, max } = bounds[stage];
            match isolated {
                None => rng.integer(min, max),
                Some((isolated, _)) if isolated != stage => rng.integer(min.midpoint(max).max(min), max),
                Some((_, true)) => min,
                Some((_, false)) => {
                    let drawn = rng.log_uniform(f64::from(min), f64::from(max) + 1.0);
                    bounds[stage].clamp_f64(drawn.floor())
                }
            }
        });
        self.current
    }
}

impl Explore {
    /// Whether `goodput` is more than the epoch before brought, or the draw's first.
    fn rises(&mut self, goodput: BitRate) -> bool {
        let before = self.before.replace(goodput);
        before.is_none_or(|before| goodput.0 as f64 > (1.0 + SETTLED) * before.0 as f64)
    }

    /// The stage whose turn it is, and whether it is to have its fewest; none if it is nobody's turn.
    fn isolated(&mut self, bounds: PerStage<Bounds>) -> Option<(Stage, bool)> {
        let draw = self.draws;
        self.draws += 1;
        if self.config.draw == Draw::Uniform || draw.is_multiple_of(3) {
            return None;
        }
        let free: Vec<Stage> = Stage::ALL.into_iter().filter(|&stage| !bounds[stage].is_fixed()).collect();
        // The turns so far: two of every three draws.
        let turn = draw - draw / 3 - 1;
        let count = free.len().max(1) as u64;
        free.get((turn % count) as usize).map(|&stage| (stage, (turn / count).is_multiple_of(2)))
    }
}

impl Optimizer for Explore {
    fn start(&mut self, bounds: PerStage<Bounds>, _host: &Host) -> Proposal {
        self.draw(bounds).into()
    }

    fn propose(&mut self, seen: &Observation, bounds: PerStage<Bounds>) -> Proposal {
        if self.config.hold == Hold::Settled && self.age < MAX_HOLD && self.rises(seen.free_goodput(bounds)) {
            self.age += 1;
            return bounds.clamp(self.current).into();
        }
        self.draw(bounds).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(draw: Draw, bounds: PerStage<Bounds>, count: usize) -> Vec<Concurrency> {
        let mut rule = Explore::new(ExploreConfig { draw, ..ExploreConfig::default() }, 1);
        (0..count).map(|_| rule.draw(bounds)).collect()
    }

    #[test]
    fn each_stage_in_its_turn_has_few_workers_and_the_others_many() {
        let draws = drawn(Draw::Isolate, PerStage::all(Bounds::new(1, 32)), 900);
        let mut turns = PerStage::all(0);
        for (i, n) in draws.iter().enumerate().filter(|(i, _)| i % 3 != 0) {
            let low: Vec<Stage> = Stage::ALL.into_iter().filter(|&stage| n[stage] < 16).collect();
            assert!(low.len() <= 1, "draw {i}: {n:?}");
            low.iter().for_each(|&stage| turns[stage] += 1);
        }
        // Of 200 turns each, half have one worker and of the others ln 16 / ln 33 are below 16.
        assert!(turns.into_array().iter().all(|turns| (165..195).contains(turns)), "{turns:?}");
        let alone = |stage: Stage| draws.iter().filter(|n| n[stage] == 1).count();
        // 100, ln 2 / ln 33 of 100, and 300 / 32.
        assert!(Stage::ALL.into_iter().all(|stage| (110..150).contains(&alone(stage))));
    }

    #[test]
    fn a_path_of_one_stage_isolates_that() {
        let bounds = PerStage::new(Bounds::fixed(1), Bounds::new(1, 32), Bounds::fixed(1));
        let draws = drawn(Draw::Isolate, bounds, 600);
        assert!(draws.iter().all(|n| n.read == 1 && n.write == 1 && (1..=32).contains(&n.network)));
        let alone = draws.iter().filter(|n| n.network == 1).count();
        assert!((220..270).contains(&alone), "{alone}");
        assert_eq!(drawn(Draw::Isolate, PerStage::all(Bounds::fixed(3)), 9), [PerStage::all(3); 9]);
    }

    #[test]
    fn uniform_draws_see_every_number_alike() {
        let draws = drawn(Draw::Uniform, PerStage::all(Bounds::new(1, 32)), 3200);
        let count = |n: u16| draws.iter().filter(|drawn| drawn.read == n).count();
        assert!((1..=32).all(|n| (60..145).contains(&count(n))));
    }
}
