//! The optimistic rule: believe of each stage what its epochs support, try what may be better, and hold what is best.
//!
//! *Belief*: a [`PathEstimator`], one curve a stage with how sure it is. *Evidence*: what each stage moved, how sure
//! that is, and how long its workers waited. *Action*: the set-point that is expected to be best, the fewest workers that
//! are within a few percent of the most; unless
//!
//! - some credible curve says that more would bring more: then as many as it takes (optimism in the face of
//!   uncertainty), at most a few times as many as now;
//! - or some credible curve says that clearly fewer would do, and little is lost if not: then so few.
//!
//! Evidence fades, so that what has not been tried for long becomes credible again and is tried.
//! Why it is so: docs/decisions/0002-auto-controller.md.

use std::time::Duration;

use crate::environment::Host;
use crate::observation::{CpuLoad, Observation};
use crate::optimizer::{Optimizer, Proposal};
use crate::path_estimator::PathEstimator;
use crate::share::Share;
use crate::stage::{Bounds, Concurrency, Ends, PerStage, Stage};

/// Workers a stage to begin with: no burden on a small host.
const START: u16 = 2;
/// Factor on workers: so many more are tried at once, ...
const GROWTH: f64 = 4.0;
/// ... and where round trips take at least so long, or nobody tells, as streams that have lost packets to their own
/// number take seconds to recover there.
const FAR: Duration = Duration::from_millis(20);
const FAR_GROWTH: f64 = 3.0;
/// The share of the most expected that is worth no further worker: half of what a measurement is off, within these.
const WORTHLESS: (f64, f64) = (0.001, 0.02);
/// A curve is credible that is so likely, by the likeliest, where it promises more and where it promises to do with less.
const CREDIBLE_MORE: f64 = 0.1;
const CREDIBLE_FEWER: f64 = 0.3;
/// Standard deviations of a worker's rate by which fewer may be hoped to do.
const HOPE: f64 = 0.5;
/// Share of the goodput: a gain of so much is worth trying for.
const GAIN: f64 = 0.03;
/// Share of the workers: fewer than this are worth a try, ...
const FEWER: f64 = 0.75;
/// ... if no more than this share of the goodput is expected to be lost by it.
const RISK: f64 = 0.15;
/// Factor on goodput: where so much more is aimed at, a short measurement is good enough.
const STEP: f64 = 1.25;
/// Standard deviations added to the streams that would fill the path alone, where no more are wanted.
const FAIR_DEVIATIONS: f64 = 1.0;
/// Share of a host's processor time: with less than this idle it has none to spare, if so much of it is ours.
const SPENT_IDLE: f64 = 0.1;
const SPENT_OURS: f64 = 0.4;

/// The rule's memory.
#[derive(Clone, Debug, Default)]
pub struct Optimistic {
    share: Share,
    path: PathEstimator,
    /// The shortest round trip so far.
    round_trip: Option<Duration>,
}

/// What it is about.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Aim {
    More,
    Fewer,
    Best,
}

/// One decision: beliefs, and what may be asked for.
struct Choice<'a> {
    path: &'a PathEstimator,
    /// The stages that are known and may have more or fewer workers.
    stages: Vec<Stage>,
    /// The numbers of workers that are considered.
    range: PerStage<(u16, u16)>,
    /// The share of the most that is enough.
    enough: f64,
}

impl Choice<'_> {
    fn numbers(&self, stage: Stage) -> impl Iterator<Item = f64> {
        let (first, last) = self.range[stage];
        // Among many, neighbours differ by less than can be told.
        let mut next = Some(first);
        std::iter::from_fn(move || {
            let n = next?;
            next = (n < last).then(|| (n + 1 + n / 32).min(last));
            Some(f64::from(n))
        })
    }

    fn most(&self, stage: Stage, worth: &dyn Fn(f64) -> f64) -> f64 {
        self.numbers(stage).map(worth).fold(0.0, f64::max)
    }

    /// The fewest workers that are worth as much; the most if none are.
    fn fewest(&self, stage: Stage, worth: &dyn Fn(f64) -> bool) -> u16 {
        self.numbers(stage).find(|&n| worth(n)).map_or(self.range[stage].1, |n| n as u16)
    }

    /// What the slowest stage does, if each does that.
    fn slowest(&self, of: &dyn Fn(Stage) -> f64) -> f64 {
        self.stages.iter().map(|&stage| of(stage)).fold(f64::INFINITY, f64::min)
    }

    fn expected(&self, stage: Stage, n: f64, limit: f64) -> f64 {
        self.path.curve(stage).expected(n, limit)
    }

    /// The fewest workers whose expectation is close to the most, up to `limit`.
    fn best(&self, stage: Stage, limit: f64) -> u16 {
        let enough = self.enough * self.most(stage, &|n| self.expected(stage, n, limit));
        self.fewest(stage, &|n| self.expected(stage, n, limit) >= enough)
    }

    /// What some credible curve says that `n` workers move.
    fn hoped(&self, stage: Stage, n: f64) -> f64 {
        self.path.curve(stage).possible(n, CREDIBLE_MORE, 0.0)
    }

    /// Clearly fewer than `best` that may do as well, if there are any.
    fn fewer(&self, stage: Stage, best: u16, limit: f64) -> Option<u16> {
        let worth = self.expected(stage, f64::from(best), limit);
        let fewer = self.fewest(stage, &|n| {
            self.path.curve(stage).possible(n, CREDIBLE_FEWER, HOPE) >= self.enough * worth
                && self.expected(stage, n, limit) >= (1.0 - RISK) * worth
        });
        (f64::from(fewer) <= FEWER * f64::from(best)).then_some(fewer)
    }
}

/// The stages on a host without processor time to spare; the network's workers are on both.
fn spent(cpu: Ends<Option<CpuLoad>>) -> PerStage<bool> {
    let spent =
        |load: Option<CpuLoad>| load.is_some_and(|load| load.idle < SPENT_IDLE && load.ours >= SPENT_OURS);
    let (sender, receiver) = (spent(cpu.sender), spent(cpu.receiver));
    PerStage::new(sender, sender || receiver, receiver)
}

impl Optimistic {
    /// A rule that has seen nothing.
    pub fn new(share: Share) -> Self {
        Self { share, ..Self::default() }
    }

    fn choice(&self, seen: &Observation, bounds: PerStage<Bounds>) -> Choice<'_> {
        let growth = if self.round_trip.is_some_and(|rtt| rtt < FAR) { GROWTH } else { FAR_GROWTH };
        let spent = spent(seen.cpu);
        let range = PerStage::from_fn(|stage| {
            let n = f64::from(seen.concurrency[stage]);
            let mut most = if spent[stage] { n } else { (n * growth).ceil() };
            if stage == Stage::Network && self.share == Share::Fair && self.path.curve(stage).is_known() {
                most = most.min(self.path.curve(stage).fills(FAIR_DEVIATIONS).ceil());
            }
            let most = bounds[stage].clamp(most as u16);
            (bounds[stage].clamp((n / growth) as u16).min(most), most)
        });
        let known = |stage: &Stage| !bounds[*stage].is_fixed() && self.path.curve(*stage).is_known();
        let stages: Vec<Stage> = Stage::ALL.into_iter().filter(known).collect();
        let error = stages.iter().map(|&stage| seen.standard_error[stage]).fold(0.0, f64::max);
        let enough = 1.0 - (error / 2.0).clamp(WORTHLESS.0, WORTHLESS.1);
        Choice { path: &self.path, stages, range, enough }
    }

    /// The next set-point, what it should move, and why.
    fn decide(&self, seen: &Observation, bounds: PerStage<Bounds>) -> (Concurrency, f64, Aim) {
        let choice = self.choice(seen, bounds);
        let expected = |stage: Stage| choice.most(stage, &|n| choice.expected(stage, n, f64::INFINITY));
        let goal = choice.slowest(&expected);
        let hope = choice.slowest(&|stage| choice.most(stage, &|n| choice.hoped(stage, n)));
        let rises = hope > (1.0 + GAIN) * goal;
        let target = if rises { hope } else { goal };
        let mut aim = if rises { Aim::More } else { Aim::Best };
        let mut next = seen.concurrency;
        for &stage in &choice.stages {
            let best = choice.best(stage, target);
            next[stage] = best;
            if rises
                && choice.expected(stage, f64::from(choice.best(stage, f64::INFINITY)), f64::INFINITY)
                    < target
            {
                next[stage] = choice.fewest(stage, &|n| choice.hoped(stage, n) >= choice.enough * target);
            } else if let Some(fewer) = choice.fewer(stage, best, target) {
                next[stage] = fewer;
                aim = if rises { aim } else { Aim::Fewer };
            }
        }
        if self.share == Share::Background {
            next.network = bounds.network.min;
        }
        (bounds.clamp(next), target, aim)
    }
}

impl Optimizer for Optimistic {
    fn start(&mut self, bounds: PerStage<Bounds>, host: &Host) -> Proposal {
        self.round_trip = host.round_trip;
        Proposal {
            setpoint: bounds.clamp(PerStage::all(START)),
            reason: Some("begins"),
            short_epochs: true,
            ..Proposal::default()
        }
    }

    fn propose(&mut self, seen: &Observation, bounds: PerStage<Bounds>) -> Proposal {
        self.round_trip = self.round_trip.into_iter().chain(seen.rtt).min();
        let goodput = seen.goodput().as_mbps();
        if goodput <= 0.0 {
            // Nothing moved: hand-shakes, a stall, or the end. Nothing to learn from either.
            return Proposal::from(bounds.clamp(seen.concurrency));
        }
        self.path.learn(seen, bounds);
        let (setpoint, target, aim) = self.decide(seen, bounds);
        let reason = match aim {
            Aim::More => "more may bring more: tries",
            Aim::Fewer => "fewer may do: tries",
            Aim::Best => "holds what is best",
        };
        Proposal {
            setpoint,
            utility: Some(goodput),
            notice: None,
            reason: Some(reason),
            short_epochs: target > STEP * goodput,
        }
    }
}
