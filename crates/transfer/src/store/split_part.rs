//! The unfinished file that several transfers of one run write together, and what each of them says to be durable in it:
//! `.tidegate/<id>/` with the file and a log for each transfer.
//!
//! The directory gets its name with the file in it, and nobody makes the file in a directory that has its name: so what the
//! logs in it say is of this file, and of none that was made later.

use std::collections::HashMap;
use std::sync::Arc;

use rustix::io::Errno;

use crate::error::{Error, ErrorKind, Result};
use crate::hash::Digest;
use crate::path::RelPath;
use crate::quota::{Held, Quota};
use crate::record_log::{RecordLog, Replay};
use crate::spec::TransferId;
use crate::store::SinkFile;
use crate::store::appearance::Appearance;
use crate::store::part_file::PartFile;
use crate::store::work_dir::{JOURNAL, WorkDir};
use crate::sys::confined::Root;
use crate::sys::durable::{settle_above, sync_directory};
use crate::sys::sync::Mutex;
use crate::sys::{fs, random};

const MAGIC: &[u8; 8] = b"TGRNGE01";

/// Verified segments of the file, durable in it.
type Record = Vec<(u64, Digest)>;

/// Most of them in one record.
const RECORDED: usize = 4096;

/// What one has open besides the file: the directories that hold it, and the log.
const DESCRIPTORS: usize = 3;

/// How often a directory is looked for that others make, or remove, at the same time.
const ATTEMPTS: usize = 5;

/// An unfinished file that is shared, as one transfer has it.
#[derive(Debug)]
pub struct SplitPart {
    base: Root,
    work: WorkDir,
    part: String,
    place: RelPath,
    size: u64,
    log: Mutex<Log>,
    appearance: Arc<Appearance>,
    _held: Held,
}

#[derive(Debug)]
struct Log {
    records: RecordLog<Record>,
    /// Whether the names of the file and of the log are durable.
    named: bool,
}

impl SplitPart {
    /// The one of `id` in `base`, of a file of `size` bytes that goes to `place`, for the transfer that is called `transfer`;
    /// `None` if there is none, and none is to be `made`.
    pub(super) fn open(
        base: &Root,
        (id, transfer): (&TransferId, &str),
        (place, part, size): (&RelPath, String, u64),
        made: bool,
        (descriptors, appearance): (&Arc<Quota>, &Arc<Appearance>),
    ) -> Result<Option<Arc<Self>>> {
        let failed = |error| Error::io("create", place.as_bytes(), error);
        let held = descriptors.take(DESCRIPTORS).ok_or_else(|| {
            Error::new(ErrorKind::Busy, format!("no descriptor is free for {place}, which others move, too"))
        })?;
        for _ in 0..ATTEMPTS {
            if let Some(work) = WorkDir::open(base, id)? {
                if work.dir().stat(part.as_bytes()).is_ok_and(|stat| stat.st_size as u64 == size) {
                    // While it is locked it is not removed as abandoned.
                    let name = format!("{JOURNAL}-{transfer}");
                    let records = RecordLog::open(work.dir(), &name, MAGIC, |_| {})?;
                    let base = base.dir(b"").map_err(failed)?;
                    let log = Mutex::new(Log { records, named: false });
                    let (place, appearance) = (place.clone(), Arc::clone(appearance));
                    let part = Self { base, work, part, place, size, log, appearance, _held: held };
                    return Ok(Some(Arc::new(part)));
                }
                if !made {
                    return Ok(None);
                }
                // What was removed in part: of what its logs say nothing holds.
                work.rename(base, &any_id()).map_err(failed)?;
            } else if !made {
                return Ok(None);
            }
            let fresh = WorkDir::make(base, &any_id())?;
            fs::ftruncate(&fresh.create(&part)?, size).map_err(failed)?;
            if let Err(error) = fresh.rename(base, id) {
                fresh.remove(base);
                if !matches!(error, Errno::EXIST | Errno::NOTEMPTY) {
                    return Err(failed(error));
                }
            }
        }
        Err(failed(Errno::AGAIN))
    }

    /// The `wanted` segments that any transfer has said to be durable in it.
    pub fn left(&self, wanted: impl Fn(u64) -> bool) -> Result<HashMap<u64, Digest>> {
        let mut left = HashMap::new();
        for name in self.work.names().map_err(|error| Error::io("list", self.place.as_bytes(), error))? {
            if name.starts_with(JOURNAL) {
                let mut told = HashMap::new();
                RecordLog::read(self.work.dir(), &name, MAGIC, |shown: Replay<Record>| match shown {
                    Replay::Length(_) => {}
                    Replay::Record(record) => {
                        told.extend(record.into_iter().filter(|(segment, _)| wanted(*segment)));
                    }
                    Replay::Void => told.clear(),
                })?;
                left.extend(told);
            }
        }
        Ok(left)
    }

    /// Records segments of which the file has been synced, and makes that durable.
    pub fn record(&self, segments: &[(u64, Digest)]) -> Result<()> {
        let mut log = self.log.lock();
        let records: Vec<Record> = segments.chunks(RECORDED).map(<[_]>::to_vec).collect();
        log.records.append(&records)?;
        log.records.sync()?;
        if !log.named {
            let work = self.work.dir();
            let named = sync_directory(work).and_then(|()| settle_above(work));
            named.map_err(|error| Error::io("make durable", self.place.as_bytes(), error))?;
            log.named = true;
        }
        Ok(())
    }

    /// The file itself.
    pub fn file(&self) -> Result<Box<dyn SinkFile>> {
        let fd = self.work.reopen(&self.part)?;
        Ok(Box::new(PartFile::new(fd, self.place.clone(), self.size, true, &self.appearance)))
    }

    /// Where it lies, and its name there.
    pub(super) fn lies(&self) -> (&Root, &str) {
        (self.work.dir(), &self.part)
    }

    /// Removes what is left once the file has its name.
    pub fn remove(&self) {
        self.work.remove(&self.base);
    }
}

fn any_id() -> TransferId {
    *random::bytes().first_chunk().expect("long enough")
}
