//! Which versions a server shows of one file, where the parts of each lie, and what of them is compared.
//!
//! Behind a balancer each server may have a tag of its own for the same bytes. That they are the same is taken from a
//! sample: wherever two versions meet, one answer brings bytes of both sides, and whichever server gives it, one of
//! them came from another. A file that was replaced shows a new version as well, but never the old one again, and not
//! one after the other.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::time::Instant;

use tidegate_control::Rng;
use tidegate_transfer::manifest::SEGMENT;

use crate::get::memory::{Validators, validators};
use crate::remote::Version;

/// Bytes that are compared at one place.
pub(super) const SAMPLE: u64 = 64 << 10;

/// Most places that are compared.
const MAX_SAMPLES: usize = 32;

/// Most parts that are told apart; of more, every other is forgotten.
const MAX_PARTS: usize = 4096;

/// Most versions that are told apart.
const MAX_VERSIONS: usize = 64;

/// So many dates of one file within a run, where a date is all that tells, are the time of the answer.
const MOVING: usize = 4;

/// The versions of a file, and what came from which.
pub(super) struct Sources {
    /// Where parts begin, and whose they are; nobody knows of what an earlier run had from several.
    parts: BTreeMap<u64, Option<Validators>>,
    /// The versions seen, and since when, in that order.
    seen: Vec<(Validators, Instant)>,
    has_tags: bool,
    alternate: bool,
    /// Answers since there are several versions, while it is not known that these are there at once.
    pub(super) undecided: u32,
}

impl Sources {
    /// All of one version.
    pub(super) fn new(version: &Version) -> Self {
        let known = validators(version);
        Self {
            parts: BTreeMap::from([(0, Some(known))]),
            seen: vec![(known, Instant::now())],
            has_tags: version.tag.is_some(),
            alternate: false,
            undecided: 0,
        }
    }

    /// What an earlier run left is there, of `before` if that is known.
    pub(super) fn are_left(&mut self, left: &[Range<u64>], before: Option<Validators>, alternate: bool) {
        let ours = self.seen.first().map(|(version, _)| *version);
        for range in left {
            let step = if before.is_some() { u64::MAX } else { SEGMENT };
            self.parts.extend((range.start..range.end).step_by(step as usize).map(|start| (start, before)));
            self.parts.insert(range.end, ours);
        }
        if let Some(before) = before {
            self.seen.insert(0, (before, Instant::now()));
        }
        self.alternate = alternate;
    }

    /// `range` begins to come, of `version`, in an answer that was asked for at `asked`.
    pub(super) fn comes(&mut self, range: &Range<u64>, version: &Version, asked: Instant) {
        let after = self.at(range.end);
        self.parts.entry(range.end).or_insert(after);
        self.parts.insert(range.start, Some(validators(version)));
        self.shown(version, asked);
        if self.seen.len() > 1 && !self.alternate {
            self.undecided += 1;
        }
        if self.parts.len() > MAX_PARTS {
            let mut number = 0;
            self.parts.retain(|_, _| {
                number += 1;
                number % 2 == 1
            });
        }
    }

    /// An answer that was asked for at `asked` is of `version`.
    pub(super) fn shown(&mut self, version: &Version, asked: Instant) {
        self.has_tags |= version.tag.is_some();
        let known = validators(version);
        match self.seen.iter().position(|(seen, _)| *seen == known) {
            // It is there still although a later one was seen before it was asked for.
            Some(place) => self.alternate |= self.seen[place + 1..].iter().any(|(_, since)| *since < asked),
            None if self.seen.len() < MAX_VERSIONS => self.seen.push((known, Instant::now())),
            None => {}
        }
        self.alternate |= !self.has_tags && self.seen.len() >= MOVING;
    }

    /// Whether several versions are known to be there at once, rather than one after the other.
    pub(super) const fn alternate(&self) -> bool {
        self.alternate
    }

    /// Whether all came from one version.
    pub(super) fn is_one(&self) -> bool {
        self.seen.len() == 1 && self.parts.values().all(Option::is_some)
    }

    fn at(&self, offset: u64) -> Option<Validators> {
        self.parts.range(..=offset).next_back().and_then(|(_, version)| *version)
    }

    /// What is compared of a file of `size`, as far as it `is_there`: both ends, and around places where versions meet, of
    /// each version some.
    pub(super) fn samples(
        &self,
        size: u64,
        seed: u64,
        is_there: impl Fn(&Range<u64>) -> bool,
    ) -> Vec<Range<u64>> {
        let around = |at: u64| {
            let from = at.saturating_sub(SAMPLE / 2).min(size.saturating_sub(SAMPLE));
            from..(from + SAMPLE).min(size)
        };
        let sides = self.parts.iter().zip(self.parts.iter().skip(1));
        let mut seams: Vec<_> = sides
            .filter(|((_, before), (start, after))| (before != after || after.is_none()) && **start < size)
            .map(|((_, before), (start, after))| (*start, [*before, *after]))
            .collect();
        let mut rng = Rng::new(seed);
        for place in (1..seams.len()).rev() {
            seams.swap(place, (rng.next_u64() % (place as u64 + 1)) as usize);
        }
        let mut met = HashSet::new();
        seams.sort_by_cached_key(|(_, sides)| !sides.iter().fold(false, |new, side| met.insert(*side) | new));
        let seams = seams.into_iter().map(|(start, _)| around(start));
        [around(0), around(size)].into_iter().chain(seams).filter(is_there).take(MAX_SAMPLES).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tidegate_transfer::manifest::Timestamp;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn tag(tag: u64) -> Version {
        Version { tag: Some(tag.to_string()), ..Version::default() }
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(1)
    }

    #[test]
    fn versions_alternate_only_if_the_first_is_asked_for_and_seen_after_another() {
        let before = Instant::now();
        let mut sources = Sources::new(&tag(1));
        sources.comes(&(MIB..2 * MIB), &tag(2), before);
        sources.comes(&(2 * MIB..3 * MIB), &tag(2), soon());
        sources.comes(&(0..MIB), &tag(1), before);
        assert!(!sources.alternate(), "it was asked for before the other was seen");
        assert_eq!(sources.undecided, 3);
        sources.shown(&tag(1), soon());
        assert!(sources.alternate());
    }

    #[test]
    fn a_date_that_moves_again_and_again_is_the_time_of_the_answer_and_a_tag_is_not() {
        for has_tag in [false, true] {
            let at = |second| Version {
                tag: has_tag.then(|| format!("{second}")),
                modified: Some(Timestamp { seconds: second, nanoseconds: 0 }),
                ..Version::default()
            };
            let mut sources = Sources::new(&at(0));
            for second in 1..10 {
                assert!(!sources.alternate() || second > 3);
                sources.shown(&at(second), soon());
            }
            assert_eq!(sources.alternate(), !has_tag);
        }
    }

    #[test]
    fn samples_lie_at_both_ends_and_around_the_places_where_versions_meet() {
        let mut sources = Sources::new(&tag(1));
        sources.comes(&(2 * MIB..3 * MIB), &tag(2), soon());
        let samples = sources.samples(5 * MIB, 7, |_| true);
        let half = SAMPLE / 2;
        let mut seams = [2 * MIB, 3 * MIB].map(|at| at - half..at + half).to_vec();
        seams.sort_by_key(|range| !samples[2..].starts_with(std::slice::from_ref(range)));
        assert_eq!(samples, [vec![0..SAMPLE, 5 * MIB - SAMPLE..5 * MIB], seams].concat());
        assert_eq!(sources.samples(5 * MIB, 7, |range| range.start == 0).len(), 1, "what is there alone");
    }

    #[test]
    fn however_many_parts_there_are_few_are_compared_and_some_of_each_version() {
        let mut sources = Sources::new(&tag(1));
        for part in 1..20_000 {
            let version = tag(if part == 10_000 { 3 } else { part % 2 });
            sources.comes(&(part * MIB..(part + 1) * MIB), &version, soon());
        }
        assert!(sources.parts.len() <= MAX_PARTS);
        assert_eq!(sources.samples(20_000 * MIB, 7, |_| true).len(), MAX_SAMPLES);
        let mut sources = Sources::new(&tag(1));
        for part in 1..1000 {
            let version = tag(if part == 500 { 3 } else { part % 2 });
            sources.comes(&(part * MIB..(part + 1) * MIB), &version, soon());
        }
        for seed in 0..10 {
            let samples = sources.samples(1000 * MIB, seed, |_| true);
            let third = |range: &Range<u64>| range.end > 500 * MIB && range.start <= 501 * MIB;
            assert!(samples.iter().any(third), "seed {seed}: {samples:?}");
        }
    }

    #[test]
    fn what_an_earlier_run_left_of_several_versions_is_compared_segment_by_segment() {
        let mut sources = Sources::new(&tag(1));
        sources.are_left(&[0..3 * SEGMENT], None, true);
        assert!(sources.alternate() && !sources.is_one());
        let samples = sources.samples(9 * SEGMENT, 7, |range| range.end <= 3 * SEGMENT);
        assert_eq!(samples.len(), 3, "the beginning, and two between segments: {samples:?}");
        let mut sources = Sources::new(&tag(1));
        sources.are_left(&[0..3 * SEGMENT], Some(validators(&tag(2))), false);
        sources.shown(&tag(2), soon());
        assert!(sources.alternate(), "what was there before is there again");
    }
}
