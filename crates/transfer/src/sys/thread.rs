//! Threads, as `std::thread`.

pub use super::clock::sleep;
pub use std::thread::{Builder, JoinHandle, Scope, ScopedJoinHandle, panicking, scope, spawn};
