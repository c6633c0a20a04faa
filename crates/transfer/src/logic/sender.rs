//! What a sender decides: how much is offered at a time, what of a file is sent, when it has ended, and when all has.
//!
//! ```text
//! Offered ─┬─ Want ─────────────────► Wanted ─ Done ─┬─────────────────────► ended
//!          ├─ Exists, Tell ► Compared ─ Hashed ► Told ┤  moved: Removing ─┘
//!          └─ Skip, Made, Leave, Failed, Would ───────┴──────────────────► ended
//! ```

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::hash::Digest;
use crate::hashed::ByNumber;
use crate::logic::count::{Count, Files};
use crate::manifest::{FileId, Kind};
use crate::offer::{DirectoryNames, LeftOut, OFFER_BYTES, OFFER_ENTRIES, Outcome, WINDOW, WINDOW_BYTES};
use crate::plan::Planned;
use crate::store::Listed;
use crate::terms::Purpose;
use crate::wire::message::Message;

mod deciding;
mod ending;
#[cfg(test)]
mod tests;

/// Most messages of names that a receiver may want at a time.
const MAX_WANTED: u32 = 64;

/// What is agreed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SenderTerms {
    /// What it is all for.
    pub purpose: Purpose,
    /// Whether files are removed at their source once the receiver has them.
    pub moves: bool,
    /// Whether the receiver asked for the source, and is told what is left out of it.
    pub tells_left_out: bool,
}

/// What has happened at a sender.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SenderEvent {
    /// The source holds these. They, problems and what is left out are listed at most one event for each
    /// [`List`](SenderAction::List), and the first without one.
    Listed(Vec<Listed>),
    /// Something of it could not be listed.
    Problem(Vec<u8>, Error),
    /// Something of it is left out, and whoever is here was told.
    LeftOut(Vec<u8>, LeftOut),
    /// It holds nothing else.
    AllListed,
    /// What a file was to be [`Hash`](SenderAction::Hash)ed to.
    Hashed(FileId, Result<Digest>),
    /// A file cannot be read, or arrived damaged again and again.
    GivenUp(FileId, Error),
    /// What came of [`Remove`](SenderAction::Remove).
    Removed(FileId, Result<()>),
    /// Whoever listens was told of these: what [`Tell`](SenderAction::Tell) had.
    Told {
        /// How many they are.
        entries: usize,
        /// As [`Tell`](SenderAction::Tell) says.
        bytes: usize,
    },
    /// What directories hold: one for each [`ReadNames`](SenderAction::ReadNames).
    Names(Vec<DirectoryNames>),
    /// These were all, or why they cannot be read.
    NamesEnd(Option<Error>),
}

/// What a sender is to do.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SenderAction {
    /// Say this to the receiver.
    Say(Message),
    /// Count this.
    Count(Count),
    /// Have the lister tell of more, once.
    List,
    /// Something of this file is to be read: the actions below may name it until it ends.
    Open(FileId, Arc<Listed>),
    /// The receiver has segments of a file from an earlier run, which have these hashes.
    Have(FileId, Vec<(u64, Digest)>),
    /// Read and send these ranges of a file; the rest is there.
    Send(FileId, Vec<Range<u64>>),
    /// Send this range again: the receiver asks for it.
    Resend(FileId, Range<u64>),
    /// Read the file aside for its root hash, which comes as [`Hashed`](SenderEvent::Hashed).
    Hash(FileId),
    /// The file has ended: nothing more of it is read or sent.
    End(FileId),
    /// It has ended, and is to be removed at its source; [`Removed`](SenderEvent::Removed) says what came of it.
    Remove(FileId),
    /// The receiver has taken so many frames of these streams.
    Confirm(Vec<(u32, u64)>),
    /// It has lost this stream.
    Lose(u32),
    /// Tell whoever listens what would be done, in this order, and then [`Told`](SenderEvent::Told).
    Tell {
        /// That.
        planned: Vec<Planned>,
        /// Bytes that count as memory of the window until then.
        bytes: usize,
    },
    /// Read the names that the source's directories hold, one message full; the first begins with the first directory.
    ReadNames,
}

/// What a sender knows, and decides by.
#[derive(Debug)]
pub(crate) struct SenderLogic {
    terms: SenderTerms,
    /// The number of the next entry.
    next: FileId,
    /// Entries that were offered and have not ended.
    open: HashMap<FileId, Open, ByNumber>,
    /// Files that the receiver has, until they are gone from the source, and what is counted then.
    removing: HashMap<FileId, (Arc<Listed>, Count)>,
    /// How many were decided of which whoever listens was not told yet.
    untold: usize,
    /// Bytes of memory that all these take.
    bytes: usize,
    /// Whether the lister may not tell of more.
    lister_waits: bool,
    names: Names,
    progress: Progress,
}

/// How far the transfer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Progress {
    Listing,
    /// Everything was offered.
    Listed,
    /// And has ended, which the receiver was told.
    Finished,
    /// And is durable there.
    Confirmed,
}

/// An entry that was offered and has not ended.
#[derive(Debug)]
struct Open {
    listed: Arc<Listed>,
    stage: Stage,
    /// Whether something of it was to be read.
    is_begun: bool,
    /// Segments that the receiver says it has.
    have: BTreeSet<u64>,
    /// Bytes of it that are not to be sent.
    kept: u64,
}

/// What the receiver has said of a file. It says each thing once: what it says is work for us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Nothing yet.
    Offered,
    /// One of the same size is there, with this root hash if it says: ours is read, to compare them.
    Compared(Option<Digest>),
    /// It has heard what came of that.
    Told,
    /// It wants it.
    Wanted,
}

/// Messages of names.
#[derive(Debug, Default)]
struct Names {
    wanted: u32,
    /// Whether one is being read.
    reading: bool,
}

impl Open {
    fn size(&self) -> u64 {
        self.listed.entry.size()
    }

    fn is_file(&self) -> bool {
        matches!(self.listed.entry.kind, Kind::File { .. })
    }
}

impl SenderLogic {
    /// Nothing was listed yet.
    pub fn new(terms: SenderTerms) -> Self {
        Self {
            terms,
            next: 0,
            open: HashMap::default(),
            removing: HashMap::new(),
            untold: 0,
            bytes: 0,
            lister_waits: false,
            names: Names::default(),
            progress: Progress::Listing,
        }
    }

    /// Acts on a message of the receiver.
    ///
    /// # Errors
    /// It may not say so, or ends the transfer.
    pub fn hear(&mut self, message: Message, out: &mut Vec<SenderAction>) -> Result<()> {
        match message {
            Message::Have(id, segments) => self.have(id, segments, out),
            Message::Verdicts { first, verdicts } => self.verdicts(first, verdicts, out)?,
            Message::Taken(counts) => out.push(SenderAction::Confirm(counts)),
            Message::StreamLost(data_stream) => out.push(SenderAction::Lose(data_stream)),
            Message::Again(ranges) => ranges.into_iter().for_each(|again| self.again(again, out)),
            Message::Done(files) => {
                for (id, outcome) in files {
                    match outcome {
                        _ if !self.open.get(&id).is_some_and(Open::is_file) => {}
                        Outcome::Committed => self.committed(id, out),
                        Outcome::Failed(error) => self.failed(id, error, out),
                    }
                }
            }
            Message::WantNames(messages) => {
                if self.progress < Progress::Finished {
                    return Err(Error::protocol("names were asked for before everything was sent"));
                }
                self.names.wanted = self.names.wanted.saturating_add(messages).min(MAX_WANTED);
            }
            Message::Planned(planned) => {
                if self.terms.purpose != Purpose::Plan {
                    return Err(Error::protocol("the receiver said what it would do, and was not asked"));
                }
                self.tell(planned, 0, out);
            }
            Message::Deleted(entries, error) => {
                out.push(SenderAction::Count(Count::Deleted(entries)));
                out.extend(error.map(|error| SenderAction::Count(Count::NotDeleted(error))));
            }
            Message::Finished(not_kept) => {
                if self.progress < Progress::Finished {
                    return Err(Error::protocol("the receiver finished before everything was sent"));
                }
                out.push(SenderAction::Count(Count::NotKept(not_kept)));
                self.progress = Progress::Confirmed;
            }
            Message::Refused(error) => return Err(error),
            _ => return Err(Error::protocol("the receiver sent what only a sender says")),
        }
        self.go_on(out);
        Ok(())
    }

    /// Acts on what has happened here.
    ///
    /// # Errors
    /// The transfer cannot go on.
    pub fn happened(&mut self, event: SenderEvent, out: &mut Vec<SenderAction>) -> Result<()> {
        match event {
            SenderEvent::Listed(entries) => {
                self.lister_waits = true;
                self.offer(entries, out)?;
            }
            SenderEvent::Problem(path, error) => {
                self.lister_waits = true;
                let (problem, was_listed) = (Message::Problem(path.clone(), error.clone()), false);
                out.push(SenderAction::Count(Count::Failed { path, error, was_listed }));
                out.push(SenderAction::Say(problem));
            }
            SenderEvent::LeftOut(path, why) => {
                self.lister_waits = true;
                let told = self.terms.tells_left_out.then_some(Message::LeftOut(path, why));
                out.extend(told.map(SenderAction::Say));
            }
            SenderEvent::AllListed => {
                self.progress = Progress::Listed;
                out.extend([SenderAction::Count(Count::AllListed), SenderAction::Say(Message::Listed)]);
            }
            SenderEvent::Hashed(id, root) => self.hashed(id, root, out),
            SenderEvent::GivenUp(id, error) => self.abandon(id, error, out),
            SenderEvent::Removed(id, removed) => self.removed(id, removed, out),
            SenderEvent::Told { entries, bytes } => {
                self.untold -= entries;
                self.bytes -= bytes;
            }
            SenderEvent::Names(names) => {
                self.names.reading = false;
                out.push(SenderAction::Say(Message::Names(names)));
            }
            SenderEvent::NamesEnd(error) => out.push(SenderAction::Say(Message::NamesEnd(error))),
        }
        self.go_on(out);
        Ok(())
    }

    /// Whether every offered entry has ended, and the receiver was told so.
    pub fn has_finished(&self) -> bool {
        self.progress >= Progress::Finished
    }

    /// Whether the receiver has said that everything is durable.
    pub fn is_confirmed(&self) -> bool {
        self.progress == Progress::Confirmed
    }

    /// Whether that is so, and whoever listens was told of everything.
    pub fn is_over(&self) -> bool {
        self.is_confirmed() && self.untold == 0
    }

    /// How much the receiver has of files that have not ended, from earlier runs.
    pub fn kept(&self) -> impl Iterator<Item = (FileId, u64)> {
        self.open.iter().filter(|(_, open)| open.is_file()).map(|(id, open)| (*id, open.kept))
    }

    /// How many entries have not ended.
    fn len(&self) -> usize {
        self.open.len() + self.removing.len() + self.untold
    }

    /// Whether another offer fits into the window.
    fn has_room(&self) -> bool {
        self.len() + OFFER_ENTRIES <= WINDOW && self.bytes + OFFER_BYTES <= WINDOW_BYTES
    }

    fn offer(&mut self, entries: Vec<Listed>, out: &mut Vec<SenderAction>) -> Result<()> {
        let first = self.next;
        let next = first.checked_add(entries.len() as FileId);
        self.next = next.ok_or_else(|| {
            Error::new(ErrorKind::Usage, "more than 4 billion entries in one transfer: split it")
        })?;
        let mut offered = Vec::with_capacity(entries.len());
        let mut files = Files::default();
        for (id, listed) in (first..).zip(entries) {
            offered.push(listed.entry.clone());
            self.bytes += listed.entry.memory();
            let (listed, have) = (Arc::new(listed), BTreeSet::new());
            let open = Open { listed, stage: Stage::Offered, is_begun: false, have, kept: 0 };
            if open.is_file() {
                files.add(open.size());
            }
            self.open.insert(id, open);
        }
        if files.files > 0 {
            out.push(SenderAction::Count(Count::Listed(files)));
        }
        if !offered.is_empty() {
            out.push(SenderAction::Say(Message::Offer { first, entries: offered }));
        }
        Ok(())
    }

    /// What follows from all that was said and has happened.
    fn go_on(&mut self, out: &mut Vec<SenderAction>) {
        if self.progress == Progress::Listed && self.len() == 0 {
            self.progress = Progress::Finished;
            out.push(SenderAction::Say(Message::Finish));
        }
        if self.lister_waits && self.has_room() {
            self.lister_waits = false;
            out.push(SenderAction::List);
        }
        // As long as whoever listens is behind, no more is asked for.
        if self.names.wanted > 0 && !self.names.reading && self.untold <= WINDOW {
            self.names.wanted -= 1;
            self.names.reading = true;
            out.push(SenderAction::ReadNames);
        }
    }

    fn tell(&mut self, planned: Vec<Planned>, bytes: usize, out: &mut Vec<SenderAction>) {
        if !planned.is_empty() {
            self.untold += planned.len();
            self.bytes += bytes;
            out.push(SenderAction::Tell { planned, bytes });
        }
    }
}
