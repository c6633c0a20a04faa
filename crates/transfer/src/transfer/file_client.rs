//! Asks an endpoint about files: over one session, or over several at once where much is read. Sessions are kept for what
//! is asked next, and opened again where an endpoint has closed them.

mod idle;
pub mod range_stream;
mod read_run;
mod reading;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tidegate_control::optimizer::{EPOCH, OptimizerOptions, build};
use tidegate_control::{PerStage, Rng, run};

use crate::error::{Error, ErrorKind, Result};
use crate::hash::Digest;
use crate::manifest::Fingerprint;
use crate::path::RelPath;
use crate::quota::{Quota, Share, remember};
use crate::spec::TransferId;
use crate::sys::clock::Instant;
use crate::sys::thread;
use crate::transfer::file_client::idle::IdleSessions;
use crate::transfer::file_client::read_run::ReadRun;
use crate::transfer::file_client::reading::Reading;
use crate::transfer::link::{Link, check_ticket};
use crate::transfer::{Interrupt, Pace, Paced};
use crate::wire::files::{Content, FileKind, FileReply, FileRequest, FileStatus, ListedFile};
use crate::wire::handshake::Unopened;
use crate::wire::message::Message;
use crate::wire::request::RequestKind;
use crate::wire::ticket::Address;
use crate::wire::tls::Identity;
use crate::wire::way::{Carriers, Way};

/// Changes that are asked for ahead of their answers.
const CHANGES_AHEAD: usize = 64;

/// How often it is looked whether anybody still wants an answer.
const GLANCE: Duration = Duration::from_millis(50);

/// How long a session is waited for while a ticket has as many as it may.
pub const SESSION_PATIENCE: Duration = Duration::from_secs(300);

/// The first and the longest pause before a session is asked for again.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// A part of a file that is wanted.
#[derive(Clone, Debug)]
pub struct WantedRange {
    /// Of which file.
    pub path: Vec<u8>,
    /// Of which version of it; of any if it is not said.
    pub version: Option<Fingerprint>,
    /// From where to where.
    pub range: Range<u64>,
}

/// What a directory holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// What it is itself. A file holds nothing.
    pub itself: FileStatus,
    /// What lies in it, by its path relative to it.
    pub entries: Vec<ListedFile>,
    /// Directories in it that could not be listed, and why.
    pub problems: Vec<(RelPath, Error)>,
}

/// What was told of a directory, and of directories in it that cannot be listed.
type Told = (Vec<ListedFile>, Vec<(RelPath, Error)>);

/// One session of requests about files.
#[derive(Debug)]
struct FileSession {
    link: Link,
    place: String,
    next: u32,
}

impl FileSession {
    fn ask(&mut self, request: FileRequest) -> u32 {
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        let outbox = &self.link.outbox;
        outbox.send_patiently(&Message::File(number, request), || false);
        number
    }

    /// The next answer, which must be to the request of that number.
    fn reply(&self, number: u32, interrupt: &Interrupt) -> Result<FileReply> {
        loop {
            if interrupt.is_raised() {
                return Err(Error::new(ErrorKind::Interrupted, "interrupted"));
            }
            match self.link.inbox.receive_within(GLANCE)? {
                None => {}
                Some(Message::FileReply(answered, FileReply::Failed(error))) if answered == number => {
                    return Ok(FileReply::Failed(error.within(format!("the endpoint at {}", self.place))));
                }
                Some(Message::FileReply(answered, reply)) if answered == number => return Ok(reply),
                Some(Message::Refused(error)) => {
                    return Err(error.within(format!("the endpoint at {}", self.place)));
                }
                Some(_) => return Err(unasked()),
            }
        }
    }
}

impl Drop for FileSession {
    fn drop(&mut self) {
        self.link.outbox.close();
    }
}

fn unasked() -> Error {
    Error::protocol("the endpoint answered something else than was asked")
}

/// Asks one endpoint; for any number of threads.
#[derive(Debug)]
pub struct FileClient {
    address: Address,
    way: Way,
    pki: Option<Arc<Identity>>,
    /// Most sessions that read at once.
    most: u16,
    /// How many the rule held good for the last large read; 0 before one.
    sessions: AtomicU16,
    /// The quickest answer to a request that needs no file, in µs; the round trip, if none is quicker.
    quickest_us: AtomicU64,
    /// What listings may take in memory.
    metadata: Arc<Quota>,
    /// How long a first session is waited for where a ticket has as many as it may.
    patience: Duration,
    idle: Arc<IdleSessions>,
}

impl FileClient {
    /// Opens a first session with the endpoint at `address`. No more than `most` will read at once, and a session that is
    /// not to be had at once is waited for so long.
    ///
    /// # Errors
    /// It is not reached, does not let us in, or is too old to be asked about files.
    pub fn connect(
        address: &Address,
        carriers: &Carriers,
        pki: Option<Arc<Identity>>,
        most: u16,
        patience: Duration,
        interrupt: &Interrupt,
    ) -> Result<Self> {
        // First: what looks like a host may be a ticket that was torn, and is not to be asked for or shown.
        check_ticket(address, pki.as_ref())?;
        let client = Self {
            address: address.clone(),
            way: carriers.way(address)?,
            pki,
            most: most.max(1),
            sessions: AtomicU16::new(0),
            quickest_us: AtomicU64::new(u64::MAX),
            metadata: Share::own().metadata,
            patience,
            idle: Arc::default(),
        };
        let (_, first) = client.take(interrupt)?;
        client.give_back(first);
        Ok(client)
    }

    fn open(&self) -> Result<FileSession> {
        let link = Link::open_at(&self.address, &self.way, self.pki.as_ref(), &self.metadata);
        // It is there, and has no room now.
        let link = link.map_err(|unopened| match unopened {
            Unopened::Refused(error) if error.kind == ErrorKind::Connection => {
                Error { kind: ErrorKind::Busy, ..error }
            }
            other => other.into(),
        })?;
        let asked = Instant::now();
        link.ask(&RequestKind::Files.into())?;
        link.accepted()?;
        let time = u64::try_from(asked.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.quickest_us.fetch_min(time, Relaxed);
        Ok(FileSession { link, place: self.address.place(), next: 0 })
    }

    /// A session that nobody uses, or else a new one: whether it was used before, and it.
    fn take_at_once(&self) -> Result<(bool, FileSession)> {
        match self.idle.take() {
            Some(session) => Ok((true, session)),
            None => Ok((false, self.open()?)),
        }
    }

    /// The same, and waits for one as long as others have as many as there may be.
    fn take(&self, interrupt: &Interrupt) -> Result<(bool, FileSession)> {
        let began = Instant::now();
        // Those who wait do not all ask at once.
        let mut rng = Rng::new(u64::from(std::process::id()) ^ (&raw const began).addr() as u64);
        let mut pause = PAUSES.0;
        loop {
            match self.take_at_once() {
                Err(error) if error.kind == ErrorKind::Busy && began.elapsed() < self.patience => {}
                ended => return ended,
            }
            let again = Instant::now() + pause.mul_f64(0.5 + rng.unit() / 2.0);
            while Instant::now() < again && self.idle.is_empty() {
                if interrupt.is_raised() {
                    return Err(Error::new(ErrorKind::Interrupted, "interrupted"));
                }
                thread::sleep(GLANCE);
            }
            pause = (2 * pause).min(PAUSES.1);
        }
    }

    fn give_back(&self, session: FileSession) {
        self.idle.put(session);
    }

    /// Has `asked` use a session; once more with another where a lost one may have been closed while nobody used it.
    fn with_session<T>(
        &self,
        interrupt: &Interrupt,
        mut asked: impl FnMut(&mut FileSession) -> Result<T>,
    ) -> Result<T> {
        loop {
            let (was_used, mut session) = self.take(interrupt)?;
            match asked(&mut session) {
                Err(error) if error.kind == ErrorKind::Connection && was_used => {}
                Err(error) => return Err(error),
                Ok(answer) => {
                    self.give_back(session);
                    return Ok(answer);
                }
            }
        }
    }

    /// What is at `path`.
    pub fn stat(&self, path: &[u8], interrupt: &Interrupt) -> Result<FileStatus> {
        let request = FileRequest::Stat { path: path.to_vec() };
        match self.one(&request, interrupt)? {
            FileReply::Status(status) => Ok(status),
            _ => Err(unasked()),
        }
    }

    /// What the whole file at `path` hashes to, by BLAKE3.
    pub fn hash(&self, path: &[u8], interrupt: &Interrupt) -> Result<Digest> {
        let request = FileRequest::Hash { path: path.to_vec() };
        match self.one(&request, interrupt)? {
            FileReply::Hash(digest) => Ok(digest),
            _ => Err(unasked()),
        }
    }

    fn one(&self, request: &FileRequest, interrupt: &Interrupt) -> Result<FileReply> {
        let asked = |session: &mut FileSession| {
            let number = session.ask(request.clone());
            session.reply(number, interrupt)
        };
        match self.with_session(interrupt, asked)? {
            FileReply::Failed(error) => Err(error),
            reply => Ok(reply),
        }
    }

    /// What lies in the directory `path`, sorted, and in its directories if `recursive`.
    pub fn list(&self, path: &[u8], recursive: bool, interrupt: &Interrupt) -> Result<Listing> {
        let (itself, told) = self.with_session(interrupt, |session| {
            // Both at once: what a file is told of costs no second round trip.
            let stat = session.ask(FileRequest::Stat { path: path.to_vec() });
            let list = session.ask(FileRequest::List { path: path.to_vec(), recursive });
            let itself = session.reply(stat, interrupt)?;
            Ok((itself, self.listed(session, list, interrupt)?))
        })?;
        let itself = match itself {
            FileReply::Status(status) => status,
            FileReply::Failed(error) => return Err(error),
            _ => return Err(unasked()),
        };
        if itself.kind != FileKind::Directory {
            return Ok(Listing { itself, entries: Vec::new(), problems: Vec::new() });
        }
        let (mut entries, problems) = told?;
        entries.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        Ok(Listing { itself, entries, problems })
    }

    /// All parts of the answer to the request of that number, or why it failed.
    fn listed(&self, session: &FileSession, number: u32, interrupt: &Interrupt) -> Result<Result<Told>> {
        let (mut all, mut troubles) = (Vec::new(), Vec::new());
        let mut held = remember(&self.metadata, 0)?;
        loop {
            let (entries, problems, more) = match session.reply(number, interrupt)? {
                FileReply::Entries { entries, problems, more } => (entries, problems, more),
                FileReply::Failed(error) => return Ok(Err(error)),
                _ => return Err(unasked()),
            };
            let taken: usize = entries.iter().map(ListedFile::memory).sum();
            let told: usize = problems.iter().map(|(_, error)| error.message.len()).sum();
            if !held.resize(held.amount() + taken + told) {
                let why = "the directory holds more than is listed at once: list parts of it";
                return Err(Error::new(ErrorKind::Busy, why));
            }
            all.extend(entries);
            troubles.extend(problems);
            if !more {
                return Ok(Ok((all, troubles)));
            }
        }
    }

    /// Asks for changes, one after the other and without waiting for each; tells how each ended. What follows one that
    /// failed is done nevertheless.
    ///
    /// # Errors
    /// The session was lost: what had not been answered by then may have been done or not.
    pub fn change(&self, changes: Vec<FileRequest>, interrupt: &Interrupt) -> Result<Vec<Result<()>>> {
        let (_, mut session) = self.take(interrupt)?;
        let mut ended = Vec::with_capacity(changes.len());
        let mut asked = VecDeque::new();
        let mut changes = changes.into_iter();
        loop {
            while asked.len() < CHANGES_AHEAD
                && let Some(change) = changes.next()
            {
                asked.push_back(session.ask(change));
            }
            let Some(number) = asked.pop_front() else { break };
            match session.reply(number, interrupt) {
                Ok(FileReply::Done) => ended.push(Ok(())),
                Ok(FileReply::Failed(error)) => ended.push(Err(error)),
                Ok(_) => return Err(unasked()),
                Err(error) => {
                    return Err(error.within("a change was not answered, and may have been done or not"));
                }
            }
        }
        self.give_back(session);
        Ok(ended)
    }

    /// Writes a small file, of at most [`MAX_CONTENT`](crate::wire::files::MAX_CONTENT) bytes.
    pub fn write(&self, path: &[u8], content: Vec<u8>, interrupt: &Interrupt) -> Result<()> {
        let change = FileRequest::Write { path: path.to_vec(), content: Content(content) };
        self.change_one(change, interrupt)
    }

    /// Writes one that is not there: fails as [`Changed`](ErrorKind::Changed) if something bears its name.
    pub fn create(&self, path: &[u8], content: Vec<u8>, interrupt: &Interrupt) -> Result<()> {
        let change = FileRequest::Create { path: path.to_vec(), content: Content(content) };
        self.change_one(change, interrupt)
    }

    /// Leaves `mark` in the directory `path`.
    pub fn mark(&self, path: &[u8], mark: TransferId, interrupt: &Interrupt) -> Result<()> {
        self.change_one(FileRequest::Mark { path: path.to_vec(), mark }, interrupt)
    }

    /// Whether `mark` is in the directory `path`.
    pub fn has_mark(&self, path: &[u8], mark: TransferId, interrupt: &Interrupt) -> Result<bool> {
        match self.one(&FileRequest::FindMark { path: path.to_vec(), mark }, interrupt) {
            Ok(FileReply::Done) => Ok(true),
            Ok(_) => Err(unasked()),
            Err(error) if error.kind == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Removes `mark` from the directory `path`.
    pub fn remove_mark(&self, path: &[u8], mark: TransferId, interrupt: &Interrupt) -> Result<()> {
        self.change_one(FileRequest::RemoveMark { path: path.to_vec(), mark }, interrupt)
    }

    fn change_one(&self, change: FileRequest, interrupt: &Interrupt) -> Result<()> {
        self.change(vec![change], interrupt)?.pop().unwrap_or_else(|| Err(unasked()))
    }

    /// Reads all that is wanted; each in the pieces that it came in. What is large is read over as many sessions at once as
    /// the default rule finds good.
    pub fn read(&self, wanted: &[WantedRange], interrupt: &Interrupt) -> Result<Vec<Result<Vec<Vec<u8>>>>> {
        let reading = Reading::new(self, wanted, interrupt);
        if reading.most_sessions() > 1 {
            self.read_by_many(&reading)?;
        }
        // All of it, or what the last session left when it was lost.
        reading.work()?;
        Ok(reading.into_content())
    }

    fn read_by_many(&self, reading: &Reading<'_>) -> Result<()> {
        let rule = build("auto", &OptimizerOptions::default());
        let mut rule = rule.map_err(|error| Error::new(ErrorKind::Usage, error.to_string()))?;
        let held = Some(self.sessions.load(Relaxed)).filter(|&held| held > 0);
        let start = held.map(|network| PerStage { network, ..PerStage::all(1) });
        thread::scope(|scope| {
            let mut reads = Paced::new(ReadRun::new(reading, scope), Pace::new(EPOCH));
            run(&mut reads, rule.as_mut(), start, |seen, next| {
                // A small read does not show how many a large one can use.
                if seen.is_some() && reading.most_sessions() == self.most {
                    self.sessions.store(next.setpoint.network, Relaxed);
                }
            })
        })
    }
}

impl Drop for FileClient {
    fn drop(&mut self) {
        self.idle.clear();
    }
}
