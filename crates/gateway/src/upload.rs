//! A file that is put: into a part file beneath `.tidegate`, checked, synced, and only then given its name, as every file
//! that arrives here. What breaks off leaves nothing.

use tidegate_transfer::endpoint::access::{Access, Right};
use tidegate_transfer::error::{Error, ErrorKind, Result};
use tidegate_transfer::manifest::{Entry, Kind, Timestamp};
use tidegate_transfer::path::{RelPath, split};
use tidegate_transfer::spec::TransferId;
use tidegate_transfer::store::apart::Apart;
use tidegate_transfer::store::destination_path::DestinationPath;
use tidegate_transfer::store::file_sink::FileSink;
use tidegate_transfer::store::named::Reached;
use tidegate_transfer::store::naming::{Replaced, finish};
use tidegate_transfer::store::{Sink, SinkFile};
use tidegate_transfer::terms::Purpose;
use tidegate_transfer::transfer::route::random_run;

use crate::conditions::{Conditions, Names, failed};
use crate::refusal::Answer;
use crate::tree::{self, Found};
use crate::validators::Validators;

/// The mode of a file that was not there before.
const MODE: u32 = 0o644;

/// What may be done about directories that are missing on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parents {
    /// They are made: S3 has none.
    Make,
    /// They must be there: WebDAV's clients make them.
    Need,
}

/// Where a file is put.
pub(crate) struct Place {
    /// The directory that is open.
    pub reached: Reached,
    /// The path beneath that, as far as there is no link in it.
    pub rest: RelPath,
    /// The mode that the file gets.
    pub mode: u32,
    /// Whether something bears the name.
    pub replaces: bool,
    /// Whether there is a directory that it lies in.
    pub(crate) has_parent: bool,
}

impl Place {
    /// Finds out where `path` is, if the token may write there.
    pub fn find(access: &Access, path: &[u8]) -> Result<Self> {
        if path.ends_with(b"/") {
            return Err(Error::new(ErrorKind::Changed, "the name of a file has no slash at its end"));
        }
        let reached = access.reach(path, Right::Write)?;
        let rest = RelPath::new(reached.rest.clone())?;
        let (parent, name) = rest.split();
        let directory = reached.base.dir(parent);
        let there = directory.as_ref().map_err(|error| *error).and_then(|directory| directory.stat(name));
        if reached.base.dir(rest.as_bytes()).is_ok() {
            return Err(Error::new(ErrorKind::Changed, "a directory bears that name"));
        }
        let mode = there.as_ref().map_or(MODE, |stat| stat.st_mode & 0o777);
        let (replaces, has_parent) = (there.is_ok(), directory.is_ok());
        Ok(Self { reached, rest, mode, replaces, has_parent })
    }
}

/// The directory that `path` lies in.
pub(crate) fn directory_of(access: &Access, path: &[u8]) -> DestinationPath {
    let (access, named) = (access.clone(), path.to_vec());
    DestinationPath::new(split(path).0.to_vec(), move || {
        let Reached { base, rest, .. } = access.reach(&named, Right::Write)?;
        base.dir(split(&rest).0).map_err(|error| Error::io("open", &named, error))
    })
}

/// A file on its way.
pub struct Upload {
    sink: FileSink,
    part: Option<Box<dyn SinkFile>>,
    entry: Entry,
    path: Vec<u8>,
    written: u64,
    /// Whether something was there before.
    pub replaces: bool,
}

impl Upload {
    /// Begins to put a file of `size` bytes, if that is known, at `path`.
    pub fn begin(access: &Access, path: &[u8], size: Option<u64>, parents: Parents) -> Result<Self> {
        let Place { reached, rest, mode, replaces, has_parent } = Place::find(access, path)?;
        if parents == Parents::Need && !has_parent {
            return Err(Error::new(
                ErrorKind::Changed,
                "there is no such directory to put it into: make it first",
            ));
        }
        let id: TransferId = random_run();
        let sink =
            FileSink::new((&reached.base, rest.as_bytes()), true, &id, Purpose::Copy, Apart::default())?
                .found_by(directory_of(access, path));
        let kind = Kind::File { size: size.unwrap_or(0), fingerprint: id };
        let path_there = RelPath::new(rest.split().1)?;
        let entry = Entry::new(path_there, kind, mode, Timestamp::default());
        let part = match sink.open(&entry, false) {
            Ok(part) => Some(part),
            Err(error) => {
                sink.clean_up();
                return Err(error);
            }
        };
        Ok(Self { sink, part, entry, path: path.to_vec(), written: 0, replaces })
    }

    /// Writes the next bytes.
    pub fn write(&mut self, data: &[u8]) -> Result<()> {
        if let Some(part) = &self.part {
            part.write_at(self.written, data)?;
        }
        self.written += data.len() as u64;
        Ok(())
    }

    /// Makes it durable and gives it its name, if the conditions hold. Answers with which version that is, if it can be told.
    pub fn finish(
        mut self,
        access: &Access,
        modified: Timestamp,
        (names, conditions): (&Names, &Conditions),
    ) -> Answer<Option<Validators>> {
        self.entry.mtime = modified;
        if let Some(part) = self.part.take() {
            Self::settle(access, &self.path, &self.sink, &*part, &self.entry, (names, conditions))?;
        }
        Ok(Self::version(access, &self.path))
    }

    /// Makes the unfinished file of an entry durable and gives it its name at the path, unless the token is valid no more or
    /// the conditions do not hold.
    pub fn settle(
        access: &Access,
        path: &[u8],
        sink: &FileSink,
        part: &dyn SinkFile,
        entry: &Entry,
        (names, conditions): (&Names, &Conditions),
    ) -> Answer<()> {
        let replaced = if conditions.new { Replaced::Nothing } else { Replaced::File };
        let leave = || {
            access.check_valid()?;
            conditions.leave(names, access, path)
        };
        match finish(sink, part, entry, replaced, leave)? {
            true => Ok(()),
            false => Err(failed("something bears that name")),
        }
    }

    /// Which version is at `path` now; who may only write learns nothing of it.
    pub fn version(access: &Access, path: &[u8]) -> Option<Validators> {
        match tree::open(access, path) {
            Ok(Found::File(file)) => Some(file.version),
            _ => None,
        }
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        self.sink.discard(&self.entry);
        self.sink.clean_up();
    }
}
