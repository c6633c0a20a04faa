//! What owns the decisions of a sender, and does what they ask for.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::aside::Aside;
use super::{SendFile, SenderState, Sent};
use crate::error::Result;
use crate::hashed::ByNumber;
use crate::logic::sender::{SenderAction, SenderEvent, SenderLogic, SenderTerms};
use crate::manifest::{BLOCK, FileId};
use crate::pipeline::work::{Division, Piece};
use crate::plan::Planned;
use crate::quota::Quota;
use crate::sys::sync::mpsc;
use crate::wire::message::Message;

/// Most threads that read files for their hashes.
const HASHERS: usize = 4;

/// How often whoever waits for the one that listens looks whether all was stopped.
const LOOK: Duration = Duration::from_millis(50);

/// What decides for a [`Sender`](super::Sender), on the thread of its conversation.
#[derive(Debug)]
pub(crate) struct SenderOwner {
    shared: Arc<SenderState>,
    logic: SenderLogic,
    actions: Vec<SenderAction>,
    happened: mpsc::Receiver<SenderEvent>,
    /// Those that have not ended.
    files: HashMap<FileId, Arc<SendFile>, ByNumber>,
    /// Tells the lister that there is room for more.
    lister: mpsc::Sender<()>,
    /// Tells whoever reads names that more are wanted.
    namer: Option<mpsc::Sender<()>>,
    hashers: Aside<Arc<SendFile>>,
    remover: Aside<Arc<SendFile>>,
    teller: Aside<(Vec<Planned>, usize)>,
}

impl SenderOwner {
    /// Begins to list.
    pub(super) fn start(
        shared: &Arc<SenderState>,
        terms: SenderTerms,
        happened: mpsc::Receiver<SenderEvent>,
        threads: &Arc<Quota>,
    ) -> Self {
        let (lister, room) = mpsc::channel();
        let _ = lister.send(());
        if let Err(error) = shared.spawn("list", move |shared| shared.list(&room)) {
            shared.fail(error);
        }
        Self {
            shared: Arc::clone(shared),
            logic: SenderLogic::new(terms),
            actions: Vec::new(),
            happened,
            files: HashMap::default(),
            lister,
            namer: None,
            hashers: Aside::new("compare", (HASHERS, threads), |shared, file| hash(shared, &file)),
            remover: Aside::new("remove", (1, threads), |shared, file| remove(shared, &file)),
            teller: Aside::new("tell", (1, threads), tell),
        }
    }

    /// Acts on a message of the receiver.
    pub fn hear(&mut self, message: Message) -> Result<()> {
        self.logic.hear(message, &mut self.actions)?;
        self.shared.ending.confirmed.store(self.logic.is_confirmed(), Relaxed);
        self.act()
    }

    /// Acts on what has happened since; `true` once everything is durable at the receiver.
    pub fn turn(&mut self) -> Result<bool> {
        // All of it at once: much of what is said of it goes into few messages.
        while let Ok(event) = self.happened.try_recv() {
            self.logic.happened(event, &mut self.actions)?;
        }
        self.act()?;
        // Whoever listens may take their time.
        while self.logic.is_confirmed() && !self.logic.is_over() && !self.shared.is_stopped() {
            self.happened.recv_timeout(LOOK).map_or(Ok(()), |event| self.act_on(event))?;
        }
        Ok(self.logic.is_confirmed())
    }

    /// Whether every offered entry has ended, and the receiver was told so.
    pub fn has_finished(&self) -> bool {
        self.logic.has_finished()
    }

    fn act_on(&mut self, event: SenderEvent) -> Result<()> {
        self.logic.happened(event, &mut self.actions)?;
        self.act()
    }

    fn act(&mut self) -> Result<()> {
        let mut pieces = Vec::new();
        let mut actions = std::mem::take(&mut self.actions);
        for action in actions.drain(..) {
            self.do_one(action, &mut pieces)?;
        }
        self.actions = actions;
        self.shared.work.push(pieces);
        Ok(())
    }

    fn do_one(&mut self, action: SenderAction, pieces: &mut Vec<Piece<SendFile>>) -> Result<()> {
        let shared = &self.shared;
        match action {
            SenderAction::Say(message) => shared.outbox.send(&message),
            SenderAction::Count(count) => shared.ledger.count(count),
            SenderAction::List => drop(self.lister.send(())),
            SenderAction::Open(id, listed) => {
                self.files.insert(id, Arc::new(SendFile::new(id, listed)));
            }
            SenderAction::Have(id, segments) => {
                if let Some(file) = self.files.get(&id) {
                    file.have(segments);
                }
            }
            SenderAction::Send(id, ranges) => {
                if let Some(file) = self.files.get(&id) {
                    pieces.extend(to_send(file, shared.division(file), ranges));
                }
            }
            SenderAction::Resend(id, range) => {
                if let Some(file) = self.files.get(&id) {
                    shared.again(file, range)?;
                }
            }
            SenderAction::Hash(id) => {
                if let Some(file) = self.files.get(&id) {
                    self.hashers.give(shared, Arc::clone(file));
                }
            }
            SenderAction::End(id) => drop(self.end(id)),
            SenderAction::Remove(id) => {
                if let Some(file) = self.end(id) {
                    self.remover.give(&self.shared, file);
                }
            }
            SenderAction::Confirm(counts) => {
                for (data_stream, count) in counts {
                    shared.data_streams.confirm(data_stream, count).iter().for_each(Sent::arrived);
                }
            }
            SenderAction::Lose(data_stream) => shared.lost(data_stream),
            SenderAction::Tell { planned, bytes } => self.teller.give(shared, (planned, bytes)),
            SenderAction::ReadNames => self.read_names()?,
        }
        Ok(())
    }

    fn end(&mut self, id: FileId) -> Option<Arc<SendFile>> {
        let file = self.files.remove(&id)?;
        file.ended.store(true, Relaxed);
        Some(file)
    }

    fn read_names(&mut self) -> Result<()> {
        if self.namer.is_none() {
            let (namer, wanted) = mpsc::channel();
            self.shared.spawn("names", move |shared| shared.tell_names(&wanted))?;
            self.namer = Some(namer);
        }
        let _ = self.namer.as_ref().map(|namer| namer.send(()));
        Ok(())
    }
}

/// Says how much is kept of what is not complete.
impl Drop for SenderOwner {
    fn drop(&mut self) {
        // Nothing is removed once the transfer is over.
        self.remover.join();
        let there = |(id, kept)| self.files.get(&id).map_or(0, |file| file.is_there(kept));
        self.shared.ledger.leaves(self.logic.kept().map(there).sum());
    }
}

impl SenderState {
    /// How a file is handed out to readers.
    fn division(&self, file: &SendFile) -> Division {
        match file.size <= BLOCK {
            true => Division::Bundled,
            false if self.source.is_undivided(&file.listed) => Division::Undivided,
            false => Division::Chunks,
        }
    }
}

fn to_send(
    file: &Arc<SendFile>,
    division: Division,
    ranges: Vec<Range<u64>>,
) -> impl Iterator<Item = Piece<SendFile>> {
    ranges.into_iter().map(move |range| Piece { file: Arc::clone(file), range, division })
}

fn hash(shared: &SenderState, file: &SendFile) {
    let root = shared.root_of(file);
    if !shared.is_stopped() {
        shared.events.tell(SenderEvent::Hashed(file.id, root));
    }
}

fn remove(shared: &SenderState, file: &SendFile) {
    shared.events.tell(SenderEvent::Removed(file.id, shared.source.remove(&file.listed)));
}

fn tell(shared: &SenderState, (planned, bytes): (Vec<Planned>, usize)) {
    let entries = planned.len();
    shared.ledger.would(planned);
    shared.events.tell(SenderEvent::Told { entries, bytes });
}
