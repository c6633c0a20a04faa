//! The last step: what is complete becomes durable, is recorded, and gets its name, in groups so that
//! small files share the cost; what is verified of unfinished files is recorded about once a second.

use std::sync::Arc;
use std::time::Duration;

use crate::catalogue::{Catalogue, Verified};
use crate::error::{ErrorKind, Result};
use crate::hash::Digest;
use crate::journal::Journal;
use crate::manifest::{Entry, FileId};
use crate::offer::Outcome;
use crate::pipeline::incoming::Incoming;
use crate::quota::Quota;
use crate::store::{Sink, SinkFile};
use crate::sys::clock::Instant;
use crate::sys::sync::Mutex;
use crate::sys::sync::mpsc::{Receiver, RecvTimeoutError};
use crate::sys::thread;

/// Most files that get their names together.
pub const GROUP: usize = 256;

/// Most files made durable at the same time, and how few are not worth a thread.
const SYNCERS: usize = 16;
const FEW: usize = 4;

/// How often what is verified of unfinished files is made durable and recorded.
pub const CHECKPOINT: Duration = Duration::from_secs(1);

/// A complete, verified file.
pub struct Complete {
    /// Its number.
    pub id: FileId,
    /// What it is.
    pub entry: Arc<Entry>,
    /// Its unfinished file, sealed.
    pub part: Arc<dyn SinkFile>,
    /// Its root hash; zeros if none was computed.
    pub root: Digest,
}

/// Verified segments of a file that is not complete.
pub struct Progress<F> {
    /// The file; what is verified of one that has ended is not recorded.
    pub file: Arc<F>,
    /// Its unfinished file.
    pub part: Arc<dyn SinkFile>,
    /// What was verified since the last time.
    pub segments: Vec<(u64, Digest)>,
}

/// Where the committer puts things.
#[derive(Clone)]
pub struct Committer {
    /// Names and directories.
    pub sink: Arc<dyn Sink>,
    /// What is safe; none for memory.
    pub journal: Option<Arc<Mutex<Journal>>>,
    /// What is verified for ever; none if another process holds it.
    pub catalogue: Option<Arc<Mutex<Catalogue>>>,
    /// How many threads may help.
    pub threads: Arc<Quota>,
}

/// Commits what arrives on `complete` until the other side hangs up. `progress` is asked for what to
/// record; `ended` is told how the files of a group ended.
pub fn commit_all<F: AsRef<Incoming>>(
    committer: &Committer,
    complete: &Receiver<Complete>,
    progress: impl Fn() -> Vec<Progress<F>>,
    ended: impl Fn(Vec<(FileId, Outcome)>),
) {
    let mut checkpoint = Instant::now() + CHECKPOINT;
    loop {
        match complete.recv_timeout(checkpoint.saturating_duration_since(Instant::now())) {
            Ok(first) => {
                let group: Vec<Complete> =
                    std::iter::once(first).chain(complete.try_iter().take(GROUP - 1)).collect();
                ended(commit(committer, group));
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                record(committer, progress());
                return;
            }
        }
        if Instant::now() >= checkpoint {
            record(committer, progress());
            checkpoint = Instant::now() + CHECKPOINT;
        }
    }
}

fn commit(committer: &Committer, group: Vec<Complete>) -> Vec<(FileId, Outcome)> {
    let mut outcomes = Vec::with_capacity(group.len());
    let mut keep = |file: Complete, result: Result<()>| match result {
        Ok(()) => Some(file),
        Err(error) => {
            if error.kind != ErrorKind::NoSpace {
                committer.sink.discard(&file.entry);
            }
            outcomes.push((file.id, Outcome::Failed(error)));
            None
        }
    };
    let results = sync_all(&group, &committer.threads);
    let synced: Vec<Complete> =
        group.into_iter().zip(results).filter_map(|(file, result)| keep(file, result)).collect();
    if let Some(journal) = &committer.journal {
        let mut journal = journal.lock().expect("not poisoned");
        let ready = synced.iter().map(|file| (&*file.entry, file.root));
        if let Err(error) = journal.ready(ready).and_then(|()| journal.sync()) {
            // The files are whole; only a crash before their renaming would send them again.
            tracing::warn!("the journal cannot be written: {error}");
        }
    }
    let named: Vec<Complete> = synced
        .into_iter()
        .filter_map(|file| {
            let result = committer.sink.publish(&file.entry);
            keep(file, result)
        })
        .collect();
    let failed = committer.sink.sync_names();
    let named: Vec<Complete> = named
        .into_iter()
        .filter_map(|file| {
            let (parent, _) = committer.sink.place(&file.entry).split();
            let error = failed.iter().find(|(directory, _)| directory == parent).map(|(_, error)| error);
            let result = error.map_or(Ok(()), |error| Err(error.clone()));
            keep(file, result)
        })
        .collect();
    if let Some(catalogue) = &committer.catalogue {
        let verified = named.iter().map(|file| {
            let verified = Verified { size: file.entry.size(), mtime: file.entry.mtime, root: file.root };
            (committer.sink.place(&file.entry).as_bytes(), verified)
        });
        if let Err(error) = catalogue.lock().expect("not poisoned").put(verified) {
            tracing::warn!("cannot remember what is verified: {error}");
        }
    }
    outcomes.extend(named.into_iter().map(|file| (file.id, Outcome::Committed)));
    outcomes
}

/// Makes files durable, several at a time: a file system that is asked for many at once writes its own
/// journal once for all of them.
fn sync_all(group: &[Complete], threads: &Arc<Quota>) -> Vec<Result<()>> {
    let share = group.len().div_ceil(SYNCERS).max(FEW);
    let sync = |files: &[Complete]| files.iter().map(|file| file.part.sync()).collect::<Vec<_>>();
    thread::scope(|scope| {
        let mut shares = group.chunks(share);
        let first = shares.next().unwrap_or_default();
        let others: Vec<_> = shares
            .map(|files| {
                let work = threads.take(1).and_then(|held| {
                    spawn(scope, move || {
                        let _held = held;
                        sync(files)
                    })
                });
                (files, work)
            })
            .collect();
        let mut results = sync(first);
        for (files, other) in others {
            let joined = other.and_then(|other| other.join().ok());
            // Whatever no thread could be had for is done here.
            results.extend(joined.unwrap_or_else(|| sync(files)));
        }
        results
    })
}

fn spawn<'s, T: Send + 's>(
    scope: &'s thread::Scope<'s, '_>,
    work: impl FnOnce() -> T + Send + 's,
) -> Option<thread::ScopedJoinHandle<'s, T>> {
    thread::Builder::new().name("sync".to_owned()).spawn_scoped(scope, work).ok()
}

/// Makes verified segments durable, then says so in the journal.
fn record<F: AsRef<Incoming>>(committer: &Committer, progress: Vec<Progress<F>>) {
    let Some(journal) = &committer.journal else { return };
    let durable: Vec<Progress<F>> = progress
        .into_iter()
        .filter(|file| file.part.sync().inspect_err(|error| tracing::warn!("{error}")).is_ok())
        .collect();
    let mut journal = journal.lock().expect("not poisoned");
    // Looked at while the journal is ours: whoever begins a file anew ends it first, then says so there.
    let alive = durable.iter().filter(|progress| !F::as_ref(&progress.file).has_ended());
    let recorded = journal
        .segments(alive.map(|progress| (&*F::as_ref(&progress.file).entry, progress.segments.clone())));
    if let Err(error) = recorded.and_then(|()| journal.sync()) {
        tracing::warn!("the journal cannot be written: {error}");
    }
}
