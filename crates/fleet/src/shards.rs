//! What many hosts move together: shards that wait in a database, and the leases under which movers take them
//! (docs/decisions/0015).
//!
//! Every change of a shard names it and the number of the lease it is in, and must change one row. So whoever lost a lease
//! changes nothing any more, whichever of several services it asks.

/// The shards of a lease. The index of them leaves out those of none, and is used only where that is said: whoever plans
/// does not know what is bound.
macro_rules! of_lease {
    () => {
        "lease = $1 AND lease > 0"
    };
}

/// The ranges of a file that the shard of that key completes, likewise.
macro_rules! of_file {
    () => {
        "completed_by = $1 AND completed_by > 0"
    };
}

mod budget;
mod grants;
mod leave;
mod packing;

mod pool;

mod claim;
mod cut;
mod finish;
mod list;
mod standing;

pub use budget::{Demand, divide};
pub use claim::{Claimed, Claimer, Renewal, Seen, ShardLease, TERM};
pub use finish::{Ending, Report};
use grants::Grants;
pub use leave::Leave;
pub use packing::{Extent, Packer, ShardContent};
pub use pool::PoolEndpoint;
pub use standing::{HostStanding, MoverStanding, Standing};

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use data_encoding::HEXLOWER;
use sqlx::{Any, AnyConnection, AssertSqlSafe};
use thiserror::Error;
use tidegate_control::Rng;
use tidegate_transfer::transfer::route::random_run;

use tidegate_contract::job_id::JobId;
use tidegate_database::{Backend, Database, DatabaseError, Durability, Transaction};

/// What made the tables, version by version; an older one is never edited.
const SCHEMA: &[&str] = &[
    include_str!("shards/schema-1.sql"),
    include_str!("shards/schema-2.sql"),
    include_str!("shards/schema-3.sql"),
];

/// Its name in the state directory, where it is not shared.
const FILE: &str = "fleet.sqlite3";

/// Longest wait for a change, which may wait behind a long list; less than the API takes for an answer.
const CHANGING: Duration = Duration::from_secs(20);

/// How often a shard is tried before it is set aside.
pub const MAX_TRIES: u32 = 5;

/// Why a fleet's database did not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FleetError {
    /// The database failed.
    #[error("{0}")]
    Database(#[from] DatabaseError),
    /// The lease is over, and its shards may be another's.
    #[error("lease {0} is over: what was done under it is not taken")]
    Lost(u64),
    /// No run has such a token.
    #[error("this token opens no run: take the one of a run that has not ended")]
    NoRun,
    /// There is no such run.
    #[error("job {0} is not moved by many hosts")]
    NotSpread(JobId),
    /// What is listed cannot be taken.
    #[error("{0}")]
    Refused(String),
}

/// The outcome of asking it.
pub type FleetResult<T> = Result<T, FleetError>;

/// What a mover of one run shows: 32 random bytes in hexadecimal.
#[derive(Clone, PartialEq, Eq)]
pub struct MoverToken(String);

tidegate_contract::opaque!(MoverToken);

impl MoverToken {
    /// A new one.
    pub fn random() -> Self {
        Self([random_run(), random_run()].map(|half| HEXLOWER.encode(&half)).concat())
    }

    /// As it was shown.
    pub fn new(text: &str) -> Self {
        Self(text.trim().to_owned())
    }

    /// As it is shown.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    fn hash(&self) -> Vec<u8> {
        blake3::hash(self.0.as_bytes()).as_bytes().to_vec()
    }
}

/// What time it is.
#[derive(Clone, Debug)]
enum Clock {
    /// The database's own clock, whoever asks it.
    Database,
    /// One that somebody else moves, for tests.
    Manual(Arc<AtomicI64>),
}

/// The shards and leases of all runs.
#[derive(Debug)]
pub struct Fleet {
    database: Database,
    clock: Clock,
    term: Duration,
    /// Where its own time begins, and since when, by that, it has answered without fail.
    origin: Instant,
    answering: Mutex<Duration>,
    rng: Mutex<Rng>,
    /// Streams, by run. Another service begins anew, with what movers then say that they use.
    grants: Mutex<HashMap<JobId, Grants>>,
}

/// A shard of a run under a lease.
struct Leased {
    run: i64,
    id: i64,
    lease: i64,
}

impl Fleet {
    /// Opens the tables in `directory`, which is there.
    pub async fn open(directory: &Path) -> FleetResult<Self> {
        Self::open_at(&format!("sqlite:{}", directory.join(FILE).display())).await
    }

    /// Opens the tables in the database at `url`.
    pub async fn open_at(url: &str) -> FleetResult<Self> {
        // A lease whose claim a power failure took could be given again, with its number.
        let database = Database::open(url, Durability::Full).await?;
        database.migrate("fleet", SCHEMA).await?;
        let random = random_run();
        let seed = u64::from_le_bytes(std::array::from_fn(|byte| random[byte]));
        Ok(Self {
            database,
            clock: Clock::Database,
            term: TERM,
            origin: Instant::now(),
            answering: Mutex::default(),
            rng: Mutex::new(Rng::new(seed)),
            grants: Mutex::default(),
        })
    }

    /// The same by a clock that others move, in ms, and with chance from a seed.
    #[must_use]
    pub fn driven(self, clock: Arc<AtomicI64>, seed: u64) -> Self {
        let driven = Self { clock: Clock::Manual(clock), rng: Mutex::new(Rng::new(seed)), ..self };
        driven.answers_from_now();
        driven
    }

    /// The same with leases that hold for `term` without being renewed, for tests of what happens beyond it.
    #[must_use]
    pub fn with_term(self, term: Duration) -> Self {
        Self { term, ..self }
    }

    /// How long a lease holds without being renewed.
    pub fn term(&self) -> Duration {
        self.term
    }

    /// What its own time is, which no two services compare.
    fn elapsed(&self) -> Duration {
        match &self.clock {
            Clock::Database => self.origin.elapsed(),
            Clock::Manual(clock) => Duration::from_millis(count(clock.load(Relaxed))),
        }
    }

    /// It, or its database, was away until now.
    fn answers_from_now(&self) {
        *self.answering.lock().unwrap_or_else(PoisonError::into_inner) = self.elapsed();
    }

    /// Takes note of an outcome of asking the database.
    fn heard<T>(&self, done: Result<T, DatabaseError>) -> FleetResult<T> {
        if done.is_err() {
            self.answers_from_now();
        }
        Ok(done?)
    }

    /// Whether it has answered for long enough that whoever could renew a lease has done so.
    fn has_heard_all(&self) -> bool {
        let since = *self.answering.lock().unwrap_or_else(PoisonError::into_inner);
        self.elapsed().saturating_sub(since) >= self.term / 4
    }

    /// Closes it.
    pub async fn close(&self) {
        self.database.close().await;
    }

    /// How many of a run's `all` streams `mover`, which uses `used`, may use from now on.
    pub fn grant(&self, job: JobId, all: u16, mover: &str, used: u16) -> u16 {
        let mut grants = self.grants.lock().unwrap_or_else(PoisonError::into_inner);
        grants.entry(job).or_default().renew(all, mover, used, Instant::now())
    }

    /// The time, in SQL; not that at which a transaction began.
    fn now(&self) -> String {
        match (&self.clock, self.database.backend()) {
            (Clock::Manual(clock), _) => format!("CAST({} AS BIGINT)", clock.load(Relaxed)),
            (Clock::Database, Backend::Postgres) => {
                "(extract(epoch FROM clock_timestamp()) * 1000)::BIGINT".to_owned()
            }
            (Clock::Database, Backend::Sqlite) => {
                "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)".to_owned()
            }
        }
    }

    /// A statement with the time in it, and the locks that SQLite needs none of.
    fn text(&self, statement: &str) -> AssertSqlSafe<String> {
        let lock = match self.database.backend() {
            Backend::Sqlite => "",
            Backend::Postgres => " FOR UPDATE SKIP LOCKED",
        };
        AssertSqlSafe(statement.replace("{now}", &self.now()).replace(" {lock}", lock))
    }

    /// Where a claim or a shard has its place.
    fn place(&self) -> i64 {
        let drawn = self.rng.lock().unwrap_or_else(PoisonError::into_inner).next_u64();
        (drawn >> 1).cast_signed()
    }

    /// Does `work`, which is one transaction. One that stood in another's way is done again.
    async fn change<T, W: Future<Output = Result<Option<T>, sqlx::Error>>>(
        &self,
        what: &str,
        work: impl Fn() -> W,
    ) -> FleetResult<Option<T>> {
        const AGAIN: u32 = 5;
        for attempt in 0.. {
            match self.database.within(CHANGING, what, work()).await {
                Err(error) if error.is_conflict() && attempt < AGAIN => {}
                done => return self.heard(done),
            }
        }
        unreachable!("the last attempt returns")
    }
}

/// Ends a transaction: what came to nothing leaves nothing.
async fn settle<T>(tx: Transaction, done: Option<T>) -> Result<Option<T>, sqlx::Error> {
    match &done {
        Some(_) => tx.commit().await?,
        None => tx.rollback().await?,
    }
    Ok(done)
}

/// How many rows a statement changed.
async fn changed<'q>(
    tx: &mut AnyConnection,
    query: sqlx::query::Query<'q, Any, sqlx::any::AnyArguments>,
) -> Result<u64, sqlx::Error> {
    Ok(query.execute(tx).await?.rows_affected())
}

/// A number as SQL has it.
fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A number that SQL has.
fn count(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use sqlx::Row;

    use super::*;

    #[tokio::test]
    async fn what_is_in_a_lease_is_found_without_looking_at_every_shard() {
        let home = tempfile::tempdir().expect("a directory");
        let url = format!("sqlite:{}", home.path().join(FILE).display());
        let fleet = Fleet::open_at(&url).await.expect("opened");
        for (which, index) in [(of_lease!(), "fleet_leased"), (of_file!(), "fleet_range")] {
            let plan = format!("EXPLAIN QUERY PLAN SELECT id FROM fleet_shard WHERE {which}");
            let plan = sqlx::query(AssertSqlSafe(plan)).bind(1_i64).fetch_all(fleet.database.reads());
            let plan: Vec<String> = plan.await.expect("planned").iter().map(|row| row.get(3)).collect();
            assert!(plan.iter().all(|step| step.contains(index)), "{which}: {plan:?}");
        }
    }
}
