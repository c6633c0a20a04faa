//! The stages of a transfer: worker pools joined by bounded staging, on both ends.
//!
//! ```text
//! Source ─read pool─► staging ─network pool─► wire ─► staging ─write pool─► Sink ─► commit
//! ```

pub mod pool;
pub mod proof;
pub mod shortcut;
pub mod staging;
pub mod work;

// The sender.
pub(crate) mod lanes;
pub(crate) mod send;

// The receiver.
pub mod commit;
pub mod incoming;
pub(crate) mod intake;
pub(crate) mod receive;
pub mod recheck;
