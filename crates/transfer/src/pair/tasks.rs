//! What the disk's thread of a receiver does in a [`Pair`](super::Pair), in its order.

use std::collections::HashMap;
use std::sync::Arc;

use super::committing::BegunFile;
use super::disk::ModelDisk;
use super::faults::Deed;
use super::mirroring::Mirroring;
use super::tree::{Node, path_of};
use super::{Event, Pair};
use crate::counters::NotKept;
use crate::error::{Error, ErrorKind, Result};
use crate::hash::Digest;
use crate::logic::receiver::{Beginning, Begun, Findings, ReceiverEvent, Settlement};
use crate::manifest::{Entry, FileId, Kind, segment_range};
use crate::offer::DirectoryNames;
use crate::pipeline::incoming::Incoming;
use crate::quota::Quota;
use crate::store::Standing;
use crate::terms::Purpose;

/// Segments of an unfinished file that are told at once.
const SEGMENTS_AT_ONCE: usize = 16;

/// Something to be done.
#[derive(Debug)]
pub(super) enum DiskTask {
    Look { first: FileId, entries: Vec<Arc<Entry>>, open: Option<Vec<Arc<Entry>>> },
    Digest(Vec<(FileId, Arc<Entry>)>),
    Settle(Vec<(FileId, Arc<Entry>, Settlement)>),
    ReadAgain(FileId, Arc<Entry>, HashMap<u64, Digest>),
    Begin(Vec<Beginning>),
    Discard(Arc<Entry>),
    CompareNames(Vec<DirectoryNames>),
    Delete,
    Conclude,
}

impl Pair {
    pub(super) fn ask(&mut self, task: DiskTask) {
        match task {
            DiskTask::Look { open: None, .. } => self.receiver.looks.push_back(task),
            task => self.receiver.first.push_back(task),
        }
        self.wake_disk();
    }

    fn wake_disk(&mut self) {
        let receiver = &mut self.receiver;
        let idle = receiver.first.is_empty() && (receiver.looks.is_empty() || receiver.is_asking);
        if !idle && !receiver.is_working {
            receiver.is_working = true;
            let delay = self.delay() / 4 + self.settings.disk_delay;
            self.after(delay, Event::Disk);
        }
    }

    /// Does the next task.
    pub(super) fn work(&mut self) {
        self.receiver.is_working = false;
        let receiver = &mut self.receiver;
        let next = receiver.first.pop_front();
        let next = next.or_else(|| if receiver.is_asking { None } else { receiver.looks.pop_front() });
        if let Some(task) = next {
            receiver.is_asking &= !matches!(task, DiskTask::Look { .. });
            if let Some(event) = self.act(task) {
                let asks = matches!(&event, ReceiverEvent::Looked { rest, .. } if !rest.is_empty());
                self.receiver.is_asking |= asks;
                // In their order, as one thread tells them.
                let due = self.delay() + self.clock;
                self.last_done = self.last_done.max(due);
                self.at(self.last_done, Event::Receiver(event));
            }
        }
        self.wake_disk();
    }

    fn act(&mut self, task: DiskTask) -> Option<ReceiverEvent> {
        Some(match task {
            DiskTask::Look { first, entries, open } => self.look(first, &entries, open.as_deref()),
            DiskTask::Digest(files) => {
                let digest = |(id, entry): (FileId, Arc<Entry>)| (id, self.disk.digest(&entry));
                ReceiverEvent::Digested(files.into_iter().map(digest).collect())
            }
            DiskTask::Settle(files) => {
                let settle = |(id, entry, settlement): (FileId, Arc<Entry>, Settlement)| {
                    (id, self.disk.settle(&entry, &settlement))
                };
                ReceiverEvent::Settled(files.into_iter().map(settle).collect())
            }
            DiskTask::Begin(files) => ReceiverEvent::Begun(self.begin_files(files)),
            DiskTask::ReadAgain(id, entry, segments) => {
                self.receiver.continued.push_back((id, entry, segments));
                let delay = self.delay();
                self.after(delay, Event::Continue);
                return None;
            }
            DiskTask::Discard(entry) => {
                self.disk.discard(&entry);
                return None;
            }
            DiskTask::CompareNames(directories) => {
                ReceiverEvent::NamesCompared(self.compare_names(&directories))
            }
            DiskTask::Delete => {
                let mirror = self.receiver.mirror.take();
                let (most, dry) = (self.settings.most_deleted, self.receiver.policy.plans());
                ReceiverEvent::Deleted(mirror.map(|mirror: Mirroring| mirror.act(&mut self.disk, most, dry)))
            }
            DiskTask::Conclude => ReceiverEvent::Concluded(self.conclude()),
        })
    }

    // What is there -----------------------------------------------------------------------------------

    fn look(&mut self, first: FileId, entries: &[Arc<Entry>], open: Option<&[Arc<Entry>]>) -> ReceiverEvent {
        let mut looked = Vec::with_capacity(entries.len());
        for entry in entries {
            if self.receiver.places.len() >= self.settings.names_remembered {
                let Some(open) = open else { break };
                let open = open.iter().chain(&entries[..looked.len()]);
                let open: Vec<String> = open.map(|entry| path_of(entry).to_owned()).collect();
                self.receiver.folded = open.iter().filter_map(|path| self.disk.folded(path)).collect();
                self.receiver.places = open.into_iter().collect();
            }
            looked.push(self.look_at(entry));
        }
        let rest = entries[looked.len()..].to_vec();
        ReceiverEvent::Looked { first, looked, rest }
    }

    fn look_at(&mut self, entry: &Entry) -> Result<Option<Findings>> {
        let path = path_of(entry);
        let is_first = self.is_first(entry)?;
        let policy = self.receiver.policy;
        let is_file = matches!(entry.kind, Kind::File { .. });
        let there = self.disk.tree.get(path).map(Node::there);
        if policy.is_choosy() && policy.leaves(entry, there.as_ref()) {
            return Ok(None);
        }
        self.disk.offered.insert(path.to_owned());
        let standing = self.disk.prepare(entry, !policy.writes())?;
        let known = self.disk.catalogue.get(path).copied();
        let looks_for_left =
            is_file && standing != Standing::Same && self.settings.purpose != Purpose::Compare;
        let noted = if looks_for_left { self.receiver.left.remove(path) } else { None };
        let left = noted.and_then(|noted| ModelDisk::left(noted, entry)).map(Box::new);
        let has_part = left.is_some() && self.disk.has_part(entry);
        if entry.kind == Kind::Directory && is_first && policy.writes() {
            self.disk.directories.push(entry.clone());
        }
        let there = there.filter(|_| policy.plans()).map(Box::new);
        let takes = if policy.plans() && is_file { self.takes(entry) } else { Ok(()) };
        let is_split = false;
        Ok(Some(Findings { standing, known, left, has_part, is_split, there, takes }))
    }

    /// Whether a file can get its name.
    fn takes(&self, entry: &Entry) -> Result<()> {
        self.disk.faults.check(Deed::Begin, path_of(entry))
    }

    fn is_first(&mut self, entry: &Entry) -> Result<bool> {
        let path = path_of(entry);
        let is_new = self.receiver.places.insert(path.to_owned());
        let refuse = |why: String| Err(Error::new(ErrorKind::Usage, why));
        if !is_new && entry.kind != Kind::Directory {
            return refuse(format!("{path} is offered twice: only the first is taken"));
        }
        if is_new
            && let Some(folded) = self.disk.folded(path)
            && !self.receiver.folded.insert(folded)
        {
            return refuse(format!("cannot create {path}: it is taken for another name that was copied"));
        }
        if is_new && let Some(other) = self.disk.other_there(path) {
            return refuse(format!("cannot create {path}: the destination has {other}"));
        }
        Ok(is_new)
    }

    // Files --------------------------------------------------------------------------------------------

    fn begin_files(&mut self, files: Vec<Beginning>) -> Vec<(FileId, Result<Begun>)> {
        for file in files.iter().filter(|file| file.anew) {
            self.disk.journal.remove(path_of(&file.entry));
        }
        files.into_iter().map(|beginning| (beginning.id, self.expect(beginning))).collect()
    }

    fn expect(&mut self, beginning: Beginning) -> Result<Begun> {
        let Beginning { id, entry, there, .. } = beginning;
        self.takes(&entry)?;
        let anew = there.is_none();
        let file = Incoming::new(id, entry, self.settings.verify, there, &Quota::unlimited())?;
        let begun = Begun { kept: file.kept, is_complete: file.is_complete(), missing: None };
        self.receiver.files.insert(id, BegunFile { file: Arc::new(file), anew });
        Ok(begun)
    }

    /// Reads what is left of the next unfinished file again.
    pub(super) fn continue_next(&mut self) {
        let Some((id, entry, left)) = self.receiver.continued.pop_front() else { return };
        let there = self.disk.still_there(&entry, left, self.settings.verify);
        let mut segments: Vec<_> = there.iter().map(|(segment, digest)| (*segment, *digest)).collect();
        segments.sort_unstable();
        for (segment, _) in &segments {
            let range = segment_range(*segment, entry.size());
            self.receiver.ledger.already(range.end - range.start);
        }
        let due = self.delay() + self.clock;
        for some in segments.chunks(SEGMENTS_AT_ONCE) {
            self.at(due, Event::Receiver(ReceiverEvent::Found(id, some.to_vec())));
        }
        self.at(due, Event::Receiver(ReceiverEvent::ReadAgain(id, there)));
    }

    // The end ------------------------------------------------------------------------------------------

    fn compare_names(&mut self, directories: &[DirectoryNames]) -> Result<()> {
        let Some(mut mirror) = self.receiver.mirror.take() else { return Ok(()) };
        let going = mirror.compare(directories, &self.disk)?;
        if self.receiver.policy.plans() && !going.is_empty() {
            let planned = going.iter().map(|path| self.disk.planned_removal(path)).collect();
            let due = self.last_done.max(self.clock);
            self.at(due, Event::Receiver(ReceiverEvent::WouldRemove(planned)));
        }
        self.receiver.mirror = Some(mirror);
        Ok(())
    }

    /// Directories last: putting files into them has changed their times.
    fn conclude(&mut self) -> Result<NotKept> {
        self.disk.faults.check(Deed::Conclude, "")?;
        if self.receiver.policy.writes() {
            for entry in std::mem::take(&mut self.disk.directories) {
                let _ = self.disk.refresh(&entry);
            }
            self.disk.clean_up();
        }
        Ok(NotKept::default())
    }
}
