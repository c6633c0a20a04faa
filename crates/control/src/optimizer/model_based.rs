//! The model-based rule: find what the path carries and what one worker moves, then divide.
//!
//! It keeps one belief a stage, the rate of one worker, and one for the path, its *capacity*. Phases:
//! **ramp** raises whatever holds the path back, and what is known, until that brings no more; **cap**
//! stays at the surplus one epoch more and takes the mean for the capacity; **trim** sets n = capacity /
//! rate and cuts any stage whose rate is only known to be *at least* something, until goodput gives way
//! and so tells the rate; **climb** doubles where workers move the less the more there are; **hold**
//! stays; **probe** tries a fifth more now and then. A sustained change begins again with the ramp.
//!
//! A stage that waits for its neighbour (empty input, full output) says nothing about its own
//! workers but that they do at least this much; which stage waits is read off the staging. A stage on a
//! host whose processors we have used up gets no further worker: it would only share what there is.
//! Why it is so: docs/decisions/0002-auto-controller.md.

mod constants;
mod epoch;
mod hold;
mod loss_recovery;
mod rise;
mod trim;

use std::time::Duration;

use constants::{ENOUGH_SHARE, FEW_WORKERS, MAX_CHANCE, SMALL_GROWTH, SPARE_STREAMS};
pub use constants::{FARTHEST, ModelBasedConfig};
use epoch::Seen;
use loss_recovery::LossRecovery;

use crate::environment::Host;
use crate::observation::Observation;
use crate::optimizer::{Optimizer, Proposal};
use crate::stage::{Bounds, Concurrency, PerStage, Stage};

/// What one worker of a stage moves, in Mbit/s.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Rate {
    mbps: f64,
    known: Known,
}

/// How far a rate can be believed.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
enum Known {
    /// The stage has always waited for another: its workers move at least this.
    #[default]
    AtLeast,
    /// It has held the path back, by its workers or by a limit of its own.
    Shown,
    /// By its workers: there was only one, or more of them moved more.
    Exactly,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// Raising what holds the path back.
    Ramp,
    /// More workers brought too little; `surplus` was seen with them, over so many `seconds`, and so many epochs have
    /// been `waited` since for streams to recover.
    Cap { surplus: f64, seconds: f64, waited: u32 },
    /// Removing what is not needed. `from` is the last set-point known to carry the capacity, above
    /// which a trim never goes; `low` the first of two low epochs.
    Trim { from: Concurrency, low: Option<f64>, again: bool },
    /// Doubling what holds the path back as long as it pays; `best` was seen with `back`.
    Climb { best: f64, back: Concurrency },
    /// Content: `epochs` so far, their running `mean`, and how many in a row were far `off` or a little
    /// `above` the capacity.
    Hold { epochs: u32, mean: f64, off: u32, above: u32 },
    /// A fifth more for two epochs; `first` is what the first showed.
    Probe { mean: f64, first: Option<f64>, back: Concurrency },
}

/// The rule's memory.
#[derive(Clone, Debug)]
pub struct ModelBased {
    config: ModelBasedConfig,
    phase: Phase,
    /// The shortest round trip so far, that before the start included: what is more is a queue's.
    round_trip: Option<Duration>,
    /// So many workers to begin with are not worth finding out whether fewer would do.
    few: Concurrency,
    rates: PerStage<Rate>,
    /// What they were before the ramp's last step, in Mbit/s.
    rates_before: PerStage<f64>,
    /// Goodput the path can carry, in Mbit/s.
    capacity: f64,
    bounds: Option<PerStage<Bounds>>,
    /// The factor by which the next step of the ramp aims higher.
    growth: f64,
    /// How far goodput strays from its mean, relative to it.
    stray: f64,
    /// Whether it has climbed since it began.
    climbed: bool,
    /// Epochs to hold before the next probe.
    patience: u32,
    goodput: Option<f64>,
    /// Goodput of the epoch before.
    before: f64,
    /// Its workers.
    before_n: Concurrency,
    /// The share of packets that epoch lost.
    lost: f64,
    loss_recovery: LossRecovery,
}

impl Default for ModelBased {
    fn default() -> Self {
        Self::new(ModelBasedConfig::default())
    }
}

/// Whether `now` shows at least `share` of the gain that the factor `expected` promised over `before`.
fn gained(before: f64, now: f64, expected: f64, share: f64) -> bool {
    now >= before * (1.0 + share * (expected - 1.0))
}

/// Whether a change of bounds matters to `n`: it is no longer allowed, or was held back.
fn concerns(before: PerStage<Bounds>, now: PerStage<Bounds>, n: Concurrency) -> bool {
    Stage::ALL.into_iter().any(|stage| {
        let (before, now, n) = (before[stage], now[stage], n[stage]);
        now.clamp(n) != n || (n >= before.max && now.max > before.max)
    })
}

impl ModelBased {
    /// A rule that has seen nothing.
    pub fn new(config: ModelBasedConfig) -> Self {
        Self {
            config,
            phase: Phase::Ramp,
            round_trip: None,
            few: PerStage::all(FEW_WORKERS),
            rates: PerStage::default(),
            rates_before: PerStage::default(),
            capacity: 0.0,
            bounds: None,
            growth: config.growth,
            stray: 0.0,
            climbed: false,
            patience: config.probe_every,
            goodput: None,
            before: 0.0,
            before_n: PerStage::all(1),
            lost: 0.0,
            loss_recovery: LossRecovery::default(),
        }
    }

    /// Learns what each stage's workers move at least.
    fn learn(&mut self, seen: &Seen) {
        for stage in Stage::ALL {
            let mbps = seen.each(stage);
            let rate = &mut self.rates[stage];
            if rate.known != Known::Exactly {
                rate.mbps = rate.mbps.max(mbps);
            }
        }
    }

    /// The fewest workers that carry `mbps`, by what is believed.
    fn workers_for(&self, mbps: f64, bounds: PerStage<Bounds>) -> Concurrency {
        PerStage::from_fn(|stage| {
            bounds[stage].clamp_f64((ENOUGH_SHARE * mbps / self.rates[stage].mbps).ceil())
        })
    }

    /// The workers that carry the capacity, with spare streams on the farthest paths.
    fn enough(&self, seen: &Seen, bounds: PerStage<Bounds>) -> Concurrency {
        let mut enough = self.workers_for(self.capacity, bounds);
        if seen.farthest {
            enough.network = self.workers_for(SPARE_STREAMS * self.capacity, bounds).network;
        }
        enough
    }

    /// The smallest difference from the capacity that is more than chance.
    fn noticed(&self) -> f64 {
        self.config.shortfall.max(self.stray.min(MAX_CHANCE))
    }

    /// Forgets everything but what it holds for a worker's rate.
    fn restart(&mut self, growth: f64) {
        self.phase = Phase::Ramp;
        self.few = PerStage::all(FEW_WORKERS);
        self.rates_before = PerStage::default();
        self.growth = growth;
        self.climbed = false;
        self.patience = self.config.probe_every;
    }

    /// Begins again with a ramp from where the path stands. Whatever holds it back now may be another
    /// than before, or the same with other rates.
    fn begin_again(&mut self, seen: &Seen, growth: f64, bounds: PerStage<Bounds>) -> Concurrency {
        let less = seen.goodput < self.capacity;
        // More workers bring back at most what there was.
        let lost = (self.capacity / seen.goodput).max(SMALL_GROWTH);
        self.restart(if less && seen.far { growth.min(lost) } else { growth });
        let binding = seen.binding(bounds);
        for stage in Stage::ALL {
            let mbps = seen.each(stage);
            // A small loss is put down to the rate of the workers, a large change may be the path's, and
            // a small gain says nothing of either.
            if binding[stage] && growth > SMALL_GROWTH {
                self.rates[stage] = Rate::default();
            } else if binding[stage] && less {
                self.rates[stage] = Rate { mbps, known: Known::Exactly };
            }
        }
        self.ramp(seen, bounds)
    }
}

impl ModelBased {
    /// The set-point after an epoch.
    fn next(&mut self, seen: &Observation, bounds: PerStage<Bounds>) -> Concurrency {
        self.round_trip = self.round_trip.into_iter().chain(seen.rtt).min();
        let Some(seen) = Seen::of(seen, bounds, self.config.margin, self.round_trip) else {
            return bounds.map(|bounds| bounds.min);
        };
        self.before = self.goodput.replace(seen.goodput).unwrap_or_default();
        if seen.goodput <= 0.0 {
            // Nothing moved: hand-shakes, a stall, or the end. Nothing to learn from either.
            return bounds.clamp(seen.n);
        }
        if self.bounds.replace(bounds).is_some_and(|before| concerns(before, bounds, seen.n)) {
            self.restart(self.config.growth);
        }
        self.loss_recovery.watch(&seen);
        let next = match self.phase {
            Phase::Ramp => self.ramp(&seen, bounds),
            Phase::Cap { surplus, seconds, waited } => self.cap(&seen, (surplus, seconds, waited), bounds),
            Phase::Trim { from, low, again } => self.trim(&seen, (from, low, again), bounds),
            Phase::Climb { best, back } => self.climbing(&seen, (best, back), bounds),
            Phase::Hold { epochs, mean, off, above } => self.hold(&seen, (epochs, mean, off, above), bounds),
            Phase::Probe { mean, first, back } => self.probe(&seen, (mean, first, back), bounds),
        };
        self.lost = seen.loss;
        self.before_n = seen.n;
        bounds.clamp(next)
    }

    /// What it asks for, with what it has to say.
    fn proposal(&self, setpoint: Concurrency) -> Proposal {
        let reason = match self.phase {
            Phase::Ramp => "on its way up: more of what holds the path back",
            Phase::Cap { .. } => "more workers brought too little: looks once more",
            Phase::Trim { .. } => "takes away what is not needed",
            Phase::Climb { .. } => "doubles what holds the path back as long as it pays",
            Phase::Hold { .. } => "content: holds",
            Phase::Probe { .. } => "tries a fifth more, in case the path got wider",
        };
        Proposal {
            setpoint,
            utility: self.goodput,
            notice: None,
            reason: Some(reason),
            short_epochs: self.phase == Phase::Ramp,
        }
    }
}

impl Optimizer for ModelBased {
    fn start(&mut self, bounds: PerStage<Bounds>, host: &Host) -> Proposal {
        self.round_trip = host.round_trip.or(self.round_trip);
        let mut start = PerStage::all(self.config.start);
        if self.round_trip >= Some(FARTHEST) {
            start.network = (f64::from(start.network) * self.config.growth) as u16;
            self.few.network = start.network;
        }
        self.proposal(bounds.clamp(start))
    }

    fn propose(&mut self, seen: &Observation, bounds: PerStage<Bounds>) -> Proposal {
        let next = self.next(seen, bounds);
        self.proposal(next)
    }
}
