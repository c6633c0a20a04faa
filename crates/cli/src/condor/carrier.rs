//! Moves batches, and finds out what has become of each request.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tidegate_contract::error_kind::ErrorKind;
use tidegate_contract::summary::Summary;
use tidegate_transfer::transfer::Interrupt;
use tidegate_transfer::wire::tls::write_private;

use super::batch::Batch;
use super::replies::Reply;
use super::request::Request;
use super::trouble::Trouble;
use crate::run::{Refused, Run};

/// How often it is looked whether somebody wants it to end.
const INTERVAL: Duration = Duration::from_millis(100);

/// Moves batches.
#[derive(Debug)]
pub struct Carrier {
    /// Where URLs are listed for `get`.
    list: PathBuf,
    state: Option<PathBuf>,
    interrupt: Interrupt,
}

impl Carrier {
    /// Writes what it needs beside the file of replies, and ends when `interrupt` says so; where its state is kept is
    /// said if it is not the usual place.
    pub fn new(replies: &Path, state: Option<PathBuf>, interrupt: Interrupt) -> Self {
        let mut list = replies.as_os_str().to_owned();
        list.push(".urls");
        Self { list: list.into(), state, interrupt }
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
        if let Some(text) = batch.list() {
            // URLs may be signed, or hold passwords.
            let written = write_private(&self.list, text.as_bytes());
            written.map_err(|error| Trouble::new(error.kind, &error.message))?;
        }
        let state = self.state.iter().flat_map(|state| [OsStr::new("--state"), state.as_os_str()]);
        let run = Run::start(batch.words(&self.list, state), || {});
        while !run.wait(INTERVAL) {
            if self.interrupt.is_raised() {
                run.interrupt();
            }
        }
        // It may never have been there.
        let _ = std::fs::remove_file(&self.list);
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
