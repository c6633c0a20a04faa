//! What moves bytes: stores, wire, pipeline, and the live transfer that answers the control loop.
//!
//! Data is moved by blocking threads, one worker a thread (docs/decisions/0001). Modules are listed
//! from the ground up: each one imports only from those above it.
//!
//! # What is public
//!
//! Whoever only wants files moved needs the first two: [`transfer::route::begin`] starts a transfer, and
//! `tidegate_control`'s loop runs it.
//!
//! ```text
//! transfer    route: From, To, SourceOrigin, Setup, begin · link: Link · Interrupt, Pace · Running, Paced, Tracked: what else runs
//!             file_client: FileClient: files without a transfer
//! endpoint    Endpoint, Config, ticket_from_state: what others send to and get from · access: tokens for HTTP
//!
//! error       Error, ErrorKind, Result
//! path        RelPath · text: show, foreign · manifest: Entry, Kind, Timestamp, BLOCK, SEGMENT
//! filter      Filter, Rule: rsync's filter rules · selection: Selection, Taking
//! terms       Terms, Purpose, DataPlane, Verify, Links, Compare · congestion: Congestion, CongestionTerms
//! spec        SourceSpec, SinkSpec, Memory
//! plan        Planned, PlannedChange, PlanListener: what a run would do
//! counters    Counters, Totals · ledger: Ledger, Failure · offer: Verdict, Outcome
//! throttle    Limits, Throttle · quota: Allowance, Quota, Share · outage: Outage
//! hash        Digest, FileHash, block_digest
//!
//! record_log  RecordLog, Replay · store: Source, Sink and what they answer with, file_source, file_sink, abandoned,
//!             named · journal: Journal · catalogue: Catalogues
//! mirror      Mirror: what a destination removes
//! pipeline    write_path, pool, staging, work, proof, waits: what downloads and uploads share with transfers
//! sys         clock: Instant · confined: Root · fs · identity: fingerprint · processors: CpuTime · memory
//!
//! fence       Fence: a transfer under a lease · split: Split: a file that several transfers move
//! wire        ticket: Address, Claims, Ticket · tls: Identity, PkiFiles, Trust · distrust
//!             way: Way, Carriers: how an endpoint is reached · files: FileRequest, FileReply, FileStatus
//!             message, request, greeting, order, handshake, session, channel, frame: for peers that tests script
//! record      Record: fields with tags, as they travel
//! ```
//!
//! # A whole transfer
//!
//! ```
//! use std::os::unix::ffi::OsStrExt;
//! use tidegate_control::optimizer::{OptimizerOptions, build};
//! use tidegate_control::run;
//! use tidegate_transfer::endpoint::{Config, Endpoint};
//! use tidegate_transfer::transfer::route::{From, STALL, Setup, To, begin, random_run};
//! use tidegate_transfer::transfer::{Interrupt, Pace};
//! use tidegate_transfer::wire::ticket::Claims;
//!
//! let (here, there, state) = (tempfile::tempdir()?, tempfile::tempdir()?, tempfile::tempdir()?);
//! std::fs::write(here.path().join("file"), "content")?;
//! let endpoint = Endpoint::bind(Config::local(there.path(), state.path()))?;
//! let address = endpoint.address(&Claims::FULL)?;
//! std::thread::spawn({ let endpoint = endpoint.clone(); move || endpoint.serve() });
//!
//! let setup = Setup {
//!     terms: Default::default(),
//!     selection: Default::default(),
//!     taking: Default::default(),
//!     plan: None,
//!     deletion: None,
//!     moving: false,
//!     sharing: Default::default(),
//!     pace: Pace::new(std::time::Duration::from_millis(100)),
//!     run: random_run(),
//!     stall: STALL,
//!     interrupt: Interrupt::default(),
//!     pki: None,
//!     catalogues: tidegate_transfer::catalogue::Catalogues::none(),
//!     share: tidegate_transfer::quota::Share::own(),
//!     carriers: Default::default(),
//! };
//! let from = From::Local(vec![here.path().join("file").as_os_str().as_bytes().to_vec()]);
//! let mut transfer = begin(&from, &To::Endpoint(address.with_path("copy")), &setup)?;
//! let mut rule = build("auto", &OptimizerOptions::default())?;
//! run(transfer.as_mut(), rule.as_mut(), None, |_epoch, _next| {})?;
//! assert_eq!(std::fs::read(there.path().join("copy"))?, b"content");
//! endpoint.drain();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub use tidegate_contract::text;

// Words: names, errors, what is to be moved.
pub mod error;

pub mod path;

// How it is written down where a field may be added.
pub(crate) mod bounded;

pub mod record;

pub mod manifest;

// Tools that know nothing of transfers.
pub mod hash;

pub(crate) mod hashed;

// The world: clocks, threads, files, sockets. Nothing else in this crate speaks to it.
pub mod sys;

pub mod outage;
pub mod quota;
pub mod throttle;

// Words of a transfer, said on the wire and off it.
pub(crate) mod rate_samples;

pub mod filter;

pub mod plan;

pub mod spec;
pub mod split;

pub mod congestion;
pub mod counters;
pub mod offer;
pub mod selection;

pub mod terms;

// What travels.
pub mod wire;

pub mod fence;

// Where data lies, and what is remembered of it.
pub mod record_log;

pub mod store;

pub mod catalogue;
pub mod journal;
pub mod ledger;

pub mod mirror;

// What either end decides.
pub(crate) mod logic;

// What moves it.
pub mod pipeline;

// Both ends' decisions against each other, for tests.
#[cfg(test)]
pub(crate) mod pair;

pub(crate) mod exchange;

pub mod transfer;

pub mod endpoint;
