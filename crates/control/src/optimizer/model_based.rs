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

use std::time::Duration;

use crate::observation::{CpuLoad, Observation};
use crate::optimizer::Optimizer;
use crate::stage::{Bounds, Concurrency, Ends, PerStage, Stage};
use crate::waiting::{self, SLOWEST, Waiting};

/// The rule's constants; all but the first two are relative and so free of units.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// Workers a stage to begin with. 2: no burden on a small host, and never worth finding out whether
    /// one would do.
    pub start: u16,
    /// Epochs between probes, doubled after each that finds nothing, up to four times as many. 10:
    /// a probe costs no goodput, only workers, and nothing else can notice a path that got wider.
    pub probe_every: u32,
    /// The factor by which the ramp aims higher. 4: from one worker to 256 in four steps.
    pub growth: f64,
    /// The share that must arrive for the gain to be put down to the workers alone, so that a busy
    /// stage shows what one of them moves. 0.75: leaves room for noise of 10 %.
    pub full_gain: f64,
    /// The share a probe must bring to start a new ramp. 0.3, of the mean of two epochs.
    pub probe_gain: f64,
    /// Goodput this far below the capacity, two epochs running, means a trim went too far; more where
    /// goodput strays more. 0.04: one worker too few of up to 25 shows.
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
            start: 2,
            probe_every: 10,
            growth: 4.0,
            full_gain: 0.75,
            probe_gain: 0.3,
            shortfall: 0.04,
            change: 0.2,
            margin: 0.1,
        }
    }
}

/// Workers that are not worth an epoch's shortfall to find out whether fewer would do.
const FEW: u16 = 2;
/// What a trim leaves of a stage whose need is unknown.
const TRIM: f64 = 0.6;
/// An epoch of the ramp that lasted less than this share of the next one was a short one.
const SHORT: f64 = 0.5;
/// The share of the capacity that is worth no further worker to exceed: half of what the oracle forgoes.
const ENOUGH: f64 = 0.99;
/// What twice the workers must bring for a climb to go on.
const CLIMB: f64 = 1.1;
/// A path whose round trip takes at least so long is a far one.
const FAR: Duration = Duration::from_millis(20);
/// How much higher the ramp aims there once it has more than a few workers, as streams that have lost packets to their
/// own number take seconds to recover there: so much where the last step brought all that was expected, ...
const FAR_GROWTH: f64 = 2.0;
/// ... less on the farthest, where the windows to recover are larger, ...
const FARTHEST: Duration = Duration::from_millis(60);
const FARTHEST_GROWTH: f64 = 1.5;
/// ... and at least this share of the difference where it brought less.
const FAR_STEP: f64 = 0.2;
/// On a far path this share of packets lost says that the path holds back the workers, however few they are.
const LOSSY: f64 = 0.005;
/// On the farthest paths so much more loss than in the epoch before came with the workers: the path is full. (After
/// a small change [`WOUND`] is enough: what gaps held back arrives late and at once, and looks like a gain.)
const FLOOD: f64 = 0.03;
/// Streams that have lost this share of packets there, one each or so, ...
const WOUND: f64 = 0.001;
/// ... get quicker again by this much an epoch, or have healed if twice they do not.
const HEALING: f64 = 0.02;
const HEALED: u32 = 2;
/// A shortfall of more than this share of the capacity is not theirs.
const HURT: f64 = 0.5;
/// For so many epochs at most a ramp that lost packets waits for them before it says what the path carries.
const CONVALESCENCE: u32 = 8;
/// So much more than enough stays on the farthest paths: cubic streams that have lost packets send 0.85 of their rate
/// for ten seconds or so, and others carry what is missing.
const SPARE: f64 = 1.2;
/// How much higher the ramp aims after a small change, and on the farthest paths, where a climb does no more either.
const MEND: f64 = 1.5;
const FARTHEST_MEND: f64 = 1.2;
/// How much more a probe aims at.
const PROBE: f64 = 1.2;
/// A lasting gain of this share is worth a probe at once.
const HINT: f64 = 0.02;
/// A shortfall of so many times what goodput strays needs no second epoch to be believed, within these
/// shares of the capacity.
const PLAIN: f64 = 5.0;
const PLAIN_SHORTFALL: (f64, f64) = (0.1, 0.25);
/// So many times what goodput strays above the capacity, two epochs running, is worth a probe.
const ABOVE: f64 = 1.5;
/// A host has no processor time to spare if less than this share of it is idle, ...
const IDLE: f64 = 0.1;
/// ... and this much of it is ours. Beside others' work our workers get their turn, and on a far path more
/// of them move more.
const OURS: f64 = 0.25;
/// Weight of the newest epoch in what is held for noise, and in running means.
const STRAY: f64 = 0.1;
const WEIGHT: f64 = 0.3;

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
    config: Config,
    phase: Phase,
    rates: PerStage<Rate>,
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
    /// The share of packets that epoch lost.
    lost: f64,
    /// On the farthest paths, while streams recover from losses.
    hurt: Option<Hurt>,
}

/// What is seen of streams that recover: the most since, and epochs in a row that brought no more.
#[derive(Clone, Copy, Debug, Default)]
struct Hurt {
    best: f64,
    same: u32,
}

/// One epoch, reduced to what the rule uses.
struct Seen {
    goodput: f64,
    /// The time measured.
    seconds: f64,
    n: Concurrency,
    mbps: PerStage<f64>,
    /// The stage was neither starved nor blocked when the epoch ended.
    busy: PerStage<bool>,
    /// The stage has all the processor time that its host has for us.
    spent: PerStage<bool>,
    /// Round trips take long, ...
    far: bool,
    /// ... or very long, ...
    farthest: bool,
    /// ... this share of the packets was lost (0 if not far), ...
    loss: f64,
    /// ... which is more than chance, ...
    lossy: bool,
    /// ... or enough to hold streams of the farthest paths back for a while.
    wounded: bool,
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

/// The stages that run on a host without processor time to spare; the network's workers are on both.
fn spent(cpu: Ends<Option<CpuLoad>>) -> PerStage<bool> {
    let spent = |load: Option<CpuLoad>| load.is_some_and(|load| load.idle < IDLE && load.ours >= OURS);
    let (sender, receiver) = (spent(cpu.sender), spent(cpu.receiver));
    PerStage::new(sender, sender || receiver, receiver)
}

impl ModelBased {
    /// A rule that has seen nothing.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            phase: Phase::Ramp,
            rates: PerStage::default(),
            capacity: 0.0,
            bounds: None,
            growth: config.growth,
            stray: 0.0,
            climbed: false,
            patience: config.probe_every,
            goodput: None,
            before: 0.0,
            lost: 0.0,
            hurt: None,
        }
    }

    fn look(&self, seen: &Observation, bounds: PerStage<Bounds>) -> Option<Seen> {
        let free = |stage: Stage| !bounds[stage].is_fixed();
        let mbps = seen.throughput.map(|rate| rate.as_mbps());
        let goodput = Stage::ALL.into_iter().filter(|&s| free(s)).map(|s| mbps[s]).reduce(f64::min)?;
        // Staging beside a stage with fixed bounds is not ours to judge by.
        let busy = Waiting::of(seen, PerStage::from_fn(free), self.config.margin).map(Waiting::is_busy);
        let seconds = seen.interval.as_secs_f64();
        let spent = spent(seen.cpu);
        let beyond = |rtt| seen.rtt.is_some_and(|seen| seen >= rtt);
        let (far, farthest) = (beyond(FAR), beyond(FARTHEST));
        let loss = seen.loss.filter(|_| far).unwrap_or_default();
        let (lossy, wounded) = (loss >= LOSSY, farthest && loss >= WOUND);
        let n = seen.concurrency.map(|n| n.max(1));
        Some(Seen { goodput, seconds, n, mbps, busy, spent, far, farthest, loss, lossy, wounded })
    }

    /// Learns what each stage's workers move at least.
    fn learn(&mut self, seen: &Seen) {
        for stage in Stage::ALL {
            let mbps = seen.mbps[stage] / f64::from(seen.n[stage]);
            let rate = &mut self.rates[stage];
            if rate.known != Known::Exactly {
                rate.mbps = rate.mbps.max(mbps);
            }
        }
    }

    /// The fewest workers that carry `mbps`, by what is believed.
    fn workers_for(&self, mbps: f64, bounds: PerStage<Bounds>) -> Concurrency {
        PerStage::from_fn(|stage| bounds[stage].clamp_f64((ENOUGH * mbps / self.rates[stage].mbps).ceil()))
    }

    /// The workers that carry the capacity, with spare streams on the farthest paths.
    fn enough(&self, seen: &Seen, bounds: PerStage<Bounds>) -> Concurrency {
        let mut enough = self.workers_for(self.capacity, bounds);
        if seen.farthest {
            enough.network = self.workers_for(SPARE * self.capacity, bounds).network;
        }
        enough
    }

    /// Remembers losses on the farthest paths until the streams have recovered from them.
    fn watch_losses(&mut self, seen: &Seen) {
        if seen.wounded {
            self.hurt = Some(Hurt::default());
        } else if let Some(hurt) = &mut self.hurt {
            let grew = seen.goodput > (1.0 + HEALING) * hurt.best;
            *hurt = Hurt { best: hurt.best.max(seen.goodput), same: if grew { 0 } else { hurt.same + 1 } };
            self.hurt = self.hurt.filter(|hurt| hurt.same < HEALED);
        }
    }

    /// Whether a goodput below `usual` may be that of streams that still recover.
    fn heals(&self, seen: &Seen, usual: f64) -> bool {
        self.hurt.is_some() && !seen.wounded && seen.goodput >= HURT * usual
    }

    /// The smallest difference from the capacity that is more than chance.
    fn noticed(&self) -> f64 {
        self.config.shortfall.max(self.stray)
    }

    /// Whether one epoch with this goodput is enough to say that it is too little.
    fn falls_plainly_short(&self, goodput: f64) -> bool {
        goodput < (1.0 - (PLAIN * self.stray).clamp(PLAIN_SHORTFALL.0, PLAIN_SHORTFALL.1)) * self.capacity
    }

    /// Forgets everything but what it holds for a worker's rate.
    fn restart(&mut self, growth: f64) {
        self.phase = Phase::Ramp;
        self.growth = growth;
        self.climbed = false;
        self.patience = self.config.probe_every;
    }

    /// Begins again with a ramp from where the path stands. Whatever holds it back now may be another
    /// than before, or the same with other rates.
    fn begin_again(&mut self, seen: &Seen, growth: f64, bounds: PerStage<Bounds>) -> Concurrency {
        let less = seen.goodput < self.capacity;
        self.restart(growth);
        let binding = self.binding(seen, bounds);
        for stage in Stage::ALL {
            let mbps = seen.mbps[stage] / f64::from(seen.n[stage]);
            // A small loss is put down to the rate of the workers, a large change may be the path's, and
            // a small gain says nothing of either.
            if binding[stage] && growth > MEND {
                self.rates[stage] = Rate::default();
            } else if binding[stage] && less {
                self.rates[stage] = Rate { mbps, known: Known::Exactly };
            }
        }
        self.ramp(seen, bounds)
    }

    /// The stages that hold the path back: they wait for nobody, and none is slower.
    fn binding(&self, seen: &Seen, bounds: PerStage<Bounds>) -> PerStage<bool> {
        waiting::binding(seen.mbps, seen.busy, bounds)
    }

    /// Raises what holds the path back, and what is known, to a multiple of the goodput seen. A stage
    /// that has never held it back keeps its workers until it does and so tells their rate.
    fn ramp(&mut self, seen: &Seen, bounds: PerStage<Bounds>) -> Concurrency {
        let binding = self.binding(seen, bounds);
        let mut grows = false;
        // The least that a worker moved, by what one did before.
        let mut share: f64 = 1.0;
        for stage in Stage::ALL {
            let mbps = seen.mbps[stage] / f64::from(seen.n[stage]);
            let rate = &mut self.rates[stage];
            if !binding[stage] {
                if rate.known == Known::AtLeast || mbps > (1.0 + self.config.change) * rate.mbps {
                    rate.mbps = rate.mbps.max(mbps);
                }
            } else if rate.known == Known::AtLeast {
                let few = seen.n[stage] <= FEW && !seen.lossy;
                *rate = Rate { mbps, known: if few { Known::Exactly } else { Known::Shown } };
            } else if mbps < self.config.full_gain * rate.mbps {
                // Beyond what the path carries; that fewer moved less shows that it was them, before.
                if seen.goodput > (1.0 + self.config.change) * self.before {
                    rate.known = Known::Exactly;
                }
                continue;
            } else {
                share = share.min(mbps / rate.mbps);
                // Much more than before was not chance: the workers before were not yet up to speed.
                let plain = mbps > (1.0 + self.config.change) * rate.mbps;
                let mbps = if plain { mbps } else { (rate.mbps + mbps) / 2.0 };
                *rate = Rate { mbps, known: if seen.lossy { rate.known } else { Known::Exactly } };
            }
            grows |= binding[stage] && !seen.spent[stage];
        }
        let growth =
            if seen.far && seen.n.network > FEW { self.far_growth(seen, share) } else { self.growth };
        let target = self.workers_for(growth * seen.goodput, bounds);
        let next = PerStage::from_fn(|stage| {
            let n = bounds[stage].clamp(seen.n[stage]);
            if seen.spent[stage] {
                n
            } else if self.rates[stage].known > Known::AtLeast {
                target[stage].max(n)
            } else {
                bounds[stage].clamp(n.max(FEW))
            }
        });
        let flood = if self.growth > FARTHEST_MEND { FLOOD } else { WOUND };
        let flooded = seen.farthest && seen.loss >= self.lost + flood;
        if !grows || next == seen.n || flooded {
            self.phase = Phase::Cap { surplus: seen.goodput, seconds: seen.seconds, waited: 0 };
            return seen.n;
        }
        self.phase = Phase::Ramp;
        next
    }

    /// How much higher the ramp aims on a far path, after a step in which a worker moved this share of what it had.
    fn far_growth(&self, seen: &Seen, share: f64) -> f64 {
        let (full, most) = (self.config.full_gain, if seen.farthest { FARTHEST_GROWTH } else { FAR_GROWTH });
        let step = ((share - full) / (1.0 - full)).clamp(FAR_STEP, 1.0);
        self.growth.min(1.0 + (most - 1.0) * step)
    }

    fn cap(
        &mut self,
        seen: &Seen,
        (surplus, seconds, waited): (f64, f64, u32),
        bounds: PerStage<Bounds>,
    ) -> Concurrency {
        if self.hurt.is_some() && waited < CONVALESCENCE {
            // What arrives late and at once is not what the path carries, nor is it growth.
            self.phase = Phase::Cap { surplus: seen.goodput, seconds: seen.seconds, waited: waited + 1 };
            return seen.n;
        }
        if seen.goodput > (1.0 + self.config.change) * surplus {
            // It still grows: new streams take their time.
            return self.ramp(seen, bounds);
        }
        self.learn(seen);
        if seconds < SHORT * seen.seconds && surplus < seen.goodput {
            // It ended while its new streams were still getting quicker.
            self.capacity = seen.goodput;
        } else {
            // The last epoch of the ramp may have been a short one, which says less and strays more.
            self.capacity = (surplus * seconds + seen.goodput * seen.seconds) / (seconds + seen.seconds);
            let stray = (surplus - seen.goodput).abs() / (surplus + seen.goodput);
            self.stray = self.stray.max(stray * (2.0 / (1.0 + seen.seconds / seconds)).sqrt());
        }
        self.phase = Phase::Trim { from: seen.n, low: None, again: false };
        let enough = self.enough(seen, bounds);
        PerStage::from_fn(|stage| enough[stage].min(seen.n[stage]))
    }

    fn trim(
        &mut self,
        seen: &Seen,
        (from, low, again): (Concurrency, Option<f64>, bool),
        bounds: PerStage<Bounds>,
    ) -> Concurrency {
        let goodput = low.map_or(seen.goodput, |low| (low + seen.goodput) / 2.0);
        let enough = goodput >= (1.0 - self.noticed()) * self.capacity;
        let cut = |stage: Stage| !bounds[stage].is_fixed() && seen.n[stage] < from[stage];
        let cut = Stage::ALL.into_iter().any(cut);
        if !enough && self.heals(seen, self.capacity) {
            self.phase = Phase::Trim { from, low: None, again };
            return seen.n;
        }
        // A plain shortfall is put down to a cut at once; without one it may be the path's recovery, and
        // one epoch must not pass for what the path carries.
        if !enough && low.is_none() && !(cut && self.falls_plainly_short(goodput)) {
            self.phase = Phase::Trim { from, low: Some(goodput), again };
            return seen.n;
        }
        if !enough && cut {
            self.phase = Phase::Trim { from, low: None, again: true };
            return self.give_back(seen, from, again, bounds);
        }
        if !enough {
            // Nothing was taken away that could bring it back: the path has changed.
            return self.begin_again(seen, self.config.growth, bounds);
        }
        self.learn(seen);
        let next = PerStage::from_fn(|stage| {
            let n = seen.n[stage];
            let less = ((f64::from(n) * TRIM).ceil() as u16).min(n - 1);
            bounds[stage].clamp(if self.rates[stage].known == Known::Exactly || n <= FEW { n } else { less })
        });
        if next == seen.n && again && !self.climbed {
            return self.climb(seen, goodput, seen.n, bounds);
        }
        self.phase = if next == seen.n {
            Phase::Hold { epochs: 0, mean: goodput, off: 0, above: 0 }
        } else {
            Phase::Trim { from: seen.n, low: None, again: false }
        };
        next
    }

    /// Twice as many workers (on the farthest paths a fifth more) for whatever holds the path back: what a
    /// trim took was missed although the surplus had brought less than its share, as it is among the streams
    /// of others.
    fn climb(&mut self, seen: &Seen, best: f64, back: Concurrency, bounds: PerStage<Bounds>) -> Concurrency {
        self.climbed = true;
        let binding = self.binding(seen, bounds);
        let next = PerStage::from_fn(|stage| {
            let n = seen.n[stage];
            let more = f64::from(n) * if seen.farthest { FARTHEST_MEND } else { 2.0 };
            let more = more.ceil() as u16;
            bounds[stage].clamp(if binding[stage] && !seen.spent[stage] { more } else { n })
        });
        self.phase = Phase::Climb { best, back };
        next
    }

    fn climbing(
        &mut self,
        seen: &Seen,
        (best, back): (f64, Concurrency),
        bounds: PerStage<Bounds>,
    ) -> Concurrency {
        if seen.goodput > CLIMB * best && seen.n != back {
            return self.climb(seen, seen.goodput, seen.n, bounds);
        }
        self.capacity = best;
        self.phase = Phase::Hold { epochs: 0, mean: best, off: 0, above: 0 };
        back
    }

    /// Undoes as much of a trim as it takes: the slowest of the stages that were cut and wait for
    /// nobody has shown what its workers do, and gets as many as that makes, at least one more.
    fn give_back(
        &mut self,
        seen: &Seen,
        from: Concurrency,
        again: bool,
        bounds: PerStage<Bounds>,
    ) -> Concurrency {
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
                self.rates[stage] = Rate { mbps, known: Known::Exactly };
                let enough = self.enough(seen, bounds)[stage];
                // A worker may move the less the more there are: halfway back, at least.
                let halfway = (f64::from(seen.n[stage]) * f64::from(from[stage])).sqrt() as u16;
                let least = if again { halfway } else { 0 };
                next[stage] = enough.max(least).max(seen.n[stage] + 1).min(from[stage]);
            }
        }
        next
    }

    fn hold(
        &mut self,
        seen: &Seen,
        (epochs, mean, off, above): (u32, f64, u32, u32),
        bounds: PerStage<Bounds>,
    ) -> Concurrency {
        if seen.goodput < (1.0 - self.noticed()) * mean && self.heals(seen, mean) {
            self.phase = Phase::Hold { epochs, mean, off: 0, above: 0 };
            return seen.n;
        }
        let stray = (seen.goodput / mean - 1.0).abs();
        if stray > self.config.change.max(3.0 * self.stray) {
            if off == 1 {
                return self.begin_again(seen, self.config.growth, bounds);
            }
            self.phase = Phase::Hold { epochs, mean, off: off + 1, above };
            return seen.n;
        }
        self.stray += STRAY * (stray - self.stray);
        let mean = mean + WEIGHT * (seen.goodput - mean);
        let off = mean / self.capacity - 1.0;
        if off < -self.noticed() || off > 2.0 * self.noticed() {
            // Too slow a slide, or too small a step, to be seen between two epochs.
            let mend = if seen.farthest { FARTHEST_MEND } else { MEND };
            return self.begin_again(seen, mend, bounds);
        }
        let epochs = epochs + 1;
        // A little more with the same workers: a link that got wider leaves them no more than they can
        // carry, and only a probe shows how much wider.
        let higher = seen.goodput > (1.0 + HINT.max(ABOVE * self.stray)) * self.capacity;
        let above = if higher { above + 1 } else { 0 };
        let hint = off > HINT.max(2.0 * self.stray) || above > 1;
        if epochs < self.patience && !hint {
            self.phase = Phase::Hold { epochs, mean, off: 0, above };
            return seen.n;
        }
        if hint {
            self.patience = self.config.probe_every;
        }
        let more = PerStage::from_fn(|stage| {
            let n = seen.n[stage];
            let more = ((f64::from(n) * PROBE).ceil() as u16).max(n.saturating_add(1));
            // Streams to spare show by themselves that a link got wider.
            let shows = seen.farthest && stage == Stage::Network && !hint;
            bounds[stage].clamp(if seen.spent[stage] || shows { n } else { more })
        });
        if more == seen.n {
            self.phase = Phase::Hold { epochs: 0, mean, off: 0, above: 0 };
            return seen.n;
        }
        self.phase = Phase::Probe { mean, first: None, back: seen.n };
        more
    }

    fn probe(
        &mut self,
        seen: &Seen,
        (mean, first, back): (f64, Option<f64>, Concurrency),
        bounds: PerStage<Bounds>,
    ) -> Concurrency {
        // A second epoch where the first might be chance.
        let plain = gained(mean, seen.goodput, PROBE, self.config.full_gain + PLAIN * self.stray);
        let goodput = match first {
            Some(first) => (first + seen.goodput) / 2.0,
            None if plain => seen.goodput,
            // Streams that lose packets get no quicker.
            None if seen.wounded => seen.goodput,
            None => {
                self.phase = Phase::Probe { mean, first: Some(seen.goodput), back };
                return seen.n;
            }
        };
        if gained(mean, goodput, PROBE, self.config.probe_gain) {
            // The path carries more; what a worker moves is no less true for that.
            self.patience = self.config.probe_every;
            self.growth = self.config.growth;
            return self.ramp(seen, bounds);
        }
        self.patience = (self.patience * 2).min(self.config.probe_every * 4);
        let gain = goodput / mean - 1.0;
        if gain < HINT.max(ABOVE * self.stray) {
            self.capacity = mean;
            self.phase = Phase::Hold { epochs: 0, mean, off: 0, above: 0 };
            return bounds.clamp(back);
        }
        // A little more was there to be had, and this many workers carry it.
        self.capacity = goodput;
        self.phase = Phase::Hold { epochs: 0, mean: goodput, off: 0, above: 0 };
        let more = |n: u16| (f64::from(n) * (1.0 + gain)).ceil() as u16;
        PerStage::from_fn(|stage| bounds[stage].clamp(more(back[stage]).min(seen.n[stage])))
    }
}

impl Optimizer for ModelBased {
    fn start(&mut self, bounds: PerStage<Bounds>) -> Concurrency {
        bounds.clamp(PerStage::all(self.config.start))
    }

    fn propose(&mut self, seen: &Observation, bounds: PerStage<Bounds>) -> Concurrency {
        let Some(seen) = self.look(seen, bounds) else {
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
        self.watch_losses(&seen);
        let next = match self.phase {
            Phase::Ramp => self.ramp(&seen, bounds),
            Phase::Cap { surplus, seconds, waited } => self.cap(&seen, (surplus, seconds, waited), bounds),
            Phase::Trim { from, low, again } => self.trim(&seen, (from, low, again), bounds),
            Phase::Climb { best, back } => self.climbing(&seen, (best, back), bounds),
            Phase::Hold { epochs, mean, off, above } => self.hold(&seen, (epochs, mean, off, above), bounds),
            Phase::Probe { mean, first, back } => self.probe(&seen, (mean, first, back), bounds),
        };
        self.lost = seen.loss;
        bounds.clamp(next)
    }

    fn utility(&self) -> Option<f64> {
        self.goodput
    }

    fn hurries(&self) -> bool {
        self.phase == Phase::Ramp
    }
}
