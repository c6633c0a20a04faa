//! How a run stands: in all, by mover, and what failed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sqlx::Row;
use tidegate_contract::job_id::JobId;
use tidegate_contract::text::show;

use super::{Fleet, FleetError, FleetResult, count, whole};

/// A run as it stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Spread")]
#[serde(default)]
pub struct Standing {
    /// What it is doing.
    #[schemars(extend("enum" = ["listing", "running", "done", "cancelled"]))]
    pub state: String,
    /// Shards that were listed, and those at their end.
    pub shards: u64,
    /// Those done or set aside.
    pub ended_shards: u64,
    /// Files and links that were listed.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Those that have arrived.
    pub done_files: u64,
    /// Their bytes.
    pub done_bytes: u64,
    /// Bytes that have arrived under leases that have not ended.
    pub moving_bytes: u64,
    /// Those that nobody could move.
    pub failed_files: u64,
    /// Who moves, by name.
    pub movers: Vec<MoverStanding>,
}

impl Standing {
    /// Whether nothing more becomes of it.
    pub fn has_ended(&self) -> bool {
        matches!(&self.state[..], "done" | "cancelled")
    }
}

/// What one mover has done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Mover")]
#[serde(default)]
pub struct MoverStanding {
    /// What it calls itself.
    pub name: String,
    /// The host it runs on, as far as it said.
    pub host: String,
    /// The endpoint of the pool that its last lease went through, where there is a pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Since when it has not been heard, in ms.
    pub silent_ms: u64,
    /// Leases that it holds.
    pub leases: u64,
    /// Network streams, when it was last heard.
    pub streams: u64,
    /// What they brought.
    pub throughput_bps: u64,
    /// Shards that it has done.
    pub shards: u64,
    /// Their files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// What the movers of one host do together, in all runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostStanding {
    /// The host, as its movers told it.
    pub host: String,
    /// Movers that hold a lease.
    pub movers: u64,
    /// Their network streams.
    pub streams: u64,
    /// What these bring.
    pub throughput_bps: u64,
    /// Since when one of them has not been heard, at most, in ms.
    pub silent_ms: u64,
}

impl Fleet {
    /// What the first `most` hosts do, by name.
    pub async fn hosts(&self, most: u32) -> FleetResult<Vec<HostStanding>> {
        let hosts = "SELECT m.host, count(*), CAST(sum(m.streams) AS BIGINT), CAST(sum(m.throughput_bps) AS BIGINT), \
                     max({now} - m.heard_ms) FROM fleet_lease l JOIN fleet_mover m ON m.run = l.run AND m.name = l.mover \
                     GROUP BY m.host ORDER BY m.host LIMIT $1";
        let asked = async {
            let rows = sqlx::query(self.text(hosts)).bind(i64::from(most)).fetch_all(self.database.reads());
            let read = rows.await?;
            let read = read.iter().map(|row| {
                let number = |column: usize| row.try_get::<i64, _>(column).map(count);
                Ok(HostStanding {
                    host: row.try_get(0)?,
                    movers: number(1)?,
                    streams: number(2)?,
                    throughput_bps: number(3)?,
                    silent_ms: number(4)?,
                })
            });
            read.collect::<Result<Vec<_>, sqlx::Error>>()
        };
        Ok(self.database.patiently("look at hosts", asked).await?)
    }

    /// How the run of `job` stands.
    pub async fn standing(&self, job: JobId) -> FleetResult<Standing> {
        let run = whole(job.get());
        let all = "SELECT state, shards, ended_shards, files, bytes, done_files, done_bytes, failed_files, \
                   (SELECT CAST(coalesce(sum(fleet_lease.bytes), 0) AS BIGINT) FROM fleet_lease WHERE run = job) FROM fleet_run WHERE job = $1";
        let movers = "SELECT name, {now} - heard_ms, (SELECT count(*) FROM fleet_lease \
                      WHERE fleet_lease.run = fleet_mover.run AND mover = name), streams, throughput_bps, shards, files, bytes, host, \
                      (SELECT e.name FROM fleet_endpoint e WHERE e.run = fleet_mover.run AND e.number = fleet_mover.endpoint) \
                      FROM fleet_mover WHERE run = $1 ORDER BY fleet_mover.name";
        let standing = async {
            let reads = self.database.reads();
            let Some(row) = sqlx::query(all).bind(run).fetch_optional(reads).await? else { return Ok(None) };
            let number = |column: usize| row.try_get::<i64, _>(column).map(count);
            let mut standing = Standing {
                state: row.try_get(0)?,
                shards: number(1)?,
                ended_shards: number(2)?,
                files: number(3)?,
                bytes: number(4)?,
                done_files: number(5)?,
                done_bytes: number(6)?,
                failed_files: number(7)?,
                moving_bytes: number(8)?,
                movers: Vec::new(),
            };
            for row in sqlx::query(self.text(movers)).bind(run).fetch_all(reads).await? {
                let number = |column: usize| row.try_get::<i64, _>(column).map(count);
                standing.movers.push(MoverStanding {
                    name: row.try_get(0)?,
                    silent_ms: number(1)?,
                    leases: number(2)?,
                    streams: number(3)?,
                    throughput_bps: number(4)?,
                    shards: number(5)?,
                    files: number(6)?,
                    bytes: number(7)?,
                    host: row.try_get(8)?,
                    endpoint: row.try_get(9)?,
                });
            }
            Ok(Some(standing))
        };
        let standing = self.heard(self.database.patiently("look at a run", standing).await)?;
        standing.ok_or(FleetError::NotSpread(job))
    }

    /// The first files that failed, with the kind and the reason.
    pub async fn failures(&self, job: JobId, most: u32) -> FleetResult<Vec<(String, String, String)>> {
        let failures = "SELECT path, kind, message FROM fleet_failure WHERE run = $1 ORDER BY id LIMIT $2";
        let asked = async {
            let rows = sqlx::query(failures).bind(whole(job.get())).bind(i64::from(most));
            let rows = rows.fetch_all(self.database.reads()).await?;
            let read = rows.iter().map(|row| {
                let path: Vec<u8> = row.try_get(0)?;
                Ok((show(&path).into_owned(), row.try_get(1)?, row.try_get(2)?))
            });
            read.collect::<Result<Vec<_>, sqlx::Error>>()
        };
        Ok(self.database.patiently("look at what failed", asked).await?)
    }
}
