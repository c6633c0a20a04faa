//! Failed jobs that are tried again: one, what failed for it, and all that failed for the same reason.

use sqlx::Row;
use tidegate_database::Transaction;

use super::{Change, Note, Queue, QueueError, QueueResult, number};
use crate::job::{Event, JobId, State};

/// What is appended to a reason when a job is given up; it tells how long was tried, and no cause.
pub(crate) const GIVEN_UP: &str = " (given up after ";

/// Jobs of one transaction.
const AT_ONCE: i64 = 1000;

impl Queue {
    /// Has a job tried again that failed, or that waits to be, and with it those that failed because it did. Answers with what changed, this
    /// job first.
    pub async fn retry(&self, id: JobId, note: &Note, now_ms: i64) -> QueueResult<Vec<(JobId, Change)>> {
        let mut tx = self.begin().await?;
        let changed = self.apply_retry(&mut tx, id, note, now_ms).await?;
        self.commit(tx).await?;
        self.count_in(&changed);
        Ok(changed)
    }

    /// The same with up to a thousand jobs behind `last` that failed for this `reason`, or wait for their next try for it; and
    /// with the last of them, if there was any. A job that is `done` already, and has failed again since, is left as it is, and
    /// so are those that wait for a failed job of another reason.
    pub async fn retry_alike(
        &self,
        reason: &str,
        (done, last): (JobId, Option<JobId>),
        note: &Note,
        now_ms: i64,
    ) -> QueueResult<(Vec<(JobId, Change)>, Option<JobId>)> {
        let mut tx = self.begin().await?;
        let alike = "SELECT id FROM job WHERE state IN ('failed', 'retrying') AND waits_for = 0 \
            AND (reason = $1 OR substr(reason, 1, length($2)) = $2) AND id <> $4 AND id > $5 ORDER BY id LIMIT $3";
        let cause = cause(reason);
        let rows = sqlx::query(alike)
            .bind(cause.to_owned())
            .bind(format!("{cause}{GIVEN_UP}"))
            .bind(AT_ONCE)
            .bind(number(done))
            .bind(last.map_or(0, number))
            .fetch_all(&mut *tx)
            .await
            .map_err(|error| self.failed(&error))?;
        let (mut changed, mut last) = (Vec::new(), None);
        for row in rows {
            let id = self.id(&row, 0)?;
            last = Some(id);
            changed.extend(self.apply_retry(&mut tx, id, note, now_ms).await?);
        }
        self.commit(tx).await?;
        self.count_in(&changed);
        Ok((changed, last))
    }

    async fn apply_retry(
        &self,
        tx: &mut Transaction,
        id: JobId,
        note: &Note,
        now_ms: i64,
    ) -> QueueResult<Vec<(JobId, Change)>> {
        if let Some((by, state)) = self.ended_need(tx, id).await? {
            return Err(QueueError::Held { id, by, state });
        }
        let (mut changed, mut waiting) = (Vec::new(), vec![id]);
        while let Some(next) = waiting.pop() {
            let change = self.apply(tx, next, Event::Retry { blocked: false }, note, now_ms).await?;
            changed.push((next, change));
            for dependent in self.dependents(tx, next).await? {
                // Only what waits for others fails without having been begun; another may still keep it.
                if self.state_of(tx, dependent).await?.0 == State::Failed
                    && self.ended_need(tx, dependent).await?.is_none()
                {
                    waiting.push(dependent);
                }
            }
        }
        Ok(changed)
    }

    /// A job that `id` waits for and that has ended without being done.
    async fn ended_need(&self, tx: &mut Transaction, id: JobId) -> QueueResult<Option<(JobId, State)>> {
        let needs = "SELECT needs, state FROM dependency JOIN job ON job.id = needs \
            WHERE dependency.job = $1 AND state IN ('failed', 'cancelled') ORDER BY needs LIMIT 1";
        let row = sqlx::query(needs).bind(number(id)).fetch_optional(&mut **tx).await;
        let Some(row) = row.map_err(|error| self.failed(&error))? else { return Ok(None) };
        let state: String = row.try_get(1).map_err(|error| self.failed(&error))?;
        Ok(Some((self.id(&row, 0)?, state.parse().map_err(|why| self.broken(why))?)))
    }
}

/// A reason without how long was tried.
fn cause(reason: &str) -> &str {
    reason.split(GIVEN_UP).next().unwrap_or(reason)
}
