//! Sample, fit, hold: the estimation of EOS (Yin, Yildirim, Kosar et al.) driving a live transfer.
//!
//! The first epochs are the samples: n doubles until a stream more brings too little. A throughput model is
//! fitted to them and its optimum held. What the first epochs there show that the model did not say becomes a
//! sample too, and the models are asked again. A lasting change of goodput begins anew.
//!
//! The paper estimates once, before a transfer. What it cannot notice, neither can this rule: a path that got
//! wider while each stream moves what it did.

use crate::optimizer::{StageOptimizer, StageProposal, StageSample};
use crate::stage::Bounds;
use crate::throughput_model::choice::{Reason, choose_by};
use crate::throughput_model::sampling::{self, Threshold};
use crate::throughput_model::{Choice, Doubling, ModelSelection, Sample};
use crate::units::BitRate;

/// The rule's constants.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ModelFitConfig {
    /// Which models are asked.
    pub models: ModelSelection,
    /// What a stream more must add for sampling to go on.
    pub threshold: Threshold,
    /// How far what is held may be from the prediction before it is a sample to learn from. 0.15: thrice what
    /// samples stray.
    pub surprise: f64,
    /// How far goodput may be from what was held, relative to it, ... 0.2, as for the model-based rule.
    pub change: f64,
    /// ... and for how many epochs, before the path counts as changed. 3: beyond noise of 10 %.
    pub patience: u32,
}

impl Default for ModelFitConfig {
    fn default() -> Self {
        let threshold = sampling::SamplingConfig::up_to(1).threshold;
        Self { models: ModelSelection::default(), threshold, surprise: 0.15, change: 0.2, patience: 3 }
    }
}

/// Epochs at a new set-point before it is judged.
const FIRST: u32 = 2;
/// Times the models are asked again before they are taken at their word.
const REVISIONS: u32 = 3;
/// Epochs in a row with another n than the one asked for, before sampling ends with what there is.
const DISOBEYED: u32 = 3;
/// Weight of the newest epoch in the mean of what is held.
const WEIGHT: f64 = 0.2;

#[derive(Clone, Debug)]
enum Phase {
    /// Measuring one n after another; so many epochs in a row had another n.
    Sample { doubling: Doubling, disobeyed: u32 },
    /// At the optimum.
    Hold(Hold),
}

#[derive(Clone, Debug)]
struct Hold {
    choice: Choice,
    /// The most that was allowed when it was chosen.
    most: u16,
    epochs: u32,
    /// Mean goodput in Mbit/s.
    mean: f64,
    /// Epochs in a row that were far from it.
    off: u32,
}

/// The rule between two epochs.
#[derive(Clone, Debug)]
pub struct ModelFit {
    config: ModelFitConfig,
    /// None before the first epoch.
    phase: Option<Phase>,
    /// What was seen since the path last changed.
    samples: Vec<Sample>,
    revisions: u32,
}

impl ModelFit {
    /// A rule that has seen nothing.
    pub const fn new(config: ModelFitConfig) -> Self {
        Self { config, phase: None, samples: Vec::new(), revisions: 0 }
    }

    /// What the models said when the set-point was chosen; none while sampling.
    pub const fn choice(&self) -> Option<&Choice> {
        match &self.phase {
            Some(Phase::Hold(hold)) => Some(&hold.choice),
            _ => None,
        }
    }

    /// Begins to sample; the n of the first sample.
    fn sample(&mut self, bounds: Bounds) -> u16 {
        self.samples.clear();
        self.revisions = 0;
        let config = sampling::SamplingConfig {
            threshold: self.config.threshold,
            first: bounds.min,
            ..sampling::SamplingConfig::up_to(bounds.max)
        };
        self.phase = Some(Phase::Sample { doubling: Doubling::new(config), disobeyed: 0 });
        bounds.min
    }

    /// Asks the models and holds what they say.
    fn hold(&mut self, bounds: Bounds) -> u16 {
        let choice = choose_by(&self.samples, bounds.max, &self.config.models.options());
        let n = bounds.clamp(choice.streams);
        let mean = choice.throughput.as_mbps();
        self.phase = Some(Phase::Hold(Hold { choice, most: bounds.max, epochs: 0, mean, off: 0 }));
        n
    }

    /// The n after an epoch of sampling.
    fn sampled(&mut self, mut doubling: Doubling, disobeyed: u32, seen: Sample, bounds: Bounds) -> u16 {
        self.samples.push(seen);
        let obeyed = doubling.next() == Some(seen.streams);
        let next = if obeyed { doubling.record(seen.throughput) } else { doubling.next() };
        let disobeyed = if obeyed { 0 } else { disobeyed + 1 };
        match next.filter(|&next| bounds.clamp(next) == next && disobeyed < DISOBEYED) {
            Some(next) => {
                self.phase = Some(Phase::Sample { doubling, disobeyed });
                next
            }
            None => self.hold(bounds),
        }
    }

    /// The n after an epoch of holding.
    fn held(&mut self, mut hold: Hold, seen: Sample, bounds: Bounds) -> u16 {
        let n = bounds.clamp(hold.choice.streams);
        // What was chosen is no longer allowed, or what was wished for is now.
        let narrowed = n != hold.choice.streams && hold.most != bounds.max;
        if narrowed || (hold.choice.reason == Reason::Bound && bounds.max > hold.most) {
            return self.hold(bounds);
        }
        if seen.streams != n {
            self.phase = Some(Phase::Hold(hold));
            return n;
        }
        let mbps = seen.throughput.as_mbps();
        hold.epochs += 1;
        if hold.epochs <= FIRST {
            let share = f64::from(hold.epochs).recip();
            hold.mean = (1.0 - share) * hold.mean + share * mbps;
            if hold.epochs == FIRST && self.is_surprised(&hold) {
                self.revisions += 1;
                self.samples.push(Sample::new(n, BitRate::from_mbps(hold.mean)));
                return self.hold(bounds);
            }
        } else if (mbps - hold.mean).abs() > self.config.change * hold.mean {
            hold.off += 1;
            if hold.off >= self.config.patience {
                return self.sample(bounds);
            }
        } else {
            hold.off = 0;
            hold.mean += WEIGHT * (mbps - hold.mean);
        }
        self.phase = Some(Phase::Hold(hold));
        n
    }

    /// Whether the models had not said what `hold` shows, and may be asked again.
    fn is_surprised(&self, hold: &Hold) -> bool {
        let predicted = hold.choice.throughput.as_mbps();
        let surprise = (hold.mean - predicted).abs() > self.config.surprise * predicted;
        surprise && self.revisions < REVISIONS
    }
}

impl StageOptimizer for ModelFit {
    fn start(&mut self, bounds: Bounds) -> u16 {
        self.sample(bounds)
    }

    fn propose(&mut self, seen: &StageSample, bounds: Bounds) -> StageProposal {
        let sample = Sample::new(seen.n, seen.throughput);
        let n = match self.phase.take() {
            None => {
                let first = self.sample(bounds);
                match self.phase.take() {
                    Some(Phase::Sample { doubling, .. }) => self.sampled(doubling, 0, sample, bounds),
                    other => {
                        self.phase = other;
                        first
                    }
                }
            }
            Some(Phase::Sample { doubling, disobeyed }) => self.sampled(doubling, disobeyed, sample, bounds),
            Some(Phase::Hold(hold)) => self.held(hold, sample, bounds),
        };
        StageProposal::new(n, seen.throughput.as_mbps())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    fn seen(n: u16, mbps: f64) -> StageSample {
        StageSample::of_a_second(n, BitRate::from_mbps(mbps))
    }

    /// The n of each epoch on a path that carries `mbps(epoch, n)` within `bounds(epoch)`.
    fn run(epochs: u32, bounds: impl Fn(u32) -> Bounds, mbps: impl Fn(u32, u16) -> f64) -> Vec<u16> {
        run_by(ModelSelection::default(), epochs, bounds, mbps)
    }

    /// The same where `models` are asked.
    fn run_by(
        models: ModelSelection,
        epochs: u32,
        bounds: impl Fn(u32) -> Bounds,
        mbps: impl Fn(u32, u16) -> f64,
    ) -> Vec<u16> {
        let mut rule = ModelFit::new(ModelFitConfig { models, ..ModelFitConfig::default() });
        let mut n = rule.start(bounds(0));
        let mut trace = Vec::new();
        for epoch in 0..epochs {
            trace.push(n);
            let bounds = bounds(epoch);
            n = bounds.clamp(rule.propose(&seen(n, mbps(epoch, n)), bounds).n);
        }
        trace
    }

    fn wide(_: u32) -> Bounds {
        Bounds::new(1, 64)
    }

    #[test]
    fn it_doubles_then_holds_the_knee() {
        let trace = run(40, wide, |_, n| (f64::from(n) * 100.0).min(1000.0));
        assert_eq!(trace[..6], [1, 2, 4, 8, 16, 32]);
        let held = trace[6];
        assert!((10..=11).contains(&held) && trace[6..].iter().all(|&n| n == held), "{trace:?}");
    }

    #[test]
    fn it_holds_the_peak_of_the_dynamic_order() {
        // c = 2.6 with its peak at 11.37: within 2 % of it from 9 streams on.
        let path = |n: u16| {
            let n = f64::from(n);
            n / (1e-6 * (n.powf(2.6) + 0.3 * 11.37f64.powf(2.6))).sqrt()
        };
        let trace = run(40, wide, |_, n| path(n));
        assert_eq!(trace[..4], [1, 2, 4, 8]);
        let late = *trace.last().expect("some");
        assert!((9..=11).contains(&late) && trace[10..].iter().all(|&n| n == late), "{trace:?}");
        assert!(path(late) >= 0.98 * path(11));
        // As published, the peak itself, and not the fewest that are as good.
        for models in [ModelSelection::Published, ModelSelection::DynamicOrder] {
            let published = run_by(models, 40, wide, |_, n| path(n));
            assert!(late < 11 && published.last() == Some(&11), "{models}: {published:?}, ours {trace:?}");
        }
    }

    #[test]
    fn a_lasting_change_is_sampled_anew_and_a_passing_one_is_not() {
        let link = |limit: f64, n: u16| (f64::from(n) * 100.0).min(limit);
        let trace = run(60, wide, |epoch, n| link(if epoch < 20 { 1000.0 } else { 400.0 }, n));
        let held = trace[19];
        assert!((10..=11).contains(&held), "{trace:?}");
        assert_eq!(trace[20..26], [held, held, held, 1, 2, 4]);
        assert!((4..=5).contains(&trace[40]) && trace[40..].iter().all(|n| *n == trace[40]), "{trace:?}");
        let passing =
            run(60, wide, |epoch, n| link(if (20..22).contains(&epoch) { 300.0 } else { 1000.0 }, n));
        assert_eq!(passing[8..], [held; 52]);
    }

    #[test]
    fn what_the_models_did_not_say_is_learned() {
        // Nothing that was sampled tells that 6 and more are poor but for 8.
        let path = |n: u16| if (9..=14).contains(&n) { 100.0 } else { (f64::from(n) * 100.0).min(1200.0) };
        let trace = run(60, wide, |_, n| path(n));
        let late = *trace.last().expect("some");
        assert!(path(late) >= 800.0 && trace[40..].iter().all(|&n| n == late), "{trace:?}");
    }

    #[test]
    fn bounds_that_change_are_kept_to() {
        let linear = |_, n: u16| f64::from(n) * 10.0;
        let narrowing = |epoch| if epoch < 15 { Bounds::new(1, 64) } else { Bounds::new(1, 12) };
        let trace = run(30, narrowing, linear);
        assert_eq!((trace[14], trace[16], trace[29]), (64, 12, 12), "{trace:?}");
        let widening = |epoch| if epoch < 15 { Bounds::new(2, 12) } else { Bounds::new(2, 24) };
        let trace = run(30, widening, linear);
        assert_eq!((trace[0], trace[14], trace[29]), (2, 12, 24), "{trace:?}");
        // While it samples: the next n is not allowed, so what there is must do.
        let early = |epoch| if epoch < 4 { Bounds::new(1, 64) } else { Bounds::new(1, 10) };
        assert_eq!(run(10, early, linear)[5..], [10; 5]);
    }

    #[test]
    fn any_path_and_any_bounds_are_borne() {
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let mut rule = ModelFit::new(ModelFitConfig::default());
            for _ in 0..60 {
                let bounds = Bounds::new(rng.integer(0, 9), rng.integer(1, 300));
                let mbps = if rng.unit() < 0.2 { 0.0 } else { rng.log_uniform(1e-3, 1e6) };
                let n = rule.propose(&seen(rng.integer(0, 300), mbps), bounds).n;
                assert!((1..=300).contains(&bounds.clamp(n)), "seed {seed}");
            }
        }
    }

    #[test]
    fn nothing_moved_is_waited_out() {
        let trace = run(40, wide, |epoch, n| if epoch < 12 { 0.0 } else { (f64::from(n) * 50.0).min(400.0) });
        assert_eq!(trace[..12], [1; 12]);
        assert!((8..=9).contains(&trace[30]) && trace[30..].iter().all(|n| *n == trace[30]), "{trace:?}");
    }
}
