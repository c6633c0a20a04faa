//! What gets public data: names and lists become records, records become verified files.
//!
//! Modules are listed from the ground up: each one imports only from those above it.

// Words: a checksum, a file to get.
pub mod checksum;
pub mod foreign;

pub mod record;

// What names files.
pub mod list;

// Others' servers.
pub mod remote;

// Names that archives give.
pub mod archive;

// What gets files from them.
pub mod host;

pub mod get;

// Files to others' servers.
pub mod put;

// What is written beside them.
pub mod sidecar;
