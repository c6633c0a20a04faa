//! Many hosts move one data set: shards of it wait in a database, movers take them under leases, and an engine starts the
//! movers.
//!
//! | you want | take |
//! |---|---|
//! | shards and leases, at the service | [`shards::Fleet`] |
//! | what is said of them over HTTP | [`words`] |
//! | to ask a service | [`client::Service`] |
//! | to start movers | [`engine::Engine`], [`engine::EngineArgs`] |
//! | to be one | [`mover::Mover`] |
//! | to have all of a copy moved | [`spread::Spread`] |
//! | endpoints that share the work | [`pools`] |
//!
//! Modules are listed from the ground up: each one imports only from those above it.

// Kept by the service.
pub mod shards;

pub mod words;

// Asked of it.
pub mod client;

#[cfg(feature = "movers")]
mod lease;
#[cfg(feature = "movers")]
pub mod token;

// Who moves, and by way of whom.
#[cfg(feature = "movers")]
pub mod engine;
#[cfg(feature = "movers")]
pub mod pools;

#[cfg(feature = "movers")]
pub mod shared_copy;

#[cfg(feature = "movers")]
pub mod mover;

// Who has it moved.
#[cfg(feature = "movers")]
mod listing;

#[cfg(feature = "movers")]
pub mod spread;
