//! Tables, brought to what this program knows by one program at a time: each component has a version, and each step of
//! its schema is applied once.

use sqlx::{Any, AnyConnection, AssertSqlSafe};

use super::{Backend, Database, OPENING, Result};

type Done<T> = std::result::Result<T, sqlx::Error>;

/// What keeps two programs from making tables at the same time in one PostgreSQL database ("tidegate").
const LOCK: i64 = 0x7469_6465_6761_7465;

/// Where the versions are.
const VERSIONS: &str = "CREATE TABLE IF NOT EXISTS tidegate_schema \
                        (component TEXT PRIMARY KEY, version BIGINT NOT NULL)";

impl Backend {
    /// A step of a schema in its own words.
    fn dialect(self, step: &str) -> String {
        let words = match self {
            Self::Sqlite => ["INTEGER PRIMARY KEY AUTOINCREMENT", "INTEGER", "BLOB", " STRICT", "STRICT"],
            Self::Postgres => [
                "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
                "BIGINT",
                "BYTEA",
                "",
                "WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01)",
            ],
        };
        let marks = ["{id}", "{whole}", "{bytes}", " {strict}", "{renewed}"];
        marks.iter().zip(words).fold(step.to_owned(), |text, (mark, word)| text.replace(mark, word))
    }
}

impl Database {
    /// Brings the tables of `component` to the last of `steps`, each of which is applied once, whichever and
    /// however many programs open the database. In a step `{id}` stands for a key that counts up, `{whole}` and `{bytes}`
    /// for a type of 64 bits and of bytes in a table that is `{strict}` about its types; one that is `{renewed}` leaves room
    /// beside its rows, which change often.
    pub async fn migrate(&self, component: &'static str, steps: &'static [&'static str]) -> Result<()> {
        self.within(OPENING, "make its tables", async {
            let known = i64::try_from(steps.len()).unwrap_or(i64::MAX);
            // Most often there is nothing to do, and nobody is held up by finding out.
            if matches!(version(&self.reads, component).await, Ok(Some(found)) if found == known) {
                return Ok(());
            }
            let mut change = self.begin().await?;
            if self.backend == Backend::Postgres {
                // Tables are not made again as records are: this commit waits for the disk.
                sqlx::query("SET LOCAL synchronous_commit = on").execute(&mut *change).await?;
                sqlx::query("SELECT pg_advisory_xact_lock($1)").bind(LOCK).execute(&mut *change).await?;
            }
            sqlx::query(VERSIONS).execute(&mut *change).await?;
            let found = version(&mut *change, component).await?.unwrap_or(0);
            let Some(missing) = usize::try_from(found).ok().and_then(|found| steps.get(found..)) else {
                let why = format!(
                    "its {component} is of a newer version ({found}, this one knows {known}): upgrade tidegate"
                );
                return Err(sqlx::Error::Configuration(why.into()));
            };
            for step in missing {
                let step = AssertSqlSafe(self.backend.dialect(step));
                sqlx::raw_sql(step).execute(&mut *change).await?;
            }
            let remember = "INSERT INTO tidegate_schema (component, version) VALUES ($1, $2) \
                            ON CONFLICT (component) DO UPDATE SET version = excluded.version";
            sqlx::query(remember).bind(component).bind(known).execute(&mut *change).await?;
            change.commit().await
        })
        .await
    }

    /// Takes over tables that were made before their version stood where all do: `version` steps of `component` are done.
    pub async fn adopt(&self, change: &mut AnyConnection, component: &'static str, version: i64) -> Done<()> {
        sqlx::query(VERSIONS).execute(&mut *change).await?;
        let remember = "INSERT INTO tidegate_schema (component, version) VALUES ($1, $2) ON CONFLICT (component) DO NOTHING";
        sqlx::query(remember).bind(component).bind(version).execute(change).await.map(drop)
    }
}

async fn version<'c>(from: impl sqlx::Executor<'c, Database = Any>, component: &str) -> Done<Option<i64>> {
    let question = "SELECT version FROM tidegate_schema WHERE component = $1";
    sqlx::query_scalar(question).bind(component.to_owned()).fetch_optional(from).await
}
