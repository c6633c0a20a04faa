//! Opens the queue: its place, what keeps other services from a file, its tables.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::AtomicU64;

use tidegate_database::{Database, DatabaseError, Durability};
use tidegate_spec::pair::Pair;
use tidegate_transfer::sys::confined::Root;
use tidegate_transfer::sys::lock::Lock;

use super::probe::{self, Probe};
use super::{Hold, Queue, QueueError, QueueResult};
use crate::job::Request;
use crate::names::Names;

/// What made the tables, version by version; an older one is never edited.
const SCHEMA: &[&str] = &[
    include_str!("schema-1.sql"),
    include_str!("schema-2.sql"),
    include_str!("schema-3.sql"),
    include_str!("schema-4.sql"),
];

/// Its name in the state directory, where it is not shared.
pub(crate) const FILE: &str = "queue.sqlite3";

/// What keeps other services from the state directory.
const LOCK: &str = "queue.lock";

/// The version in the header of a file whose real one stands in a table; programs that look here know up to 4.
const IN_A_TABLE: i64 = 100;

impl Queue {
    /// Opens the queue in `directory`, which is made if it is missing, and keeps others from it.
    pub async fn open(directory: &Path) -> QueueResult<Self> {
        let path = directory.join(FILE);
        let place = path.display().to_string();
        let lock = prepare(directory, &path).map_err(|error| refused(&path, &error))?;
        let broken = |error: &DatabaseError| broken(&place, error);
        let url = format!("sqlite:{place}");
        let database = Database::open(&url, Durability::Full).await.map_err(|error| broken(&error))?;
        let adopted = database.patiently("read its version", adopt(&database)).await;
        adopted.map_err(|error| broken(&error))?;
        Self::with(database, Hold::File(lock)).await
    }

    pub(super) async fn with(database: Database, hold: Hold) -> QueueResult<Self> {
        let (names, waiting) = (Names::default(), AtomicU64::new(0));
        let queue = Self { database, hold, names, waiting, probe: Probe::default() };
        let wrong = |error: DatabaseError| broken(queue.database.place(), &error);
        queue.database.migrate("queue", SCHEMA).await.map_err(wrong)?;
        queue.database.migrate("queue probe", probe::SCHEMA).await.map_err(wrong)?;
        let count = "SELECT count(*) FROM job WHERE state NOT IN ('done', 'failed', 'cancelled')";
        let counted = sqlx::query_scalar::<_, i64>(count).fetch_one(queue.database.reads()).await;
        let waiting = u64::try_from(counted.map_err(|error| queue.failed(&error))?).unwrap_or(0);
        Ok(Self { waiting: AtomicU64::new(waiting), ..queue })
    }

    /// The same where remembered endpoints are known by their names, so that their jobs count where they go.
    #[must_use]
    pub fn with_names(self, names: Names) -> Self {
        Self { names, ..self }
    }

    /// How it is called: its path, or its address without user and password.
    pub fn place(&self) -> &str {
        self.database.place()
    }

    /// Between which sites a job moves data.
    pub(crate) fn pair_of(&self, request: &Request) -> QueueResult<Pair, String> {
        request.pair_by(&self.names)
    }

    /// Waits until another service has taken the queue over, so that this one must end; for ever where none can.
    pub async fn taken_over(&self) {
        match &self.hold {
            Hold::File(_) => std::future::pending().await,
            Hold::Lease(lease) => lease.taken_over().await,
        }
    }

    /// Closes it; what was acknowledged is on disk with or without this.
    pub async fn close(&self) {
        if let Hold::Lease(lease) = &self.hold {
            lease.give_up().await;
        }
        self.database.close().await;
    }
}

/// In one line, with its place once.
pub(super) fn broken(place: &str, error: &DatabaseError) -> QueueError {
    let text = error.to_string();
    let message = text.strip_prefix(place).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(&text);
    QueueError::Database { path: place.to_owned(), message: message.to_owned() }
}

/// Takes over a file whose version stands in its header, and has programs that look there leave it alone.
async fn adopt(database: &Database) -> Result<(), sqlx::Error> {
    let version = "PRAGMA user_version";
    let mut change = database.begin().await?;
    let known = i64::try_from(SCHEMA.len()).unwrap_or(i64::MAX);
    match sqlx::query_scalar::<_, i64>(version).fetch_one(&mut *change).await? {
        IN_A_TABLE => return Ok(()),
        0 => {}
        old if old <= known => database.adopt(&mut change, "queue", old).await?,
        newer => {
            let why = format!("it is of version {newer}, and this program knows {known}: upgrade tidegate");
            return Err(sqlx::Error::Configuration(why.into()));
        }
    }
    sqlx::query(sqlx::AssertSqlSafe(format!("{version} = {IN_A_TABLE}"))).execute(&mut *change).await?;
    change.commit().await
}

/// Keeps other services from `directory`, which is made if it is missing, for as long as the answer is held: also where the
/// queue is elsewhere, files there are called after the numbers of jobs.
pub(crate) fn hold(directory: &Path) -> QueueResult<LockFile> {
    lock(directory).map_err(|error| refused(&directory.join(FILE), &error))
}

fn refused(path: &Path, error: &io::Error) -> QueueError {
    let place = path.display().to_string();
    match error.kind() {
        io::ErrorKind::WouldBlock => QueueError::Busy(place),
        _ => QueueError::Database { path: place, message: error.to_string() },
    }
}

/// Makes the file, for the owner alone: jobs hold tickets.
fn prepare(directory: &Path, path: &Path) -> io::Result<LockFile> {
    let lock = lock(directory)?;
    private(path)?;
    Ok(lock)
}

/// A file that no other service has as long as this one.
#[derive(Debug)]
pub(crate) struct LockFile {
    _file: File,
    _lock: Lock,
}

fn lock(directory: &Path) -> io::Result<LockFile> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let file = private(&directory.join(LOCK))?;
    let lock = Lock::take(&Root::open(directory.as_os_str().as_bytes())?, LOCK, &file)?;
    let lock = lock.ok_or(io::ErrorKind::WouldBlock)?;
    Ok(LockFile { _file: file, _lock: lock })
}

fn private(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}
