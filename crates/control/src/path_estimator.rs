//! What is believed of a path, from what it showed: one [`StageCurve`] a stage.
//!
//! What a stage moved says what its workers can do only for the time in which they worked. Those who waited for
//! staging a part of the time could have moved more: `throughput / (1 − waited)`, by the law of utilisation, where
//! a worker has its blocks to itself. A stream's blocks go through buffers of the kernel, which work while it waits, so
//! for the network that is the most there may be, and what was moved the least.
//!
//! A belief that contradicts what is seen is dropped, not averaged: an epoch is held against what was expected
//! and against a path that has changed, and where the latter explains it better, that stage begins anew.

mod recovery;
pub mod stage_curve;

use std::time::Duration;

use recovery::Recovery;
pub use stage_curve::StageCurve;

use crate::observation::Observation;
use crate::stage::{Bounds, PerStage, Stage};
use crate::waiting::Waiting;

/// Staging is empty below this fill and full above one less it, where nobody tells who waited.
const MARGIN: f64 = 0.1;
/// Workers that worked for less of the time than this say nothing of what they can do, ...
const IDLE: f64 = 0.05;
/// ... and streams that worked for less than this say only what they do at least.
const STARVED: f64 = 0.85;
/// Streams that recover may move so many times as much in the end.
const RECOVERING: f64 = 1.5;
/// Standard deviation of ln of what a stage moves that no measurement does away with.
const MIN_ERROR: f64 = 0.03;
/// Standard deviation of the share of the time that workers waited, by that share: what they would have done with it.
const WAITED_ERROR: f64 = 0.1;
/// Variance a second of ln of a worker's rate: it drifts by a tenth in 100 s.
const DRIFT: f64 = 1e-4;
/// Probability a second that a stage has changed unseen.
const HAZARD: f64 = 0.02;
/// Probability that a stage has changed in an epoch, and the standard deviation of ln of what it then does.
const CHANGE: f64 = 0.01;
const CHANGED: f64 = 0.7;
/// ln of how much likelier a change must be to be believed at once, and not when it is the likelier a second time.
const PLAIN: f64 = 5.0;
/// A stage that differs by more than what is expected after its workers were changed by more than this (ln) has another
/// curve than was thought, and has not changed.
const SAME_WORKERS: f64 = 0.5;

/// What is believed of every stage that may have more or fewer workers.
#[derive(Clone, Debug, Default)]
pub struct PathEstimator {
    curves: PerStage<StageCurve>,
    /// Epochs running in which a change was the likelier.
    doubts: PerStage<u32>,
    /// Workers of the epoch before.
    before: PerStage<f64>,
    /// Whether streams are still on their way to what they can move.
    recovery: Recovery,
}

impl PathEstimator {
    /// What is believed of a stage.
    pub fn curve(&self, stage: Stage) -> &StageCurve {
        &self.curves[stage]
    }

    /// Whether a stage seems to have changed, which a second epoch with as many workers will show.
    pub fn is_in_doubt(&self, stage: Stage) -> bool {
        self.doubts[stage] > 0
    }

    /// Whether the network's streams are still on their way to what they can move, so that nothing is to be tried.
    pub fn is_recovering(&self) -> bool {
        self.recovery.is_under_way()
    }

    /// The fewest workers that may be left of those there are.
    pub fn fewest(&self, stage: Stage) -> f64 {
        if stage == Stage::Network { self.recovery.fewest() } else { 1.0 }
    }

    /// Takes in an epoch; tells which stages have changed.
    pub fn learn(&mut self, seen: &Observation, bounds: PerStage<Bounds>) -> PerStage<bool> {
        let free = PerStage::from_fn(|stage: Stage| !bounds[stage].is_fixed());
        let waiting = Waiting::of(seen, free, MARGIN);
        self.recovery.watch(seen);
        let mut changed = PerStage::all(false);
        for stage in Stage::ALL.into_iter().filter(|&stage| free[stage]) {
            let busy = match seen.waited[stage] {
                Some(waited) => 1.0 - waited,
                None if waiting[stage].is_busy() => 1.0,
                None => 0.0,
            };
            let (n, moved) = (f64::from(seen.concurrency[stage].max(1)), seen.throughput[stage].as_mbps());
            let before = std::mem::replace(&mut self.before[stage], n);
            if moved > 0.0 {
                let error = seen.standard_error[stage].max(MIN_ERROR);
                let same = before > 0.0 && (n / before).ln().abs() < SAME_WORKERS;
                changed[stage] = self.take_in(stage, n, moved, busy, (error, seen.interval), same);
            }
        }
        changed
    }

    fn take_in(
        &mut self,
        stage: Stage,
        n: f64,
        moved: f64,
        busy: f64,
        (error, interval): (f64, Duration),
        same: bool,
    ) -> bool {
        let (curve, doubts) = (&mut self.curves[stage], &mut self.doubts[stage]);
        let seconds = interval.as_secs_f64();
        curve.forget((HAZARD * seconds).min(1.0), DRIFT * seconds);
        let recovers = stage == Stage::Network && self.recovery.is_under_way();
        let waits = stage == Stage::Network && busy < STARVED;
        if recovers || waits || busy < IDLE {
            let factor = (1.0 / busy.max(IDLE)).max(if recovers { RECOVERING } else { 1.0 });
            curve.observe_at_least(n, moved, factor, error * error);
            return false;
        }
        let able = moved / busy;
        let variance = error * error + (WAITED_ERROR * (1.0 - busy)).powi(2);
        let mut changed = false;
        if curve.is_known() && same {
            let far = (able / curve.expected(n, f64::INFINITY)).ln();
            let wide = CHANGED * CHANGED;
            let odds =
                CHANGE.ln() - 0.5 * (far * far / wide + wide.ln()) - curve.log_density(n, able, variance);
            *doubts = if odds > 0.0 { *doubts + 1 } else { 0 };
            if *doubts == 1 && odds < PLAIN {
                // It may be chance; a second such epoch is not.
                return false;
            }
            changed = *doubts > 0;
            if changed {
                (*curve, *doubts) = (StageCurve::default(), 0);
            }
        }
        curve.observe(n, able, variance);
        changed
    }
}
