//! How entries end.

use super::{Open, SenderAction, SenderLogic};
use crate::error::{Error, Result};
use crate::logic::count::Count;
use crate::manifest::FileId;
use crate::path::RelPath;
use crate::wire::message::Message;

impl SenderLogic {
    /// Takes an entry off the list; `None` if it has ended before.
    pub(super) fn end(&mut self, id: FileId, out: &mut Vec<SenderAction>) -> Option<Open> {
        let open = self.open.remove(&id)?;
        self.bytes -= open.listed.entry.memory();
        if open.is_begun {
            out.push(SenderAction::End(id));
        }
        Some(open)
    }

    pub(super) fn count_end(&mut self, id: FileId, count: Count, out: &mut Vec<SenderAction>) {
        if self.end(id, out).is_some() {
            out.push(SenderAction::Count(count));
        }
    }

    pub(super) fn failed(&mut self, id: FileId, error: Error, out: &mut Vec<SenderAction>) {
        if let Some(open) = self.end(id, out) {
            let (path, was_listed) = (open.listed.entry.path.as_bytes().to_vec(), open.is_file());
            out.push(SenderAction::Count(Count::Failed { path, error, was_listed }));
        }
    }

    /// A file will not be completed.
    pub(super) fn abandon(&mut self, id: FileId, error: Error, out: &mut Vec<SenderAction>) {
        if self.open.contains_key(&id) {
            out.push(SenderAction::Say(Message::Abandon(id, error.clone())));
            self.failed(id, error, out);
        }
    }

    /// A file is durable at the receiver, with the content that was read here in this run.
    pub(super) fn committed(&mut self, id: FileId, out: &mut Vec<SenderAction>) {
        let Some(open) = self.open.get(&id) else { return };
        let done = Count::Done(open.size() - open.kept);
        match self.terms.moves {
            true => self.remove(id, done, out),
            false => self.count_end(id, done, out),
        }
    }

    /// Has a file removed that is to be moved; then it counts.
    pub(super) fn remove(&mut self, id: FileId, count: Count, out: &mut Vec<SenderAction>) {
        if let Some(open) = self.open.remove(&id) {
            self.removing.insert(id, (open.listed, count));
            out.push(SenderAction::Remove(id));
        }
    }

    /// It was, or could not be.
    pub(super) fn removed(&mut self, id: FileId, removed: Result<()>, out: &mut Vec<SenderAction>) {
        let Some((listed, count)) = self.removing.remove(&id) else { return };
        self.bytes -= listed.entry.memory();
        match removed {
            Ok(()) => out.push(SenderAction::Count(count)),
            Err(error) => say_that_it_stays(&listed.entry.path, error, out),
        }
    }

    /// A file that was to be moved is there without having been read.
    pub(super) fn stays(&mut self, id: FileId, error: Error, out: &mut Vec<SenderAction>) {
        if let Some(open) = self.end(id, out) {
            say_that_it_stays(&open.listed.entry.path, error, out);
        }
    }
}

fn say_that_it_stays(path: &RelPath, error: Error, out: &mut Vec<SenderAction>) {
    let why = format!("{path} is there and stays at the source: {error}");
    let (error, path) = (error.in_words(why), path.as_bytes().to_vec());
    out.push(SenderAction::Say(Message::Problem(path.clone(), error.clone())));
    out.push(SenderAction::Count(Count::Failed { path, error, was_listed: true }));
}
