//! What would become of each entry, where that is only to be said: in the order of the offers, though some are known
//! later than others.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

use super::deciding::{Decision, Facts};
use super::preparing::Intent;
use super::{Compared, ReceiverState};
use crate::catalogue::Verified;
use crate::error::{Error, Result};
use crate::journal::Left;
use crate::manifest::{Entry, FileId, Kind, segment_range};
use crate::offer::{OFFER_ENTRIES, Verdict};
use crate::pipeline::write_path::{WriteHandler, segments_left};
use crate::plan::{Difference, Planned, PlannedChange};
use crate::quota::{Held, remember};
use crate::store::{Standing, There};
use crate::sys::sync::mpsc;
use crate::wire::message::Message;

/// Segments in one message.
const TOLD_SEGMENTS: usize = 4096;

/// What is known at once of an entry.
enum Looked {
    /// What would become of it.
    Decided(Verdict),
    /// What the sender is to be asked first.
    Asks(Verdict),
}

/// What was decided and not told yet, for something before it is not.
#[derive(Default)]
struct Decided {
    /// The next to be told.
    next: FileId,
    waiting: BTreeMap<FileId, (Entry, Verdict, Held)>,
}

impl Decided {
    /// What can be told now, at most one message of it.
    fn ready(&mut self) -> Vec<(Entry, Verdict)> {
        let mut ready = Vec::new();
        while ready.len() < OFFER_ENTRIES
            && let Some((entry, verdict, _)) = self.waiting.remove(&self.next)
        {
            self.next += 1;
            ready.push((entry, verdict));
        }
        ready
    }
}

impl ReceiverState {
    /// Acts on what the sender says, and makes nothing.
    pub(super) fn plan(&self, intents: &mpsc::Receiver<(Intent, Held)>) {
        let mut decided = Decided::default();
        for (intent, _held) in intents {
            if self.path.is_stopped() {
                return;
            }
            self.waiting.fetch_sub(intent.entries(), Relaxed);
            match intent {
                // Everything else has been told: what a mirror would remove follows.
                Intent::Finish => self.finish_after(self.check_finish().map(|()| self.wants_names())),
                Intent::Names(directories) => {
                    if let Err(error) = self.compare_names(&directories) {
                        self.fail(error);
                    }
                }
                Intent::NamesEnd(error) => self.finish_after(self.delete(error).map(|()| false)),
                entries => match self.decide(entries, &mut decided) {
                    Ok(()) => self.tell(&mut decided),
                    Err(error) => self.fail(error),
                },
            }
        }
    }

    fn decide(&self, intent: Intent, decided: &mut Decided) -> Result<()> {
        let mut put = |id, entry: Entry, verdict| -> Result<()> {
            let held = remember(&self.share.metadata, entry.memory())?;
            decided.waiting.insert(id, (entry, verdict, held));
            Ok(())
        };
        match intent {
            Intent::Offer(first, entries) => {
                let known = self.known(&entries);
                for ((id, entry), known) in (first..).zip(entries).zip(known) {
                    if let Kind::File { size, .. } = entry.kind {
                        self.path.ledger.listed(size);
                    }
                    match self.look(id, &entry, known).unwrap_or_else(|error| self.cannot(&entry, error)) {
                        Looked::Decided(verdict) => put(id, entry, verdict)?,
                        Looked::Asks(verdict) => {
                            let asked = Message::Verdicts { first: id, verdicts: vec![verdict] };
                            self.outbox.send_patiently(&asked, || self.path.is_stopped());
                        }
                    }
                }
            }
            Intent::Replace(files) => {
                for (id, file) in files {
                    let verdict = self.compared_with(&file, false);
                    put(id, file.entry, verdict)?;
                }
            }
            Intent::Keep(files) => {
                for (id, file, root) in files {
                    let is_same = file
                        .recorded
                        .is_none_or(|(hash, mtime)| hash == root && self.still_has(&file.entry, mtime));
                    let verdict = self.compared_with(&file, is_same);
                    put(id, file.entry, verdict)?;
                }
            }
            Intent::Abandon(id, file, error) => {
                let (Looked::Decided(verdict) | Looked::Asks(verdict)) = self.cannot(&file.entry, error);
                put(id, file.entry, verdict)?;
            }
            Intent::Finish | Intent::Names(_) | Intent::NamesEnd(_) => {}
        }
        Ok(())
    }

    /// A run could not copy it.
    fn cannot(&self, entry: &Entry, error: Error) -> Looked {
        if !self.path.is_stopped() {
            let is_file = matches!(entry.kind, Kind::File { .. });
            self.path.ledger.failed(entry.path.as_bytes(), error.clone(), is_file);
        }
        Looked::Decided(Verdict::Failed(error))
    }

    /// What a run would do about an entry, decided as it does.
    fn look(&self, id: FileId, entry: &Entry, known: Option<Verified>) -> Result<Looked> {
        let would = |change| Ok(Looked::Decided(Verdict::Would(change)));
        self.is_first(entry)?;
        if self.leaves_out(entry)? {
            return Ok(Looked::Decided(Verdict::Leave));
        }
        let standing = self.path.sink.prepare(entry, true)?;
        let left = self.leftovers.lock().as_mut().and_then(|left| left.take(entry));
        let has_part = left.is_some() && self.path.sink.has_part(entry);
        let there = self.path.sink.there(&entry.path, entry.mtime)?;
        // The very same file differs in nothing, whatever a link to it has.
        let differs = match (&there, &standing) {
            (Some(there), standing) if *standing != Standing::Same => differences(entry, there),
            _ => Vec::new(),
        };
        let change = |differs, sent| match &there {
            Some(_) => PlannedChange::of(differs, sent),
            None => PlannedChange::new(sent),
        };
        let facts = Facts { standing, known, left: left.as_ref(), has_part, is_split: false };
        match self.policy.decide(entry, &facts) {
            Decision::Made => would(change(differs, false)),
            Decision::Keep { .. } => {
                self.path.ledger.skipped(entry.size());
                would(change(differs, false))
            }
            Decision::CompareContent => {
                let digest = self.path.sink.digest(entry, &|| self.path.is_stopped())?;
                self.compare(id, entry, None)?;
                Ok(Looked::Asks(Verdict::Exists(digest)))
            }
            Decision::CompareHash { recorded, mtime } => {
                self.compare(id, entry, Some((recorded, mtime)))?;
                Ok(Looked::Asks(Verdict::Tell))
            }
            Decision::Continue => {
                self.path.sink.takes(entry)?;
                self.would_go_on(id, entry, left.unwrap_or_default());
                would(change(differs, true))
            }
            Decision::Send { unverified, .. } => {
                self.path.sink.takes(entry)?;
                let unverified = unverified.then_some(Difference::Unverified);
                would(change(differs.into_iter().chain(unverified).collect(), true))
            }
            Decision::Missing | Decision::Share => {
                Err(Error::protocol(format!("{} is compared or split, and not planned", entry.path)))
            }
        }
    }

    /// Tells which segments of a file that would be sent are there from an earlier run.
    fn would_go_on(&self, id: FileId, entry: &Entry, left: Left) {
        let segments: Vec<_> = segments_left(left, entry.size()).into_iter().collect();
        let there = segments.iter().map(|(segment, _)| segment_range(*segment, entry.size()));
        self.path.ledger.already(there.map(|range| range.end - range.start).sum());
        for some in segments.chunks(TOLD_SEGMENTS) {
            let message = Message::Have(id, some.to_vec());
            self.outbox.send_patiently(&message, || self.path.is_stopped());
        }
    }

    /// What would become of a file that is there, after the sender has read its own.
    fn compared_with(&self, file: &Compared, is_same: bool) -> Verdict {
        let entry = &file.entry;
        let takes = || if is_same { Ok(()) } else { self.path.sink.takes(entry) };
        match takes().and_then(|()| self.path.sink.there(&entry.path, entry.mtime)) {
            Ok(there) => {
                let mut differs = there.map(|there| differences(entry, &there)).unwrap_or_default();
                if is_same {
                    self.path.ledger.skipped(entry.size());
                } else {
                    differs.push(Difference::Content);
                }
                Verdict::Would(PlannedChange::of(differs, !is_same))
            }
            Err(error) => {
                self.path.ledger.failed(entry.path.as_bytes(), error.clone(), true);
                Verdict::Failed(error)
            }
        }
    }

    /// Tells what may be told by now: whoever listens here first, as nothing more is offered before the sender knows.
    fn tell(&self, decided: &mut Decided) {
        loop {
            let first = decided.next;
            let ready = decided.ready();
            if ready.is_empty() {
                return;
            }
            let (mut planned, mut verdicts) = (Vec::new(), Vec::new());
            for (entry, verdict) in ready {
                if let Verdict::Would(change) = &verdict {
                    planned.push(Planned::new(entry, change.clone()));
                }
                verdicts.push(verdict);
            }
            self.path.ledger.would(planned);
            let told = Message::Verdicts { first, verdicts };
            self.outbox.send_patiently(&told, || self.path.is_stopped());
        }
    }
}

/// In what an entry differs from what bears its name.
fn differences(entry: &Entry, there: &There) -> Vec<Difference> {
    let mut differs = Vec::new();
    let mut note = |is_other: bool, difference| {
        if is_other {
            differs.push(difference);
        }
    };
    match (&entry.kind, &there.kind) {
        (Kind::File { size, .. }, Some(Kind::File { size: other, .. })) => {
            note(size != other, Difference::Size);
        }
        (Kind::Symlink { target }, Some(Kind::Symlink { target: other })) => {
            note(target != other, Difference::Target);
        }
        (Kind::Directory, Some(Kind::Directory)) => {}
        _ => return vec![Difference::Kind],
    }
    note(entry.mtime != there.mtime, Difference::Time);
    // A link has none of its own.
    let has_mode = !matches!(entry.kind, Kind::Symlink { .. });
    note(has_mode && entry.mode & 0o777 != there.mode, Difference::Mode);
    differs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::Timestamp;
    use crate::path::RelPath;

    fn entry(kind: Kind) -> Entry {
        let mtime = Timestamp { seconds: 5, nanoseconds: 6 };
        Entry::new(RelPath::new("a").expect("a name"), kind, 0o640, mtime)
    }

    #[test]
    fn what_differs_is_what_a_run_would_set() {
        use Difference::{Kind as Other, Mode, Size, Target, Time};
        let file = |size| Kind::File { size, fingerprint: [size as u8; 16] };
        let link = |target: &str| Kind::Symlink { target: target.as_bytes().to_vec() };
        let late = Timestamp { seconds: 5, nanoseconds: 7 };
        let at = entry(file(1)).mtime;
        for (ours, theirs, mode, mtime, differs) in [
            (file(1), Some(file(1)), 0o640, at, &[][..]),
            (file(1), Some(file(2)), 0o600, late, &[Size, Time, Mode]),
            (file(1), Some(link("x")), 0o777, at, &[Other]),
            (file(1), None, 0o640, at, &[Other]),
            (link("x"), Some(link("x")), 0o777, at, &[]),
            (link("x"), Some(link("y")), 0o777, late, &[Target, Time]),
            (Kind::Directory, Some(Kind::Directory), 0o700, at, &[Mode]),
        ] {
            let found = differences(&entry(ours.clone()), &There { kind: theirs.clone(), mode, mtime });
            assert_eq!(found, differs, "{ours:?} over {theirs:?}");
        }
    }

    #[test]
    fn what_is_decided_is_told_in_the_order_of_the_offers() {
        let mut decided = Decided::default();
        let quota = crate::quota::Quota::unlimited();
        let put = |decided: &mut Decided, id| {
            let held = quota.take(0).expect("nothing is always left");
            decided.waiting.insert(id, (entry(Kind::Directory), Verdict::Leave, held));
        };
        put(&mut decided, 2);
        put(&mut decided, 1);
        assert!(decided.ready().is_empty(), "the first is not known");
        put(&mut decided, 0);
        assert_eq!((decided.ready().len(), decided.next), (3, 3));
        (3..3 + 2 * OFFER_ENTRIES as FileId).for_each(|id| put(&mut decided, id));
        assert_eq!(decided.ready().len(), OFFER_ENTRIES, "one message");
        assert_eq!((decided.ready().len(), decided.ready().len()), (OFFER_ENTRIES, 0));
    }
}
