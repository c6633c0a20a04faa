//! What becomes of an entry: the one place where that is decided, for a copy, a comparison and a dry run alike. It is told
//! what is there, and looks at nothing itself.

use crate::catalogue::Verified;
use crate::hash::Digest;
use crate::journal::Left;
use crate::manifest::{Entry, Kind, Timestamp};
use crate::selection::Taking;
use crate::store::{Standing, There};
use crate::terms::{Compare, Purpose, Terms, Verify};

/// What is known of an entry's place at the destination.
#[derive(Debug)]
pub(crate) struct Facts<'a> {
    /// What bears its name.
    pub standing: Standing,
    /// What was verified of that before, whoever has touched it since.
    pub known: Option<Verified>,
    /// What an earlier run left of it.
    pub left: Option<&'a Left>,
    /// Whether that run's unfinished file is there.
    pub has_part: bool,
    /// Whether another transfer moves a part of it.
    pub is_split: bool,
}

/// By what it is decided.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Policy {
    compare: Compare,
    verify: Verify,
    purpose: Purpose,
    taking: Taking,
    /// Whether the sender can be asked for hashes, and may learn whether they are those of files that are here.
    asks_hashes: bool,
}

/// What becomes of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// It is a directory or a link, which needs nothing to be sent.
    Made,
    /// It is there and verified.
    Keep {
        /// Whether its mode is another.
        other_mode: bool,
        /// Its root hash, if only the run that ended before it could say so knows it.
        unrecorded: Option<Digest>,
    },
    /// Both ends read it, and the hashes are compared.
    CompareContent,
    /// It has another time than it was verified with: whether the content is another too, the sender's hash tells.
    CompareHash {
        /// The hash that was recorded.
        recorded: Digest,
        /// The time that it has had since.
        mtime: Timestamp,
    },
    /// A comparison misses it.
    Missing,
    /// It is sent, less what is left in its unfinished file, which is read again first.
    Continue,
    /// Other transfers move it, too.
    Share,
    /// It is sent, whole.
    Send {
        /// Whether what was left of it is of no use, and must not be taken for what comes.
        anew: bool,
        /// Whether something of the same size and time is there that was never verified.
        unverified: bool,
    },
}

impl Policy {
    /// That of a transfer under these terms.
    pub(crate) fn of(terms: &Terms, taking: Taking, asks_hashes: bool) -> Self {
        let Terms { compare, verify, purpose, .. } = *terms;
        Self { compare, verify, purpose, taking, asks_hashes }
    }

    /// Whether both ends are only compared.
    pub(crate) fn compares_only(&self) -> bool {
        self.purpose == Purpose::Compare
    }

    /// Whether anything is written.
    pub(crate) fn writes(&self) -> bool {
        self.purpose == Purpose::Copy
    }

    /// Whether it is only said what would become of entries.
    pub(crate) fn plans(&self) -> bool {
        self.purpose == Purpose::Plan
    }

    /// Whether `there` has to be known before anything is made.
    pub(crate) fn is_choosy(&self) -> bool {
        self.taking != Taking::default()
    }

    /// Whether what is `there`, or that nothing is, is to stay as it is.
    pub(crate) fn leaves(&self, entry: &Entry, there: Option<&There>) -> bool {
        let Taking { existing, ignore_existing, update } = self.taking;
        let Some(there) = there else { return existing };
        let is_directory = entry.kind == Kind::Directory;
        let is_file = matches!(entry.kind, Kind::File { .. });
        let newer = update && is_file && there.is_file() && there.mtime > entry.mtime;
        newer || (ignore_existing && !(is_directory && there.is_directory()))
    }

    /// What becomes of `entry`.
    pub(crate) fn decide(&self, entry: &Entry, facts: &Facts<'_>) -> Decision {
        if !matches!(entry.kind, Kind::File { .. }) {
            return Decision::Made;
        }
        match facts.standing {
            Standing::Same => return Decision::Keep { other_mode: false, unrecorded: None },
            _ if facts.is_split => return Decision::Share,
            Standing::Present(..) if self.compare == Compare::Checksum => return Decision::CompareContent,
            Standing::Present(mtime, mode) => {
                if let Some(decision) = self.present(entry, facts, (mtime, mode)) {
                    return decision;
                }
            }
            Standing::Absent | Standing::Made => {}
        }
        if self.compares_only() {
            return Decision::Missing;
        }
        match facts.left {
            Some(_) if facts.has_part => Decision::Continue,
            left => {
                let there = matches!(facts.standing, Standing::Present(mtime, _) if mtime == entry.mtime);
                Decision::Send { anew: left.is_some(), unverified: there }
            }
        }
    }

    /// What becomes of a file of which one of the same size is there, unless it is sent.
    fn present(&self, entry: &Entry, facts: &Facts<'_>, (mtime, mode): (Timestamp, u32)) -> Option<Decision> {
        let known = facts.known.filter(|known| known.size == entry.size() && known.mtime == mtime);
        let hash = known.map(|known| known.root).filter(|root| *root != [0; 32]);
        let recorded = hash.is_some() || (known.is_some() && self.verify == Verify::Block);
        // Complete in an earlier run that ended before it could say so.
        let root = facts.left.and_then(|left| left.root).filter(|_| !facts.has_part);
        if mtime == entry.mtime && (recorded || root.is_some()) {
            let other_mode = mode != entry.mode & 0o777;
            return Some(Decision::Keep { other_mode, unrecorded: root.filter(|_| !recorded) });
        }
        let recorded = hash.filter(|_| self.asks_hashes && facts.left.is_none() && !self.compares_only())?;
        Some(Decision::CompareHash { recorded, mtime })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::RelPath;

    const HASH: Digest = [7; 32];
    const BLOCKS: Digest = [0; 32];

    fn at(seconds: i64) -> Timestamp {
        Timestamp { seconds, nanoseconds: 0 }
    }

    fn entry(kind: Kind) -> Entry {
        Entry::new(RelPath::new("f").expect("a name"), kind, 0o644, at(5))
    }

    fn file() -> Entry {
        entry(Kind::File { size: 9, fingerprint: [1; 16] })
    }

    fn facts(standing: Standing) -> Facts<'static> {
        Facts { standing, known: None, left: None, has_part: false, is_split: false }
    }

    fn verified(mtime: i64, root: Digest) -> Option<Verified> {
        Some(Verified { size: 9, mtime: at(mtime), root })
    }

    fn left(change: impl FnOnce(&mut Left)) -> Left {
        let mut left = Left::default();
        change(&mut left);
        left
    }

    fn policy(terms: &Terms) -> Policy {
        Policy::of(terms, Taking::default(), true)
    }

    fn of(purpose: Purpose) -> Policy {
        policy(&Terms { purpose, ..Terms::default() })
    }

    /// As the copy decides, so does the plan of it.
    fn decided(facts: &Facts<'_>) -> Decision {
        let [copy, plan] = [Purpose::Copy, Purpose::Plan].map(|purpose| of(purpose).decide(&file(), facts));
        assert_eq!(copy, plan, "{facts:?}");
        copy
    }

    #[test]
    fn what_is_no_file_needs_nothing_to_be_sent() {
        for kind in [Kind::Directory, Kind::Symlink { target: b"x".to_vec() }] {
            for purpose in [Purpose::Copy, Purpose::Compare, Purpose::Plan] {
                assert_eq!(of(purpose).decide(&entry(kind.clone()), &facts(Standing::Made)), Decision::Made);
            }
        }
    }

    #[test]
    fn what_is_there_and_verified_stays() {
        let keep = |other_mode| Decision::Keep { other_mode, unrecorded: None };
        assert_eq!(decided(&facts(Standing::Same)), keep(false));
        for (mode, other_mode) in [(0o644, false), (0o600, true)] {
            let there = Facts { known: verified(5, HASH), ..facts(Standing::Present(at(5), mode)) };
            assert_eq!(decided(&there), keep(other_mode));
        }
        // Of blocks alone, where no more is asked for.
        let there = || Facts { known: verified(5, BLOCKS), ..facts(Standing::Present(at(5), 0o644)) };
        assert_eq!(decided(&there()), Decision::Send { anew: false, unverified: true });
        let block = policy(&Terms { verify: Verify::Block, ..Terms::default() });
        assert_eq!(block.decide(&file(), &there()), keep(false));
    }

    #[test]
    fn what_was_named_by_a_run_that_ended_then_stays_and_is_recorded() {
        let left = left(|left| left.root = Some(HASH));
        let there =
            |has_part| Facts { left: Some(&left), has_part, ..facts(Standing::Present(at(5), 0o644)) };
        assert_eq!(decided(&there(false)), Decision::Keep { other_mode: false, unrecorded: Some(HASH) });
        assert_eq!(decided(&there(true)), Decision::Continue, "its part has no name yet");
    }

    #[test]
    fn what_has_another_time_is_asked_about_where_that_is_allowed() {
        let there = || Facts { known: verified(8, HASH), ..facts(Standing::Present(at(8), 0o644)) };
        let ask = Decision::CompareHash { recorded: HASH, mtime: at(8) };
        assert_eq!(decided(&there()), ask);
        let blind = Policy::of(&Terms::default(), Taking::default(), false);
        assert_eq!(blind.decide(&file(), &there()), Decision::Send { anew: false, unverified: false });
        // Somebody has touched it since.
        let touched = Facts { known: verified(7, HASH), ..there() };
        assert_eq!(decided(&touched), Decision::Send { anew: false, unverified: false });
        assert_eq!(of(Purpose::Compare).decide(&file(), &there()), Decision::Missing);
    }

    #[test]
    fn contents_are_compared_where_that_is_asked_for() {
        for purpose in [Purpose::Copy, Purpose::Compare, Purpose::Plan] {
            let policy = policy(&Terms { purpose, compare: Compare::Checksum, ..Terms::default() });
            let there = Facts { known: verified(5, HASH), ..facts(Standing::Present(at(5), 0o644)) };
            assert_eq!(policy.decide(&file(), &there), Decision::CompareContent, "{purpose:?}");
        }
    }

    #[test]
    fn what_is_left_is_continued_or_of_no_use() {
        let left = left(|left| left.segments = [(0, HASH)].into());
        for standing in [|| Standing::Absent, || Standing::Present(at(1), 0o644)] {
            let there = |has_part| Facts { left: Some(&left), has_part, ..facts(standing()) };
            assert_eq!(decided(&there(true)), Decision::Continue);
            assert_eq!(decided(&there(false)), Decision::Send { anew: true, unverified: false });
        }
        assert_eq!(decided(&facts(Standing::Absent)), Decision::Send { anew: false, unverified: false });
        assert_eq!(of(Purpose::Compare).decide(&file(), &facts(Standing::Absent)), Decision::Missing);
        let split = Facts { is_split: true, ..facts(Standing::Absent) };
        assert_eq!(of(Purpose::Copy).decide(&file(), &split), Decision::Share);
    }
}
