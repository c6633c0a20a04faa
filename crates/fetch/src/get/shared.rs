//! What the workers of a download share, and how a file ends.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::time::{Duration, Instant};

use tidegate_transfer::catalogue::Catalogue;
use tidegate_transfer::error::{Error, ErrorKind, Result};
use tidegate_transfer::journal::Journal;
use tidegate_transfer::ledger::Ledger;
use tidegate_transfer::manifest::{Entry, FileId};
use tidegate_transfer::offer::Outcome;
use tidegate_transfer::pipeline::commit::{Committer, Complete, Progress, commit_all};
use tidegate_transfer::pipeline::incoming::Incoming;
use tidegate_transfer::pipeline::shortcut::Shortcut;
use tidegate_transfer::pipeline::staging::Staging;
use tidegate_transfer::quota::Quota;
use tidegate_transfer::store::Sink;
use tidegate_transfer::store::file_sink::FileSink;
use tidegate_transfer::text::show;
use tidegate_transfer::throttle::Throttle;

use crate::get::digest::Digests;
use crate::get::file::{Body, File, Next, UNKNOWN};
use crate::get::memory::Fetched;
use crate::get::queue::Queue;
use crate::get::write::Arrived;
use crate::get::{Active, Event, Got, Settings, Tell};
use crate::host::Hosts;

/// Files under way at once; the list is read no further than they need.
pub(super) const LIVE: usize = 1024;

/// The state of a download.
pub(super) struct Shared {
    pub(super) settings: Settings,
    pub(super) tell: Tell,
    pub(super) hosts: Hosts,
    pub(super) queue: Queue,
    pub(super) ledger: Arc<Ledger>,
    pub(super) staging: Staging<Arrived>,
    pub(super) shortcut: Shortcut,
    pub(super) link: Option<Throttle>,
    pub(super) sink: Arc<FileSink>,
    pub(super) memory: Option<Arc<Mutex<Catalogue<Fetched>>>>,
    pub(super) digests: Digests,
    pub(super) network_bytes: AtomicU64,
    pub(super) written_bytes: AtomicU64,
    pub(super) stopped: AtomicBool,
    /// Permission bits of new files.
    pub(super) mode: u32,
    pub(super) dirty: Mutex<Vec<Arc<Incoming>>>,
    pub(super) journal: Mutex<Option<Arc<Mutex<Journal>>>>,
    pub(super) complete: Mutex<Option<mpsc::SyncSender<Complete>>>,
    pub(super) live: Mutex<Live>,
    pub(super) changed: Condvar,
    /// Room on the disk that files under way will need.
    pub(super) spoken_for: Mutex<u64>,
    pub(super) failure: Mutex<Option<Error>>,
    /// Network workers at work.
    pub(super) connected: AtomicU16,
    /// The quickest answer to a request, in µs.
    pub(super) quickest_us: AtomicU64,
}

/// The files under way.
#[derive(Default)]
pub(super) struct Live {
    pub(super) files: BTreeMap<FileId, Arc<File>>,
    /// Files about to be added, which count.
    coming: usize,
    /// The list has been read to its end.
    fed: bool,
}

impl Shared {
    // The run ----------------------------------------------------------------------------------------

    pub(super) fn journal(&self) -> Option<Arc<Mutex<Journal>>> {
        self.journal.lock().expect("not poisoned").clone()
    }

    pub(super) fn failure(&self) -> Option<Error> {
        self.failure.lock().expect("not poisoned").clone()
    }

    /// A request was answered after `time`.
    pub(super) fn answered_after(&self, time: Duration) {
        self.quickest_us.fetch_min(time.as_micros() as u64, Relaxed);
    }

    /// What an answer takes at least; nothing while none has come.
    pub(super) fn latency(&self) -> Duration {
        match self.quickest_us.load(Relaxed) {
            u64::MAX => Duration::ZERO,
            time => Duration::from_micros(time),
        }
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Relaxed)
    }

    /// Whether everything that was named has ended.
    pub(super) fn is_over(&self) -> bool {
        let live = self.live.lock().expect("not poisoned");
        live.fed && live.files.is_empty() && live.coming == 0
    }

    /// Waits for a file to end, or for `time` to pass.
    pub(super) fn wait(&self, time: Duration) {
        let live = self.live.lock().expect("not poisoned");
        drop(self.changed.wait_timeout(live, time).expect("not poisoned"));
    }

    /// Connections that the hosts bear.
    pub(super) fn room(&self) -> u16 {
        match self.live.lock().expect("not poisoned").files.is_empty() {
            // Nothing is known yet.
            true => self.settings.max_workers,
            false => self.hosts.room(Instant::now()),
        }
    }

    pub(super) fn active(&self) -> Vec<Active> {
        let files: Vec<_> = self.live.lock().expect("not poisoned").files.values().cloned().collect();
        let shown = files.into_iter().filter_map(|file| {
            let state = file.lock();
            state.started?;
            let done = state.body.as_ref().map_or(0, |body| body.written.load(Relaxed));
            let known = state.body.as_ref().map(|body| body.size()).filter(|&size| size != UNKNOWN);
            let bytes = known.or(file.record.bytes);
            Some(Active { path: file.record.path.clone(), done, bytes })
        });
        shown.collect()
    }

    /// About how much a later run finds of the files that have not ended.
    pub(super) fn kept(&self) -> u64 {
        let files: Vec<_> = self.live.lock().expect("not poisoned").files.values().cloned().collect();
        let journal = self.journal();
        let left = |file: &File| {
            let journal = journal.as_ref()?.lock().expect("not poisoned");
            Some(journal.left_bytes(&file.record.path))
        };
        let of = |file: &File| match &file.lock().body {
            Some(body) if body.resumes => body.incoming.verified_bytes(),
            Some(_) => 0,
            None => left(file).unwrap_or(0).max(file.left.load(Relaxed)),
        };
        files.iter().map(|file| of(file)).sum()
    }

    pub(super) fn stop(&self) {
        self.stopped.store(true, Relaxed);
        self.queue.close();
        self.staging.abort();
        self.digests.close();
        self.changed.notify_all();
    }

    /// The whole download cannot go on.
    pub(super) fn fail_all(&self, error: Error) {
        tracing::debug!("the download ends: {error}");
        self.failure.lock().expect("not poisoned").get_or_insert(error);
        self.stop();
    }

    // Files ------------------------------------------------------------------------------------------

    /// Waits until another file may be under way; `false` once stopped. [`add`](Self::add) or
    /// [`pass_over`](Self::pass_over) must follow.
    pub(super) fn admit(&self) -> bool {
        let mut live = self.live.lock().expect("not poisoned");
        while live.files.len() + live.coming >= LIVE {
            if self.is_stopped() {
                return false;
            }
            live = self.changed.wait_timeout(live, Duration::from_millis(100)).expect("not poisoned").0;
        }
        live.coming += 1;
        !self.is_stopped()
    }

    /// The file that was admitted is under way.
    pub(super) fn add(&self, file: &Arc<File>) {
        let mut live = self.live.lock().expect("not poisoned");
        live.coming -= 1;
        live.files.insert(file.id, Arc::clone(file));
    }

    /// What was admitted has ended already.
    pub(super) fn pass_over(&self) {
        self.live.lock().expect("not poisoned").coming -= 1;
        self.changed.notify_all();
    }

    /// Nothing more was named.
    pub(super) fn fed(&self) {
        self.ledger.all_listed();
        self.live.lock().expect("not poisoned").fed = true;
        self.changed.notify_all();
    }

    fn remove(&self, file: &File) {
        self.release(file);
        self.live.lock().expect("not poisoned").files.remove(&file.id);
        self.changed.notify_all();
    }

    /// The ledger list a file with as many bytes as it turned out to have.
    pub(super) fn resized(&self, file: &File, bytes: u64) {
        let before = std::mem::replace(&mut file.lock().listed, bytes);
        self.ledger.resized(before, bytes);
    }

    /// Keeps room on the disk for `bytes` of a file, or says that there is none.
    pub(super) fn reserve(&self, file: &File, bytes: u64) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        self.release(file);
        let mut spoken_for = self.spoken_for.lock().expect("not poisoned");
        let stat = rustix::fs::fstatvfs(&self.settings.out)
            .map_err(|error| Error::io("look at", &self.settings.base, error))?;
        let free = stat.f_bavail.saturating_mul(stat.f_frsize);
        if bytes > free.saturating_sub(*spoken_for) {
            let why = format!(
                "no room for {}: it needs {bytes} bytes, and {} has {free} free, of which other files under way need {}",
                file.name(),
                show(&self.settings.base),
                *spoken_for,
            );
            return Err(Error::new(ErrorKind::NoSpace, why));
        }
        file.reserved.store(bytes, Relaxed);
        *spoken_for += bytes;
        Ok(())
    }

    /// A file needs no more room than it has.
    fn release(&self, file: &File) {
        let mut spoken_for = self.spoken_for.lock().expect("not poisoned");
        *spoken_for -= file.reserved.swap(0, Relaxed);
    }

    /// Bytes of a file have been written.
    pub(super) fn count_written(&self, body: &Body, bytes: u64) {
        self.written_bytes.fetch_add(bytes, Relaxed);
        body.written.fetch_add(bytes, Relaxed);
        let mut spoken_for = self.spoken_for.lock().expect("not poisoned");
        let needed = bytes.min(body.file.reserved.load(Relaxed));
        body.file.reserved.fetch_sub(needed, Relaxed);
        *spoken_for -= needed;
    }

    /// Does what follows from a request that failed.
    pub(super) fn follow(
        &self,
        file: &Arc<File>,
        body: Option<&Arc<Body>>,
        next: Next,
        again: impl FnOnce(Option<Instant>),
    ) {
        match next {
            Next::Again(not_before) => again(not_before),
            Next::Anew => self.begin_anew(file, body, None),
            Next::Fail(error) => self.fail(file, &error),
            Next::Nothing => {}
        }
    }

    /// A file has failed; the others go on.
    pub(super) fn fail(&self, file: &Arc<File>, error: &Error) {
        let body = {
            let mut state = file.lock();
            if std::mem::replace(&mut state.ended, true) {
                return;
            }
            state.body.take()
        };
        if let Some(body) = body {
            // What came before a lost connection or a refusal is right as far as it goes.
            let wrong = matches!(error.kind, ErrorKind::Corrupt | ErrorKind::Changed | ErrorKind::Io);
            self.drop_body(&body, !wrong);
        }
        self.ledger.failed(file.record.path.as_bytes(), error.clone(), true);
        (self.tell)(Event::Failed { named: &file.name(), record: Some(&file.record), error });
        self.remove(file);
    }

    /// A file could not be written.
    pub(super) fn fail_write(&self, file: &Arc<File>, error: &Error) {
        if error.kind == ErrorKind::NoSpace {
            // Nothing more will fit; what is there is kept for the next run.
            let hint = "free some space and run the same command again";
            self.fail_all(Error::new(ErrorKind::NoSpace, format!("{}; {hint}", error.message)));
            return;
        }
        self.fail(file, error);
    }

    /// A file is there already.
    pub(super) fn skip(&self, file: &Arc<File>, got: &Got) {
        {
            let mut state = file.lock();
            if std::mem::replace(&mut state.ended, true) {
                return;
            }
        }
        self.resized(file, got.bytes);
        self.ledger.skipped(got.bytes);
        (self.tell)(Event::Skipped { record: &file.record, got });
        self.remove(file);
    }

    /// A file is complete and verified: on to its name.
    pub(super) fn hand_in(&self, complete: Complete) {
        let sender = self.complete.lock().expect("not poisoned").clone();
        if let Some(sender) = sender {
            let _ = sender.send(complete);
        }
    }

    // Committing -------------------------------------------------------------------------------------

    pub(super) fn commit(&self, completed: &mpsc::Receiver<Complete>) {
        let sink: Arc<dyn Sink> = self.sink.clone();
        let committer =
            Committer { sink, journal: self.journal(), catalogue: None, threads: Quota::unlimited() };
        let ended = |outcomes: Vec<(FileId, Outcome)>| {
            let mut remembered = Vec::new();
            for (id, outcome) in outcomes {
                let file = self.live.lock().expect("not poisoned").files.get(&id).map(Arc::clone);
                let Some(file) = file else { continue };
                match outcome {
                    Outcome::Committed => remembered.extend(self.committed(&file)),
                    Outcome::Failed(error) => self.fail_write(&file, &error),
                }
            }
            if let (Some(journal), false) = (&committer.journal, remembered.is_empty()) {
                let mut journal = journal.lock().expect("not poisoned");
                if let Err(error) = journal.settled(remembered.iter().map(|entry| &**entry)) {
                    tracing::warn!("the journal cannot be written: {error}");
                }
            }
        };
        commit_all(&committer, completed, || self.progress(), ended);
    }

    /// A file has its name; answers with what it is if that is remembered for later runs.
    fn committed(&self, file: &Arc<File>) -> Option<Arc<Entry>> {
        let (body, started) = {
            let mut state = file.lock();
            if std::mem::replace(&mut state.ended, true) {
                return None;
            }
            (state.body.take()?, state.started)
        };
        body.incoming.end();
        let checksums = body.front().sums.clone().unwrap_or_default();
        let entry = Arc::clone(&body.incoming.entry);
        let sum_known = !file.record.checksums.is_empty() || !body.vouched.is_empty();
        // Remembered whether a later run can tell its version or not: it may replace what is ours. Some file systems
        // keep times less exactly than they were set.
        let fresh = checksums.without(&file.record.checksums);
        let there = self.there(&file.record).ok().flatten().filter(|there| there.size == body.size());
        let mtime = there.map_or(entry.mtime, |there| there.mtime);
        let remembered = self.remember(file, &Fetched::new(body.size(), mtime, body.version, &fresh));
        let got = Got {
            bytes: body.size(),
            checksums,
            checked: self.settings.verify && sum_known,
            seconds: started.map_or(0.0, |started| started.elapsed().as_secs_f64()),
            url: file.record.urls[body.mirror].clone(),
            modified: body.modified,
        };
        self.ledger.done(body.size() - body.incoming.kept);
        (self.tell)(Event::Done { record: &file.record, got: &got });
        self.remove(file);
        remembered.then_some(entry)
    }

    /// Segments written since the last time, of files still on their way.
    fn progress(&self) -> Vec<Progress> {
        let dirty = std::mem::take(&mut *self.dirty.lock().expect("not poisoned"));
        let fresh = |file: Arc<Incoming>| {
            let (part, segments) = file.take_fresh()?;
            Some(Progress { file, part, segments })
        };
        dirty.into_iter().filter_map(fresh).collect()
    }
}
