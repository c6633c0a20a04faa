//! Data streams of a [`Pair`](super::Pair): blocks overtake each other on different ones, and what is on a stream that is lost
//! comes again.

use std::collections::{BTreeMap, VecDeque};

use super::{Event, Pair};
use crate::manifest::FileId;
use crate::wire::message::Message;

/// What has happened to a block on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Damage {
    /// Its checksum tells.
    Seen,
    /// Only the hash of its segment tells.
    Silent,
}

/// A block of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SentBlock {
    pub file: FileId,
    pub offset: u64,
    pub length: u64,
    /// Which content it is of.
    pub seed: u64,
    pub damage: Option<Damage>,
}

/// One connection, from the sender to the receiver.
#[derive(Debug, Default)]
pub(super) struct Stream {
    /// How long a block takes on it.
    delay: u64,
    /// When the last one arrives.
    busy_until: u64,
    /// Blocks that have not arrived.
    on_its_way: VecDeque<SentBlock>,
    /// Blocks of which the sender does not know that they were taken.
    unconfirmed: VecDeque<SentBlock>,
    /// How many it knows of.
    confirmed: u64,
    /// How many were taken, and how many of these were told.
    taken: u64,
    told: u64,
    is_lost: bool,
}

/// All streams, by their numbers.
#[derive(Debug, Default)]
pub(super) struct PairStreams {
    of: BTreeMap<u32, Stream>,
    next: u32,
}

impl Pair {
    /// Opens another stream.
    pub(super) fn open_stream(&mut self) {
        let delay = self.delay() * 4;
        let stream = Stream { delay, ..Stream::default() };
        self.streams.of.insert(self.streams.next, stream);
        self.streams.next += 1;
    }

    /// Sends a block on one of the streams.
    pub(super) fn send_frame(&mut self, frame: SentBlock) {
        let live: Vec<u32> =
            self.streams.of.iter().filter(|(_, stream)| !stream.is_lost).map(|(number, _)| *number).collect();
        let number = live[self.rng.below(live.len() as u64) as usize];
        let (now, jitter) = (self.clock, self.delay());
        let stream = self.streams.of.get_mut(&number).expect("it is open");
        stream.on_its_way.push_back(frame);
        stream.unconfirmed.push_back(frame);
        stream.busy_until = stream.busy_until.max(now + stream.delay) + jitter;
        let arrives = stream.busy_until - now;
        self.sender.ledger.bytes_moved.fetch_add(frame.length, std::sync::atomic::Ordering::Relaxed);
        self.after(arrives, Event::Arrive(number));
    }

    /// A block arrives, unless its stream is lost meanwhile.
    pub(super) fn arrive(&mut self, number: u32) {
        let is_lost = self.chance(self.settings.loses);
        let Some(stream) = self.streams.of.get_mut(&number).filter(|stream| !stream.is_lost) else { return };
        if is_lost {
            return self.lose_stream(number);
        }
        let Some(frame) = stream.on_its_way.pop_front() else { return };
        stream.taken += 1;
        self.take(frame);
        if self.chance(self.settings.repeats) {
            self.take(frame);
        }
        if !self.is_confirming {
            self.is_confirming = true;
            let delay = self.delay();
            self.after(delay, Event::Confirm);
        }
    }

    /// A stream ends without its last frame: the receiver says so, and another takes its place.
    pub fn lose_stream(&mut self, number: u32) {
        let Some(stream) = self.streams.of.get_mut(&number).filter(|stream| !stream.is_lost) else { return };
        stream.is_lost = true;
        stream.on_its_way.clear();
        self.open_stream();
        self.say_to_sender(Message::StreamLost(number));
    }

    /// The number of a stream that something is on.
    pub fn busy_stream(&self) -> Option<u32> {
        let mut busy = self.streams.of.iter().filter(|(_, stream)| !stream.on_its_way.is_empty());
        busy.next().map(|(number, _)| *number)
    }

    /// The receiver tells what it has taken.
    pub(super) fn confirm(&mut self) {
        self.is_confirming = false;
        let news = self.streams.of.iter_mut().filter(|(_, stream)| stream.told < stream.taken);
        let counts: Vec<_> = news
            .map(|(number, stream)| {
                stream.told = stream.taken;
                (*number, stream.taken)
            })
            .collect();
        if !counts.is_empty() {
            self.say_to_sender(Message::Taken(counts));
        }
    }

    /// The sender hears of that.
    pub(super) fn confirmed(&mut self, counts: Vec<(u32, u64)>) {
        for (number, count) in counts {
            let Some(stream) = self.streams.of.get_mut(&number) else { continue };
            while stream.confirmed < count && stream.unconfirmed.pop_front().is_some() {
                stream.confirmed += 1;
            }
        }
    }

    /// The sender hears that a stream is lost: what was not confirmed comes again.
    pub(super) fn lost(&mut self, number: u32) {
        let Some(stream) = self.streams.of.remove(&number) else { return };
        for frame in stream.unconfirmed {
            self.resend(frame.file, frame.offset..frame.offset + frame.length);
        }
    }
}
