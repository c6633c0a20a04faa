//! Which names of listings are wanted: what rules take, or what was listed of it, each once, and directories before what lies
//! in them.

use std::collections::HashSet;

use tidegate_transfer::error::{Error, ErrorKind, Result};
use tidegate_transfer::filter::Filter;
use tidegate_transfer::selection::Selection;
use tidegate_transfer::text::show;

use super::seen::{Known, Seen, above};

/// Chooses names, one after the other.
pub(crate) struct Chooser<'w> {
    filter: &'w Filter,
    only_listed: bool,
    seen: Seen,
    /// Names of the selection, and those that have not come up.
    listed: HashSet<&'w [u8]>,
    pending: HashSet<&'w [u8]>,
}

/// Hears which names were given, and whether to directories.
pub(crate) type Noted<'n> = &'n dyn Fn(&[u8], bool);

impl<'w> Chooser<'w> {
    /// Of what `selection` selects, whose rules are `filter`.
    pub fn new(selection: &'w Selection, filter: &'w Filter) -> Self {
        let listed: HashSet<&[u8]> = selection.names.iter().map(Vec::as_slice).collect();
        let pending = listed.clone();
        Self { filter, only_listed: selection.listed, seen: Seen::default(), listed, pending }
    }

    /// Whether the file `path` is wanted, which is called `inner` within its source; then it has its name.
    ///
    /// # Errors
    /// Something else has its name.
    pub fn takes(&mut self, path: &[u8], inner: &[u8], noted: Noted<'_>) -> Result<bool> {
        let Some(unasked) = self.unasked(inner) else { return Ok(false) };
        let before = path.len() - inner.len();
        let unasked = if unasked > 0 { before + unasked } else { 0 };
        if !self.way(path, unasked, noted)? || !self.filter.takes(path, false) {
            return Ok(false);
        }
        self.name(path, noted).map(|()| true)
    }

    /// Gives a file its name, which nothing else may have.
    pub fn name(&mut self, path: &[u8], noted: Noted<'_>) -> Result<()> {
        let why = match self.seen.get(path) {
            None => {
                self.seen.set(path, Known::File);
                noted(path, false);
                return Ok(());
            }
            Some(Known::File) => "it was named twice",
            Some(_) => "the source has a directory of that name, too",
        };
        Err(Error::new(ErrorKind::UnsafeName, format!("{} was not copied: {why}", show(path))))
    }

    /// The directories on the way to `path` that were not taken so yet, the topmost first.
    pub fn take_unoffered<'p>(&mut self, path: &'p [u8]) -> Vec<&'p [u8]> {
        self.seen.take_unoffered(path)
    }

    /// Names of the selection that have not come up, each with an error that says so.
    pub fn take_missing(&mut self) -> impl Iterator<Item = (&'w [u8], Error)> {
        std::mem::take(&mut self.pending).into_iter().map(|name| {
            let why = format!("{}: there is no such file at the source", show(name));
            (name, Error::new(ErrorKind::NotFound, why))
        })
    }

    /// How long the way to the file `inner` of a source is of which rules are not asked: as far as what was listed of it.
    /// `None` if that is nothing.
    fn unasked(&mut self, inner: &[u8]) -> Option<usize> {
        if !self.only_listed {
            return Some(0);
        }
        let ways = [&b""[..]].into_iter().chain(above(inner)).chain([inner]);
        let listed: Vec<&[u8]> = ways.filter(|way| self.listed.contains::<[u8]>(way)).collect();
        for way in &listed {
            self.pending.remove::<[u8]>(way);
        }
        listed.first().map(|way| way.len())
    }

    /// Whether all directories on the way to `path` are taken; rules are not asked of the first `unasked` bytes.
    fn way(&mut self, path: &[u8], unasked: usize, noted: Noted<'_>) -> Result<bool> {
        for parent in above(path) {
            match self.seen.get(parent) {
                Some(Known::Directory | Known::Offered) => {}
                Some(Known::Excluded) => return Ok(false),
                Some(Known::File) => {
                    let (path, parent) = (show(path), show(parent));
                    let why = format!("{path} was not copied: the source has a file called {parent}, too");
                    return Err(Error::new(ErrorKind::UnsafeName, why));
                }
                None if parent.len() < unasked || self.filter.takes(parent, true) => {
                    self.seen.set(parent, Known::Directory);
                    noted(parent, true);
                }
                None => {
                    self.seen.set(parent, Known::Excluded);
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}
