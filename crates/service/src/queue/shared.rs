//! The queue that several services share, to the one that does not work on it: who does, what opens all of them, and its turn.

use sqlx::AssertSqlSafe;
use tidegate_database::{Database, Durability};

use super::lease::{self, Lease, NOW};
use super::open::broken;
use super::{Hold, Queue, QueueResult};

/// A queue in PostgreSQL, whoever works on it; clones share its connections.
#[derive(Clone, Debug)]
pub struct SharedQueue {
    database: Database,
}

impl SharedQueue {
    /// Opens it, whether or not another service works on it.
    pub async fn open(url: &str) -> QueueResult<Self> {
        let wrong = |error| broken("in a database", &error);
        let database = Database::open(url, Durability::Full).await.map_err(wrong)?;
        database.migrate("queue lease", lease::SCHEMA).await.map_err(wrong)?;
        Ok(Self { database })
    }

    /// How it is called, without user and password.
    pub fn place(&self) -> &str {
        self.database.place()
    }

    /// The token that opens every service that shares it: the first one's.
    pub async fn token(&self, own: &str) -> QueueResult<String> {
        let take = "UPDATE queue_lease SET token = CASE WHEN token = '' THEN $1 ELSE token END \
                    WHERE name = 'queue' RETURNING token";
        let asked = sqlx::query_scalar(take).bind(own.to_owned()).fetch_one(self.database.reads());
        let asked = self.database.patiently("learn the services' token", asked).await;
        asked.map_err(|error| broken(self.place(), &error))
    }

    /// Where the service is reached that works on it now.
    pub async fn worker(&self) -> Option<String> {
        let who = format!("SELECT place FROM queue_lease WHERE name = 'queue' AND until_ms >= {NOW}");
        let asked = sqlx::query_scalar(AssertSqlSafe(who)).fetch_optional(self.database.reads());
        self.database.patiently("learn who works", asked).await.unwrap_or_else(|error| {
            tracing::warn!("{error}");
            None
        })
    }

    /// Takes it for the service that others reach at `place`, unless another one works on it.
    pub async fn try_take(&self, place: &str) -> QueueResult<Option<Queue>> {
        match Lease::try_take(&self.database, place).await {
            Ok(Some(lease)) => self.held(lease).await.map(Some),
            Ok(None) => Ok(None),
            Err(error) => Err(broken(self.place(), &error)),
        }
    }

    /// Waits until the other service that works on it does no more, and takes it.
    pub async fn take(&self, place: &str) -> QueueResult<Queue> {
        let lease = Lease::take(&self.database, place).await;
        self.held(lease.map_err(|error| broken(self.place(), &error))?).await
    }

    async fn held(&self, lease: Lease) -> QueueResult<Queue> {
        Queue::with(self.database.clone(), Hold::Lease(lease)).await
    }
}
