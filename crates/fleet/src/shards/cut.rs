//! A large file as shards: ranges of it, and what completes it once they are done.

use super::packing::{Extent, ShardContent};
use super::{Fleet, changed, count, whole};
use tidegate_database::Transaction;

/// What stands for them.
const RANGE: i64 = 1;
const COMPLETION: i64 = 2;

/// What a shard is, as its row says.
pub(super) fn extent(kind: i64, (start, end): (i64, i64)) -> Extent {
    match kind {
        RANGE => Extent::Range(count(start)..count(end)),
        COMPLETION => Extent::Completion,
        _ => Extent::Whole,
    }
}

impl Fleet {
    /// Makes two ranges of a shard, and answers with the first. The shard of a whole file becomes what completes it, and
    /// waits for its ranges.
    pub(super) async fn cut(
        &self,
        tx: &mut Transaction,
        run: i64,
        (id, before): (u64, &Extent),
        (first, rest): (ShardContent, ShardContent),
    ) -> Result<(u64, ShardContent), sqlx::Error> {
        let (taken, by, more) = match before {
            Extent::Range(_) => {
                let keep =
                    "UPDATE fleet_shard SET bytes = $2, range_end = $3 WHERE id = $1 RETURNING completed_by";
                let query = sqlx::query_scalar(keep).bind(whole(id)).bind(whole(first.bytes));
                let by: i64 = query.bind(whole(end(&first))).fetch_one(&mut **tx).await?;
                (id, count(by), 1)
            }
            _ => {
                let wait =
                    "UPDATE fleet_shard SET state = 4, extent = $2, bytes = 0, open_ranges = 1 WHERE id = $1";
                changed(&mut *tx, sqlx::query(wait).bind(whole(id)).bind(COMPLETION)).await?;
                (self.add_range(tx, (id, id), &first).await?, id, 2)
            }
        };
        self.add_range(tx, (id, by), &rest).await?;
        let wait = "UPDATE fleet_shard SET open_ranges = open_ranges + 1 WHERE id = $1";
        changed(&mut *tx, sqlx::query(wait).bind(whole(by))).await?;
        let count = "UPDATE fleet_run SET shards = shards + $2 WHERE job = $1";
        changed(&mut *tx, sqlx::query(count).bind(run).bind(more)).await?;
        Ok((taken, first))
    }

    /// Adds a range of the file that the shard `by` completes, tried as often as the shard `of`; answers with its key.
    async fn add_range(
        &self,
        tx: &mut Transaction,
        (of, by): (u64, u64),
        content: &ShardContent,
    ) -> Result<u64, sqlx::Error> {
        let add = "INSERT INTO fleet_shard (run, place, tries, source, files, bytes, names, extent, range_start, range_end, completed_by) \
                   SELECT run, $2, tries, source, 0, $3, names, $4, $5, $6, $7 FROM fleet_shard WHERE id = $1 RETURNING id";
        let query = sqlx::query_scalar(add).bind(whole(of)).bind(self.place()).bind(whole(content.bytes));
        let end = end(content);
        let query = query.bind(RANGE).bind(whole(end - content.bytes)).bind(whole(end)).bind(whole(by));
        let added: i64 = query.fetch_one(&mut **tx).await?;
        Ok(count(added))
    }

    /// A range of the file that the shard `by` completes is done: that waits no more after the last.
    pub(super) async fn range_done(&self, tx: &mut Transaction, by: i64) -> Result<(), sqlx::Error> {
        let done = "UPDATE fleet_shard SET open_ranges = open_ranges - 1, \
                    state = CASE WHEN state = 4 AND open_ranges = 1 THEN 0 ELSE state END WHERE id = $1";
        changed(&mut *tx, sqlx::query(done).bind(by)).await.map(drop)
    }

    /// Nobody could move a range of the file that the shard `by` completes: what nobody has begun of it is set aside, too.
    /// Answers with how many shards that were, and whether the file has failed only now.
    pub(super) async fn set_rest_aside(
        &self,
        tx: &mut Transaction,
        by: i64,
    ) -> Result<(u64, bool), sqlx::Error> {
        let ranges = concat!("UPDATE fleet_shard SET state = 3 WHERE ", of_file!(), " AND state = 0");
        let ranges = changed(&mut *tx, sqlx::query(ranges).bind(by)).await?;
        let file = "UPDATE fleet_shard SET state = 3 WHERE id = $1 AND state = 4";
        let file = changed(&mut *tx, sqlx::query(file).bind(by)).await?;
        Ok((ranges + file, file > 0))
    }
}

fn end(content: &ShardContent) -> u64 {
    match &content.extent {
        Extent::Range(range) => range.end,
        _ => content.bytes,
    }
}
