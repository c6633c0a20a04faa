//! What every store must do, and servers that do what a test says.

pub mod archive;
pub mod conformance;
pub mod direct_sftp;
pub mod in_memory;
pub mod moto;
