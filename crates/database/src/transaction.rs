//! A transaction: several statements of which all are kept, or none.

use std::ops::{Deref, DerefMut};

use sqlx::pool::PoolConnection;
use sqlx::{Any, AnyConnection, AnyPool};

type Done<T> = Result<T, sqlx::Error>;

/// A transaction that has begun. What is not committed is undone, and the connection closed: after an error nobody knows what
/// it is in the middle of. sqlx counts a transaction as open that SQLite gave up by itself, as on a full disk.
pub struct Transaction {
    connection: PoolConnection<Any>,
    has_ended_well: bool,
}

impl Transaction {
    /// Begins one by `statement`.
    pub(super) async fn begin(pool: &AnyPool, statement: &'static str) -> Done<Self> {
        let mut begun = Self { connection: pool.acquire().await?, has_ended_well: false };
        sqlx::raw_sql(statement).execute(&mut *begun.connection).await?;
        Ok(begun)
    }

    /// Keeps it.
    pub async fn commit(self) -> Done<()> {
        self.end("COMMIT").await
    }

    /// Undoes it, and keeps the connection.
    pub async fn rollback(self) -> Done<()> {
        self.end("ROLLBACK").await
    }

    async fn end(mut self, statement: &'static str) -> Done<()> {
        sqlx::raw_sql(statement).execute(&mut *self.connection).await?;
        self.has_ended_well = true;
        Ok(())
    }
}

impl Deref for Transaction {
    type Target = AnyConnection;

    fn deref(&self) -> &AnyConnection {
        &self.connection
    }
}

impl DerefMut for Transaction {
    fn deref_mut(&mut self) -> &mut AnyConnection {
        &mut self.connection
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if !self.has_ended_well {
            self.connection.close_on_drop();
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Database, Durability};

    #[tokio::test]
    async fn what_finds_no_room_keeps_nobody_after_it_from_writing() {
        let directory = tempfile::tempdir().expect("a directory");
        let url = format!("sqlite:{}", directory.path().join("file").display());
        let database = Database::open(&url, Durability::Full).await.expect("opened");
        let begin = async || database.begin().await.expect("begun");
        let mut made = begin().await;
        sqlx::raw_sql("CREATE TABLE t (content BLOB)").execute(&mut *made).await.expect("made");
        made.commit().await.expect("written");
        for _ in 0..3 {
            let mut full = begin().await;
            // SQLite ends the transaction by itself.
            let write = "PRAGMA max_page_count = 4; INSERT INTO t VALUES (zeroblob(1000000))";
            let error = sqlx::raw_sql(write).execute(&mut *full).await.expect_err("no room");
            assert!(error.to_string().contains("is full"), "{error}");
        }
        let mut undone = begin().await;
        sqlx::raw_sql("INSERT INTO t VALUES (1)").execute(&mut *undone).await.expect("written");
        undone.rollback().await.expect("undone");
        let mut room = begin().await;
        sqlx::raw_sql("INSERT INTO t VALUES (zeroblob(1000000))").execute(&mut *room).await.expect("room");
        room.commit().await.expect("written");
        let kept: i64 =
            sqlx::query_scalar("SELECT count(*) FROM t").fetch_one(database.reads()).await.expect("read");
        assert_eq!(kept, 1);
    }
}
