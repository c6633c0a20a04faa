//! On the way up: the ramp, what is made of its end, and the climb among the streams of others.

use crate::optimizer::model_based::constants::{
    CLIMB_GROWTH, FAR_GROWTH, FARTHEST_GROWTH, FARTHEST_SMALL_GROWTH, FEW_WORKERS, FLOOD_LOSS,
    MAX_RECOVERY_EPOCHS, MIN_CLIMB_GAIN, MIN_FAR_STEP, MIN_STEP_GAIN, SHORT_EPOCH, SLOWING_LOSS,
};
use crate::optimizer::model_based::epoch::Seen;
use crate::optimizer::model_based::{Known, ModelBased, Phase, Rate, gained};
use crate::stage::{Bounds, Concurrency, PerStage, Stage};

impl ModelBased {
    /// Raises what holds the path back, and what is known, to a multiple of the goodput seen. A stage
    /// that has never held it back keeps its workers until it does and so tells their rate.
    pub(super) fn ramp(&mut self, seen: &Seen, bounds: PerStage<Bounds>) -> Concurrency {
        let binding = seen.binding(bounds);
        let mut grows = false;
        // The least that a worker moved, by what one did before.
        let mut share: f64 = 1.0;
        let rates = self.rates.map(|rate| rate.mbps);
        for stage in Stage::ALL {
            let mbps = seen.each(stage);
            let more = f64::from(seen.n[stage]) / f64::from(self.before_n[stage]);
            let brought = more <= 1.0 || gained(self.before, seen.goodput, more, MIN_STEP_GAIN);
            let rate = &mut self.rates[stage];
            if !binding[stage] {
                if rate.known == Known::AtLeast || mbps > (1.0 + self.config.change) * rate.mbps {
                    rate.mbps = rate.mbps.max(mbps);
                }
            } else if rate.known == Known::AtLeast {
                let few = seen.n[stage] <= self.few[stage] && !seen.lossy;
                *rate = Rate { mbps, known: if few { Known::Exactly } else { Known::Shown } };
            } else if mbps < self.config.full_gain * rate.mbps || !brought {
                // Beyond what the path carries; that fewer moved less shows that it was them, before.
                if seen.goodput > (1.0 + self.config.change) * self.before {
                    rate.known = Known::Exactly;
                }
                if !brought && !seen.far {
                    // It was full before this step, so what a worker moved before that one is what it can. (On far
                    // paths new streams are quicker than they will be.)
                    rate.mbps = rate.mbps.max(self.rates_before[stage]);
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
        self.rates_before = rates;
        let careful = (seen.far || self.round_trip.is_none()) && seen.n.network > FEW_WORKERS;
        let growth = if careful { self.careful_growth(seen, share) } else { self.growth };
        let target = self.workers_for(growth * seen.goodput, bounds);
        let next = PerStage::from_fn(|stage| {
            let n = bounds[stage].clamp(seen.n[stage]);
            if seen.spent[stage] {
                n
            } else if self.rates[stage].known > Known::AtLeast {
                target[stage].max(n)
            } else {
                bounds[stage].clamp(n.max(FEW_WORKERS))
            }
        });
        let flood = if self.growth > FARTHEST_SMALL_GROWTH { FLOOD_LOSS } else { SLOWING_LOSS };
        let flooded = seen.farthest && seen.loss >= self.lost + flood;
        if !grows || next == seen.n || flooded {
            self.phase = Phase::Cap { surplus: seen.goodput, seconds: seen.seconds, waited: 0 };
            return seen.n;
        }
        self.phase = Phase::Ramp;
        next
    }

    /// How much higher the ramp aims on a path that is far, or may be, after a step in which a worker moved this share
    /// of what it had.
    fn careful_growth(&self, seen: &Seen, share: f64) -> f64 {
        let (full, most) = (self.config.full_gain, if seen.farthest { FARTHEST_GROWTH } else { FAR_GROWTH });
        let step = ((share - full) / (1.0 - full)).clamp(MIN_FAR_STEP, 1.0);
        self.growth.min(1.0 + (most - 1.0) * step)
    }

    /// Stays at the surplus, longer while streams recover, and takes what the last epochs moved for the capacity.
    pub(super) fn cap(
        &mut self,
        seen: &Seen,
        (surplus, seconds, waited): (f64, f64, u32),
        bounds: PerStage<Bounds>,
    ) -> Concurrency {
        if self.loss_recovery.is_under_way() && waited < MAX_RECOVERY_EPOCHS {
            // What arrives late and at once is not what the path carries, nor is it growth.
            self.phase = Phase::Cap { surplus: seen.goodput, seconds: seen.seconds, waited: waited + 1 };
            return seen.n;
        }
        if seen.goodput > (1.0 + self.config.change) * surplus {
            // It still grows: new streams take their time.
            return self.ramp(seen, bounds);
        }
        if seen.goodput < (1.0 - self.config.change) * surplus && seen.loss >= SLOWING_LOSS && !seen.farthest
        {
            // It was a burst: until chance takes their first packet streams are quicker than they will be. Where
            // nothing is lost it was a dip, which says nothing of the workers.
            return self.begin_again(seen, self.config.growth, bounds);
        }
        self.learn(seen);
        if seconds < SHORT_EPOCH * seen.seconds && surplus < seen.goodput {
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

    /// Twice as many workers (on the farthest paths a fifth more) for whatever holds the path back: what a
    /// trim took was missed although the surplus had brought less than its share, as it is among the streams
    /// of others.
    pub(super) fn climb(
        &mut self,
        seen: &Seen,
        best: f64,
        back: Concurrency,
        bounds: PerStage<Bounds>,
    ) -> Concurrency {
        self.climbed = true;
        let binding = seen.binding(bounds);
        let next = PerStage::from_fn(|stage| {
            let n = seen.n[stage];
            let more = f64::from(n) * if seen.farthest { FARTHEST_SMALL_GROWTH } else { CLIMB_GROWTH };
            let more = more.ceil() as u16;
            bounds[stage].clamp(if binding[stage] && !seen.spent[stage] { more } else { n })
        });
        self.phase = Phase::Climb { best, back };
        next
    }

    /// Goes on as long as it pays, then back to the best.
    pub(super) fn climbing(
        &mut self,
        seen: &Seen,
        (best, back): (f64, Concurrency),
        bounds: PerStage<Bounds>,
    ) -> Concurrency {
        if seen.goodput > MIN_CLIMB_GAIN * best && seen.n != back {
            return self.climb(seen, seen.goodput, seen.n, bounds);
        }
        self.capacity = best;
        self.phase = Phase::Hold { epochs: 0, mean: best, off: 0, above: 0 };
        back
    }
}
