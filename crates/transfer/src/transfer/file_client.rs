//! Asks an endpoint about files: over one session, or over several at once where much is read. Sessions are kept for what
//! is asked next, and opened again where an endpoint has closed them.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::hash::Digest;
use crate::manifest::Fingerprint;
use crate::path::RelPath;
use crate::quota::{Quota, Share, remember};
use crate::spec::TransferId;
use crate::sys::sync::Mutex;
use crate::sys::thread;
use crate::transfer::Interrupt;
use crate::transfer::link::{Link, check_ticket};
use crate::wire::files::{
    Content, FileKind, FileRange, FileReply, FileRequest, FileStatus, ListedFile, MAX_CONTENT, MAX_RANGES,
};
use crate::wire::message::{Message, Request};
use crate::wire::ticket::Address;
use crate::wire::tls::Identity;
use crate::wire::way::{Carriers, Way};

/// So much of one file is asked for by one request, in one range or in many.
const PORTION: usize = MAX_CONTENT / 2;

/// Portions that are asked of one session ahead of their answers: 8 MiB, what 1 Gbit/s has under way at 60 ms.
const AHEAD: usize = 16;

/// Changes that are asked for ahead of their answers.
const CHANGES_AHEAD: usize = 64;

/// One session for so many portions, as far as there may be more.
const PORTIONS_A_SESSION: usize = 4;

/// How often it is looked whether anybody still wants an answer.
const GLANCE: Duration = Duration::from_millis(50);

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
    most: usize,
    /// What listings may take in memory.
    metadata: Arc<Quota>,
    idle: Mutex<Vec<FileSession>>,
}

impl FileClient {
    /// Opens a first session with the endpoint at `address`. No more than `most` will read at once.
    ///
    /// # Errors
    /// It is not reached, does not let us in, or is too old to be asked about files.
    pub fn connect(
        address: &Address,
        carriers: &Carriers,
        pki: Option<Arc<Identity>>,
        most: usize,
    ) -> Result<Self> {
        // First: what looks like a host may be a ticket that was torn, and is not to be asked for or shown.
        check_ticket(address, pki.as_ref())?;
        let client = Self {
            address: address.clone(),
            way: carriers.way(address)?,
            pki,
            most: most.max(1),
            metadata: Share::own().metadata,
            idle: Mutex::default(),
        };
        let first = client.open()?;
        client.give_back(first);
        Ok(client)
    }

    fn open(&self) -> Result<FileSession> {
        let link = Link::open_at(&self.address, &self.way, self.pki.as_ref(), &self.metadata)?;
        link.needs_files()?;
        link.request(Request::Files)?;
        link.accepted()?;
        Ok(FileSession { link, place: self.address.place(), next: 0 })
    }

    /// A session that nobody uses: whether it was used before, and it.
    fn take(&self) -> Result<(bool, FileSession)> {
        let mut idle = self.idle.lock().expect("not poisoned");
        while let Some(session) = idle.pop() {
            if !session.link.outbox.is_lost() {
                return Ok((true, session));
            }
        }
        drop(idle);
        Ok((false, self.open()?))
    }

    fn give_back(&self, session: FileSession) {
        self.idle.lock().expect("not poisoned").push(session);
    }

    /// Has `asked` use a session; once more with another where a lost one may have been closed while nobody used it.
    fn with_session<T>(&self, mut asked: impl FnMut(&mut FileSession) -> Result<T>) -> Result<T> {
        loop {
            let (was_used, mut session) = self.take()?;
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
        match self.with_session(asked)? {
            FileReply::Failed(error) => Err(error),
            reply => Ok(reply),
        }
    }

    /// What lies in the directory `path`, sorted, and in its directories if `recursive`.
    pub fn list(&self, path: &[u8], recursive: bool, interrupt: &Interrupt) -> Result<Listing> {
        let (itself, told) = self.with_session(|session| {
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
        let (_, mut session) = self.take()?;
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

    /// Writes a small file, of at most [`MAX_CONTENT`] bytes.
    pub fn write(&self, path: &[u8], content: Vec<u8>, interrupt: &Interrupt) -> Result<()> {
        let change = FileRequest::Write { path: path.to_vec(), content: Content(content) };
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

    /// Reads all that is wanted, over as many sessions as that is worth; each in the pieces that it came in.
    pub fn read(&self, wanted: &[WantedRange], interrupt: &Interrupt) -> Result<Vec<Result<Vec<Vec<u8>>>>> {
        let (portions, pieces) = portions(wanted);
        let reading = Reading {
            client: self,
            wanted,
            interrupt,
            waiting: Mutex::new((0..portions.len()).collect()),
            portions,
            got: Mutex::new(pieces.iter().map(|&count| Ok(vec![Vec::new(); count])).collect()),
        };
        let sessions = reading.portions.len().div_ceil(PORTIONS_A_SESSION).clamp(1, self.most);
        let others = thread::scope(|scope| {
            let others: Vec<_> = (1..sessions).map(|_| scope.spawn(|| reading.work())).collect();
            let first = reading.work();
            let others = others.into_iter().map(|other| other.join().expect("no panic"));
            first.and(others.filter(|ended| !is_refusal_of_more(ended)).collect())
        });
        // What one has left, another may have taken up; whoever had none to take it up ended with the reason.
        others.and_then(|()| match reading.waiting.lock().expect("not poisoned").is_empty() {
            true => Ok(()),
            false => reading.work(),
        })?;
        Ok(reading
            .got
            .into_inner()
            .expect("not poisoned")
            .into_iter()
            .map(|got| got.and_then(whole))
            .collect())
    }
}

/// Whether a further session was not to be had, or lost: the others go on with what is left.
fn is_refusal_of_more(ended: &Result<()>) -> bool {
    ended.as_ref().is_err_and(|error| matches!(error.kind, ErrorKind::Connection | ErrorKind::Busy))
}

/// Pieces of one range, all but the last of which are as long as can be. A file that ends within it ends it.
fn whole(pieces: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>> {
    let ends = pieces.iter().position(|piece| piece.len() < PORTION).unwrap_or(pieces.len());
    match pieces.iter().skip(ends + 1).all(Vec::is_empty) {
        true => Ok(pieces),
        false => Err(Error::new(ErrorKind::Changed, "the file grew while it was read: read it again")),
    }
}

/// What one request asks for: ranges of one file, each with whose piece it is.
#[derive(Debug, Default)]
struct Portion {
    /// The one that says which file.
    first: usize,
    ranges: Vec<FileRange>,
    pieces: Vec<(usize, usize)>,
}

/// Cuts what is wanted into portions; tells into how many pieces each was cut.
fn portions(wanted: &[WantedRange]) -> (Vec<Portion>, Vec<usize>) {
    let mut portions: Vec<Portion> = Vec::new();
    let (mut pieces, mut filled) = (Vec::new(), usize::MAX);
    for (index, one) in wanted.iter().enumerate() {
        let (mut offset, mut count) = (one.range.start, 0);
        while offset < one.range.end {
            let length = (one.range.end - offset).min(PORTION as u64) as usize;
            let same = portions.last().is_some_and(|portion| {
                let first = &wanted[portion.first];
                (&first.path, first.version) == (&one.path, one.version)
            });
            let full = portions.last().is_some_and(|portion| portion.ranges.len() == MAX_RANGES);
            if !same || full || filled.saturating_add(length) > PORTION {
                portions.push(Portion { first: index, ..Portion::default() });
                filled = 0;
            }
            let portion = portions.last_mut().expect("there is one");
            portion.ranges.push(FileRange { offset, length: length as u32 });
            portion.pieces.push((index, count));
            filled += length;
            offset += length as u64;
            count += 1;
        }
        pieces.push(count);
    }
    (portions, pieces)
}

/// A read that several sessions share.
struct Reading<'a> {
    client: &'a FileClient,
    wanted: &'a [WantedRange],
    interrupt: &'a Interrupt,
    portions: Vec<Portion>,
    /// Portions that nobody has asked for.
    waiting: Mutex<VecDeque<usize>>,
    /// The pieces of each that is wanted, or why it cannot be had.
    got: Mutex<Vec<Result<Vec<Vec<u8>>>>>,
}

impl Reading<'_> {
    /// Asks for what waits, over a session of its own, until nothing does.
    fn work(&self) -> Result<()> {
        loop {
            let Some(first) = self.next() else { return Ok(()) };
            let mut asked = VecDeque::from([first]);
            let taken = self.client.take();
            let was_used = taken.as_ref().is_ok_and(|(was_used, _)| *was_used);
            let read = taken.and_then(|(_, mut session)| {
                self.read(&mut session, &mut asked)?;
                self.client.give_back(session);
                Ok(())
            });
            let Err(error) = read else { continue };
            // For another session to ask for.
            let mut waiting = self.waiting.lock().expect("not poisoned");
            asked.into_iter().rev().for_each(|portion| waiting.push_front(portion));
            if error.kind != ErrorKind::Connection || !was_used {
                return Err(error);
            }
        }
    }

    fn next(&self) -> Option<usize> {
        self.waiting.lock().expect("not poisoned").pop_front()
    }

    /// Reads what was `asked` for and what waits; what is left of the former was not answered.
    fn read(&self, session: &mut FileSession, asked: &mut VecDeque<usize>) -> Result<()> {
        let mut numbers: VecDeque<u32> = asked.iter().map(|&portion| self.ask(session, portion)).collect();
        loop {
            while asked.len() < AHEAD
                && let Some(portion) = self.next()
            {
                asked.push_back(portion);
                numbers.push_back(self.ask(session, portion));
            }
            let (Some(&portion), Some(number)) = (asked.front(), numbers.pop_front()) else { return Ok(()) };
            self.take_in(session, number, &self.portions[portion])?;
            asked.pop_front();
        }
    }

    fn ask(&self, session: &mut FileSession, portion: usize) -> u32 {
        let Portion { first, ranges, .. } = &self.portions[portion];
        let WantedRange { path, version, .. } = &self.wanted[*first];
        session.ask(FileRequest::Read { path: path.clone(), version: *version, ranges: ranges.clone() })
    }

    fn take_in(&self, session: &FileSession, number: u32, portion: &Portion) -> Result<()> {
        for (at, range) in portion.ranges.iter().enumerate() {
            match session.reply(number, self.interrupt)? {
                FileReply::Data(Content(content)) if content.len() <= range.length as usize => {
                    let (index, piece) = portion.pieces[at];
                    if let Ok(pieces) = &mut self.got.lock().expect("not poisoned")[index] {
                        pieces[piece] = content;
                    }
                }
                // Of those that are told already too: a file that fails is not read in part.
                FileReply::Failed(error) => {
                    let mut got = self.got.lock().expect("not poisoned");
                    for &(index, _) in &portion.pieces[at..] {
                        got[index] = Err(error.clone());
                    }
                    return Ok(());
                }
                _ => return Err(unasked()),
            }
        }
        Ok(())
    }
}
