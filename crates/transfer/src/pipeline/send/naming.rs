//! Reads what each directory of the source holds, as much at a time as is wanted.

use super::SenderState;
use crate::logic::sender::SenderEvent;
use crate::offer::{DirectoryNames, TOLD_DIRECTORIES};
use crate::sys::sync::mpsc;

/// Bytes of names in a message, about.
const PORTION: usize = 256 << 10;

impl SenderState {
    /// Tells of all names, a message each time it hears of `wanted`.
    pub(super) fn tell_names(&self, wanted: &mpsc::Receiver<()>) {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        let tell = |batch| wanted.recv().map(|()| self.events.tell(SenderEvent::Names(batch))).is_ok();
        let told = self.source.names(&mut |directory: DirectoryNames| {
            bytes += directory.names.len() + directory.directory.len();
            batch.push(directory);
            if bytes < PORTION && batch.len() < TOLD_DIRECTORIES {
                return true;
            }
            bytes = 0;
            tell(std::mem::take(&mut batch))
        });
        if batch.is_empty() || told.is_err() || tell(batch) {
            self.events.tell(SenderEvent::NamesEnd(told.err()));
        }
    }
}
