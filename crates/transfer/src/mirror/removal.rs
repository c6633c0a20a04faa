//! Removes what was decided to go. Names are removed from open directories beneath the destination, and links never
//! followed.

use rustix::io::Errno;

use super::Deleted;
use super::extent::stopped_at;
use super::plan::Extraneous;
use crate::error::{Error, ErrorKind, Result};
use crate::path::split;
use crate::record_log::{RecordLog, Replay};
use crate::store::backup::Backup;
use crate::sys::confined::Root;
use crate::sys::fs::{Mode, fchmod, fstat};

const FILE: &str = "extraneous";
const MAGIC: &[u8; 8] = b"TGSTRN01";

/// Noted down at a time.
const PORTION: usize = 1024;

/// What is to go, in a file.
#[derive(Debug)]
pub(super) struct Spill {
    work: Root,
    log: RecordLog<Extraneous>,
    pending: Vec<Extraneous>,
}

impl Spill {
    /// Empty, in the directory `work`, whatever an earlier run left there.
    pub(super) fn new(work: Root) -> Result<Self> {
        let _ = work.remove(FILE.as_bytes());
        let log = RecordLog::open(&work, FILE, MAGIC, |_| {})?;
        Ok(Self { work, log, pending: Vec::new() })
    }

    /// One more.
    pub(super) fn note(&mut self, extraneous: Extraneous) -> Result<()> {
        self.pending.push(extraneous);
        if self.pending.len() >= PORTION { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<()> {
        self.log.append(&std::mem::take(&mut self.pending))
    }

    /// Removes all of them beneath `base`, but no more than `most`, or moves files to `backup`.
    pub(super) fn remove(mut self, base: &Root, most: Option<u64>, backup: Option<&Backup>) -> Deleted {
        if let Err(error) = self.write() {
            return Deleted::nothing(&error);
        }
        // Held until all is done: a lock that is given up is not had back at once where a child is being started.
        let Self { work, log: _held, .. } = self;
        let (mut deleted, mut beyond) = (Deleted::default(), 0u64);
        let mut parent: Option<(Vec<u8>, Root)> = None;
        let read = RecordLog::read(&work, FILE, MAGIC, |shown| {
            let Replay::Record(extraneous) = shown else { return };
            if most.is_some_and(|most| deleted.entries >= most) {
                beyond += 1;
                return;
            }
            match remove_one(base, &extraneous, &mut parent, backup) {
                Ok(removed) => deleted.entries += u64::from(removed),
                Err(error) => drop(deleted.error.get_or_insert(error)),
            }
        });
        let kept = backup.map_or(Ok(()), Backup::settle);
        let error = deleted.error.take().or_else(|| read.err()).or_else(|| kept.err());
        deleted.error = error.or_else(|| stopped_at(most, beyond));
        let _ = work.remove(FILE.as_bytes());
        deleted
    }
}

/// Whether it went: what vanished meanwhile has gone already, and a directory into which something was put stays, as does
/// what something was mounted on.
fn remove_one(
    base: &Root,
    extraneous: &Extraneous,
    last: &mut Option<(Vec<u8>, Root)>,
    backup: Option<&Backup>,
) -> Result<bool> {
    let Extraneous { path, is_directory } = extraneous;
    let (parent, name) = split(path);
    let failed = |error| Error::io("delete", path, error);
    if last.as_ref().is_none_or(|(path, _)| path != parent) {
        *last = Some((parent.to_vec(), base.dir_within(parent).map_err(failed)?));
    }
    let Some((_, directory)) = last.as_ref() else { return Ok(false) };
    let remove = || {
        let removed = match (is_directory, backup) {
            (false, Some(backup)) => return backup.take(directory, path),
            (false, None) => directory.remove(name),
            (true, _) => directory.remove_dir(name),
        };
        match removed {
            Ok(()) => Ok(true),
            Err(Errno::NOENT | Errno::BUSY) => Ok(false),
            Err(Errno::NOTEMPTY | Errno::EXIST) if *is_directory => Ok(false),
            Err(error) => Err(failed(error)),
        }
    };
    match remove() {
        // Its directory goes as well, or gets the mode of the source's at the end.
        Err(error) if error.kind == ErrorKind::Denied && !parent.is_empty() && open_up(directory).is_ok() => {
            remove()
        }
        removed => removed,
    }
}

/// Lets us remove what is in a directory of ours.
fn open_up(directory: &Root) -> Result<(), Errno> {
    let mode = fstat(directory)?.st_mode & 0o7777;
    fchmod(directory, Mode::from_raw_mode(mode | 0o300))
}
