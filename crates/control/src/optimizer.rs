//! The rules that decide, one file each, named as the literature names them.
//!
//! A joint rule implements [`Optimizer`] and sees all three stages. A one-number rule implements
//! [`StageOptimizer`] and is lifted to a path by [`per_stage`]. Modules are listed from the ground
//! up; [`registry`] turns a name given on the command line into a rule.

use std::time::Duration;

use crate::observation::{Observation, Remaining};
use crate::stage::{Bounds, Concurrency, PerStage};
use crate::units::{BitRate, ByteCount};

pub mod aimd;
pub mod bayesian;
pub mod explore;
pub mod falcon;
pub mod fixed;
pub mod fts3;
pub mod gradient;
pub mod model_based;
pub mod model_fit;
pub mod per_stage;
pub mod policy;
pub mod registry;

pub use registry::{NAMES, OptimizerError, OptimizerOptions, build};

/// How long an epoch lasts unless a rule asks for something else.
pub const EPOCH: Duration = Duration::from_secs(1);

/// How long one probe of the published rules lasts (Falcon, Marlin, FastBioDL: 3 s by default).
pub const PUBLISHED_EPOCH: Duration = Duration::from_secs(3);

/// Decides the next set-point from what the last epoch showed.
///
/// Pure: the same history gives the same answer. Randomness comes from a seed given at the start.
pub trait Optimizer: Send {
    /// The set-point to begin with, before anything has been seen.
    fn start(&mut self, bounds: PerStage<Bounds>) -> Concurrency {
        bounds.map(|bounds| bounds.min)
    }

    /// Told before the start, where it is known: the path's round-trip time.
    fn expect(&mut self, _round_trip: Duration) {}

    /// The set-point for the next epoch. `bounds` hold now and may differ from the last call's.
    fn propose(&mut self, seen: &Observation, bounds: PerStage<Bounds>) -> Concurrency;

    /// The score the rule gave the last observation, for reports.
    fn utility(&self) -> Option<f64> {
        None
    }

    /// One line for whoever watches, once: the rule has changed how it decides.
    fn notice(&mut self) -> Option<String> {
        None
    }

    /// What it is about since its last decision, in a few words, for whoever wants to follow it.
    fn reason(&self) -> Option<&'static str> {
        None
    }

    /// How long this rule's epochs should be.
    fn epoch_length(&self) -> Duration {
        EPOCH
    }

    /// Whether the next epoch is a step on the way up, for which a short measurement is good enough.
    fn short_epochs(&self) -> bool {
        false
    }
}

/// Decides one number of workers: the form in which most rules are published.
pub trait StageOptimizer: Send {
    /// The number to begin with.
    fn start(&mut self, bounds: Bounds) -> u16 {
        bounds.min
    }

    /// The number for the next epoch; callers clamp it to `bounds`.
    fn propose(&mut self, seen: &StageSample, bounds: Bounds) -> u16;

    /// The score the rule gave the last sample, for reports.
    fn utility(&self) -> Option<f64> {
        None
    }

    /// How long this rule's epochs should be.
    fn epoch_length(&self) -> Duration {
        EPOCH
    }
}

/// What one epoch showed of one stage, or of a whole path driven by one number.
#[derive(Clone, Debug, PartialEq)]
pub struct StageSample {
    /// The end of the interval, counted from the start of the transfer.
    pub at: Duration,
    /// The time measured.
    pub interval: Duration,
    /// Workers that were allowed to run.
    pub n: u16,
    /// What they moved together, in bit/s.
    pub throughput: BitRate,
    /// Segments retransmitted per segment sent, 0 to 1; 0 where it is unknown or means nothing.
    pub loss: f64,
    /// Smoothed round-trip time, if known.
    pub rtt: Option<Duration>,
    /// The staging this stage fills; `None` for the last stage and for a whole path.
    pub output: Option<Output>,
    /// What is left to move, if the whole list is known.
    pub remaining: Option<Remaining>,
}

/// The staging a stage fills, at the end of the interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Output {
    /// Bytes not taken.
    pub free: ByteCount,
    /// Bytes in all.
    pub capacity: ByteCount,
}
