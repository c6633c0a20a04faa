//! The rules that decide, one file each, named as the literature names them.
//!
//! A joint rule implements [`Optimizer`] and sees all three stages. A one-number rule implements
//! [`StageOptimizer`] and is lifted to a path by [`per_stage`]. Modules are listed from the ground
//! up; [`registry`] turns a name given on the command line into a rule.

use std::time::Duration;

use crate::host::Host;
use crate::observation::{Observation, Remaining};
use crate::policy::Policy;
use crate::stage::{Bounds, Concurrency, PerStage};
use crate::units::{BitRate, ByteCount};

pub mod aimd;
pub mod bayesian;
pub mod explore;
pub mod falcon;
pub mod fixed;
pub mod fts3;
pub mod gradient;
pub mod optimistic;
pub mod rules;

pub mod fallback;
pub mod model_fit;
pub mod per_stage;
pub mod policy;
pub mod registry;

pub use registry::{
    LEARNED, MakeOnline, NAMES, OptimizerError, OptimizerOptions, build, goes_on_learning, needs_policy,
    share_of,
};
pub use rules::{LEARNED_RULES, RULES, RuleDescription, with_constants};

/// How long an epoch lasts unless a rule asks for something else.
pub const EPOCH: Duration = Duration::from_secs(1);

/// How long one probe of the published rules lasts (Falcon, Marlin, FastBioDL: 3 s by default).
pub const PUBLISHED_EPOCH: Duration = Duration::from_secs(3);

/// What a rule answers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Proposal {
    /// Workers a stage for the next epoch; callers clamp them to the bounds.
    pub setpoint: Concurrency,
    /// The score the rule gave the last observation, in its own unit, for reports.
    pub utility: Option<f64>,
    /// One line for whoever watches, once: the rule has changed how it decides.
    pub notice: Option<String>,
    /// What the rule is about from here on, in a few words, for whoever wants to follow it.
    pub reason: Option<&'static str>,
    /// Whether the next epoch is a step on the way up, for which a short measurement is good enough.
    pub short_epochs: bool,
    /// Whether the streams are to yield to whatever else is on the path.
    pub yields: bool,
    /// Whether more streams may come within the epoch, as [`Ramp`](crate::Ramp) says.
    pub ramps: bool,
}

impl From<Concurrency> for Proposal {
    fn from(setpoint: Concurrency) -> Self {
        Self { setpoint, ..Self::default() }
    }
}

/// Decides the next set-point from what the last epoch showed.
///
/// Pure: the same history gives the same answer. Randomness comes from a seed given at the start.
///
/// ```
/// use tidegate_control::{Bounds, Observation, Optimizer, PerStage, Proposal};
///
/// /// One more of everything, as long as all is well.
/// struct OneMore;
///
/// impl Optimizer for OneMore {
///     fn propose(&mut self, seen: &Observation, bounds: PerStage<Bounds>) -> Proposal {
///         let well = seen.loss.is_none_or(|loss| loss < 0.01);
///         let next = seen.concurrency.map(|n| if well { n + 1 } else { n });
///         Proposal { reason: Some("tries one more"), ..bounds.clamp(next).into() }
///     }
/// }
///
/// let seen = Observation { concurrency: PerStage::new(1, 4, 2), ..Observation::default() };
/// let next = OneMore.propose(&seen, PerStage::all(Bounds::new(1, 4)));
/// assert_eq!(next.setpoint, PerStage::new(2, 4, 3));
/// ```
pub trait Optimizer: Send {
    /// What to begin with, before anything has been seen but what `host` says.
    fn start(&mut self, bounds: PerStage<Bounds>, _host: &Host) -> Proposal {
        bounds.map(|bounds| bounds.min).into()
    }

    /// What to do in the next epoch. `bounds` hold now and may differ from the last call's.
    fn propose(&mut self, seen: &Observation, bounds: PerStage<Bounds>) -> Proposal;

    /// How long this rule's epochs should be.
    fn epoch_length(&self) -> Duration {
        EPOCH
    }

    /// What a rule that learns while it drives has learned so far, as a policy to go on from.
    fn learned(&self) -> Option<Policy> {
        None
    }
}

/// What a one-number rule answers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StageProposal {
    /// Workers for the next epoch; callers clamp them to the bounds.
    pub n: u16,
    /// The score the rule gave the last sample, in its own unit, for reports.
    pub utility: Option<f64>,
}

impl StageProposal {
    /// `n` workers, after a sample worth `utility`.
    pub const fn new(n: u16, utility: f64) -> Self {
        Self { n, utility: Some(utility) }
    }
}

/// Decides one number of workers: the form in which most rules are published.
pub trait StageOptimizer: Send {
    /// The number to begin with.
    fn start(&mut self, bounds: Bounds) -> u16 {
        bounds.min
    }

    /// The number for the next epoch, and what the last one was worth.
    fn propose(&mut self, seen: &StageSample, bounds: Bounds) -> StageProposal;

    /// How long this rule's epochs should be.
    fn epoch_length(&self) -> Duration {
        EPOCH
    }
}

/// What one epoch showed of one stage, or of a whole path driven by one number.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StageSample {
    /// The end of the interval, counted from the start of the transfer.
    pub at: Duration,
    /// The time measured.
    pub interval: Duration,
    /// Workers that were allowed to run: of the stage, or the number that was in force for all stages
    /// (of those that have a choice, the most that ran).
    pub n: u16,
    /// What they moved together, in bit/s: the stage, or the slowest of a path's stages that have a choice.
    pub throughput: BitRate,
    /// Segments retransmitted per segment sent, 0 to 1; 0 where it is unknown or means nothing.
    pub loss: f64,
    /// Smoothed round-trip time, if known.
    pub rtt: Option<Duration>,
    /// The staging this stage fills, at the end of the interval.
    /// `None` for the last stage and for a whole path.
    pub output: Option<Output>,
    /// What is left to move, if the whole list is known.
    pub remaining: Option<Remaining>,
}

#[cfg(test)]
impl StageSample {
    /// What `n` workers moved in a second, and nothing else.
    pub(crate) fn of_a_second(n: u16, throughput: BitRate) -> Self {
        Self { interval: Duration::from_secs(1), n, throughput, ..Self::default() }
    }
}

/// The staging a stage fills, at the end of the interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Output {
    /// Bytes not taken.
    pub free: ByteCount,
    /// Bytes in all.
    pub capacity: ByteCount,
}
