//! The default rule, `auto`: believe of each stage what its epochs support, try what may be better, and hold what is best.
//!
//! *Belief*: a [`PathEstimator`], one curve a stage with how sure it is. *Evidence*: what each stage moved, how sure
//! that is, and how long its workers waited. *Action*: the set-point that is expected to be best, the fewest workers that
//! are within a few percent of the most; unless
//!
//! - more would bring more with some probability, the greater the more they are: then as many as it takes (optimism in
//!   the face of uncertainty), at most a few times as many as now;
//! - or clearly fewer would do with some probability, and little is lost if not: then so few.
//!
//! Evidence fades, so that what has not been tried for long becomes credible again and is tried.
//! Why it is so: docs/decisions/0002-auto-controller.md.

use std::time::Duration;

use crate::host::Host;
use crate::observation::Observation;
use crate::optimizer::{Optimizer, Proposal};
use crate::path_estimator::{ERROR, HALF, PathEstimator, StageCurve};
use crate::path_memory::BEGINS;
use crate::share::Share;
use crate::stage::{Bounds, Concurrency, PerStage, Stage};
use crate::windowed_max::WindowedMax;

/// Readers and writers to begin with, where the host has as many processors: they cost others nothing.
const START: u16 = 8;
/// Streams to begin with, ...
const NEAR_START: u16 = 2;
/// ... and where round trips are long, or nothing is known: few show little in the first seconds.
const FAR_START: u16 = 4;
/// A round trip of a far path, at least.
const FAR: Duration = Duration::from_millis(20);
/// Factor on workers: so many times as many are tried at once. Streams that have lost packets to their own number take seconds to
/// recover.
const GROWTH: f64 = 3.0;
/// The share of the most expected that is worth no further worker: half of what a measurement is off, within these.
const WORTHLESS: (f64, f64) = (0.001, 0.02);
/// One worker more is worth a try from this probability on, several times the square of how many times as many they are, but
/// for one.
const CREDIBLE_MORE: f64 = 0.05;
/// Probability from which on fewer workers are worth a try.
const CREDIBLE_FEWER: f64 = 0.3;
/// Share of the workers: fewer than this are worth a try, ...
const FEWER: f64 = 0.75;
/// ... if no more than this share of the goodput is expected to be lost by it.
const RISK: f64 = 0.12;
/// Factor on goodput: where so much more is aimed at, a short measurement is good enough.
const STEP: f64 = 1.25;
/// A stage that was as quick within this time may be so again: the others are kept ready for it.
const RECENT: Duration = Duration::from_secs(5);

/// The rule's memory.
#[derive(Clone, Debug)]
pub struct Optimistic {
    share: Share,
    path: PathEstimator,
    /// What was moved of late, in Mbit/s.
    recent: WindowedMax,
}

/// What it is about.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Aim {
    More,
    Fewer,
    Best,
}

/// What is believed of one stage at the numbers of workers that are considered, in ascending order.
struct Prospect<'a> {
    stage: Stage,
    curve: &'a StageCurve,
    numbers: Vec<f64>,
    /// What they are expected to move, and what they do with some probability, in Mbit/s.
    expected: Vec<f64>,
    hoped: Vec<f64>,
}

/// The probability from which on `n` workers instead of those `now` are worth a try: a crowd costs more than one or two.
fn credible_more(n: f64, now: f64) -> f64 {
    CREDIBLE_MORE * ((n - 1.0) / now).max(1.0).powi(2)
}

/// The greatest of them.
fn most(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

impl<'a> Prospect<'a> {
    fn new(stage: Stage, curve: &'a StageCurve, now: f64, (first, last): (u16, u16)) -> Self {
        // Among many, neighbours differ by less than can be told.
        let next = |&n: &u16| (n < last).then(|| n.saturating_add(1 + n / 16).min(last));
        let numbers: Vec<f64> = std::iter::successors(Some(first), next).map(f64::from).collect();
        let expected: Vec<f64> = numbers.iter().map(|&n| curve.expected(n, f64::INFINITY)).collect();
        let hope = |(&n, &expected): (&f64, &f64)| {
            // That fewer would move more is not hoped for, but found.
            if n < now { expected } else { curve.possible(n, credible_more(n, now), 0.0) }
        };
        let hoped = numbers.iter().zip(&expected).map(hope).collect();
        Self { stage, curve, numbers, expected, hoped }
    }

    /// The first number for which it holds; the last if it does for none.
    fn first(&self, holds: impl Fn(usize) -> bool) -> usize {
        (0..self.numbers.len()).find(|&i| holds(i)).unwrap_or(self.numbers.len() - 1)
    }

    /// The fewest workers whose expectation is close to the most, where more than `limit` is worth nothing, and what they
    /// are expected to move of it.
    fn best(&self, limit: f64, enough: f64) -> (usize, f64) {
        let worth: Vec<f64> = self.numbers.iter().map(|&n| self.curve.expected(n, limit)).collect();
        let most = most(&worth);
        let best = self.first(|i| worth[i] >= enough * most);
        (best, worth[best])
    }

    /// Clearly fewer than the best that may do as well, if there are any, where more than `limit` is worth nothing.
    fn fewer(&self, (best, worth): (usize, f64), limit: f64, enough: f64) -> Option<usize> {
        let fewer = self.first(|i| {
            let n = self.numbers[i];
            // What is cheap first: with a limit it is no more than without.
            self.expected[i] >= (1.0 - RISK) * worth
                && self.curve.expected(n, limit) >= (1.0 - RISK) * worth
                && self.curve.possible(n, CREDIBLE_FEWER, HALF) >= enough * worth
        });
        (self.numbers[fewer] <= FEWER * self.numbers[best]).then_some(fewer)
    }
}

impl Optimistic {
    /// A rule that has seen nothing.
    pub fn new(share: Share) -> Self {
        Self { share, path: PathEstimator::default(), recent: WindowedMax::new(RECENT) }
    }

    /// What is believed of the stages that are known, those too of which the number of workers is fixed.
    fn prospects(&self, seen: &Observation, bounds: PerStage<Bounds>) -> Vec<Prospect<'_>> {
        let spent = seen.spent();
        let known =
            |stage: &Stage| PathEstimator::learns(seen, bounds, *stage) && self.path.curve(*stage).is_known();
        let prospect = |stage: Stage| {
            let (n, curve) = (f64::from(seen.concurrency[stage]), self.path.curve(stage));
            // Who waits does not hold the path back, and would not with more workers.
            let shown = PathEstimator::shown(seen, stage).min(n);
            let mut most = if spent[stage] { n } else { (shown * GROWTH).ceil().max(n) };
            if stage == Stage::Network && self.share == Share::Fair {
                let full = if self.path.is_queueing() { n } else { f64::INFINITY };
                most = most.min(self.path.fills(1.0)).min(full);
            }
            let most = bounds[stage].clamp(most as u16);
            Prospect::new(stage, curve, n, (bounds[stage].clamp((n / GROWTH) as u16).min(most), most))
        };
        Stage::ALL.into_iter().filter(known).map(prospect).collect()
    }

    /// The next set-point, what it should move, and why.
    fn decide(&self, seen: &Observation, bounds: PerStage<Bounds>) -> (Concurrency, f64, Aim) {
        let prospects = self.prospects(seen, bounds);
        let slowest =
            |of: &dyn Fn(&Prospect<'_>) -> f64| prospects.iter().map(of).fold(f64::INFINITY, f64::min);
        let goal = slowest(&|stage| most(&stage.expected));
        let hope = slowest(&|stage| most(&stage.hoped));
        let error = prospects.iter().map(|stage| seen.standard_error[stage.stage]).fold(0.0, f64::max);
        let enough = 1.0 - (error / 2.0).clamp(WORTHLESS.0, WORTHLESS.1);
        let rises = hope > (1.0 + ERROR) * goal;
        let target = if rises { hope } else { goal };
        let recent = self.recent.get(seen.at);
        let kept_for = if recent > STEP * target { recent } else { target };
        let mut fewer_may_do = false;
        let mut next = seen.concurrency;
        for stage in &prospects {
            let best = stage.best(kept_for, enough);
            let i = if rises && enough * most(&stage.expected) < target {
                stage.first(|i| stage.hoped[i] >= enough * target)
            } else if let Some(fewer) = stage.fewer(best, kept_for, enough) {
                fewer_may_do = true;
                fewer
            } else {
                best.0
            };
            if !self.path.is_in_doubt(stage.stage) {
                next[stage.stage] = stage.numbers[i].max(self.path.fewest(stage.stage)) as u16;
            }
        }
        if self.path.is_recovering() {
            next.network = seen.concurrency.network;
        }
        if self.share == Share::Background {
            next.network = bounds.network.min;
        }
        let next = bounds.clamp(next);
        let grows = Stage::ALL.into_iter().any(|stage| next[stage] > seen.concurrency[stage]);
        let aim = match (rises || grows, fewer_may_do) {
            (true, _) => Aim::More,
            (false, true) => Aim::Fewer,
            (false, false) => Aim::Best,
        };
        (next, target, aim)
    }
}

impl Optimizer for Optimistic {
    /// A short transfer ends before any rule acts, so its first set-point counts most. A host with few processors is not
    /// helped by more workers than those while nothing else is known; the streams of a far path wait more than they work,
    /// and what the other end bears from the first second is asked for.
    fn start(&mut self, bounds: PerStage<Bounds>, host: &Host) -> Proposal {
        let start = host.processors.map_or(START, |processors| START.min(processors));
        let far = host.round_trip.map_or(host.processors.is_none(), |rtt| rtt >= FAR);
        let streams = if far { FAR_START } else { NEAR_START.min(start) };
        let (mut start, mut reason) =
            (PerStage::new(start, host.streams.unwrap_or(streams), start), "begins");
        if let Some(memory) = &host.remembered {
            self.path.recall(memory);
            (start, reason) = (memory.start(bounds), BEGINS);
        }
        if self.share == Share::Background {
            start.network = 1;
        }
        Proposal {
            setpoint: bounds.clamp(start),
            reason: Some(reason),
            short_epochs: true,
            yields: self.share == Share::Background,
            ramps: self.share != Share::Background && host.remembered.is_none(),
            ..Proposal::default()
        }
    }

    fn propose(&mut self, seen: &Observation, bounds: PerStage<Bounds>) -> Proposal {
        let goodput = seen.free_goodput(bounds).as_mbps();
        if goodput <= ERROR * self.recent.get(seen.at) {
            // Hand-shakes, a stall, or the end: that says nothing of what workers can do.
            let setpoint = bounds.clamp(seen.concurrency);
            return Proposal { yields: self.share == Share::Background, ..setpoint.into() };
        }
        self.path.learn(seen, bounds);
        self.recent.add(seen.at, goodput);
        let (setpoint, target, aim) = self.decide(seen, bounds);
        let reason = match aim {
            Aim::More => "more may bring more: tries",
            Aim::Fewer => "fewer may do: tries",
            Aim::Best => "holds what is best",
        };
        Proposal {
            setpoint,
            utility: Some(goodput),
            notice: None,
            reason: Some(reason),
            short_epochs: target > STEP * goodput,
            yields: self.share == Share::Background,
            ramps: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::Streams;
    use crate::units::BitRate;

    fn start(host: &Host, share: Share, bounds: PerStage<Bounds>) -> Concurrency {
        Optimistic::new(share).start(bounds, host).setpoint
    }

    #[test]
    fn it_begins_with_what_the_hosts_are_known_to_bear() {
        let wide = PerStage::all(Bounds::new(1, 32));
        let host = |processors, ms, streams| Host {
            processors,
            round_trip: Some(Duration::from_millis(ms)),
            streams,
            remembered: None,
        };
        for (host, wanted) in [
            (Host::default(), [8, 4, 8]),
            (host(Some(1), 1, None), [1, 1, 1]),
            (Host { processors: Some(4), ..Host::default() }, [4, 2, 4]),
            (host(Some(6), 1, None), [6, 2, 6]),
            (host(Some(64), 1, None), [8, 2, 8]),
            (host(Some(1), 19, None), [1, 1, 1]),
            (host(Some(1), 20, None), [1, 4, 1]),
            (host(None, 100, None), [8, 4, 8]),
            (host(Some(1), 1, Some(8)), [1, 8, 1]),
            (host(Some(4), 100, Some(3)), [4, 3, 4]),
        ] {
            assert_eq!(start(&host, Share::Fair, wide).into_array(), wanted, "{host:?}");
            assert_eq!(start(&host, Share::Background, wide).network, 1, "{host:?}");
        }
        let narrow = PerStage::new(Bounds::fixed(1), Bounds::new(1, 4), Bounds::new(3, 4));
        let begins = start(&host(Some(1), 100, Some(8)), Share::Fair, narrow);
        assert_eq!(begins, PerStage::new(1, 4, 3), "within the bounds");
    }

    /// A second in which each stage has `n` workers that wait for nobody and move so much.
    fn second(at: u64, n: u16, mbps: [f64; 3]) -> Observation {
        Observation {
            at: Duration::from_secs(at),
            interval: Duration::from_secs(1),
            concurrency: PerStage::all(n),
            throughput: PerStage::from_fn(|stage: Stage| BitRate::from_mbps(mbps[stage as usize])),
            standard_error: PerStage::all(0.03),
            waited: PerStage::all(Some(0.0)),
            ..Observation::default()
        }
    }

    #[test]
    fn what_stands_still_teaches_nothing_until_it_has_done_so_for_long() {
        let wide = PerStage::all(Bounds::new(1, 64));
        let mut rule = Optimistic::new(Share::Full);
        rule.start(wide, &Host::default());
        for at in 1..=10 {
            rule.propose(&second(at, 8, [800.0; 3]), wide);
        }
        let before = rule.path.curve(Stage::Write).expected(8.0, f64::INFINITY);
        for at in 11..=15 {
            let next = rule.propose(&second(at, 8, [1.0; 3]), wide).setpoint;
            assert_eq!(next, PerStage::all(8), "after {} s", at - 10);
        }
        let after = rule.path.curve(Stage::Write).expected(8.0, f64::INFINITY);
        assert_eq!(after, before);
        let later: Vec<_> =
            (16..=20).map(|at| rule.propose(&second(at, 8, [1.0; 3]), wide).setpoint).collect();
        assert!(later.iter().any(|&next| next != PerStage::all(8)), "it has changed: {later:?}");
    }

    #[test]
    fn who_waits_for_a_stage_that_has_become_slow_is_kept_ready_for_a_while() {
        let wide = PerStage { write: Bounds::fixed(8), ..PerStage::all(Bounds::new(1, 64)) };
        let mut rule = Optimistic::new(Share::Full);
        rule.start(wide, &Host::default());
        for at in 1..=10 {
            rule.propose(&second(at, 8, [800.0; 3]), wide);
        }
        let waits = PerStage::new(Some(0.75), Some(0.75), Some(0.0));
        let slow = |at| Observation { waited: waits, ..second(at, 8, [200.0; 3]) };
        for at in 11..=14 {
            let next = rule.propose(&slow(at), wide).setpoint;
            assert!(next.read >= 7, "after {} s: {next:?}", at - 10);
        }
        let last = (15..=25).map(|at| rule.propose(&slow(at), wide).setpoint).last().expect("some");
        assert!(last.read <= 4, "it stays slow: {last:?}");
    }

    #[test]
    fn no_more_are_tried_than_a_few_times_those_that_were_seen_at_work() {
        let wide = PerStage::all(Bounds::new(1, 64));
        let after = |streams: u16, waited: f64, kernel: Option<Streams>| {
            let mut rule = Optimistic::new(Share::Fair);
            rule.start(wide, &Host { round_trip: Some(Duration::from_millis(1)), ..Host::default() });
            let seen = Observation {
                at: Duration::from_secs(1),
                interval: Duration::from_millis(200),
                concurrency: PerStage::new(2, streams, 2),
                streams: kernel,
                throughput: PerStage::new(BitRate::mbps(4), BitRate::mbps(1), BitRate::mbps(4)),
                standard_error: PerStage::all(0.1),
                waited: PerStage::new(Some(0.0), Some(waited), Some(0.0)),
                ..Observation::default()
            };
            rule.propose(&seen, wide).setpoint
        };
        let (idle, busy) = (after(2, 0.97, None), after(2, 0.5, None));
        assert!(idle.read > 2 && idle.network <= 2, "{idle:?}");
        assert!(busy.network > 2, "{busy:?}");
        // Of eight, two had something to send.
        let kernel = |count| Some(Streams { count, busy: 1.0, ..Streams::default() });
        let (two, all) = (after(8, 0.75, kernel(2)), after(8, 0.75, kernel(8)));
        assert!(two.network <= 8 && all.network > 8, "{two:?}, {all:?}");
    }
}
