//! The service: its interface, queue, history and scheduler.

mod api_frame;
mod api_jobs;
mod api_spreads;
mod door;
mod estimate;
mod history;
mod history_import;
mod lost_history;
mod queue;
mod queue_crash;
mod samplers;
mod scheduler;
