//! What was found where entries belong, and what is done about it.

use std::sync::Arc;

use super::comparing::Because;
use super::planning::Would;
use super::{Beginning, Comparison, Findings, Look, ReceiverAction, ReceiverLogic, Settlement, Stage};
use crate::error::{Error, ErrorKind, Result};
use crate::hash::Digest;
use crate::logic::count::Count;
use crate::logic::deciding::{Decision, Facts};
use crate::manifest::{Entry, FileId, Kind};
use crate::offer::Verdict;

impl ReceiverLogic {
    /// Entries were looked at; the rest is to be looked at once more.
    pub(super) fn looked(
        &mut self,
        first: FileId,
        looked: Vec<(Entry, Result<Look>)>,
        rest: Vec<Entry>,
        actions: &mut Vec<ReceiverAction>,
    ) {
        let next = first + looked.len() as FileId;
        let mut wanted = Vec::new();
        for (id, (entry, look)) in (first..).zip(looked) {
            if let Kind::File { size, .. } = entry.kind {
                actions.push(ReceiverAction::Count(Count::Listed(size)));
            }
            match look {
                Ok(Look::Leave) => self.leave(id, &entry, actions),
                Ok(Look::Found(found)) => self.found(id, &entry, *found, &mut wanted, actions),
                Err(error) => self.refuse(id, error, actions),
            }
        }
        self.begin(wanted, actions);
        if !rest.is_empty() {
            let open = self.open.values().filter(|open| !matches!(open.stage, Stage::Looking));
            let open = Some(open.map(|open| Arc::clone(&open.entry)).collect());
            actions.push(ReceiverAction::Look { first: next, entries: rest, open });
        }
    }

    fn leave(&mut self, id: FileId, entry: &Entry, actions: &mut Vec<ReceiverAction>) {
        if let Kind::File { size, .. } = entry.kind {
            actions.push(ReceiverAction::Count(Count::LeftOut(size)));
        }
        self.conclude_entry(id, Verdict::Leave, None);
    }

    fn found(
        &mut self,
        id: FileId,
        entry: &Entry,
        found: Findings,
        wanted: &mut Vec<Beginning>,
        actions: &mut Vec<ReceiverAction>,
    ) {
        let Findings { standing, known, left, has_part, is_split, there, takes } = found;
        let facts = Facts { standing, known, left: left.as_ref(), has_part, is_split };
        let decision = self.policy.decide(entry, &facts);
        let segments = || left.clone().unwrap_or_default().into_segments(entry.size());
        match decision {
            Decision::CompareContent => self.go_to(id, Stage::Digesting(there), |id, entry| {
                actions.push(ReceiverAction::Digest(id, entry));
            }),
            Decision::CompareHash { recorded, mtime } => {
                let comparison = Comparison { recorded: Some((recorded, mtime)), there };
                self.go_to(id, Stage::Compared(comparison), |_, _| {});
                self.answers.now(id, Verdict::Tell);
            }
            Decision::Missing => {
                let why = format!("{} is missing, or has another size", entry.path);
                self.refuse(id, Error::new(ErrorKind::NotFound, why), actions);
            }
            decision if self.policy.plans() => {
                let would = Would::of(entry, decision, &facts.standing, there.as_ref());
                match (would.is_sent(), takes) {
                    (true, Err(error)) => self.refuse(id, error, actions),
                    _ => self.plan(id, entry, would, segments, actions),
                }
            }
            Decision::Made => self.conclude_entry(id, Verdict::Made, None),
            Decision::Keep { other_mode, unrecorded } => {
                self.keep(id, entry.size(), other_mode, unrecorded, actions);
            }
            Decision::Continue => self.go_to(id, Stage::Continuing, |id, entry| {
                actions.push(ReceiverAction::ReadAgain(id, entry, segments()));
            }),
            Decision::Share => self.go_to(id, Stage::Continuing, |id, entry| {
                actions.push(ReceiverAction::Share(id, entry));
            }),
            Decision::Send { anew, .. } => self.go_to(id, Stage::Beginning, |id, entry| {
                wanted.push(Beginning { id, entry, anew, there: None });
            }),
        }
    }

    /// The next stage of an entry, and what is to be done for it.
    pub(super) fn go_to(&mut self, id: FileId, stage: Stage, act: impl FnOnce(FileId, Arc<Entry>)) {
        if let Some(open) = self.open.get_mut(&id) {
            open.stage = stage;
            act(id, Arc::clone(&open.entry));
        }
    }

    /// A file is there and verified.
    fn keep(
        &mut self,
        id: FileId,
        size: u64,
        other_mode: bool,
        unrecorded: Option<Digest>,
        actions: &mut Vec<ReceiverAction>,
    ) {
        let refreshes = other_mode && !self.policy.compares_only();
        if refreshes || unrecorded.is_some() {
            let settlement = Settlement { refreshes, root: unrecorded, ..Settlement::default() };
            self.go_to(id, Stage::Settling(Because::Verified { refreshes }), |id, entry| {
                actions.push(ReceiverAction::Settle(id, entry, settlement));
            });
        } else {
            actions.push(ReceiverAction::Count(Count::Skipped(size)));
            self.conclude_entry(id, Verdict::Skip, None);
        }
    }

    /// The file that is there was read.
    pub(super) fn digested(&mut self, id: FileId, digest: Result<Digest>, actions: &mut Vec<ReceiverAction>) {
        let Some(open) = self.open.get_mut(&id) else { return };
        match digest {
            Ok(digest) => {
                let there = if let Stage::Digesting(there) = &mut open.stage { there.take() } else { None };
                open.stage = Stage::Compared(Comparison { recorded: None, there });
                self.answers.now(id, Verdict::Exists(digest));
            }
            Err(error) => self.refuse(id, error, actions),
        }
    }
}
