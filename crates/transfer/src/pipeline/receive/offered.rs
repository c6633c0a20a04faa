//! What a sender may offer: names beneath what was asked for, and each only once. Neither depends on the sender:
//! two files of one name would share an unfinished file, and whoever is asked for one file must not choose names.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::hashed::ByItself;
use crate::manifest::{Entry, Kind};
use crate::path::split;
use crate::quota::{Held, Quota};
use crate::text::show;

/// Names that are remembered at the most: 16 MiB or so. Beyond that those under way are, and no more.
const MAX_NAMES: usize = 1 << 20;

/// What one takes, about.
const NAME: usize = 16;

/// What a transfer was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// Whatever the sender names, as the destination's ticket allows.
    Anything,
    /// One file, which gets the destination's name.
    OneFile,
    /// Entries of these names and what lies beneath them.
    Beneath(Vec<Vec<u8>>),
}

impl Asked {
    /// What these paths of an endpoint may turn out to be; `single` if they are one file that gets another name.
    pub fn of(paths: &[Vec<u8>], single: bool) -> Self {
        if single {
            return Self::OneFile;
        }
        match paths.iter().any(|path| path.is_empty() || path.ends_with(b"/")) {
            // The contents of a directory: any name is one of them.
            true => Self::Anything,
            false => Self::Beneath(paths.iter().map(|path| split(path).1.to_vec()).collect()),
        }
    }

    /// How many things were asked for that must be offered, or told to have failed.
    pub fn names(&self) -> usize {
        match self {
            Self::Anything => 0,
            Self::OneFile => 1,
            Self::Beneath(names) => names.len(),
        }
    }

    /// What the `index`th of them is called.
    pub fn name(&self, index: usize) -> String {
        match self {
            Self::Beneath(names) => names.get(index).map(|name| show(name).into_owned()).unwrap_or_default(),
            _ => "the file".to_owned(),
        }
    }

    /// Which of what was asked for an entry belongs to; refuses one that nobody asked for.
    pub fn check(&self, entry: &Entry) -> Result<Option<usize>> {
        let refuse = |why: &str| {
            let why = format!("the other end offered {}, {why}: nothing more is taken from it", entry.path);
            Err(Error::new(ErrorKind::UnsafeName, why))
        };
        let path = entry.path.as_bytes();
        match self {
            Self::Anything => Ok(None),
            Self::OneFile if matches!(entry.kind, Kind::File { .. }) => Ok(Some(0)),
            Self::OneFile => refuse("which is no file, where one file was asked for"),
            Self::Beneath(names) => match names.iter().enumerate().find(|(_, name)| lies_beneath(path, name))
            {
                None => refuse("which was not asked for"),
                Some((_, name)) if name.len() == path.len() && matches!(entry.kind, Kind::Symlink { .. }) => {
                    refuse("a link where a file or a directory was asked for")
                }
                Some((index, _)) => Ok(Some(index)),
            },
        }
    }
}

impl Asked {
    /// Refuses a directory that is compared although nobody asked for what lies in it.
    pub(crate) fn check_directory(&self, directory: &[u8]) -> Result<()> {
        let was_asked = match self {
            Self::Anything => true,
            Self::OneFile => false,
            Self::Beneath(names) => names.iter().any(|name| lies_beneath(directory, name)),
        };
        match was_asked {
            true => Ok(()),
            false => {
                let why = format!(
                    "the other end told names of {}, which was not asked for: nothing is deleted",
                    show(directory)
                );
                Err(Error::new(ErrorKind::UnsafeName, why))
            }
        }
    }
}

fn lies_beneath(path: &[u8], name: &[u8]) -> bool {
    path.strip_prefix(name).is_some_and(|rest| rest.first().is_none_or(|&b| b == b'/'))
}

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

    /// Whether `place` is offered for the first time, as far as that is remembered. `open` are the places of those that have
    /// not ended, which are never forgotten.
    pub fn is_new(&mut self, place: &[u8], open: impl FnOnce() -> Vec<Vec<u8>>) -> bool {
        let name = self.hasher.hash_one(place);
        let full = self.seen.len() == self.seen.capacity();
        if !full && self.seen.len() < self.most {
            return self.seen.insert(name);
        }
        if self.seen.contains(&name) {
            return false;
        }
        if self.seen.len() >= self.most || (full && !self.held.resize((2 * self.seen.len() + 8) * NAME)) {
            self.seen = open().iter().map(|place| self.hasher.hash_one(&place[..])).collect();
        }
        self.seen.insert(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::Timestamp;
    use crate::path::RelPath;

    fn entry(path: &str, kind: Kind) -> Entry {
        Entry::new(RelPath::new(path).expect("a name"), kind, 0o644, Timestamp::default())
    }

    #[test]
    fn only_what_was_asked_for_is_accepted() {
        let file = |path| entry(path, Kind::File { size: 1, fingerprint: [0; 16] });
        let link = |path| entry(path, Kind::Symlink { target: b"/etc/passwd".to_vec() });
        let asked = Asked::of(&[b"data/report.pdf".to_vec(), b"tree".to_vec()], false);
        for fine in [file("report.pdf"), file("tree"), file("tree/a/b"), link("tree/link")] {
            asked.check(&fine).expect("asked for");
        }
        for bad in [file(".bashrc"), file("report.pdf2"), file("data/report.pdf"), link("report.pdf")] {
            assert_eq!(asked.check(&bad).expect_err("not asked for").kind, ErrorKind::UnsafeName);
        }
        let one = Asked::of(&[b"report.pdf".to_vec()], true);
        one.check(&file("report.pdf")).expect("it gets another name anyway");
        for bad in [link("report.pdf"), entry("report.pdf", Kind::Directory)] {
            one.check(&bad).expect_err("no file");
        }
        for contents in ["tree/", ""] {
            assert_eq!(Asked::of(&[contents.into()], false), Asked::Anything);
        }
    }

    #[test]
    fn a_place_is_taken_once_and_what_is_open_is_not_forgotten() {
        let place = |number: usize| format!("f{number}").into_bytes();
        let mut offered = Offered { most: 4, ..Offered::new(&Quota::unlimited()) };
        for number in 0..4 {
            assert!(offered.is_new(&place(number), Vec::new));
            assert!(!offered.is_new(&place(number), Vec::new), "offered twice");
        }
        assert!(offered.is_new(&place(9), || vec![place(2)]));
        assert!(!offered.is_new(&place(2), Vec::new), "it is open");
        assert!(offered.is_new(&place(0), Vec::new), "long ended");
        assert!(offered.seen.len() <= 4);
    }
}
