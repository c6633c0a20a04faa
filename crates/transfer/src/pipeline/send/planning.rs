//! What the receiver would do with each entry, told to whoever listens at this end: by a thread of its own, for they may
//! take their time. As long as they do no more is offered than otherwise waits for a verdict.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::{Asked, SenderState};
use crate::error::{Error, ErrorKind, Result};
use crate::manifest::{Entry, FileId, Kind};
use crate::offer::{Verdict, WINDOW};
use crate::plan::Planned;
use crate::sys::sync::mpsc;
use crate::sys::thread;
use crate::terms::Purpose;

/// What the receiver has said.
#[derive(Debug)]
pub(super) enum Decided {
    /// What it would do with entries.
    Entries(Vec<(Entry, Verdict)>),
    /// What it would remove.
    Removals(Vec<Planned>),
}

impl SenderState {
    /// Acts on verdicts where it is only to be said what would be done.
    pub(super) fn decisions(self: &Arc<Self>, first: FileId, verdicts: Vec<Verdict>) -> Result<()> {
        let mut decided = Vec::new();
        for (id, verdict) in (first..).zip(verdicts) {
            match verdict {
                Verdict::Exists(_) | Verdict::Tell => {
                    let file = self.pending.lock().files.get(&id).map(Arc::clone);
                    let Some(file) = file else { continue };
                    file.asked(&[Asked::Offered], Asked::Compared)?;
                    let theirs = if let Verdict::Exists(theirs) = verdict { Some(theirs) } else { None };
                    self.compare_aside((file, theirs));
                }
                Verdict::Would(_) | Verdict::Leave | Verdict::Failed(_) => {
                    decided.extend(self.taken_off(id).map(|entry| (entry, verdict)));
                }
                Verdict::Want { .. } | Verdict::WantRanges(_) | Verdict::Skip | Verdict::Made => {
                    return Err(Error::protocol(
                        "the receiver began to copy, and was asked what it would do",
                    ));
                }
            }
        }
        if !decided.is_empty() {
            self.tell_aside(Decided::Entries(decided));
        }
        Ok(())
    }

    /// The receiver would remove these.
    pub(super) fn removals(self: &Arc<Self>, planned: Vec<Planned>) -> Result<()> {
        if self.terms.purpose != Purpose::Plan {
            return Err(Error::protocol("the receiver said what it would do, and was not asked"));
        }
        self.pending.lock().untold += planned.len();
        self.tell_aside(Decided::Removals(planned));
        Ok(())
    }

    /// Whether whoever listens is so far behind that no more is to be asked for.
    pub(super) fn is_behind(&self) -> bool {
        self.pending.lock().untold > WINDOW
    }

    /// Takes an entry off the list: it counts as untold from now on.
    fn taken_off(&self, id: FileId) -> Option<Entry> {
        let mut pending = self.pending.lock();
        let file = pending.files.remove(&id).map(|file| {
            file.ended.store(true, Relaxed);
            file.listed.entry.clone()
        });
        let entry = file.or_else(|| pending.others.remove(&id).map(|listed| listed.entry))?;
        pending.untold += 1;
        Some(entry)
    }

    fn tell_aside(self: &Arc<Self>, decided: Decided) {
        let mut queue = self.decided.lock();
        let queue = queue.get_or_insert_with(|| {
            let (queue, to_tell) = mpsc::channel::<Decided>();
            let teller = Arc::downgrade(self);
            let work = move || {
                while let Ok(decided) = to_tell.recv() {
                    let Some(shared) = teller.upgrade() else { return };
                    match decided {
                        Decided::Entries(decided) => shared.tell_entries(decided),
                        Decided::Removals(planned) => shared.tell_removals(planned),
                    }
                }
            };
            if let Err(error) = thread::Builder::new().name("tell".to_owned()).spawn(work) {
                self.fail(Error::new(ErrorKind::Io, format!("cannot start a thread: {error}")));
            }
            queue
        });
        let _ = queue.send(decided);
    }

    fn tell_removals(&self, planned: Vec<Planned>) {
        let count = planned.len();
        self.ledger.would(planned);
        self.pending.lock().untold -= count;
        self.room.notify_all();
    }

    fn tell_entries(&self, decided: Vec<(Entry, Verdict)>) {
        let count = decided.len();
        let names: usize = decided.iter().map(|(entry, _)| entry.memory()).sum();
        let mut planned = Vec::with_capacity(count);
        for (entry, verdict) in decided {
            let is_file = matches!(entry.kind, Kind::File { .. });
            match verdict {
                Verdict::Failed(error) => self.ledger.failed(entry.path.as_bytes(), error, is_file),
                Verdict::Leave if is_file => self.ledger.left_out(entry.size()),
                Verdict::Would(change) => {
                    if is_file && !change.sent {
                        self.ledger.skipped(entry.size());
                    }
                    planned.push(Planned::new(entry, change));
                }
                _ => {}
            }
        }
        self.ledger.would(planned);
        {
            let mut pending = self.pending.lock();
            pending.untold -= count;
            pending.names -= names;
            // Whoever waits for the end counts on it, too.
            self.room.notify_all();
        }
        self.finish_if_done();
    }
}
