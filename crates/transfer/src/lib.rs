//! What moves bytes: stores, wire, pipeline, and the live transfer that answers the control loop.
//!
//! Data is moved by blocking threads, one worker a thread (docs/decisions/0001). Modules are listed
//! from the ground up: each one imports only from those above it.

pub mod path;
pub mod error;
pub mod sys;
pub mod throttle;
pub mod manifest;
pub mod hash;
pub mod wire;
pub mod store;
pub mod record_log;
pub mod journal;
pub mod catalogue;
pub mod ledger;
pub mod pipeline;
pub mod exchange;
pub mod transfer;
pub mod endpoint;
