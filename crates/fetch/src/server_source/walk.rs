//! Shows what the sources hold as it is listed: what rules exclude is not asked about, and directories are made of the names
//! that lie in them.

use std::collections::HashSet;
use std::time::{SystemTime, UNIX_EPOCH};

use tidegate_transfer::error::{Error, ErrorKind, Result};
use tidegate_transfer::manifest::{Entry, Kind, MAX_SIZE, Timestamp};
use tidegate_transfer::offer::warn_left_out;
use tidegate_transfer::path::RelPath;
use tidegate_transfer::selection::Selection;
use tidegate_transfer::store::{Found, Listed};
use tidegate_transfer::text::show;
use url::Url;

use super::ServerSource;
use super::look::{Looks, version_of, with_looks};
use super::names::ListedNames;
use super::place::ServerPlace;
use super::seen::{Known, Seen, above};
use crate::record::{Named, Record};
use crate::remote::{Version, shown};
use crate::umask::umask;

/// A walk through all sources.
pub(super) struct Walk<'w> {
    source: &'w ServerSource,
    found: &'w mut dyn FnMut(Found) -> bool,
    seen: Seen,
    /// Names of the selection, and those that have not come up.
    listed: HashSet<&'w [u8]>,
    pending: HashSet<&'w [u8]>,
    umask: u32,
    /// How many files were shown.
    shown: u32,
}

/// A file that is wanted, as far as its name and its listing say.
struct Candidate {
    root: u16,
    path: RelPath,
    url: Url,
}

impl<'w> Walk<'w> {
    pub fn new(source: &'w ServerSource, found: &'w mut dyn FnMut(Found) -> bool) -> Self {
        let listed: HashSet<&[u8]> = source.selection.names.iter().map(Vec::as_slice).collect();
        let pending = listed.clone();
        Self { source, found, seen: Seen::default(), listed, pending, umask: umask(), shown: 0 }
    }

    /// Shows everything, until nobody wants more.
    pub fn run(mut self) {
        for (root, place) in (0..).zip(&self.source.places) {
            let goes_on = match place.file() {
                Some((name, seen)) => self.file(root, place, name, seen),
                None => self.directory(root, place),
            };
            if !goes_on {
                return;
            }
        }
        for name in std::mem::take(&mut self.pending) {
            let why = format!("{}: there is no such file at the source", show(name));
            if !self.problem(name, Error::new(ErrorKind::NotFound, why)) {
                return;
            }
        }
    }

    /// The one file that a source is.
    fn file(&mut self, root: u16, place: &ServerPlace, name: &RelPath, seen: &Version) -> bool {
        if !self.source.wanted.filter().takes(name.as_bytes(), false) {
            warn_left_out(name.as_bytes(), &"it was named, and rules exclude it");
            return true;
        }
        if let Err(error) = self.name(name.as_bytes()) {
            return self.problem(name.as_bytes(), error);
        }
        self.show(Candidate { root, path: name.clone(), url: place.base().clone() }, Ok(seen.clone()))
    }

    /// What lies in the directory that a source is.
    fn directory(&mut self, root: u16, place: &ServerPlace) -> bool {
        let Some(names) = place.names() else { return true };
        with_looks(&self.source.lines, |mut looks: Looks<Candidate>| {
            for named in names {
                let goes_on = match named {
                    Named::Record(record) => match self.candidate(root, place, &record) {
                        Ok(Some(candidate)) => {
                            let url = candidate.url.clone();
                            looks.ask(candidate, url);
                            true
                        }
                        Ok(None) => true,
                        Err(error) => self.problem(record.path.as_bytes(), error),
                    },
                    Named::Problem(name, error) => self.problem(name.as_bytes(), error),
                    Named::Note(note) => {
                        tracing::warn!("{note}");
                        true
                    }
                };
                if !goes_on || !self.show_ready(&mut looks) {
                    return false;
                }
            }
            while let Some((candidate, seen)) = looks.next() {
                if !self.show(candidate, seen) {
                    return false;
                }
            }
            true
        })
    }

    fn show_ready(&mut self, looks: &mut Looks<Candidate>) -> bool {
        while let Some((candidate, seen)) = looks.ready() {
            if !self.show(candidate, seen) {
                return false;
            }
        }
        true
    }

    /// What is to be asked about the file `inner` of a listing, if its name is wanted.
    ///
    /// # Errors
    /// Something else has its name, or it is no name here.
    fn candidate(&mut self, root: u16, place: &ServerPlace, record: &Record) -> Result<Option<Candidate>> {
        let path = place.path(&record.path)?;
        let inner = record.path.as_bytes();
        let Some(unasked) = self.unasked(inner) else { return Ok(None) };
        let before = path.as_bytes().len() - inner.len();
        let unasked = if unasked > 0 { before + unasked } else { 0 };
        if !self.way(path.as_bytes(), unasked)? || !self.source.wanted.filter().takes(path.as_bytes(), false)
        {
            return Ok(None);
        }
        self.name(path.as_bytes())?;
        let Selection { min_size, max_size, .. } = self.source.selection;
        let fits =
            |bytes| min_size.is_none_or(|least| bytes >= least) && max_size.is_none_or(|most| bytes <= most);
        if !record.bytes.is_none_or(fits) {
            return Ok(None);
        }
        let url = place.url(&path)?;
        Ok(Some(Candidate { root, path, url }))
    }

    /// How long the way to the file `inner` of a source is of which rules are not asked: as far as what was listed of it.
    /// `None` if that is nothing.
    fn unasked(&mut self, inner: &[u8]) -> Option<usize> {
        if !self.source.selection.listed {
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
    fn way(&mut self, path: &[u8], unasked: usize) -> Result<bool> {
        for parent in above(path) {
            match self.seen.get(parent) {
                Some(Known::Directory | Known::Offered) => {}
                Some(Known::Excluded) => return Ok(false),
                Some(Known::File) => {
                    let (path, parent) = (show(path), show(parent));
                    let why = format!("{path} was not copied: the source has a file called {parent}, too");
                    return Err(Error::new(ErrorKind::UnsafeName, why));
                }
                None if parent.len() < unasked || self.source.wanted.filter().takes(parent, true) => {
                    self.seen.set(parent, Known::Directory);
                    self.note(|names| names.add(parent, true));
                }
                None => {
                    self.seen.set(parent, Known::Excluded);
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Gives a file its name, which nothing else may have.
    fn name(&mut self, path: &[u8]) -> Result<()> {
        let why = match self.seen.get(path) {
            None => {
                self.seen.set(path, Known::File);
                self.note(|names| names.add(path, false));
                return Ok(());
            }
            Some(Known::File) => "it was named twice",
            Some(_) => "the source has a directory of that name, too",
        };
        Err(Error::new(ErrorKind::UnsafeName, format!("{} was not copied: {why}", show(path))))
    }

    /// Offers a file of which its server has said something, behind the directories on the way to it.
    fn show(&mut self, Candidate { root, path, url }: Candidate, seen: Result<Version>) -> bool {
        let sized = seen.and_then(|seen| Ok((size_of(&url, &seen)?, seen)));
        let (size, seen) = match sized {
            Ok(sized) => sized,
            Err(error) => return self.problem(path.as_bytes(), error),
        };
        self.shown = self.shown.wrapping_add(1);
        let fingerprint = version_of(&url, size, &seen, self.shown);
        let mtime = seen.time().unwrap_or_else(now);
        let entry = Entry::new(path, Kind::File { size, fingerprint }, 0o666 & !self.umask, mtime);
        if !self.source.selection.fits(&entry) {
            return true;
        }
        for directory in self.seen.take_unoffered(entry.path.as_bytes()) {
            let Ok(directory) = RelPath::new(directory) else { continue };
            // A server keeps no times of directories; one that is the same each time leaves them alone.
            let entry = Entry::new(directory, Kind::Directory, 0o777 & !self.umask, mtime);
            if !(self.found)(Found::Entry(Listed { entry, root })) {
                return false;
            }
        }
        (self.found)(Found::Entry(Listed { entry, root }))
    }

    /// Something cannot be copied; `false` once nobody wants more.
    fn problem(&mut self, name: &[u8], error: Error) -> bool {
        self.note(ListedNames::is_partial);
        (self.found)(Found::Problem(name.to_vec(), error))
    }

    /// Notes something for a mirror, if there is to be one.
    fn note(&self, note: impl FnOnce(&mut ListedNames)) {
        if let Some(names) = &self.source.names {
            note(&mut names.lock());
        }
    }
}

/// The size that a server tells.
fn size_of(url: &Url, seen: &Version) -> Result<u64> {
    let why = match seen.bytes {
        Some(bytes) if bytes <= MAX_SIZE => return Ok(bytes),
        Some(_) => "it is longer than any file",
        None => "its server does not tell how long it is: get it by `tidegate get`, and copy that",
    };
    Err(Error::new(ErrorKind::Protocol, format!("{}: {why}", shown(url))))
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp { seconds: since.as_secs() as i64, nanoseconds: since.subsec_nanos() }
}
