//! What was measured, concluded, moved and decided between two sites, remembered so that the next answer is free.
//!
//! Every sample, estimate, transfer and decision is kept by source and destination, in SQLite by default or in
//! one PostgreSQL database for many servers. History is advice: it may be lost, and nothing waits for it longer
//! than five seconds. So commits are relaxed: a power failure takes the last moment's
//! records at most, which the next sampling brings back.

mod identity;
mod kind;
mod record;
mod scrub;

mod recorder;
mod retention;
mod store;

mod blocking;

pub mod csv;
pub mod import;
mod recorded;
mod warm_start;

pub use blocking::Blocking;
pub use kind::Kind;
pub use record::{
    Basis, Beside, Circumstances, Conditions, Decision, Estimate, Method, Origin, Point, Record, Sample,
    Timestamp, Transfer,
};
pub use recorded::Recorded;
pub use recorder::Recorder;
pub use retention::{Retention, Selection};
pub use store::{Cursor, Page, PairSummary, Query};
pub(crate) use store::{MAX_RECORDS, median};
pub use tidegate_database::DatabaseError;

use std::time::Duration;

use tidegate_database::{Database, Durability, Result};

/// What made the tables, version by version; an older one is never edited.
const SCHEMA: &[&str] = &[include_str!("history/schema-1.sql"), include_str!("history/schema-2.sql")];

/// The time between two looks at its server.
const LOOKS: Duration = Duration::from_millis(500);

/// An open history; clones share its connections.
#[derive(Clone, Debug)]
pub struct History {
    database: Database,
}

impl History {
    /// Opens `sqlite:PATH` or `postgres://…`, and makes or renews its tables.
    pub async fn open(url: &str) -> Result<Self> {
        let database = Database::open(url, Durability::Relaxed).await?;
        database.migrate("history", SCHEMA).await?;
        Ok(Self { database })
    }

    /// Where it is, without user and password.
    pub fn place(&self) -> &str {
        self.database.place()
    }

    /// Why its server is taken to be lost, if it is; whoever asks then is told so at once.
    pub fn lost(&self) -> Option<DatabaseError> {
        self.database.lost()
    }

    /// Finds out twice a second whether its server is there, so that nobody who has something to ask waits for that.
    pub async fn watch(&self) {
        let mut kept = None;
        loop {
            self.database.look(&mut kept).await;
            tokio::time::sleep(LOOKS).await;
        }
    }

    /// Lets go of the database.
    pub async fn close(&self) {
        self.database.close().await;
    }
}
