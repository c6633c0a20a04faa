//! Sequence archives: accessions become records, through ENA's Portal API, NCBI's E-utilities and SDL, and
//! the open-data mirror of SRA.
//!
//! Nothing is taken in place of what was asked for unless that was allowed, and then it is said.

mod accession;
mod batch;
mod client;
mod ena;
mod eutils;
mod files;
mod locate;
mod options;
mod pace;
mod report;
mod resolve;
mod sdl;
pub mod self_check;
mod table;

pub use accession::{Accession, Kind, words};
pub use client::ArchiveSettings;
pub use options::{Format, Layout, Naming, Protocol, ResolveOptions, Source};
pub use resolve::Archives;
