//! A sender's and a receiver's logic against each other: in one thread, by a clock that moves when something happens, and by a
//! generator whose seed replays all of it. For tests, simulations and fuzzing of what both ends decide.
//!
//! What surrounds the logics is modelled. The session keeps the order of its messages, which are encoded, decoded and held
//! against the table of turns. Blocks overtake each other on data streams. The disks know kinds, modes, times and contents,
//! what is unfinished and what was verified, and fail where they are told to. Blocks that have come are the real
//! [`Incoming`](crate::pipeline::incoming::Incoming)'s, with real hashes.
//!
//! ```text
//! Source ─► SenderLogic ══ session: encoded, in order ══ ReceiverLogic ─► Disk
//!                       ── data streams: blocks, any order, lost, damaged ──
//! ```
//!
//! What holds in any case is asserted after each step: [`checks`] says what. Files that several transfers share are not
//! modelled, nor are memory limits, links that are followed, or a source within the destination.
//!
//! ```ignore
//! let mut pair = Pair::new(PairSettings { seed: 7, loses: 20, ..PairSettings::default() });
//! pair.source.tree.directory("d");
//! pair.source.tree.file("d/a", SEGMENT + 5, 1);
//! pair.source.tree.file("b", 9, 2).mode = 0o600;
//! pair.disk.tree.file("b", 9, 3);
//! pair.disk.faults.fail(Deed::Write, "b", ErrorKind::Io);
//! // A session that is lost after ten messages.
//! assert!(pair.run_for(10));
//! pair.cut();
//! // The next run continues on the same disks; what fails fails alone.
//! pair.run();
//! assert_eq!(pair.ended(), (Ok(()), Ok(())));
//! assert_eq!(pair.sent().files_failed, 1);
//! pair.disk.faults.mend();
//! pair.succeed();
//! pair.assert_same();
//! assert_eq!(pair.sent().files_skipped, 1);
//! ```

use std::collections::BTreeMap;
use std::ops::Range;

use tidegate_control::Rng;

use crate::counters::Totals;
use crate::error::{Error, ErrorKind, Result};
use crate::logic::asked::Asked;
use crate::logic::receiver::ReceiverEvent;
use crate::logic::sender::SenderEvent;
use crate::offer::OFFER_ENTRIES;
use crate::selection::{Selection, Taking};
use crate::terms::{Compare, Purpose, Verify};
use crate::wire::message::Message;
use crate::wire::order::Phase;

mod cases;
mod checks;
mod committing;
mod content;
mod disk;
mod faults;
mod mirroring;
mod receiving;
mod sending;
mod session;
mod source;
mod streams;
mod tasks;
mod tree;

pub(crate) use content::SIZES;
pub(crate) use disk::ModelDisk;
pub(crate) use faults::Deed;
pub(crate) use source::ModelSource;

use checks::PairWatch;
use committing::CommitStep;
use receiving::ReceivingEnd;
use sending::SendingEnd;
use session::SessionWay;
use streams::PairStreams;

/// What both ends agree on, and what happens between them. They hold for the runs that begin from then on.
#[derive(Clone, Debug)]
pub(crate) struct PairSettings {
    /// What everything is drawn from.
    pub seed: u64,
    /// How content is checked.
    pub verify: Verify,
    /// When a file counts as there.
    pub compare: Compare,
    /// What it is all for.
    pub purpose: Purpose,
    /// What of the source is taken.
    pub taking: Taking,
    /// Which files were asked for, where the receiver asks.
    pub selection: Option<Selection>,
    /// What the receiver takes.
    pub asked: Asked,
    /// Whether the receiver asks, and not the sender.
    pub pulls: bool,
    /// Whether files are removed at the source.
    pub moves: bool,
    /// Whether what the source has not is removed at the destination, and how much at most.
    pub mirrors: bool,
    /// See there.
    pub most_deleted: Option<u64>,
    /// Whether the sender can be asked for hashes.
    pub asks_hashes: bool,
    /// Whether leave is needed for names, and given.
    pub leave: Option<bool>,
    /// How many data streams there are.
    pub streams: u32,
    /// Entries in an offer.
    pub batch: usize,
    /// Places that a receiver remembers at the most.
    pub names_remembered: usize,
    /// How long anything takes, in µs.
    pub delay: Range<u64>,
    /// How much longer anything takes the destination's disk.
    pub disk_delay: u64,
    /// Of 1000 blocks, how many end their stream, arrive twice, arrive damaged.
    pub loses: u64,
    /// See there.
    pub repeats: u64,
    /// See there.
    pub damages: u64,
}

impl Default for PairSettings {
    fn default() -> Self {
        Self {
            seed: 1,
            verify: Verify::Blake3,
            compare: Compare::Recorded,
            purpose: Purpose::Copy,
            taking: Taking::default(),
            selection: None,
            asked: Asked::Anything,
            pulls: false,
            moves: false,
            mirrors: false,
            most_deleted: None,
            asks_hashes: true,
            leave: None,
            streams: 3,
            batch: OFFER_ENTRIES,
            names_remembered: 1 << 20,
            delay: 1..1000,
            disk_delay: 0,
            loses: 0,
            repeats: 0,
            damages: 0,
        }
    }
}

/// An end of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Who has the source.
    Sender,
    /// Who has the destination.
    Receiver,
}

/// Something that is due.
#[derive(Debug)]
enum Event {
    /// A message of the other end arrives there.
    Hear(End),
    /// The sender has hung up.
    HungUp,
    Sender(SenderEvent),
    Receiver(ReceiverEvent),
    Read,
    Arrive(u32),
    Confirm,
    Disk,
    Continue,
    Commit(CommitStep),
    Record,
}

/// Two ends, and what is between them.
#[derive(Debug)]
pub(crate) struct Pair {
    /// What they agree on.
    pub settings: PairSettings,
    /// What is sent from.
    pub source: ModelSource,
    /// What is written to.
    pub disk: ModelDisk,
    /// What was said in this run, and by whom.
    pub said: Vec<(End, Message)>,
    rng: Rng,
    clock: u64,
    number: u64,
    events: BTreeMap<(u64, u64), Event>,
    to_receiver: SessionWay,
    to_sender: SessionWay,
    receiver_phase: Phase,
    sender: SendingEnd,
    receiver: ReceivingEnd,
    streams: PairStreams,
    watch: PairWatch,
    heard: u64,
    last_listed: u64,
    last_done: u64,
    is_confirming: bool,
    is_running: bool,
    was_cut: bool,
    /// Whether a test has spoken for one of the ends.
    is_honest: bool,
}

impl Pair {
    /// Two ends with nothing on their disks.
    pub fn new(settings: PairSettings) -> Self {
        let (mut source, disk) = (ModelSource::default(), ModelDisk::default());
        let sender = SendingEnd::new(&settings, source.list(1));
        let receiver = ReceivingEnd::new(&settings, disk.journal.clone().into_iter().collect());
        Self {
            rng: Rng::new(settings.seed),
            source,
            disk,
            said: Vec::new(),
            clock: 0,
            number: 0,
            events: BTreeMap::new(),
            to_receiver: SessionWay::default(),
            to_sender: SessionWay::default(),
            receiver_phase: Phase::Moving,
            sender,
            receiver,
            streams: PairStreams::default(),
            watch: PairWatch::default(),
            heard: 0,
            last_listed: 0,
            last_done: 0,
            is_confirming: false,
            is_running: false,
            was_cut: false,
            is_honest: true,
            settings,
        }
    }

    // Runs --------------------------------------------------------------------------------------------

    /// Begins a run on the disks as they are, unless one is going on.
    pub fn begin(&mut self) {
        if self.is_running {
            return;
        }
        let mut settings = self.settings.clone();
        assert!(
            !(settings.moves && settings.mirrors),
            "what is moved would be missing at the source, and go"
        );
        if settings.pulls {
            settings.selection.get_or_insert_default();
        }
        self.sender = SendingEnd::new(&settings, self.source.list(settings.batch));
        self.receiver = ReceivingEnd::new(&settings, self.disk.journal.clone().into_iter().collect());
        self.disk.changed.clear();
        self.disk.offered.clear();
        self.watch = PairWatch::of(&self.disk);
        (self.events, self.said, self.streams) = (BTreeMap::new(), Vec::new(), PairStreams::default());
        (self.to_receiver, self.to_sender) = (SessionWay::default(), SessionWay::default());
        self.receiver_phase = Phase::Moving;
        (self.heard, self.is_confirming, self.was_cut, self.is_honest) = (0, false, false, true);
        self.is_running = true;
        (0..settings.streams).for_each(|_| self.open_stream());
        self.list();
    }

    /// Runs until both ends have ended.
    pub fn run(&mut self) {
        self.begin();
        while self.step() {}
    }

    /// Runs until so many messages were heard; `false` if both ends had ended before.
    pub fn run_for(&mut self, messages: u64) -> bool {
        self.begin();
        while self.heard < messages && self.step() {}
        self.is_running
    }

    /// Runs until something is so; `false` if it never was.
    pub fn run_until(&mut self, is_so: impl Fn(&Self) -> bool) -> bool {
        self.begin();
        while !is_so(self) {
            if !self.step() {
                return false;
            }
        }
        true
    }

    /// Runs, and asserts that both ends say that all is well.
    pub fn succeed(&mut self) {
        self.run();
        assert_eq!(self.ended(), (Ok(()), Ok(())), "seed {}", self.settings.seed);
    }

    /// The next thing happens; `false` once both ends have ended.
    pub fn step(&mut self) -> bool {
        if !self.is_running {
            return false;
        }
        if self.sender.ended.is_some() && self.receiver.ended.is_some() {
            self.is_running = false;
            self.check_end();
            return false;
        }
        let Some(((due, _), event)) = self.events.pop_first() else {
            let (sender, receiver) = (&self.sender, &self.receiver);
            panic!(
                "nothing is due, and the ends wait: seed {}\n{sender:#?}\n{receiver:#?}",
                self.settings.seed
            );
        };
        self.clock = due;
        self.happen(event);
        self.watch.check();
        true
    }

    fn happen(&mut self, event: Event) {
        let is_sending = self.sender.ended.is_none();
        let is_receiving = self.receiver.ended.is_none();
        match event {
            Event::Hear(End::Sender) => self.sender_receives(is_sending),
            Event::Hear(End::Receiver) => self.receiver_receives(is_receiving),
            Event::HungUp if is_receiving => {
                let is_finished = self.receiver.logic.is_finished();
                let lost = || Error::new(ErrorKind::Connection, "the sender has hung up");
                self.end_of(End::Receiver, if is_finished { Ok(()) } else { Err(lost()) });
            }
            Event::Sender(event) if is_sending => self.sender_happened(event),
            Event::Read if is_sending => self.read(),
            Event::Receiver(event) if is_receiving => self.receiver_happened(event),
            Event::Arrive(number) if is_receiving => self.arrive(number),
            Event::Confirm if is_receiving => self.confirm(),
            Event::Disk if is_receiving => self.work(),
            Event::Continue if is_receiving => self.continue_next(),
            Event::Commit(step) if is_receiving => self.commit(step),
            Event::Record if is_receiving => self.record(),
            _ => {}
        }
    }

    /// The session is lost: both ends stop, what is whole gets its name, and what is verified is noted down.
    pub fn cut(&mut self) {
        self.stop(true);
    }

    /// The receiver's host stops at once: nothing more is done there.
    pub fn crash(&mut self) {
        self.stop(false);
    }

    fn stop(&mut self, is_orderly: bool) {
        if !self.is_running {
            return;
        }
        (self.was_cut, self.is_running) = (true, false);
        let lost = || Error::new(ErrorKind::Connection, "the session is lost");
        if self.receiver.ended.is_none() && is_orderly {
            self.commit_the_rest();
        }
        self.receiver.ended.get_or_insert_with(|| Err(lost()));
        self.sender.ended.get_or_insert_with(|| Err(lost()));
        self.check_end();
    }

    fn end_of(&mut self, end: End, came: Result<()>) {
        if let Err(error) = &came {
            let is_defect = self.is_honest && error.kind == ErrorKind::Protocol;
            assert!(!is_defect, "honest ends disagree: seed {}: {error}", self.settings.seed);
        }
        let refused = came.clone().err().map(Message::Refused);
        match end {
            End::Sender if self.sender.ended.is_none() => {
                refused.into_iter().for_each(|refused| self.say_to_receiver(refused));
                self.sender.ended = Some(came);
                self.at(self.to_receiver.last_due, Event::HungUp);
            }
            End::Receiver if self.receiver.ended.is_none() => {
                refused.into_iter().for_each(|refused| self.say_to_sender(refused));
                self.commit_the_rest();
                self.receiver.ended = Some(came);
            }
            _ => {}
        }
    }

    // What is seen of it ------------------------------------------------------------------------------

    /// How the sender and the receiver have ended.
    pub fn ended(&self) -> (Result<()>, Result<()>) {
        let ended = |end: &Option<Result<()>>| end.clone().expect("it has ended");
        (ended(&self.sender.ended), ended(&self.receiver.ended))
    }

    /// What the sender counts.
    pub fn sent(&self) -> Totals {
        self.sender.ledger.totals()
    }

    /// What the receiver counts.
    pub fn received(&self) -> Totals {
        self.receiver.ledger.totals()
    }

    /// The time, in µs.
    pub fn now(&self) -> u64 {
        self.clock
    }

    /// How many messages were heard in this run.
    pub fn heard(&self) -> u64 {
        self.heard
    }

    // Time ---------------------------------------------------------------------------------------------

    fn at(&mut self, due: u64, event: Event) {
        self.number += 1;
        self.events.insert((due.max(self.clock), self.number), event);
    }

    fn after(&mut self, delay: u64, event: Event) {
        self.at(self.clock + delay, event);
    }

    fn delay(&mut self) -> u64 {
        let Range { start, end } = self.settings.delay;
        start + self.rng.below((end - start).max(1))
    }

    /// Whether something happens that happens `of_thousand` times in 1000.
    fn chance(&mut self, of_thousand: u64) -> bool {
        of_thousand > 0 && self.rng.below(1000) < of_thousand
    }
}
