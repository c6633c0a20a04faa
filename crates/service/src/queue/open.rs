//! Opens the queue: its file, its lock, its tables.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, Row};

use super::{Queue, QueueError, QueueResult};
use crate::job::Request;
use crate::names::Names;
use crate::pair::Pair;

/// The version of the tables; a file of a later one is left alone.
const VERSION: i64 = 4;

/// How long a connection waits for another one's lock before it gives up.
const PATIENCE: Duration = Duration::from_secs(30);

/// Connections that read.
const READERS: u32 = 4;

/// Every choice has its index: pages by state and number, who is next between two sites, who is due again, who
/// waits for whom, and who may be forgotten.
const TABLES: &str = "
CREATE TABLE pair (
    id INTEGER PRIMARY KEY,
    source TEXT NOT NULL,
    destination TEXT NOT NULL,
    UNIQUE (source, destination)
) STRICT;
CREATE TABLE job (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    pair INTEGER NOT NULL REFERENCES pair (id),
    state TEXT NOT NULL,
    reason TEXT NOT NULL,
    priority INTEGER NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    failures INTEGER NOT NULL DEFAULT 0,
    waits_for INTEGER NOT NULL,
    submitted_ms INTEGER NOT NULL,
    started_ms INTEGER,
    ended_ms INTEGER,
    not_before_ms INTEGER,
    request TEXT NOT NULL,
    progress TEXT,
    summary TEXT
) STRICT;
CREATE TABLE dependency (
    needs INTEGER NOT NULL,
    job INTEGER NOT NULL,
    PRIMARY KEY (needs, job)
) STRICT, WITHOUT ROWID;
CREATE INDEX job_by_state ON job (state, id);
CREATE INDEX job_next ON job (pair, priority DESC, id) WHERE state = 'queued';
CREATE INDEX job_due ON job (not_before_ms) WHERE state = 'retrying';
CREATE INDEX job_ended ON job (ended_ms) WHERE ended_ms IS NOT NULL;
CREATE INDEX dependency_of ON dependency (job);
PRAGMA user_version = 1;
";

/// Since version 2: what was submitted under a key, with the numbers of its jobs as a JSON array.
const KEYS: &str = "
CREATE TABLE submission (
    key TEXT PRIMARY KEY,
    digest BLOB NOT NULL,
    ids TEXT NOT NULL,
    submitted_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX submission_age ON submission (submitted_ms);
PRAGMA user_version = 2;
";

/// Since version 3: since when an end of a job does not answer.
const OUTAGES: &str = "
ALTER TABLE job ADD COLUMN outage_since_ms INTEGER;
PRAGMA user_version = 3;
";

/// Since version 4: what learned rules decide by, once for all jobs that do.
const POLICIES: &str = "
CREATE TABLE policy (
    digest TEXT PRIMARY KEY,
    content BLOB NOT NULL
) STRICT;
ALTER TABLE job ADD COLUMN policy TEXT REFERENCES policy (digest);
CREATE INDEX job_policy ON job (policy) WHERE policy IS NOT NULL;
PRAGMA user_version = 4;
";

impl Queue {
    /// Opens the queue in `directory`, which is made if it is missing, and keeps others from it.
    pub async fn open(directory: &Path) -> QueueResult<Self> {
        let path = directory.join("queue.sqlite3");
        let broken = |message: String| QueueError::Database {
            path: path.display().to_string(),
            message: message.replace('\n', "; "),
        };
        let lock = prepare(directory, &path).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => QueueError::Busy(path.display().to_string()),
            _ => broken(error.to_string()),
        })?;
        let options = SqliteConnectOptions::new()
            .filename(&path)
            .journal_mode(SqliteJournalMode::Wal)
            // In this mode a commit returns once it is on the disk.
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(PATIENCE)
            // One such list is some 64 MB at most; the log is cut back to this after a long one.
            .pragma("journal_size_limit", "67108864")
            // The log tells what was decided, and not by which statements.
            .disable_statement_logging();
        let wrong = |error: sqlx::Error| broken(error.to_string());
        let writer = SqlitePoolOptions::new()
            .max_connections(1)
            .acquire_timeout(PATIENCE)
            .connect_with(options.clone())
            .await
            .map_err(wrong)?;
        let row = sqlx::query("PRAGMA user_version").fetch_one(&writer).await.map_err(wrong)?;
        // What is missing since the version that the file is of.
        let missing: &[&str] = match row.try_get::<i64, _>(0).map_err(wrong)? {
            0 => &[TABLES, KEYS, OUTAGES, POLICIES],
            1 => &[KEYS, OUTAGES, POLICIES],
            2 => &[OUTAGES, POLICIES],
            3 => &[POLICIES],
            VERSION => &[],
            other => return Err(broken(format!("is of version {other}, and this program knows {VERSION}"))),
        };
        if !missing.is_empty() {
            let mut tx = writer.begin_with("BEGIN IMMEDIATE").await.map_err(wrong)?;
            for tables in missing {
                sqlx::raw_sql(*tables).execute(&mut *tx).await.map_err(wrong)?;
            }
            tx.commit().await.map_err(wrong)?;
        }
        let readers = SqlitePoolOptions::new()
            .max_connections(READERS)
            .acquire_timeout(PATIENCE)
            .connect_with(options.read_only(true).create_if_missing(false))
            .await
            .map_err(wrong)?;
        let waiting = "SELECT count(*) FROM job WHERE state NOT IN ('done', 'failed', 'cancelled')";
        let row = sqlx::query(waiting).fetch_one(&readers).await.map_err(wrong)?;
        let waiting = u64::try_from(row.try_get::<i64, _>(0).map_err(wrong)?).unwrap_or(0);
        Ok(Self {
            writer,
            readers,
            path,
            names: Names::default(),
            waiting: AtomicU64::new(waiting),
            _lock: lock,
        })
    }

    /// The same where remembered endpoints are known by their names, so that their jobs count where they go.
    #[must_use]
    pub fn with_names(self, names: Names) -> Self {
        Self { names, ..self }
    }

    /// Between which sites a job moves data.
    pub fn pair_of(&self, request: &Request) -> QueueResult<Pair, String> {
        request.pair_by(&self.names)
    }

    /// Closes it; what was acknowledged is on disk with or without this.
    pub async fn close(&self) {
        self.readers.close().await;
        self.writer.close().await;
    }
}

/// Makes the directory, takes the lock, and makes the file, all for the owner alone: jobs hold tickets.
fn prepare(directory: &Path, path: &Path) -> io::Result<File> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let open = |path: &Path| {
        OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
    };
    let lock = open(&directory.join("queue.lock"))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(io::ErrorKind::WouldBlock.into()),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    open(path)?;
    Ok(lock)
}
