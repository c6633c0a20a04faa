//! What holds whatever happens to a [`Pair`](super::Pair).

use std::collections::{HashMap, HashSet};

use super::Pair;
use super::disk::ModelDisk;
use crate::logic::sender::{SenderAction, SenderEvent};
use crate::manifest::{FileId, Kind};
use crate::offer::{Verdict, WINDOW};
use crate::terms::Purpose;
use crate::wire::message::Message;

/// What is seen of one run.
#[derive(Debug, Default)]
pub(super) struct PairWatch {
    /// Entries that were offered and have not ended.
    open: HashMap<FileId, EndsBy>,
    /// Files that are being removed at the source.
    removing: HashSet<FileId>,
    /// Entries of which whoever listens was not told.
    untold: usize,
    offered: u64,
    ended: u64,
    /// Files that got their names.
    pub published: u64,
    /// The most entries that were open at a time.
    pub peak: usize,
    /// The disk as it was before.
    pub before: ModelDisk,
}

/// What is heard of an entry when it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EndsBy {
    /// Any verdict: it is no file.
    Verdict,
    /// A verdict for which nothing of it is read.
    LastVerdict,
    /// An action: something of it was read.
    Action,
}

impl PairWatch {
    /// Of a run that begins with this.
    pub fn of(disk: &ModelDisk) -> Self {
        Self { before: disk.clone(), ..Self::default() }
    }

    pub fn sender_action(&mut self, action: &SenderAction) {
        match action {
            SenderAction::Say(Message::Offer { first, entries }) => {
                for (id, entry) in (*first..).zip(entries) {
                    let ends_by = match entry.kind {
                        Kind::File { .. } => EndsBy::LastVerdict,
                        _ => EndsBy::Verdict,
                    };
                    assert_eq!(self.open.insert(id, ends_by), None, "{id} is offered twice");
                    self.offered += 1;
                }
            }
            SenderAction::Open(id, _) => {
                assert!(self.open.insert(*id, EndsBy::Action).is_some(), "{id} is read, and is not open");
            }
            SenderAction::End(id) => self.ends(*id),
            SenderAction::Remove(id) => {
                self.ends(*id);
                self.removing.insert(*id);
            }
            SenderAction::Tell { planned, .. } => self.untold += planned.len(),
            _ => {}
        }
    }

    fn ends(&mut self, id: FileId) {
        assert!(self.open.remove(&id).is_some(), "{id} ends, and is not open");
        self.ended += 1;
    }

    pub fn sender_event(&mut self, event: &SenderEvent) {
        match event {
            SenderEvent::Removed(id, _) => assert!(self.removing.remove(id), "{id} is removed once"),
            SenderEvent::Told { entries, .. } => self.untold -= entries,
            _ => {}
        }
    }

    /// What is no file, or was not read, ends by its verdict.
    pub fn sender_hears(&mut self, message: &Message) {
        use Verdict::{Failed, Leave, Made, Skip, Would};
        let Message::Verdicts { first, verdicts } = message else { return };
        for (id, verdict) in (*first..).zip(verdicts) {
            let is_last = matches!(verdict, Skip | Made | Leave | Failed(_) | Would(_));
            match self.open.get(&id) {
                Some(EndsBy::Verdict) => self.ends(id),
                Some(EndsBy::LastVerdict) if is_last => self.ends(id),
                _ => {}
            }
        }
    }

    /// What holds at any time.
    pub fn check(&mut self) {
        let open = self.open.len() + self.removing.len() + self.untold;
        self.peak = self.peak.max(open);
        assert!(open <= WINDOW, "{open} entries are offered and have not ended");
    }
}

impl Pair {
    /// What holds once both ends have ended.
    pub(super) fn check_end(&self) {
        let (sender, receiver) = (&self.sender.ended, &self.receiver.ended);
        if self.settings.purpose != Purpose::Copy {
            let ModelDisk { tree, parts, journal, catalogue, .. } = &self.disk;
            let before = &self.watch.before;
            assert_eq!(
                (tree, parts, journal, catalogue),
                (&before.tree, &before.parts, &before.journal, &before.catalogue),
                "nothing is changed"
            );
        }
        let (Some(Ok(())), Some(Ok(()))) = (sender, receiver) else {
            // Whoever has succeeded knows that the other has, too; a receiver learns that last.
            assert!(!matches!(sender, Some(Ok(()))) || self.was_cut, "the sender alone has succeeded");
            return;
        };
        let watch = &self.watch;
        assert!(watch.open.is_empty() && watch.removing.is_empty() && watch.untold == 0, "{watch:?}");
        assert_eq!(watch.offered, watch.ended, "every entry ends once");
        if self.settings.purpose == Purpose::Plan {
            assert_eq!(self.sender.planned, self.receiver.planned, "both ends say the same of the plan");
            return;
        }
        self.check_counts();
        if self.settings.purpose == Purpose::Copy && self.sent().files_failed == 0 {
            assert!(self.disk.parts.is_empty() && self.disk.journal.is_empty(), "nothing is left over");
        }
    }

    fn check_counts(&self) {
        let (sent, received) = (self.sent(), self.received());
        for counted in [sent, received] {
            let ended = counted.files_done + counted.files_skipped + counted.files_failed;
            assert_eq!(counted.files_listed, ended, "every file is counted once: {counted:?}");
            assert!(counted.listed, "everything was listed");
        }
        assert_eq!(received.files_done, self.watch.published, "what is counted has its name");
        // Of what is not removed at the source both ends count a failure, and one of them that it has arrived.
        if !self.settings.moves || sent.files_failed == 0 {
            let counts = |totals: crate::counters::Totals| {
                let files =
                    (totals.files_listed, totals.files_done, totals.files_skipped, totals.files_failed);
                (files, totals.bytes_listed, totals.bytes_skipped, totals.bytes_done)
            };
            assert_eq!(counts(sent), counts(received), "both ends count the same");
        }
    }

    /// Asserts that all files, directories and links of the source are at the destination, as they are there.
    pub fn assert_same(&self) {
        for (path, node) in self.source.tree.iter() {
            let there = self.disk.tree.get(path).unwrap_or_else(|| panic!("{path} is missing"));
            let shown = |node: &super::tree::Node| (node.what.clone(), node.mode, node.mtime);
            assert_eq!(shown(there), shown(node), "{path}");
        }
    }
}
