//! What the sender is told of each entry. Where it is only said what would be done, that is in the order of the offers.

use std::collections::BTreeMap;

use super::{ReceiverAction, ReceiverLogic};
use crate::logic::count::Count;
use crate::manifest::FileId;
use crate::offer::{OFFER_ENTRIES, Verdict};
use crate::plan::Planned;
use crate::wire::message::Message;

/// Verdicts that were not told yet.
#[derive(Debug)]
pub(super) struct Answers {
    /// Those that can be told at any time.
    now: Vec<(FileId, Verdict)>,
    /// Those that wait for the ones before them, and the number of the next.
    in_order: Option<(FileId, BTreeMap<FileId, (Verdict, Option<Planned>)>)>,
}

impl Answers {
    pub fn new(in_order: bool) -> Self {
        Self { now: Vec::new(), in_order: in_order.then(Default::default) }
    }

    /// A verdict that another one follows, or that says that blocks are wanted.
    pub fn now(&mut self, id: FileId, verdict: Verdict) {
        self.now.push((id, verdict));
    }

    /// The last verdict on an entry, and what would become of it, if that is to be said.
    pub fn last(&mut self, id: FileId, verdict: Verdict, planned: Option<Planned>) {
        match &mut self.in_order {
            Some((_, waiting)) => drop(waiting.insert(id, (verdict, planned))),
            None => self.now(id, verdict),
        }
    }

    /// Verdicts that may be told at once, a message of each run of entries that follow each other.
    fn runs(&mut self) -> Vec<(FileId, Vec<Verdict>)> {
        let mut runs: Vec<(FileId, Vec<Verdict>)> = Vec::new();
        self.now.sort_by_key(|(id, _)| *id);
        for (id, verdict) in self.now.drain(..) {
            match runs.last_mut() {
                Some((first, run)) if *first + run.len() as FileId == id && run.len() < OFFER_ENTRIES => {
                    run.push(verdict);
                }
                _ => runs.push((id, vec![verdict])),
            }
        }
        runs
    }

    /// Those whose turn it is, for one message.
    fn next_in_order(&mut self) -> Option<(FileId, Vec<(Verdict, Option<Planned>)>)> {
        let (next, waiting) = self.in_order.as_mut()?;
        let first = *next;
        let mut ready = Vec::new();
        while ready.len() < OFFER_ENTRIES
            && let Some(verdict) = waiting.remove(next)
        {
            *next += 1;
            ready.push(verdict);
        }
        (!ready.is_empty()).then_some((first, ready))
    }
}

impl ReceiverLogic {
    /// Tells what can be told by now: whoever listens here first, as nothing more is offered before the sender knows.
    pub(super) fn answer(&mut self, actions: &mut Vec<ReceiverAction>) {
        for (first, verdicts) in self.answers.runs() {
            actions.push(ReceiverAction::Say(Message::Verdicts { first, verdicts }));
        }
        while let Some((first, ready)) = self.answers.next_in_order() {
            for id in first..first + ready.len() as FileId {
                self.open.remove(&id);
            }
            let (verdicts, planned): (Vec<_>, Vec<_>) = ready.into_iter().unzip();
            actions.push(ReceiverAction::Count(Count::Would(planned.into_iter().flatten().collect())));
            actions.push(ReceiverAction::Say(Message::Verdicts { first, verdicts }));
        }
    }
}
