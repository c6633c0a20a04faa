//! What is forgotten: by age, by number, by pair.

use std::time::Duration;

use tidegate_database::Result;
use tidegate_spec::pair::Site;

use super::History;
use super::kind::{Cell, TABLES};
use super::record::Timestamp;
use super::store::{Clauses, DELETION, bound};

/// Records deleted in one transaction, so that no writer waits for long.
const BATCH: u32 = 5000;

/// How much is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Nothing older than this.
    pub age: Duration,
    /// At most so many records of each kind for each pair, the newest.
    pub rows_per_pair: u32,
}

impl Default for Retention {
    /// A year and a month, so that the same season can be looked at; and what a pair used once a minute leaves
    /// in a week.
    fn default() -> Self {
        Self { age: Duration::from_secs(396 * 24 * 3600), rows_per_pair: 10_000 }
    }
}

/// Which records are to be forgotten; all that are given must hold, and with none given it is everything.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// From this site only.
    pub source: Option<Site>,
    /// To this site only.
    pub destination: Option<Site>,
    /// Older than this only.
    pub before: Option<Timestamp>,
}

impl History {
    /// Forgets what `retention` does not keep at the moment `now`; says how many records those were.
    pub async fn retain(&self, retention: &Retention, now: Timestamp) -> Result<u64> {
        let old = Selection { before: Some(now.before(retention.age)), ..Selection::default() };
        let mut gone = self.forget(&old).await?;
        for table in TABLES {
            let surplus = format!(
                "SELECT id FROM (SELECT id, ROW_NUMBER() OVER (PARTITION BY source, destination \
                 ORDER BY at_ms DESC, id DESC) AS place FROM {table}) AS placed WHERE place > $1"
            );
            gone += self.delete(table, &surplus, &[Cell::Whole(retention.rows_per_pair.into())]).await?;
        }
        Ok(gone)
    }

    /// Forgets the records of a selection; says how many those were.
    pub async fn forget(&self, selection: &Selection) -> Result<u64> {
        let mut conditions = Clauses::default();
        conditions.sites(selection.source.as_ref(), selection.destination.as_ref());
        if let Some(before) = selection.before {
            conditions.add("at_ms < ", Cell::Whole(before.0));
        }
        let mut gone = 0;
        for table in TABLES {
            let which = format!("SELECT id FROM {table}{}", conditions.text);
            gone += self.delete(table, &which, &conditions.values).await?;
        }
        Ok(gone)
    }

    /// Deletes the rows whose keys `which` selects, batch after batch.
    async fn delete(&self, table: &str, which: &str, values: &[Cell]) -> Result<u64> {
        let text = format!("DELETE FROM {table} WHERE id IN ({which} LIMIT {BATCH})");
        let mut gone = 0;
        loop {
            let work = async {
                let mut change = self.database.begin().await?;
                let deleted = bound(&text, values.to_vec()).execute(&mut *change).await?.rows_affected();
                change.commit().await?;
                Ok::<_, sqlx::Error>(deleted)
            };
            let deleted = self.database.within(DELETION, "forget records", work).await?;
            gone += deleted;
            if deleted < u64::from(BATCH) {
                return Ok(gone);
            }
        }
    }
}
