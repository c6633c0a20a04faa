//! How files of a [`Pair`](super::Pair) get their names: in groups, once leave was given where that is needed.

use std::collections::VecDeque;
use std::sync::Arc;

use super::{End, Event, Pair};
use crate::catalogue::Verified;
use crate::error::{Error, ErrorKind, Result};
use crate::logic::receiver::ReceiverEvent;
use crate::manifest::FileId;
use crate::offer::Outcome;
use crate::pipeline::incoming::Incoming;
use crate::store::memory::NullSink;
use crate::terms::Verify;
use crate::wire::message::Message;

/// Most files that get their names together.
const GROUP: usize = 256;

/// A file whose blocks are taken in.
#[derive(Clone)]
pub(super) struct BegunFile {
    pub file: Arc<Incoming>,
    /// Whether its unfinished file is made anew when it is opened.
    pub anew: bool,
}

tidegate_contract::opaque!(BegunFile);

/// What is whole, and how far those are that get their names now.
#[derive(Debug, Default)]
pub(super) struct Committing {
    whole: VecDeque<FileId>,
    /// Whether somebody is at it.
    is_busy: bool,
    group: Vec<FileId>,
    named: Vec<FileId>,
    outcomes: Vec<(FileId, Outcome)>,
    asked: u32,
}

/// What is done next with a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommitStep {
    /// They are made durable, and noted down as complete.
    Ready,
    /// They get their names.
    Name,
    /// What they hash to is remembered, and the sender told.
    Tell,
}

impl Pair {
    pub(super) fn hand_in(&mut self, id: FileId) {
        if !self.receiver.files.contains_key(&id) {
            return;
        }
        self.receiver.committing.whole.push_back(id);
        if !self.receiver.committing.is_busy {
            self.receiver.committing.is_busy = true;
            self.commit_next(CommitStep::Ready);
        }
    }

    fn commit_next(&mut self, step: CommitStep) {
        let delay = self.delay();
        self.after(delay, Event::Commit(step));
    }

    pub(super) fn commit(&mut self, step: CommitStep) {
        match step {
            CommitStep::Ready => {
                self.make_ready();
                if self.settings.leave.is_some() {
                    // Goes on when that is answered.
                    self.receiver.committing.asked += 1;
                    self.say_to_sender(Message::AskPermit(self.receiver.committing.asked));
                } else {
                    self.commit_next(CommitStep::Name);
                }
            }
            CommitStep::Name => {
                self.give_names();
                self.commit_next(CommitStep::Tell);
            }
            CommitStep::Tell => self.tell_committed(),
        }
    }

    /// The sender says whether files may get their names.
    pub(super) fn permitted(&mut self, number: u32, leave: Result<u32>) {
        let asked = self.receiver.committing.asked;
        assert_eq!(number, asked, "leave that was not asked for");
        match leave {
            Ok(_) => self.commit_next(CommitStep::Name),
            Err(error) => self.end_of(End::Receiver, Err(error)),
        }
    }

    fn make_ready(&mut self) {
        let most = self.receiver.committing.whole.len().min(GROUP);
        let ids: Vec<FileId> = self.receiver.committing.whole.drain(..most).collect();
        for id in ids {
            self.open_part(id);
            let Some(begun) = self.receiver.files.get(&id).filter(|begun| !begun.file.has_ended()) else {
                continue;
            };
            assert!(begun.file.is_complete(), "{} is handed in, and is not whole", begun.file.entry.path);
            let _ = begun.file.part(&NullSink, None);
            let root = begun.file.root();
            let segments = begun.file.take_fresh().map(|(_, segments)| segments).unwrap_or_default();
            self.disk.note(&begun.file.entry, segments, Some(root));
            self.receiver.committing.group.push(id);
        }
    }

    fn give_names(&mut self) {
        let only_new = self.settings.taking.ignore_existing;
        for id in std::mem::take(&mut self.receiver.committing.group) {
            let Some(begun) = self.receiver.files.get(&id) else { continue };
            let entry = Arc::clone(&begun.file.entry);
            let listed = self.source.content_of(&entry);
            if self.settings.verify == Verify::Blake3 {
                assert_eq!(begun.file.root(), listed.root(), "{} is what was verified", entry.path);
            }
            match self.disk.publish(&entry, listed, only_new) {
                Ok(()) => {
                    self.watch.published += 1;
                    self.receiver.committing.named.push(id);
                }
                Err(error) => {
                    if error.kind != ErrorKind::NoSpace {
                        self.disk.discard(&entry);
                    }
                    self.receiver.committing.outcomes.push((id, Outcome::Failed(error)));
                }
            }
        }
    }

    fn tell_committed(&mut self) {
        let mut outcomes = std::mem::take(&mut self.receiver.committing.outcomes);
        for id in std::mem::take(&mut self.receiver.committing.named) {
            outcomes.push((id, Outcome::Committed));
            let Some(begun) = self.receiver.files.get(&id) else { continue };
            let entry = &begun.file.entry;
            let verified = Verified { size: entry.size(), mtime: entry.mtime, root: begun.file.root() };
            self.disk.catalogue.insert(super::tree::path_of(entry).to_owned(), verified);
        }
        if !outcomes.is_empty() {
            self.tell_receiver(ReceiverEvent::Ended(outcomes));
        }
        match self.receiver.committing.whole.is_empty() {
            true => self.receiver.committing.is_busy = false,
            false => self.commit_next(CommitStep::Ready),
        }
    }

    /// What was handed in when all stops still ends, unless leave is needed.
    pub(super) fn commit_the_rest(&mut self) {
        if self.settings.leave.is_none() {
            self.give_names();
            self.make_ready();
            self.give_names();
            self.tell_committed();
        }
        self.record();
    }

    /// What the sender answers to a question for leave.
    pub(super) fn answer_permit(&mut self, number: u32) {
        let refused = || Error::new(ErrorKind::Denied, "somebody else has taken the work over");
        let leave = match self.settings.leave {
            Some(true) => Ok(10_000),
            Some(false) => Err(refused()),
            None => panic!("leave is asked for where none is needed"),
        };
        self.say_to_receiver(Message::Permitted(number, leave));
    }
}
