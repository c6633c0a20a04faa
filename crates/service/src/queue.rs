//! The jobs, on disk: what was acknowledged survives a power cut, and what was completed is completed once.
//!
//! One SQLite file in the state directory, in write-ahead mode, or a PostgreSQL database that several services share and
//! one works on; synced at each commit. Changes come one after the other. Every list is a page by cursor and every
//! choice goes over an index, so that a hundred thousand waiting jobs cost no more than a hundred.

mod lease;
mod once;
mod open;
mod pages;
mod probe;
mod retry;
mod shared;
mod submit;

pub use once::{IdempotencyKey, Submission};
pub(crate) use open::{FILE, hold};
pub use pages::Candidate;
pub(crate) use retry::GIVEN_UP;
pub use shared::SharedQueue;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde::Serialize;
use sqlx::any::AnyRow;
use sqlx::{AssertSqlSafe, Row};
use thiserror::Error;

use tidegate_contract::redact;
use tidegate_contract::summary::Summary;
use tidegate_database::{Backend, Database, Transaction, why};

use crate::job::written::Written;
use crate::job::{Event, IllegalTransition, JobId, Progress, State};
use crate::names::Names;

/// The most jobs that are not at their end; more are refused.
pub(crate) const MAX_WAITING: u64 = 1_000_000;
/// The most jobs of one page.
pub(crate) const MAX_PAGE: u32 = 1000;

/// Why the queue did not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum QueueError {
    /// The database failed.
    #[error("the queue {path}: {message}")]
    Database {
        /// Its file, or its address without user and password.
        path: String,
        /// What failed, in one line.
        message: String,
    },
    /// Another service has it.
    #[error("the queue {0} is in use by another service: stop that one, or use another state directory")]
    Busy(String),
    /// There are too many jobs.
    #[error("{0} jobs wait already, and at most {MAX_WAITING} are taken: try again later")]
    Full(u64),
    /// A job of a batch makes no sense, so none of it was taken.
    #[error("job {number} of the batch: {message}")]
    Refused {
        /// Which, from 1.
        number: usize,
        /// What is wrong.
        message: String,
    },
    /// The key is that of another submission.
    #[error("the idempotency key '{0}' was used for other jobs: take another one for these")]
    Reused(IdempotencyKey),
    /// There is no such job.
    #[error("there is no job {0}")]
    NoJob(JobId),
    /// A job that it waits for has ended without being done.
    #[error("job {id} waits for job {by}, which {}: have that one tried again", .state.in_words())]
    Held {
        /// The job.
        id: JobId,
        /// What it waits for.
        by: JobId,
        /// How that one ended.
        state: State,
    },
    /// The job is in a state that does not allow it.
    #[error("job {0}: {1}")]
    Illegal(JobId, IllegalTransition),
}

/// A result of the queue.
pub type QueueResult<T, E = QueueError> = Result<T, E>;

/// The jobs.
#[derive(Debug)]
pub struct Queue {
    database: Database,
    hold: Hold,
    names: Names,
    /// Jobs that are not at their end.
    waiting: AtomicU64,
    probe: probe::Probe,
}

/// What keeps other services from it as long as it is open.
#[derive(Debug)]
enum Hold {
    /// The lock of a file.
    File(#[expect(dead_code, reason = "it is let go of when it is dropped")] open::LockFile),
    /// A row that was taken.
    Lease(lease::Lease),
}

/// What is noted with a change.
#[derive(Clone, Debug, Default)]
pub struct Note {
    /// Why, in one line.
    pub reason: String,
    /// Not to be begun again before this time, in ms since the epoch.
    pub not_before_ms: Option<i64>,
    /// Since when nobody answers, in ms since the epoch; noted with what breaks off.
    pub outage_since_ms: Option<i64>,
    /// How the attempt ended.
    pub summary: Option<Summary>,
    /// How far it came.
    pub progress: Option<Progress>,
    /// What kind of failure ended it, in a word; for who counts them, and kept nowhere.
    pub cause: Option<&'static str>,
}

impl Note {
    /// A reason and nothing else.
    pub fn why(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), ..Self::default() }
    }
}

/// What a change led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The state before.
    pub from: State,
    /// The state now.
    pub to: State,
    /// Jobs that waited for this one and can be begun now.
    pub released: Vec<JobId>,
    /// Jobs that waited for this one and have failed with it.
    pub doomed: Vec<JobId>,
}

impl Queue {
    /// Lets `event` happen to a job, or says why it cannot; both are decided and written in one transaction, so
    /// that each job ends once.
    pub async fn change(&self, id: JobId, event: Event, note: &Note, now_ms: i64) -> QueueResult<Change> {
        let mut tx = self.begin().await?;
        let change = self.apply(&mut tx, id, event, note, now_ms).await?;
        self.commit(tx).await?;
        let ended = u64::from(change.to.is_final()) + change.doomed.len() as u64;
        self.waiting.fetch_sub(ended, Relaxed);
        Ok(change)
    }

    /// What ran when the service before this one ended goes back into the queue, and what it was asked to pause
    /// or to cancel is paused or cancelled. Answers with the jobs and their new states.
    pub async fn recover(&self, now_ms: i64) -> QueueResult<Vec<(JobId, State)>> {
        let mut tx = self.begin().await?;
        let active = "SELECT id FROM job WHERE state IN ('running', 'pausing', 'cancelling') ORDER BY id";
        let rows = sqlx::query(active).fetch_all(&mut *tx).await.map_err(|error| self.failed(&error))?;
        let note = Note::why("the service was restarted");
        let (mut recovered, mut ended) = (Vec::with_capacity(rows.len()), 0);
        for row in rows {
            let id = self.id(&row, 0)?;
            let change = self.apply(&mut tx, id, Event::Recovered, &note, now_ms).await?;
            ended += u64::from(change.to.is_final()) + change.doomed.len() as u64;
            recovered.push((id, change.to));
        }
        self.commit(tx).await?;
        self.waiting.fetch_sub(ended, Relaxed);
        Ok(recovered)
    }

    /// Puts jobs back in line whose pause after a failure is over; answers with when the next one's is.
    pub async fn release_due(&self, now_ms: i64) -> QueueResult<Option<i64>> {
        let next = "SELECT min(not_before_ms) FROM job INDEXED BY job_due WHERE state = 'retrying'";
        let soonest = |row: AnyRow| row.try_get::<Option<i64>, _>(0);
        let failed = |error| self.failed(&error);
        let first = sqlx::query(self.text(next))
            .fetch_one(self.database.reads())
            .await
            .and_then(soonest)
            .map_err(failed)?;
        if first.is_none_or(|first| first > now_ms) {
            return Ok(first);
        }
        let mut tx = self.begin().await?;
        let due = "SELECT id FROM job INDEXED BY job_due WHERE state = 'retrying' AND not_before_ms <= $1 ORDER BY not_before_ms LIMIT 1000";
        let rows = sqlx::query(self.text(due)).bind(now_ms).fetch_all(&mut *tx).await.map_err(failed)?;
        for row in rows {
            let id = self.id(&row, 0)?;
            self.apply(&mut tx, id, Event::Due, &Note::why("to be tried again"), now_ms).await?;
        }
        let first =
            sqlx::query(self.text(next)).fetch_one(&mut *tx).await.and_then(soonest).map_err(failed)?;
        self.commit(tx).await?;
        Ok(first)
    }

    /// Those of these jobs that had ended wait again.
    fn count_in(&self, changed: &[(JobId, Change)]) {
        let jobs = changed.iter().filter(|(_, change)| change.from.is_final()).count();
        self.waiting.fetch_add(jobs as u64, Relaxed);
    }

    /// Other changes wait from here on: a change reads before it writes.
    async fn begin(&self) -> QueueResult<Transaction> {
        let mut tx = self.database.begin().await.map_err(|error| self.failed(&error))?;
        if let Hold::Lease(lease) = &self.hold
            && !lease.hold(&mut tx).await.map_err(|error| self.failed(&error))?
        {
            return Err(QueueError::Busy(self.database.place().to_owned()));
        }
        Ok(tx)
    }

    /// A statement that tells SQLite, which would choose another one, the index.
    fn text(&self, statement: &str) -> AssertSqlSafe<String> {
        let plain = |text: String, index| text.replace(&format!(" INDEXED BY {index}"), "");
        AssertSqlSafe(match self.database.backend() {
            Backend::Sqlite => statement.to_owned(),
            Backend::Postgres => ["job_next", "job_due"].into_iter().fold(statement.to_owned(), plain),
        })
    }

    async fn commit(&self, tx: Transaction) -> QueueResult<()> {
        tx.commit().await.map_err(|error| self.failed(&error))?;
        self.probe.note();
        Ok(())
    }

    async fn apply(
        &self,
        tx: &mut Transaction,
        id: JobId,
        event: Event,
        note: &Note,
        now_ms: i64,
    ) -> QueueResult<Change> {
        let (from, waits_for) = self.state_of(tx, id).await?;
        let event = match event {
            Event::Resume { .. } => Event::Resume { blocked: waits_for > 0 },
            Event::Retry { .. } => Event::Retry { blocked: waits_for > 0 },
            event => event,
        };
        let to = from.after(event).map_err(|illegal| QueueError::Illegal(id, illegal))?;
        let (claimed, broke) = (event == Event::Claimed, to == State::Retrying);
        let retried = matches!(event, Event::Retry { .. });
        // Only what ends in another try counts: a rest, or the end of the service, is not the job's failure; and
        // outages count by their time.
        let fails = broke && note.outage_since_ms.is_none();
        let update = concat!(
            "UPDATE job SET state = $1, reason = $2, attempts = attempts + $3, not_before_ms = $4, ",
            "failures = CASE WHEN $12 = 1 THEN 0 ELSE failures + $11 END, ",
            "outage_since_ms = CASE WHEN $14 = 1 THEN $13 ELSE outage_since_ms END, ",
            "started_ms = CASE WHEN $3 = 1 THEN $5 ELSE started_ms END, ended_ms = $6, ",
            "summary = coalesce($7, summary), progress = coalesce($8, progress) WHERE id = $9 AND state = $10"
        );
        let changed = sqlx::query(update)
            .bind(to.name())
            .bind(redact::line(&note.reason, &[]))
            .bind(i64::from(claimed))
            .bind(note.not_before_ms.filter(|_| to == State::Retrying))
            .bind(now_ms)
            .bind(to.is_final().then_some(now_ms))
            .bind(json(note.summary.as_ref().map(Written::from).as_ref()))
            .bind(json(note.progress.as_ref()))
            .bind(number(id))
            .bind(from.name())
            .bind(i64::from(fails))
            .bind(i64::from(retried))
            .bind(note.outage_since_ms)
            .bind(i64::from(broke || retried))
            .execute(&mut **tx)
            .await
            .map_err(|error| self.failed(&error))?;
        if changed.rows_affected() != 1 {
            return Err(self.broken(format!("job {id} changed while it was being changed")));
        }
        let mut change = Change { from, to, released: Vec::new(), doomed: Vec::new() };
        match to {
            State::Done => change.released = self.release(tx, id).await?,
            State::Failed | State::Cancelled => change.doomed = self.doom(tx, id, to, now_ms).await?,
            _ => {}
        }
        Ok(change)
    }

    async fn state_of(&self, tx: &mut Transaction, id: JobId) -> QueueResult<(State, i64)> {
        let row = sqlx::query("SELECT state, waits_for FROM job WHERE id = $1")
            .bind(number(id))
            .fetch_optional(&mut **tx)
            .await
            .map_err(|error| self.failed(&error))?;
        let row = row.ok_or(QueueError::NoJob(id))?;
        let state: String = row.try_get(0).map_err(|error| self.failed(&error))?;
        let waits_for = row.try_get(1).map_err(|error| self.failed(&error))?;
        Ok((state.parse().map_err(|why| self.broken(why))?, waits_for))
    }

    /// The jobs that wait for a job.
    async fn dependents(&self, tx: &mut Transaction, id: JobId) -> QueueResult<Vec<JobId>> {
        let rows = sqlx::query("SELECT job FROM dependency WHERE needs = $1 ORDER BY job")
            .bind(number(id))
            .fetch_all(&mut **tx)
            .await
            .map_err(|error| self.failed(&error))?;
        rows.iter().map(|row| self.id(row, 0)).collect()
    }

    async fn release(&self, tx: &mut Transaction, done: JobId) -> QueueResult<Vec<JobId>> {
        let mut released = Vec::new();
        for id in self.dependents(tx, done).await? {
            let (state, waits_for) = self.state_of(tx, id).await?;
            let left = (waits_for - 1).max(0);
            let next = state.after(Event::Released).ok().filter(|_| left == 0);
            sqlx::query("UPDATE job SET waits_for = $1, state = $2 WHERE id = $3")
                .bind(left)
                .bind(next.unwrap_or(state).name())
                .bind(number(id))
                .execute(&mut **tx)
                .await
                .map_err(|error| self.failed(&error))?;
            released.extend(next.map(|_| id));
        }
        Ok(released)
    }

    /// Fails everything that waits for `ended`, and what waits for that.
    async fn doom(
        &self,
        tx: &mut Transaction,
        ended: JobId,
        how: State,
        now_ms: i64,
    ) -> QueueResult<Vec<JobId>> {
        let mut doomed = Vec::new();
        let mut ends = vec![(ended, how)];
        while let Some((end, how)) = ends.pop() {
            for id in self.dependents(tx, end).await? {
                let (state, _) = self.state_of(tx, id).await?;
                let Ok(next) = state.after(Event::Doomed) else { continue };
                sqlx::query("UPDATE job SET state = $1, reason = $2, ended_ms = $3 WHERE id = $4")
                    .bind(next.name())
                    .bind(format!("it waited for job {end}, which {}", how.in_words()))
                    .bind(now_ms)
                    .bind(number(id))
                    .execute(&mut **tx)
                    .await
                    .map_err(|error| self.failed(&error))?;
                doomed.push(id);
                ends.push((id, next));
            }
        }
        Ok(doomed)
    }

    fn id(&self, row: &AnyRow, column: usize) -> QueueResult<JobId> {
        let number: i64 = row.try_get(column).map_err(|error| self.failed(&error))?;
        let id = u64::try_from(number).ok().and_then(JobId::new);
        id.ok_or_else(|| self.broken(format!("{number} is not the number of a job")))
    }

    fn failed(&self, error: &sqlx::Error) -> QueueError {
        self.probe.doubt();
        self.broken(why(error))
    }

    fn broken(&self, message: impl Into<String>) -> QueueError {
        let message = message.into().replace('\n', "; ");
        QueueError::Database { path: self.database.place().to_owned(), message }
    }
}

/// A job's number as SQL has it.
fn number(id: JobId) -> i64 {
    // Every number is made to fit.
    i64::try_from(id.get()).unwrap_or(i64::MAX)
}

fn json<T: Serialize>(value: Option<&T>) -> Option<String> {
    value.and_then(|value| serde_json::to_string(value).ok())
}
