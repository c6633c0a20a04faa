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
pub mod lanes;
pub mod send;

// The receiver.
pub mod commit;
pub mod incoming;
pub mod intake;
pub mod receive;
pub mod recheck;
