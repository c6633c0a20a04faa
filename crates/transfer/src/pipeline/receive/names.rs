//! Which places were offered: each is taken once, as two files of one name would share an unfinished file.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use crate::hashed::ByItself;
use crate::quota::{Held, Quota};

/// Names that are remembered at the most: 16 MiB or so. Beyond that those under way are, and no more.
const MAX_NAMES: usize = 1 << 20;

/// What one takes, about.
const NAME: usize = 16;

/// The places that were offered in this run.
#[derive(Debug)]
pub(crate) struct Offered {
    /// Keyed at random, so that no sender can choose two names that look like one.
    hasher: RandomState,
    seen: HashSet<u64, ByItself>,
    most: usize,
    /// Memory that they take.
    held: Held,
}

impl Offered {
    /// None yet; they are remembered as long as `metadata` have room.
    pub fn new(metadata: &Arc<Quota>) -> Self {
        let held = metadata.take(0).expect("nothing is always left");
        Self { hasher: RandomState::new(), seen: HashSet::default(), most: MAX_NAMES, held }
    }

    /// Whether another place can be remembered; else those of entries that have not ended are to be [kept](Self::keep).
    pub fn has_room(&mut self) -> bool {
        let seen = self.seen.len();
        seen < self.most && (seen < self.seen.capacity() || self.held.resize((2 * seen + 8) * NAME))
    }

    /// Forgets all places but these.
    pub fn keep(&mut self, open: impl Iterator<Item = Vec<u8>>) {
        self.seen = open.map(|place| self.hasher.hash_one(&place[..])).collect();
    }

    /// Whether `place` is offered for the first time, as far as that is remembered.
    pub fn is_new(&mut self, place: &[u8]) -> bool {
        self.seen.insert(self.hasher.hash_one(place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_taken_once_and_what_is_open_is_not_forgotten() {
        let place = |number: usize| format!("f{number}").into_bytes();
        let mut offered = Offered { most: 4, ..Offered::new(&Quota::unlimited()) };
        for number in 0..4 {
            assert!(offered.has_room() && offered.is_new(&place(number)));
            assert!(!offered.is_new(&place(number)), "offered twice");
        }
        assert!(!offered.has_room());
        offered.keep(std::iter::once(place(2)));
        assert!(offered.has_room() && offered.is_new(&place(9)));
        assert!(!offered.is_new(&place(2)), "it is open");
        assert!(offered.is_new(&place(0)), "long ended");
    }
}
