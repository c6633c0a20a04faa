//! What of a source is offered, and what of that a destination takes.

pub mod bounds;

use crate::error::{Error, ErrorKind, Result};
use crate::filter::Filter;
use crate::filter::rule::{Action, Rule, RuleSide};
use crate::manifest::{Entry, Kind, Timestamp};
use crate::record::tagged;

/// Most rules, and most names of a list, that are said to an endpoint. All of a selection goes into one message.
const MAX_RULES: usize = 16 << 10;
const MAX_LISTED: usize = 256 << 10;

/// Most bytes of patterns and names that are said to an endpoint.
const MAX_SELECTION: usize = 3 << 20;

/// What of a source is offered; all of it by default. Sizes are bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Which names, the first rule that matches deciding.
    pub rules: Vec<Rule>,
    /// Whether only what `names` lists is offered.
    pub listed: bool,
    /// Names relative to the one source, without dots; the directories on the way to them are offered, too.
    pub names: Vec<Vec<u8>>,
    /// Files of no fewer bytes.
    pub min_size: Option<u64>,
    /// Files of no more bytes.
    pub max_size: Option<u64>,
    /// Files that were modified later.
    pub newer_than: Option<Timestamp>,
    /// Files that were modified earlier.
    pub older_than: Option<Timestamp>,
    /// Whether directories on which another file system is mounted are not entered.
    pub one_file_system: bool,
}

tagged!(Selection, "a selection" {
    1 => rules: list[MAX_RULES],
    3 => listed,
    5 => names: list[MAX_LISTED],
    7 => min_size,
    9 => max_size,
    11 => newer_than,
    13 => older_than,
    15 => one_file_system,
});

impl Selection {
    /// Whether all of the source is offered.
    pub fn is_all(&self) -> bool {
        *self == Self::default()
    }

    /// Its rules, ready to be asked where files are listed.
    pub fn filter(&self) -> Result<Filter> {
        Filter::new(&self.rules, RuleSide::Source)
    }

    /// Whether its rules and names are those of a receiver's own request, so that it can tell what may be offered.
    pub(crate) fn can_be_checked(&self) -> bool {
        !self.listed && !self.rules.iter().any(|rule| matches!(rule.action, Action::Merge(_)))
    }

    /// Whether what was named as a source may be left out.
    pub(crate) fn may_leave_out_files(&self) -> bool {
        self.listed || !self.fits_all()
    }

    fn fits_all(&self) -> bool {
        let sizes = (self.min_size, self.max_size);
        sizes == (None, None) && (self.newer_than, self.older_than) == (None, None)
    }

    /// Whether `entry` has a size and a time that are asked for.
    pub fn fits(&self, entry: &Entry) -> bool {
        let Kind::File { size, .. } = entry.kind else { return true };
        self.min_size.is_none_or(|least| size >= least)
            && self.max_size.is_none_or(|most| size <= most)
            && self.newer_than.is_none_or(|time| entry.mtime > time)
            && self.older_than.is_none_or(|time| entry.mtime < time)
    }

    /// What it takes in memory.
    pub fn memory(&self) -> usize {
        // A byte of a pattern becomes a token of 40, in up to three variants of it, which two have at a time.
        let rules = self.rules.iter().map(|rule| 4 * size_of::<Rule>() + 240 * rule.pattern.len());
        let names = self.names.iter().map(|name| 3 * size_of::<Vec<u8>>() + 2 * name.len());
        rules.sum::<usize>() + names.sum::<usize>()
    }

    /// Refuses what is more than one message may hold.
    pub(crate) fn check_size(&self) -> Result<()> {
        let patterns: usize = self.rules.iter().map(|rule| rule.pattern.len() + 8).sum();
        let names: usize = self.names.iter().map(|name| name.len() + 3).sum();
        if self.rules.len() > MAX_RULES || self.names.len() > MAX_LISTED || patterns + names > MAX_SELECTION {
            let why = format!(
                "{} filter rules and {} listed names are more than an endpoint is told at once (at most {MAX_RULES} and {MAX_LISTED}, of 3 MiB): copy in parts",
                self.rules.len(),
                self.names.len()
            );
            return Err(Error::new(ErrorKind::Usage, why));
        }
        Ok(())
    }
}

/// What a destination removes once everything has arrived: what the source does not have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deletion {
    /// The filter rules of the copy: what they exclude stays.
    pub rules: Vec<Rule>,
    /// Whether it does not, unless a rule is for the receiver alone.
    pub excluded: bool,
    /// How much is removed at the most; said, it also allows what is refused as an accident otherwise.
    pub most: Option<u64>,
    /// Where files are moved that would be removed: a path from the destination's directory, or from the root.
    pub backup: Option<Vec<u8>>,
}

tagged!(Deletion, "a deletion" { 1 => rules: list[MAX_RULES], 3 => excluded, 5 => most, 7 => backup, });

impl Deletion {
    /// Its rules, ready to be asked what may be removed.
    pub fn filter(&self) -> Result<Filter> {
        match self.excluded {
            true => Filter::of_destination_alone(&self.rules),
            false => Filter::new(&self.rules, RuleSide::Destination),
        }
    }

    /// What it takes in memory.
    pub fn memory(&self) -> usize {
        self.as_selection().memory() + self.backup.as_ref().map_or(0, Vec::len)
    }

    /// Refuses what is more than one message may hold.
    pub(crate) fn check_size(&self) -> Result<()> {
        self.as_selection().check_size()
    }

    fn as_selection(&self) -> Selection {
        Selection { rules: self.rules.clone(), ..Selection::default() }
    }
}

/// What a destination takes of what is offered; all of it by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taking {
    /// Only what is there under its name.
    pub existing: bool,
    /// No file that is there under its name.
    pub ignore_existing: bool,
    /// No file that is there and was modified later.
    pub update: bool,
}

tagged!(Taking, "what is taken" { 1 => existing, 3 => ignore_existing, 5 => update, });

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::RelPath;

    #[test]
    fn files_are_chosen_by_size_and_time_and_nothing_else_is() {
        let at = |seconds| Timestamp { seconds, nanoseconds: 5 };
        let file = |size, seconds| {
            Entry::new(
                RelPath::new("f").expect("a name"),
                Kind::File { size, fingerprint: [0; 16] },
                0o644,
                at(seconds),
            )
        };
        let selection = Selection {
            min_size: Some(10),
            max_size: Some(20),
            newer_than: Some(at(100)),
            older_than: Some(at(200)),
            ..Selection::default()
        };
        let tried = [(10, 150), (20, 101), (9, 150), (21, 150), (15, 100), (15, 200)];
        let fits = tried.map(|(size, time)| selection.fits(&file(size, time)));
        assert_eq!(fits, [true, true, false, false, false, false]);
        let directory = Entry { kind: Kind::Directory, ..file(0, 0) };
        assert!(selection.fits(&directory) && selection.may_leave_out_files());
        assert!(Selection::default().is_all() && !Selection::default().may_leave_out_files());
    }
}
