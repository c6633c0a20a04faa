//! What moves bytes: stores, wire, pipeline, and the live transfer that answers the control loop.
//!
//! Data is moved by blocking threads, one worker a thread (docs/decisions/0001). Modules are listed
//! from the ground up: each one imports only from those above it.

pub use tidegate_contract::text;

// Words: names, errors, what is to be moved.
pub mod error;

pub mod path;

pub mod manifest;

// Tools that know nothing of transfers.
pub mod hash;
pub mod outage;
pub mod quota;
pub mod sys;
pub mod throttle;

// Words of a transfer, said on the wire and off it.
pub mod bounded;

pub mod counters;
pub mod offer;
pub mod spec;
pub mod terms;

// What travels.
pub mod wire;

// Where data lies, and what is remembered of it.
pub mod store;

pub mod record_log;

pub mod catalogue;
pub mod journal;
pub mod ledger;

// What moves it.
pub mod pipeline;

pub mod exchange;

pub mod transfer;

pub mod endpoint;
