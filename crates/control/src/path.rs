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
///
/// ```
/// use std::time::Duration;
/// use tidegate_control::{Path, PerStage, Scenario};
///
/// let text = "name = 'memory'\ndescription = ''\n[network]\nworker_rate = '100Mbit/s'\n[link]\nrate = '1Gbit/s'";
/// let path = Path::at(&Scenario::from_toml(text)?, Duration::ZERO);
/// assert_eq!(path.oracle().setpoint, PerStage::new(1, 10, 1));
/// assert_eq!(path.goodput(PerStage::new(1, 4, 1)), 4e8);
/// # Ok::<(), tidegate_control::scenario::ScenarioError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Path {
    /// The stages there are.
    pub stages: PerStage<Option<StagePath>>,
    /// What all streams share.
    pub link: Link,
    /// Who else uses the link.
    pub background: Background,
}

/// Streams of others whose share a model-based one takes where nothing bounds it: BBR beside cubic, in a queue of a round trip.
const UNBOUNDED: f64 = 8.0;

/// Streams whose congestion control goes by a model of the path: losses by chance do not hold them back.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ModelBased {
    /// So many; all if there are fewer.
    pub streams: u16,
    /// Whether they run under a pace that leaves others what they have, and let nothing queue.
    pub bounded: bool,
}

/// A path in plain numbers: bit/s and seconds, infinite where nothing limits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    stages: PerStage<StageLimits>,
    model_based: ModelBased,
    /// What a stream moves that losses by chance do not hold back, and what they let another one move.
    model_worker: f64,
    by_chance: f64,
    /// What others leave of the link.
    left: f64,
    /// Competing streams.
    others: f64,
    loss: f64,
    surplus_loss: f64,
}

/// One stage in plain numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
struct StageLimits {
    worker: f64,
    total: f64,
    /// Workers up to the knee.
    undisturbed: f64,
    slope: f64,
    ramp_up: f64,
}

impl StageLimits {
    /// A stage that is not there holds nothing back.
    const ABSENT: Self = Self {
        worker: f64::INFINITY,
        total: f64::INFINITY,
        undisturbed: f64::INFINITY,
        slope: 0.0,
        ramp_up: 0.0,
    };
}

impl Limits {
    /// The time constant, in seconds, with which a stage's new workers approach their rate.
    pub fn ramp_up(&self, stage: Stage) -> f64 {
        self.stages[stage].ramp_up
    }

    /// The same where some streams go by a model.
    #[must_use]
    pub const fn with(mut self, model_based: ModelBased) -> Self {
        self.model_based = model_based;
        self
    }

    /// What `n` workers of a stage would move if nothing but their own number held them back, in
    /// bit/s. `n` may be a fraction while workers ramp up. Infinite for an absent stage.
    pub fn offered(&self, stage: Stage, n: f64) -> f64 {
        let limits = &self.stages[stage];
        let surplus = n - limits.undisturbed;
        let all = match (stage, self.model_based.streams) {
            (Stage::Network, 1..) => {
                let (plain, model_based) = self.kinds(n);
                plain * limits.worker + model_based * self.model_worker
            }
            _ => n * limits.worker,
        };
        if surplus > 0.0 { all / (1.0 + limits.slope * surplus) } else { all }
    }

    /// Of `n` streams those that go by losses, and those that go by a model.
    fn kinds(&self, n: f64) -> (f64, f64) {
        let model_based = n.min(f64::from(self.model_based.streams));
        (n - model_based, model_based)
    }

    /// What those of `n` streams move that go by a model, in bit/s.
    pub fn model_carried(&self, n: f64) -> f64 {
        let (plain, model_based) = self.kinds(n);
        let worker = self.stages.network.worker;
        let left = match self.model_based.bounded {
            // Who is not held back by losses fills the path.
            true => (self.left - plain * worker - self.others * self.by_chance).max(0.0),
            false => self.left * UNBOUNDED * model_based / (UNBOUNDED * model_based + plain + self.others),
        };
        (model_based * self.model_worker).min(left)
    }

    /// Whether those of `n` streams that go by a model move less than they would alone.
    pub fn model_fills(&self, n: f64) -> bool {
        let model_based = self.kinds(n).1;
        model_based > 0.0 && self.model_carried(n) < model_based * self.model_worker
    }

    /// Whether `n` streams fill a queue, so that what is lost may be lost there.
    pub fn queues(&self, n: f64) -> bool {
        let (plain, model_based) = self.kinds(n);
        let paced = self.model_based.bounded && model_based > 0.0;
        let offered =
            if paced { plain * self.stages.network.worker } else { self.offered(Stage::Network, n) };
        offered >= self.share(n)
    }

    /// What `n` workers of a stage carry: what they offer, within the stage's total and, for the
    /// network, within our share of the link. In bit/s.
    pub fn carried(&self, stage: Stage, n: f64) -> f64 {
        let carried = self.offered(stage, n).min(self.stages[stage].total);
        match (stage, self.model_based.streams) {
            (Stage::Network, 1..) => {
                let model_based = self.model_carried(n);
                let plain = self.kinds(n).0 * self.stages.network.worker;
                carried.min(model_based + plain.min(self.left - model_based))
            }
            (Stage::Network, 0) => carried.min(self.share(n)),
            _ => carried,
        }
    }

    /// What the link leaves to `n` of our streams, in bit/s: each gets as much as each competing one.
    pub fn share(&self, n: f64) -> f64 {
        if self.others > 0.0 { self.left * n / (n + self.others) } else { self.left }
    }

    /// The share of segments lost with `n` streams.
    pub fn loss(&self, n: f64) -> f64 {
        if self.surplus_loss == 0.0 {
            return self.loss;
        }
        let offered = self.offered(Stage::Network, n);
        let surplus = if self.queues(n) { (1.0 - self.share(n) / offered).max(0.0) } else { 0.0 };
        (self.loss + self.surplus_loss * surplus).min(1.0)
    }
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

    /// What may be asked for.
    pub fn bounds(&self) -> PerStage<Bounds> {
        self.stages.map(|stage| stage.as_ref().map_or(Bounds::fixed(1), StagePath::bounds))
    }

    /// The path in plain numbers, to ask many times.
    pub fn limits(&self) -> Limits {
        let by_chance = self.by_chance();
        let stages = PerStage::from_fn(|stage| {
            let Some(path) = self.stages[stage] else { return StageLimits::ABSENT };
            let mut worker = path.worker_rate.0 as f64;
            let mut ramp_up = path.ramp_up.as_secs_f64();
            if stage == Stage::Network {
                ramp_up = ramp_up.max(self.link.ramp_rtts * self.link.rtt.as_secs_f64());
                worker = worker.min(by_chance);
            }
            StageLimits {
                worker,
                total: path.total_rate.map_or(f64::INFINITY, |total| total.0 as f64),
                undisturbed: path.knee.map_or(f64::INFINITY, |knee| f64::from(knee.workers)),
                slope: path.knee.map_or(0.0, |knee| knee.slope),
                ramp_up,
            }
        });
        Limits {
            stages,
            model_based: ModelBased::default(),
            model_worker: self.stages.network.map_or(f64::INFINITY, |path| path.worker_rate.0 as f64),
            by_chance,
            left: self.link.rate.0.saturating_sub(self.background.rate.0) as f64,
            others: f64::from(self.background.streams),
            loss: self.link.loss,
            surplus_loss: self.link.surplus_loss,
        }
    }

    /// What losses by chance let a stream move that goes by them, in bit/s.
    fn by_chance(&self) -> f64 {
        let rtt = self.link.rtt.as_secs_f64();
        match self.link.loss > 0.0 && rtt > 0.0 {
            true => SEGMENT_BITS / rtt * MATHIS / self.link.loss.sqrt(),
            false => f64::INFINITY,
        }
    }

    /// What `n` workers of a stage carry, in bit/s; see [`Limits::carried`].
    pub fn carried(&self, stage: Stage, n: f64) -> f64 {
        self.limits().carried(stage, n)
    }

    /// The share of segments lost with `n` streams.
    pub fn loss(&self, n: f64) -> f64 {
        self.limits().loss(n)
    }

    /// End-to-end goodput once everything has settled, in bit/s.
    pub fn goodput(&self, setpoint: Concurrency) -> f64 {
        let limits = self.limits();
        Stage::ALL
            .into_iter()
            .map(|stage| limits.carried(stage, f64::from(setpoint[stage])))
            .fold(f64::INFINITY, f64::min)
    }

    /// What the fewest workers that would fill the path alone get beside its foreign streams.
    pub fn fair_goodput(&self) -> BitRate {
        let mut alone = *self;
        alone.background.streams = 0;
        BitRate::from_bps(self.goodput(alone.oracle().setpoint))
    }

    /// The oracle: goodput is the least of three functions of one n each, so each stage can be
    /// searched alone.
    pub fn oracle(&self) -> Oracle {
        let bounds = self.bounds();
        let limits = self.limits();
        let all = |stage: Stage| {
            (bounds[stage].min..=bounds[stage].max).map(move |n| (n, limits.carried(stage, f64::from(n))))
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
