//! The fleet: its shards and leases.

mod shards;
