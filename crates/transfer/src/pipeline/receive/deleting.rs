//! Asks the sender for all names once everything has arrived, and has removed what is not among them.

use super::ReceiverState;
use crate::error::{Error, ErrorKind, Result};
use crate::manifest::{Kind, Timestamp};
use crate::mirror::Deleted;
use crate::mirror::plan::Extraneous;
use crate::offer::{DirectoryNames, OFFER_ENTRIES};
use crate::path::RelPath;
use crate::plan::{Action, EntryKind, Planned, PlannedChange};
use crate::wire::message::Message;

/// Messages of names that may be on their way.
const NAMES_AHEAD: u32 = 8;

impl ReceiverState {
    /// Whether names are wanted before the end, which are asked for now. Nothing is deleted where something failed: it
    /// may be what is missing at the source.
    pub(super) fn wants_names(&self) -> bool {
        let mut mirror = self.mirror.lock();
        if mirror.is_none() {
            return false;
        }
        if self.path.ledger.totals().files_failed > 0 {
            *mirror = None;
            let why = "not everything could be read or written; mend that and run the same command again";
            self.tell_deleted(Deleted::nothing(&Error::new(ErrorKind::Io, why)));
            return false;
        }
        self.outbox.send(&Message::WantNames(NAMES_AHEAD));
        true
    }

    /// Compares what the sender has told; what fails here keeps all of it.
    pub(super) fn compare_names(&self, directories: &[DirectoryNames]) -> Result<()> {
        self.outbox.send(&Message::WantNames(1));
        let mut mirror = self.mirror.lock();
        let Some(comparing) = mirror.as_mut() else { return Ok(()) };
        let mut going = Vec::new();
        let compared = comparing.compare(directories, &mut |extraneous| {
            going.push(extraneous);
            if going.len() >= OFFER_ENTRIES {
                self.tell_going(std::mem::take(&mut going));
            }
            Ok(())
        });
        self.tell_going(going);
        match compared {
            Err(error) if error.kind == ErrorKind::Protocol => Err(error),
            Err(error) => {
                *mirror = None;
                self.tell_deleted(Deleted::nothing(&error));
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// All names were told, or cannot be.
    pub(super) fn delete(&self, error: Option<Error>) -> Result<()> {
        let Some(mirror) = self.mirror.lock().take() else { return Ok(()) };
        // Only who was told that everything arrived may say what is no more.
        self.check_finish()?;
        self.tell_deleted(match error {
            Some(error) => Deleted::nothing(&error),
            None => mirror.act(),
        });
        Ok(())
    }

    /// Tells of what would be removed, here and to the sender.
    fn tell_going(&self, going: Vec<Extraneous>) {
        let planned: Vec<Planned> =
            going.into_iter().filter_map(|extraneous| self.planned_removal(extraneous)).collect();
        if !planned.is_empty() {
            self.path.ledger.would(planned.clone());
            self.outbox.send_patiently(&Message::Planned(planned), || self.path.is_stopped());
        }
    }

    /// None of what has vanished meanwhile.
    fn planned_removal(&self, extraneous: Extraneous) -> Option<Planned> {
        let path = RelPath::new(extraneous.path).ok()?;
        let there = self.path.sink.there(&path, Timestamp::default()).ok()??;
        let (kind, size) = match there.kind {
            Some(Kind::Directory) => (EntryKind::Directory, 0),
            Some(Kind::Symlink { .. }) => (EntryKind::Link, 0),
            Some(Kind::File { size, .. }) => (EntryKind::File, size),
            None => (EntryKind::File, 0),
        };
        let change = PlannedChange { action: Action::Delete, differs: Vec::new(), sent: false };
        Some(Planned { path, kind, size, change })
    }

    fn tell_deleted(&self, deleted: Deleted) {
        let Deleted { entries, error } = deleted;
        self.path.ledger.deleted(entries);
        if let Some(error) = &error {
            self.path.ledger.not_deleted(error.clone());
        }
        self.outbox.send(&Message::Deleted(entries, error));
    }
}
