//! What was found where entries belong, and what is done about it.

use std::sync::Arc;

use super::comparing::Because;
use super::planning::Would;
use super::{Beginning, Comparison, Findings, ReceiverAction, ReceiverLogic, Settlement, Stage};
use crate::error::{Error, ErrorKind, Result};
use crate::hash::Digest;
use crate::logic::count::{Count, Files};
use crate::logic::deciding::{Decision, Facts};
use crate::manifest::{Entry, FileId, Kind};
use crate::offer::Verdict;
use crate::quota::remember;

/// What came of looking at entries.
#[derive(Default)]
struct LookOutcome {
    listed: Files,
    skipped: Files,
    compared: Vec<(FileId, Arc<Entry>)>,
    wanted: Vec<Beginning>,
}

impl ReceiverLogic {
    /// Entries were looked at; the rest is to be looked at once more.
    pub(super) fn looked(
        &mut self,
        first: FileId,
        looked: Vec<Result<Option<Findings>>>,
        rest: Vec<Arc<Entry>>,
        actions: &mut Vec<ReceiverAction>,
    ) {
        let next = first + looked.len() as FileId;
        let held = self.looking.remove(&first).filter(|_| !rest.is_empty());
        self.looking.extend(held.map(|held| (next, held)));
        let mut outcome = LookOutcome::default();
        for (id, look) in (first..).zip(looked) {
            let Some(entry) = self.open.get(&id).map(|open| Arc::clone(&open.entry)) else { continue };
            if let Kind::File { size, .. } = entry.kind {
                outcome.listed.add(size);
            }
            match look {
                Ok(None) => self.leave(id, &entry, actions),
                Ok(Some(found)) => self.found(id, &entry, found, &mut outcome, actions),
                Err(error) => self.refuse(id, error, actions),
            }
        }
        let LookOutcome { listed, skipped, compared, wanted } = outcome;
        if listed.files > 0 {
            actions.push(ReceiverAction::Count(Count::Listed(listed)));
        }
        if skipped.files > 0 {
            actions.push(ReceiverAction::Count(Count::Skipped(skipped)));
        }
        if !compared.is_empty() {
            actions.push(ReceiverAction::Digest(compared));
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
        outcome: &mut LookOutcome,
        actions: &mut Vec<ReceiverAction>,
    ) {
        let Findings { standing, known, left, has_part, is_split, there, takes } = found;
        let facts = Facts { standing, known, left: left.as_deref(), has_part, is_split };
        let decision = self.policy.decide(entry, &facts);
        let segments = || left.as_deref().cloned().unwrap_or_default().into_segments(entry.size());
        match decision {
            Decision::CompareContent => self.put_off(id, Stage::Digesting(there), actions, |id, entry, _| {
                outcome.compared.push((id, entry));
            }),
            Decision::CompareHash { recorded, mtime } => {
                let comparison = Comparison { recorded: Some((recorded, mtime)), there };
                self.put_off(id, Stage::Compared(comparison), actions, |_, _, _| {});
                if self.open.contains_key(&id) {
                    self.answers.now(id, Verdict::Tell);
                }
            }
            Decision::Missing => {
                let why = format!("{} is missing, or has another size", entry.path);
                self.refuse(id, Error::new(ErrorKind::NotFound, why), actions);
            }
            decision if self.policy.plans() => {
                let would = Would::of(entry, decision, &facts.standing, there.as_deref());
                match (would.is_sent(), takes) {
                    (true, Err(error)) => self.refuse(id, error, actions),
                    _ => self.plan(id, entry, would, segments, actions),
                }
            }
            Decision::Made => self.conclude_entry(id, Verdict::Made, None),
            Decision::Keep { other_mode, unrecorded } => {
                let is_kept = self.keep(id, other_mode, unrecorded, actions);
                if is_kept {
                    outcome.skipped.add(entry.size());
                }
            }
            Decision::Continue => self.put_off(id, Stage::Continuing, actions, |id, entry, actions| {
                actions.push(ReceiverAction::ReadAgain(id, entry, segments()));
            }),
            Decision::Share => self.put_off(id, Stage::Continuing, actions, |id, entry, actions| {
                actions.push(ReceiverAction::Share(id, entry));
            }),
            Decision::Send { anew, .. } => self.go_to(id, Stage::Beginning, |id, entry| {
                outcome.wanted.push(Beginning { id, entry, anew, there: None });
            }),
        }
    }

    /// An entry waits, which takes memory: the next stage of it, and what is to be done for it.
    fn put_off(
        &mut self,
        id: FileId,
        stage: Stage,
        actions: &mut Vec<ReceiverAction>,
        act: impl FnOnce(FileId, Arc<Entry>, &mut Vec<ReceiverAction>),
    ) {
        let Some(open) = self.open.get_mut(&id) else { return };
        match remember(&self.metadata, open.entry.memory()) {
            Ok(held) => {
                (open.stage, open.held) = (stage, Some(held));
                act(id, Arc::clone(&open.entry), actions);
            }
            Err(error) => self.refuse(id, error, actions),
        }
    }

    /// The next stage of an entry, and what is to be done for it.
    pub(super) fn go_to(&mut self, id: FileId, stage: Stage, act: impl FnOnce(FileId, Arc<Entry>)) {
        if let Some(open) = self.open.get_mut(&id) {
            open.stage = stage;
            act(id, Arc::clone(&open.entry));
        }
    }

    /// A file is there and verified; `true` if nothing is to be done for it.
    fn keep(
        &mut self,
        id: FileId,
        other_mode: bool,
        unrecorded: Option<Digest>,
        actions: &mut Vec<ReceiverAction>,
    ) -> bool {
        let refreshes = other_mode && !self.policy.compares_only();
        if refreshes || unrecorded.is_some() {
            let settlement = Settlement { refreshes, root: unrecorded, ..Settlement::default() };
            self.go_to(id, Stage::Settling(Because::Verified { refreshes }), |id, entry| {
                actions.push(ReceiverAction::Settle(vec![(id, entry, settlement)]));
            });
            return false;
        }
        self.conclude_entry(id, Verdict::Skip, None);
        true
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
