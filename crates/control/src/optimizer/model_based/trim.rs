//! On the way down: removing what is not needed, and giving back what was.

use crate::optimizer::model_based::constants::{
    ALWAYS_PLAIN, FEW_WORKERS, MIN_PLAIN, NEARLY_ALL, PLAIN_STRAYS, TRIM_SHARE,
};
use crate::optimizer::model_based::epoch::Seen;
use crate::optimizer::model_based::{Known, ModelBased, Phase, Rate};
use crate::stage::{Bounds, Concurrency, PerStage, Stage};
use crate::waiting::SLOWEST;

impl ModelBased {
    /// Keeps a cut that still carries the capacity, and cuts what may be cut further.
    pub(super) fn trim(
        &mut self,
        seen: &Seen,
        (from, low, again): (Concurrency, Option<f64>, bool),
        bounds: PerStage<Bounds>,
    ) -> Concurrency {
        let goodput = low.map_or(seen.goodput, |low| (low + seen.goodput) / 2.0);
        let enough = goodput >= (1.0 - self.noticed()) * self.capacity;
        let cut = |stage: Stage| !bounds[stage].is_fixed() && seen.n[stage] < from[stage];
        let cut = Stage::ALL.into_iter().any(cut);
        if !enough && self.loss_recovery.explains(seen, self.capacity) {
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
            let less = ((f64::from(n) * TRIM_SHARE).ceil() as u16).min(n - 1);
            bounds[stage].clamp(if self.rates[stage].known == Known::Exactly || n <= FEW_WORKERS {
                n
            } else {
                less
            })
        });
        if next == seen.n && again && !self.climbed && self.was_missed(seen, from, bounds) {
            return self.climb(seen, goodput, seen.n, bounds);
        }
        self.phase = if next == seen.n {
            Phase::Hold { epochs: 0, mean: goodput, off: 0, above: 0 }
        } else {
            Phase::Trim { from: seen.n, low: None, again: false }
        };
        next
    }

    /// Whether what a trim took had to be given back nearly whole, to a stage that holds the path back.
    fn was_missed(&self, seen: &Seen, from: Concurrency, bounds: PerStage<Bounds>) -> bool {
        let binding = seen.binding(bounds);
        let back = |stage: Stage| f64::from(seen.n[stage]) > NEARLY_ALL * f64::from(from[stage]);
        Stage::ALL.into_iter().any(|stage| binding[stage] && back(stage))
    }

    /// Whether one epoch with this goodput is enough to say that it is too little.
    fn falls_plainly_short(&self, goodput: f64) -> bool {
        goodput < (1.0 - (PLAIN_STRAYS * self.stray).clamp(MIN_PLAIN, ALWAYS_PLAIN)) * self.capacity
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
                let mbps = seen.each(stage);
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
}
