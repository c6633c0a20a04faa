//! The session of a [`Pair`](super::Pair): messages in their order, which are encoded, decoded and held against the table of
//! turns.

use std::collections::VecDeque;

use super::{End, Event, Pair};
use crate::error::Result;
use crate::wire::message::{MAX_MESSAGE, Message, decode, encode};
use crate::wire::order::{self, Part, Phase};

/// One direction of the session.
#[derive(Debug, Default)]
pub(super) struct SessionWay {
    on_its_way: VecDeque<Vec<u8>>,
    pub last_due: u64,
}

impl Pair {
    /// Says something in the name of an end, which is not to be trusted from then on.
    pub fn say_as(&mut self, end: End, message: Message) {
        self.is_honest = false;
        match end {
            End::Sender => self.say_to_receiver(message),
            End::Receiver => self.say_to_sender(message),
        }
    }

    pub(super) fn say_to_receiver(&mut self, message: Message) {
        if self.sender.ended.is_none() {
            self.say(End::Sender, message);
        }
    }

    pub(super) fn say_to_sender(&mut self, message: Message) {
        if self.receiver.ended.is_none() {
            self.say(End::Receiver, message);
        }
    }

    fn say(&mut self, by: End, message: Message) {
        let delay = self.delay();
        let (way, to) = match by {
            End::Sender => (&mut self.to_receiver, End::Receiver),
            End::Receiver => (&mut self.to_sender, End::Sender),
        };
        way.on_its_way.push_back(encode(&message));
        way.last_due = way.last_due.max(self.clock + delay);
        let due = way.last_due;
        self.said.push((by, message));
        self.at(due, Event::Hear(to));
    }

    pub(super) fn sender_receives(&mut self, is_open: bool) {
        let phase = if self.sender.logic.has_finished() { Phase::Ending } else { Phase::Moving };
        let bytes = self.to_sender.on_its_way.pop_front().expect("it is on its way");
        let part = if self.settings.pulls { Part::Initiator } else { Part::Endpoint };
        match self.receive(&bytes, [part, Part::Receiver], phase).filter(|_| is_open) {
            None => {}
            Some(Err(error)) => self.end_of(End::Sender, Err(error)),
            Some(Ok(Message::AskPermit(number))) => self.answer_permit(number),
            Some(Ok(message)) => self.sender_hears(message),
        }
    }

    pub(super) fn receiver_receives(&mut self, is_open: bool) {
        let bytes = self.to_receiver.on_its_way.pop_front().expect("it is on its way");
        let part = if self.settings.pulls { Part::Endpoint } else { Part::Initiator };
        match self.receive(&bytes, [part, Part::Sender], self.receiver_phase).filter(|_| is_open) {
            None => {}
            Some(Err(error)) => self.end_of(End::Receiver, Err(error)),
            Some(Ok(message)) => {
                if message == Message::Finish {
                    self.receiver_phase = Phase::Ending;
                }
                self.receiver_hears(message);
            }
        }
    }

    fn receive(&mut self, bytes: &[u8], parts: [Part; 2], phase: Phase) -> Option<Result<Message>> {
        self.heard += 1;
        let read = decode::<Message>(bytes, MAX_MESSAGE);
        let (message, _) = match read.transpose()? {
            Ok(message) => message,
            Err(error) => return Some(Err(error)),
        };
        Some(order::check(&message, parts, phase).map(|()| message))
    }
}
