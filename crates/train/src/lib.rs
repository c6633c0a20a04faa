//! What learns: policies trained by proximal policy optimisation on simulated paths.
//!
//! The networks, their gradients and the optimiser are written out over one matrix product; for
//! networks this small a framework costs ten times the time and a hundred crates. The crate opens no
//! file and reads no clock: callers ask for one batch after the other and keep the result.
//!
//! The same seed gives the same weights on the same kind of machine, with one thread or two: work is
//! split where the parts are independent, and never summed in the order in which threads finish.
//!
//! | you want | take |
//! |---|---|
//! | a policy for a path, batch by batch | [`session::Session`] of a [`practice::PathTask`], told by [`ppo::PpoConfig`] and [`session::Stop`] |
//! | the same by a paper's own algorithm | [`published::Published`], with its [`published::Constants`] |
//! | either, stopped alike | [`session::Trainer`] |
//! | a recipe, and what of it can be set by name | [`settings::Plan`] |
//! | a rule that goes on to learn while a transfer runs | [`online::Online`] |
//! | one policy for every path | [`universal::Universal`] |
//!
//! Modules are listed from the ground up: each one imports only from those above it.

// The network and its gradient.
pub mod adam;
pub mod net;
pub mod pair;

// What is practised, and what it is worth.
pub(crate) mod domain;
pub(crate) mod reward;

pub mod practice;

// Learning from it.
pub mod actor;
pub mod gae;

pub(crate) mod rollout;

// Until it is good enough.
pub mod ppo;
pub mod session;

// As the papers do.
pub mod published;

// All of it, set by name.
pub mod settings;

// While a transfer runs.
pub mod online;

// For every path.
pub mod universal;
