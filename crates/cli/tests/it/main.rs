//! The `tidegate` command, and what it starts, as a user meets them.

mod advised;
mod common;
mod copy;
mod dashboard;
mod dry_run;
mod endpoint;
mod ends;
mod engines;
mod estimate;
mod explore;
mod filters;
mod fleet_faults;
mod foreign;
mod get;
mod get_beyond;
mod get_ceilings;
mod get_faults;
mod get_jobs;
mod gridftp;
mod history;
mod https;
mod jobs;
mod kill;
mod learned;
mod logs;
mod ls;
mod own_rule;
mod path_memory;
#[path = "../../../transfer/tests/it/common/peer.rs"]
#[allow(dead_code, reason = "what the tests of transfers use besides")]
mod peer;
mod put;
mod refusals;
mod remote;
mod same_names;
mod self_test;
mod serve;
mod shared_queue;
mod spread;
mod spread_large;
mod ssh;
mod ssh_install;
mod stork;
mod tools;
mod train;
mod trees;
