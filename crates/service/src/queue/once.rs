//! A batch is taken once, however often it is submitted: whoever got no answer sends it again under the same key, and
//! gets the numbers that were given the first time.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use sqlx::any::AnyRow;
use sqlx::{Any, Row};

use tidegate_database::{Backend, Transaction};

use super::{Queue, QueueError, QueueResult, number};
use crate::job::{JobId, Request};

/// The most bytes of a key.
const MAX_KEY: usize = 255;

/// What a client calls a submission, so that it is known when it comes again.
#[derive(Clone, Debug, PartialEq, Eq, Hash, JsonSchema)]
#[schemars(inline)]
pub struct IdempotencyKey(#[schemars(length(min = 1, max = MAX_KEY), regex(pattern = "^[ -~]+$"))] String);

impl FromStr for IdempotencyKey {
    type Err = String;

    fn from_str(text: &str) -> QueueResult<Self, String> {
        let fits =
            (1..=MAX_KEY).contains(&text.len()) && text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        match fits && text.trim() == text {
            true => Ok(Self(text.to_owned())),
            false => Err(format!("an idempotency key has from 1 to {MAX_KEY} printable ASCII characters")),
        }
    }
}

impl fmt::Display for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a submission led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submission {
    /// The numbers of the jobs, in the order they were given.
    pub ids: Vec<JobId>,
    /// Whether they were submitted before, and nothing was taken now.
    pub repeated: bool,
}

/// A key, and a digest of what it is of.
pub(super) struct Once<'a> {
    key: &'a IdempotencyKey,
    digest: [u8; 32],
}

impl<'a> Once<'a> {
    /// What is the same however it was written is the same.
    pub fn new(key: &'a IdempotencyKey, requests: &[Request]) -> Self {
        // Requests are plain data; what could not be written would be refused later.
        let text = serde_json::to_vec(requests).unwrap_or_default();
        Self { key, digest: *blake3::hash(&text).as_bytes() }
    }
}

impl Queue {
    /// The jobs that were submitted under the key before.
    pub(super) async fn earlier<'e, E>(&self, on: E, once: &Once<'_>) -> QueueResult<Option<Submission>>
    where
        E: sqlx::Executor<'e, Database = Any>,
    {
        let select = "SELECT digest, ids FROM submission WHERE key = $1";
        let row = sqlx::query(select).bind(once.key.0.clone()).fetch_optional(on).await;
        let Some(row) = row.map_err(|error| self.failed(&error))? else { return Ok(None) };
        let read = |row: &AnyRow| Ok::<(Vec<u8>, String), sqlx::Error>((row.try_get(0)?, row.try_get(1)?));
        let (digest, ids) = read(&row).map_err(|error| self.failed(&error))?;
        if digest != once.digest {
            return Err(QueueError::Reused(once.key.clone()));
        }
        let ids = serde_json::from_str(&ids).map_err(|error| self.broken(error.to_string()))?;
        Ok(Some(Submission { ids, repeated: true }))
    }

    /// Remembers the key with the jobs, in the transaction that takes them.
    pub(super) async fn remember(
        &self,
        tx: &mut Transaction,
        once: &Once<'_>,
        ids: &[JobId],
        now_ms: i64,
    ) -> QueueResult<()> {
        let ids: Vec<i64> = ids.iter().copied().map(number).collect();
        let ids = serde_json::to_string(&ids).map_err(|error| self.broken(error.to_string()))?;
        let insert = "INSERT INTO submission (key, digest, ids, submitted_ms) VALUES ($1, $2, $3, $4)";
        let done = sqlx::query(insert)
            .bind(once.key.0.clone())
            .bind(once.digest.to_vec())
            .bind(ids)
            .bind(now_ms)
            .execute(&mut **tx)
            .await;
        done.map(drop).map_err(|error| self.failed(&error))
    }

    /// Forgets at most so many keys from before a time, of which no job is left.
    pub(super) async fn forget_keys(
        &self,
        tx: &mut Transaction,
        before_ms: i64,
        most: i64,
    ) -> QueueResult<u64> {
        let each = match self.database.backend() {
            Backend::Sqlite => "json_each(ids) AS each JOIN job ON job.id = each.value",
            Backend::Postgres => {
                "json_array_elements_text(ids::json) AS each (value) JOIN job ON job.id = each.value::bigint"
            }
        };
        let delete = format!(
            "DELETE FROM submission WHERE key IN (SELECT key FROM submission WHERE submitted_ms < $1 AND \
             NOT EXISTS (SELECT 1 FROM {each}) ORDER BY submitted_ms LIMIT $2)"
        );
        let done =
            sqlx::query(sqlx::AssertSqlSafe(delete)).bind(before_ms).bind(most).execute(&mut **tx).await;
        done.map(|done| done.rows_affected()).map_err(|error| self.failed(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_printable_and_not_long() {
        for key in ["a", "run 7/2", &"x".repeat(MAX_KEY), "550e8400-e29b-41d4-a716-446655440000"] {
            assert_eq!(key.parse::<IdempotencyKey>().map(|key| key.to_string()), Ok(key.to_owned()));
        }
        for key in ["", " a", "a ", "a\nb", "\u{e9}", &"x".repeat(MAX_KEY + 1)] {
            assert!(key.parse::<IdempotencyKey>().is_err(), "{key:?}");
        }
    }
}
