//! Recording that no transfer waits for: records go into a bounded queue, and a task writes them in batches.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::History;
use super::record::Record;

/// Records that wait for the database; more are dropped and counted. Some megabytes.
const WAITING: usize = 8192;

/// Most records of a batch.
const BATCH: usize = 500;

/// How long a batch gathers.
const GATHERING: Duration = Duration::from_millis(100);

/// First and longest pause before a lost database is tried again.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(5));

enum Message {
    Record(Box<Record>),
    /// Answered when all before it is written.
    Flush(oneshot::Sender<()>),
}

/// Takes records without waiting; clones feed the same task, which ends with the last of them.
#[derive(Clone, Debug)]
pub struct Recorder {
    queue: mpsc::Sender<Message>,
    lost: Arc<AtomicU64>,
}

impl Recorder {
    /// Starts the task on the current runtime.
    pub fn start(history: History) -> Self {
        let (queue, waiting) = mpsc::channel(WAITING);
        let lost = Arc::new(AtomicU64::new(0));
        tokio::spawn(Task { history, waiting, lost: lost.clone(), broken: false }.run());
        Self { queue, lost }
    }

    /// Has `record` written soon. While the database is lost and the queue is full it is dropped.
    pub fn record(&self, record: impl Into<Record>) {
        if self.queue.try_send(Message::Record(Box::new(record.into()))).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until everything recorded so far is written, or that long; says which.
    pub async fn flush(&self, longest: Duration) -> bool {
        let flushed = async {
            let (done, written) = oneshot::channel();
            let sent = self.queue.send(Message::Flush(done)).await;
            sent.is_ok() && written.await.is_ok()
        };
        tokio::time::timeout(longest, flushed).await.unwrap_or(false)
    }

    /// Records that were dropped.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

struct Task {
    history: History,
    waiting: mpsc::Receiver<Message>,
    lost: Arc<AtomicU64>,
    /// Whether the database refused the last time; said once.
    broken: bool,
}

impl Task {
    async fn run(mut self) {
        let mut messages = Vec::with_capacity(BATCH);
        while let Some(first) = self.waiting.recv().await {
            // Somebody who waits is not made to wait for company.
            if matches!(first, Message::Record(_)) {
                tokio::time::sleep(GATHERING).await;
            }
            messages.push(first);
            while messages.len() < BATCH {
                match self.waiting.try_recv() {
                    Ok(message) => messages.push(message),
                    Err(_) => break,
                }
            }
            let (mut records, mut flushes) = (Vec::new(), Vec::new());
            for message in messages.drain(..) {
                match message {
                    Message::Record(record) => records.push(*record),
                    Message::Flush(done) => flushes.push(done),
                }
            }
            self.write(&records).await;
            for done in flushes {
                // Whoever asked may have stopped waiting.
                let _ = done.send(());
            }
        }
    }

    /// Tries until the records are written, the database says they never will be, or nobody records any more.
    async fn write(&mut self, records: &[Record]) {
        if records.is_empty() {
            return;
        }
        let mut pause = PAUSES.0;
        loop {
            match self.history.record(records).await {
                Ok(_) => {
                    if std::mem::take(&mut self.broken) {
                        tracing::info!("history is written again");
                    }
                    return;
                }
                Err(error) => {
                    if !std::mem::replace(&mut self.broken, true) {
                        tracing::warn!("{error}; transfers go on without being remembered");
                    }
                    if !error.is_temporary() || self.waiting.is_closed() {
                        self.lost.fetch_add(records.len() as u64, Ordering::Relaxed);
                        return;
                    }
                }
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSES.1);
        }
    }
}
