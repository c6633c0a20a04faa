//! Movers take shards, and keep their leases.

use std::time::Duration;

use sqlx::Row;
use tidegate_contract::job_id::JobId;
use tidegate_database::Transaction;

use super::cut::extent;
use super::packing::{Extent, ShardContent, cost};
use super::{Fleet, FleetError, FleetResult, Leased, MAX_TRIES, MoverToken, changed, count, settle, whole};

/// How long a lease holds without being renewed, unless a test says otherwise.
pub const TERM: Duration = Duration::from_secs(60);

/// How much one claim is to be, in time, and how little is not worth one where little is left.
const CLAIM_S: u64 = 45;
const LEAST_S: u64 = 2;

/// Most shards and bytes of names of one claim.
const MAX_SHARDS: i64 = 128;
const MAX_NAMES: usize = 2 << 20;

/// What a mover of which nothing is known is taken to move, in bytes a second, and how much its first claim is to be, in time:
/// it may be much slower than the others, and nobody can take from it what it has claimed.
const FIRST_RATE: u64 = 8 << 20;
const FIRST_S: u64 = 5;

/// What stands for no endpoint.
const NO_ENDPOINT: i64 = -1;

/// Most leases that are ended in one go.
const SWEPT: i64 = 100;

/// Shards that are a mover's until its lease is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardLease {
    /// Its number, which is never given again.
    pub token: u64,
    /// The run.
    pub job: JobId,
    /// What the run's movers are told.
    pub work: String,
    /// The shards, by their keys.
    pub shards: Vec<(u64, ShardContent)>,
    /// The number of the pool's endpoint that it goes through, where there is a pool.
    pub endpoint: Option<u16>,
}

/// Who asks for work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Claimer<'a> {
    /// What it calls itself.
    pub mover: &'a str,
    /// The host it runs on.
    pub host: &'a str,
    /// The numbers of endpoints that it is not to be given, as they failed it.
    pub without: &'a [u16],
}

impl<'a> Claimer<'a> {
    /// One that calls itself so.
    pub fn named(mover: &'a str) -> Self {
        Self { mover, ..Self::default() }
    }
}

/// What a mover that asks for work is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// This is to be done.
    Lease(Box<ShardLease>),
    /// Nothing for now: others have it, or it is not listed yet.
    Wait,
    /// Nothing any more.
    Drained,
}

/// A run, as a claim finds it.
struct Found {
    run: i64,
    work: String,
    state: String,
    /// What is left of it, and what a shard is on average, as costs.
    left: u64,
    each: u64,
}

impl Fleet {
    /// Gives `claimer` some shards of the run that `token` opens.
    pub async fn claim(&self, token: &MoverToken, claimer: Claimer<'_>) -> FleetResult<Claimed> {
        let claimed = self
            .change("claim shards", || async {
                let mut tx = self.database.begin().await?;
                let done = self.claim_in(&mut tx, token, claimer).await?;
                settle(tx, done).await
            })
            .await?;
        claimed.ok_or(FleetError::NoRun)
    }

    async fn claim_in(
        &self,
        tx: &mut Transaction,
        token: &MoverToken,
        Claimer { mover, host, without }: Claimer<'_>,
    ) -> Result<Option<Claimed>, sqlx::Error> {
        let Some(found) = self.found(tx, token).await? else { return Ok(None) };
        let Found { run, work, state, left, each } = found;
        if !matches!(&state[..], "listing" | "running") {
            return Ok(Some(Claimed::Drained));
        }
        let share = self.share(tx, run, mover, left).await?;
        let mut shards = self.waiting(tx, run, (share, each)).await?;
        if shards.is_empty() {
            return Ok(Some(Claimed::Wait));
        }
        let endpoint = self.endpoint(tx, run, without).await?;
        let number = endpoint.map_or(NO_ENDPOINT, i64::from);
        let lease = "INSERT INTO fleet_lease (run, mover, endpoint, claimed_ms, until_ms) \
                     VALUES ($1, $2, $3, {now}, {now} + $4) RETURNING id";
        let lease: i64 = sqlx::query_scalar(self.text(lease))
            .bind(run)
            .bind(mover.to_owned())
            .bind(number)
            .bind(milliseconds(self.term))
            .fetch_one(&mut **tx)
            .await?;
        let heard = "INSERT INTO fleet_mover (run, name, heard_ms, host, endpoint) VALUES ($1, $2, {now}, $3, $4) \
                     ON CONFLICT (run, name) DO UPDATE SET heard_ms = excluded.heard_ms, host = excluded.host, \
                     endpoint = excluded.endpoint";
        let query = sqlx::query(self.text(heard)).bind(run).bind(mover.to_owned());
        changed(&mut *tx, query.bind(host.to_owned()).bind(number)).await?;
        let take =
            "UPDATE fleet_shard SET state = 1, lease = $1, tries = tries + 1 WHERE id = $2 AND state = 0";
        // Completing a file that is cut is a claim more; ranges and lists of files are divided for nothing.
        let most = |content: &ShardContent| match content.extent {
            Extent::Whole if content.files > 1 => share,
            Extent::Range(_) => share,
            Extent::Whole | Extent::Completion => 2 * share,
        };
        if let [(id, content)] = &mut shards[..]
            && content.cost() > most(content)
        {
            match content.cut(share) {
                Some(ranges) => (*id, *content) = self.cut(tx, run, (*id, &content.extent), ranges).await?,
                None => self.shrink(tx, run, (*id, content), share).await?,
            }
        }
        for (id, _) in &shards {
            changed(&mut *tx, sqlx::query(take).bind(lease).bind(whole(*id))).await?;
        }
        let job = JobId::new(count(run)).ok_or(sqlx::Error::RowNotFound)?;
        Ok(Some(Claimed::Lease(Box::new(ShardLease { token: count(lease), job, work, shards, endpoint }))))
    }

    async fn found(&self, tx: &mut Transaction, token: &MoverToken) -> Result<Option<Found>, sqlx::Error> {
        let run = "SELECT job, work, state, files, bytes, done_files, done_bytes, shards FROM fleet_run WHERE token = $1";
        let row = sqlx::query(run).bind(token.hash()).fetch_optional(&mut **tx).await?;
        let Some(row) = row else { return Ok(None) };
        let number = |column: usize| row.try_get::<i64, _>(column).map(count);
        let all = cost(number(3)?, number(4)?);
        let left = all.saturating_sub(cost(number(5)?, number(6)?));
        let each = all / number(7)?.max(1);
        Ok(Some(Found { run: row.try_get(0)?, work: row.try_get(1)?, state: row.try_get(2)?, left, each }))
    }

    /// How much a mover is given: what it does in a while, and no more than its part of half of what is left, by its rate beside
    /// those of others that were heard of within a lease's term, unless that is too little.
    async fn share(
        &self,
        tx: &mut Transaction,
        run: i64,
        mover: &str,
        left: u64,
    ) -> Result<u64, sqlx::Error> {
        let rate = "SELECT rate FROM fleet_mover WHERE run = $1 AND name = $2";
        let rate: Option<i64> =
            sqlx::query_scalar(rate).bind(run).bind(mover.to_owned()).fetch_optional(&mut **tx).await?;
        let known = rate.map(count).filter(|rate| *rate > 0);
        let (rate, time) = known.map_or((FIRST_RATE, FIRST_S), |rate| (rate, CLAIM_S));
        // Not by leases: they come and go so fast that a scan of them walks over many that are gone.
        let others = "SELECT CAST(COALESCE(SUM(CASE WHEN rate > 0 THEN rate ELSE $3 END), 0) AS BIGINT) \
                      FROM fleet_mover WHERE run = $1 AND name <> $2 AND heard_ms > {now} - $4";
        let others: i64 = sqlx::query_scalar(self.text(others))
            .bind(run)
            .bind(mover.to_owned())
            .bind(whole(FIRST_RATE))
            .bind(milliseconds(self.term))
            .fetch_one(&mut **tx)
            .await?;
        let all = u128::from(rate) + u128::from(count(others));
        let part = u64::try_from(u128::from(left) * u128::from(rate) / (2 * all)).unwrap_or(left);
        Ok(rate.saturating_mul(time).min(part.max(rate * LEAST_S)))
    }

    /// Shards that wait, from a random place on, as many as make `share`, and one at the least. Where all begin at the
    /// oldest, each walks over the rows that others have just taken.
    async fn waiting(
        &self,
        tx: &mut Transaction,
        run: i64,
        (share, each): (u64, u64),
    ) -> Result<Vec<(u64, ShardContent)>, sqlx::Error> {
        let (place, many) = (self.place(), whole(share / each.max(1) + 1).min(MAX_SHARDS));
        let mut shards: Vec<(u64, ShardContent)> = Vec::new();
        let (mut taken, mut names) = (0u64, 0);
        for within in [
            "SELECT id, source, files, bytes, names, extent, range_start, range_end FROM fleet_shard \
             WHERE run = $1 AND state = 0 AND place >= $2 \
             ORDER BY place LIMIT $3 {lock}",
            "SELECT id, source, files, bytes, names, extent, range_start, range_end FROM fleet_shard \
             WHERE run = $1 AND state = 0 AND place < $2 \
             ORDER BY place LIMIT $3 {lock}",
        ] {
            let left = many - whole(shards.len() as u64);
            if left <= 0 {
                break;
            }
            let waiting = sqlx::query(self.text(within)).bind(run).bind(place).bind(left);
            for row in waiting.fetch_all(&mut **tx).await? {
                let content = ShardContent {
                    source: u32::try_from(row.try_get::<i64, _>(1)?).unwrap_or(0),
                    files: count(row.try_get(2)?),
                    bytes: count(row.try_get(3)?),
                    names: row.try_get(4)?,
                    extent: extent(row.try_get(5)?, (row.try_get(6)?, row.try_get(7)?)),
                };
                taken = taken.saturating_add(content.cost());
                names += content.names.len();
                if !shards.is_empty() && (taken > share || names > MAX_NAMES) {
                    return Ok(shards);
                }
                shards.push((count(row.try_get(0)?), content));
            }
        }
        Ok(shards)
    }

    /// Leaves part of a shard that is too much for one claim as another shard: nobody is to be waited for at the end.
    async fn shrink(
        &self,
        tx: &mut Transaction,
        run: i64,
        (id, content): (u64, &mut ShardContent),
        share: u64,
    ) -> Result<(), sqlx::Error> {
        let Some(rest) = content.split(share) else { return Ok(()) };
        let keep = "UPDATE fleet_shard SET files = $2, bytes = $3, names = $4 WHERE id = $1";
        let query = sqlx::query(keep).bind(whole(id)).bind(whole(content.files)).bind(whole(content.bytes));
        changed(&mut *tx, query.bind(content.names.clone())).await?;
        let add = "INSERT INTO fleet_shard (run, place, tries, source, files, bytes, names) \
                   SELECT run, $2, tries, source, $3, $4, $5 FROM fleet_shard WHERE id = $1";
        let query = sqlx::query(add).bind(whole(id)).bind(self.place()).bind(whole(rest.files));
        changed(&mut *tx, query.bind(whole(rest.bytes)).bind(rest.names)).await?;
        let more = "UPDATE fleet_run SET shards = shards + 1 WHERE job = $1";
        changed(&mut *tx, sqlx::query(more).bind(run)).await.map(drop)
    }

    /// Renews a lease, and with it the leave to commit; answers with whose it is.
    pub async fn renew(&self, token: &MoverToken, lease: u64, seen: Seen) -> FleetResult<Renewal> {
        let renewed = self.change("renew a lease", || async {
            let mut tx = self.database.begin().await?;
            let done = self.renew_in(&mut tx, token, lease, seen).await?;
            settle(tx, done).await
        });
        renewed.await?.ok_or(FleetError::Lost(lease))
    }

    async fn renew_in(
        &self,
        tx: &mut Transaction,
        token: &MoverToken,
        lease: u64,
        seen: Seen,
    ) -> Result<Option<Renewal>, sqlx::Error> {
        // Both by their keys, and nothing else: one row each, which is small and changes in place.
        let renew = "UPDATE fleet_lease SET until_ms = {now} + $3, bytes = $4 WHERE id = $1 \
                     AND run = (SELECT job FROM fleet_run WHERE token = $2) \
                     RETURNING run, mover, (SELECT work FROM fleet_run WHERE job = run)";
        let heard = "INSERT INTO fleet_mover (run, name, heard_ms, streams, throughput_bps) VALUES ($1, $2, {now}, $3, $4) \
                     ON CONFLICT (run, name) DO UPDATE SET heard_ms = excluded.heard_ms, streams = excluded.streams, \
                     throughput_bps = excluded.throughput_bps";
        let row = sqlx::query(self.text(renew))
            .bind(whole(lease))
            .bind(token.hash())
            .bind(milliseconds(self.term))
            .bind(whole(seen.bytes))
            .fetch_optional(&mut **tx)
            .await?;
        let Some(row) = row else { return Ok(None) };
        let work = row.try_get(2)?;
        let (run, mover): (i64, String) = (row.try_get(0)?, row.try_get(1)?);
        let query = sqlx::query(self.text(heard)).bind(run).bind(mover.clone()).bind(i64::from(seen.streams));
        changed(&mut *tx, query.bind(whole(seen.throughput_bps))).await?;
        let job = JobId::new(count(run)).ok_or(sqlx::Error::RowNotFound)?;
        Ok(Some(Renewal { job, mover, work }))
    }

    /// Ends leases that ran out: their shards wait again, or are set aside after so many tries. Answers with how many. Those
    /// that ran out while nobody could renew them are left for a while.
    pub async fn sweep(&self) -> FleetResult<u64> {
        if !self.has_heard_all() {
            return Ok(0);
        }
        let mut swept = 0;
        loop {
            let ended = self
                .change("end leases", || async {
                    let mut tx = self.database.begin().await?;
                    let done = self.sweep_in(&mut tx).await?;
                    settle(tx, done).await
                })
                .await?
                .unwrap_or(0);
            swept += ended;
            if whole(ended) < SWEPT {
                return Ok(swept);
            }
        }
    }

    async fn sweep_in(&self, tx: &mut Transaction) -> Result<Option<u64>, sqlx::Error> {
        let over = "SELECT id, run FROM fleet_lease WHERE until_ms < {now} ORDER BY id LIMIT $1 {lock}";
        let rows = sqlx::query(self.text(over)).bind(SWEPT).fetch_all(&mut **tx).await?;
        for row in &rows {
            let (lease, run): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
            changed(&mut *tx, sqlx::query("DELETE FROM fleet_lease WHERE id = $1").bind(lease)).await?;
            self.give_back(tx, run, lease).await?;
        }
        Ok(Some(rows.len() as u64))
    }

    /// The shards of a lease that ran out.
    async fn give_back(&self, tx: &mut Transaction, run: i64, lease: i64) -> Result<(), sqlx::Error> {
        let most = i64::from(MAX_TRIES);
        let again =
            concat!("UPDATE fleet_shard SET state = 0, lease = 0 WHERE ", of_lease!(), " AND tries < $2");
        changed(&mut *tx, sqlx::query(again).bind(lease).bind(most)).await?;
        let rest = concat!(
            "SELECT id, files, names FROM fleet_shard WHERE ",
            of_lease!(),
            " AND tries >= $2 ORDER BY id"
        );
        for row in sqlx::query(rest).bind(lease).bind(most).fetch_all(&mut **tx).await? {
            let (id, files, names): (i64, i64, Vec<u8>) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
            let why = format!("its lease ran out {MAX_TRIES} times: whoever tried it died or was cut off");
            self.set_aside(tx, Leased { run, id, lease }, (files, &names), |_| {
                ("connection".to_owned(), why.clone())
            })
            .await?;
        }
        Ok(())
    }
}

/// A lease that was renewed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renewal {
    /// The run.
    pub job: JobId,
    /// Who holds it.
    pub mover: String,
    /// What the run's movers are told.
    pub work: String,
}

/// What a mover saw of its transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Network streams.
    pub streams: u16,
    /// What they bring.
    pub throughput_bps: u64,
    /// Bytes that have arrived under this lease.
    pub bytes: u64,
}

fn milliseconds(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
