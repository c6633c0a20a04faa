//! Looking at the queue: one job, pages of jobs, numbers of jobs, and who is next.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

use sqlx::Row;
use sqlx::any::AnyRow;
use tidegate_contract::summary::Summary;
use tidegate_spec::pair::{Pair, Site};

use super::{MAX_PAGE, Queue, QueueResult, number};
use crate::job::written::Written;
use crate::job::{Job, JobId, Progress, Request, State, stored};

/// The most pairs of sites that are looked at to choose a job.
const MAX_PAIRS: i64 = 10_000;
/// Jobs forgotten in one transaction.
const FORGOTTEN: i64 = 1000;

/// Who is next between two sites.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The job.
    pub id: JobId,
    /// Its priority.
    pub priority: i32,
    /// Between which sites.
    pub pair: Pair,
    /// What is asked for.
    pub request: Request,
    /// When, in ms since the epoch.
    pub submitted_ms: i64,
}

const JOB: &str = "SELECT id, request, state, reason, attempts, submitted_ms, started_ms, ended_ms, \
not_before_ms, waits_for, progress, summary, failures, outage_since_ms FROM job ";

impl Queue {
    /// A job.
    pub async fn get(&self, id: JobId) -> QueueResult<Option<Job>> {
        let query = sqlx::AssertSqlSafe(format!("{JOB} WHERE id = $1"));
        let row = sqlx::query(query).bind(number(id)).fetch_optional(self.database.reads()).await;
        row.map_err(|error| self.failed(&error))?.map(|row| self.job(&row)).transpose()
    }

    /// Jobs in one of `states`, or in any if there are none, the newest first: at most `limit` of those whose
    /// number is below `before`.
    pub async fn page(&self, states: &[State], before: Option<JobId>, limit: u32) -> QueueResult<Vec<Job>> {
        let limit = i64::from(limit.min(MAX_PAGE));
        let before = before.map_or(i64::MAX, number);
        let mut jobs = Vec::new();
        if states.is_empty() {
            let query = sqlx::AssertSqlSafe(format!("{JOB} WHERE id < $1 ORDER BY id DESC LIMIT $2"));
            let rows = sqlx::query(query).bind(before).bind(limit).fetch_all(self.database.reads()).await;
            for row in rows.map_err(|error| self.failed(&error))? {
                jobs.push(self.job(&row)?);
            }
            return Ok(jobs);
        }
        // Each state is a walk along its index; one query for several would sort them all.
        for (i, state) in states.iter().enumerate() {
            if states[..i].contains(state) {
                continue;
            }
            let query =
                sqlx::AssertSqlSafe(format!("{JOB} WHERE state = $1 AND id < $2 ORDER BY id DESC LIMIT $3"));
            let rows = sqlx::query(query)
                .bind(state.name())
                .bind(before)
                .bind(limit)
                .fetch_all(self.database.reads())
                .await;
            for row in rows.map_err(|error| self.failed(&error))? {
                jobs.push(self.job(&row)?);
            }
        }
        jobs.sort_by_key(|job| std::cmp::Reverse(job.id));
        jobs.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        Ok(jobs)
    }

    /// What the learned rule of a job decides by, if it has one.
    pub async fn policy(&self, id: JobId) -> QueueResult<Option<Vec<u8>>> {
        let find = "SELECT content FROM policy WHERE digest = (SELECT policy FROM job WHERE id = $1)";
        let row = sqlx::query(find).bind(number(id)).fetch_optional(self.database.reads()).await;
        row.and_then(|row| row.map(|row| row.try_get(0)).transpose()).map_err(|error| self.failed(&error))
    }

    /// How many jobs are in each state.
    pub async fn counts(&self) -> QueueResult<BTreeMap<State, u64>> {
        let rows = sqlx::query("SELECT state, count(*) FROM job GROUP BY state")
            .fetch_all(self.database.reads())
            .await;
        let mut counts: BTreeMap<State, u64> = State::ALL.into_iter().map(|state| (state, 0)).collect();
        for row in rows.map_err(|error| self.failed(&error))? {
            let state: String = row.try_get(0).map_err(|error| self.failed(&error))?;
            let count: i64 = row.try_get(1).map_err(|error| self.failed(&error))?;
            counts.insert(state.parse().map_err(|why| self.broken(why))?, u64::try_from(count).unwrap_or(0));
        }
        Ok(counts)
    }

    /// When the job was submitted that waits for its turn the longest, in ms since the epoch.
    pub(crate) async fn oldest_queued_ms(&self) -> QueueResult<Option<i64>> {
        let oldest = "SELECT submitted_ms FROM job WHERE state = 'queued' ORDER BY id LIMIT 1";
        let row = sqlx::query(oldest).fetch_optional(self.database.reads()).await;
        row.and_then(|row| row.map(|row| row.try_get(0)).transpose()).map_err(|error| self.failed(&error))
    }

    /// How many jobs are not at their end.
    pub fn waiting(&self) -> u64 {
        self.waiting.load(Relaxed)
    }

    /// For each pair of sites with jobs that can be begun, the one whose turn it is: the highest priority,
    /// and among equals the oldest.
    pub async fn next(&self) -> QueueResult<Vec<Candidate>> {
        // From pair to pair along the index, without a look at the jobs between.
        let query = concat!(
            "WITH RECURSIVE waiting (pair) AS (",
            "SELECT min(pair) FROM job INDEXED BY job_next WHERE state = 'queued' UNION ALL ",
            "SELECT (SELECT min(pair) FROM job INDEXED BY job_next WHERE state = 'queued' AND pair > waiting.pair) ",
            "FROM waiting WHERE pair IS NOT NULL) ",
            "SELECT job.id, job.priority, pair.source, pair.destination, job.request, job.submitted_ms ",
            "FROM (SELECT pair FROM waiting LIMIT $1) AS waiting ",
            "JOIN pair ON pair.id = waiting.pair ",
            "JOIN job ON job.id = (SELECT id FROM job INDEXED BY job_next WHERE state = 'queued' AND pair = waiting.pair ",
            "ORDER BY priority DESC, id LIMIT 1)"
        );
        let rows = sqlx::query(self.text(query)).bind(MAX_PAIRS).fetch_all(self.database.reads()).await;
        let mut found = Vec::new();
        for row in rows.map_err(|error| self.failed(&error))? {
            let priority: i64 = row.try_get(1).map_err(|error| self.failed(&error))?;
            let priority = i32::try_from(priority).map_err(|error| self.broken(error.to_string()))?;
            let pair = Pair { source: self.site(&row, 2)?, destination: self.site(&row, 3)? };
            let id = self.id(&row, 0)?;
            let text: String = row.try_get(4).map_err(|error| self.failed(&error))?;
            let request = stored::read(&text)
                .map_err(|error| self.broken(format!("job {id} cannot be read: {error}")))?;
            let submitted_ms = row.try_get(5).map_err(|error| self.failed(&error))?;
            found.push(Candidate { id, priority, pair, request, submitted_ms });
        }
        found.sort_by_key(|candidate| (std::cmp::Reverse(candidate.priority), candidate.id));
        Ok(found)
    }

    /// Forgets jobs that ended before a time; answers with how many. At most a thousand at once, so that
    /// nobody waits for it: call it again while it forgets any.
    pub async fn forget(&self, ended_before_ms: i64) -> QueueResult<u64> {
        let mut tx = self.begin().await?;
        let old = "SELECT id FROM job WHERE ended_ms < $1 ORDER BY ended_ms LIMIT $2";
        let rows = sqlx::query(old).bind(ended_before_ms).bind(FORGOTTEN).fetch_all(&mut *tx).await;
        let rows = rows.map_err(|error| self.failed(&error))?;
        for row in &rows {
            let id = number(self.id(row, 0)?);
            for delete in [
                "DELETE FROM dependency WHERE needs = $1",
                "DELETE FROM dependency WHERE job = $1",
                "DELETE FROM job WHERE id = $1",
            ] {
                sqlx::query(delete).bind(id).execute(&mut *tx).await.map_err(|error| self.failed(&error))?;
            }
        }
        let unused =
            "DELETE FROM policy WHERE NOT EXISTS (SELECT 1 FROM job WHERE job.policy = policy.digest)";
        sqlx::query(unused).execute(&mut *tx).await.map_err(|error| self.failed(&error))?;
        let keys = self.forget_keys(&mut tx, ended_before_ms, FORGOTTEN).await?;
        self.commit(tx).await?;
        Ok(rows.len() as u64 + keys)
    }

    fn site(&self, row: &AnyRow, column: usize) -> QueueResult<Site> {
        let text: String = row.try_get(column).map_err(|error| self.failed(&error))?;
        Site::of(&text).map_err(|error| self.broken(error.to_string()))
    }

    fn job(&self, row: &AnyRow) -> QueueResult<Job> {
        let failed = |error: sqlx::Error| self.failed(&error);
        let text = |column: usize| row.try_get::<String, _>(column).map_err(failed);
        let maybe = |column: usize| row.try_get::<Option<i64>, _>(column).map_err(failed);
        let count = |column: usize| {
            row.try_get::<i64, _>(column)
                .map(|count| u32::try_from(count).unwrap_or(u32::MAX))
                .map_err(failed)
        };
        let id = self.id(row, 0)?;
        let unreadable = |error: serde_json::Error| self.broken(format!("job {id} cannot be read: {error}"));
        let progress: Option<String> = row.try_get(10).map_err(failed)?;
        let summary: Option<String> = row.try_get(11).map_err(failed)?;
        Ok(Job {
            id,
            request: stored::read(&text(1)?)
                .map_err(|why| self.broken(format!("job {id} cannot be read: {why}")))?,
            state: text(2)?.parse().map_err(|why| self.broken(why))?,
            reason: text(3)?,
            attempts: count(4)?,
            failures: count(12)?,
            submitted_ms: row.try_get(5).map_err(failed)?,
            started_ms: maybe(6)?,
            ended_ms: maybe(7)?,
            not_before_ms: maybe(8)?,
            outage_since_ms: maybe(13)?,
            waits_for: count(9)?,
            progress: match progress {
                Some(text) => serde_json::from_str(&text).map_err(unreadable)?,
                None => Progress::default(),
            },
            summary: summary
                .map(|text| serde_json::from_str::<Written>(&text))
                .transpose()
                .map_err(unreadable)?
                .map(Summary::from),
        })
    }
}
