//! Files of which an earlier run left something are read again before the sender is told what of them is
//! there: by a thread of their own, so that other files need not wait for that.

use std::collections::HashMap;
use std::sync::Arc;

use super::ReceiverState;
use crate::error::Result;
use crate::hash::Digest;
use crate::logic::receiver::ReceiverEvent;
use crate::manifest::{Entry, FileId};
use crate::pipeline::write_path::WriteHandler;
use crate::spec::RunId;
use crate::split::SplitTask;
use crate::store::SinkFile;
use crate::store::split_part::SplitPart;
use crate::sys::sync::mpsc;

/// Segments that are told at once while a file is still read: 64 MiB.
const SEGMENTS_AT_ONCE: usize = 16;

/// A file to be continued, and what is left of it.
pub(super) struct Continued {
    pub(super) id: FileId,
    pub(super) entry: Arc<Entry>,
    pub(super) left: Leftover,
}

/// What of a file is there.
pub(super) enum Leftover {
    /// Segments of an unfinished file of this transfer's own.
    Here(HashMap<u64, Digest>),
    /// What other transfers of a run have written of a split file; its unfinished file if it is known to be there.
    Split { run: RunId, task: SplitTask, part: Option<Arc<SplitPart>> },
}

impl ReceiverState {
    /// What that thread does until the transfer ends.
    pub(super) fn continue_files(&self, files: &mpsc::Receiver<Continued>) {
        for Continued { id, entry, left } in files {
            if self.path.is_stopped() {
                return;
            }
            let event = match left {
                // Both ends count segments as they are found, so that a long reading is seen to get on.
                Leftover::Here(left) => {
                    let there = self.read_part_again(id, &entry, self.path.sink.open(&entry, true), left);
                    ReceiverEvent::ReadAgain(id, there)
                }
                Leftover::Split { run, task, part } => {
                    // Whoever has lost its lease makes nothing where others write.
                    if let Err(error) = self.path.may_write() {
                        self.fail(error);
                        return;
                    }
                    ReceiverEvent::Shared(id, self.begin_split(id, entry, (&run, &task), part))
                }
            };
            if self.path.is_stopped() {
                return;
            }
            self.tell(event);
        }
    }

    /// The segments of `left` that are still in `part`.
    pub(super) fn read_part_again(
        &self,
        id: FileId,
        entry: &Entry,
        part: Result<Box<dyn SinkFile>>,
        left: HashMap<u64, Digest>,
    ) -> HashMap<u64, Digest> {
        let mut untold = Vec::new();
        let of = (entry.size(), self.terms.verify);
        let there = self.path.read_part_again(part, of, left, |segment, digest| {
            untold.push((segment, digest));
            if untold.len() >= SEGMENTS_AT_ONCE {
                self.outbox.wait_for_room(|| self.path.is_stopped());
                self.tell(ReceiverEvent::Found(id, std::mem::take(&mut untold)));
            }
        });
        if !untold.is_empty() {
            self.tell(ReceiverEvent::Found(id, untold));
        }
        there
    }
}
