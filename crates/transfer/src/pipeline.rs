//! The stages of a transfer: worker pools joined by bounded staging, on both ends.
//!
//! ```text
//! Source ─read pool─► staging ─network pool─► wire ─► staging ─write pool─► Sink ─► commit
//! ```

pub mod pool;
pub mod proof;
pub(crate) mod shortcut;
pub mod waits;

pub mod staging;
pub mod work;

// The sender.
mod stream_sums;

pub(crate) mod dialer;
mod evenness;
pub(crate) mod joint;

pub(crate) mod data_streams;
pub(crate) mod send;

// What writes what arrives, whoever brings it.
pub(crate) mod recheck;

pub(crate) mod incoming;

pub(crate) mod commit;

pub mod write_path;

// The receiver.
pub(crate) mod intake;
pub(crate) mod receive;
