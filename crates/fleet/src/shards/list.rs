//! Runs, and the shards that are listed into them.

use std::time::Duration;

use sqlx::AssertSqlSafe;
use tidegate_contract::job_id::JobId;
use tidegate_database::Transaction;

use super::packing::{Extent, ShardContent};
use super::pool::PoolEndpoint;
use super::{Fleet, FleetError, FleetResult, MoverToken, changed, settle, whole};

/// Most bytes of the names of one shard, and most shards at once.
const MAX_NAMES: usize = 1 << 20;
const MAX_SHARDS: usize = 10_000;

/// How long a lister may be silent before its run is given up, in ms.
const SILENCE_MS: i64 = 10 * 60_000;

impl Fleet {
    /// Begins the run of `job`; `work` is what its movers are told.
    pub async fn begin(&self, job: JobId, token: &MoverToken, work: &str) -> FleetResult<()> {
        self.begin_by(job, token, work, &[]).await
    }

    /// The same for one whose leases go through the endpoints of a pool.
    pub async fn begin_by(
        &self,
        job: JobId,
        token: &MoverToken,
        work: &str,
        endpoints: &[PoolEndpoint],
    ) -> FleetResult<()> {
        let begin = "INSERT INTO fleet_run (job, token, work, state, heard_ms) VALUES ($1, $2, $3, 'listing', {now}) \
                     ON CONFLICT (job) DO NOTHING";
        let begun = self
            .change("begin a run", || async {
                let mut tx = self.database.begin().await?;
                let query = sqlx::query(self.text(begin))
                    .bind(whole(job.get()))
                    .bind(token.hash())
                    .bind(work.to_owned());
                let done = changed(&mut tx, query).await?;
                if done == 1 {
                    self.add_endpoints(&mut tx, whole(job.get()), endpoints).await?;
                }
                settle(tx, Some(done)).await
            })
            .await?;
        match begun {
            Some(1) => Ok(()),
            _ => Err(FleetError::Refused(format!("job {job} has begun already"))),
        }
    }

    /// Takes what was listed. `all` says that nothing more comes.
    pub async fn list(&self, job: JobId, shards: &[ShardContent], all: bool) -> FleetResult<()> {
        self.list_with(job, shards, &[], all).await
    }

    /// The same, with files of which it is known already that nobody can move them: names, kinds and reasons.
    pub async fn list_with(
        &self,
        job: JobId,
        shards: &[ShardContent],
        failed: &[(Vec<u8>, String, String)],
        all: bool,
    ) -> FleetResult<()> {
        if shards.len() > MAX_SHARDS {
            let why = format!("{} shards at once; at most {MAX_SHARDS} are taken", shards.len());
            return Err(FleetError::Refused(why));
        }
        let cannot_be = |shard: &&ShardContent| {
            shard.names.len() > MAX_NAMES || shard.files == 0 || shard.extent != Extent::Whole
        };
        if let Some(shard) = shards.iter().find(cannot_be) {
            let why = format!("a shard of {} files and {} bytes of names", shard.files, shard.names.len());
            return Err(FleetError::Refused(why));
        }
        let listed = self
            .change("take what is listed", || async {
                let mut tx = self.database.begin().await?;
                let done = self.list_in(&mut tx, job, (shards, failed), all).await?;
                settle(tx, done).await
            })
            .await?;
        match listed {
            Some(()) => Ok(()),
            None => {
                Err(FleetError::Refused(format!("job {job} takes no more: it has ended, or all is listed")))
            }
        }
    }

    async fn list_in(
        &self,
        tx: &mut Transaction,
        job: JobId,
        (shards, failed): (&[ShardContent], &[(Vec<u8>, String, String)]),
        all: bool,
    ) -> Result<Option<()>, sqlx::Error> {
        let count = "UPDATE fleet_run SET shards = shards + $2, files = files + $3, bytes = bytes + $4, failed_files = failed_files + $6, \
                     heard_ms = {now}, state = CASE WHEN $5 = 1 THEN 'running' ELSE state END \
                     WHERE job = $1 AND state = 'listing'";
        let add = "INSERT INTO fleet_shard (run, place, source, files, bytes, names) VALUES ($1, $2, $3, $4, $5, $6)";
        let sum = |of: fn(&ShardContent) -> u64| whole(shards.iter().map(of).sum());
        let run = whole(job.get());
        let query = sqlx::query(self.text(count))
            .bind(run)
            .bind(whole(shards.len() as u64))
            .bind(sum(|shard| shard.files) + whole(failed.len() as u64))
            .bind(sum(|shard| shard.bytes))
            .bind(i64::from(all))
            .bind(whole(failed.len() as u64));
        if changed(&mut *tx, query).await? != 1 {
            return Ok(None);
        }
        for shard in shards {
            let query = sqlx::query(add)
                .bind(run)
                .bind(self.place())
                .bind(i64::from(shard.source))
                .bind(whole(shard.files))
                .bind(whole(shard.bytes))
                .bind(shard.names.clone());
            changed(&mut *tx, query).await?;
        }
        for (name, kind, why) in failed {
            self.note_failure(tx, run, name, (kind.clone(), why.clone())).await?;
        }
        self.end_if_done(tx, run).await?;
        Ok(Some(()))
    }

    /// Ends a run whose shards are all at their end.
    pub(super) async fn end_if_done(
        &self,
        tx: &mut sqlx::AnyConnection,
        run: i64,
    ) -> Result<(), sqlx::Error> {
        let end = "UPDATE fleet_run SET state = 'done' WHERE job = $1 AND state = 'running' AND ended_shards = shards";
        changed(tx, sqlx::query(end).bind(run)).await.map(drop)
    }

    /// Ends a run early: nothing more is given out, and no lease of it is renewed. What is under way is no longer taken.
    pub async fn cancel(&self, job: JobId) -> FleetResult<()> {
        let run = whole(job.get());
        let stop =
            "UPDATE fleet_run SET state = 'cancelled' WHERE job = $1 AND state IN ('listing', 'running')";
        let drop_leases = "DELETE FROM fleet_lease WHERE run = $1";
        self.change("end a run", || async {
            let mut tx = self.database.begin().await?;
            changed(&mut tx, sqlx::query(stop).bind(run)).await?;
            let done = changed(&mut tx, sqlx::query(drop_leases).bind(run)).await?;
            settle(tx, Some(done)).await
        })
        .await
        .map(drop)
    }

    /// Forgets runs that ended and were listed longer than `age` ago.
    pub async fn forget(&self, age: Duration) -> FleetResult<()> {
        let old = "SELECT job FROM fleet_run WHERE state IN ('done', 'cancelled') AND heard_ms < {now} - $1";
        let age = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
        let asked = sqlx::query_scalar::<_, i64>(self.text(old)).bind(age).fetch_all(self.database.reads());
        for run in self.database.patiently("look for old runs", asked).await? {
            self.change("forget a run", || async {
                let mut tx = self.database.begin().await?;
                for statement in [
                    "DELETE FROM fleet_shard WHERE run = $1",
                    "DELETE FROM fleet_lease WHERE run = $1",
                    "DELETE FROM fleet_mover WHERE run = $1",
                    "DELETE FROM fleet_failure WHERE run = $1",
                    "DELETE FROM fleet_endpoint WHERE run = $1",
                    "DELETE FROM fleet_run WHERE job = $1",
                ] {
                    changed(&mut tx, sqlx::query(statement).bind(run)).await?;
                }
                settle(tx, Some(())).await
            })
            .await?;
        }
        Ok(())
    }

    /// Whether nobody has listed anything for so long that nobody will.
    pub async fn lister_is_gone(&self, job: JobId) -> FleetResult<bool> {
        let silent = format!(
            "SELECT count(*) FROM fleet_run WHERE job = $1 AND state = 'listing' AND heard_ms < {} - {SILENCE_MS}",
            self.now()
        );
        let asked = sqlx::query_scalar::<_, i64>(AssertSqlSafe(silent)).bind(whole(job.get()));
        let silent = self.database.patiently("look at a run", asked.fetch_one(self.database.reads())).await?;
        Ok(silent > 0)
    }
}
