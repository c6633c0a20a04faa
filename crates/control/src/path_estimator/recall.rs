//! What is remembered of a path, as a belief to begin with: so weak that the first epochs that contradict it undo it.

use crate::path_estimator::{ERROR, HALF, PathEstimator, StageCurve, odds_of_another};
use crate::path_memory::PathMemory;
use crate::stage::{PerStage, Stage};

impl PathEstimator {
    /// Begins with what is remembered.
    pub fn recall(&mut self, memory: &PathMemory) {
        self.curves = PerStage::from_fn(|stage: Stage| {
            let mut curve = StageCurve::default();
            for look in memory.stages[stage].sound() {
                let (n, error) = (f64::from(look.workers), look.standard_error);
                curve.observe(n, look.able_bps.as_mbps(), error.max(ERROR).powi(2));
            }
            if curve.is_known() {
                // It may be another one by now, or its workers half as quick again. With less of either (0.3), one in 200 drawn
                // paths with a memory of a narrower link stayed at its numbers.
                curve.forget(f64::from(memory.stages[stage].workers.max(1)), HALF, HALF * HALF);
            }
            self.unchecked[stage] = curve.is_known();
            curve
        });
    }
}

/// Forgets what is remembered of a stage if its first epoch is likelier where it is another one.
pub(super) fn check(curve: &mut StageCurve, n: f64, able: f64, variance: f64) {
    if odds_of_another(curve, n, able, variance) > 0.0 {
        *curve = StageCurve::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::look::Look;
    use crate::observation::Observation;
    use crate::path_memory::StageMemory;
    use crate::stage::Bounds;
    use crate::units::BitRate;
    use std::time::Duration;

    /// Sixteen workers fill 1.6 Gbit/s, as eight and 32 have shown.
    fn memory() -> PathMemory {
        let look = |workers, mbps| Look { workers, able_bps: BitRate::mbps(mbps), standard_error: 0.03 };
        let stage = StageMemory {
            workers: 16,
            throughput_bps: BitRate::mbps(1600),
            looks: vec![look(8, 800), look(16, 1600), look(32, 1600)],
        };
        PathMemory { stages: PerStage::from_fn(|_| stage.clone()), ..PathMemory::default() }
    }

    /// What 64 workers are hoped to move after a second in which 16 moved so much.
    fn hoped(path: &mut PathEstimator, mbps: u64) -> f64 {
        let seen = Observation {
            interval: Duration::from_secs(1),
            concurrency: PerStage::all(16),
            throughput: PerStage::all(BitRate::mbps(mbps)),
            standard_error: PerStage::all(0.03),
            waited: PerStage::all(Some(0.0)),
            ..Observation::default()
        };
        path.learn(&seen, PerStage::all(Bounds::new(1, 64)));
        path.curve(Stage::Read).expected(64.0, f64::INFINITY)
    }

    #[test]
    fn what_is_remembered_is_believed_until_it_is_contradicted() {
        // What more workers are hoped to bring, by what they are hoped to without a memory.
        let brings = |mbps: u64| {
            let mut path = PathEstimator::default();
            path.recall(&memory());
            let moved = mbps as f64;
            (hoped(&mut path, mbps) - moved) / (hoped(&mut PathEstimator::default(), mbps) - moved)
        };
        let (right, less, more) = (brings(1600), brings(400), brings(6400));
        assert!(right < 0.8, "more bring nothing: {right}");
        assert_eq!((less, more), (1.0, 1.0), "nothing is left of it");
    }

    #[test]
    fn what_makes_no_sense_is_no_belief() {
        let look = |workers, bps, standard_error| Look { workers, able_bps: BitRate(bps), standard_error };
        let looks = vec![look(0, 1, 0.1), look(1, 0, 0.1), look(1, 1, f64::NAN), look(1, 1, -1.0)];
        let stage = StageMemory { workers: u16::MAX, looks, ..StageMemory::default() };
        let mut path = PathEstimator::default();
        path.recall(&PathMemory { stages: PerStage::from_fn(|_| stage.clone()), ..PathMemory::default() });
        assert!(Stage::ALL.iter().all(|&stage| !path.curve(stage).is_known()));
    }
}
