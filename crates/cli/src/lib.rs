//! The command `tidegate`: moves data between hosts and finds by itself how many readers, streams and
//! writers the path can use.
//!
//! A library, so that the program and the packages of other languages are one. [`Transfer`], [`Get`] and [`Put`] move data for a
//! Rust program:
//!
//! ```
//! # let home = tempfile::tempdir()?;
//! # let (from, to) = (home.path().join("results"), home.path().join("there/"));
//! # std::fs::write(&from, "content")?;
//! let running = tidegate::Transfer::builder(from, to).limit(tidegate::BitRate::mbps(80)).start()?;
//! let summary = running.wait()?;
//! assert!(summary.verified && summary.files.ok == 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`main`] is the program; [`Run`] is one of its commands in another program's process: the same answer in JSON, and neither
//! terminal nor signals are touched.

#![cfg_attr(
    not(all(feature = "fleet", feature = "get", feature = "put", feature = "ssh", feature = "train")),
    allow(dead_code, reason = "what only the commands use that are left out")
)]

// What stands on its own.
#[cfg(feature = "train")]
mod chart;
mod exit;
mod features;
mod terminal;

mod signals;

// Values on a command line.
mod asked;
#[cfg(feature = "servers")]
mod google;
#[cfg(feature = "servers")]
mod header;
#[cfg(feature = "servers")]
mod s3;
mod scratch;
#[cfg(feature = "servers")]
mod server_access;
mod values;

// What is printed of a run.
mod progress;
mod summary;

mod caller;

mod output;
mod warned;

// What commands share.
#[cfg(feature = "service")]
mod service;

#[cfg_attr(not(feature = "gateway"), path = "no_http.rs")]
mod over_http;

mod files;

mod command;

mod servers;

mod command_line;

mod run;

mod moves;

mod serving;

#[cfg(feature = "service")]
mod advised;

#[cfg(feature = "service")]
mod condor;

mod program;

#[cfg(feature = "service")]
pub use advised::{Estimate, EstimateBuilder};
pub use asked::{Call, Task};
pub use files::{FileAccess, Files};
pub use moves::{Failure, Running, Transfer, TransferBuilder};
#[cfg(feature = "get")]
pub use moves::{Get, GetBuilder};
#[cfg(feature = "put")]
pub use moves::{Put, PutBuilder};
pub use program::{main, main_in_process};
pub use run::{Outcome, Refused, Run, program_is_at};
pub use serving::{Endpoint, EndpointBuilder, Serving};
pub use tidegate_contract::error_kind::ErrorKind;
pub use tidegate_contract::summary::Summary;
pub use tidegate_control::{BitRate, ByteCount};
pub use tidegate_run::monitor::Progress;
#[cfg(feature = "service")]
pub use tidegate_service::estimate::Answer;
pub use tidegate_spec::copy::CopySpec;
#[cfg(feature = "service")]
pub use tidegate_spec::estimate::EstimateSpec;
#[cfg(feature = "get")]
pub use tidegate_spec::get::GetSpec;
pub use tidegate_spec::options::Options;
#[cfg(feature = "put")]
pub use tidegate_spec::put::PutSpec;
