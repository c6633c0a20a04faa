//! What is to be moved, and how: options as values with their units, the same on the command line, in a job and in what a
//! mover is told.
//!
//! A spec holds what anybody may ask for. What names files of the host that runs it, starts programs there, or is a secret,
//! is not in it, and stands beside it where that host's own user says it.

pub mod address;

pub mod form;
pub mod range;

pub mod control;
pub mod plane;

pub mod pair;

pub mod filters;

pub mod deletion;

#[cfg(feature = "servers")]
pub mod archive;

pub mod copy;
#[cfg(feature = "servers")]
pub mod get;
#[cfg(feature = "servers")]
pub mod put;

#[cfg(feature = "servers")]
pub mod estimate;

pub mod options;
pub mod setup;

pub mod measure;

pub mod run;
