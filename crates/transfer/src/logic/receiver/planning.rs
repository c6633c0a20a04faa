//! What would become of entries, where that is only to be said.

use std::collections::HashMap;

use super::{Comparison, ReceiverAction, ReceiverLogic};
use crate::hash::Digest;
use crate::logic::count::{Count, Files};
use crate::logic::deciding::Decision;
use crate::manifest::{Entry, FileId, Kind, segment_range};
use crate::offer::Verdict;
use crate::plan::{Difference, Planned, PlannedChange};
use crate::store::{Standing, There};
use crate::wire::message::Message;

/// Segments in one message.
const TOLD_SEGMENTS: usize = 4096;

/// What would become of an entry.
pub(super) struct Would {
    decision: Decision,
    change: PlannedChange,
}

impl Would {
    /// What a `decision` would come to.
    pub fn of(entry: &Entry, decision: Decision, standing: &Standing, there: Option<&There>) -> Self {
        let (is_sent, unverified) = match decision {
            Decision::Send { unverified, .. } => (true, unverified),
            decision => (decision == Decision::Continue, false),
        };
        // The very same file differs in nothing, whatever a link to it has.
        let mut differs = match there {
            Some(there) if *standing != Standing::Same => differences(entry, there),
            _ => Vec::new(),
        };
        if unverified {
            differs.push(Difference::Unverified);
        }
        let change = match there {
            Some(_) => PlannedChange::of(differs, is_sent),
            None => PlannedChange::new(is_sent),
        };
        Self { decision, change }
    }

    /// Whether it would be sent.
    pub const fn is_sent(&self) -> bool {
        self.change.sent
    }
}

impl ReceiverLogic {
    /// Says what would become of an entry, of which `segments` are there.
    pub(super) fn plan(
        &mut self,
        id: FileId,
        entry: &Entry,
        would: Would,
        segments: impl FnOnce() -> HashMap<u64, Digest>,
        actions: &mut Vec<ReceiverAction>,
    ) {
        match would.decision {
            Decision::Keep { .. } => {
                actions.push(ReceiverAction::Count(Count::Skipped(Files::one(entry.size()))));
            }
            Decision::Continue => {
                let there: Vec<_> = segments().into_iter().collect();
                let bytes = there.iter().map(|(segment, _)| segment_range(*segment, entry.size()));
                let bytes = bytes.map(|range| range.end - range.start).sum();
                actions.push(ReceiverAction::Count(Count::Already(bytes)));
                for some in there.chunks(TOLD_SEGMENTS) {
                    self.say(Message::Have(id, some.to_vec()), actions);
                }
            }
            _ => {}
        }
        self.would(id, entry, would.change);
    }

    fn would(&mut self, id: FileId, entry: &Entry, change: PlannedChange) {
        let planned = Planned::new(entry.clone(), change.clone());
        self.conclude_entry(id, Verdict::Would(change), Some(planned));
    }

    /// Says what would become of a file that is there, after the sender has read its own.
    pub(super) fn plan_compared(
        &mut self,
        id: FileId,
        entry: &Entry,
        comparison: &Comparison,
        is_same: bool,
        actions: &mut Vec<ReceiverAction>,
    ) {
        let mut differs =
            comparison.there.as_deref().map(|there| differences(entry, there)).unwrap_or_default();
        if is_same {
            actions.push(ReceiverAction::Count(Count::Skipped(Files::one(entry.size()))));
        } else {
            differs.push(Difference::Content);
        }
        self.would(id, entry, PlannedChange::of(differs, !is_same));
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
}
