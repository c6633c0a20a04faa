//! Files that are there, whose hash the sender has compared or told.

use std::sync::Arc;

use super::{
    Beginning, Comparison, Open, ReceiverAction, ReceiverLogic, Settlement, SettlementOutcome, Stage,
};
use crate::error::{Error, ErrorKind, Result};
use crate::hash::Digest;
use crate::logic::count::{Count, Files};
use crate::manifest::FileId;
use crate::offer::Verdict;

/// Why a file that is there gets its mode and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Because {
    /// It was verified before, and may have another mode.
    Verified {
        /// Whether it gets that.
        refreshes: bool,
    },
    /// The sender has told the hash that was recorded.
    Recorded,
    /// Both ends have read the same, which the sender knows; it is told once that is durable, if files are moved.
    Same,
}

impl ReceiverLogic {
    /// Files differ.
    pub(super) fn differ(&mut self, files: Vec<FileId>, actions: &mut Vec<ReceiverAction>) {
        let mut wanted = Vec::new();
        for id in files {
            let Some((entry, comparison)) = self.answered(id) else { continue };
            if self.policy.plans() {
                self.plan_compared(id, &entry, &comparison, false, actions);
            } else if self.policy.compares_only() {
                self.open.remove(&id);
                let error = Error::new(ErrorKind::Corrupt, format!("{} differs", entry.path));
                self.fails(entry.path.as_bytes().to_vec(), error, true, actions);
            } else {
                self.go_to(id, Stage::Beginning, |id, entry| {
                    wanted.push(Beginning { id, entry, anew: true, there: None });
                });
            }
        }
        self.begin(wanted, actions);
    }

    /// The sender has told what files hash to.
    pub(super) fn told(&mut self, files: Vec<(FileId, Digest)>, actions: &mut Vec<ReceiverAction>) {
        let (mut differ, mut to_settle, mut skipped) = (Vec::new(), Vec::new(), Files::default());
        for (id, root) in files {
            let Some(Open { entry, stage: Stage::Compared(comparison), .. }) = self.open.get(&id) else {
                continue;
            };
            let (size, recorded) = (entry.size(), comparison.recorded);
            if recorded.is_some_and(|(hash, _)| hash != root) {
                differ.push(id);
                continue;
            }
            if self.policy.plans() {
                let Some((entry, comparison)) = self.answered(id) else { continue };
                self.plan_compared(id, &entry, &comparison, true, actions);
                continue;
            }
            if recorded.is_none() {
                skipped.add(size);
                if self.policy.compares_only() {
                    self.open.remove(&id);
                    continue;
                }
            }
            let because = if recorded.is_some() { Because::Recorded } else { Because::Same };
            let settlement = Settlement {
                untouched_since: recorded.map(|(_, mtime)| mtime),
                refreshes: true,
                may_keep_its_own: recorded.is_none(),
                root: Some(root),
                is_synced: recorded.is_none() && self.moving,
            };
            self.go_to(id, Stage::Settling(because), |id, entry| to_settle.push((id, entry, settlement)));
        }
        if skipped.files > 0 {
            actions.push(ReceiverAction::Count(Count::Skipped(skipped)));
        }
        if !to_settle.is_empty() {
            actions.push(ReceiverAction::Settle(to_settle));
        }
        self.differ(differ, actions);
    }

    /// A file that was compared, of which the sender has told what came of it.
    fn answered(&mut self, id: FileId) -> Option<(Arc<crate::manifest::Entry>, Comparison)> {
        let open = self.open.get_mut(&id)?;
        let Stage::Compared(comparison) = &mut open.stage else { return None };
        Some((Arc::clone(&open.entry), std::mem::take(comparison)))
    }

    /// A file that is there has its mode and time, or was touched.
    pub(super) fn settled(
        &mut self,
        id: FileId,
        settled: Result<SettlementOutcome>,
        actions: &mut Vec<ReceiverAction>,
    ) {
        let Some(Open { entry, stage: Stage::Settling(because), .. }) = self.open.get(&id) else { return };
        let (because, size) = (*because, entry.size());
        match (settled, because) {
            // What it was skipped for is so, but the sender must not remove its own.
            (Err(error), Because::Same) => self.conclude_entry(id, Verdict::Failed(error), None),
            (Err(error), _) => self.refuse(id, error, actions),
            (Ok(SettlementOutcome::Touched), _) => {
                let mut wanted = Vec::new();
                self.go_to(id, Stage::Beginning, |id, entry| {
                    wanted.push(Beginning { id, entry, anew: true, there: None });
                });
                self.begin(wanted, actions);
            }
            (Ok(SettlementOutcome::Done), Because::Same) if self.moving => {
                self.conclude_entry(id, Verdict::Made, None);
            }
            (Ok(SettlementOutcome::Done), Because::Same) => drop(self.open.remove(&id)),
            (Ok(SettlementOutcome::Done), because) => {
                actions.push(ReceiverAction::Count(Count::Skipped(Files::one(size))));
                let refreshes = because != Because::Verified { refreshes: false };
                if refreshes {
                    actions.push(ReceiverAction::Count(Count::Refreshed));
                }
                let verdict = if refreshes { Verdict::Made } else { Verdict::Skip };
                self.conclude_entry(id, verdict, None);
            }
        }
    }
}
