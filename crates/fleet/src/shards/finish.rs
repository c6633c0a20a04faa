//! A lease ends: what became of its shards.

use sqlx::Row;
use tidegate_database::Transaction;

use super::packing::{cost, split};
use super::{Fleet, FleetError, FleetResult, Leased, MAX_TRIES, MoverToken, changed, count, settle, whole};

/// Most failures of a run that are kept.
const MAX_FAILURES: i64 = 10_000;

/// What became of one shard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ending {
    /// Its key.
    pub shard: u64,
    /// Whether it was not begun, or broke off for what is not its fault; then it waits again with no try less.
    pub kept: bool,
    /// Names that failed, with the kind and the reason.
    pub failed: Vec<(Vec<u8>, String, String)>,
}

/// What a mover reports at the end of a lease.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Every shard of the lease.
    pub shards: Vec<Ending>,
}

/// What was done, in all.
#[derive(Default)]
struct Done {
    shards: u64,
    files: u64,
    bytes: u64,
}

impl Fleet {
    /// Ends `lease`. All of it is taken or, where the lease is another's by now, nothing.
    pub async fn finish(&self, token: &MoverToken, lease: u64, report: &Report) -> FleetResult<()> {
        let finished = self
            .change("end a lease", || async {
                let mut tx = self.database.begin().await?;
                let done = self.finish_in(&mut tx, token, lease, report).await?;
                settle(tx, done).await
            })
            .await?;
        finished.ok_or(FleetError::Lost(lease))
    }

    async fn finish_in(
        &self,
        tx: &mut Transaction,
        token: &MoverToken,
        lease: u64,
        report: &Report,
    ) -> Result<Option<()>, sqlx::Error> {
        let over = "DELETE FROM fleet_lease WHERE id = $1 AND run = (SELECT job FROM fleet_run WHERE token = $2) \
                    RETURNING run, mover, {now} - claimed_ms, endpoint";
        let number = whole(lease);
        let query = sqlx::query(self.text(over)).bind(number).bind(token.hash());
        let Some(row) = query.fetch_optional(&mut **tx).await? else { return Ok(None) };
        let (run, mover, took_ms): (i64, String, i64) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        let endpoint: i64 = row.try_get(3)?;
        let mut done = Done::default();
        for ending in &report.shards {
            if !self.end_shard(tx, run, number, ending, &mut done).await? {
                return Ok(None);
            }
        }
        // What the report does not name waits again.
        let rest =
            concat!("UPDATE fleet_shard SET state = 0, lease = 0, tries = tries - 1 WHERE ", of_lease!());
        changed(&mut *tx, sqlx::query(rest).bind(number)).await?;
        self.add_up(tx, (run, endpoint), (&mover, took_ms), &done).await?;
        self.end_if_done(tx, run).await?;
        Ok(Some(()))
    }

    /// Ends one shard; whether it was in the lease.
    async fn end_shard(
        &self,
        tx: &mut Transaction,
        run: i64,
        lease: i64,
        ending: &Ending,
        done: &mut Done,
    ) -> Result<bool, sqlx::Error> {
        let id = whole(ending.shard);
        let shard =
            "SELECT files, bytes, tries, names, completed_by FROM fleet_shard WHERE id = $1 AND lease = $2";
        let row = sqlx::query(shard).bind(id).bind(lease).fetch_optional(&mut **tx).await?;
        let Some(row) = row else { return Ok(false) };
        let (files, bytes, tries): (i64, i64, i64) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        let (names, completed_by): (Vec<u8>, i64) = (row.try_get(3)?, row.try_get(4)?);
        if ending.kept {
            let keep =
                "UPDATE fleet_shard SET state = 0, lease = 0, tries = tries - 1 WHERE id = $1 AND lease = $2";
            return Ok(changed(&mut *tx, sqlx::query(keep).bind(id).bind(lease)).await? == 1);
        }
        // A source that is one file has no names.
        let of_shard = |name: &[u8]| names.is_empty() || split(&names).any(|known| known == name);
        let failed: Vec<_> = ending.failed.iter().filter(|(name, ..)| of_shard(name)).collect();
        let is_range = completed_by > 0;
        let failures = whole(failed.len() as u64).min(files);
        // Of the size of each nothing is known.
        let failed_bytes = match failed.is_empty() {
            true => 0,
            false if is_range => bytes,
            false => bytes / files.max(1) * failures,
        };
        done.files += count(files - failures);
        done.bytes += count(bytes - failed_bytes);
        if failed.is_empty() {
            done.shards += 1;
            if is_range {
                self.range_done(tx, completed_by).await?;
            }
            let end = "UPDATE fleet_shard SET state = 2, lease = 0, names = $3 WHERE id = $1 AND lease = $2";
            let query = sqlx::query(end).bind(id).bind(lease).bind(Vec::<u8>::new());
            return Ok(changed(&mut *tx, query).await? == 1);
        }
        let mut left = Vec::new();
        for (name, ..) in failed.iter().filter(|_| !names.is_empty()) {
            left.extend_from_slice(name);
            left.push(0);
        }
        if tries < i64::from(MAX_TRIES) {
            let again = "UPDATE fleet_shard SET state = 0, lease = 0, files = $3, bytes = $4, names = $5 \
                         WHERE id = $1 AND lease = $2";
            let query = sqlx::query(again).bind(id).bind(lease).bind(failures).bind(failed_bytes).bind(left);
            return Ok(changed(&mut *tx, query).await? == 1);
        }
        let why = |name: &[u8]| {
            let found = failed.iter().find(|(failed, ..)| failed == name || names.is_empty());
            found.map(|(_, kind, message)| (kind.clone(), message.clone())).unwrap_or_default()
        };
        self.set_aside(tx, Leased { run, id, lease }, (failures, &left), why).await
    }

    /// A shard is not tried any more: its names have failed.
    pub(super) async fn set_aside(
        &self,
        tx: &mut Transaction,
        Leased { run, id, lease }: Leased,
        (files, names): (i64, &[u8]),
        why: impl Fn(&[u8]) -> (String, String),
    ) -> Result<bool, sqlx::Error> {
        let aside =
            "UPDATE fleet_shard SET state = 3, lease = 0 WHERE id = $1 AND lease = $2 RETURNING completed_by";
        let query = sqlx::query_scalar(aside).bind(id).bind(lease);
        let Some(by): Option<i64> = query.fetch_optional(&mut **tx).await? else { return Ok(false) };
        // A file fails once, whichever of its ranges do.
        let (mut ended, mut fails) = (1, true);
        if by > 0 {
            let (rest, first) = self.set_rest_aside(tx, by).await?;
            (ended, fails) = (1 + rest, first);
        }
        let files = if by > 0 { i64::from(fails) } else { files };
        let whole_source: [&[u8]; 1] = [b""];
        let listed: Vec<&[u8]> =
            if names.is_empty() { whole_source.to_vec() } else { split(names).collect() };
        for name in listed.into_iter().filter(|_| fails) {
            self.note_failure(tx, run, name, why(name)).await?;
        }
        let count = "UPDATE fleet_run SET ended_shards = ended_shards + $3, failed_files = failed_files + $2 WHERE job = $1";
        changed(&mut *tx, sqlx::query(count).bind(run).bind(files).bind(whole(ended))).await?;
        self.end_if_done(tx, run).await?;
        Ok(true)
    }

    /// Keeps what failed and why, unless there are too many.
    pub(super) async fn note_failure(
        &self,
        tx: &mut Transaction,
        run: i64,
        name: &[u8],
        (kind, message): (String, String),
    ) -> Result<(), sqlx::Error> {
        let add = "INSERT INTO fleet_failure (run, path, kind, message) SELECT $1, $2, $3, $4 \
                   WHERE (SELECT count(*) FROM fleet_failure WHERE run = $1) < $5";
        let query = sqlx::query(add).bind(run).bind(name.to_vec()).bind(kind).bind(message);
        changed(&mut *tx, query.bind(MAX_FAILURES)).await.map(drop)
    }

    /// Counts what a lease brought, for its run and its mover.
    async fn add_up(
        &self,
        tx: &mut Transaction,
        (run, endpoint): (i64, i64),
        (mover, took_ms): (&str, i64),
        done: &Done,
    ) -> Result<(), sqlx::Error> {
        let total = "UPDATE fleet_run SET ended_shards = ended_shards + $2, done_files = done_files + $3, \
                     done_bytes = done_bytes + $4 WHERE job = $1";
        let numbers = [done.shards, done.files, done.bytes].map(whole);
        let [shards, files, bytes] = numbers;
        let query = sqlx::query(total).bind(run).bind(shards).bind(files).bind(bytes);
        changed(&mut *tx, query).await?;
        // What nobody waited for says nothing of how fast it is.
        let rate = whole(cost(done.files, done.bytes)).saturating_mul(1000) / took_ms.max(1);
        let add = "INSERT INTO fleet_mover (run, name, heard_ms, rate, shards, files, bytes) \
                   VALUES ($1, $2, {now}, $3, $4, $5, $6) ON CONFLICT (run, name) DO UPDATE SET \
                   heard_ms = excluded.heard_ms, rate = CASE WHEN excluded.rate > 0 THEN excluded.rate ELSE fleet_mover.rate END, \
                   shards = fleet_mover.shards + excluded.shards, files = fleet_mover.files + excluded.files, \
                   bytes = fleet_mover.bytes + excluded.bytes";
        let query = sqlx::query(self.text(add)).bind(run).bind(mover.to_owned()).bind(rate);
        changed(&mut *tx, query.bind(shards).bind(files).bind(bytes)).await?;
        if rate > 0 && endpoint >= 0 {
            self.endpoint_brought(tx, (run, endpoint), rate).await?;
        }
        Ok(())
    }
}
