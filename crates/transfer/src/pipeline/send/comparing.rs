//! Reads files that the receiver may have, aside from the pipeline, and says what they hash to.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::{SendFile, SenderState};
use crate::error::{Error, ErrorKind, Result};
use crate::hash::{Digest, FileHash, block_digest};
use crate::manifest::BLOCK;
use crate::pipeline::proof::ZEROS;
use crate::store::BlockContent;
use crate::sys::sync::{Mutex, mpsc};
use crate::sys::thread;
use crate::terms::Purpose;
use crate::wire::message::Message;

/// Most threads that read files for their hashes.
const COMPARERS: usize = 4;

/// A file to be read for its root hash, and what the receiver has; `None` if it only wants to be told.
pub(super) type Comparison = (Arc<SendFile>, Option<Digest>);

impl SenderState {
    /// Leaves it to a thread of its own: reading whole files would hold up every other message.
    pub(super) fn compare_aside(self: &Arc<Self>, comparison: Comparison) {
        let mut comparisons = self.comparisons.lock();
        let queue = comparisons.get_or_insert_with(|| {
            let (queue, to_compare) = mpsc::channel::<Comparison>();
            let to_compare = Arc::new(Mutex::new(to_compare));
            for number in 0..COMPARERS {
                // One reads everything, if need be.
                let held = if number == 0 { None } else { self.threads.take(1) };
                if number > 0 && held.is_none() {
                    break;
                }
                let (comparer, to_compare) = (Arc::downgrade(self), Arc::clone(&to_compare));
                let work = move || {
                    let _held = held;
                    let next = || to_compare.lock().recv();
                    while let Ok((file, theirs)) = next() {
                        let Some(shared) = comparer.upgrade() else { return };
                        shared.compare(&file, theirs);
                    }
                };
                if let Err(error) = thread::Builder::new().name("compare".to_owned()).spawn(work)
                    && number == 0
                {
                    self.fail(Error::new(ErrorKind::Io, format!("cannot start a thread: {error}")));
                }
            }
            queue
        });
        let _ = queue.send(comparison);
    }

    /// Reads the file to compare its root hash with the receiver's, or to tell it.
    fn compare(&self, file: &Arc<SendFile>, theirs: Option<Digest>) {
        match self.root_of(file) {
            // Of what is only said the receiver has the last word.
            Ok(ours) if theirs.is_none() || (self.plans() && theirs == Some(ours)) => {
                file.told();
                self.outbox.send(&Message::Keep(vec![(file.id, ours)]));
            }
            // It is removed once the receiver has made its own durable.
            Ok(ours) if theirs == Some(ours) && self.source.is_moved() => {
                file.told();
                self.outbox.send(&Message::Keep(vec![(file.id, ours)]));
            }
            Ok(ours) if theirs == Some(ours) => self.end(file.id, |file| {
                self.outbox.send(&Message::Keep(vec![(file.id, ours)]));
                self.ledger.skipped(file.size);
            }),
            Ok(_) => {
                file.told();
                // Its blocks must not overtake this message: the receiver answers that it wants them.
                self.outbox.send(&Message::Replace(vec![file.id]));
                if self.terms.purpose == Purpose::Compare {
                    let error = Error::new(ErrorKind::Corrupt, format!("{} differs", file.listed.entry.path));
                    self.end(file.id, |file| self.ledger.failed(file.path(), error, true));
                }
            }
            Err(_) if self.stopped.load(Relaxed) => return,
            Err(error) => self.abandon(file, error),
        }
        self.finish_if_done();
    }

    fn plans(&self) -> bool {
        self.terms.purpose == Purpose::Plan
    }

    fn root_of(&self, file: &SendFile) -> Result<Digest> {
        let mut reader = self.source.open(&file.listed, 0..file.size)?;
        let mut hash = FileHash::new(file.size);
        let mut buffer = vec![0; BLOCK as usize];
        let mut offset = 0;
        while !hash.is_complete() {
            if self.stopped.load(Relaxed) {
                return Err(Error::new(ErrorKind::Interrupted, "stopped"));
            }
            let length = (file.size - offset).min(BLOCK) as usize;
            let data = match reader.read(offset, &mut buffer[..length])? {
                BlockContent::Data => &buffer[..length],
                BlockContent::Zero => &ZEROS[..length],
            };
            hash.add_block(offset, block_digest(data, offset, file.size));
            offset += length as u64;
        }
        Ok(hash.root().expect("complete"))
    }
}
