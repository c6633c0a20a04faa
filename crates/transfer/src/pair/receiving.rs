//! What the receiver of a [`Pair`](super::Pair) does, as its owner would.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::committing::{BegunFile, Committing};
use super::content::ModelContent;
use super::disk::Noted;
use super::mirroring::Mirroring;
use super::streams::{Damage, SentBlock};
use super::tasks::DiskTask;
use super::{End, Event, Pair, PairSettings};
use crate::error::{Error, ErrorKind, Result};
use crate::hash::Digest;
use crate::ledger::Ledger;
use crate::logic::count::Count;
use crate::logic::deciding::Policy;
use crate::logic::receiver::{OfferRules, ReceiverAction, ReceiverEvent, ReceiverLogic, ReceiverTerms};
use crate::manifest::{Entry, FileId};
use crate::offer::{Again, LeftOut};
use crate::pipeline::incoming::{Change, Incoming};
use crate::plan::Planned;
use crate::quota::Quota;
use crate::store::memory::NullSink;
use crate::terms::Terms;
use crate::wire::message::Message;

/// One end.
#[derive(Debug)]
pub(super) struct ReceivingEnd {
    pub logic: ReceiverLogic,
    pub policy: Policy,
    pub ledger: Ledger,
    /// How it has ended.
    pub ended: Option<Result<()>>,
    /// What would be done, as it was counted.
    pub planned: Vec<Planned>,
    pub warned: Vec<(Vec<u8>, LeftOut)>,
    pub files: HashMap<FileId, BegunFile>,
    /// Files with segments that are not noted down.
    pub dirty: BTreeSet<FileId>,
    // What its disk's thread has to do, and knows.
    pub first: VecDeque<DiskTask>,
    pub looks: VecDeque<DiskTask>,
    pub is_asking: bool,
    pub is_working: bool,
    pub continued: VecDeque<(FileId, Arc<Entry>, HashMap<u64, Digest>)>,
    pub left: HashMap<String, Noted>,
    pub places: HashSet<String>,
    pub folded: HashSet<String>,
    pub mirror: Option<Mirroring>,
    pub committing: Committing,
}

impl ReceivingEnd {
    pub fn new(settings: &PairSettings, journal: HashMap<String, Noted>) -> Self {
        let PairSettings { verify, compare, purpose, taking, .. } = *settings;
        let terms = Terms { verify, compare, purpose, ..Terms::default() };
        let policy = Policy::of(&terms, taking, settings.asks_hashes);
        let logic = ReceiverLogic::new(ReceiverTerms {
            policy,
            offers: OfferRules::new(settings.asked.clone(), settings.selection.as_ref(), taking),
            moving: settings.moves,
            mirrors: settings.mirrors,
            metadata: Quota::unlimited(),
        });
        Self {
            logic,
            policy,
            ledger: Ledger::default(),
            ended: None,
            planned: Vec::new(),
            warned: Vec::new(),
            files: HashMap::new(),
            dirty: BTreeSet::new(),
            first: VecDeque::new(),
            looks: VecDeque::new(),
            is_asking: false,
            is_working: false,
            continued: VecDeque::new(),
            left: journal,
            places: HashSet::new(),
            folded: HashSet::new(),
            mirror: settings.mirrors.then(Mirroring::default),
            committing: Committing::default(),
        }
    }
}

impl Pair {
    /// Something happens at the receiver after a while.
    pub(super) fn tell_receiver(&mut self, event: ReceiverEvent) {
        let delay = self.delay();
        self.after(delay, Event::Receiver(event));
    }

    pub(super) fn receiver_happened(&mut self, event: ReceiverEvent) {
        let mut actions = Vec::new();
        self.receiver.logic.happened(event, &mut actions);
        self.do_for_receiver(actions, Ok(()));
    }

    pub(super) fn receiver_hears(&mut self, message: Message) {
        let mut actions = Vec::new();
        let heard = self.receiver.logic.hear(message, &mut actions);
        self.do_for_receiver(actions, heard);
    }

    fn do_for_receiver(&mut self, actions: Vec<ReceiverAction>, came: Result<()>) {
        for action in actions {
            if self.receiver.ended.is_none() {
                self.do_at_receiver(action);
            }
        }
        if let Err(error) = came {
            self.end_of(End::Receiver, Err(error));
        }
    }

    fn do_at_receiver(&mut self, action: ReceiverAction) {
        match action {
            ReceiverAction::Say(message) => self.say_to_sender(message),
            ReceiverAction::Count(count) => {
                if let Count::Would(planned) = &count {
                    self.receiver.planned.extend(planned.iter().cloned());
                }
                self.receiver.ledger.count(count);
            }
            ReceiverAction::Look { first, entries, open } => {
                self.ask(DiskTask::Look { first, entries, open });
            }
            ReceiverAction::Digest(files) => self.ask(DiskTask::Digest(files)),
            ReceiverAction::Settle(files) => self.ask(DiskTask::Settle(files)),
            ReceiverAction::ReadAgain(id, entry, left) => self.ask(DiskTask::ReadAgain(id, entry, left)),
            ReceiverAction::Share(..) => panic!("no file of a pair is split"),
            ReceiverAction::Begin(files) => self.ask(DiskTask::Begin(files)),
            ReceiverAction::Discard(entry) => self.ask(DiskTask::Discard(entry)),
            ReceiverAction::CompareNames(directories) => self.ask(DiskTask::CompareNames(directories)),
            ReceiverAction::Delete => self.ask(DiskTask::Delete),
            ReceiverAction::Conclude => self.ask(DiskTask::Conclude),
            ReceiverAction::Vouch(hashes) => self.vouch(hashes),
            ReceiverAction::HandIn(id) => self.hand_in(id),
            ReceiverAction::End(id) => {
                if let Some(begun) = self.receiver.files.remove(&id) {
                    begun.file.end();
                }
            }
            ReceiverAction::Permit(number, leave) => self.permitted(number, leave),
            ReceiverAction::LookAfter(streams, _) => {
                streams.into_iter().for_each(|number| self.lose_stream(number));
            }
            ReceiverAction::Warn(path, why) => self.receiver.warned.push((path, why)),
            ReceiverAction::Break(error) => self.end_of(End::Receiver, Err(error)),
        }
    }

    fn vouch(&mut self, hashes: Vec<(FileId, u64, Digest)>) {
        for (id, segment, digest) in hashes {
            let Some(begun) = self.receiver.files.get(&id) else { continue };
            match begun.file.expect(segment, digest) {
                Ok(change) => self.follow(id, change),
                Err(error) => return self.end_of(End::Receiver, Err(error)),
            }
        }
    }

    /// Takes in what a stream has brought.
    pub(super) fn take(&mut self, frame: SentBlock) {
        let SentBlock { file: id, offset, length, seed, damage } = frame;
        self.receiver.ledger.bytes_moved.fetch_add(length, Relaxed);
        let Some(BegunFile { file, .. }) = self.receiver.files.get(&id).cloned() else { return };
        if damage == Some(Damage::Seen) {
            let range = offset..offset + length;
            return self.say_to_sender(Message::Again(vec![Again { file: id, range }]));
        }
        match file.part_for(offset, &NullSink, None) {
            Ok(Some(_)) => {}
            _ => {
                self.receiver.ledger.bytes_again.fetch_add(length, Relaxed);
                return;
            }
        }
        self.open_part(id);
        let digest = ModelContent { seed, size: file.size }.block(offset, self.settings.verify);
        let written = self.disk.write(&file.entry, offset, seed);
        match written.and_then(|()| file.written(offset, digest)) {
            Ok(change) => self.follow(id, change),
            Err(error) if error.kind == ErrorKind::NoSpace => {
                let why = format!("{}; free some space and run the same command again", error.message);
                self.end_of(End::Receiver, Err(Error::new(ErrorKind::NoSpace, why)));
            }
            Err(error) => self.fail_file(&file, error),
        }
    }

    pub(super) fn fail_file(&mut self, file: &Incoming, error: Error) {
        if !file.has_ended() {
            file.end();
            self.tell_receiver(ReceiverEvent::Failed(file.id, error));
        }
    }

    /// The unfinished file is made, if it is to be made anew and was not yet.
    pub(super) fn open_part(&mut self, id: FileId) {
        if let Some(begun) = self.receiver.files.get_mut(&id)
            && std::mem::take(&mut begun.anew)
        {
            self.disk.start(&begun.file.entry);
        }
    }

    fn follow(&mut self, id: FileId, change: Change) {
        match change {
            Change::Nothing => {}
            Change::Checkpoint => {
                self.receiver.dirty.insert(id);
                let delay = 16 * self.delay();
                self.after(delay, Event::Record);
            }
            Change::Complete => self.hand_in(id),
            Change::Damaged(range) => {
                self.receiver.ledger.bytes_again.fetch_add(range.end - range.start, Relaxed);
                self.say_to_sender(Message::Again(vec![Again { file: id, range }]));
            }
        }
    }

    /// Notes down what is verified of files that are not complete.
    pub(super) fn record(&mut self) {
        for id in std::mem::take(&mut self.receiver.dirty) {
            let Some(begun) = self.receiver.files.get(&id) else { continue };
            if let Some((_, segments)) = begun.file.take_fresh() {
                self.disk.note(&begun.file.entry, segments, None);
            }
        }
    }
}
