//! Moves batches, and finds out what has become of each request.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use tidegate_contract::error_kind::ErrorKind;
use tidegate_contract::summary::Summary;
use tidegate_transfer::transfer::Interrupt;

use super::batch::Batch;
use super::replies::Reply;
use super::request::Request;
use super::trouble::Trouble;
use crate::asked::Task;
use crate::run::{Refused, Run};

/// How often it is looked whether somebody wants it to end.
const INTERVAL: Duration = Duration::from_millis(100);

/// Moves batches.
#[derive(Debug)]
pub struct Carrier {
    state: Option<PathBuf>,
    interrupt: Interrupt,
}

impl Carrier {
    /// Ends when `interrupt` says so; where its state is kept is said if it is not the usual place.
    pub fn new(state: Option<PathBuf>, interrupt: Interrupt) -> Self {
        Self { state, interrupt }
    }

    /// Moves a batch at once. What that leaves unclear is moved one by one: what has arrived is there already, and who has
    /// failed is found.
    pub fn carry<'a>(&self, batch: &'a Batch) -> Vec<(&'a Request, Reply)> {
        let began = SystemTime::now();
        let ran = self.run(batch);
        let ended = SystemTime::now();
        let told = |request: &Request| match &ran {
            Ok(summary) => match batch.failure(summary, request) {
                Some(failed) => Err(Trouble::of_file(failed)),
                None => batch.arrived(request, summary),
            },
            Err(trouble) => Err(trouble.clone()),
        };
        let is_clear = batch.requests.len() == 1
            || match &ran {
                Ok(summary) => batch.is_explained(summary),
                Err(trouble) => trouble.is_of_all(),
            };
        let reply = |request: &'a Request| match is_clear {
            true => Reply { began, ended, moved: told(request) },
            false => self.alone(batch, request),
        };
        batch.requests.iter().map(|request| (request, reply(request))).collect()
    }

    fn alone(&self, batch: &Batch, request: &Request) -> Reply {
        let began = SystemTime::now();
        let alone = batch.alone(request);
        let moved = self.run(&alone).and_then(|summary| match alone.failure(&summary, request) {
            Some(failed) => Err(Trouble::of_file(failed)),
            None => alone.arrived(request, &summary),
        });
        Reply { began, ended: SystemTime::now(), moved }
    }

    /// Runs the command that moves a batch; what it says if nothing has ended it.
    fn run(&self, batch: &Batch) -> Result<Summary, Trouble> {
        if self.interrupt.is_raised() {
            return Err(Trouble::new(ErrorKind::Interrupted, "HTCondor has ended the transfer"));
        }
        let run = Run::start(Task::Told(batch.run(self.state.as_deref())), || {});
        while !run.wait(INTERVAL) {
            if self.interrupt.is_raised() {
                run.interrupt();
            }
        }
        let outcome = run.outcome().ok_or_else(|| Trouble::new(ErrorKind::Io, "the command did not end"))?;
        if let Some(Refused { kind, why, .. }) = outcome.refusal {
            return Err(Trouble::new(kind, &why));
        }
        let summary = outcome.results.last().and_then(|line| serde_json::from_str::<Summary>(line).ok());
        let summary = summary.ok_or_else(|| Trouble::new(ErrorKind::Io, &run.messages().join("; ")))?;
        match &summary.error {
            Some(why) => Err(Trouble::new(summary.error_kind.unwrap_or(ErrorKind::Io), why)),
            None => Ok(summary),
        }
    }
}
