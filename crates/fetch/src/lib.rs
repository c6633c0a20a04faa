//! What gets public data: names and lists become records, records become verified files.
//!
//! Modules are listed from the ground up: each one imports only from those above it.

// Words: a checksum, a file to get.
pub mod checksum;
pub mod record;

// Others' servers.
pub mod remote;

// Files to others' servers.
pub mod put;
