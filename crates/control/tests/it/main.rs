//! Controllers, simulators and what they promise.

mod calibration;
mod common;
mod conformance;
mod events;
mod extras;
mod fluid;
mod golden;
mod optimistic;
mod path_memory;
mod policy;
mod properties;
mod random_paths;
mod scenario_errors;
mod scenarios;
mod simulator;
mod universal;
