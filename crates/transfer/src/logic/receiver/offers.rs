//! What may be offered: what was asked for, in the order of its numbers, and no more after the last.

use std::collections::BTreeSet;

use crate::error::{Error, ErrorKind, Result};
use crate::filter::Filter;
use crate::logic::asked::Asked;
use crate::manifest::{Entry, FileId, Kind, MAX_SIZE};
use crate::offer::DirectoryNames;
use crate::selection::{Selection, Taking};

/// What the sender may offer, and how far it is.
#[derive(Debug)]
pub(crate) struct OfferRules {
    asked: Asked,
    /// What the sender was asked to leave out, as far as that can be told here.
    filter: Filter,
    /// Whether whoever started this asked for it here.
    is_pulled: bool,
    /// Which of what was asked for nothing was offered of yet.
    missing: BTreeSet<usize>,
    /// The number of the next entry.
    next: FileId,
    listed: bool,
}

impl OfferRules {
    /// Nothing was offered of what was `asked` for, by this `selection` if that was asked here; all of it must be, unless
    /// some of it may be left out or is not `taken`.
    pub fn new(asked: Asked, selection: Option<&Selection>, taking: Taking) -> Self {
        let checked = selection.filter(|selection| selection.can_be_checked());
        let filter = checked.and_then(|selection| selection.filter().ok()).unwrap_or_default();
        let may_miss = selection.is_some_and(Selection::may_leave_out_files) || taking != Taking::default();
        let names = if may_miss { 0 } else { asked.names() };
        let missing = (0..names).collect();
        Self { asked, filter, is_pulled: selection.is_some(), missing, next: 0, listed: false }
    }

    /// Whether whoever started this asked for it here.
    pub const fn were_asked_for(&self) -> bool {
        self.is_pulled
    }

    /// The sender has listed everything.
    pub const fn all_listed(&mut self) {
        self.listed = true;
    }

    /// Whether it has.
    pub const fn is_listed(&self) -> bool {
        self.listed
    }

    /// What was asked for and never heard of.
    pub fn missing(&self) -> Option<String> {
        self.missing.first().map(|index| self.asked.name(*index))
    }

    /// Numbers in order, each used once, sizes that a file can have, and nothing that was not asked for.
    pub fn check(&mut self, first: FileId, entries: &[Entry]) -> Result<()> {
        if self.listed {
            return Err(Error::protocol("an offer after the last one"));
        }
        for entry in entries {
            entry.extras.read()?;
            if !self.filter.takes_all_of(entry.path.as_bytes(), entry.kind == Kind::Directory) {
                let why = format!(
                    "the other end offered {}, which a filter rule excludes: nothing more is taken from it",
                    entry.path
                );
                return Err(Error::new(ErrorKind::UnsafeName, why));
            }
            if let Some(index) = self.asked.check(entry)? {
                self.missing.remove(&index);
            }
        }
        let following = first.checked_add(entries.len() as FileId).filter(|_| first == self.next);
        self.next =
            following.ok_or_else(|| Error::protocol("an offer whose numbers are not the next ones"))?;
        match entries.iter().find(|entry| entry.size() > MAX_SIZE) {
            Some(entry) => Err(Error::protocol(format!("{} is longer than any file", entry.path))),
            None => Ok(()),
        }
    }

    /// Refuses names of directories that nobody asked for.
    pub fn check_names(&self, directories: &[DirectoryNames]) -> Result<()> {
        directories.iter().try_for_each(|names| self.asked.check_directory(&names.directory))
    }
}
