//! Shows what the sources hold as it is listed: what rules exclude is not asked about, and directories are made of the names
//! that lie in them.

use std::time::{SystemTime, UNIX_EPOCH};

use tidegate_transfer::error::{Error, ErrorKind, Result};
use tidegate_transfer::manifest::{Entry, Kind, MAX_SIZE, Timestamp};
use tidegate_transfer::offer::warn_left_out;
use tidegate_transfer::path::RelPath;
use tidegate_transfer::selection::Selection;
use tidegate_transfer::store::{Found, Listed};
use url::Url;

use super::ServerSource;
use super::chooser::Chooser;
use super::look::{Looks, version_of, with_looks};
use super::place::ServerPlace;
use crate::record::{Named, Record};
use crate::remote::{Version, shown};
use crate::umask::umask;

/// A walk through all sources.
pub(super) struct Walk<'w> {
    source: &'w ServerSource,
    found: &'w mut dyn FnMut(Found) -> bool,
    chooser: Chooser<'w>,
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
        let chooser = Chooser::new(&source.selection, source.wanted.filter());
        Self { source, found, chooser, umask: umask(), shown: 0 }
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
        for (name, error) in self.chooser.take_missing().collect::<Vec<_>>() {
            if !self.problem(name, error) {
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
        let noted = noting(self.source);
        if let Err(error) = self.chooser.name(name.as_bytes(), &noted) {
            return self.problem(name.as_bytes(), error);
        }
        self.show(Candidate { root, path: name.clone(), url: place.base().clone() }, Ok(seen.clone()))
    }

    /// What lies in the directory that a source is.
    fn directory(&mut self, root: u16, place: &ServerPlace) -> bool {
        let Some(names) = place.names() else { return true };
        if let (Some(noted), Some(prefix)) = (&self.source.names, place.prefix()) {
            noted.lock().begin(prefix);
        }
        with_looks(&self.source.lines, |mut looks: Looks<Candidate>| {
            for named in names {
                let goes_on = match named {
                    Named::Record(record) => match self.candidate(root, place, &record) {
                        Ok(Some(candidate)) => {
                            let url = candidate.url.clone();
                            match listed_version(&record) {
                                Some(seen) => looks.know(candidate, seen),
                                None => looks.ask(candidate, url),
                            }
                            true
                        }
                        Ok(None) => true,
                        Err(error) => self.problem(record.path.as_bytes(), error),
                    },
                    Named::Problem(name, error) => self.problem(name.as_bytes(), error),
                    Named::LeftOut(inner, why) => self.left_out(place, &inner, why),
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

    /// Something is there that is no file: it has its name all the same.
    fn left_out(&mut self, place: &ServerPlace, inner: &RelPath, why: &str) -> bool {
        let noted = noting(self.source);
        let taken = place.path(inner).and_then(|path| {
            let taken = self.chooser.takes(path.as_bytes(), inner.as_bytes(), &noted)?;
            Ok(taken.then_some(path))
        });
        match taken {
            Ok(Some(path)) => warn_left_out(path.as_bytes(), &why),
            Ok(None) => {}
            Err(error) => return self.problem(inner.as_bytes(), error),
        }
        true
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
        let noted = noting(self.source);
        if !self.chooser.takes(path.as_bytes(), record.path.as_bytes(), &noted)? {
            return Ok(None);
        }
        let Selection { min_size, max_size, .. } = self.source.selection;
        let fits =
            |bytes| min_size.is_none_or(|least| bytes >= least) && max_size.is_none_or(|most| bytes <= most);
        if !record.bytes.is_none_or(fits) {
            return Ok(None);
        }
        let url = place.url(&path)?;
        Ok(Some(Candidate { root, path, url }))
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
        for directory in self.chooser.take_unoffered(entry.path.as_bytes()) {
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
        if let Some(names) = &self.source.names {
            names.lock().is_partial();
        }
        (self.found)(Found::Problem(name.to_vec(), error))
    }
}

/// Notes names for a mirror, if there is to be one.
fn noting(source: &ServerSource) -> impl Fn(&[u8], bool) + use<'_> {
    |name, is_directory| {
        if let Some(names) = &source.names {
            names.lock().add(name, is_directory);
        }
    }
}

/// Which version a listing says that a file is of, if that is all that its server would tell.
fn listed_version(record: &Record) -> Option<Version> {
    let (bytes, modified) = (Some(record.bytes?), Some(record.modified?));
    Some(Version { bytes, modified, ranges: true, ..Version::default() })
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
