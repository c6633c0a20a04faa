//! What is believed of a path, from what it showed: one [`StageCurve`] a stage.
//!
//! What a stage moved says what its workers can do only for the time in which they worked. Those who waited for
//! staging a part of the time could have moved more: `throughput / (1 − waited)`, by the law of utilisation, where
//! a worker has its blocks to itself. A stream's blocks go through buffers of the kernel, which work while it waits, so
//! for the network that is the most there may be, and what was moved the least.
//!
//! A belief that contradicts what is seen is dropped, not averaged: epochs are held against what was expected
//! and against a path that has changed, and where the latter explains them plainly better, that stage begins anew.

mod recall;
mod recovery;
pub mod stage_curve;

use std::time::Duration;

use recovery::Recovery;
use stage_curve::PLAINLY;
pub use stage_curve::StageCurve;

use crate::observation::Observation;
use crate::stage::{Bounds, PerStage, Stage};
use crate::waiting::Waiting;

/// Workers that worked for less of the time than this say nothing of what they can do, ...
pub(crate) const IDLE: f64 = 0.05;
/// ... and streams that waited for more of it than this say only what they do at least. Who worked for less of it is not given more.
pub(crate) const STARVED: f64 = 0.15;
/// Streams that recover may move so many times as much in the end.
const RECOVERING: f64 = 1.5;
/// Standard deviation of ln of what a stage moves that no measurement does away with.
pub(crate) const ERROR: f64 = 0.03;
/// Share of the time that workers waited: how far off it may be what they would have done with it; and how far staging is from
/// empty or full where nobody tells who waited.
const WAITED_ERROR: f64 = 0.1;
/// Variance a second of ln of a worker's rate: it drifts by a tenth in 100 s.
const DRIFT: f64 = 1e-4;
/// Probability a second that a stage has changed unseen.
const HAZARD: f64 = 0.03;
/// Even odds; and the share that most of something is more than.
pub(crate) const HALF: f64 = 0.5;
/// Probability that a stage has changed in an epoch.
const CHANGE: f64 = 0.01;
/// Standard deviation of ln of what another stage does; and by how much ln of the workers may have been changed if what differs
/// from what is expected is to be another stage, and not another curve than was thought.
const ANOTHER: f64 = 0.7;

/// What is believed of every stage that may have more or fewer workers, or is told to wait or not.
#[derive(Clone, Debug, Default)]
pub struct PathEstimator {
    curves: PerStage<StageCurve>,
    /// ln of how much likelier what was seen is if the stage has changed, since it was last likelier that it has not (Page's
    /// test).
    doubts: PerStage<f64>,
    /// Workers of the epoch before.
    before: PerStage<f64>,
    /// Whether streams are still on their way to what they can move.
    recovery: Recovery,
    /// Whether what is remembered of a stage has not been held against it yet.
    unchecked: PerStage<bool>,
    /// What held streams back when it was last told.
    held: Held,
    /// What congestion control they have, and had when something was learned of them last.
    control: Control,
    learned: Control,
    /// Whether another one is tried, or about to be.
    tries: bool,
}

/// By what streams' congestion control goes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Control {
    #[default]
    Losses,
    /// Some by losses and some by a model, while that is tried.
    Both,
    Model,
}

impl Control {
    fn of(seen: &Observation) -> Self {
        match seen.model_based {
            share if share >= 1.0 => Self::Model,
            share if share > 0.0 => Self::Both,
            _ => Self::Losses,
        }
    }
}

/// What may hold streams back.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Held {
    /// Something of each one's own.
    #[default]
    Apart,
    /// All that is on the path.
    Together,
    /// Losses by chance, of which others have no part.
    ByChance,
}

impl PathEstimator {
    /// What is believed of a stage.
    pub fn curve(&self, stage: Stage) -> &StageCurve {
        &self.curves[stage]
    }

    /// Whether a stage seems to have changed, which a further epoch with as many workers will show.
    pub fn is_in_doubt(&self, stage: Stage) -> bool {
        CHANGE.ln() + self.doubts[stage] > 0.0
    }

    /// Whether the network's streams are still on their way to what they can move, or another congestion control is tried, so
    /// that nothing else is to be.
    pub fn is_recovering(&self) -> bool {
        self.recovery.is_under_way() || self.tries || self.control == Control::Both
    }

    /// Of how many workers an epoch showed what they can do; of none where they waited nearly always.
    pub fn shown(seen: &Observation, stage: Stage) -> f64 {
        let (n, busy) = at_work(seen, stage, 1.0 - seen.waited[stage].unwrap_or(0.0));
        if busy < STARVED { 0.0 } else { n }
    }

    /// The fewest workers that may be left of those there are.
    pub fn fewest(&self, stage: Stage) -> f64 {
        if stage == Stage::Network { self.recovery.fewest() } else { 1.0 }
    }

    /// So many streams would fill the path if nobody else used it, and so many standard deviations more; endless where that
    /// cannot be told, as each moves less the more packets are lost.
    pub fn fills(&self, deviations: f64) -> f64 {
        if self.held == Held::ByChance {
            return f64::INFINITY;
        }
        match self.held {
            Held::Together if self.recovery.has_company() => self.curves.network.fills_at_least(),
            Held::Together => self.curves.network.fills(deviations, true).ceil(),
            _ => self.curves.network.fills(deviations, false).ceil(),
        }
    }

    /// Whether a queue stands on the path, so that it is full, whoever fills it.
    pub fn is_queueing(&self) -> bool {
        self.recovery.is_queueing()
    }

    /// Whether an epoch says of a stage what it can do: one that is not ours to change may hold the path back all the same, but
    /// only who is told how long it waited can know.
    pub fn learns(seen: &Observation, bounds: PerStage<Bounds>, stage: Stage) -> bool {
        !bounds[stage].is_fixed() || seen.waited[stage].is_some()
    }

    /// Takes in an epoch; tells which stages have changed.
    pub fn learn(&mut self, seen: &Observation, bounds: PerStage<Bounds>) -> PerStage<bool> {
        let free = PerStage::from_fn(|stage: Stage| !bounds[stage].is_fixed());
        let waiting = Waiting::of(seen, free, WAITED_ERROR);
        self.follow(Control::of(seen));
        self.tries = seen.tries;
        self.recovery.watch(seen);
        self.curves.network.set_varying(self.recovery.varies());
        let mut changed = PerStage::all(false);
        // What is still on its way says nothing of either.
        let both = self.control == Control::Both || self.tries && self.control == Control::Model;
        let told = |&stage: &Stage| Self::learns(seen, bounds, stage) && !(both && stage == Stage::Network);
        for stage in Stage::ALL.into_iter().filter(told) {
            let busy = match seen.waited[stage] {
                Some(waited) => 1.0 - waited,
                None if waiting[stage].is_busy() => 1.0,
                None => 0.0,
            };
            let ((n, busy), moved) = (at_work(seen, stage, busy), seen.throughput[stage].as_mbps());
            let before = std::mem::replace(&mut self.before[stage], n);
            // What is not ours to change is learned once it was seen to hold the path back: not to do so shows no limit.
            let shows = free[stage] || self.curves[stage].is_known() || busy >= 1.0 - STARVED;
            if stage == Stage::Network && busy >= 1.0 - STARVED {
                for look in &seen.ramp {
                    let error = look.standard_error.max(ERROR);
                    self.curves[stage].observe(look.workers.into(), look.able_bps.as_mbps(), error * error);
                }
            }
            if moved > 0.0 && shows {
                let error = seen.standard_error[stage].max(ERROR);
                let same = before > 0.0 && (n / before).ln().abs() < ANOTHER;
                let grows = stage == Stage::Network && (self.recovery.grows() || seen.held > 0.0);
                changed[stage] = self.take_in(stage, n, moved, busy, (error, seen.interval), (same, grows));
                if stage == Stage::Network {
                    self.hear(n, seen.interval.as_secs_f64());
                }
            }
        }
        changed
    }

    /// Where streams have another congestion control each does something else, and the belief of the network begins anew.
    fn follow(&mut self, control: Control) {
        self.control = control;
        if control != Control::Both && std::mem::replace(&mut self.learned, control) != control {
            (self.curves.network, self.doubts.network) = (StageCurve::default(), 0.0);
            (self.before.network, self.unchecked.network, self.held) = (0.0, false, Held::default());
        }
    }

    /// Takes in what the kernel told of `n` streams in so many seconds.
    fn hear(&mut self, n: f64, seconds: f64) {
        if self.recovery.has_emptied() {
            self.curves.network.forget(n, HALF, 0.0);
        }
        if self.recovery.is_spare() {
            self.curves.network.observe_spare(n, seconds);
        }
        if self.recovery.is_full() || self.recovery.is_queueing() {
            self.curves.network.observe_full(n, seconds);
        }
        self.held = if self.recovery.is_full() || self.recovery.is_queueing() {
            Held::Together
        } else if self.recovery.is_capped() {
            Held::Apart
        } else if self.recovery.loses_by_chance() {
            Held::ByChance
        } else {
            self.held
        };
    }

    fn take_in(
        &mut self,
        stage: Stage,
        n: f64,
        moved: f64,
        busy: f64,
        (error, interval): (f64, Duration),
        (same, recovers): (bool, bool),
    ) -> bool {
        let (curve, doubt) = (&mut self.curves[stage], &mut self.doubts[stage]);
        let seconds = interval.as_secs_f64();
        if curve.is_known() {
            curve.forget(n, (HAZARD * seconds).min(1.0), DRIFT * seconds);
        }
        let waits = stage == Stage::Network && busy < 1.0 - STARVED;
        if recovers || waits || busy < IDLE {
            // Who waits could move more, between that and all that the law of utilisation has: the middle of both at least.
            let middle = busy.max(IDLE).sqrt().recip();
            let factor = middle.max(if recovers { RECOVERING } else { 1.0 });
            curve.observe_at_least(n, moved * middle, factor, error * error);
            return false;
        }
        let able = moved / busy;
        let variance = error * error + (WAITED_ERROR * (1.0 - busy)).powi(2);
        if std::mem::take(&mut self.unchecked[stage]) {
            recall::check(curve, n, able, variance);
        }
        let mut changed = false;
        if curve.is_known() && same {
            *doubt = (*doubt + odds_of_another(curve, n, able, variance)).max(0.0);
            let odds = CHANGE.ln() + *doubt;
            changed = odds >= PLAINLY;
            if changed {
                (*curve, *doubt) = (StageCurve::default(), 0.0);
            } else if odds > 0.0 {
                return false;
            }
        }
        curve.observe(n, able, variance);
        changed
    }
}

/// Workers that moved what was moved, and the share of the time for which they could, which is `busy` by the account of those
/// who may work.
///
/// One that is let go finishes its block first, which takes seconds where it is slow, and counts until then. The kernel knows
/// it best of streams. And one of those that waits for its next block may still have the last one under way, in the kernel's
/// buffers: where none was limited by us, those who were busy are who moved it all.
fn at_work(seen: &Observation, stage: Stage, busy: f64) -> (f64, f64) {
    let allowed = f64::from(seen.concurrency[stage].max(1));
    let Some(kernel) = seen.streams.filter(|_| stage == Stage::Network) else {
        let worked = allowed * busy + seen.draining[stage];
        let n = worked.max(allowed);
        return (n, worked / n);
    };
    let count = f64::from(kernel.count);
    let free = kernel.busy - kernel.receiver_limited;
    if count * kernel.busy > allowed {
        (count * kernel.busy, busy)
    } else if busy < 1.0 - STARVED && kernel.app_limited <= 0.0 && free >= IDLE {
        (count * free, 1.0)
    } else {
        (allowed, busy)
    }
}

/// ln of how much likelier it is that `n` workers are able to do so much where a stage has become another one.
fn odds_of_another(curve: &StageCurve, n: f64, able: f64, variance: f64) -> f64 {
    let far = (able / curve.expected(n, f64::INFINITY)).ln();
    let wide = ANOTHER * ANOTHER;
    -0.5 * (far * far / wide + wide.ln()) - curve.log_density(n, able, variance)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::look::Look;
    use crate::observation::Streams;
    use crate::rng::Rng;
    use crate::stage::Ends;
    use crate::units::{BitRate, ByteCount};

    const WIDE: PerStage<Bounds> = PerStage::all(Bounds::new(1, 64));

    /// A second of eight workers a stage that wait for nobody and move so much, with this standard error.
    fn second(mbps: f64, error: f64) -> Observation {
        Observation {
            interval: Duration::from_secs(1),
            concurrency: PerStage::all(8),
            throughput: PerStage::all(BitRate::from_mbps(mbps)),
            standard_error: PerStage::all(error),
            waited: PerStage::all(Some(0.0)),
            ..Observation::default()
        }
    }

    fn expects(path: &PathEstimator, stage: Stage) -> f64 {
        path.curve(stage).expected(8.0, f64::INFINITY)
    }

    /// What a drop by half after ten seconds, measured with this error, is held for in each epoch.
    fn drop_by_half(error: f64) -> [bool; 4] {
        let mut path = PathEstimator::default();
        for _ in 0..10 {
            assert_eq!(path.learn(&second(1000.0, error), WIDE), PerStage::all(false));
        }
        [(); 4].map(|()| path.learn(&second(500.0, error), WIDE).read)
    }

    #[test]
    fn who_waited_could_have_moved_more() {
        let mut path = PathEstimator::default();
        let waited = PerStage::all(Some(0.75));
        path.learn(&Observation { waited, ..second(1000.0, 0.01) }, WIDE);
        for stage in [Stage::Read, Stage::Write] {
            let able = expects(&path, stage);
            assert!((3800.0..4200.0).contains(&able), "{stage}: {able}");
        }
        // The kernel's buffers hide what its streams could do.
        let able = expects(&path, Stage::Network);
        assert!((1000.0..4000.0).contains(&able), "{able}");
    }

    #[test]
    fn a_starved_network_is_believed_to_move_at_least_what_it_moved() {
        let mut path = PathEstimator::default();
        path.learn(&second(1000.0, 0.01), WIDE);
        let starved = |mbps| Observation { waited: PerStage::all(Some(0.6)), ..second(mbps, 0.01) };
        path.learn(&starved(300.0), WIDE);
        let able = expects(&path, Stage::Network);
        assert!((950.0..1050.0).contains(&able), "less says nothing: {able}");
        path.learn(&starved(2000.0), WIDE);
        let able = expects(&path, Stage::Network);
        assert!(able >= 2000.0, "more is believed at once: {able}");
    }

    #[test]
    fn without_a_word_on_waiting_staging_tells_who_waited() {
        let mut path = PathEstimator::default();
        let size = Ends { sender: ByteCount::mib(64), receiver: ByteCount::mib(64) };
        // Full before the network, empty after it: the network waits for nobody, and both others for it.
        let free = Ends { sender: ByteCount(0), receiver: ByteCount::mib(64) };
        let waited = PerStage::all(None);
        let seen = Observation { waited, staging_capacity: size, staging_free: free, ..second(1000.0, 0.01) };
        path.learn(&seen, WIDE);
        let able = expects(&path, Stage::Network);
        assert!((950.0..1050.0).contains(&able), "{able}");
        assert!(expects(&path, Stage::Read) > 1500.0 && expects(&path, Stage::Write) > 1500.0);
    }

    #[test]
    fn a_lasting_drop_is_a_change_at_once_where_plain_and_else_a_second_time() {
        assert_eq!(drop_by_half(0.03), [true, false, false, false]);
        assert_eq!(drop_by_half(0.15), [false, true, false, false]);
        let mut path = PathEstimator::default();
        for mbps in [1000.0; 10].into_iter().chain([500.0; 2]) {
            path.learn(&second(mbps, 0.15), WIDE);
        }
        let able = expects(&path, Stage::Read);
        assert!((490.0..520.0).contains(&able), "what was before counts no more: {able}");
    }

    #[test]
    fn doubts_add_up_where_no_epoch_is_plain() {
        for seed in 0..40 {
            let mut rng = Rng::new(seed);
            let mut path = PathEstimator::default();
            let mut changed =
                |mbps: f64| path.learn(&second(mbps * rng.normal(0.0, 0.25).exp(), 0.25), WIDE).read;
            assert!((0..20).all(|_| !changed(1000.0)), "seed {seed}: noise");
            let after = (1..=20).find(|_| changed(500.0));
            assert!(after.is_some_and(|epochs| epochs <= 15), "seed {seed}: {after:?}");
        }
    }

    #[test]
    fn one_odd_epoch_is_no_change() {
        let mut path = PathEstimator::default();
        for i in 0..40 {
            let mbps = if i % 8 == 7 { 500.0 } else { 1000.0 };
            assert_eq!(path.learn(&second(mbps, 0.15), WIDE), PerStage::all(false), "epoch {i}");
        }
    }

    #[test]
    fn other_workers_that_move_something_else_are_no_change() {
        let mut path = PathEstimator::default();
        for _ in 0..5 {
            path.learn(&second(1000.0, 0.03), WIDE);
        }
        let seen = Observation { concurrency: PerStage::all(24), ..second(60.0, 0.03) };
        assert_eq!(path.learn(&seen, WIDE), PerStage::all(false));
    }

    #[test]
    fn noise_is_no_change() {
        for seed in 0..20 {
            let mut rng = Rng::new(seed);
            let mut path = PathEstimator::default();
            for epoch in 0..200 {
                let seen = second(1000.0 * rng.normal(1.0, 0.05), 0.05);
                assert_eq!(path.learn(&seen, WIDE), PerStage::all(false), "seed {seed}, epoch {epoch}");
            }
        }
    }

    #[test]
    fn streams_that_are_let_go_count_until_they_have_ended() {
        let believed = |count| {
            let mut path = PathEstimator::default();
            for _ in 0..3 {
                path.learn(&second(8.0, 0.03), WIDE);
            }
            let kernel = Streams { count, busy: 1.0, ..Streams::default() };
            for _ in 0..3 {
                let concurrency = PerStage::all(2);
                path.learn(&Observation { concurrency, streams: Some(kernel), ..second(8.0, 0.03) }, WIDE);
            }
            path.curve(Stage::Network).expected(2.0, f64::INFINITY)
        };
        assert!((7.5..8.5).contains(&believed(2)), "two do as much as eight: {}", believed(2));
        assert!(believed(8) < 6.0, "eight did it still: {}", believed(8));
    }

    #[test]
    fn workers_that_are_let_go_count_until_they_have_finished() {
        // One may work and waits for half of the time; seven others finish their blocks meanwhile.
        let believed = |draining| {
            let mut path = PathEstimator::default();
            let waited = PerStage::all(Some(0.5));
            let concurrency = PerStage::all(1);
            let draining = PerStage::all(draining);
            path.learn(&Observation { concurrency, waited, draining, ..second(75.0, 0.03) }, WIDE);
            path.curve(Stage::Write).expected(1.0, f64::INFINITY)
        };
        assert!((9.5..30.0).contains(&believed(7.0)), "seven and a half did it: {}", believed(7.0));
        assert!((140.0..160.0).contains(&believed(0.0)), "nobody else: {}", believed(0.0));
    }

    #[test]
    fn streams_that_the_kernel_kept_at_work_moved_what_they_can() {
        let believed = |busy, app_limited| {
            let mut path = PathEstimator::default();
            let kernel = Streams { count: 8, busy, app_limited, ..Streams::default() };
            let waited = PerStage::all(Some(0.9));
            let seen = Observation { waited, streams: Some(kernel), ..second(8.0, 0.03) };
            path.learn(&seen, WIDE);
            (expects(&path, Stage::Network), PathEstimator::shown(&seen, Stage::Network))
        };
        let (able, shown) = believed(1.0, 0.0);
        assert!((7.5..8.5).contains(&able) && shown == 8.0, "what waited were their workers: {able}");
        let (able, shown) = believed(0.25, 0.0);
        assert!((24.0..34.0).contains(&able) && shown == 2.0, "two of eight moved it: {able}");
        let (able, shown) = believed(1.0, 0.5);
        assert!(able > 12.0 && shown == 0.0, "there was nothing to send: {able}");
    }

    #[test]
    fn streams_that_recover_are_believed_to_move_at_least_what_they_do() {
        let far = Some(Duration::from_millis(80));
        let kernel = Some(Streams { min_rtt: far, ..Streams::default() });
        let mut path = PathEstimator::default();
        for at in 1..=10 {
            let at = Duration::from_secs(at);
            path.learn(&Observation { at, streams: kernel, ..second(1000.0, 0.03) }, WIDE);
        }
        let at = Duration::from_secs(11);
        let concurrency = PerStage::all(4);
        path.learn(&Observation { at, concurrency, streams: kernel, ..second(300.0, 0.03) }, WIDE);
        assert!(path.is_recovering());
        let able = expects(&path, Stage::Network);
        assert!((950.0..1050.0).contains(&able), "{able}");
        assert!(path.fewest(Stage::Network) > 1.0 && path.fewest(Stage::Read) <= 1.0);
    }

    #[test]
    fn of_a_path_whose_queue_is_gone_more_is_believed() {
        let ms = |ms| Some(Duration::from_millis(ms));
        let mut path = PathEstimator::default();
        for at in 1..=30 {
            // Eight streams fill it for half a minute, then none of them is held back by another.
            let (loss, rtt, spread) = if at < 30 { (0.01, 48, 0.1) } else { (0.0, 34, 0.01) };
            let kernel = Streams { count: 8, busy: 1.0, min_rtt: ms(11), spread, ..Streams::default() };
            let seen = second(13.0, 0.03);
            let (at, streams) = (Duration::from_secs(at), Some(kernel));
            path.learn(&Observation { at, loss: Some(loss), rtt: ms(rtt), streams, ..seen }, WIDE);
        }
        let more = path.curve(Stage::Network).possible(32.0, 0.3, 0.0);
        assert!(more > 26.0, "twice as much at least: {more}");
    }

    #[test]
    fn beside_others_streams_are_not_taken_for_slow_until_the_path_has_room() {
        let ms = |ms| Some(Duration::from_millis(ms));
        let kernel = Some(Streams { min_rtt: ms(20), ..Streams::default() });
        // One long flow is there: each of ours has little, and more of them more.
        let beside = |at, n: u16, mbps| Observation {
            at: Duration::from_secs(at),
            concurrency: PerStage::all(n),
            loss: Some(1e-3),
            rtt: ms(40),
            streams: kernel,
            ..second(mbps, 0.03)
        };
        let mut path = PathEstimator::default();
        for seen in [beside(1, 4, 130.0), beside(2, 4, 130.0), beside(3, 12, 300.0), beside(4, 12, 300.0)] {
            path.learn(&seen, WIDE);
        }
        let contended = path.fills(0.0);
        assert!(contended < 0.8 * path.curve(Stage::Network).fills(0.0, false), "{contended}");
        // They have left, and windows had the time to grow: what a stream does now is its own.
        for at in 5..=20 {
            path.learn(&Observation { loss: Some(0.0), rtt: ms(20), ..beside(at, 12, 600.0) }, WIDE);
        }
        let room = path.fills(0.0);
        assert_eq!(room, path.curve(Stage::Network).fills(0.0, false).ceil());
    }

    #[test]
    fn streams_that_lose_by_chance_are_not_taken_for_held_back_by_others() {
        let ms = |ms| Some(Duration::from_millis(ms));
        let kernel = Some(Streams { min_rtt: ms(20), spread: 0.3, ..Streams::default() });
        // Eight move less each than four do, with a loss in a thousand and no queue.
        let lossy = |at, n: u16, mbps, now| Observation {
            at: Duration::from_secs(at),
            concurrency: PerStage::all(n),
            loss: Some(1e-3),
            rtt: ms(now),
            streams: kernel.map(|it| Streams { count: n, ..it }),
            ..second(mbps, 0.03)
        };
        let mut path = PathEstimator::default();
        for seen in [lossy(1, 4, 100.0, 20), lossy(2, 4, 100.0, 20), lossy(3, 8, 150.0, 20)] {
            path.learn(&seen, WIDE);
        }
        assert!(path.fills(1.0).is_infinite(), "how many would fill it is not told");
        path.learn(&lossy(4, 8, 150.0, 60), WIDE);
        assert!(path.fills(1.0).is_finite(), "they are lost in a queue");
        path.learn(&lossy(5, 8, 150.0, 20), WIDE);
        assert!(path.fills(1.0).is_finite(), "which may have been there until now");
        path.learn(&lossy(6, 8, 150.0, 20), WIDE);
        assert!(path.fills(1.0).is_infinite());
        // Nothing is lost for longer than windows need to grow: what a stream does is its own.
        for at in 7..=20 {
            path.learn(&Observation { loss: Some(0.0), ..lossy(at, 8, 150.0, 20) }, WIDE);
        }
        assert!(path.fills(1.0).is_finite());
    }

    #[test]
    fn what_a_ramp_saw_of_other_numbers_is_learned_unless_streams_waited() {
        let look = |workers, mbps| Look { workers, able_bps: BitRate::mbps(mbps), standard_error: 0.1 };
        let ramp = vec![look(4, 100), look(8, 200), look(16, 390), look(32, 390)];
        let more = |ramp: &[Look], waited| {
            let mut path = PathEstimator::default();
            let seen = Observation {
                concurrency: PerStage::all(16),
                waited: PerStage::all(Some(waited)),
                ramp: ramp.to_vec(),
                ..second(390.0, 0.03)
            };
            path.learn(&seen, WIDE);
            path.curve(Stage::Network).possible(32.0, 0.2, 0.0)
        };
        assert!(more(&ramp, 0.0) < 450.0 && more(&[], 0.0) > 600.0, "it is full");
        assert_eq!(more(&ramp, 0.9), more(&[], 0.9), "there was nothing to send");
    }

    #[test]
    fn a_stage_that_is_not_ours_to_change_is_learned_once_it_holds_the_path_back() {
        let mut path = PathEstimator::default();
        let bounds = PerStage { read: Bounds::fixed(8), ..WIDE };
        let read = |waited| PerStage { read: waited, ..PerStage::all(Some(0.0)) };
        for waited in [None, Some(0.5)] {
            path.learn(&Observation { waited: read(waited), ..second(1000.0, 0.03) }, bounds);
            assert!(!path.curve(Stage::Read).is_known() && path.curve(Stage::Write).is_known(), "{waited:?}");
        }
        path.learn(&Observation { waited: read(Some(0.1)), ..second(1000.0, 0.03) }, bounds);
        let able = expects(&path, Stage::Read);
        assert!((1050.0..1200.0).contains(&able), "{able}");
    }
}
