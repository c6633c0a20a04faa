//! Files that several transfers move: what of them is this one's, and what others have written.

use std::collections::HashMap;
use std::sync::Arc;

use super::ReceiverState;
use super::continuing::Leftover;
use crate::error::{Error, Result};
use crate::hash::Digest;
use crate::logic::receiver::Begun;
use crate::manifest::{Entry, FileId, segment_range};
use crate::pipeline::incoming::Portion;
use crate::quota::remember;
use crate::spec::RunId;
use crate::split::{Split, SplitTask};
use crate::store::split_part::SplitPart;
use crate::terms::Purpose;

/// What this transfer does of split files, by their paths as they are offered.
#[derive(Debug, Default)]
pub(super) struct Splitting {
    run: RunId,
    tasks: HashMap<Vec<u8>, SplitTask>,
}

impl Splitting {
    pub(super) fn of(split: Option<Split>) -> Self {
        let Split { run, files } = split.unwrap_or_default();
        Self { run, tasks: files.into_iter().collect() }
    }
}

impl Splitting {
    /// What is to be continued of an entry that is split; nothing of one that is moved as any other is.
    pub(super) fn left(&self, shared: &ReceiverState, entry: &Entry) -> Result<Option<Leftover>> {
        let Some(task) = self.tasks.get(entry.path.as_bytes()) else { return Ok(None) };
        if shared.terms.purpose != Purpose::Copy {
            return Err(Error::protocol(format!("{} is split and not copied", entry.path)));
        }
        let part = match task {
            SplitTask::Ranges(_) => None,
            // Where it is not, the file has its name already, or nothing is left of what was moved.
            SplitTask::Completion => match shared.split_part(entry, &self.run, false)? {
                Some(part) => Some(part),
                None => return Ok(None),
            },
        };
        Ok(Some(Leftover::Split { run: self.run, task: task.clone(), part }))
    }
}

impl ReceiverState {
    fn split_part(&self, entry: &Entry, run: &RunId, made: bool) -> Result<Option<Arc<SplitPart>>> {
        let by = (run, self.terms.verify);
        self.path.sink.split(entry, by, made, &self.share.descriptors)
    }

    /// Expects what is missing of this transfer's part of a split file.
    pub(super) fn begin_split(
        &self,
        id: FileId,
        entry: Arc<Entry>,
        (run, task): (&RunId, &SplitTask),
        part: Option<Arc<SplitPart>>,
    ) -> Result<Begun> {
        let part = match part {
            Some(part) => part,
            None => self
                .split_part(&entry, run, true)?
                .ok_or_else(|| Error::protocol("an unfinished file was not made, and no error said why"))?,
        };
        let completes = *task == SplitTask::Completion;
        let portion = Portion { part: Arc::clone(&part), wanted: task.segments(entry.size()), completes };
        let left = part.left(|segment| portion.wants(segment))?;
        let _held = remember(&self.share.metadata, left.len() * size_of::<(u64, Digest)>())?;
        // What transfers of this run have said to be durable was not before its time: reading all of a large file again would
        // take as long as one host takes for it. What one that died has left is little, and read.
        let there = match completes {
            true => left,
            false => self.read_part_again(id, &entry, part.file(), left),
        };
        let found: u64 = there.keys().map(|&segment| bytes(segment, &entry)).sum();
        self.wait_for_room();
        let begun = self.expect(id, entry, Some(there), Some(portion))?;
        // All but what is missing here is there, or others bring it.
        self.path.ledger.already(begun.kept.saturating_sub(if completes { 0 } else { found }));
        Ok(begun)
    }
}

fn bytes(segment: u64, entry: &Entry) -> u64 {
    let range = segment_range(segment, entry.size());
    range.end - range.start
}
