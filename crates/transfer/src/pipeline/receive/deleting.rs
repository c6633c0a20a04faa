//! Asks the sender for all names once everything has arrived, and has removed what is not among them.

use super::ReceiverState;
use crate::error::{Error, ErrorKind, Result};
use crate::mirror::Deleted;
use crate::offer::DirectoryNames;
use crate::wire::message::Message;

/// Messages of names that may be on their way.
const NAMES_AHEAD: u32 = 8;

impl ReceiverState {
    /// Whether names are wanted before the end, which are asked for now. Nothing is deleted where something failed: it
    /// may be what is missing at the source.
    pub(super) fn wants_names(&self) -> bool {
        let mut mirror = self.mirror.lock().expect("not poisoned");
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
        let mut mirror = self.mirror.lock().expect("not poisoned");
        let Some(comparing) = mirror.as_mut() else { return Ok(()) };
        match comparing.compare(directories) {
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
        let Some(mirror) = self.mirror.lock().expect("not poisoned").take() else { return Ok(()) };
        // Only who was told that everything arrived may say what is no more.
        self.check_finish()?;
        self.tell_deleted(match error {
            Some(error) => Deleted::nothing(&error),
            None => mirror.act(),
        });
        Ok(())
    }

    fn tell_deleted(&self, deleted: Deleted) {
        let Deleted { entries, error } = deleted;
        self.path.ledger.deleted(entries);
        if let Some(error) = &error {
            self.path.ledger.failed(b"", error.clone(), false);
        }
        self.outbox.send(&Message::Deleted(entries, error));
    }
}
