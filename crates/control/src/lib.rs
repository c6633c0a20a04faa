//! What decides: units, observations, optimizers and a simulated path.
//!
//! This crate performs no I/O, owns no clock and starts no thread. A rule is shown one
//! [`Observation`] and answers with one set-point; whether the observation came from a live
//! transfer or from the simulator it cannot tell.
//!
//! | you want to | use |
//! |---|---|
//! | say how much, how fast, how many | [`ByteCount`], [`BitRate`], [`PerStage`], [`Concurrency`], [`Bounds`] |
//! | have a rule by its name | [`optimizer::build`], with [`optimizer::OptimizerOptions`] |
//! | write a rule | [`Optimizer`], or for one number [`optimizer::StageOptimizer`]; [`Observation`] in, [`Proposal`] out |
//! | put something of yours under control | [`Environment`] (and [`Host`]), [`run`] |
//! | describe a path, or draw one | [`Scenario`], [`random_path`] |
//! | see what a rule does on a path | [`simulate`]; step by step [`Simulator`] |
//! | the same on the papers' simulators | [`paper_path`] |
//! | know the best that could be done | [`Path::oracle`]; in each part of a run [`Period`] |
//! | know how many streams a few samples suggest | [`throughput_model`] |
//! | make a path of what was seen | [`calibrate`] |
//! | read or write what was learned | [`Policy`] |
//! | believe something of a path from what it shows | [`path_estimator::PathEstimator`] |
//! | begin where the last run over a path ended | [`remember::remember`], [`PathMemory`] in [`Host`] |
//! | score a throughput | [`Utility`] |
//! | say how hard to push beside others | [`Share`] |
//! | yield to them by the delay of packets | [`BackgroundRate`] |
//! | try another congestion control | [`CongestionTrial`] |
//!
//! Modules are listed from the ground up: each one imports only from those above it.

// Words and numbers.
pub mod named;

pub mod gaussian_process;
mod normal;
pub mod pace;
pub mod rng;
pub mod stage;
pub mod units;
mod windowed_max;

// How far it is.
pub mod arrival;

// What a path shows many times a second: what others leave, and how many streams it takes.
pub mod look;
pub mod path_sample;

pub mod background;

pub mod congestion;
pub mod ramp;

// What is seen, what it is worth.
pub mod observation;
pub mod scenario;
pub mod share;
pub mod utility;

pub mod waiting;

// What n streams would move.
pub mod throughput_model;

pub mod path_memory;

pub mod path_estimator;

// The papers' simulators, to hold ours against.
pub mod events;

// What was learned.
pub mod policy;

// What decides, and what is decided about.
pub mod host;
pub mod optimizer;

pub mod environment;
pub mod path;
pub mod random_path;

pub mod fluid;

pub(crate) mod simulated_kernel;

pub mod simulator;

pub mod paper_path;

pub mod period;

// Both, joined.
pub mod control_loop;
pub mod simulation;

// What a run leaves behind.
pub mod remember;

// What was seen, turned into a path.
pub mod calibration;

pub use arrival::{Arrival, Meter};
pub use background::BackgroundRate;
pub use calibration::{Calibration, CalibrationError, calibrate};
pub use congestion::{CongestionStep, CongestionTrial};
pub use control_loop::{Epoch, EpochStreams, run};
pub use environment::Environment;
pub use fluid::Fluid;
pub use host::Host;
pub use observation::{CpuLoad, Observation, Remaining, Streams};
pub use optimizer::{Optimizer, Proposal};
pub use pace::Pace;
pub use path::{Oracle, Path};
pub use path_memory::PathMemory;
pub use path_sample::PathSample;
pub use period::Period;
pub use policy::Policy;
pub use ramp::{Ramp, RampEnd, RampStep};
pub use rng::Rng;
pub use scenario::{Extra, Scenario};
pub use share::Share;
pub use simulation::{Simulation, Summary, judge, simulate};
pub use simulator::{Simulator, SimulatorOptions};
pub use stage::{Bounds, Concurrency, Ends, PerStage, Stage};
pub use units::{BitRate, ByteCount};
pub use utility::Utility;
