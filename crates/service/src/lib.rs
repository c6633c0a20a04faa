//! Estimates, remembers, schedules: the service of Yin, Yildirim, Kosar et al. (EOS) whole.
//!
//! A user names source, destination and size and is told the number of streams, the throughput and the time;
//! a scheduler runs thousands of jobs with those answers, and what was seen makes the next answer free.
//!
//! Modules are listed from the ground up: each one imports only from those above it.

pub mod address;

pub mod names;

pub mod pair;

mod database;

pub mod history;

pub mod sampler;

pub mod estimate;

pub mod job;

pub mod queue;

mod event_log;

mod output_file;

pub mod mover;

pub mod scheduler;

mod dashboard;

pub mod api;

pub mod server;
