//! Removes at the source what has arrived, if that was asked for.

use super::{SendFile, SenderState};
use crate::error::{Error, ErrorKind};
use crate::wire::message::Message;

impl SenderState {
    /// `file` is durable at the receiver, with the content that was read here in this run: removes it, if files are moved.
    /// `false` if that failed, which is said.
    pub(super) fn moves(&self, file: &SendFile) -> bool {
        if !self.source.is_moved() {
            return true;
        }
        match self.source.remove(&file.listed) {
            Ok(()) => true,
            Err(error) => {
                self.say_that_it_stays(file, &error);
                false
            }
        }
    }

    /// `file` is there without having been read: `false` if it was to be moved, which is said.
    pub(super) fn stays(&self, file: &SendFile) -> bool {
        if self.source.is_moved() {
            let why = "it is the same file at both ends, or was not compared";
            self.say_that_it_stays(file, &Error::new(ErrorKind::Denied, why));
        }
        !self.source.is_moved()
    }

    fn say_that_it_stays(&self, file: &SendFile, error: &Error) {
        let path = &file.listed.entry.path;
        let why = format!("{path} is there and stays at the source: {error}");
        let error = error.clone().in_words(why);
        self.outbox.send(&Message::Problem(path.as_bytes().to_vec(), error.clone()));
        self.ledger.failed(path.as_bytes(), error, true);
    }
}
