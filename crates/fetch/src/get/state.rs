//! What the workers of a download share, and how a file ends.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tidegate_transfer::catalogue::Catalogue;
use tidegate_transfer::error::{Error, ErrorKind, Result};
use tidegate_transfer::manifest::{BLOCK, Entry, FileId};
use tidegate_transfer::pipeline::write_path::{
    Arrived, Incoming, Outcome, WriteHandler, WritePath, WrittenBy,
};
use tidegate_transfer::store::file_sink::FileSink;
use tidegate_transfer::sys::sync::{Condvar, Mutex};
use tidegate_transfer::text::show;
use tidegate_transfer::throttle::Throttle;

use crate::get::digest_queue::DigestQueue;
use crate::get::event::{Active, DownloadEvent, DownloadListener, Got};
use crate::get::file::{Body, DownloadFile, Next, State, UNKNOWN};
use crate::get::memory::Fetched;
use crate::get::queue::Queue;
use crate::get::settings::DownloadSettings;
use crate::host::Hosts;
use crate::host::quickest::Quickest;

/// Files under way at once; the list is read no further than they need.
pub(super) const LIVE: usize = 1024;

/// The state of a download.
pub(super) struct DownloadState {
    pub(super) settings: DownloadSettings,
    pub(super) tell: DownloadListener,
    pub(super) hosts: Hosts,
    pub(super) queue: Queue,
    pub(super) path: WritePath<Body>,
    pub(super) link: Option<Throttle>,
    pub(super) sink: Arc<FileSink>,
    pub(super) memory: Option<Arc<Mutex<Catalogue<Fetched>>>>,
    pub(super) digests: DigestQueue,
    pub(super) network_bytes: AtomicU64,
    /// Permission bits of new files.
    pub(super) mode: u32,
    pub(super) live: Mutex<Live>,
    pub(super) changed: Condvar,
    /// Room on the disk that files under way will need.
    pub(super) spoken_for: Mutex<u64>,
    /// Network workers at work.
    pub(super) connected: AtomicU16,
    pub(super) quickest: Quickest,
}

/// How long the first file is waited for before it is asked how many connections there may be.
const MOMENT: Duration = Duration::from_millis(200);

/// The files under way.
pub(super) struct Live {
    pub(super) files: BTreeMap<FileId, Arc<DownloadFile>>,
    /// Files about to be added, which count.
    coming: usize,
    /// The list has been read to its end.
    fed: bool,
    /// Connections that the hosts were last known to bear.
    room: u16,
    /// Whether somebody has waited for the first file.
    looked: bool,
}

impl Live {
    /// None yet; a host of which nothing is known bears no more than `room` connections.
    pub(super) const fn new(room: u16) -> Self {
        Self { files: BTreeMap::new(), coming: 0, fed: false, room, looked: false }
    }
}

impl DownloadState {
    // The run ----------------------------------------------------------------------------------------

    /// Whether everything that was named has ended.
    pub(super) fn is_over(&self) -> bool {
        let live = self.live.lock();
        live.fed && live.files.is_empty() && live.coming == 0
    }

    /// Waits for a file to end, or for `time` to pass.
    pub(super) fn wait(&self, time: Duration) {
        let live = self.live.lock();
        drop(self.changed.wait_timeout(live, time));
    }

    /// Connections that the hosts bear. Before any is known they are few; what a list names is known in a moment.
    pub(super) fn room(&self) -> u16 {
        let mut live = self.live.lock();
        if !live.looked {
            live.looked = true;
            let unknown = |live: &mut Live| live.files.is_empty() && !live.fed;
            live = self.changed.wait_timeout_while(live, MOMENT, unknown).0;
        }
        if !live.files.is_empty() {
            live.room = self.hosts.room(Instant::now());
        }
        live.room
    }

    pub(super) fn active(&self) -> Vec<Active> {
        let files: Vec<_> = self.live.lock().files.values().cloned().collect();
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

    /// The versions under way.
    pub(super) fn bodies(&self) -> Vec<Arc<Body>> {
        let files: Vec<_> = self.live.lock().files.values().cloned().collect();
        files.iter().filter_map(|file| file.lock().body.clone()).collect()
    }

    /// About how much a later run finds of the files that have not ended.
    pub(super) fn kept(&self) -> u64 {
        let files: Vec<_> = self.live.lock().files.values().cloned().collect();
        let journal = self.path.journal();
        let left = |file: &DownloadFile| {
            let journal = journal.as_ref()?.lock();
            Some(journal.left_bytes(&file.record.path))
        };
        let of = |file: &DownloadFile| match &file.lock().body {
            Some(body) if body.resumes => body.size() - absent(&body.incoming),
            Some(_) => 0,
            None => left(file).unwrap_or(0).max(file.left.load(Relaxed)),
        };
        files.iter().map(|file| of(file)).sum()
    }

    pub(super) fn stop(&self) {
        self.path.stop();
        self.queue.close();
        self.digests.close();
        self.changed.notify_all();
    }

    // Files ------------------------------------------------------------------------------------------

    /// Waits until another file may be under way; `false` once stopped. [`add`](Self::add) or
    /// [`pass_over`](Self::pass_over) must follow.
    pub(super) fn admit(&self) -> bool {
        let mut live = self.live.lock();
        while live.files.len() + live.coming >= LIVE {
            if self.path.is_stopped() {
                return false;
            }
            live = self.changed.wait_timeout(live, Duration::from_millis(100)).0;
        }
        live.coming += 1;
        !self.path.is_stopped()
    }

    /// The file that was admitted is under way.
    pub(super) fn add(&self, file: &Arc<DownloadFile>) {
        let mut live = self.live.lock();
        live.coming -= 1;
        live.files.insert(file.id, Arc::clone(file));
        drop(live);
        self.changed.notify_all();
    }

    /// What was admitted has ended already.
    pub(super) fn pass_over(&self) {
        self.live.lock().coming -= 1;
        self.changed.notify_all();
    }

    /// Nothing more was named.
    pub(super) fn fed(&self) {
        self.path.ledger.all_listed();
        self.live.lock().fed = true;
        self.changed.notify_all();
    }

    fn remove(&self, file: &DownloadFile) {
        self.release(file);
        self.live.lock().files.remove(&file.id);
        self.changed.notify_all();
    }

    /// The ledger list a file with as many bytes as it turned out to have.
    pub(super) fn resized(&self, file: &DownloadFile, bytes: u64) {
        let before = std::mem::replace(&mut file.lock().listed, bytes);
        self.path.ledger.resized(before, bytes);
    }

    /// Keeps room on the disk for `bytes` of a file, or says that there is none.
    pub(super) fn reserve(&self, file: &DownloadFile, bytes: u64) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        self.release(file);
        let mut spoken_for = self.spoken_for.lock();
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
    fn release(&self, file: &DownloadFile) {
        let mut spoken_for = self.spoken_for.lock();
        *spoken_for -= file.reserved.swap(0, Relaxed);
    }

    /// Bytes of a file have been written.
    pub(super) fn count_written(&self, body: &Body, bytes: u64) {
        body.written.fetch_add(bytes, Relaxed);
        let mut spoken_for = self.spoken_for.lock();
        let needed = bytes.min(body.file.reserved.load(Relaxed));
        body.file.reserved.fetch_sub(needed, Relaxed);
        *spoken_for -= needed;
    }

    /// Does what follows from a request that failed.
    pub(super) fn follow(
        &self,
        file: &Arc<DownloadFile>,
        body: Option<&Arc<Body>>,
        next: Next,
        again: impl FnOnce(Option<Instant>),
    ) {
        match next {
            Next::Again(not_before) => again(not_before),
            Next::Anew => self.begin_anew(file, body, None),
            Next::Fail(error) => self.fail_one(file, &error),
            Next::Nothing => {}
        }
    }

    /// A file has failed; the others go on.
    pub(super) fn fail_one(&self, file: &Arc<DownloadFile>, error: &Error) {
        self.fail_while(file, error, |_| true);
    }

    /// The same, if `holds`: a version that was dropped meanwhile says nothing of the file.
    fn fail_while(&self, file: &Arc<DownloadFile>, error: &Error, holds: impl FnOnce(&State) -> bool) {
        let body = {
            let mut state = file.lock();
            if !holds(&state) || std::mem::replace(&mut state.ended, true) {
                return;
            }
            state.body.take()
        };
        if let Some(body) = body {
            // What came before a lost connection or a refusal is right as far as it goes.
            let wrong = matches!(error.kind, ErrorKind::Corrupt | ErrorKind::Changed | ErrorKind::Io);
            self.drop_body(&body, !wrong);
        }
        self.path.ledger.failed(file.record.path.as_bytes(), error.clone(), true);
        (self.tell)(DownloadEvent::Failed { named: &file.name(), record: Some(&file.record), error });
        self.remove(file);
    }

    /// A file is there already.
    pub(super) fn skip(&self, file: &Arc<DownloadFile>, got: &Got) {
        {
            let mut state = file.lock();
            if std::mem::replace(&mut state.ended, true) {
                return;
            }
        }
        self.resized(file, got.bytes);
        self.path.ledger.skipped(got.bytes);
        (self.tell)(DownloadEvent::Skipped { record: &file.record, got });
        self.remove(file);
    }

    /// A file has its name; answers with what it is if that is remembered for later runs.
    fn committed(&self, file: &Arc<DownloadFile>) -> Option<Arc<Entry>> {
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
        let is_proved = file.record.checksums.agrees(&checksums) || body.vouched.agrees(&checksums);
        // Remembered whether a later run can tell its version or not: it may replace what is ours. Some file systems
        // keep times less exactly than they were set.
        let fresh = checksums.without(&file.record.checksums);
        let existing =
            self.existing(&file.record).ok().flatten().filter(|existing| existing.size == body.size());
        let mtime = existing.map_or(entry.mtime, |existing| existing.mtime);
        let remembered = self.remember(file, &Fetched::new(body.size(), mtime, body.version, &fresh));
        let got = Got {
            bytes: body.size(),
            checksums,
            checked: self.settings.verify && is_proved,
            seconds: started.map_or(0.0, |started| started.elapsed().as_secs_f64()),
            url: file.record.urls[body.mirror].clone(),
            modified: body.modified,
        };
        self.path.ledger.done(body.size() - body.incoming.kept);
        (self.tell)(DownloadEvent::Done { record: &file.record, got: &got });
        self.remove(file);
        remembered.then_some(entry)
    }
}

/// How much of a file is not there.
fn absent(incoming: &Incoming) -> u64 {
    incoming.absent().iter().map(|range| range.end - range.start).sum()
}

impl WriteHandler for DownloadState {
    type File = Body;

    fn path(&self) -> &WritePath<Body> {
        &self.path
    }

    fn written(&self, arrived: &Arrived<Body>, bytes: &[u8], by: WrittenBy) {
        let (body, length) = (&arrived.file, arrived.length as usize);
        self.count_written(body, length as u64);
        match by {
            // A connection's own thread would read nothing meanwhile; but a file of one block is done sooner than
            // handed over.
            WrittenBy::Deliverer if body.size() > BLOCK => self.see_to(body),
            _ => self.take_in(body, arrived.offset, &bytes[..length]),
        }
    }

    /// What vouches for a file is its checksum, which is computed otherwise.
    fn complete(&self, _: &Arc<Body>) {}

    /// Its blocks are held against nothing.
    fn damaged(&self, _: &Arc<Body>, _: Range<u64>) {}

    fn fail_file(&self, body: &Arc<Body>, error: Error) {
        self.fail_while(&body.file, &error, |state| state.concerns(Some(body)));
    }

    fn fail(&self, error: Error) {
        tracing::debug!("the download ends: {error}");
        self.path.stop_for(error);
        self.stop();
    }

    fn ended(&self, outcomes: Vec<(FileId, Outcome)>) {
        let mut remembered = Vec::new();
        for (id, outcome) in outcomes {
            let file = self.live.lock().files.get(&id).map(Arc::clone);
            let Some(file) = file else { continue };
            match outcome {
                Outcome::Committed => remembered.extend(self.committed(&file)),
                Outcome::Failed(error) => {
                    let body = file.lock().body.clone();
                    if let Some(body) = body {
                        self.write_failed(&body, error);
                    }
                }
            }
        }
        if let (Some(journal), false) = (self.path.journal(), remembered.is_empty()) {
            let mut journal = journal.lock();
            if let Err(error) = journal.settled(remembered.iter().map(|entry| &**entry)) {
                tracing::warn!("the journal cannot be written: {error}");
            }
        }
    }
}
