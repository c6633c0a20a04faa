//! Estimates, remembers, schedules: the service of Yin, Yildirim, Kosar et al. (EOS) whole.
//!
//! A user names source, destination and size and is told the number of streams, the throughput and the time;
//! a scheduler runs thousands of jobs with those answers, and what was seen makes the next answer free.
//!
//! | what others use | where |
//! |---|---|
//! | source and destination, names of endpoints | [`Pair`](tidegate_spec::pair::Pair), [`names::Names`] |
//! | ClassAds, as HTCondor and Stork write them | [`classad::ClassAd`] |
//! | what is remembered, asked for, imported | [`history::History`], [`history::Record`], [`history::import::Import`] |
//! | what our own jobs move over a path | [`traffic::OwnTraffic`] |
//! | a sample of a path | [`sampler::Sampler`] |
//! | an estimate | [`estimate::Estimator`], [`estimate::EstimateRequest`], [`estimate::Answer`] |
//! | a job, and files of jobs | [`job::Request`], [`job::Job`], [`job::file::read`] |
//! | jobs that outlive a crash | [`queue::Queue`] |
//! | what moves a job's data, and which job runs when | [`mover::Mover`], [`scheduler::Scheduler`] |
//! | a job that many hosts move, followed | `spread::Spreading` |
//! | all of it, over HTTP | [`api::Api`], [`server::run`] |
//!
//! Modules are listed from the ground up: each one imports only from those above it.

pub mod classad;

pub mod names;

pub mod history;

pub mod traffic;

mod path_mtu;

pub mod sampler;

pub mod estimate;

pub mod job;

pub mod queue;

mod event_log;

mod output_file;

pub mod mover;

pub(crate) mod spread;

pub mod scheduler;

mod dashboard;

pub mod api;

mod standby;

pub mod server;
