//! What the tests of several crates share: servers on loopback, a scripted one for faults, a proxy that does damage,
//! and places of a test's own. Nothing here knows Tidegate.
#![allow(missing_docs, reason = "names say it, and only tests read them")]

pub mod bytes;
pub mod machine;
pub mod ports;

pub mod alone;
pub mod mounted;
pub mod proxy;
pub mod scripted;

pub mod certificates;
pub mod server;

pub mod gridftp;
pub mod moto;
pub mod nginx;
pub mod postgres;
pub mod standin;
pub mod vsftpd;

pub use bytes::noise;
pub use certificates::Certificates;
pub use machine::{
    congestion_at, congestion_controls, has, is_long, is_root, may_use_installed, program, raise_file_limit,
    skip,
};
pub use ports::free_port;
pub use server::Server;
