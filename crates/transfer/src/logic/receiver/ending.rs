//! The end: everything that was offered has ended, what the source does not have is removed, and all of it is durable.

use super::{ReceiverAction, ReceiverLogic};
use crate::counters::NotKept;
use crate::error::{Error, ErrorKind, Result};
use crate::logic::count::Count;
use crate::mirror::Deleted;
use crate::offer::DirectoryNames;
use crate::text::show;
use crate::wire::message::Message;

/// Messages of names that may be on their way.
const NAMES_AHEAD: u32 = 8;

/// How far the end is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Ending {
    /// Entries may be offered, and move.
    #[default]
    Open,
    /// The sender says that all have ended.
    Wanted,
    /// It tells its names.
    Naming,
    /// What it does not have is being removed.
    Deleting,
    /// Everything is being made durable.
    Concluding,
    /// It is, and the sender knows.
    Finished,
}

impl ReceiverLogic {
    /// The sender says that everything has ended, and nothing is being done here any more.
    pub(super) fn end(&mut self, actions: &mut Vec<ReceiverAction>) {
        self.ending = Ending::Concluding;
        if let Err(error) = self.check_end() {
            actions.push(ReceiverAction::Break(error));
            return;
        }
        if !self.mirrors {
            self.conclude(actions);
        } else if self.failures > 0 {
            // It may be what is missing at the source.
            let why = "not everything could be read or written; mend that and run the same command again";
            self.removes_nothing(&Error::new(ErrorKind::Io, why), actions);
            self.conclude(actions);
        } else {
            self.ending = Ending::Naming;
            self.say(Message::WantNames(NAMES_AHEAD), actions);
        }
    }

    /// A sender's word is not enough: what it offered has ended, one way or another.
    fn check_end(&self) -> Result<()> {
        if !self.offers.is_listed() {
            return Err(Error::protocol("the sender finished before it had listed everything"));
        }
        if let Some(open) = self.open.values().next() {
            let why = format!(
                "the sender finished although {} of its files are open, such as {}: run the same command again",
                self.open.len(),
                show(open.entry.path.as_bytes())
            );
            return Err(Error::protocol(why));
        }
        // What it could not read it has said, and that is no success either.
        match self.offers.missing().filter(|_| self.failures == 0) {
            Some(what) => Err(Error::protocol(format!(
                "the sender finished without a word of {what}, which it was asked for: run the same command again"
            ))),
            None => Ok(()),
        }
    }

    /// The sender tells what directories hold.
    pub(super) fn names(
        &mut self,
        directories: Vec<DirectoryNames>,
        actions: &mut Vec<ReceiverAction>,
    ) -> Result<()> {
        self.offers.check_names(&directories)?;
        match self.ending {
            Ending::Naming => actions.push(ReceiverAction::CompareNames(directories)),
            _ => return Err(Error::protocol("the sender told names that nobody wanted")),
        }
        Ok(())
    }

    /// Names were compared; what fails there keeps everything.
    pub(super) fn names_compared(&mut self, compared: Result<()>, actions: &mut Vec<ReceiverAction>) {
        match compared {
            Err(error) if error.kind == ErrorKind::Protocol => {
                actions.push(ReceiverAction::Break(error));
                return;
            }
            Err(error) => self.removes_nothing(&error, actions),
            Ok(()) => {}
        }
        if self.ending == Ending::Naming {
            self.say(Message::WantNames(1), actions);
        }
    }

    /// All names were told, or cannot be.
    pub(super) fn all_names(
        &mut self,
        error: Option<Error>,
        actions: &mut Vec<ReceiverAction>,
    ) -> Result<()> {
        if self.ending != Ending::Naming {
            return Err(Error::protocol("the sender told names that nobody wanted"));
        }
        if let Some(error) = error.filter(|_| self.mirrors) {
            self.removes_nothing(&error, actions);
        }
        if self.mirrors {
            self.ending = Ending::Deleting;
            actions.push(ReceiverAction::Delete);
        } else {
            self.conclude(actions);
        }
        Ok(())
    }

    fn removes_nothing(&mut self, error: &Error, actions: &mut Vec<ReceiverAction>) {
        self.mirrors = false;
        self.tell_deleted(Deleted::nothing(error), actions);
    }

    fn tell_deleted(&mut self, Deleted { entries, error }: Deleted, actions: &mut Vec<ReceiverAction>) {
        actions.push(ReceiverAction::Count(Count::Deleted(entries)));
        actions.extend(error.clone().map(|error| ReceiverAction::Count(Count::NotDeleted(error))));
        self.say(Message::Deleted(entries, error), actions);
    }

    /// What had to go is gone.
    pub(super) fn deleted(&mut self, deleted: Option<Deleted>, actions: &mut Vec<ReceiverAction>) {
        if let Some(deleted) = deleted {
            self.tell_deleted(deleted, actions);
        }
        self.conclude(actions);
    }

    fn conclude(&mut self, actions: &mut Vec<ReceiverAction>) {
        self.ending = Ending::Concluding;
        actions.push(ReceiverAction::Conclude);
    }

    /// Everything is durable, or cannot be made so.
    pub(super) fn concluded(&mut self, concluded: Result<NotKept>, actions: &mut Vec<ReceiverAction>) {
        match concluded {
            Ok(not_kept) => {
                actions.push(ReceiverAction::Count(Count::NotKept(not_kept)));
                self.ending = Ending::Finished;
                self.say(Message::Finished(not_kept), actions);
            }
            Err(error) => actions.push(ReceiverAction::Break(error)),
        }
    }
}
