//! One SQL database, a file of SQLite or a server of PostgreSQL: opened, brought to its schema by one program
//! at a time, and never waited for longer than is said here.
//!
//! Both are spoken to through sqlx's `Any` driver, so one statement serves both. A nullable
//! `DOUBLE PRECISION` is bound as a number and `NULLIF($n, -1.0)`, never as `Option<f64>`: of a missing one
//! the driver (0.9) tells PostgreSQL another type than of one that is there, and the prepared statement keeps
//! the first.

mod schema;
mod transaction;

pub use transaction::Transaction;

use std::fmt;
use std::fs;
use std::future::Future;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use rustix::io::Errno;
use sqlx::any::{AnyConnectOptions, AnyPoolOptions};
use sqlx::{AnyConnection, AnyPool, AssertSqlSafe, ConnectOptions, Connection};
use thiserror::Error;
use tokio::sync::watch;
use url::Url;

/// Longest wait for a connection, and for any one question or change.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// Longest wait for tables to be made, which another program may be doing.
const OPENING: Duration = Duration::from_secs(15);

/// Longest that SQLite waits for another program's change; less than [`PATIENCE`], so that the reason is told.
const BUSY: Duration = Duration::from_secs(4);

/// How long nobody asks a server that was just found lost: who comes meanwhile is told so at once.
const LOST: Duration = Duration::from_secs(3);

/// Longest wait for a server to show that it is there; with the time between two looks less than [`LOST`], so that
/// who looks in the background is the only one who waits.
const LOOKING: Duration = Duration::from_secs(2);

/// Connections that read at the same time.
pub const READERS: u32 = 4;

/// Why the database did not do what was asked: one line, without any secret.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{text}")]
pub struct DatabaseError {
    text: String,
    temporary: bool,
    conflict: bool,
    gone: bool,
}

/// The outcome of speaking to a database.
pub type Result<T> = std::result::Result<T, DatabaseError>;

impl DatabaseError {
    /// Whether the same may work later: the server is gone, full of clients, or another program was busy.
    pub fn is_temporary(&self) -> bool {
        self.temporary
    }

    /// Whether another's change at the same moment stood in the way, so that the same will work at once.
    pub fn is_conflict(&self) -> bool {
        self.conflict
    }

    fn of(place: &str, what: &str, error: &sqlx::Error) -> Self {
        let (why, temporary) = explain(error);
        // SQLSTATE class 40: deadlocks and failed serializations.
        let code = error.as_database_error().and_then(|error| error.code());
        let conflict = code.is_some_and(|code| code.len() == 5 && code.starts_with("40"));
        let why = why.split_whitespace().collect::<Vec<_>>().join(" ");
        // Class 08 and 57P0x: no connection, and a server that ends, ended or only begins.
        let code = error.as_database_error().and_then(|error| error.code());
        let gone = matches!(error, sqlx::Error::Io(_) | sqlx::Error::WorkerCrashed)
            || code.is_some_and(|code| code.starts_with("08") || code.starts_with("57P"));
        Self { text: format!("{place}: cannot {what}: {why}"), temporary, conflict, gone }
    }

    fn usage(text: impl Into<String>) -> Self {
        Self { text: text.into(), temporary: false, conflict: false, gone: false }
    }
}

/// What failed and what to do, in one line.
pub fn why(error: &sqlx::Error) -> String {
    explain(error).0.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// In words what sqlx says, with what to do, and whether waiting may help.
fn explain(error: &sqlx::Error) -> (String, bool) {
    match error {
        sqlx::Error::Io(error) => (format!("{error}; is the server running, and is this its address?"), true),
        sqlx::Error::Tls(error) => (format!("TLS: {error}; see `sslmode` of PostgreSQL's URLs"), true),
        sqlx::Error::PoolTimedOut => (format!("it gave no connection within {} s", PATIENCE.as_secs()), true),
        sqlx::Error::PoolClosed | sqlx::Error::WorkerCrashed => ("it was closed".to_owned(), true),
        sqlx::Error::Configuration(error) => (error.to_string(), false),
        sqlx::Error::ColumnDecode { index, source } => {
            (format!("{index} holds what this version does not know: {source}"), false)
        }
        sqlx::Error::Database(error) => {
            let message = error.message();
            let has = |words: &[&str]| words.iter().any(|word| message.contains(word));
            if has(&["is locked", "is busy"]) {
                (format!("{message}: another program holds it for more than {} s", BUSY.as_secs()), true)
            } else if has(&["not a database", "malformed"]) {
                (format!("{message}; move that file away or name another"), false)
            } else if has(&["is full", "readonly", "unable to open", "disk I/O"]) {
                (format!("{message}; see that the disk has room and the file may be written"), true)
            } else {
                // Classes of SQLSTATE: connection, conflict, resources, operator's intervention.
                let code = error.code().unwrap_or_default().into_owned();
                (message.to_owned(), ["08", "40", "53", "57"].iter().any(|class| code.starts_with(class)))
            }
        }
        other => (other.to_string(), false),
    }
}

/// Whose database it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// A file.
    Sqlite,
    /// A server.
    Postgres,
}

/// What a power failure may take; a crash of the program takes nothing that was committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The last moment's commits, which wait for no disk: for what can be measured again.
    Relaxed,
    /// Nothing: a commit returns once it is on the disk.
    Full,
}

impl Durability {
    fn settings(self, backend: Backend) -> &'static [&'static str] {
        match (self, backend) {
            (Self::Relaxed, Backend::Sqlite) => &["PRAGMA synchronous = NORMAL"],
            (Self::Relaxed, Backend::Postgres) => &["SET synchronous_commit = off"],
            // A log that a long list of jobs made is cut back to this.
            (Self::Full, Backend::Sqlite) => {
                &["PRAGMA synchronous = FULL", "PRAGMA journal_size_limit = 67108864"]
            }
            (Self::Full, Backend::Postgres) => &["SET synchronous_commit = on"],
        }
    }

    /// Longest wait for a connection. What is to last comes in long lists, of which one holds up the next.
    const fn patience(self) -> Duration {
        match self {
            Self::Relaxed => PATIENCE,
            Self::Full => Duration::from_secs(30),
        }
    }
}

/// An open database; clones share its connections.
#[derive(Clone)]
pub struct Database {
    place: Arc<str>,
    backend: Backend,
    reads: AnyPool,
    writes: AnyPool,
    options: AnyConnectOptions,
    /// Why the server is taken to be lost, and since when it was last found so.
    lost: watch::Sender<Option<(Instant, DatabaseError)>>,
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the pools: their options hold the password.
        f.debug_struct("Database").field("place", &self.place).finish_non_exhaustive()
    }
}

impl Database {
    /// Opens `sqlite:PATH` (made if it is missing, for its owner only) or `postgres://USER:PASSWORD@HOST/NAME`.
    pub async fn open(url: &str, durability: Durability) -> Result<Self> {
        sqlx::any::install_default_drivers();
        let (backend, place, options) = read_url(url)?;
        let options = options.disable_statement_logging();
        if backend == Backend::Sqlite && lacks_locks(&place) {
            let why = "its file system has no locks, by which SQLite keeps programs apart";
            let what = "name a file of a local disk, or a server of PostgreSQL";
            return Err(DatabaseError::usage(format!("{place}: cannot be opened: {why}; {what}")));
        }
        let failed = |error: &sqlx::Error| DatabaseError::of(&place, "be opened", error);
        // The pool would hide why a server refuses, and try again for as long as it may.
        let first = async {
            let mut connection = AnyConnection::connect_with(&options).await?;
            if backend == Backend::Sqlite {
                use_log_ahead(&mut connection).await?;
            }
            connection.close().await
        };
        match tokio::time::timeout(PATIENCE, first).await {
            Ok(done) => done.map_err(|error| failed(&error))?,
            Err(_) => return Err(too_slow(&place, "be opened", PATIENCE)),
        }
        let settings = durability.settings(backend);
        let pool = |connections| {
            AnyPoolOptions::new()
                .max_connections(connections)
                .acquire_timeout(durability.patience())
                // Who waits in turn on a busy machine is not in trouble; who is about to wait in vain is.
                .acquire_slow_threshold(durability.patience() / 2)
                // A file is not lost as a server is.
                .test_before_acquire(backend == Backend::Postgres)
                .after_connect(move |connection, _| {
                    Box::pin(async move {
                        for &setting in settings {
                            sqlx::query(setting).execute(&mut *connection).await?;
                        }
                        if backend == Backend::Sqlite {
                            let busy = format!("PRAGMA busy_timeout = {}", BUSY.as_millis());
                            sqlx::query(AssertSqlSafe(busy)).execute(&mut *connection).await?;
                        }
                        Ok(())
                    })
                })
                .connect_lazy_with(options.clone())
        };
        let reads = pool(READERS);
        // SQLite has one writer at a time: ours wait for each other here, in turn, and not by trying again.
        let writes = if backend == Backend::Sqlite { pool(1) } else { reads.clone() };
        let lost = watch::Sender::new(None);
        Ok(Self { place: place.into(), backend, reads, writes, options, lost })
    }

    /// How it is called: its path or its address, without user and password.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Whose it is.
    pub fn backend(&self) -> Backend {
        self.backend
    }

    /// Connections to read by.
    pub fn reads(&self) -> &AnyPool {
        &self.reads
    }

    /// Begins a change, which holds off other changes on SQLite.
    pub async fn begin(&self) -> std::result::Result<Transaction, sqlx::Error> {
        let statement = match self.backend {
            Backend::Sqlite => "BEGIN IMMEDIATE",
            Backend::Postgres => "BEGIN",
        };
        Transaction::begin(&self.writes, statement).await
    }

    /// Waits for `work`, at most [`PATIENCE`]; `what` completes "cannot …".
    pub async fn patiently<T>(
        &self,
        what: &str,
        work: impl Future<Output = std::result::Result<T, sqlx::Error>>,
    ) -> Result<T> {
        self.within(PATIENCE, what, work).await
    }

    /// The same with another bound.
    pub async fn within<T>(
        &self,
        bound: Duration,
        what: &str,
        work: impl Future<Output = std::result::Result<T, sqlx::Error>>,
    ) -> Result<T> {
        let again = |why: &DatabaseError| DatabaseError {
            text: format!("{}: cannot {what}: it is lost for now ({})", self.place, why.text),
            ..why.clone()
        };
        let mut lost = self.lost.subscribe();
        if let Some((since, why)) = &*lost.borrow_and_update()
            && since.elapsed() < LOST
        {
            return Err(again(why));
        }
        let work = async {
            match tokio::time::timeout(bound, work).await {
                Ok(done) => done.map_err(|error| DatabaseError::of(&self.place, what, &error)),
                Err(_) => Err(too_slow(&self.place, what, bound)),
            }
        };
        tokio::select! {
            done = work => {
                self.heard(done.as_ref().err());
                done
            }
            // Nobody waits for what somebody else has found out.
            why = found_lost(&mut lost) => Err(again(&why)),
        }
    }

    /// Remembers whether the server answered. A file is not lost as a server is, and one question that takes long, or
    /// finds no place, is no sign that a server is.
    fn heard(&self, error: Option<&DatabaseError>) {
        match error {
            Some(why) if self.backend == Backend::Postgres && why.gone => {
                self.lost.send_replace(Some((Instant::now(), why.clone())));
            }
            Some(_) => {}
            None => drop(self.lost.send_if_modified(|lost| lost.take().is_some())),
        }
    }

    /// Why the server is taken to be lost, if it is.
    pub fn lost(&self) -> Option<DatabaseError> {
        self.lost.borrow().as_ref().map(|(_, why)| why.clone())
    }

    /// Finds out whether the server is there, past everything else that is asked of it, by a connection that is `kept`
    /// for that: the pool's may all be in use, and it tries to connect for as long as it may.
    pub async fn look(&self, kept: &mut Option<AnyConnection>) {
        if self.backend != Backend::Postgres {
            return;
        }
        let before = kept.take();
        let look = async {
            let asked = async |mut connection: AnyConnection| {
                sqlx::query("SELECT 1").execute(&mut connection).await.map(|_| connection)
            };
            // One that a restarted server has ended says nothing of the server.
            if let Some(connection) = before
                && let Ok(connection) = asked(connection).await
            {
                return Ok(connection);
            }
            asked(AnyConnection::connect_with(&self.options).await?).await
        };
        let what = "be reached";
        let looked = match tokio::time::timeout(LOOKING, look).await {
            Ok(done) => done
                .map(|connection| *kept = Some(connection))
                .map_err(|error| DatabaseError::of(&self.place, what, &error)),
            Err(_) => Err(DatabaseError { gone: true, ..too_slow(&self.place, what, LOOKING) }),
        };
        self.heard(looked.as_ref().err());
    }

    /// Lets go of every connection.
    pub async fn close(&self) {
        self.reads.close().await;
        self.writes.close().await;
    }
}

/// Waits until the server is found lost, and answers with why; for ever if nobody can find that any more.
async fn found_lost(lost: &mut watch::Receiver<Option<(Instant, DatabaseError)>>) -> DatabaseError {
    loop {
        if lost.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
        if let Some((_, why)) = &*lost.borrow_and_update() {
            return why.clone();
        }
    }
}

/// Readers do not wait for a writer when changes go to a log beside the file. The file remembers it.
async fn use_log_ahead(connection: &mut AnyConnection) -> std::result::Result<(), sqlx::Error> {
    loop {
        let mode: std::result::Result<String, _> =
            sqlx::query_scalar("PRAGMA journal_mode = WAL").fetch_one(&mut *connection).await;
        match mode {
            // Another program is doing the same: SQLite does not wait here by itself. The caller's bound ends it.
            Err(sqlx::Error::Database(error)) if error.message().contains("locked") => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Err(error) => return Err(error),
            Ok(mode) if mode == "wal" => return Ok(()),
            Ok(mode) => {
                let why = format!(
                    "its file system has no shared memory for a log ahead (mode {mode}): name a local disk"
                );
                return Err(sqlx::Error::Configuration(why.into()));
            }
        }
    }
}

fn too_slow(place: &str, what: &str, bound: Duration) -> DatabaseError {
    let text = format!("{place}: cannot {what}: no answer within {} s", bound.as_secs());
    DatabaseError { text, temporary: true, conflict: false, gone: false }
}

fn read_url(url: &str) -> Result<(Backend, String, AnyConnectOptions)> {
    let wanted = "a database is sqlite:PATH or postgres://USER:PASSWORD@HOST/NAME";
    if let Some(path) = url.strip_prefix("sqlite:") {
        let path = prepare_file(path.strip_prefix("//").unwrap_or(path))?;
        let place = path.display().to_string();
        let encoded = percent_encoded(&path)?;
        let options = encoded.parse().map_err(|error| DatabaseError::of(&place, "be opened", &error))?;
        return Ok((Backend::Sqlite, place, options));
    }
    // The text is not repeated: it may hold a password.
    let parsed = Url::parse(url).map_err(|error| DatabaseError::usage(format!("{wanted}: {error}")))?;
    if !["postgres", "postgresql"].contains(&parsed.scheme()) {
        return Err(DatabaseError::usage(wanted));
    }
    let host = parsed.host_str().unwrap_or("localhost");
    let port = parsed.port().map_or_else(String::new, |port| format!(":{port}"));
    let place = format!("postgres://{host}{port}{}", parsed.path());
    let options = AnyConnectOptions::from_url(&parsed);
    Ok((
        Backend::Postgres,
        place.clone(),
        options.map_err(|error| DatabaseError::of(&place, "be opened", &error))?,
    ))
}

/// Makes the file and its directory if they are missing: a history says who moves what where, so they are for
/// their owner only. SQLite's files beside it get the mode of the file.
fn prepare_file(path: &str) -> Result<PathBuf> {
    if path.is_empty() || path.starts_with(":memory:") || path.contains('?') {
        let why = "sqlite:PATH names a file, without options; what is only in memory would not be remembered";
        return Err(DatabaseError::usage(why));
    }
    let path = Path::new(path);
    let failed = |error: std::io::Error| {
        let text = format!("{}: cannot be opened: {error}", path.display());
        DatabaseError { text, temporary: false, conflict: false, gone: false }
    };
    let name = path.file_name().ok_or_else(|| failed(std::io::ErrorKind::IsADirectory.into()))?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
    let path = directory.canonicalize().map_err(failed)?.join(name);
    fs::OpenOptions::new().append(true).create(true).mode(0o600).open(&path).map_err(failed)?;
    Ok(path)
}

/// Whether the file system of the database at `place` refuses locks of ranges. A file of its own is asked: closing the database
/// would give up the locks that this process has on it.
fn lacks_locks(place: &str) -> bool {
    static ASKED: AtomicU64 = AtomicU64::new(0);
    let asked = ASKED.fetch_add(1, Ordering::Relaxed);
    let path = format!("{place}.locks-{}-{asked}", std::process::id());
    let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
    // What else is wrong, SQLite tells.
    let Ok(file) = file else { return false };
    let locked = rustix::fs::fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive);
    let _ = fs::remove_file(&path);
    matches!(locked, Err(Errno::NOSYS | Errno::NOLCK | Errno::OPNOTSUPP))
}

fn percent_encoded(path: &Path) -> Result<String> {
    let text = path.to_str().ok_or_else(|| {
        DatabaseError::usage(format!("{}: the path of a database must be UTF-8", path.display()))
    })?;
    let mut url = "sqlite://".to_owned();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"/-_.~".contains(&byte) {
            url.push(byte.into());
        } else {
            url.push_str(&format!("%{byte:02X}"));
        }
    }
    Ok(url)
}
