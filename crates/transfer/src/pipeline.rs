//! The stages of a transfer: worker pools joined by bounded staging, on both ends.
//!
//! ```text
//! Source ─read pool─► staging ─network pool─► wire ─► staging ─write pool─► Sink ─► commit
//! ```

pub mod staging;
pub mod pool;
pub mod work;
pub mod lanes;
pub mod send;
pub mod receive;
pub mod commit;
pub mod intake;
