//! What all workers of an upload share, and the turns in a file's life: begun, confirmed, complete,
//! failed. Each file ends exactly once.

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tidegate_control::ByteCount;
use tidegate_transfer::catalogue::{Catalogue, Verified};
use tidegate_transfer::error::{Error, ErrorKind};
use tidegate_transfer::ledger::Ledger;
use tidegate_transfer::path::RelPath;
use tidegate_transfer::selection::{Deletion, Taking};
use tidegate_transfer::store::Source;
use tidegate_transfer::sys::sync::Mutex;
use tidegate_transfer::throttle::{Limits, Throttle};
use tidegate_transfer::transfer::{Interrupt, Pace};

use crate::host::Host;
use crate::put::arrived::ArrivedNames;
use crate::put::queue::{SendTask, UploadQueue};
use crate::put::removed::Removed;
use crate::put::target::{PieceSums, Present, Stored, Target, UploadFile};

/// How an upload is done.
pub struct UploadSettings {
    /// Memory for parts, from the first byte that is read to the confirmation.
    pub staging: ByteCount,
    /// Most workers a stage.
    pub max_workers: u16,
    /// Rates to keep.
    pub limits: Limits,
    /// How often a request is tried again.
    pub retries: u32,
    /// How long a server that asks everybody to come again later is tried again.
    pub retry_for: Duration,
    /// How it is driven.
    pub pace: Pace,
    /// Stops it.
    pub interrupt: Interrupt,
    /// Of pauses.
    pub seed: u64,
    /// Only find out what would be sent.
    pub dry: bool,
    /// Read files that are there already, instead of trusting size, time and what was remembered.
    pub checksum: bool,
    /// Which files are sent, by what bears their names.
    pub taking: Taking,
    /// What of the destination is removed once everything has arrived.
    pub deletion: Option<Deletion>,
    /// What was verified at this target before.
    pub catalogue: Option<Arc<Mutex<Catalogue>>>,
    /// Set once some content could only be checked by its size.
    pub unverified: Arc<AtomicBool>,
}

/// What is usual; nothing is remembered from run to run.
impl Default for UploadSettings {
    fn default() -> Self {
        Self {
            staging: ByteCount::mib(64),
            max_workers: 64,
            limits: Limits::default(),
            retries: 5,
            retry_for: Duration::from_secs(600),
            pace: Pace::new(Duration::from_secs(1)),
            interrupt: Interrupt::default(),
            seed: 1,
            dry: false,
            checksum: false,
            taking: Taking::default(),
            deletion: None,
            catalogue: None,
            unverified: Arc::default(),
        }
    }
}

/// What became of a file.
pub enum UploadEvent<'a> {
    /// It is there and was checked.
    Done(&'a RelPath, u64),
    /// It was there already.
    Skipped(&'a RelPath, u64),
    /// What bears its name, or that nothing does, stays so.
    Left(&'a RelPath),
    /// It would be sent; told in place of sending it.
    Would(&'a RelPath, u64),
    /// The source does not have it, and it was removed.
    Deleted(&'a RelPath),
    /// The same would be removed; told in place of removing it.
    WouldDelete(&'a RelPath),
    /// It did not arrive.
    Failed(&'a [u8], &'a Error),
    /// Something was left out on purpose.
    Note(&'a [u8], &'a dyn Display),
}

/// Whom events are told.
pub type UploadListener = Box<dyn Fn(UploadEvent<'_>) + Send + Sync>;

/// What all workers share.
pub(crate) struct UploadState {
    /// How it is done.
    pub settings: UploadSettings,
    /// Where files come from.
    pub source: Box<dyn Source>,
    /// Where they go.
    pub target: Arc<dyn Target>,
    /// Who does what next.
    pub queue: Arc<UploadQueue>,
    /// The ledger.
    pub ledger: Arc<Ledger>,
    /// How many connections the server bears.
    pub host: Arc<Host>,
    /// Set once all is over, to wake who sleeps.
    pub over: AtomicBool,
    /// Bytes read.
    pub read: AtomicU64,
    /// Bytes handed to the network.
    pub network: AtomicU64,
    /// Requests with a body under way.
    pub active: AtomicU16,
    /// The rate of all connections together.
    pub link: Option<Throttle>,
    /// Whether anything at the target could bear a file's name.
    pub(crate) inhabited: AtomicBool,
    /// What was removed of what the source does not have.
    pub(crate) removed: Removed,
    /// What has arrived or was there, where a listing is held against it.
    pub(crate) arrived: ArrivedNames,
    /// Who is told.
    pub tell: UploadListener,
}

impl UploadState {
    /// Whether workers end.
    pub fn is_over(&self) -> bool {
        self.over.load(Relaxed)
    }

    /// Whether `file` is remembered as verified with what bears its name.
    pub fn remembers(&self, file: &UploadFile, present: &Present) -> bool {
        let Some(catalogue) = &self.settings.catalogue else { return false };
        let known = catalogue.lock().get(file.path.as_bytes());
        !self.settings.checksum && !present.tag.is_empty() && known == Some(Self::memory(file, &present.tag))
    }

    /// Whether what bears the file's name has its time, and the file was not stored with another one of the same second.
    pub(crate) fn is_as_old(&self, file: &UploadFile, present: &Present) -> bool {
        let known = self.settings.catalogue.as_ref().and_then(|all| all.lock().get(file.path.as_bytes()));
        !self.settings.checksum
            && present.is_as_old_as(file)
            && known.is_none_or(|known| known.mtime == file.mtime())
    }

    /// What is remembered: the tag stands for the content at the target, and the fingerprint for ours.
    fn memory(file: &UploadFile, tag: &str) -> Verified {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&file.fingerprint).update(tag.as_bytes());
        Verified { size: file.size, mtime: file.mtime(), root: *hasher.finalize().as_bytes() }
    }

    fn remember(&self, file: &UploadFile, tag: &str) {
        let Some(catalogue) = self.settings.catalogue.as_ref().filter(|_| !tag.is_empty()) else { return };
        let seen = (file.path.as_bytes(), Self::memory(file, tag));
        if let Err(error) = catalogue.lock().put(std::iter::once(seen)) {
            tracing::warn!("{} will be looked at again next time: {error}", file.path);
        }
    }

    /// What bears the file's name is the same.
    pub fn same(&self, file: &Arc<UploadFile>, present: &Present) {
        if self.end(file) {
            self.arrived.add(&file.path);
            self.remember(file, &present.tag);
            if self.source.is_moved() && !self.settings.dry {
                // Servers give access to this host's own files, too, by SFTP or a share.
                let why =
                    "it is there already, and may be the very same file: remove it by hand if it is not";
                self.stays(
                    file,
                    Error::new(ErrorKind::Io, format!("{} stays at the source: {why}", file.path)),
                );
            } else {
                self.ledger.skipped(file.size);
                (self.tell)(UploadEvent::Skipped(&file.path, file.size));
            }
            self.queue.ended();
        }
    }

    /// Whether what bears the file's name, or that nothing does, is to stay so.
    pub(crate) fn leaves(&self, file: &UploadFile, present: Option<&Present>) -> bool {
        let Taking { existing, ignore_existing, update } = self.settings.taking;
        let Some(present) = present else { return existing };
        ignore_existing || (update && present.modified.is_some_and(|time| time > file.mtime()))
    }

    /// The file is not to be sent, and does not count.
    pub(crate) fn leave(&self, file: &Arc<UploadFile>) {
        if self.end(file) {
            self.ledger.left_out(file.size);
            (self.tell)(UploadEvent::Left(&file.path));
            self.queue.ended();
        }
    }

    /// What bears the file's name is another content: the file is sent.
    pub(crate) fn begin_anew(&self, file: &Arc<UploadFile>) {
        file.state.lock().differs = true;
        self.queue.send(SendTask::Begin(Arc::clone(file)));
    }

    /// Tells what would be done in place of doing it.
    pub fn would(&self, file: &Arc<UploadFile>) {
        if self.end(file) {
            (self.tell)(UploadEvent::Would(&file.path, file.size));
            self.queue.ended();
        }
    }

    /// Whether an earlier run has brought this part there; then it is confirmed.
    pub fn has(&self, file: &Arc<UploadFile>, number: u32, length: u64, sums: PieceSums) -> bool {
        let state = file.state.lock();
        let hex = data_encoding::HEXLOWER.encode(&sums.md5);
        let same = |part: &&crate::remote::s3::answer::Part| {
            part.number == number && part.bytes == length && part.tag == hex
        };
        let Some(tag) = state.have.iter().find(same).map(|part| part.tag.clone()) else { return false };
        drop(state);
        self.already(file, length);
        self.confirmed(file, number, tag, sums);
        true
    }

    /// An earlier run has brought so much of the file there.
    pub(crate) fn already(&self, file: &UploadFile, length: u64) {
        file.state.lock().already += length;
        self.ledger.already(length);
    }

    /// Part `number` is at the target.
    pub fn confirmed(&self, file: &Arc<UploadFile>, number: u32, tag: String, sums: PieceSums) {
        let mut state = file.state.lock();
        state.in_flight -= 1;
        if let Some(slot) = state.confirmed.get_mut(number as usize - 1)
            && slot.is_none()
        {
            *slot = Some((tag, sums));
            state.left -= 1;
        }
        let whole = state.left == 0 && state.failed.is_none();
        drop(state);
        if whole {
            self.queue.send(SendTask::Complete(Arc::clone(file)));
        } else {
            self.conclude(file);
        }
    }

    /// The file has its name and was checked.
    pub fn stored(&self, file: &Arc<UploadFile>, stored: &Stored) {
        if !self.end(file) {
            return;
        }
        self.arrived.add(&file.path);
        if stored.verified {
            self.remember(file, &stored.tag);
        } else {
            self.settings.unverified.store(true, Relaxed);
        }
        match self.take_away(file, stored.verified) {
            Ok(()) => {
                let already = file.state.lock().already;
                self.ledger.done(file.size - already);
                (self.tell)(UploadEvent::Done(&file.path, file.size));
            }
            Err(error) => self.stays(file, error),
        }
        self.queue.ended();
    }

    /// Removes a file that has arrived at the source, if that was asked for.
    fn take_away(&self, file: &UploadFile, is_verified: bool) -> Result<(), Error> {
        if !self.source.is_moved() {
            return Ok(());
        }
        let stays = |why: &str| format!("{} has arrived, and stays at the source: {why}", file.path);
        match is_verified {
            true => self.source.remove(&file.listed).map_err(|error| {
                let why = stays(&error.message);
                error.in_words(why)
            }),
            false => Err(Error::new(ErrorKind::Io, stays("the server does not tell whether it is the same"))),
        }
    }

    /// A file that was to be moved stays at the source.
    fn stays(&self, file: &UploadFile, error: Error) {
        (self.tell)(UploadEvent::Failed(file.path.as_bytes(), &error));
        self.ledger.failed(file.path.as_bytes(), error, true);
    }

    /// A reader met an error while the file is being sent; the network will find its stream cut off.
    pub fn note(&self, file: &UploadFile, error: Error) {
        file.state.lock().met = Some(error);
    }

    /// A piece in a worker's hands will not arrive, and so the file will not.
    pub(crate) fn part_failed(&self, file: &Arc<UploadFile>, error: Error) {
        self.part_done(file);
        self.give_up(file, error);
    }

    /// A piece is no longer in a worker's hands.
    pub(crate) fn part_done(&self, file: &Arc<UploadFile>) {
        file.state.lock().in_flight -= 1;
        self.conclude(file);
    }

    /// The file will not arrive.
    pub fn give_up(&self, file: &Arc<UploadFile>, error: Error) {
        if self.is_over() || error.kind == ErrorKind::Interrupted {
            return;
        }
        file.state.lock().failed.get_or_insert(error);
        self.queue.forget(file);
        self.conclude(file);
    }

    /// Ends a failed file once none of its pieces is in anybody's hands. What was sent of it is removed,
    /// unless the server could not be reached: then another run goes on with it.
    fn conclude(&self, file: &Arc<UploadFile>) {
        let mut state = file.state.lock();
        if state.in_flight > 0 || state.ended || state.concluded {
            return;
        }
        let Some(error) = state.failed.clone() else { return };
        // Once: who comes second must not end the file before its upload is removed.
        state.concluded = true;
        let keep = matches!(error.kind, ErrorKind::Connection | ErrorKind::Busy);
        let upload = state.upload.take().filter(|_| !keep);
        drop(state);
        match upload {
            Some(id) => self.queue.send(SendTask::Abort(Arc::clone(file), id)),
            None => self.failed(file),
        }
    }

    /// Enters a failed file into the ledger.
    pub fn failed(&self, file: &Arc<UploadFile>) {
        let error = file.state.lock().failed.clone();
        if let Some(error) = error.filter(|_| self.end(file)) {
            (self.tell)(UploadEvent::Failed(file.path.as_bytes(), &error));
            self.ledger.failed(file.path.as_bytes(), error, true);
            self.queue.ended();
        }
    }

    /// Whether this is the file's end, and no other was.
    fn end(&self, file: &UploadFile) -> bool {
        !std::mem::replace(&mut file.state.lock().ended, true)
    }
}
