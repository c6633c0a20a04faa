//! What a job wants written beside the queue: its result, its messages, its log. None of it is a reason not to move data; what
//! ends a job is written again where there was no room for it.

use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::time::Duration;

use tidegate_contract::summary::Summary;
use tidegate_contract::text::one_line;
use tokio::time::sleep;

use crate::event_log::{self, Logged};
use crate::job::written::Written;
use crate::job::{JobId, LogFormat, Request};
use crate::output_file;

use super::SchedulerState;

/// Most that waits for room at a time; more is not written.
pub(super) const MAX_LATE: usize = 256;
/// First and longest rest before it is written again.
const RESTS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// Something that is to be written for a job.
enum Wanted {
    /// In place of what the file held.
    File(PathBuf, String),
    /// An event of its log.
    Event(PathBuf, LogFormat, Logged),
}

impl Wanted {
    async fn write(&self, id: JobId) -> io::Result<()> {
        match self {
            Self::File(path, text) => output_file::write(path, text.clone()).await.map_err(|error| {
                let path = one_line(&path.display().to_string());
                io::Error::new(error.kind(), format!("cannot write {path}: {error}"))
            }),
            Self::Event(path, format, event) => event_log::append(path.clone(), *format, id, event).await,
        }
    }
}

/// Whether room, which somebody may make, is all that is missing.
fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge)
}

impl SchedulerState {
    /// Appends to the job's log, if it has one.
    pub(super) async fn log(&self, id: JobId, request: &Request, event: &Logged) {
        let Some(path) = &request.log else { return };
        let wanted = Wanted::Event(path.clone(), request.log_format, event.clone());
        self.write(id, wanted, event.ends_the_job()).await;
    }

    /// Leaves result and messages where the job wants them.
    pub(super) async fn leave(&self, id: JobId, request: &Request, result: Option<String>, messages: String) {
        let files = [(&request.output, result.map(|text| text + "\n")), (&request.err, Some(messages))];
        for (path, text) in files {
            if let (Some(path), Some(text)) = (path, text) {
                self.write(id, Wanted::File(path.clone(), text), true).await;
            }
        }
    }

    async fn write(&self, id: JobId, wanted: Wanted, is_an_end: bool) {
        let Err(error) = wanted.write(id).await else { return };
        tracing::warn!("job {id}: {error}");
        if is_an_end && is_full(&error) {
            self.write_late(id, wanted);
        }
    }

    /// Writes it again, until there is room for it or the service ends.
    fn write_late(&self, id: JobId, wanted: Wanted) {
        let Ok(place) = std::sync::Arc::clone(&self.late).try_acquire_owned() else {
            tracing::warn!("job {id}: {MAX_LATE} files wait for room already: this one is not written again");
            return;
        };
        let mut stopping = self.stopping.subscribe();
        tokio::spawn(async move {
            let _place = place;
            let mut rest = RESTS.0;
            loop {
                tokio::select! {
                    () = sleep(rest) => {}
                    _ = stopping.wait_for(|stopping| *stopping) => return,
                }
                match wanted.write(id).await {
                    Err(error) if is_full(&error) => rest = (rest * 2).min(RESTS.1),
                    Err(error) => return tracing::warn!("job {id}: {error}"),
                    Ok(()) => return,
                }
            }
        });
    }
}

/// The result of a transfer, as its file has it.
pub(super) fn result_of(summary: &Summary) -> Option<String> {
    serde_json::to_string_pretty(&Written::from(summary)).ok()
}
