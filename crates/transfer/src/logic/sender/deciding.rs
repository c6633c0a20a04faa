//! What the receiver wants of entries, and what follows from it.

use std::ops::Range;
use std::sync::Arc;

use super::{Open, SenderAction, SenderLogic, Stage};
use crate::error::{Error, ErrorKind, Result};
use crate::hash::Digest;
use crate::logic::count::{Count, Files};
use crate::manifest::{BLOCK, FileId, SEGMENT, missing, segment_count, segment_range};
use crate::offer::{Again, OFFER_ENTRIES, Verdict};
use crate::plan::Planned;
use crate::terms::Purpose;
use crate::wire::message::Message;

impl SenderLogic {
    pub(super) fn verdicts(
        &mut self,
        first: FileId,
        verdicts: Vec<Verdict>,
        out: &mut Vec<SenderAction>,
    ) -> Result<()> {
        if u64::from(first) + verdicts.len() as u64 > u64::from(self.next) {
            return Err(Error::protocol("verdicts on files that were never offered"));
        }
        let (mut planned, mut bytes, mut skipped) = (Vec::new(), 0, Files::default());
        for (id, verdict) in (first..).zip(verdicts) {
            self.check_purpose(&verdict)?;
            if verdict == Verdict::Skip && !self.terms.moves {
                let open = self.end(id, out).filter(Open::is_file);
                open.into_iter().for_each(|open| skipped.add(open.size()));
                continue;
            }
            let Verdict::Would(change) = verdict else {
                self.verdict(id, verdict, out)?;
                continue;
            };
            let Some(open) = self.end(id, out) else { continue };
            let entry = open.listed.entry.clone();
            if open.is_file() && !change.sent {
                skipped.add(open.size());
            }
            bytes += entry.memory();
            planned.push(Planned::new(entry, change));
        }
        if skipped.files > 0 {
            out.push(SenderAction::Count(Count::Skipped(skipped)));
        }
        self.tell(planned, bytes, out);
        Ok(())
    }

    /// Refuses what is not asked for.
    fn check_purpose(&self, verdict: &Verdict) -> Result<()> {
        let plans = self.terms.purpose == Purpose::Plan;
        match verdict {
            Verdict::Would(_) if !plans => {
                Err(Error::protocol("the receiver said what it would do, and was asked to do it"))
            }
            Verdict::Want { .. } | Verdict::WantRanges(_) | Verdict::Skip | Verdict::Made if plans => {
                Err(Error::protocol("the receiver began to copy, and was asked what it would do"))
            }
            _ => Ok(()),
        }
    }

    fn verdict(&mut self, id: FileId, verdict: Verdict, out: &mut Vec<SenderAction>) -> Result<()> {
        let Some(open) = self.open.get_mut(&id) else { return Ok(()) };
        if let Verdict::Failed(error) = verdict {
            self.failed(id, error, out);
            return Ok(());
        }
        if !open.is_file() {
            self.end(id, out);
            return Ok(());
        }
        match verdict {
            Verdict::Want { have } => {
                open.next(&[Stage::Offered, Stage::Told], Stage::Wanted)?;
                open.begin(id, out);
                open.have(id, have, out);
                let ranges = missing(open.size(), &open.ranges());
                out.push(SenderAction::Send(id, ranges));
            }
            Verdict::WantRanges(ranges) => {
                open.next(&[Stage::Offered], Stage::Wanted)?;
                open.wanted_ranges(id, ranges, out)?;
            }
            Verdict::Exists(theirs) => {
                open.next(&[Stage::Offered], Stage::Compared(Some(theirs)))?;
                open.begin(id, out);
                out.push(SenderAction::Hash(id));
            }
            Verdict::Tell => {
                open.next(&[Stage::Offered], Stage::Compared(None))?;
                open.begin(id, out);
                out.push(SenderAction::Hash(id));
            }
            Verdict::Skip => {
                let why = "it is the same file at both ends, or was not compared";
                let stays = Error::new(ErrorKind::Denied, why);
                self.stays(id, stays, out);
            }
            Verdict::Made if self.terms.moves => {
                open.next(&[Stage::Told], Stage::Wanted)?;
                let skipped = Count::Skipped(Files::one(open.size()));
                self.remove(id, skipped, out);
            }
            Verdict::Made => {
                let skipped = Count::Skipped(Files::one(open.size()));
                self.count_end(id, skipped, out);
                out.push(SenderAction::Count(Count::Refreshed));
            }
            Verdict::Leave => {
                let left_out = Count::LeftOut(open.size());
                self.count_end(id, left_out, out);
            }
            Verdict::Failed(_) | Verdict::Would(_) => {}
        }
        Ok(())
    }

    /// What the receiver has of a file, which counts from when it says so: it may take long to find it.
    pub(super) fn have(&mut self, id: FileId, segments: Vec<(u64, Digest)>, out: &mut Vec<SenderAction>) {
        if let Some(open) = self.open.get_mut(&id).filter(|open| open.stage != Stage::Wanted) {
            open.have(id, segments, out);
        }
    }

    /// The receiver wants a range again.
    pub(super) fn again(&self, Again { file, range }: Again, out: &mut Vec<SenderAction>) {
        let wanted = self.open.get(&file).filter(|open| open.stage == Stage::Wanted);
        let is_in = |open: &Open| {
            range.start < range.end && range.end <= open.size() && range.start.is_multiple_of(BLOCK)
        };
        if wanted.is_some_and(is_in) {
            out.push(SenderAction::Resend(file, range));
        }
    }

    /// A file that may be there was read here.
    pub(super) fn hashed(&mut self, id: FileId, root: Result<Digest>, out: &mut Vec<SenderAction>) {
        let Some(open) = self.open.get_mut(&id) else { return };
        let Stage::Compared(theirs) = open.stage else { return };
        let ours = match root {
            Ok(ours) => ours,
            Err(error) => return self.abandon(id, error, out),
        };
        open.stage = Stage::Told;
        let (size, path) = (open.size(), open.listed.entry.path.clone());
        if theirs.is_some_and(|theirs| theirs != ours) {
            out.push(SenderAction::Say(Message::Replace(vec![id])));
            if self.terms.purpose == Purpose::Compare {
                let error = Error::new(ErrorKind::Corrupt, format!("{path} differs"));
                self.failed(id, error, out);
            }
            return;
        }
        say_that_it_is(id, ours, out);
        // Of what is only said the receiver has the last word, and what is moved goes once it has made its own durable.
        if theirs.is_some() && self.terms.purpose != Purpose::Plan && !self.terms.moves {
            self.count_end(id, Count::Skipped(Files::one(size)), out);
        }
    }
}

/// Tells the receiver what a file hashes to, in one message with others of which the same was just found out.
fn say_that_it_is(id: FileId, root: Digest, out: &mut Vec<SenderAction>) {
    let said = |action: &&mut SenderAction| matches!(action, SenderAction::Say(_));
    match out.iter_mut().rev().find(said) {
        Some(SenderAction::Say(Message::Keep(files))) if files.len() < OFFER_ENTRIES => {
            files.push((id, root));
        }
        _ => out.push(SenderAction::Say(Message::Keep(vec![(id, root)]))),
    }
}

impl Open {
    /// The receiver says what is `next` of this file, which it may only after one of `before`.
    fn next(&mut self, before: &[Stage], next: Stage) -> Result<()> {
        if !self.is_file() || !before.contains(&self.stage) {
            return Err(Error::protocol("a second verdict on one file"));
        }
        self.stage = next;
        Ok(())
    }

    /// Something of it is to be read.
    fn begin(&mut self, id: FileId, out: &mut Vec<SenderAction>) {
        if !std::mem::replace(&mut self.is_begun, true) {
            out.push(SenderAction::Open(id, Arc::clone(&self.listed)));
        }
    }

    fn have(&mut self, id: FileId, segments: Vec<(u64, Digest)>, out: &mut Vec<SenderAction>) {
        let size = self.size();
        if !self.is_file() || segments.is_empty() {
            return;
        }
        self.have.extend(segments.iter().map(|(segment, _)| *segment).filter(|n| *n < segment_count(size)));
        self.begin(id, out);
        out.push(SenderAction::Have(id, segments));
        self.keeps(self.ranges().iter().map(|range| range.end - range.start).sum(), out);
    }

    /// The ranges that the receiver has.
    fn ranges(&self) -> Vec<Range<u64>> {
        self.have.iter().map(|&segment| segment_range(segment, self.size())).collect()
    }

    /// The ranges to send of a file of which others send the rest.
    fn wanted_ranges(
        &mut self,
        id: FileId,
        ranges: Vec<Range<u64>>,
        out: &mut Vec<SenderAction>,
    ) -> Result<()> {
        let is_in = |range: &Range<u64>| {
            range.start < range.end && range.end <= self.size() && range.start.is_multiple_of(SEGMENT)
        };
        if !ranges.iter().all(is_in) || ranges.windows(2).any(|pair| pair[0].end > pair[1].start) {
            return Err(Error::protocol(
                "the receiver wants ranges that are not those of the file's segments",
            ));
        }
        let wanted: u64 = ranges.iter().map(|range| range.end - range.start).sum();
        self.begin(id, out);
        self.keeps(self.size() - wanted, out);
        out.push(SenderAction::Send(id, ranges));
        Ok(())
    }

    /// So much of it is not to be sent, which may be told bit by bit.
    fn keeps(&mut self, kept: u64, out: &mut Vec<SenderAction>) {
        if kept > self.kept {
            out.push(SenderAction::Count(Count::Already(kept - self.kept)));
            self.kept = kept;
        }
    }
}
