//! Which of the services that share a queue works on it: one at a time holds a row of the database, for ten seconds by the
//! server's clock and again before they are over. Whoever takes it over counts its epoch up, and every change is made
//! under the epoch that was taken, so that one who was stopped and goes on later changes nothing any more.

use std::time::Duration;

use sqlx::AssertSqlSafe;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use tidegate_database::{Database, DatabaseError, Transaction};

/// How long it is held without being renewed, and how often it is.
const HELD: Duration = Duration::from_secs(10);
const RENEWED: Duration = Duration::from_secs(3);
/// How often it is looked whether it is free.
const LOOKED: Duration = Duration::from_secs(1);

/// Its table.
pub(super) const SCHEMA: &[&str] = &[
    "
CREATE TABLE queue_lease (name TEXT PRIMARY KEY, epoch {whole} NOT NULL, until_ms {whole} NOT NULL);
INSERT INTO queue_lease (name, epoch, until_ms) VALUES ('queue', 0, 0);
",
    "
ALTER TABLE queue_lease ADD COLUMN place TEXT NOT NULL DEFAULT '';
ALTER TABLE queue_lease ADD COLUMN token TEXT NOT NULL DEFAULT '';
",
];

/// The server's clock; not the time at which a transaction began.
pub(super) const NOW: &str = "(extract(epoch FROM clock_timestamp()) * 1000)::BIGINT";

/// The queue is ours.
#[derive(Debug)]
pub(super) struct Lease {
    database: Database,
    epoch: i64,
    taken_over: watch::Receiver<bool>,
    renewing: JoinHandle<()>,
}

impl Lease {
    /// Takes it for the one that others reach at `place`, unless another service holds it.
    pub async fn try_take(database: &Database, place: &str) -> Result<Option<Self>, DatabaseError> {
        let take = format!(
            "UPDATE queue_lease SET epoch = epoch + 1, until_ms = {NOW} + $1, place = $2 \
             WHERE name = 'queue' AND until_ms < {NOW} RETURNING epoch"
        );
        let asked = sqlx::query_scalar(AssertSqlSafe(take))
            .bind(milliseconds(HELD))
            .bind(place.to_owned())
            .fetch_optional(database.reads());
        let Some(epoch) = database.patiently("take the queue", asked).await? else { return Ok(None) };
        let (tell, taken_over) = watch::channel(false);
        let renewing = tokio::spawn(renew(database.clone(), epoch, tell));
        Ok(Some(Self { database: database.clone(), epoch, taken_over, renewing }))
    }

    /// Waits until the other service that holds it does no more, and takes it.
    pub async fn take(database: &Database, place: &str) -> Result<Self, DatabaseError> {
        tracing::info!(
            "another service works on the queue of {}: this one passes on to it, and takes over when it ends",
            database.place()
        );
        loop {
            tokio::time::sleep(LOOKED).await;
            match Self::try_take(database, place).await {
                Ok(Some(lease)) => return Ok(lease),
                Ok(None) => {}
                Err(error) if error.is_temporary() => tracing::warn!("{error}"),
                Err(error) => return Err(error),
            }
        }
    }

    /// Makes sure that it is still ours, and that it stays so until `change` is committed or dropped; other changes
    /// wait for that.
    pub async fn hold(&self, change: &mut Transaction) -> Result<bool, sqlx::Error> {
        let hold = format!(
            "UPDATE queue_lease SET until_ms = greatest(until_ms, {NOW} + $1) WHERE name = 'queue' AND epoch = $2"
        );
        let held = sqlx::query(AssertSqlSafe(hold)).bind(milliseconds(HELD)).bind(self.epoch);
        held.execute(&mut **change).await.map(|held| held.rows_affected() == 1)
    }

    /// Waits until another service has taken it over.
    pub async fn taken_over(&self) {
        let mut told = self.taken_over.clone();
        if told.wait_for(|over| *over).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Lets another service have it at once.
    pub async fn give_up(&self) {
        self.renewing.abort();
        let free = "UPDATE queue_lease SET until_ms = 0 WHERE name = 'queue' AND epoch = $1";
        let free = sqlx::query(free).bind(self.epoch).execute(self.database.reads());
        if let Err(error) = self.database.patiently("leave the queue", free).await {
            tracing::warn!("{error}; another service waits for {} s", HELD.as_secs());
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.renewing.abort();
    }
}

/// Renews it for as long as nobody else has taken it; a server that is away may come back before anybody has.
async fn renew(database: Database, epoch: i64, taken_over: watch::Sender<bool>) {
    let renew = format!("UPDATE queue_lease SET until_ms = {NOW} + $1 WHERE name = 'queue' AND epoch = $2");
    loop {
        tokio::time::sleep(RENEWED).await;
        let renewed = sqlx::query(AssertSqlSafe(renew.clone()))
            .bind(milliseconds(HELD))
            .bind(epoch)
            .execute(database.reads());
        match database.patiently("keep the queue", renewed).await {
            Ok(done) if done.rows_affected() == 0 => {
                taken_over.send_replace(true);
                return;
            }
            Ok(_) => {}
            Err(error) => tracing::warn!("{error}"),
        }
    }
}

fn milliseconds(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
