//! What every HTTP server here stands on: a socket that listens, TLS, and the limits that keep one client from costing the
//! others. [`listener::Listener`] serves any router of axum, and [`prometheus`] writes what is counted.

pub mod prometheus;

pub mod connections;

pub mod listener;
