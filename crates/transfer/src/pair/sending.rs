//! What the sender of a [`Pair`](super::Pair) does, as its owner and its pools would.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::faults::Deed;
use super::streams::{Damage, SentBlock};
use super::tree::{Node, path_of};
use super::{End, Event, Pair, PairSettings};
use crate::error::{Error, ErrorKind, Result};
use crate::hash::{Digest, FileHash};
use crate::ledger::Ledger;
use crate::logic::sender::{SenderAction, SenderEvent, SenderLogic, SenderTerms};
use crate::manifest::{BLOCK, FileId, SEGMENT};
use crate::offer::DirectoryNames;
use crate::plan::Planned;
use crate::store::Listed;
use crate::terms::Verify;
use crate::wire::message::Message;

/// How much of a file is sent again before it is given up.
const RESEND_LIMIT: u64 = 64 * SEGMENT;

/// What a content is called that no source had.
const DAMAGED: u64 = u64::MAX;

/// A file that was offered.
#[derive(Debug)]
struct SendFile {
    listed: Arc<Listed>,
    hash: FileHash,
    resent: u64,
}

/// One end.
#[derive(Debug)]
pub(super) struct SendingEnd {
    pub logic: SenderLogic,
    pub ledger: Ledger,
    /// How it has ended.
    pub ended: Option<Result<()>>,
    /// What would be done, as it was told.
    pub planned: Vec<Planned>,
    files: HashMap<FileId, SendFile>,
    listing: VecDeque<SenderEvent>,
    names: Option<VecDeque<Vec<DirectoryNames>>>,
    work: VecDeque<(FileId, Range<u64>)>,
    is_reading: bool,
}

impl SendingEnd {
    pub fn new(settings: &PairSettings, listing: VecDeque<SenderEvent>) -> Self {
        let terms =
            SenderTerms { purpose: settings.purpose, moves: settings.moves, tells_left_out: settings.pulls };
        Self {
            logic: SenderLogic::new(terms),
            ledger: Ledger::default(),
            ended: None,
            planned: Vec::new(),
            files: HashMap::new(),
            listing,
            names: None,
            work: VecDeque::new(),
            is_reading: false,
        }
    }
}

impl Pair {
    /// The lister tells of something, once.
    pub(super) fn list(&mut self) {
        if let Some(event) = self.sender.listing.pop_front() {
            self.tell_sender(event);
            // The end of the list needs no room.
            if self.sender.listing.front() == Some(&SenderEvent::AllListed) {
                self.list();
            }
        }
    }

    /// Something happens at the sender after a while, behind what has happened there before.
    pub(super) fn tell_sender(&mut self, event: SenderEvent) {
        let delay = self.delay();
        let due = (self.clock + delay).max(self.last_listed);
        self.last_listed = due;
        self.at(due, Event::Sender(event));
    }

    pub(super) fn sender_happened(&mut self, event: SenderEvent) {
        self.watch.sender_event(&event);
        let mut actions = Vec::new();
        let happened = self.sender.logic.happened(event, &mut actions);
        self.do_for_sender(actions, happened);
    }

    pub(super) fn sender_hears(&mut self, message: Message) {
        self.watch.sender_hears(&message);
        let mut actions = Vec::new();
        let heard = self.sender.logic.hear(message, &mut actions);
        self.do_for_sender(actions, heard);
    }

    fn do_for_sender(&mut self, actions: Vec<SenderAction>, came: Result<()>) {
        if let Err(error) = came {
            return self.end_of(End::Sender, Err(error));
        }
        for action in actions {
            self.watch.sender_action(&action);
            self.do_at_sender(action);
        }
        if self.sender.logic.is_over() {
            self.end_of(End::Sender, Ok(()));
        }
    }

    fn do_at_sender(&mut self, action: SenderAction) {
        match action {
            SenderAction::Say(message) => self.say_to_receiver(message),
            SenderAction::Count(count) => self.sender.ledger.count(count),
            SenderAction::List => self.list(),
            SenderAction::Open(id, listed) => {
                let hash = FileHash::new(listed.entry.size());
                self.sender.files.insert(id, SendFile { listed, hash, resent: 0 });
            }
            SenderAction::Have(id, segments) => {
                let file = self.sender.files.get_mut(&id).expect("it is open");
                segments.into_iter().for_each(|(segment, digest)| file.hash.add_segment(segment, digest));
            }
            SenderAction::Send(id, ranges) => {
                assert!(self.sender.files.contains_key(&id), "{id} is sent, and is not open");
                ranges.into_iter().filter(|range| !range.is_empty()).for_each(|range| self.send(id, range));
            }
            SenderAction::Resend(id, range) => self.resend(id, range),
            SenderAction::Hash(id) => {
                let file = self.sender.files.get(&id).expect("it is open");
                let root = self.source.read(&file.listed.entry).map(|content| content.root());
                self.tell_sender(SenderEvent::Hashed(id, root));
            }
            SenderAction::End(id) => drop(self.sender.files.remove(&id)),
            SenderAction::Remove(id) => {
                let file = self.sender.files.remove(&id).expect("it is open");
                let there = self.disk.tree.get(path_of(&file.listed.entry)).and_then(Node::content);
                let listed = self.source.content_of(&file.listed.entry);
                assert_eq!(there, Some(listed), "{} is removed, and has not arrived", file.listed.entry.path);
                let removed = self.source.remove(&file.listed.entry);
                self.tell_sender(SenderEvent::Removed(id, removed));
            }
            SenderAction::Confirm(counts) => self.confirmed(counts),
            SenderAction::Lose(number) => self.lost(number),
            SenderAction::Tell { planned, bytes } => {
                let entries = planned.len();
                self.sender.planned.extend(planned);
                self.tell_sender(SenderEvent::Told { entries, bytes });
            }
            SenderAction::ReadNames => self.read_names(),
        }
    }

    /// Tells one message full of names, and of the end behind the last one.
    fn read_names(&mut self) {
        let (source, batch) = (&self.source, self.settings.batch);
        let names = self
            .sender
            .names
            .get_or_insert_with(|| source.tree.directory_names().chunks(batch).map(<[_]>::to_vec).collect());
        let Some(some) = names.pop_front() else { return };
        let is_last = names.is_empty();
        let failed = source.faults.check(Deed::Name, "").err();
        if failed.is_some() {
            names.clear();
        } else {
            self.tell_sender(SenderEvent::Names(some));
        }
        if is_last || failed.is_some() {
            self.tell_sender(SenderEvent::NamesEnd(failed));
        }
    }

    // Blocks ------------------------------------------------------------------------------------------

    fn send(&mut self, id: FileId, range: Range<u64>) {
        self.sender.work.push_back((id, range));
        if !self.sender.is_reading {
            self.sender.is_reading = true;
            let delay = self.delay();
            self.after(delay, Event::Read);
        }
    }

    /// Sends a range again, unless that was often enough.
    pub(super) fn resend(&mut self, id: FileId, range: Range<u64>) {
        let Some(file) = self.sender.files.get_mut(&id) else { return };
        let (length, size) = (range.end - range.start, file.listed.entry.size());
        self.sender.ledger.bytes_again.fetch_add(length, Relaxed);
        let before = file.resent;
        file.resent += length.next_multiple_of(BLOCK);
        if before > RESEND_LIMIT.max(4 * size) {
            let why = format!("{} arrived damaged again and again: given up", file.listed.entry.path);
            return self.tell_sender(SenderEvent::GivenUp(id, Error::new(ErrorKind::Corrupt, why)));
        }
        self.send(id, range);
    }

    /// A reader takes the next block.
    pub(super) fn read(&mut self) {
        self.sender.is_reading = false;
        let Some((id, mut range)) = self.sender.work.pop_front() else { return };
        if self.sender.files.contains_key(&id) {
            let end = range.end.min((range.start / BLOCK + 1) * BLOCK);
            self.read_block(id, range.start..end);
            range.start = end;
            if !range.is_empty() {
                self.sender.work.push_front((id, range));
            }
        }
        if !self.sender.work.is_empty() {
            self.sender.is_reading = true;
            let delay = self.delay() / 8;
            self.after(delay, Event::Read);
        }
    }

    fn read_block(&mut self, id: FileId, range: Range<u64>) {
        let file = self.sender.files.get_mut(&id).expect("it is open");
        let content = match self.source.read(&file.listed.entry) {
            Ok(content) => content,
            Err(error) => return self.tell_sender(SenderEvent::GivenUp(id, error)),
        };
        let verify = self.settings.verify;
        let digest = content.block(range.start, verify);
        let told: Option<(u64, Digest)> = match content.size <= BLOCK {
            true => Some((0, digest)),
            false => file.hash.add_block(range.start, digest),
        };
        if let (Some((segment, digest)), Verify::Blake3) = (told, verify) {
            self.say_to_receiver(Message::Hashes(vec![(id, segment, digest)]));
        }
        let (offset, length) = (range.start, range.end - range.start);
        let damage = if self.chance(self.settings.damages) {
            let is_silent = verify == Verify::Blake3 && self.rng.below(2) == 0;
            Some(if is_silent { Damage::Silent } else { Damage::Seen })
        } else {
            None
        };
        let seed = if damage == Some(Damage::Silent) { DAMAGED } else { content.seed };
        self.send_frame(SentBlock { file: id, offset, length, seed, damage });
    }
}
