//! The default rule: find what the path carries, then the fewest workers that carry it.
//!
//! It keeps one belief a stage, the rate of one worker, and one for the path, its *capacity*. Five
//! phases: **ramp** doubles the rate aimed at while end-to-end goodput follows; **cap** stays at the
//! surplus one epoch more and takes the mean for the capacity; **trim** sets n = capacity / rate and
//! cuts any stage whose rate is only known to be *at least* something, until goodput gives way and so
//! tells the rate, then gives back what it took; **hold** stays; **probe** tries a quarter more now
//! and then. A sustained change of goodput begins again with the ramp, from where it stands.
//!
//! A stage that waits for its neighbour (empty input, full output) says nothing about its own
//! workers but that they do at least this much; which stage waits is read off the staging.
//! Why it is so: docs/decisions/0002-auto-controller.md.

use crate::observation::Observation;
use crate::optimizer::Optimizer;
use crate::stage::{Bounds, Concurrency, PerStage, Stage};

/// The rule's constants; all but the first two are relative and so free of units.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// Workers a stage to begin with. 4: two doublings from 16, and no burden on a small host.
    pub start: u16,
    /// Epochs between probes, doubled after each that finds nothing, up to four times as many. 10:
    /// a probe costs no goodput, only workers, and nothing else can notice a path that got wider.
    pub probe_every: u32,
    /// The share of an expected gain that must arrive for the ramp to go on. 0.4: with less the next
    /// doubling would mostly be surplus; against competing streams it still goes on.
    pub gain: f64,
    /// The share that must arrive for the gain to be put down to the workers alone, so that a busy
    /// stage shows what one of them moves. 0.75: leaves room for noise of 10 %.
    pub full_gain: f64,
    /// The share a probe must bring to start a new ramp. 0.3, of the mean of two epochs.
    pub probe_gain: f64,
    /// Goodput below this share of the capacity, two epochs running, means a trim went too far.
    /// 0.93: one worker too few of up to fourteen shows.
    pub shortfall: f64,
    /// Goodput this far from what was held, two epochs running, means the path has changed. 0.2:
    /// twice in a row is beyond noise of 10 %.
    pub change: f64,
    /// Staging is empty below this fill and full above one less it. 0.1: room for the blocks that
    /// workers hold in their hands.
    pub margin: f64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            start: 4,
            probe_every: 10,
            gain: 0.4,
            full_gain: 0.75,
            probe_gain: 0.3,
            shortfall: 0.93,
            change: 0.2,
            margin: 0.1,
        }
    }
}

/// What a trim leaves of a stage whose need is unknown.
const TRIM: f64 = 0.6;
/// The part of a worker that is not worth a whole one.
const SPARE: f64 = 0.1;
/// How much more a probe aims at.
const PROBE: f64 = 1.25;
/// Goodput beneath this share of the capacity needs no second epoch to be believed.
const PLAIN_SHORTFALL: f64 = 0.75;
/// A goodput this much above that of more workers was better, and not just lucky.
const HARMED: f64 = 1.2;
/// How near the slowest stage's throughput a stage's must be to count as slowest too.
const SLOWEST: f64 = 1.1;
/// Weight of the newest epoch in running means.
const WEIGHT: f64 = 0.3;

/// What one worker of a stage moves, in Mbit/s.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Rate {
    mbps: f64,
    /// Measured while the stage was the one to wait for; else a lower bound.
    known: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// Goodput was `best` with `at`, and should have grown by the factor `expected`.
    Ramp { best: f64, at: Concurrency, expected: f64 },
    /// More workers brought too little over `best` with `at`; `surplus` was seen with them.
    Cap { best: f64, at: Concurrency, surplus: f64 },
    /// Removing what is not needed. `from` is the last set-point known to carry the capacity, above
    /// which a trim never goes; `low` the first of two low epochs.
    Trim { from: Concurrency, low: Option<f64> },
    /// Content: `epochs` so far, their running `mean`, and the `off` epochs in a row that differ.
    Hold { epochs: u32, mean: f64, off: u32 },
    /// A quarter more for two epochs; `first` is what the first showed.
    Probe { mean: f64, first: Option<f64>, back: Concurrency },
}

/// The rule's memory.
#[derive(Clone, Debug)]
pub struct Auto {
    config: Config,
    phase: Phase,
    rates: PerStage<Rate>,
    /// Goodput the path can carry, in Mbit/s.
    capacity: f64,
    bounds: Option<PerStage<Bounds>>,
    /// Epochs to hold before the next probe.
    patience: u32,
    goodput: Option<f64>,
}

/// One epoch, reduced to what the rule uses.
struct Seen {
    goodput: f64,
    n: Concurrency,
    mbps: PerStage<f64>,
    /// The stage was neither starved nor blocked when the epoch ended.
    busy: PerStage<bool>,
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

/// A ramp with nothing to compare with.
const NEW: (f64, Concurrency, f64) = (0.0, PerStage::all(1), 1.0);
const RAMP: Phase = Phase::Ramp { best: NEW.0, at: NEW.1, expected: NEW.2 };

impl Auto {
    /// A rule that has seen nothing.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            phase: RAMP,
            rates: PerStage::default(),
            capacity: 0.0,
            bounds: None,
            patience: config.probe_every,
            goodput: None,
        }
    }

    fn look(&self, seen: &Observation, bounds: PerStage<Bounds>) -> Option<Seen> {
        let free = |stage: Stage| !bounds[stage].is_fixed();
        let mbps = seen.throughput.map(|rate| rate.as_mbps());
        let goodput = Stage::ALL.into_iter().filter(|&s| free(s)).map(|s| mbps[s]).reduce(f64::min)?;
        // How full a staging is, if it joins two stages that are ours.
        let fill = |size: u64, left: u64, a, b| {
            (size > 0 && free(a) && free(b)).then(|| 1.0 - (left as f64 / size as f64).min(1.0))
        };
        let (size, left) = (seen.staging_capacity, seen.staging_free);
        let sender = fill(size.sender.0, left.sender.0, Stage::Read, Stage::Network);
        let receiver = fill(size.receiver.0, left.receiver.0, Stage::Network, Stage::Write);
        let empty = |fill: Option<f64>| fill.is_some_and(|fill| fill < self.config.margin);
        let full = |fill: Option<f64>| fill.is_some_and(|fill| fill > 1.0 - self.config.margin);
        let busy = PerStage::new(!full(sender), !empty(sender) && !full(receiver), !empty(receiver));
        Some(Seen { goodput, n: seen.concurrency.map(|n| n.max(1)), mbps, busy })
    }

    /// Learns what each stage's workers do. `limited` says that the workers were what limited the
    /// path, so that a busy stage shows its true rate and not only a lower bound.
    fn learn(&mut self, seen: &Seen, limited: bool) {
        for stage in Stage::ALL {
            let mbps = seen.mbps[stage] / f64::from(seen.n[stage]);
            let rate = &mut self.rates[stage];
            if limited && seen.busy[stage] {
                rate.mbps = if rate.known { (rate.mbps + mbps) / 2.0 } else { mbps };
                rate.known = true;
            } else if !rate.known {
                rate.mbps = rate.mbps.max(mbps);
            }
        }
    }

    /// The fewest workers that carry `mbps`, by what is believed.
    fn workers_for(&self, mbps: f64, bounds: PerStage<Bounds>) -> Concurrency {
        PerStage::from_fn(|stage| bounds[stage].clamp_f64((mbps / self.rates[stage].mbps - SPARE).ceil()))
    }

    /// The factor by which goodput should grow from `seen` with `n` workers.
    fn expected(&self, seen: &Seen, n: Concurrency, bounds: PerStage<Bounds>) -> f64 {
        let free = Stage::ALL.into_iter().filter(|&stage| !bounds[stage].is_fixed());
        let carried = free.map(|stage| f64::from(n[stage]) * self.rates[stage].mbps).reduce(f64::min);
        (carried.unwrap_or(0.0) / seen.goodput).clamp(1.0, 2.0)
    }

    fn restart(&mut self) {
        self.phase = RAMP;
        self.rates = PerStage::default();
        self.patience = self.config.probe_every;
    }

    fn ramp(
        &mut self,
        seen: &Seen,
        (best, at, expected): (f64, Concurrency, f64),
        bounds: PerStage<Bounds>,
    ) -> Concurrency {
        if !gained(best, seen.goodput, expected, self.config.gain) {
            self.learn(seen, false);
            self.phase = Phase::Cap { best, at, surplus: seen.goodput };
            return seen.n;
        }
        // Without an epoch to compare with, nothing shows that workers are what is short.
        let full = best > 0.0 && gained(best, seen.goodput, expected, self.config.full_gain);
        self.learn(seen, full);
        let next = self.workers_for(2.0 * seen.goodput, bounds);
        let more = PerStage::from_fn(|stage| next[stage].max(bounds[stage].clamp(seen.n[stage])));
        self.phase = if more == seen.n {
            Phase::Cap { best: seen.goodput, at: seen.n, surplus: seen.goodput }
        } else {
            let expected = self.expected(seen, more, bounds);
            Phase::Ramp { best: seen.goodput, at: seen.n, expected }
        };
        more
    }

    fn cap(
        &mut self,
        seen: &Seen,
        (best, at, surplus): (f64, Concurrency, f64),
        bounds: PerStage<Bounds>,
    ) -> Concurrency {
        self.learn(seen, false);
        let mean = (surplus + seen.goodput) / 2.0;
        let harmed = best > HARMED * mean;
        let from = if harmed { at } else { seen.n };
        self.capacity = if harmed { best } else { mean };
        self.phase = Phase::Trim { from, low: None };
        let enough = self.workers_for(self.capacity, bounds);
        PerStage::from_fn(|stage| enough[stage].min(from[stage]))
    }

    fn trim(
        &mut self,
        seen: &Seen,
        (from, low): (Concurrency, Option<f64>),
        bounds: PerStage<Bounds>,
    ) -> Concurrency {
        let goodput = low.map_or(seen.goodput, |low| (low + seen.goodput) / 2.0);
        let enough = goodput >= self.config.shortfall * self.capacity;
        let cut = |stage: Stage| !bounds[stage].is_fixed() && seen.n[stage] < from[stage];
        let cut = Stage::ALL.into_iter().any(cut);
        // A plain shortfall is put down to a cut at once; without one it may be the path's recovery, and
        // one epoch must not pass for what the path carries.
        if !enough && low.is_none() && !(cut && goodput < PLAIN_SHORTFALL * self.capacity) {
            self.phase = Phase::Trim { from, low: Some(goodput) };
            return seen.n;
        }
        if !enough && cut {
            self.phase = Phase::Trim { from, low: None };
            return self.give_back(seen, from, bounds);
        }
        if !enough {
            // Nothing was taken away that could bring it back: this is what the path carries now.
            self.capacity = goodput;
        }
        self.learn(seen, false);
        let next = PerStage::from_fn(|stage| {
            let n = seen.n[stage];
            let less = ((f64::from(n) * TRIM).ceil() as u16).min(n - 1);
            bounds[stage].clamp(if self.rates[stage].known { n } else { less })
        });
        self.phase = if next == seen.n {
            Phase::Hold { epochs: 0, mean: goodput, off: 0 }
        } else {
            Phase::Trim { from: seen.n, low: None }
        };
        next
    }

    /// Undoes as much of a trim as it takes: the slowest of the stages that were cut and wait for
    /// nobody has shown what its workers do, and gets as many as that makes, at least one more.
    fn give_back(&mut self, seen: &Seen, from: Concurrency, bounds: PerStage<Bounds>) -> Concurrency {
        let cut = |stage: Stage| !bounds[stage].is_fixed() && seen.n[stage] < from[stage];
        let slowest = |suspect: &dyn Fn(Stage) -> bool| {
            let suspects = Stage::ALL.into_iter().filter(|&stage| suspect(stage));
            suspects.map(|stage| seen.mbps[stage]).reduce(f64::min)
        };
        let working = |stage| cut(stage) && seen.busy[stage];
        let (least, only_working) = match slowest(&working) {
            Some(least) => (Some(least), true),
            None => (slowest(&cut), false),
        };
        let mut next = seen.n;
        for stage in Stage::ALL {
            let suspect = if only_working { working(stage) } else { cut(stage) };
            if suspect && least.is_some_and(|least| seen.mbps[stage] <= SLOWEST * least) {
                let mbps = seen.mbps[stage] / f64::from(seen.n[stage]);
                self.rates[stage] = Rate { mbps, known: true };
                let enough = self.workers_for(self.capacity, bounds)[stage];
                next[stage] = enough.max(seen.n[stage] + 1).min(from[stage]);
            }
        }
        next
    }

    fn hold(
        &mut self,
        seen: &Seen,
        (epochs, mean, off): (u32, f64, u32),
        bounds: PerStage<Bounds>,
    ) -> Concurrency {
        let change = self.config.change;
        if (seen.goodput / mean - 1.0).abs() > change {
            if off == 1 {
                self.restart();
                return self.ramp(seen, NEW, bounds);
            }
            self.phase = Phase::Hold { epochs, mean, off: off + 1 };
            return seen.n;
        }
        let mean = mean + WEIGHT * (seen.goodput - mean);
        if mean < (1.0 - change) * self.capacity {
            self.restart();
            return self.ramp(seen, NEW, bounds);
        }
        let epochs = epochs + 1;
        if epochs < self.patience {
            self.phase = Phase::Hold { epochs, mean, off: 0 };
            return seen.n;
        }
        let more = PerStage::from_fn(|stage| {
            let n = seen.n[stage];
            bounds[stage].clamp(((f64::from(n) * PROBE).ceil() as u16).max(n.saturating_add(1)))
        });
        self.phase = Phase::Probe { mean, first: None, back: seen.n };
        more
    }

    fn probe(
        &mut self,
        seen: &Seen,
        (mean, first, back): (f64, Option<f64>, Concurrency),
        bounds: PerStage<Bounds>,
    ) -> Concurrency {
        let Some(first) = first else {
            self.phase = Phase::Probe { mean, first: Some(seen.goodput), back };
            return seen.n;
        };
        let goodput = (first + seen.goodput) / 2.0;
        if gained(mean, goodput, PROBE, self.config.probe_gain) {
            // The path carries more; what a worker moves is no less true for that.
            self.patience = self.config.probe_every;
            return self.ramp(seen, NEW, bounds);
        }
        self.patience = (self.patience * 2).min(self.config.probe_every * 4);
        self.capacity = mean;
        self.phase = Phase::Hold { epochs: 0, mean, off: 0 };
        bounds.clamp(back)
    }
}

impl Optimizer for Auto {
    fn start(&mut self, bounds: PerStage<Bounds>) -> Concurrency {
        bounds.clamp(PerStage::all(self.config.start))
    }

    fn propose(&mut self, seen: &Observation, bounds: PerStage<Bounds>) -> Concurrency {
        let Some(seen) = self.look(seen, bounds) else {
            return bounds.map(|bounds| bounds.min);
        };
        self.goodput = Some(seen.goodput);
        if seen.goodput <= 0.0 {
            // Nothing moved: hand-shakes, a stall, or the end. Nothing to learn from either.
            return bounds.clamp(seen.n);
        }
        if self.bounds.replace(bounds).is_some_and(|before| concerns(before, bounds, seen.n)) {
            self.restart();
        }
        let next = match self.phase {
            Phase::Ramp { best, at, expected } => self.ramp(&seen, (best, at, expected), bounds),
            Phase::Cap { best, at, surplus } => self.cap(&seen, (best, at, surplus), bounds),
            Phase::Trim { from, low } => self.trim(&seen, (from, low), bounds),
            Phase::Hold { epochs, mean, off } => self.hold(&seen, (epochs, mean, off), bounds),
            Phase::Probe { mean, first, back } => self.probe(&seen, (mean, first, back), bounds),
        };
        bounds.clamp(next)
    }

    fn utility(&self) -> Option<f64> {
        self.goodput
    }
}
