//! A file that is put: into a part file beneath `.tidegate`, checked, synced, and only then given its name, as every file
//! that arrives here. What breaks off leaves nothing.

use tidegate_transfer::endpoint::access::{Access, Right};
use tidegate_transfer::error::{Error, ErrorKind, Result};
use tidegate_transfer::manifest::{Entry, Kind, Timestamp};
use tidegate_transfer::path::RelPath;
use tidegate_transfer::spec::TransferId;
use tidegate_transfer::store::file_sink::FileSink;
use tidegate_transfer::store::{Sink, SinkFile};
use tidegate_transfer::terms::Purpose;
use tidegate_transfer::transfer::route::random_run;

use crate::tree::{self, Found};
use crate::validators::Validators;

/// The mode of a file that was not there before.
const MODE: u32 = 0o644;

/// What may be done about directories that are missing on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parents {
    /// They are made: S3 has none.
    Make,
    /// They must be there: WebDAV's clients make them.
    Need,
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
        let mut reached = access.reach(path, Right::Write)?;
        let place = RelPath::new(reached.rest.clone())?;
        let (parent, name) = place.split();
        let there = reached.base.dir(parent).and_then(|parent| parent.stat(name));
        let mode = match (&there, reached.base.dir(place.as_bytes())) {
            (_, Ok(_)) => return Err(Error::new(ErrorKind::Changed, "a directory bears that name")),
            (Ok(stat), _) => stat.st_mode & 0o777,
            (Err(_), _) => MODE,
        };
        if parents == Parents::Need && reached.base.dir(parent).is_err() {
            return Err(Error::new(
                ErrorKind::Changed,
                "there is no such directory to put it into: make it first",
            ));
        }
        reached.rest = place.as_bytes().to_vec();
        let id: TransferId = random_run();
        let sink = FileSink::new((&reached.base, &reached.rest), true, &id, Purpose::Copy, &[])?;
        let kind = Kind::File { size: size.unwrap_or(0), fingerprint: id };
        let entry = Entry { path: RelPath::new(name)?, kind, mode, mtime: Timestamp::default() };
        let part = match sink.open(&entry, false) {
            Ok(part) => Some(part),
            Err(error) => {
                sink.clean_up();
                return Err(error);
            }
        };
        Ok(Self { sink, part, entry, path: path.to_vec(), written: 0, replaces: there.is_ok() })
    }

    /// Writes the next bytes.
    pub fn write(&mut self, data: &[u8]) -> Result<()> {
        if let Some(part) = &self.part {
            part.write_at(self.written, data)?;
        }
        self.written += data.len() as u64;
        Ok(())
    }

    /// Makes it durable and gives it its name. Answers with which version that is, if it can be told.
    pub fn finish(mut self, access: &Access, modified: Timestamp) -> Result<Option<Validators>> {
        self.entry.mtime = modified;
        if let Some(part) = self.part.take() {
            part.seal(&self.entry)?;
            part.sync()?;
        }
        self.sink.publish(&self.entry)?;
        if let Some((_, error)) = self.sink.sync_names().into_iter().next() {
            return Err(error);
        }
        Ok(match tree::open(access, &self.path) {
            Ok(Found::File(file)) => Some(file.version),
            // Who may only write learns nothing of it.
            _ => None,
        })
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        self.sink.discard(&self.entry);
        self.sink.clean_up();
    }
}
