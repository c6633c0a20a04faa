//! The world outside the process: the only place in this crate that reads a clock, starts a thread, waits, or speaks to
//! the file system, the network and the kernel (`crates/cli/tests/tidy.rs` holds that).
//!
//! Each module is named after the one of `std` it stands for and has its shape, so that a caller differs by an import
//! only, and so that a simulation replaces what it needs in one place. Nothing here is a trait object: it all compiles to
//! the call beneath it (docs/decisions/0010).

pub(crate) mod buffers;
pub mod clock;
pub mod confined;
pub mod durable;
pub mod fs;
pub mod hidden;
pub(crate) mod host;
pub mod identity;
pub mod lock;
pub mod memory;
pub(crate) mod net;
pub mod processors;
pub(crate) mod random;
pub mod resolve;
pub mod sync;
pub(crate) mod tcp;
pub mod thread;
pub(crate) mod whereabouts;
pub mod whole_file;
