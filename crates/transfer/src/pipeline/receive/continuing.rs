//! Files of which an earlier run left something are read again before the sender is told what of them is
//! there: by a thread of their own, so that other files need not wait for that.

use std::collections::HashMap;
use std::sync::Arc;

use super::ReceiverState;
use crate::error::Result;
use crate::hash::Digest;
use crate::manifest::{Entry, FileId};
use crate::offer::Verdict;
use crate::pipeline::incoming::{Incoming, Portion};
use crate::pipeline::write_path::WriteHandler;
use crate::quota::remember;
use crate::split::{MAX_RANGES, SplitTask};
use crate::store::SinkFile;
use crate::store::split_part::SplitPart;
use crate::sys::sync::mpsc;
use crate::wire::message::Message;

/// Segments that are told at once while a file is still read: 64 MiB.
const SEGMENTS_AT_ONCE: usize = 16;

/// A file to be continued, and what is left of it.
pub(super) struct Continued {
    pub(super) id: FileId,
    pub(super) entry: Entry,
    pub(super) left: Leftover,
}

/// What of a file is there.
pub(super) enum Leftover {
    /// Segments of an unfinished file of this transfer's own.
    Here(HashMap<u64, Digest>),
    /// What other transfers have written of a split file; its unfinished file if it is known to be there.
    Split(SplitTask, Option<Arc<SplitPart>>),
}

impl Leftover {
    fn memory(&self) -> usize {
        match self {
            Self::Here(segments) => segments.len() * size_of::<(u64, Digest)>(),
            Self::Split(..) => size_of::<SplitPart>(),
        }
    }
}

impl ReceiverState {
    /// Leaves a file to the thread that reads again what is left.
    pub(super) fn put_off(&self, file: Continued) -> Result<()> {
        let taken = file.entry.memory() + file.left.memory();
        let held = remember(&self.share.metadata, taken)?;
        self.continued.lock().insert(file.id, (file.entry.clone(), held));
        if let Some(queue) = &*self.to_continue.lock() {
            let _ = queue.send(file);
        }
        Ok(())
    }

    /// What that thread does until the transfer ends.
    pub(super) fn continue_files(&self, files: &mpsc::Receiver<Continued>) {
        for Continued { id, entry, left } in files {
            if self.path.is_stopped() {
                return;
            }
            let path = entry.path.clone();
            let begun = match left {
                Leftover::Here(left) => {
                    let there = self.read_again(id, &entry, left);
                    if self.path.is_stopped() {
                        return;
                    }
                    there.and_then(|there| {
                        self.go_on(id, entry, Some(there).filter(|there| !there.is_empty()), None)
                    })
                }
                Leftover::Split(task, part) => self.go_on_with_split(id, entry, &task, part),
            };
            if self.path.is_stopped() {
                return;
            }
            let verdict = match &begun {
                Ok(None) => continue,
                Ok(Some(file)) if file.portion().is_some() => Verdict::WantRanges(file.missing(MAX_RANGES)),
                // What is there went ahead.
                Ok(Some(_)) => Verdict::Want { have: Vec::new() },
                Err(error) => {
                    self.continued.lock().remove(&id);
                    self.path.ledger.failed(path.as_bytes(), error.clone(), true);
                    Verdict::Failed(error.clone())
                }
            };
            self.outbox.send(&Message::Verdicts { first: id, verdicts: vec![verdict] });
            if let Ok(Some(file)) = begun
                && file.is_complete()
            {
                self.complete(&file);
            }
        }
    }

    /// The segments that are still there. Both ends count them as they are found, so that a long reading is seen
    /// to get on.
    fn read_again(
        &self,
        id: FileId,
        entry: &Entry,
        left: HashMap<u64, Digest>,
    ) -> Result<HashMap<u64, Digest>> {
        let there = self.read_part_again(id, entry, self.path.sink.open(entry, true), left);
        if there.is_empty() && !self.path.is_stopped() {
            // Nothing of it is of use: it gets a new unfinished file, which must not be taken for this one.
            self.path.start_anew([entry].into_iter())?;
        }
        Ok(there)
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
                let message = Message::Have(id, std::mem::take(&mut untold));
                self.outbox.send_patiently(&message, || self.path.is_stopped());
            }
        });
        if !untold.is_empty() {
            self.outbox.send(&Message::Have(id, untold));
        }
        there
    }

    /// Expects the rest of it; `None` if the sender gave the file up meanwhile.
    pub(super) fn go_on(
        &self,
        id: FileId,
        entry: Entry,
        there: Option<HashMap<u64, Digest>>,
        portion: Option<Portion>,
    ) -> Result<Option<Arc<Incoming>>> {
        self.wait_for_room();
        // In one step: the sender cannot finish while a file is in neither list.
        let mut continued = self.continued.lock();
        if continued.remove(&id).is_none() {
            return Ok(None);
        }
        self.expect_portion(id, entry, there, portion).map(Some)
    }
}
