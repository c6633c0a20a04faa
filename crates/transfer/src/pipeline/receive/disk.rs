//! What the logic has done at the destination, in its order, by a thread of its own: looked at, settled, begun, removed.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::ReceiverState;
use super::continuing::{Continued, Leftover};
use super::names::Offered;
use super::splitting::Splitting;
use crate::catalogue::{Catalogue, Verified};
use crate::counters::NotKept;
use crate::error::{Error, ErrorKind, Result};
use crate::hash::Digest;
use crate::journal::{Journal, Left, Leftovers};
use crate::logic::deciding::Policy;
use crate::logic::receiver::{Beginning, Begun, Findings, ReceiverEvent, Settlement, SettlementOutcome};
use crate::manifest::{Entry, FileId, Kind, Timestamp};
use crate::mirror::Mirror;
use crate::mirror::plan::Extraneous;
use crate::offer::{DirectoryNames, OFFER_ENTRIES};
use crate::path::RelPath;
use crate::pipeline::incoming::{Incoming, Portion};
use crate::plan::{Action, EntryKind, Planned, PlannedChange};
use crate::store::{Sink, Standing};
use crate::sys::clock::Instant;
use crate::sys::sync::{Mutex, mpsc};
use crate::sys::thread;
use crate::text::show;

/// How often it is told what came of files, while the same is done for others.
const TELLING: Duration = Duration::from_millis(10);

/// Something to be done.
pub(super) enum Task {
    Look { first: FileId, entries: Vec<Arc<Entry>>, open: Option<Vec<Arc<Entry>>> },
    Digest(Vec<(FileId, Arc<Entry>)>),
    Settle(Vec<(FileId, Arc<Entry>, Settlement)>),
    ReadAgain(FileId, Arc<Entry>, HashMap<u64, Digest>),
    Share(FileId, Arc<Entry>),
    Begin(Vec<Beginning>),
    Discard(Arc<Entry>),
    CompareNames(Vec<DirectoryNames>),
    Delete,
    Conclude,
}

/// What tasks are done with.
pub(super) struct DestinationDisk {
    pub shared: Arc<ReceiverState>,
    pub policy: Policy,
    pub catalogue: Option<Arc<Mutex<Catalogue>>>,
    pub leftovers: Option<Leftovers>,
    pub mirror: Option<Mirror>,
    /// The places that were offered, and what their names are taken for where file systems take several for one.
    pub offered: Offered,
    pub folded: Offered,
    pub split: Splitting,
    /// Parts of split files that are to be taken in, until they are.
    pub shared_parts: HashMap<FileId, Leftover>,
    /// Files whose rest is read again by another thread.
    pub continued: mpsc::Sender<Continued>,
}

tidegate_contract::opaque!(DestinationDisk);

impl DestinationDisk {
    /// Does what is asked for until nobody can ask, or everything ends. What was decided on earlier entries comes before later
    /// ones are looked at.
    pub fn work(mut self, tasks: &mpsc::Receiver<Task>) {
        let (mut first, mut looks) = (VecDeque::new(), VecDeque::new());
        // Whether it has to know which entries are open before it looks at more.
        let mut is_asking = false;
        loop {
            let idle = first.is_empty() && (looks.is_empty() || is_asking);
            let waited = if idle { tasks.recv().ok() } else { None };
            if idle && waited.is_none() {
                return;
            }
            for task in waited.into_iter().chain(tasks.try_iter()) {
                match task {
                    Task::Look { open: None, .. } => looks.push_back(task),
                    task => first.push_back(task),
                }
            }
            let next = first.pop_front().or_else(|| if is_asking { None } else { looks.pop_front() });
            let Some(task) = next else { continue };
            is_asking &= !matches!(task, Task::Look { .. });
            let event = if self.is_stopped() { None } else { self.act(task) };
            if self.is_stopped() {
                return;
            }
            if let Some(event) = event {
                is_asking |= matches!(&event, ReceiverEvent::Looked { rest, .. } if !rest.is_empty());
                self.shared.tell(event);
            }
        }
    }

    fn act(&mut self, task: Task) -> Option<ReceiverEvent> {
        Some(match task {
            Task::Look { first, entries, open } => self.look(first, &entries, open.as_deref()),
            Task::Digest(files) => {
                let digest = |(id, entry): (FileId, Arc<Entry>)| {
                    (id, self.sink().digest(&entry, &|| self.is_stopped()))
                };
                return self.in_turn(files, digest, ReceiverEvent::Digested);
            }
            Task::Settle(files) => {
                let settle = |(id, entry, settlement): (FileId, Arc<Entry>, Settlement)| {
                    (id, self.settle(&entry, &settlement))
                };
                return self.in_turn(files, settle, ReceiverEvent::Settled);
            }
            Task::Begin(files) => ReceiverEvent::Begun(self.begin(files)),
            Task::ReadAgain(id, entry, segments) => {
                return self.leave_to_others(Continued { id, entry, left: Leftover::Here(segments) });
            }
            Task::Share(id, entry) => {
                let left = self.shared_parts.remove(&id)?;
                return self.leave_to_others(Continued { id, entry, left });
            }
            Task::Discard(entry) => {
                self.discard(&entry);
                return None;
            }
            Task::CompareNames(directories) => ReceiverEvent::NamesCompared(self.compare_names(&directories)),
            Task::Delete => match self.sink().moved() {
                Some(moved) => ReceiverEvent::Concluded(Err(moved)),
                None => ReceiverEvent::Deleted(self.mirror.take().map(Mirror::act)),
            },
            Task::Conclude => ReceiverEvent::Concluded(self.conclude()),
        })
    }

    fn leave_to_others(&self, file: Continued) -> Option<ReceiverEvent> {
        let _ = self.continued.send(file);
        None
    }

    fn sink(&self) -> &dyn Sink {
        &*self.shared.path.sink
    }

    fn is_stopped(&self) -> bool {
        self.shared.path.is_stopped()
    }

    // What is there -----------------------------------------------------------------------------------

    fn look(&mut self, first: FileId, entries: &[Arc<Entry>], open: Option<&[Arc<Entry>]>) -> ReceiverEvent {
        let mut looked = Vec::with_capacity(entries.len());
        for (entry, known) in entries.iter().zip(self.known(entries)) {
            if !(self.offered.has_room() && self.folded.has_room()) {
                let Some(open) = open else { break };
                let open = || open.iter().chain(&entries[..looked.len()]);
                let sink = &*self.shared.path.sink;
                self.offered.keep(open().map(|entry| sink.place(entry).as_bytes().to_vec()));
                self.folded.keep(open().filter_map(|entry| sink.folded(entry)));
            }
            looked.push(self.look_at(first + looked.len() as FileId, entry, known));
        }
        let rest = entries[looked.len()..].to_vec();
        ReceiverEvent::Looked { first, looked, rest }
    }

    /// What is there of an entry. A directory or a link is made.
    fn look_at(&mut self, id: FileId, entry: &Entry, known: Option<Verified>) -> Result<Option<Findings>> {
        let is_first = self.is_first(entry)?;
        let shared = Arc::clone(&self.shared);
        let (sink, path) = (&*shared.path.sink, &shared.path);
        let is_file = matches!(entry.kind, Kind::File { .. });
        if self.policy.is_choosy() {
            let there = sink.there(&entry.path, entry.mtime)?;
            if self.policy.leaves(entry, there.as_ref()) {
                return Ok(None);
            }
        }
        let standing = sink.prepare(entry, !self.policy.writes())?;
        let is_looked_for = is_file && standing != Standing::Same;
        let split = if is_looked_for { self.split.left(&shared, entry)? } else { None };
        let is_split = split.is_some();
        self.shared_parts.extend(split.map(|left| (id, left)));
        let left = if is_looked_for && !is_split { self.take_left(entry).map(Box::new) } else { None };
        let has_part = left.is_some() && sink.has_part(entry);
        if let (Kind::Directory, true, Some(journal)) = (&entry.kind, is_first, path.journal()) {
            journal.lock().directory(entry)?;
        }
        let plans = self.policy.plans();
        let there = if plans { sink.there(&entry.path, entry.mtime)?.map(Box::new) } else { None };
        let takes = if plans && is_file { sink.takes(entry) } else { Ok(()) };
        Ok(Some(Findings { standing, known, left, has_part, is_split, there, takes }))
    }

    fn take_left(&mut self, entry: &Entry) -> Option<Left> {
        match (&mut self.leftovers, self.shared.path.journal()) {
            (Some(leftovers), _) => leftovers.take(entry),
            (None, Some(journal)) => journal.lock().take_left(entry),
            (None, None) => None,
        }
    }

    /// What is remembered of what bears the entries' names.
    fn known(&self, entries: &[Arc<Entry>]) -> Vec<Option<Verified>> {
        let places = entries.iter().map(|entry| self.sink().place(entry).as_bytes());
        match &self.catalogue {
            Some(catalogue) => catalogue.lock().get_all(places),
            None => vec![None; entries.len()],
        }
    }

    /// Whether nothing was offered for the entry's place before.
    ///
    /// # Errors
    /// Something was, and they cannot merge, as directories of one name do; or something of another name was that the
    /// destination takes for the same.
    fn is_first(&mut self, entry: &Entry) -> Result<bool> {
        let sink = &*self.shared.path.sink;
        let place = sink.place(entry);
        let is_new = self.offered.is_new(place.as_bytes());
        if !is_new && entry.kind != Kind::Directory {
            let why = format!("{place} is offered twice: only the first is taken");
            return Err(Error::new(ErrorKind::Usage, why));
        }
        if is_new
            && let Some(name) = sink.folded(entry)
            && !self.folded.is_new(&name)
        {
            let why = format!(
                "cannot create {place}: the destination's file system takes it for another name that was copied; rename one of them at the source"
            );
            return Err(Error::new(ErrorKind::Usage, why));
        }
        if is_new && let Some(other) = sink.other_there(entry) {
            let other = show(&other).into_owned();
            let why = format!(
                "cannot create {place}: the destination has {other}, which its file system takes for the same name; rename one of them"
            );
            return Err(Error::new(ErrorKind::Usage, why));
        }
        Ok(is_new)
    }

    // Files --------------------------------------------------------------------------------------------

    /// Does `work` for one file after the other. What came of some is told while it is done for others.
    fn in_turn<F, R>(
        &self,
        files: Vec<F>,
        work: impl Fn(F) -> R,
        event: impl Fn(Vec<R>) -> ReceiverEvent,
    ) -> Option<ReceiverEvent> {
        let (mut done, mut last) = (Vec::new(), Instant::now());
        for file in files {
            done.push(work(file));
            if last.elapsed() >= TELLING && !self.is_stopped() {
                self.shared.tell(event(std::mem::take(&mut done)));
                last = Instant::now();
            }
        }
        (!done.is_empty()).then(|| event(done))
    }

    fn settle(&self, entry: &Entry, settlement: &Settlement) -> Result<SettlementOutcome> {
        if settlement.untouched_since.is_some_and(|mtime| !self.still_has(entry, mtime)) {
            return Ok(SettlementOutcome::Touched);
        }
        let refreshed = if settlement.refreshes { self.sink().refresh(entry) } else { Ok(()) };
        match (refreshed, settlement.root) {
            (Ok(()), Some(root)) => self.remember(entry, root),
            (Err(error), _) if settlement.may_keep_its_own => tracing::warn!("{error}"),
            (refreshed, _) => refreshed?,
        }
        if settlement.is_synced {
            self.sink().settle(entry)?;
        }
        Ok(SettlementOutcome::Done)
    }

    /// Whether nobody has touched what bears the entry's name since it got `mtime`.
    fn still_has(&self, entry: &Entry, mtime: Timestamp) -> bool {
        matches!(self.sink().prepare(entry, true), Ok(Standing::Present(there, _)) if there == mtime)
    }

    fn remember(&self, entry: &Entry, root: Digest) {
        if let Some(catalogue) = &self.catalogue {
            let verified = Verified { size: entry.size(), mtime: entry.mtime, root };
            let put = catalogue.lock().put([(self.sink().place(entry).as_bytes(), verified)].into_iter());
            if let Err(error) = put {
                tracing::warn!("cannot remember what is verified: {error}");
            }
        }
    }

    fn begin(&self, files: Vec<Beginning>) -> Vec<(FileId, Result<Begun>)> {
        let anew = files.iter().filter(|file| file.anew).map(|file| &*file.entry);
        let anew = self.shared.path.start_anew(anew);
        let mut begun = Vec::with_capacity(files.len());
        for Beginning { id, entry, anew: is_anew, there } in files {
            if !begun.is_empty() && self.shared.has_to_wait() {
                self.shared.tell(ReceiverEvent::Begun(std::mem::take(&mut begun)));
            }
            self.shared.wait_for_room();
            let may_begin = if is_anew { anew.clone() } else { Ok(()) };
            begun.push((id, may_begin.and_then(|()| self.shared.expect(id, entry, there, None))));
        }
        begun
    }

    /// Removes an unfinished file. The journal is told before: what it calls complete, the next run would take for renamed.
    fn discard(&self, entry: &Entry) {
        match self.shared.path.start_anew(std::iter::once(entry)) {
            Ok(()) => self.sink().discard(entry),
            Err(error) => tracing::warn!("the journal cannot be written: {error}"),
        }
    }

    // The end ------------------------------------------------------------------------------------------

    fn compare_names(&mut self, directories: &[DirectoryNames]) -> Result<()> {
        let Some(mut mirror) = self.mirror.take() else { return Ok(()) };
        let mut going = Vec::new();
        let compared = mirror.compare(directories, &mut |extraneous| {
            going.push(extraneous);
            if going.len() >= OFFER_ENTRIES {
                self.tell_going(std::mem::take(&mut going));
            }
            Ok(())
        });
        self.tell_going(going);
        // What fails here keeps all of it.
        self.mirror = compared.is_ok().then_some(mirror);
        compared
    }

    /// Tells of what would be removed, if anybody is to know.
    fn tell_going(&self, going: Vec<Extraneous>) {
        let planned: Vec<Planned> =
            going.into_iter().filter_map(|extraneous| self.planned_removal(extraneous)).collect();
        if !planned.is_empty() {
            self.shared.outbox.wait_for_room(|| self.is_stopped());
            self.shared.tell(ReceiverEvent::WouldRemove(planned));
        }
    }

    /// None of what has vanished meanwhile.
    fn planned_removal(&self, extraneous: Extraneous) -> Option<Planned> {
        let path = RelPath::new(extraneous.path).ok()?;
        let there = self.sink().there(&path, Timestamp::default()).ok()??;
        let (kind, size) = match there.kind {
            Some(Kind::Directory) => (EntryKind::Directory, 0),
            Some(Kind::Symlink { .. }) => (EntryKind::Link, 0),
            Some(Kind::File { size, .. }) => (EntryKind::File, size),
            None => (EntryKind::File, 0),
        };
        let change = PlannedChange { action: Action::Delete, differs: Vec::new(), sent: false };
        Some(Planned { path, kind, size, change })
    }

    /// Directories last: putting files into them, and removing others, has changed their times.
    fn conclude(&self) -> Result<NotKept> {
        self.sink().still_there()?;
        let Some(journal) = self.shared.path.journal() else { return Ok(self.sink().not_kept()) };
        self.refresh_directories(&journal.lock())?;
        if let Some((_, error)) = self.sink().sync_names().into_iter().next() {
            return Err(error);
        }
        let not_kept = self.sink().not_kept();
        if let Some(why) = not_kept.text() {
            tracing::debug!("{why}");
        }
        self.sink().clean_up();
        Ok(not_kept)
    }
}

impl DestinationDisk {
    /// Many may be refused alike: that is said once.
    fn refresh_directories(&self, journal: &Journal) -> Result<()> {
        let (mut first, mut others) = (None, 0u64);
        journal.directories(|entry| match (self.sink().refresh(&entry), &first) {
            (Ok(()), _) => {}
            (Err(error), None) => first = Some(error),
            (Err(_), Some(_)) => others += 1,
        })?;
        match (first, others) {
            (None, _) => {}
            (Some(error), 0) => tracing::warn!("{error}"),
            (Some(error), others) => tracing::warn!("{error}; nor those of {others} others"),
        }
        Ok(())
    }
}

impl ReceiverState {
    /// Other transfers of the same peer may have much under way: ours that is goes on meanwhile, and ends.
    pub(super) fn wait_for_room(&self) {
        while self.has_to_wait() {
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn has_to_wait(&self) -> bool {
        self.share.metadata.is_crowded() && !self.path.is_stopped() && !self.files.read().is_empty()
    }

    /// Gets ready for a file's blocks, less the segments that are `there` from an earlier run; of which just a `portion`
    /// may be moved here.
    pub(super) fn expect(
        &self,
        id: FileId,
        entry: Arc<Entry>,
        there: Option<HashMap<u64, Digest>>,
        portion: Option<Portion>,
    ) -> Result<Begun> {
        self.path.sink.takes(&entry)?;
        let (verify, metadata) = (self.terms.verify, &self.share.metadata);
        let file = Arc::new(Incoming::of_portion(id, entry, verify, there, portion, metadata)?);
        let missing = file.portion().is_some().then(|| file.missing(crate::split::MAX_RANGES));
        let begun = Begun { kept: file.kept, is_complete: file.is_complete(), missing };
        self.files.write().insert(id, file);
        Ok(begun)
    }
}
