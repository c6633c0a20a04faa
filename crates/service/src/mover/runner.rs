//! The mover that runs programs, and leaves what they tell.

use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;

use tidegate_spec::address::Route;
use tidegate_transfer::sys::whole_file::WholeFile;
use tokio::sync::{mpsc, watch};

use crate::job::{JobId, Request};

use super::attempt::{BoxFuture, Class, Ended, Mover, Run, StreamDemand};
use super::child::Spawner;
use super::command::{Files, MAX_STREAMS, Plan, Streams};
use super::epochs::{self, Epochs};
use super::programs::Programs;
use super::{gridftp, report};

/// Jobs whose epochs are kept: the latest. An hour of a transfer takes some 2 MB.
const KEPT_EPOCHS: u64 = 1000;

/// Epochs that wait to be written.
const EPOCHS: usize = 64;

/// Runs jobs by [`Programs`].
#[derive(Clone, Debug)]
struct Runner {
    programs: Programs,
    spawner: Spawner,
}

impl Programs {
    /// The mover that runs them; children belong to the current runtime.
    pub fn mover(self) -> io::Result<Arc<dyn Mover>> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(self.directory())?;
        Ok(Arc::new(Runner { spawner: Spawner::start()?, programs: self }))
    }
}

impl Mover for Runner {
    fn run(&self, run: Run) -> BoxFuture<Ended> {
        let runner = self.clone();
        Box::pin(async move { runner.run(run).await })
    }

    fn demand(&self, request: &Request) -> StreamDemand {
        match request.route() {
            Ok(Route::GridFtp) => {
                // Nothing is in the queue that is not checked.
                let rule = request.stream_rule().ok().flatten();
                let one = !request.optimization && rule.is_none();
                let adapts = rule.is_some_and(|rule| rule.adapts());
                StreamDemand { most: if one { 1 } else { MAX_STREAMS }, adapts }
            }
            _ if !request.optimization && request.optimizer().is_none() => {
                StreamDemand { most: 1, adapts: true }
            }
            _ => StreamDemand { most: MAX_STREAMS, adapts: true },
        }
    }
}

impl Runner {
    async fn run(&self, run: Run) -> Ended {
        let directory = self.programs.directory();
        let files = Files {
            epochs: self.programs.epochs(run.id),
            bounds: directory.join(format!("{}.bounds", run.id)),
            policy: run.policy.is_some().then(|| directory.join(format!("{}.policy", run.id))),
        };
        let (request, run_id) = (Arc::clone(&run.request), run.id);
        let ended = match request.route() {
            Ok(Route::GridFtp) => {
                let dump = directory.join(format!("{}.listed", run.id));
                // As the epochs of a program of ours are: heard by the service, and left in a file.
                let (epochs, written) = mpsc::channel(EPOCHS);
                let heard = epochs::write(&files.epochs, written, run.epochs.clone());
                let run = Run { epochs, ..run };
                tokio::join!(gridftp::run(&self.spawner, &self.programs, run, dump), heard).0
            }
            _ => self.follow(run, &files).await,
        };
        let _ = tokio::fs::remove_file(&files.bounds).await;
        if let Some(policy) = &files.policy {
            let _ = tokio::fs::remove_file(policy).await;
        }
        if let Some(old) = run_id.get().checked_sub(KEPT_EPOCHS).and_then(JobId::new) {
            let _ = tokio::fs::remove_file(self.programs.epochs(old)).await;
        }
        ended
    }

    async fn follow(&self, run: Run, files: &Files) -> Ended {
        let Run { request, policy, start, most, share, stop, epochs, outages, .. } = run;
        let now = *share.borrow();
        let streams = Streams { start, share: now, most };
        let plan = match Plan::of(&request, streams, files, &self.programs) {
            Ok(plan) => plan,
            Err(why) => return Ended::failed(Class::Usage, why),
        };
        if let (Some(path), Some(content)) = (&files.policy, &policy)
            && let Err(error) = tokio::fs::write(path, content).await
        {
            return unwritten(path, &error);
        }
        if let Err(error) = write_bounds(&files.bounds, now).await {
            return unwritten(&files.bounds, &error);
        }
        // What an earlier attempt told is not told again.
        let _ = tokio::fs::remove_file(&files.epochs).await;
        let mut written = Epochs::new(files.epochs.clone());
        let exit = {
            // Nobody waits for a listener.
            let listen = |line: &str| drop(report::away(line, &request).map(|away| outages.try_send(away)));
            let running = self.spawner.run(&self.programs.tidegate, &plan, stop, |_| {}, listen);
            tokio::select! {
                exit = running => exit,
                () = written.follow(&epochs) => return Ended::failed(Class::Passing, "its epochs ended"),
                () = hand_on(share, &files.bounds) => return Ended::failed(Class::Passing, "its share ended"),
            }
        };
        let exit = match exit {
            Ok(exit) => exit,
            Err(error) => {
                let program = self.programs.tidegate.display();
                return Ended::failed(Class::Passing, format!("cannot run {program}: {error}"));
            }
        };
        // The last ones may have come since the last look.
        let _ = written.catch_up(&epochs).await;
        report::ended(&exit, &request)
    }
}

/// Hands each new share on to the child, for as long as this is awaited.
async fn hand_on(mut share: watch::Receiver<u16>, bounds: &Path) {
    while share.changed().await.is_ok() {
        let most = *share.borrow_and_update();
        if let Err(error) = write_bounds(bounds, most).await {
            tracing::warn!("cannot write {}: {error}; the job keeps its streams", bounds.display());
        }
    }
    // Whoever gave shares is gone; the last one stays.
    std::future::pending::<()>().await;
}

/// Whole or not at all: the child reads it whenever it likes.
async fn write_bounds(path: &Path, most: u16) -> io::Result<()> {
    let path = path.to_path_buf();
    let write = move || {
        let mut file = WholeFile::begin(&path, 0o666)?;
        writeln!(file, "{most}")?;
        file.show()
    };
    tokio::task::spawn_blocking(write).await.map_err(io::Error::other)?
}

/// How an attempt ends for which a file of the service's own cannot be written: where only room is missing, that is an outage of
/// the service and no failure of the job.
fn unwritten(path: &Path, error: &io::Error) -> Ended {
    let is_full = matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
    let class = if is_full { Class::Unreachable } else { Class::Passing };
    Ended::failed(class, format!("the service cannot write {}: {error}", path.display()))
}
