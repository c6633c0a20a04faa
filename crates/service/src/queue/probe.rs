//! Whether the queue takes a change: one is made, of what a batch of jobs may take.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::{Queue, QueueResult};

/// Its table.
pub(super) const SCHEMA: &[&str] =
    &["CREATE TABLE probe (name TEXT PRIMARY KEY, content {bytes} NOT NULL) {strict}"];

/// How much is written: a log that has room for a few more pages has none for jobs.
const BYTES: usize = 64 << 10;
/// How long an answer holds, so that whoever asks often has nothing written.
const HOLDS: Duration = Duration::from_secs(2);

/// Longest wait for an answer, as while a long list of jobs is written.
const PATIENCE: Duration = Duration::from_secs(10);

/// What was found last.
#[derive(Debug, Default)]
pub(super) struct Probe {
    /// When a change was written.
    written: Mutex<Option<Instant>>,
    /// When it was found out, by which content, and what was found.
    found: tokio::sync::Mutex<Option<(Instant, u8, QueueResult<()>)>>,
}

impl Probe {
    /// A change was written just now.
    pub(super) fn note(&self) {
        *self.written.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Something failed just now.
    pub(super) fn doubt(&self) {
        *self.written.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn is_fresh(&self) -> bool {
        let written = *self.written.lock().unwrap_or_else(PoisonError::into_inner);
        written.is_some_and(|at| at.elapsed() < HOLDS)
    }
}

impl Queue {
    /// Whether a change can be written, as was found a moment ago or is found now.
    pub(crate) async fn takes_changes(&self) -> QueueResult<()> {
        if self.probe.is_fresh() {
            return Ok(());
        }
        // Whoever comes while it is found out waits for that.
        let mut last = self.probe.found.lock().await;
        if let Some((at, _, Err(error))) = &*last
            && at.elapsed() < HOLDS
        {
            return Err(error.clone());
        }
        // What is there already would not be written.
        let first = std::process::id().to_le_bytes()[0];
        let fill = last.as_ref().map_or(first, |(_, fill, _)| fill.wrapping_add(1));
        let found = tokio::time::timeout(PATIENCE, self.write_probe(fill)).await;
        let late = || self.broken(format!("no change was written within {} s", PATIENCE.as_secs()));
        let found = found.unwrap_or_else(|_| Err(late()));
        *last = Some((Instant::now(), fill, found.clone()));
        found
    }

    async fn write_probe(&self, fill: u8) -> QueueResult<()> {
        let write = "INSERT INTO probe (name, content) VALUES ('queue', $1) \
                     ON CONFLICT (name) DO UPDATE SET content = excluded.content";
        let mut tx = self.begin().await?;
        let written = sqlx::query(write).bind(vec![fill; BYTES]).execute(&mut *tx).await;
        written.map_err(|error| self.failed(&error))?;
        self.commit(tx).await
    }
}
