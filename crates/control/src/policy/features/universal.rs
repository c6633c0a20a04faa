//! The view of the policy for every path: nothing in it has a unit.
//!
//! What is believed of the path is a [`PathEstimator`]'s; nothing is decided from it here. The network is shown, a stage,
//! what numbers of workers from half to four times those there are should move by what the path should carry, and how
//! sure that is; how many workers carry it; how far the epoch was from what was expected; and how long its workers waited.
//! The answer is taken in powers of two off an *anchor* a stage, the workers it needs by what is believed: 0 keeps to the
//! belief. A stage with fixed bounds, or of which nothing is known, shows zeros and is not asked.

use crate::observation::Observation;
use crate::path_estimator::PathEstimator;
use crate::policy::features::Features;
use crate::stage::{Bounds, Concurrency, PerStage, Stage};

/// Epochs whose changes are shown.
const HISTORY: usize = 4;
/// Numbers of workers that are shown, by those there are.
const NUMBERS: [f64; 6] = [0.5, 0.7, 1.0, 1.4, 2.0, 4.0];
const A_STAGE: usize = 13 + 2 * NUMBERS.len() + 2 * HISTORY;
const SHARED: usize = 12 + HISTORY;
/// Share of what the path should carry that is worth no further worker to exceed.
const ENOUGH: f64 = 0.98;
/// The furthest an answer goes from the anchor, in powers of two.
const REACH: (f64, f64) = (-2.5, 3.0);
/// Answers this near to the workers there are, in workers and as a share, change nothing.
const STAY: (f64, f64) = (0.7, 0.02);
/// Factor on workers: so many more are a step on the way up, for which a short measurement is good enough.
const STEP: f64 = 1.25;
/// Workers a stage to begin with.
const START: u16 = 2;

/// One epoch as it is remembered, in logarithms to base 2.
#[derive(Clone, Copy, Debug, Default)]
struct Past {
    n: PerStage<f64>,
    moved: PerStage<f64>,
    goodput: f64,
}

/// What is believed of one stage, as far as it is shown.
#[derive(Clone, Copy, Debug, Default)]
struct Outlook {
    known: bool,
    /// What the workers there are were expected to move before the epoch; 0 if nothing was.
    before: f64,
    /// What each number of workers should move, and the standard deviation as a share of it.
    moved: [(f64, f64); NUMBERS.len()],
    /// Workers that move enough, and how sure that is: the standard deviation of its ln.
    need: (f64, f64),
}

/// See the module's description.
#[derive(Clone, Debug, Default)]
pub(super) struct Universal {
    path: PathEstimator,
    /// Epochs since a stage has changed.
    unchanged: PerStage<u32>,
    epochs: u32,
    past: Vec<Past>,
    fills: [f64; 2],
    anchor: PerStage<f64>,
    now: Concurrency,
    /// Nothing moved: there is nothing to decide by.
    stalled: bool,
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

/// One epoch, reduced; rates in Mbit/s.
struct Seen<'a> {
    n: Concurrency,
    moved: PerStage<f64>,
    goodput: f64,
    whole: &'a Observation,
}

impl Universal {
    pub(super) fn new() -> Self {
        Self::default()
    }

    fn expected(&self, stage: Stage, n: u16) -> f64 {
        let curve = self.path.curve(stage);
        if curve.is_known() { curve.outlook(n.into()).0 } else { 0.0 }
    }

    /// Takes in an epoch; what is believed then, and what the path should carry with at most so many more workers.
    fn learn(&mut self, seen: &Seen<'_>, bounds: PerStage<Bounds>) -> (PerStage<Outlook>, f64) {
        let before = PerStage::from_fn(|stage| self.expected(stage, seen.n[stage]));
        let changed = self.path.learn(seen.whole, bounds);
        self.epochs = self.epochs.saturating_add(1);
        self.unchanged =
            PerStage::from_fn(
                |stage| {
                    if changed[stage] { 0 } else { self.unchanged[stage].saturating_add(1) }
                },
            );
        let mut outlooks = PerStage::from_fn(|stage| {
            let curve = self.path.curve(stage);
            let known = !bounds[stage].is_fixed() && curve.is_known();
            let n = f64::from(seen.n[stage]);
            let moved = |ratio: f64| {
                if known { curve.outlook(bounds[stage].clamp_f64(ratio * n).into()) } else { (0.0, 0.0) }
            };
            Outlook { known, before: before[stage], moved: NUMBERS.map(moved), need: (n, 0.0) }
        });
        let most = |outlook: &Outlook| outlook.moved.iter().map(|moved| moved.0).fold(0.0, f64::max);
        let known = Stage::ALL.into_iter().filter(|&stage| outlooks[stage].known);
        let goal = known.map(|stage| most(&outlooks[stage])).fold(f64::INFINITY, f64::min);
        for stage in Stage::ALL {
            if !outlooks[stage].known {
                continue;
            }
            let most = NUMBERS[NUMBERS.len() - 1] * f64::from(seen.n[stage]);
            let most = f64::from(bounds[stage].clamp_f64(most));
            outlooks[stage].need = self.path.curve(stage).need(goal, ENOUGH, most);
        }
        self.anchor = PerStage::from_fn(|stage| {
            let (need, deviation) = outlooks[stage].need;
            // A tenth of a worker is chance.
            bounds[stage].clamp_f64((need * deviation.exp() - 0.1).ceil()).into()
        });
        (outlooks, goal)
    }

    fn show_stage(
        &self,
        pen: &mut Pen<'_>,
        seen: &Seen<'_>,
        (stage, bounds): (Stage, Bounds),
        outlook: &Outlook,
        goal: f64,
    ) {
        let curve = self.path.curve(stage);
        let (n, moved) = (f64::from(seen.n[stage]), seen.moved[stage]);
        let waited = seen.whole.waited[stage].unwrap_or(0.0);
        pen.put(1.0);
        pen.put(n.log2() / 8.0);
        pen.put(log2(f64::from(bounds.max), n) / 4.0);
        pen.put(1.0 / self.anchor[stage]);
        pen.put(log2(self.anchor[stage], n).clamp(-3.0, 3.0));
        pen.put((4.0 * outlook.need.1).min(3.0));
        pen.put(log2(moved, seen.goodput).min(3.0));
        pen.put(waited);
        // A stage of which nothing was known is as it was expected.
        pen.put(log2(moved / (1.0 - waited).max(0.05), outlook.before).clamp(-3.0, 3.0));
        pen.flag(self.path.is_in_doubt(stage));
        pen.put((-f64::from(self.unchanged[stage]) / 8.0).exp());
        let fills = curve.fills(0.0, false);
        pen.put(log2(fills, self.anchor[stage]).clamp(-3.0, 3.0));
        pen.put(log2(curve.fills(1.0, false), fills).min(3.0));
        for (moved, spread) in outlook.moved {
            pen.put(log2(moved, goal).clamp(-3.0, 2.0));
            pen.put((2.0 * spread).min(3.0));
        }
        for i in 0..HISTORY {
            let past = self.past.get(i);
            pen.put(past.map_or(0.0, |past| n.log2() - past.n[stage]).clamp(-4.0, 4.0));
            pen.put(past.map_or(0.0, |past| moved.log2() - past.moved[stage]).clamp(-4.0, 4.0));
        }
    }

    fn show_shared(&mut self, pen: &mut Pen<'_>, seen: &Seen<'_>, goal: f64) {
        let whole = seen.whole;
        let (free, size) = (whole.staging_free, whole.staging_capacity);
        let fill =
            |free: u64, size: u64| if size == 0 { 0.0 } else { 1.0 - (free as f64 / size as f64).min(1.0) };
        let fills = [fill(free.sender.0, size.sender.0), fill(free.receiver.0, size.receiver.0)];
        let epoch = whole.interval.as_secs_f64();
        for (i, size) in [size.sender.0, size.receiver.0].into_iter().enumerate() {
            pen.put(fills[i]);
            pen.put(fills[i] - self.fills[i]);
            // Epochs of goodput it holds.
            pen.put(log2(size as f64 * 8.0, seen.goodput * 1e6 * epoch).clamp(-4.0, 4.0) / 2.0);
        }
        self.fills = fills;
        pen.put(log2(seen.goodput, goal).clamp(-2.0, 2.0));
        pen.put((f64::from(self.epochs.min(60)) + 1.0).log2() / 3.0);
        pen.put(epoch.min(1.0));
        let error = Stage::ALL.into_iter().map(|stage| whole.standard_error[stage]).fold(0.0, f64::max);
        pen.put((10.0 * error).min(2.0));
        pen.put(whole.loss.map_or(0.0, |loss| (20.0 * loss).min(2.0)));
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
        bounds.map(|bounds| bounds.clamp(START))
    }

    fn reset(&mut self) {
        *self = Self::new();
    }

    fn encode(&mut self, whole: &Observation, bounds: PerStage<Bounds>, state: &mut [f32]) {
        state.fill(0.0);
        let n = whole.concurrency.map(|n| n.max(1));
        let moved = whole.throughput.map(|rate| rate.as_mbps());
        // A stage with fixed bounds can hold the path back all the same, if it is seen at all.
        let counts = |stage: &Stage| !bounds[*stage].is_fixed() || moved[*stage] > 0.0;
        let slowest = Stage::ALL.into_iter().filter(counts).map(|stage| moved[stage]);
        let goodput = slowest.reduce(f64::min).unwrap_or(0.0);
        self.stalled = goodput <= 0.0;
        (self.anchor, self.now) = (n.map(f64::from), n);
        if self.stalled {
            return;
        }
        let seen = Seen { n, moved, goodput, whole };
        let (outlooks, goal) = self.learn(&seen, bounds);
        let mut pen = Pen(state.iter_mut());
        for stage in Stage::ALL {
            if outlooks[stage].known {
                self.show_stage(&mut pen, &seen, (stage, bounds[stage]), &outlooks[stage], goal);
            } else {
                (0..A_STAGE).for_each(|_| pen.put(0.0));
            }
        }
        self.show_shared(&mut pen, &seen, goal);
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
            // Streams on their way to what they can move are let be.
            if self.stalled || (stage == Stage::Network && self.path.is_recovering()) {
                return bounds[stage].clamp_f64(now);
            }
            let offset = f64::from(action[head]).clamp(REACH.0, REACH.1);
            let wanted = (self.anchor[stage] * offset.exp2()).max(self.path.fewest(stage));
            let stays = (wanted - now).abs() < STAY.0.max(STAY.1 * now);
            bounds[stage].clamp_f64(if stays { now } else { wanted })
        };
        PerStage::new(answer(Stage::Read, 0), answer(Stage::Network, 1), answer(Stage::Write, 2))
    }

    fn short_epochs(&self, next: Concurrency) -> bool {
        Stage::ALL.into_iter().any(|stage| f64::from(next[stage]) >= STEP * f64::from(self.now[stage]))
    }
}
