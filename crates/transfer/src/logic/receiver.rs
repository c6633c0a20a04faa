//! What the receiving end decides: what it takes of what is offered, what becomes of each entry, and when all of it has
//! ended.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use crate::catalogue::Verified;
use crate::counters::NotKept;
use crate::error::{Error, Result};
use crate::hash::Digest;
use crate::hashed::ByNumber;
use crate::journal::Left;
use crate::logic::count::Count;
use crate::logic::deciding::Policy;
use crate::manifest::{Entry, FileId, Kind, Timestamp};
use crate::mirror::Deleted;
use crate::offer::{DirectoryNames, LeftOut, OFFER_ENTRIES, Outcome, Verdict, WINDOW};
use crate::plan::Planned;
use crate::quota::{Held, Quota, remember};
use crate::store::{Standing, There};
use crate::wire::message::Message;

mod answering;
mod comparing;
mod ending;
mod looking;
mod offers;
mod planning;

pub(crate) use offers::OfferRules;

use answering::Answers;
use ending::Ending;

/// Most entries that have not ended: as many as may be offered at once, and as many whose comparison the sender has
/// answered, which it counts no more.
const MAX_OPEN: usize = 2 * (WINDOW + OFFER_ENTRIES);

/// What a receiver's logic is told to begin with.
#[derive(Debug)]
pub(crate) struct ReceiverTerms {
    /// By what it decides on each entry.
    pub policy: Policy,
    /// What may be offered.
    pub offers: OfferRules,
    /// Whether the sender removes what is durable here, and is told of files that were here.
    pub moving: bool,
    /// Whether something is removed once everything is there.
    pub mirrors: bool,
    /// Memory that entries may take until they have ended.
    pub metadata: Arc<Quota>,
}

/// What has happened at the receiving end.
#[derive(Debug)]
pub(crate) enum ReceiverEvent {
    /// Entries were looked at, in order. The rest were not: first it is to be said which entries are open.
    Looked {
        /// The number of the first one.
        first: FileId,
        /// What there is of each; nothing of what the destination was told to leave as it is.
        looked: Vec<Result<Option<Findings>>>,
        /// Those behind them, if names of earlier ones had to be forgotten.
        rest: Vec<Arc<Entry>>,
    },
    /// What files that are there hash to.
    Digested(Vec<(FileId, Result<Digest>)>),
    /// Files that are there got their mode and time, or were found to be touched.
    Settled(Vec<(FileId, Result<SettlementOutcome>)>),
    /// These segments of an unfinished file are there.
    Found(FileId, Vec<(u64, Digest)>),
    /// An unfinished file was read again: all segments that are there.
    ReadAgain(FileId, HashMap<u64, Digest>),
    /// Blocks of files can be taken in from now on, or why not: of all, or of those before one that has to wait.
    Begun(Vec<(FileId, Result<Begun>)>),
    /// The same of a part of a file that others move, too.
    Shared(FileId, Result<Begun>),
    /// A file could not be written.
    Failed(FileId, Error),
    /// Whole files have their names, or why not.
    Ended(Vec<(FileId, Outcome)>),
    /// These would be removed, where that is only to be said.
    WouldRemove(Vec<Planned>),
    /// Names of the source were compared.
    NamesCompared(Result<()>),
    /// What had to be removed was, or why not; nothing where that had failed before.
    Deleted(Option<Deleted>),
    /// Everything is durable, but for what the file system refuses to keep.
    Concluded(Result<NotKept>),
}

impl ReceiverEvent {
    /// Why entries could not be received.
    pub fn failures(&self) -> Vec<&Error> {
        match self {
            Self::Looked { looked, .. } => looked.iter().filter_map(|looked| looked.as_ref().err()).collect(),
            Self::Digested(files) => files.iter().filter_map(|(_, digest)| digest.as_ref().err()).collect(),
            Self::Settled(files) => files.iter().filter_map(|(_, settled)| settled.as_ref().err()).collect(),
            Self::Begun(files) => files.iter().filter_map(|(_, begun)| begun.as_ref().err()).collect(),
            Self::Shared(_, begun) => begun.as_ref().err().into_iter().collect(),
            _ => Vec::new(),
        }
    }
}

/// What was found where an entry belongs.
#[derive(Debug)]
pub(crate) struct Findings {
    /// What bears its name.
    pub standing: Standing,
    /// What was verified of that before, whoever has touched it since.
    pub known: Option<Verified>,
    /// What an earlier run left of it.
    pub left: Option<Box<Left>>,
    /// Whether that run's unfinished file is there.
    pub has_part: bool,
    /// Whether other transfers move parts of it.
    pub is_split: bool,
    /// What bears its name, where it is only to be said what would be done.
    pub there: Option<Box<There>>,
    /// Whether a file can get its name.
    pub takes: Result<()>,
}

/// What is to be done with a file that is there.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Settlement {
    /// Only if nobody has touched it since it got this time.
    pub untouched_since: Option<Timestamp>,
    /// It gets the entry's mode and time.
    pub refreshes: bool,
    /// It may as well keep those that it has.
    pub may_keep_its_own: bool,
    /// What it hashes to, to be remembered.
    pub root: Option<Digest>,
    /// It is made durable.
    pub is_synced: bool,
}

/// What came of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SettlementOutcome {
    /// It was done.
    Done,
    /// Somebody has touched it.
    Touched,
}

/// A file whose blocks are to be taken in.
#[derive(Debug)]
pub(crate) struct Beginning {
    /// Its number.
    pub id: FileId,
    /// What it is.
    pub entry: Arc<Entry>,
    /// Whether what was left of it is of no use, and must not be taken for what comes.
    pub anew: bool,
    /// Segments that are there from an earlier run, where its unfinished file is continued.
    pub there: Option<HashMap<u64, Digest>>,
}

/// A file whose blocks can be taken in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Begun {
    /// Bytes of it that are there.
    pub kept: u64,
    /// Whether nothing is missing.
    pub is_complete: bool,
    /// What is to be sent of it, if others move the rest.
    pub missing: Option<Vec<Range<u64>>>,
}

/// What the receiving end is to do.
#[derive(Debug)]
pub(crate) enum ReceiverAction {
    /// Tell the sender.
    Say(Message),
    /// Count.
    Count(Count),
    /// Look at what there is of entries: [`ReceiverEvent::Looked`].
    Look {
        /// The number of the first one.
        first: FileId,
        /// In the order of the offers.
        entries: Vec<Arc<Entry>>,
        /// All that are open, if they were asked for.
        open: Option<Vec<Arc<Entry>>>,
    },
    /// Read files that are there: [`ReceiverEvent::Digested`].
    Digest(Vec<(FileId, Arc<Entry>)>),
    /// See to files that are there: [`ReceiverEvent::Settled`].
    Settle(Vec<(FileId, Arc<Entry>, Settlement)>),
    /// Read again what is left of an unfinished file: [`ReceiverEvent::Found`], [`ReceiverEvent::ReadAgain`].
    ReadAgain(FileId, Arc<Entry>, HashMap<u64, Digest>),
    /// Take in a part of a file that others move, too: [`ReceiverEvent::Shared`].
    Share(FileId, Arc<Entry>),
    /// Take in blocks of these: [`ReceiverEvent::Begun`].
    Begin(Vec<Beginning>),
    /// Hold what comes of files against what the sender says that segments hash to.
    Vouch(Vec<(FileId, u64, Digest)>),
    /// A file is whole: it is to get its name.
    HandIn(FileId),
    /// Take in nothing more of a file.
    End(FileId),
    /// Remove its unfinished file.
    Discard(Arc<Entry>),
    /// The sender answers whether files may get their names.
    Permit(u32, Result<u32>),
    /// Look after streams of which the sender has heard nothing for so many ms.
    LookAfter(Vec<u32>, u32),
    /// Warn of what is left out at the source.
    Warn(Vec<u8>, LeftOut),
    /// Compare names of the source with those here: [`ReceiverEvent::NamesCompared`].
    CompareNames(Vec<DirectoryNames>),
    /// Remove what the source does not have: [`ReceiverEvent::Deleted`].
    Delete,
    /// Make everything durable: [`ReceiverEvent::Concluded`].
    Conclude,
    /// Nothing can go on, and the sender is told why.
    Break(Error),
}

/// How far an entry is.
#[derive(Debug)]
enum Stage {
    /// It is being looked at.
    Looking,
    /// The file that is there is being read.
    Digesting(Option<Box<There>>),
    /// The sender reads its own, to compare.
    Compared(Comparison),
    /// The file that is there gets its mode and time.
    Settling(comparing::Because),
    /// What is left of it is being read again.
    Continuing,
    /// It is about to be taken in.
    Beginning,
    /// Blocks come, so many bytes less than its size.
    Moving(u64),
    /// It was decided what would become of it, and the sender does not know yet.
    Untold,
}

/// A file that is there, and that the sender reads for its hash.
#[derive(Debug, Default)]
struct Comparison {
    /// What was verified there, if the sender was not told: its hash, and the time it has had since.
    recorded: Option<(Digest, Timestamp)>,
    /// What is there, where it is only to be said what would be done.
    there: Option<Box<There>>,
}

/// An entry that has not ended.
#[derive(Debug)]
struct Open {
    entry: Arc<Entry>,
    stage: Stage,
    /// What it takes in memory, while something else is waited for than its blocks.
    held: Option<Held>,
}

impl Stage {
    /// Whether the next thing that happens to it happens here, and the sender cannot know of it.
    const fn is_here(&self) -> bool {
        matches!(self, Self::Looking | Self::Digesting(_) | Self::Settling(_) | Self::Beginning)
    }
}

/// What the receiving end of one transfer decides.
#[derive(Debug)]
pub(crate) struct ReceiverLogic {
    policy: Policy,
    offers: OfferRules,
    moving: bool,
    mirrors: bool,
    metadata: Arc<Quota>,
    open: HashMap<FileId, Open, ByNumber>,
    /// What offers take in memory that are looked at, by their first number.
    looking: HashMap<FileId, Held, ByNumber>,
    answers: Answers,
    /// Whether files are about to be begun: what is known of others that came with them waits, to be told at once.
    is_beginning: bool,
    /// Files that need no blocks, until the sender knows that they are wanted.
    whole: Vec<FileId>,
    /// How many entries have failed.
    failures: u64,
    ending: Ending,
}

impl ReceiverLogic {
    /// One that has heard nothing.
    pub fn new(terms: ReceiverTerms) -> Self {
        let ReceiverTerms { policy, offers, moving, mirrors, metadata } = terms;
        let answers = Answers::new(policy.plans());
        Self {
            policy,
            offers,
            moving,
            mirrors,
            metadata,
            open: HashMap::default(),
            looking: HashMap::default(),
            answers,
            is_beginning: false,
            whole: Vec::new(),
            failures: 0,
            ending: Ending::default(),
        }
    }

    /// Whether everything is durable and the sender has been told.
    pub fn is_finished(&self) -> bool {
        self.ending == Ending::Finished
    }

    /// Acts on a message of the sender.
    ///
    /// # Errors
    /// The sender said what it may not, or has ended the transfer.
    pub fn hear(&mut self, message: Message, actions: &mut Vec<ReceiverAction>) -> Result<()> {
        match message {
            Message::Offer { first, entries } => self.offered(first, entries, actions)?,
            Message::Replace(files) => self.differ(files, actions),
            Message::Keep(files) => self.told(files, actions),
            Message::Hashes(hashes) => actions.push(ReceiverAction::Vouch(hashes)),
            Message::Abandon(id, error) => self.abandoned(id, error, actions),
            Message::Permitted(number, leave) => actions.push(ReceiverAction::Permit(number, leave)),
            Message::Problem(path, error) => self.fails(path, error, false, actions),
            // Whoever sends unasked warns where it is.
            Message::LeftOut(path, why) if self.offers.were_asked_for() => {
                actions.push(ReceiverAction::Warn(path, why));
            }
            Message::Overdue { streams, for_ms } => {
                actions.push(ReceiverAction::LookAfter(streams, for_ms));
            }
            Message::Listed => {
                self.offers.all_listed();
                actions.push(ReceiverAction::Count(Count::AllListed));
            }
            Message::Finish => self.ending = Ending::Wanted,
            Message::Names(directories) => self.names(directories, actions)?,
            Message::NamesEnd(error) => self.all_names(error, actions)?,
            Message::Refused(error) => {
                actions.push(ReceiverAction::Break(error.clone()));
                return Err(error);
            }
            _ => return Err(Error::protocol("the sender sent what only a receiver says")),
        }
        self.settle_up(actions);
        Ok(())
    }

    /// Acts on what has happened here.
    pub fn happened(&mut self, event: ReceiverEvent, actions: &mut Vec<ReceiverAction>) {
        match event {
            ReceiverEvent::Looked { first, looked, rest } => self.looked(first, looked, rest, actions),
            ReceiverEvent::Digested(files) => {
                files.into_iter().for_each(|(id, digest)| self.digested(id, digest, actions));
            }
            ReceiverEvent::Settled(files) => {
                files.into_iter().for_each(|(id, settled)| self.settled(id, settled, actions));
            }
            ReceiverEvent::Found(id, segments) => self.say(Message::Have(id, segments), actions),
            ReceiverEvent::ReadAgain(id, there) => self.read_again(id, there, actions),
            ReceiverEvent::Begun(files) => {
                // Some of them may wait for others to end, which is to begin.
                self.is_beginning = false;
                files.into_iter().for_each(|(id, begun)| self.begun(id, begun, actions));
            }
            ReceiverEvent::Shared(id, begun) => self.begun(id, begun, actions),
            ReceiverEvent::Failed(id, error) => self.not_written(id, error, actions),
            ReceiverEvent::Ended(outcomes) => self.ended(outcomes, actions),
            ReceiverEvent::WouldRemove(planned) => {
                actions.push(ReceiverAction::Count(Count::Would(planned.clone())));
                self.say(Message::Planned(planned), actions);
            }
            ReceiverEvent::NamesCompared(compared) => self.names_compared(compared, actions),
            ReceiverEvent::Deleted(deleted) => self.deleted(deleted, actions),
            ReceiverEvent::Concluded(concluded) => self.concluded(concluded, actions),
        }
        self.settle_up(actions);
    }

    /// Tells what can be told by now, and goes on with what waited for that.
    fn settle_up(&mut self, actions: &mut Vec<ReceiverAction>) {
        if !self.is_beginning {
            self.answer(actions);
            // The sender is to know of a file before that is done.
            actions.extend(self.whole.drain(..).map(ReceiverAction::HandIn));
        }
        if self.ending == Ending::Wanted && !self.open.values().any(|open| open.stage.is_here()) {
            self.end(actions);
        }
    }

    fn say(&self, message: Message, actions: &mut Vec<ReceiverAction>) {
        actions.push(ReceiverAction::Say(message));
    }

    fn fails(&mut self, path: Vec<u8>, error: Error, was_listed: bool, actions: &mut Vec<ReceiverAction>) {
        self.failures += 1;
        actions.push(ReceiverAction::Count(Count::Failed { path, error, was_listed }));
    }

    /// An entry is offered.
    fn offered(
        &mut self,
        first: FileId,
        entries: Vec<Entry>,
        actions: &mut Vec<ReceiverAction>,
    ) -> Result<()> {
        self.offers.check(first, &entries)?;
        if self.open.len() + entries.len() > MAX_OPEN {
            let why = format!("more than {WINDOW} entries are offered and have not ended");
            return Err(Error::protocol(why));
        }
        let held = remember(&self.metadata, entries.iter().map(Entry::memory).sum())?;
        self.looking.insert(first, held);
        let entries: Vec<_> = entries.into_iter().map(Arc::new).collect();
        for (id, entry) in (first..).zip(&entries) {
            let entry = Arc::clone(entry);
            self.open.insert(id, Open { entry, stage: Stage::Looking, held: None });
        }
        actions.push(ReceiverAction::Look { first, entries, open: None });
        Ok(())
    }

    /// The sender gives a file up.
    fn abandoned(&mut self, id: FileId, error: Error, actions: &mut Vec<ReceiverAction>) {
        let Some(open) = self.open.get_mut(&id) else { return };
        let path = open.entry.path.as_bytes().to_vec();
        match open.stage {
            Stage::Compared(_) if self.policy.plans() => {
                self.answers.last(id, Verdict::Failed(error.clone()), None);
                open.stage = Stage::Untold;
            }
            Stage::Compared(_) => drop(self.open.remove(&id)),
            Stage::Continuing | Stage::Beginning | Stage::Moving(_) => {
                actions.push(ReceiverAction::End(id));
                actions.push(ReceiverAction::Discard(Arc::clone(&open.entry)));
                self.open.remove(&id);
            }
            _ => return,
        }
        self.fails(path, error, true, actions);
    }

    /// Blocks of a file can be taken in, or cannot.
    fn begun(&mut self, id: FileId, begun: Result<Begun>, actions: &mut Vec<ReceiverAction>) {
        // The sender may have given it up meanwhile.
        let Some(open) = self.open.get_mut(&id) else {
            actions.push(ReceiverAction::End(id));
            return;
        };
        match begun {
            Ok(Begun { kept, is_complete, missing }) => {
                (open.stage, open.held) = (Stage::Moving(kept), None);
                let wanted = missing.map_or_else(|| Verdict::Want { have: Vec::new() }, Verdict::WantRanges);
                self.answers.now(id, wanted);
                if is_complete {
                    self.whole.push(id);
                }
            }
            Err(error) => self.refuse(id, error, actions),
        }
    }

    /// All of an unfinished file was read again.
    fn read_again(&mut self, id: FileId, there: HashMap<u64, Digest>, actions: &mut Vec<ReceiverAction>) {
        // Where nothing of it is of use it gets a new unfinished file, which must not be taken for this one.
        let there = Some(there).filter(|there| !there.is_empty());
        let anew = there.is_none();
        let mut wanted = Vec::new();
        self.go_to(id, Stage::Beginning, |id, entry| {
            wanted.push(Beginning { id, entry, anew, there });
        });
        self.begin(wanted, actions);
    }

    /// Files are to be taken in.
    fn begin(&mut self, files: Vec<Beginning>, actions: &mut Vec<ReceiverAction>) {
        if !files.is_empty() {
            self.is_beginning = true;
            actions.push(ReceiverAction::Begin(files));
        }
    }

    /// An entry cannot be received: its last word.
    fn refuse(&mut self, id: FileId, error: Error, actions: &mut Vec<ReceiverAction>) {
        let Some(open) = self.open.get(&id) else { return };
        let is_file = matches!(open.entry.kind, Kind::File { .. });
        let path = open.entry.path.as_bytes().to_vec();
        self.conclude_entry(id, Verdict::Failed(error.clone()), None);
        self.fails(path, error, is_file, actions);
    }

    /// The last verdict on an entry.
    fn conclude_entry(&mut self, id: FileId, verdict: Verdict, planned: Option<Planned>) {
        self.answers.last(id, verdict, planned);
        if self.policy.plans() {
            // It counts until the sender knows.
            if let Some(open) = self.open.get_mut(&id) {
                open.stage = Stage::Untold;
            }
        } else {
            self.open.remove(&id);
        }
    }

    /// A file could not be written.
    fn not_written(&mut self, id: FileId, error: Error, actions: &mut Vec<ReceiverAction>) {
        let Some(Open { entry, .. }) = self.open.remove(&id) else { return };
        actions.push(ReceiverAction::End(id));
        actions.push(ReceiverAction::Discard(Arc::clone(&entry)));
        self.fails(entry.path.as_bytes().to_vec(), error.clone(), true, actions);
        self.say(Message::Done(vec![(id, Outcome::Failed(error))]), actions);
    }

    /// Files that were handed in have ended.
    fn ended(&mut self, outcomes: Vec<(FileId, Outcome)>, actions: &mut Vec<ReceiverAction>) {
        for (id, outcome) in &outcomes {
            let Some(Open { entry, stage, .. }) = self.open.remove(id) else { continue };
            actions.push(ReceiverAction::End(*id));
            let kept = if let Stage::Moving(kept) = stage { kept } else { 0 };
            match outcome {
                Outcome::Committed => {
                    actions.push(ReceiverAction::Count(Count::Done(entry.size().saturating_sub(kept))));
                }
                Outcome::Failed(error) => {
                    self.fails(entry.path.as_bytes().to_vec(), error.clone(), true, actions);
                }
            }
        }
        self.say(Message::Done(outcomes), actions);
    }
}
