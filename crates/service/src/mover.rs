//! Runs a job: a program of ours, or GridFTP's, as a child process, so that nothing it does takes the service
//! down, and nothing of it outlives the service.

mod attempt;
mod programs;

mod command;

mod child;

mod report;

mod gridftp;

mod epochs;

mod runner;

pub use attempt::{Away, BoxFuture, Class, Ended, Mover, Outcome, Run, StreamDemand};
pub(crate) use gridftp::sizing::size_of as gridftp_size;
pub use programs::Programs;
