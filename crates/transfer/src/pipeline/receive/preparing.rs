//! What is there already, decided for each entry in the order of the offers, and what the sender answers
//! to that.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::continuing::{Continued, Leftover};
use super::deciding::{Decision, Facts};
use super::{Compared, ReceiverState};
use crate::catalogue::Verified;
use crate::error::{Error, ErrorKind, Result};
use crate::hash::Digest;
use crate::manifest::{Entry, FileId, Kind, Timestamp};
use crate::offer::{DirectoryNames, Verdict};
use crate::pipeline::incoming::{Incoming, Portion};
use crate::pipeline::write_path::{WriteHandler, segments_left};
use crate::quota::{Held, remember};
use crate::selection::Taking;
use crate::store::Standing;
use crate::sys::sync::mpsc;
use crate::sys::thread;
use crate::terms::Purpose;
use crate::text::show;
use crate::wire::message::Message;

/// What the preparing thread does, in the order the sender asked.
pub(super) enum Intent {
    Offer(FileId, Vec<Entry>),
    /// Files that differ.
    Replace(Vec<(FileId, Compared)>),
    /// Files that the sender has read, and their hashes there.
    Keep(Vec<(FileId, Compared, Digest)>),
    /// The sender could not read a file that was to be compared.
    Abandon(FileId, Compared, Error),
    Finish,
    Names(Vec<DirectoryNames>),
    NamesEnd(Option<Error>),
}

impl Intent {
    /// What it takes in memory.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Offer(_, entries) => entries.iter().map(Entry::memory).sum(),
            Self::Replace(files) => size_of_val(&files[..]),
            Self::Keep(files) => size_of_val(&files[..]),
            Self::Abandon(_, _, error) => error.message.len(),
            Self::Names(directories) => {
                let each = |names: &DirectoryNames| {
                    size_of::<DirectoryNames>() + names.directory.len() + names.names.len()
                };
                directories.iter().map(each).sum()
            }
            Self::Finish | Self::NamesEnd(_) => 0,
        }
    }

    /// What it adds to the queue; one at least, as it takes room itself.
    pub(super) fn entries(&self) -> usize {
        let entries = match self {
            Self::Offer(_, entries) => entries.len(),
            Self::Replace(files) => files.len(),
            Self::Keep(files) => files.len(),
            Self::Abandon(..) | Self::Finish | Self::Names(_) | Self::NamesEnd(_) => 0,
        };
        entries.max(1)
    }
}

impl ReceiverState {
    pub(super) fn prepare(&self, intents: &mpsc::Receiver<(Intent, Held)>) {
        let stopped = || self.path.is_stopped();
        for (intent, _held) in intents {
            if self.path.is_stopped() {
                return;
            }
            self.waiting.fetch_sub(intent.entries(), Relaxed);
            match intent {
                Intent::Offer(first, entries) => {
                    let mut whole = Vec::new();
                    let mut verdicts = Vec::with_capacity(entries.len());
                    let tell = |before: FileId, verdicts: &mut Vec<Verdict>| {
                        let verdicts = std::mem::take(verdicts);
                        if !verdicts.is_empty() {
                            let first = before - verdicts.len() as FileId;
                            self.outbox.send_patiently(&Message::Verdicts { first, verdicts }, stopped);
                        }
                    };
                    let end = first + entries.len() as FileId;
                    let known = self.known(&entries);
                    for ((id, entry), known) in (first..).zip(entries).zip(known) {
                        match self.verdict(id, &entry, known, &mut whole) {
                            Some(verdict) => verdicts.push(verdict),
                            // Its verdict comes by itself, and those behind it do not wait for that.
                            None => tell(id, &mut verdicts),
                        }
                    }
                    tell(end, &mut verdicts);
                    // After the verdicts, so that the sender knows a file before it is done.
                    whole.into_iter().for_each(|file| self.complete(&file));
                }
                Intent::Replace(differ) => {
                    if self.compares_only() {
                        for (_, Compared { entry, .. }) in &differ {
                            let error = Error::new(ErrorKind::Corrupt, format!("{} differs", entry.path));
                            self.path.ledger.failed(entry.path.as_bytes(), error, true);
                        }
                        continue;
                    }
                    self.replace(differ);
                }
                Intent::Keep(files) => self.keep(files),
                // Only where it is to be said what would be done.
                Intent::Abandon(..) => {}
                Intent::Finish => self.finish_after(self.check_finish().map(|()| self.wants_names())),
                Intent::Names(directories) => {
                    if let Err(error) = self.compare_names(&directories) {
                        self.fail(error);
                    }
                }
                Intent::NamesEnd(error) => self.finish_after(self.delete(error).map(|()| false)),
            }
        }
    }

    /// Everything the sender offered has ended, if `result` says so.
    pub(super) fn end_with(&self, result: Result<()>) {
        match result {
            Ok(()) => {
                self.finished.store(true, Relaxed);
                self.outbox.send(&Message::Finished(self.path.ledger.not_kept()));
            }
            Err(error) => self.fail(error),
        }
    }

    fn compares_only(&self) -> bool {
        self.terms.purpose == Purpose::Compare
    }

    /// What the sender is told of an entry; `None` if that needs a longer look.
    fn verdict(
        &self,
        id: FileId,
        entry: &Entry,
        known: Option<Verified>,
        whole: &mut Vec<Arc<Incoming>>,
    ) -> Option<Verdict> {
        if let Kind::File { size, .. } = entry.kind {
            self.path.ledger.listed(size);
        }
        self.try_verdict(id, entry, known, whole).unwrap_or_else(|error| {
            if !self.path.is_stopped() {
                let is_file = matches!(entry.kind, Kind::File { .. });
                self.path.ledger.failed(entry.path.as_bytes(), error.clone(), is_file);
            }
            Some(Verdict::Failed(error))
        })
    }

    fn try_verdict(
        &self,
        id: FileId,
        entry: &Entry,
        known: Option<Verified>,
        whole: &mut Vec<Arc<Incoming>>,
    ) -> Result<Option<Verdict>> {
        let is_first = self.is_first(entry)?;
        if self.leaves_out(entry)? {
            return Ok(Some(Verdict::Leave));
        }
        let standing = self.path.sink.prepare(entry, self.compares_only())?;
        let is_looked_for = matches!(entry.kind, Kind::File { .. }) && standing != Standing::Same;
        let split = if is_looked_for { self.split_left(entry)? } else { None };
        let left = self.path.journal().filter(|_| is_looked_for && split.is_none());
        let left = left.and_then(|journal| journal.lock().take_left(entry));
        let facts = Facts {
            standing,
            known,
            left: left.as_ref(),
            has_part: left.is_some() && self.path.sink.has_part(entry),
            is_split: split.is_some(),
        };
        match self.policy.decide(entry, &facts) {
            Decision::Made => {
                if let (Kind::Directory, true, Some(journal)) = (&entry.kind, is_first, self.path.journal()) {
                    journal.lock().directory(entry)?;
                }
                Ok(Some(Verdict::Made))
            }
            Decision::Keep { other_mode, unrecorded } => {
                if let Some(root) = unrecorded {
                    self.remember(entry, root);
                }
                let refreshes = other_mode && !self.compares_only();
                if refreshes {
                    self.path.sink.refresh(entry)?;
                    self.path.ledger.refreshed();
                }
                self.path.ledger.skipped(entry.size());
                Ok(Some(if refreshes { Verdict::Made } else { Verdict::Skip }))
            }
            Decision::CompareContent => {
                let digest = self.path.sink.digest(entry, &|| self.path.is_stopped())?;
                self.compare(id, entry, None)?;
                Ok(Some(Verdict::Exists(digest)))
            }
            Decision::CompareHash { recorded, mtime } => {
                self.compare(id, entry, Some((recorded, mtime)))?;
                Ok(Some(Verdict::Tell))
            }
            Decision::Missing => {
                let why = format!("{} is missing, or has another size", entry.path);
                Err(Error::new(ErrorKind::NotFound, why))
            }
            Decision::Continue => {
                let left = Leftover::Here(segments_left(left.unwrap_or_default(), entry.size()));
                self.put_off(Continued { id, entry: entry.clone(), left })?;
                Ok(None)
            }
            Decision::Share => {
                if let Some(left) = split {
                    self.put_off(Continued { id, entry: entry.clone(), left })?;
                }
                Ok(None)
            }
            Decision::Send { anew, .. } => {
                if anew {
                    self.path.start_anew([entry].into_iter())?;
                }
                self.wait_for_room();
                let file = self.expect_file(id, entry.clone(), None)?;
                if file.is_complete() {
                    whole.push(file);
                }
                Ok(Some(Verdict::Want { have: Vec::new() }))
            }
        }
    }

    /// What is remembered of what bears the entries' names.
    pub(super) fn known(&self, entries: &[Entry]) -> Vec<Option<Verified>> {
        let places = entries.iter().map(|entry| self.path.sink.place(entry).as_bytes());
        match &self.catalogue {
            Some(catalogue) => catalogue.lock().get_all(places),
            None => vec![None; entries.len()],
        }
    }

    /// The sender is asked about a file that is there.
    pub(super) fn compare(
        &self,
        id: FileId,
        entry: &Entry,
        recorded: Option<(Digest, Timestamp)>,
    ) -> Result<()> {
        let held = remember(&self.share.metadata, entry.memory())?;
        let file = Compared { entry: entry.clone(), recorded, _held: held };
        self.compared.lock().insert(id, file);
        Ok(())
    }

    /// Whether nothing was offered for the entry's place before.
    ///
    /// # Errors
    /// Something was, and they cannot merge, as directories of one name do; or something of another name was that the
    /// destination takes for the same.
    pub(super) fn is_first(&self, entry: &Entry) -> Result<bool> {
        let place = self.path.sink.place(entry);
        let mut offered = self.offered.lock();
        let is_new = offered.is_new(place.as_bytes(), || self.open_places(|_, place| Some(place)));
        if !is_new && entry.kind != Kind::Directory {
            let why = format!("{place} is offered twice: only the first is taken");
            return Err(Error::new(ErrorKind::Usage, why));
        }
        if is_new && let Some(name) = self.path.sink.folded(entry) {
            let mut folded = self.folded.lock();
            if !folded.is_new(&name, || self.open_places(|entry, _| self.path.sink.folded(entry))) {
                let why = format!(
                    "cannot create {place}: the destination's file system takes it for another name that was copied; rename one of them at the source"
                );
                return Err(Error::new(ErrorKind::Usage, why));
            }
        }
        if is_new && let Some(other) = self.path.sink.other_there(entry) {
            let other = show(&other).into_owned();
            let why = format!(
                "cannot create {place}: the destination has {other}, which its file system takes for the same name; rename one of them"
            );
            return Err(Error::new(ErrorKind::Usage, why));
        }
        Ok(is_new)
    }

    /// Whether an entry is not taken, and so does not count.
    pub(super) fn leaves_out(&self, entry: &Entry) -> Result<bool> {
        let leaves = self.leaves(entry)?;
        if let (true, Kind::File { size, .. }) = (leaves, &entry.kind) {
            self.path.ledger.left_out(*size);
        }
        Ok(leaves)
    }

    /// Whether what bears the entry's name, or that nothing does, is to stay as it is.
    fn leaves(&self, entry: &Entry) -> Result<bool> {
        let Taking { existing, ignore_existing, update } = self.taking;
        if self.taking == Taking::default() {
            return Ok(false);
        }
        let Some(there) = self.path.sink.there(&entry.path, entry.mtime)? else { return Ok(existing) };
        let is_directory = entry.kind == Kind::Directory;
        let is_file = matches!(entry.kind, Kind::File { .. });
        let newer = update && is_file && there.is_file() && there.mtime > entry.mtime;
        Ok(newer || (ignore_existing && !(is_directory && there.is_directory())))
    }

    /// Gets ready for a file's blocks, less the segments that are `there` from an earlier run.
    pub(super) fn expect_file(
        &self,
        id: FileId,
        entry: Entry,
        there: Option<HashMap<u64, Digest>>,
    ) -> Result<Arc<Incoming>> {
        self.expect_portion(id, entry, there, None)
    }

    /// The same for a file of which just a `portion` may be moved here.
    pub(super) fn expect_portion(
        &self,
        id: FileId,
        entry: Entry,
        there: Option<HashMap<u64, Digest>>,
        portion: Option<Portion>,
    ) -> Result<Arc<Incoming>> {
        self.path.sink.takes(&entry)?;
        let (verify, metadata) = (self.terms.verify, &self.share.metadata);
        let file = Arc::new(Incoming::of_portion(id, entry, verify, there, portion, metadata)?);
        self.files.write().insert(id, Arc::clone(&file));
        Ok(file)
    }

    /// Other transfers of the same peer may have much under way: ours that is goes on meanwhile, and ends.
    pub(super) fn wait_for_room(&self) {
        while self.share.metadata.is_crowded() && !self.path.is_stopped() && !self.files.read().is_empty() {
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Asks for files whose content turned out to be another.
    fn replace(&self, differ: Vec<(FileId, Compared)>) {
        let begun = self.path.start_anew(differ.iter().map(|(_, file)| &file.entry));
        for (id, Compared { entry, _held, .. }) in differ {
            self.wait_for_room();
            let path = entry.path.clone();
            let begun = begun.clone().and_then(|()| self.expect_file(id, entry, None));
            let verdict = match begun {
                Ok(_) => Verdict::Want { have: Vec::new() },
                Err(error) => {
                    self.path.ledger.failed(path.as_bytes(), error.clone(), true);
                    Verdict::Failed(error)
                }
            };
            self.outbox.send(&Message::Verdicts { first: id, verdicts: vec![verdict] });
        }
    }

    /// Files whose content is right, or of which the sender has told the hash.
    fn keep(&self, files: Vec<(FileId, Compared, Digest)>) {
        for (id, file, root) in files {
            match file.recorded {
                Some(recorded) if recorded.0 != root || !self.still_has(&file.entry, recorded.1) => {
                    self.replace(vec![(id, file)]);
                }
                Some(_) => {
                    let verdict = match self.path.sink.refresh(&file.entry) {
                        Ok(()) => {
                            self.remember(&file.entry, root);
                            self.path.ledger.skipped(file.entry.size());
                            self.path.ledger.refreshed();
                            Verdict::Made
                        }
                        Err(error) => {
                            self.path.ledger.failed(file.entry.path.as_bytes(), error.clone(), true);
                            Verdict::Failed(error)
                        }
                    };
                    self.outbox.send(&Message::Verdicts { first: id, verdicts: vec![verdict] });
                }
                None => {
                    self.path.ledger.skipped(file.entry.size());
                    if self.compares_only() {
                        continue;
                    }
                    match self.path.sink.refresh(&file.entry) {
                        Ok(()) => self.remember(&file.entry, root),
                        Err(error) => tracing::warn!("{error}"),
                    }
                    if self.moving {
                        let verdict = self
                            .path
                            .sink
                            .settle(&file.entry)
                            .map_or_else(Verdict::Failed, |()| Verdict::Made);
                        self.outbox.send(&Message::Verdicts { first: id, verdicts: vec![verdict] });
                    }
                }
            }
        }
    }

    /// Whether nobody has touched what bears the entry's name since it got `mtime`.
    pub(super) fn still_has(&self, entry: &Entry, mtime: Timestamp) -> bool {
        matches!(self.path.sink.prepare(entry, true), Ok(Standing::Present(there, _)) if there == mtime)
    }

    fn remember(&self, entry: &Entry, root: Digest) {
        if let Some(catalogue) = &self.catalogue {
            let verified = Verified { size: entry.size(), mtime: entry.mtime, root };
            let put = catalogue.lock().put([(self.path.sink.place(entry).as_bytes(), verified)].into_iter());
            if let Err(error) = put {
                tracing::warn!("cannot remember what is verified: {error}");
            }
        }
    }

    /// What `named` makes of the entries that have not ended, and of their places.
    fn open_places(&self, named: impl Fn(&Entry, Vec<u8>) -> Option<Vec<u8>>) -> Vec<Vec<u8>> {
        let continued = self.continued.lock();
        let files = self.files.read();
        let compared = self.compared.lock();
        let put_off = continued.values().map(|(entry, _)| entry);
        let looked_at = compared.values().map(|file| &file.entry);
        let open = files.values().map(|file| &*file.entry).chain(put_off).chain(looked_at);
        open.filter_map(|entry| named(entry, self.path.sink.place(entry).as_bytes().to_vec())).collect()
    }

    /// A sender's word is not enough: what it offered has ended, one way or another.
    pub(super) fn check_finish(&self) -> Result<()> {
        let open = self.open_places(|_, place| Some(place));
        let missing = self.missing.lock().first().copied();
        match (self.listed.load(Relaxed), open.first()) {
            // What it could not read it has said, and that is no success either.
            (true, None) if self.path.ledger.totals().files_failed == 0 && missing.is_some() => {
                let what = missing.map(|index| self.asked.name(index)).unwrap_or_default();
                Err(Error::protocol(format!(
                    "the sender finished without a word of {what}, which it was asked for: run the same command again"
                )))
            }
            (true, None) => Ok(()),
            (false, _) => Err(Error::protocol("the sender finished before it had listed everything")),
            (true, Some(first)) => {
                let why = format!(
                    "the sender finished although {} of its files are open, such as {}: run the same command again",
                    open.len(),
                    show(first)
                );
                Err(Error::protocol(why))
            }
        }
    }

    /// Ends the transfer, unless the sender is to tell names first or something speaks against it.
    pub(super) fn finish_after(&self, wants_names: Result<bool>) {
        match wants_names {
            Ok(true) => {}
            Ok(false) => self.end_with(self.finish()),
            Err(error) => self.fail(error),
        }
    }

    /// Directories last: putting files into them, and removing others, has changed their times.
    fn finish(&self) -> Result<()> {
        let Some(journal) = self.path.journal() else { return Ok(()) };
        journal.lock().directories(|entry| {
            if let Err(error) = self.path.sink.refresh(&entry) {
                tracing::warn!("{error}");
            }
        })?;
        if let Some((_, error)) = self.path.sink.sync_names().into_iter().next() {
            return Err(error);
        }
        let not_kept = self.path.sink.not_kept();
        if let Some(why) = not_kept.text() {
            tracing::debug!("{why}");
            self.path.ledger.keeps_not(not_kept);
        }
        self.path.sink.clean_up();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Ledger;
    use crate::offer::OFFER_ENTRIES;
    use crate::path::RelPath;
    use crate::pipeline::receive::{Asked, Destination, Receiver};
    use crate::quota::Share;
    use crate::store::file_sink::FileSink;
    use crate::store::folding::Folding;
    use crate::sys::confined::scratch;
    use crate::terms::{Compare, Terms};
    use crate::wire::session::{self, Inbox, Outbox};

    fn entry(path: &str, kind: Kind) -> Entry {
        Entry::new(RelPath::new(path).expect("a name"), kind, 0o755, Timestamp::default())
    }

    fn file(path: &str) -> Entry {
        entry(path, Kind::File { size: 5, fingerprint: [1; 16] })
    }

    /// A receiver into `sink`, and what its sender hears and says.
    fn receiver(sink: FileSink, terms: Terms) -> (Arc<Receiver>, Inbox, Outbox) {
        let (ours, theirs) = session::pair();
        let (outbox, _) = session::start(ours, "the sender").expect("started");
        let (back, heard) = session::start(theirs, "the receiver").expect("started");
        let destination = Destination::nowhere(Arc::new(sink));
        let ledger = Arc::<Ledger>::default();
        let (receiver, _owner) =
            Receiver::start(Asked::Anything, destination, terms, outbox, ledger, Share::own());
        (receiver, heard, back)
    }

    fn verdicts(heard: &Inbox, count: usize) -> Vec<Verdict> {
        let mut all = Vec::new();
        while all.len() < count {
            if let Message::Verdicts { verdicts, .. } = heard.receive().expect("a message") {
                all.extend(verdicts);
            }
        }
        all
    }

    #[test]
    fn what_stands_there_in_another_spelling_stays() {
        for purpose in [Purpose::Copy, Purpose::Plan] {
            let (directory, root) = scratch();
            std::fs::write(directory.path().join("README"), "earlier").expect("written");
            let apart = crate::store::apart::Apart::default();
            let sink = FileSink::new((&root, b""), false, &[1; 16], purpose, apart).expect("a sink");
            sink.assume(Folding::CASEFOLD);
            let (receiver, heard, _back) = receiver(sink, Terms { purpose, ..Terms::default() });
            let entries = vec![file("readme"), file("other")];
            receiver.handle(Message::Offer { first: 0, entries }).expect("taken");
            let [Verdict::Failed(error), other] = &verdicts(&heard, 2)[..] else { panic!("two verdicts") };
            assert!(error.message.contains("has README"), "{error}");
            assert!(!matches!(other, Verdict::Failed(_)), "{other:?}");
        }
    }

    #[test]
    fn of_two_names_that_are_one_at_the_destination_the_second_fails() {
        for purpose in [Purpose::Copy, Purpose::Plan] {
            let (directory, root) = scratch();
            let apart = crate::store::apart::Apart::default();
            let sink = FileSink::new((&root, b""), false, &[1; 16], purpose, apart).expect("a sink");
            sink.assume(Folding::CASEFOLD);
            let (receiver, heard, _back) = receiver(sink, Terms { purpose, ..Terms::default() });
            let directory_of = |path| entry(path, Kind::Directory);
            let entries = vec![
                file("README"),
                file("readme"),
                directory_of("Dir"),
                file("Dir/x"),
                directory_of("dir"),
                // Directories of one name merge, as always.
                directory_of("Dir"),
            ];
            receiver.handle(Message::Offer { first: 0, entries }).expect("taken");
            let failed: Vec<_> = verdicts(&heard, 6)
                .into_iter()
                .map(|verdict| match verdict {
                    Verdict::Failed(error) => Some(error.message),
                    _ => None,
                })
                .collect();
            let why = |index: usize| {
                failed[index].as_deref().is_some_and(|why| why.contains("takes it for another"))
            };
            assert!(why(1) && why(4), "{failed:?}");
            assert_eq!(failed.iter().flatten().count(), 2, "{failed:?}");
            drop(receiver);
            drop(directory);
        }
    }

    #[test]
    fn as_many_files_are_compared_at_once_as_a_sender_may_offer_and_have_answered() {
        let (directory, root) = scratch();
        let count = 2 * (crate::offer::WINDOW + OFFER_ENTRIES);
        let names: Vec<String> = (0..count).map(|number| format!("f{number}")).collect();
        for name in &names {
            std::fs::write(directory.path().join(name), "12345").expect("written");
        }
        let apart = crate::store::apart::Apart::default();
        let sink = FileSink::new((&root, b""), false, &[1; 16], Purpose::Compare, apart).expect("a sink");
        let terms = Terms { purpose: Purpose::Compare, compare: Compare::Checksum, ..Terms::default() };
        let (receiver, heard, _back) = receiver(sink, terms);
        let offer = |from: usize, to: usize| {
            for first in (from..to).step_by(OFFER_ENTRIES) {
                let entries = names[first..first + OFFER_ENTRIES].iter().map(|name| file(name)).collect();
                receiver.handle(Message::Offer { first: first as FileId, entries }).expect("taken");
            }
        };
        let half = count / 2;
        offer(0, half);
        let there = verdicts(&heard, half);
        let Verdict::Exists(root) = there[0] else { panic!("{:?}", there[0]) };
        // The sender has ended these by what it says now, and offers as many more at once.
        for first in (0..half).step_by(OFFER_ENTRIES) {
            let same = (first..first + OFFER_ENTRIES).map(|id| (id as FileId, root)).collect();
            receiver.handle(Message::Keep(same)).expect("taken");
        }
        offer(half, count);
        assert_eq!(verdicts(&heard, half).len(), half);
    }
}
