//! The view of the policy for every path: nothing in it has a unit.
//!
//! It keeps the beliefs the model-based rule keeps (the rate of one worker a stage and how far it is
//! known, what the path carries, between how many workers the need lies), decides nothing from them,
//! and shows the network where they stand: as ratios to one another, in powers of two. The answer is
//! taken as powers of two too, off an *anchor* a stage, the workers it needs by what is believed: 0
//! keeps to the belief. A stage with fixed bounds shows zeros and is not asked.
//!
//! Beliefs go stale when the path changes. Goodput that strays from what the same workers brought, two
//! epochs running, clears them; what is held for the capacity follows goodput down whenever no fewer
//! workers bring less.

use crate::observation::Observation;
use crate::policy::features::Features;
use crate::stage::{Bounds, Concurrency, PerStage, Stage};
use crate::waiting::{Waiting, binding};

/// Epochs whose changes are shown.
const HISTORY: usize = 4;
const A_STAGE: usize = 20 + 2 * HISTORY;
const SHARED: usize = 17 + HISTORY;
/// Staging is empty or full within this share of its size.
const MARGIN: f64 = 0.1;
/// The share of the capacity that is worth no further worker to exceed.
const ENOUGH: f64 = 0.99;
/// Goodput within this share of the capacity carries it.
const CARRIED: f64 = 0.965;
/// Goodput this far from what was held, two epochs running, means a change, if it is also far beyond
/// what it strays by.
const CHANGE: f64 = 0.15;
const STRAYS: f64 = 3.0;
/// Weights of the newest epoch.
const WEIGHT: f64 = 0.3;
const STRAY: f64 = 0.1;
/// The furthest an answer goes from the anchor, in powers of two.
const REACH: (f64, f64) = (-2.5, 3.0);
/// Epochs without a surplus after which one is tried, doubled each time it finds nothing.
const PATIENCE: (u32, u32) = (10, 40);
/// How large it is, for how long, and how large after a change, where the path is held back.
const PROBE: f64 = 1.25;
const PROBED: u32 = 2;
const DOUBT: f64 = 2.0;
/// Answers this near to the workers there are, in workers and as a share, change nothing.
const STAY: (f64, f64) = (0.7, 0.02);
/// Set-points this near, in powers of two, are held to bring the same.
const SAME: f64 = 0.1;
/// A step of at least this many powers of two tells what more workers bring.
const STEP: f64 = 0.15;

/// What is believed of one stage.
#[derive(Clone, Copy, Debug, Default)]
struct Belief {
    /// What one worker moves, or moves at least, in bit/s.
    rate: f64,
    /// The stage was seen at its own speed.
    known: bool,
    /// That speed was its workers': there was one, or more moved more.
    exact: bool,
    /// The most workers that held the path back, and the fewest that did not.
    low: Option<f64>,
    high: Option<f64>,
    /// What the last step of its workers brought, in powers of two a power of two; from how many, and
    /// how many epochs ago.
    gain: f64,
    stepped_to: f64,
    stepped: u32,
}

/// One epoch as it is remembered, in logarithms to base 2.
#[derive(Clone, Copy, Debug, Default)]
struct Past {
    n: PerStage<f64>,
    moved: PerStage<f64>,
    goodput: f64,
}

/// See the module's description.
#[derive(Clone, Debug, Default)]
pub(super) struct Universal {
    beliefs: PerStage<Belief>,
    /// Goodput the path carries, in bit/s.
    capacity: f64,
    /// The fewest workers with which it did.
    carried_by: Option<Concurrency>,
    /// Mean goodput with the present set-point, the epochs it has held, and how many of the last strayed.
    mean: f64,
    held: u32,
    off: u32,
    /// How far goodput strays, relative to its mean.
    stray: f64,
    /// The most that was offered beyond what was carried, in powers of two.
    surplus: f64,
    epochs: u32,
    since_change: u32,
    /// Which way the path changed last.
    turned: f64,
    past: Vec<Past>,
    fills: [f64; 2],
    setpoint: Option<Concurrency>,
    anchor: PerStage<f64>,
    /// Nothing moved: there is nothing to decide by.
    stalled: bool,
    patience: u32,
    since_surplus: u32,
    probing: u32,
    push: PerStage<f64>,
    now: Concurrency,
}

/// log₂ of a ratio, bounded; 0 where there is no ratio.
fn log2(a: f64, b: f64) -> f64 {
    let log = (a / b).log2();
    if log.is_finite() { log.clamp(-8.0, 8.0) } else { 0.0 }
}

/// Writes one value after the other.
struct Pen<'a>(std::slice::IterMut<'a, f32>);

impl Pen<'_> {
    fn put(&mut self, value: f64) {
        if let Some(place) = self.0.next() {
            *place = if value.is_finite() { value as f32 } else { 0.0 };
        }
    }

    fn flag(&mut self, value: bool) {
        self.put(f64::from(u8::from(value)));
    }
}

/// One epoch, reduced.
struct Seen {
    n: Concurrency,
    moved: PerStage<f64>,
    goodput: f64,
    waiting: PerStage<Waiting>,
    binding: PerStage<bool>,
}

impl Universal {
    pub(super) fn new() -> Self {
        Self { patience: PATIENCE.0, ..Self::default() }
    }

    fn workers(seen: &Seen, stage: Stage) -> f64 {
        f64::from(seen.n[stage])
    }

    /// Forgets what a change makes doubtful.
    fn forget(&mut self, seen: &Seen) {
        self.turned = log2(seen.goodput, self.mean);
        for stage in Stage::ALL {
            let belief = &mut self.beliefs[stage];
            (belief.low, belief.high) = (None, None);
            if seen.binding[stage] {
                *belief = Belief::default();
            }
        }
        self.capacity = seen.goodput;
        self.carried_by = None;
        (self.since_change, self.surplus, self.held, self.off) = (0, 0.0, 0, 0);
        (self.patience, self.since_surplus, self.probing) = (PATIENCE.0, 0, PROBED + 1);
    }

    /// What the workers moved: their rate.
    fn learn_rates(&mut self, seen: &Seen) {
        let low = seen.goodput < CARRIED * self.capacity;
        for stage in Stage::ALL {
            let (n, moved) = (Self::workers(seen, stage), seen.moved[stage]);
            let belief = &mut self.beliefs[stage];
            let rate = moved / n;
            belief.stepped = belief.stepped.saturating_add(1);
            if let Some(past) = self.past.first() {
                let (dn, dg) = (n.log2() - past.n[stage], seen.goodput.log2() - past.goodput);
                if dn.abs() > STEP {
                    (belief.gain, belief.stepped_to, belief.stepped) = (dg / dn, n, 0);
                }
            }
            if !seen.waiting[stage].is_busy() {
                if rate > belief.rate {
                    belief.rate = rate;
                }
                continue;
            }
            if !belief.known {
                belief.known = true;
                belief.rate = belief.rate.max(rate);
            } else if rate > belief.rate {
                let sudden = rate > 1.25 * belief.rate;
                belief.rate += if sudden { 1.0 } else { WEIGHT } * (rate - belief.rate);
            } else if seen.binding[stage] && low {
                belief.rate += WEIGHT * (rate - belief.rate);
            }
            let before = self.past.first();
            let scaled = before.is_some_and(|past| {
                let (dn, dm) = (n.log2() - past.n[stage], moved.log2() - past.moved[stage]);
                dn.abs() > STEP && (dm - dn).abs() < 0.25 * dn.abs()
            });
            belief.exact |= n <= 1.0 || scaled;
        }
    }

    /// What the path carries, and between how many workers the need lies.
    fn learn_capacity(&mut self, seen: &Seen) {
        let no_fewer = |than: Concurrency| Stage::ALL.into_iter().all(|stage| seen.n[stage] >= than[stage]);
        let mean = if self.held > 0 { self.mean } else { seen.goodput };
        if mean > self.capacity {
            let more = mean > 1.05 * self.capacity;
            self.capacity += if more { 1.0 } else { WEIGHT } * (mean - self.capacity);
            if more {
                self.carried_by = Some(seen.n);
                Stage::ALL.into_iter().for_each(|stage| self.beliefs[stage].high = None);
            }
        } else if self.carried_by.is_some_and(no_fewer) {
            self.capacity += WEIGHT * (mean - self.capacity);
        }
        let carried = mean >= CARRIED * self.capacity;
        for stage in Stage::ALL {
            let n = Self::workers(seen, stage);
            let belief = &mut self.beliefs[stage];
            if carried {
                belief.high = Some(belief.high.map_or(n, |high| high.min(n)));
                belief.low = belief.low.filter(|&low| low < n);
            } else if seen.binding[stage] {
                belief.low = Some(belief.low.map_or(n, |low| low.max(n)));
                belief.high = belief.high.filter(|&high| high > n);
            }
        }
        let offered =
            |stage: Stage| log2(Self::workers(seen, stage) * self.beliefs[stage].rate, seen.moved[stage]);
        let bound = Stage::ALL.into_iter().filter(|&stage| seen.binding[stage]);
        let surplus = bound.map(offered).reduce(f64::min).unwrap_or(0.0);
        self.surplus = self.surplus.max(surplus);
        if surplus > 0.2 {
            self.since_surplus = 0;
        }
    }

    /// Whether goodput is what this set-point brought before.
    fn learn_mean(&mut self, seen: &Seen) {
        let near = |before: Concurrency| {
            Stage::ALL
                .into_iter()
                .all(|stage| log2(Self::workers(seen, stage), f64::from(before[stage])).abs() < SAME)
        };
        if !self.setpoint.is_some_and(near) {
            // It was cut or raised: another mean, and no judgement.
            (self.mean, self.held, self.off) = (seen.goodput, 1, 0);
            self.setpoint = Some(seen.n);
            return;
        }
        let stray = (seen.goodput / self.mean - 1.0).abs();
        if stray > CHANGE.max(STRAYS * self.stray) && self.held > 1 {
            self.off += 1;
            if self.off > 1 {
                self.forget(seen);
                (self.mean, self.held) = (seen.goodput, 1);
            }
            return;
        }
        self.off = 0;
        self.held += 1;
        if self.held > 2 {
            self.stray += STRAY.max(1.0 / f64::from(self.held)) * (stray - self.stray);
        }
        self.mean += WEIGHT.max(1.0 / f64::from(self.held)) * (seen.goodput - self.mean);
    }

    fn learn(&mut self, seen: &Seen) {
        self.epochs = self.epochs.saturating_add(1);
        self.since_change = self.since_change.saturating_add(1);
        self.since_surplus = self.since_surplus.saturating_add(1);
        self.learn_mean(seen);
        self.learn_rates(seen);
        self.learn_capacity(seen);
        self.explore(seen);
    }

    /// Decides when to try a surplus: it is seldom the best answer, but the only way to learn that the
    /// path has got wider, or what a change was.
    fn explore(&mut self, seen: &Seen) {
        self.push = PerStage::all(1.0);
        let doubt = self.since_change == 0;
        if !doubt && self.probing == 0 && self.since_surplus >= self.patience {
            self.probing = PROBED;
            self.patience = (2 * self.patience).min(PATIENCE.1);
        } else {
            self.probing = self.probing.saturating_sub(1);
        }
        if self.probing > 0 {
            self.since_surplus = 0;
            let doubt = self.since_change < PROBED && self.epochs > PROBED + 1;
            self.push = PerStage::from_fn(|stage| match (doubt, seen.binding[stage]) {
                (true, true) => DOUBT,
                (true, false) => 1.0,
                (false, _) => PROBE,
            });
        }
    }

    /// The workers a stage needs by what is believed.
    fn anchor(&self, stage: Stage, bounds: Bounds) -> f64 {
        let belief = &self.beliefs[stage];
        let mut need = (ENOUGH * self.capacity / belief.rate).ceil();
        if let Some(high) = belief.high {
            need = need.min(high);
        }
        if let Some(low) = belief.low {
            need = need.max(low + 1.0);
        }
        f64::from(bounds.clamp_f64(need))
    }

    fn show_stage(&self, pen: &mut Pen<'_>, seen: &Seen, stage: Stage, bounds: Bounds) {
        let belief = &self.beliefs[stage];
        let (n, moved, anchor) = (Self::workers(seen, stage), seen.moved[stage], self.anchor[stage]);
        pen.put(1.0);
        pen.put(n.log2() / 8.0);
        pen.put(log2(f64::from(bounds.max), n) / 4.0);
        pen.put(1.0 / anchor);
        pen.put(log2(moved, seen.goodput).min(3.0));
        pen.flag(seen.waiting[stage].starved);
        pen.flag(seen.waiting[stage].blocked);
        pen.flag(seen.binding[stage]);
        pen.put(log2(moved / n, belief.rate).clamp(-3.0, 1.0));
        pen.flag(belief.known);
        pen.flag(belief.exact);
        pen.put(log2(anchor, n).clamp(-3.0, 3.0));
        pen.put(log2(ENOUGH * self.capacity / belief.rate, anchor).clamp(-3.0, 3.0));
        pen.put(belief.high.map_or(2.0, |high| log2(high, anchor)).clamp(-2.0, 2.0));
        pen.put(belief.low.map_or(2.0, |low| log2(anchor, low)).clamp(-2.0, 2.0));
        pen.flag(anchor >= f64::from(bounds.max));
        let fresh = if belief.stepped_to > 0.0 { (-f64::from(belief.stepped) / 8.0).exp() } else { 0.0 };
        pen.put(belief.gain.clamp(-1.0, 2.0));
        pen.put(log2(belief.stepped_to, anchor).clamp(-2.0, 2.0));
        pen.put(fresh);
        pen.put(self.push[stage].log2());
        for i in 0..HISTORY {
            let past = self.past.get(i);
            pen.put(past.map_or(0.0, |past| n.log2() - past.n[stage]).clamp(-4.0, 4.0));
            pen.put(past.map_or(0.0, |past| moved.log2() - past.moved[stage]).clamp(-4.0, 4.0));
        }
    }

    fn show_shared(&mut self, pen: &mut Pen<'_>, seen: &Seen, whole: &Observation) {
        let (free, size) = (whole.staging_free, whole.staging_capacity);
        let fill =
            |free: u64, size: u64| if size == 0 { 0.0 } else { 1.0 - (free as f64 / size as f64).min(1.0) };
        let fills = [fill(free.sender.0, size.sender.0), fill(free.receiver.0, size.receiver.0)];
        let epoch = whole.interval.as_secs_f64();
        for (i, size) in [size.sender.0, size.receiver.0].into_iter().enumerate() {
            pen.put(fills[i]);
            pen.put(fills[i] - self.fills[i]);
            // Epochs of goodput it holds.
            pen.put(log2(size as f64 * 8.0, seen.goodput * epoch).clamp(-4.0, 4.0) / 2.0);
        }
        self.fills = fills;
        let since = |epochs: u32| (f64::from(epochs.min(60)) + 1.0).log2() / 3.0;
        pen.put(log2(seen.goodput, self.capacity).clamp(-2.0, 2.0));
        pen.put(log2(seen.goodput, self.mean).clamp(-2.0, 2.0));
        pen.put(since(self.epochs));
        pen.put(since(self.since_change));
        pen.put(since(self.held));
        pen.put(f64::from(self.probing) / 2.0);
        pen.put((10.0 * self.stray).min(2.0));
        pen.put(self.surplus.min(3.0));
        pen.put(self.turned.clamp(-2.0, 2.0));
        pen.put(whole.loss.map_or(0.0, |loss| (200.0 * loss).min(2.0)));
        pen.put(whole.rtt.map_or(0.0, |rtt| (5.0 * rtt.as_secs_f64() / epoch.max(0.01)).min(1.0)));
        for i in 0..HISTORY {
            let goodput = seen.goodput.log2();
            pen.put(self.past.get(i).map_or(0.0, |past| goodput - past.goodput).clamp(-4.0, 4.0));
        }
    }
}

impl Features for Universal {
    fn inputs(&self) -> usize {
        3 * A_STAGE + SHARED
    }

    fn heads(&self) -> usize {
        3
    }

    fn start(&self, bounds: PerStage<Bounds>) -> Concurrency {
        bounds.map(|bounds| bounds.min)
    }

    fn reset(&mut self) {
        *self = Self::new();
    }

    fn encode(&mut self, whole: &Observation, bounds: PerStage<Bounds>, state: &mut [f32]) {
        state.fill(0.0);
        let n = whole.concurrency.map(|n| n.max(1));
        let moved = whole.throughput.map(|rate| rate.0 as f64);
        let free = |stage: &Stage| !bounds[*stage].is_fixed();
        // A stage with fixed bounds can hold the path back all the same, if it is seen at all.
        let counts = PerStage::from_fn(|stage| free(&stage) || moved[stage] > 0.0);
        let slowest = Stage::ALL.into_iter().filter(|&stage| counts[stage]).map(|stage| moved[stage]);
        let goodput = slowest.reduce(f64::min).unwrap_or(0.0);
        self.stalled = goodput <= 0.0;
        (self.anchor, self.now, self.push) = (n.map(f64::from), n, PerStage::all(1.0));
        if self.stalled {
            return;
        }
        let waiting = Waiting::of(whole, counts, MARGIN);
        let binding = binding(moved, waiting.map(Waiting::is_busy), bounds);
        let seen = Seen { n, moved, goodput, waiting, binding };
        self.learn(&seen);
        self.anchor = PerStage::from_fn(|stage| self.anchor(stage, bounds[stage]));
        let mut pen = Pen(state.iter_mut());
        for stage in Stage::ALL {
            if free(&stage) {
                self.show_stage(&mut pen, &seen, stage, bounds[stage]);
            } else {
                (0..A_STAGE).for_each(|_| pen.put(0.0));
            }
        }
        self.show_shared(&mut pen, &seen, whole);
        self.past.insert(
            0,
            Past { n: n.map(|n| f64::from(n).log2()), moved: moved.map(f64::log2), goodput: goodput.log2() },
        );
        self.past.truncate(HISTORY);
    }

    fn anchor(&self) -> Option<PerStage<f64>> {
        (!self.stalled).then_some(self.anchor)
    }

    fn decode(&self, action: &[f32], bounds: PerStage<Bounds>) -> Concurrency {
        let answer = |stage: Stage, head: usize| {
            let now = f64::from(self.now[stage]);
            if self.stalled {
                return bounds[stage].clamp_f64(now);
            }
            let offset = f64::from(action[head]).clamp(REACH.0, REACH.1);
            let wanted = self.anchor[stage] * offset.exp2() * self.push[stage];
            let stays = self.push[stage] == 1.0 && (wanted - now).abs() < STAY.0.max(STAY.1 * now);
            bounds[stage].clamp_f64(if stays { now } else { wanted })
        };
        PerStage::new(answer(Stage::Read, 0), answer(Stage::Network, 1), answer(Stage::Write, 2))
    }
}
