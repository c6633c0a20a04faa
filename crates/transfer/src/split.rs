//! A large file that several transfers of one run move together: each a range of it into one unfinished file, and one of
//! them gives that its name.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::bounded::at_most;
use crate::error::{Error, Result};
use crate::manifest::{SEGMENT, segment_count};
use crate::record::tagged;
use crate::spec::RunId;

/// Most split files that one transfer is told of, and most ranges of one.
pub(crate) const MAX_SPLIT: usize = 1024;
pub(crate) const MAX_RANGES: usize = 256;

/// What one transfer does of a split file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SplitTask {
    /// It moves these bytes; each range begins with a segment, and ends with one or with the file.
    Ranges(#[serde(deserialize_with = "at_most::<MAX_RANGES, _, _>")] Vec<Range<u64>>),
    /// All ranges are there: it moves what is missing nevertheless, and the file gets its name.
    Completion,
}

/// Split files, by their paths as they are offered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Split {
    /// Names the run whose transfers share the unfinished files.
    pub run: RunId,
    /// What this transfer does of each.
    pub files: Vec<(Vec<u8>, SplitTask)>,
}

tagged!(Split, "split files" { 1 => run, 3 => files: list[MAX_SPLIT], });

impl Split {
    /// What it takes in memory.
    pub fn memory(&self) -> usize {
        let each = |(path, task): &(Vec<u8>, SplitTask)| match task {
            SplitTask::Ranges(ranges) => path.len() + size_of_val(&ranges[..]),
            SplitTask::Completion => path.len(),
        };
        2 * size_of_val(&self.files[..]) + self.files.iter().map(each).sum::<usize>()
    }

    /// Refuses ranges of which two could share a segment.
    pub fn check(&self) -> Result<()> {
        for (_, task) in &self.files {
            let SplitTask::Ranges(ranges) = task else { continue };
            let begins = |range: &Range<u64>| range.start < range.end && range.start.is_multiple_of(SEGMENT);
            if !ranges.iter().all(begins) || ranges.windows(2).any(|pair| pair[0].end > pair[1].start) {
                return Err(Error::protocol(
                    "ranges of a file that are not in order, or begin within a segment",
                ));
            }
        }
        Ok(())
    }
}

impl SplitTask {
    /// The segments of a file of `size` bytes that it moves.
    pub fn segments(&self, size: u64) -> Vec<Range<u64>> {
        let of = |range: &Range<u64>| range.start / SEGMENT..range.end.min(size).div_ceil(SEGMENT);
        match self {
            Self::Completion => std::iter::once(0..segment_count(size)).collect(),
            Self::Ranges(ranges) => ranges.iter().map(of).filter(|range| range.start < range.end).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_whole_segments_of_the_size_that_the_file_has_by_now() {
        let task = SplitTask::Ranges(vec![0..SEGMENT, 3 * SEGMENT..5 * SEGMENT + 7]);
        assert_eq!(task.segments(6 * SEGMENT), [0..1, 3..6]);
        assert_eq!(task.segments(5 * SEGMENT + 7), [0..1, 3..6]);
        assert_eq!(task.segments(3 * SEGMENT), [0..1]);
        assert_eq!(SplitTask::Completion.segments(SEGMENT + 1), [0..2]);
        let split = |ranges: &[Range<u64>]| Split {
            run: [1; 16],
            files: vec![(b"a".to_vec(), SplitTask::Ranges(ranges.to_vec()))],
        };
        split(&[0..SEGMENT, SEGMENT..SEGMENT + 9]).check().expect("in order");
        for bad in [
            &[1..SEGMENT][..],
            &[0..0],
            &[0..SEGMENT + 1, SEGMENT..2 * SEGMENT],
            &[SEGMENT..2 * SEGMENT, 0..1],
        ] {
            split(bad).check().expect_err("refused");
        }
    }
}
