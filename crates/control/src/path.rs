//! A scenario's path at one moment: what each stage can carry, and the best that can be asked of it.

use std::time::Duration;

use crate::scenario::{Background, Link, Scenario, StagePath};
use crate::stage::{Bounds, Concurrency, PerStage, Stage};
use crate::units::BitRate;

/// Payload of a full TCP segment in bits (1448 bytes: Ethernet, IPv4, timestamps).
const SEGMENT_BITS: f64 = 1448.0 * 8.0;
/// The constant of Mathis et al. for periodic loss, √(3/2).
const MATHIS: f64 = 1.224_744_871_391_589;

/// A path as it is at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Path {
    /// The stages there are.
    pub stages: PerStage<Option<StagePath>>,
    /// What all streams share.
    pub link: Link,
    /// Who else uses the link.
    pub background: Background,
}

/// The fewest workers within 2 % of the best goodput.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Oracle {
    /// That set-point.
    pub setpoint: Concurrency,
    /// The best goodput of any set-point.
    pub goodput: BitRate,
}

/// The share of the best goodput the oracle's set-point must exceed.
const CLOSE: f64 = 0.98;

impl Path {
    /// The path at `at` since the start, with every change up to then and between bursts.
    pub fn at(scenario: &Scenario, at: Duration) -> Self {
        let mut path = Self {
            stages: scenario.stages().map(|stage| stage.copied()),
            link: scenario.link,
            background: scenario.background,
        };
        for change in scenario.timeline.iter().take_while(|change| change.at <= at) {
            let changes = PerStage::new(change.read, change.network, change.write);
            for stage in Stage::ALL {
                if let Some(path) = &mut path.stages[stage] {
                    path.worker_rate = changes[stage].worker_rate.unwrap_or(path.worker_rate);
                    path.total_rate = changes[stage].total_rate.or(path.total_rate);
                }
            }
            path.link.rate = change.link.rate.unwrap_or(path.link.rate);
            path.link.rtt = change.link.rtt.unwrap_or(path.link.rtt);
            path.link.loss = change.link.loss.unwrap_or(path.link.loss);
            path.background.rate = change.background.rate.unwrap_or(path.background.rate);
            path.background.streams = change.background.streams.unwrap_or(path.background.streams);
        }
        path
    }

    /// The same path during a burst of other traffic.
    pub fn in_burst(mut self) -> Self {
        if let Some(bursts) = self.background.bursts {
            self.background.rate = BitRate(self.background.rate.0.saturating_add(bursts.rate.0));
            self.background.streams = self.background.streams.saturating_add(bursts.streams);
        }
        self
    }

    /// The time constant, in seconds, with which a stage's new workers approach their rate.
    pub fn ramp_up(&self, stage: Stage) -> f64 {
        let stated = self.stages[stage].map_or(0.0, |path| path.ramp_up.as_secs_f64());
        let round_trips =
            if stage == Stage::Network { self.link.ramp_rtts * self.link.rtt.as_secs_f64() } else { 0.0 };
        stated.max(round_trips)
    }

    /// What may be asked for.
    pub fn bounds(&self) -> PerStage<Bounds> {
        self.stages.map(|stage| stage.as_ref().map_or(Bounds::fixed(1), StagePath::bounds))
    }

    /// What `n` workers of a stage would move if nothing but their own number held them back, in
    /// bit/s. `n` may be a fraction while workers ramp up. Infinite for an absent stage.
    pub fn offered(&self, stage: Stage, n: f64) -> f64 {
        let Some(path) = self.stages[stage] else { return f64::INFINITY };
        let mut worker = path.worker_rate.0 as f64;
        if stage == Stage::Network && self.link.loss > 0.0 && !self.link.rtt.is_zero() {
            let mathis = SEGMENT_BITS / self.link.rtt.as_secs_f64() * MATHIS / self.link.loss.sqrt();
            worker = worker.min(mathis);
        }
        if let Some(knee) = path.knee {
            worker /= 1.0 + knee.slope * (n - f64::from(knee.workers)).max(0.0);
        }
        n * worker
    }

    /// What `n` workers of a stage carry: what they offer, within the stage's total and, for the
    /// network, within our share of the link. In bit/s.
    pub fn carried(&self, stage: Stage, n: f64) -> f64 {
        let offered = self.offered(stage, n);
        let total = self.stages[stage].and_then(|path| path.total_rate);
        let carried = total.map_or(offered, |total| offered.min(total.0 as f64));
        if stage == Stage::Network { carried.min(self.share(n)) } else { carried }
    }

    /// What the link leaves to `n` of our streams, in bit/s: each gets as much as each competing one.
    pub fn share(&self, n: f64) -> f64 {
        let left = self.link.rate.0.saturating_sub(self.background.rate.0) as f64;
        let others = f64::from(self.background.streams);
        if others > 0.0 { left * n / (n + others) } else { left }
    }

    /// The share of segments lost with `n` streams.
    pub fn loss(&self, n: f64) -> f64 {
        if self.link.surplus_loss == 0.0 {
            return self.link.loss;
        }
        let offered = self.offered(Stage::Network, n);
        let surplus = (1.0 - self.share(n) / offered).max(0.0);
        (self.link.loss + self.link.surplus_loss * surplus).min(1.0)
    }

    /// End-to-end goodput once everything has settled, in bit/s.
    pub fn goodput(&self, setpoint: Concurrency) -> f64 {
        Stage::ALL
            .into_iter()
            .map(|stage| self.carried(stage, f64::from(setpoint[stage])))
            .fold(f64::INFINITY, f64::min)
    }

    /// The oracle: goodput is the least of three functions of one n each, so each stage can be
    /// searched alone.
    pub fn oracle(&self) -> Oracle {
        let bounds = self.bounds();
        let all = |stage: Stage| {
            (bounds[stage].min..=bounds[stage].max).map(move |n| (n, self.carried(stage, f64::from(n))))
        };
        let peak = |stage| all(stage).map(|(_, carried)| carried).fold(0.0, f64::max);
        let best = Stage::ALL.into_iter().map(peak).fold(f64::INFINITY, f64::min);
        let setpoint = PerStage::from_fn(|stage| {
            let mut enough = all(stage).filter(|&(_, carried)| carried > CLOSE * best);
            enough.next().map_or(bounds[stage].max, |(n, _)| n)
        });
        Oracle { setpoint, goodput: BitRate::from_bps(best) }
    }
}
