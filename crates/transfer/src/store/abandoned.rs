//! Unfinished transfers that nobody came back to: what they left beneath a directory, and its removal.

use std::os::fd::OwnedFd;
use std::time::{Duration, UNIX_EPOCH};

use rustix::io::Errno;
use tidegate_control::ByteCount;

use crate::error::{Error, Result};
use crate::path::{WORK_DIR, is_reserved};
use crate::spec::TransferId;
use crate::store::work_dir::{JOURNAL, empty_and_remove};
use crate::sys::confined::Root;
use crate::sys::fs::{Dir, FileType, Mode, OFlags, Stat, fstat};
use crate::sys::lock::Lock;
use crate::sys::{clock, host};
use crate::text::show;

/// How long an unfinished transfer can be continued after its last run.
pub const EXPIRY: Duration = Duration::from_secs(30 * 24 * 3600);

/// What one unfinished transfer left.
#[derive(Debug)]
pub struct Abandoned {
    base: Option<Root>,
    all: Root,
    dir: Root,
    name: String,
    /// Where it is, relative to the directory that was looked through.
    pub path: Vec<u8>,
    /// What it takes on the device.
    pub size: ByteCount,
    /// How long nothing was done to it.
    pub idle: Duration,
}

/// Keeps runs from what is being removed: its journals, locked, if it has some.
struct Hold(#[expect(dead_code, reason = "held, not used")] Vec<(OwnedFd, Lock)>);

/// How a removal ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// Nothing is left of it.
    Removed,
    /// A run holds it: nothing was done.
    Running,
}

impl Abandoned {
    /// Whether a run holds it.
    pub fn is_running(&self) -> bool {
        let free = self.all_journals(|name, journal| Lock::is_free(&self.dir, name, &journal));
        free.is_ok_and(|free| !free || !self.rests())
    }

    /// Removes it, unless a run holds it.
    pub fn remove(self) -> Result<Removal> {
        let failed = |error| Error::io("remove", &self.path, error);
        let Some(_lock) = self.hold().map_err(failed)? else { return Ok(Removal::Running) };
        empty_and_remove(&self.dir, &self.all, &self.name).map_err(failed)?;
        if let Some(base) = &self.base {
            // Fails, rightly, while others are in it.
            let _ = base.remove_dir(WORK_DIR);
        }
        Ok(Removal::Removed)
    }

    /// Keeps runs from it; `None` while one has it.
    fn hold(&self) -> Result<Option<Hold>, Errno> {
        let mut journals: Vec<(OwnedFd, Lock)> = Vec::new();
        let rested = self.rests();
        let all = self.all_journals(|name, journal| {
            let lock = Lock::take(&self.dir, name, &journal)?;
            let is_ours = lock.is_some();
            journals.extend(lock.map(|lock| (journal, lock)));
            Ok(is_ours)
        })?;
        // Owner files of ours are in the directory's time, too.
        let rests = if journals.iter().any(|(_, lock)| lock.is_owner_file()) { rested } else { self.rests() };
        Ok((all && rests).then_some(Hold(journals)))
    }

    /// Whether nobody has touched it since it was found: a run that begins does, before it opens the journal.
    fn rests(&self) -> bool {
        idle(&self.dir) >= self.idle
    }

    /// Whether `look` says so of each journal, of which a split file has one for each transfer.
    fn all_journals(
        &self,
        mut look: impl FnMut(&str, OwnedFd) -> Result<bool, Errno>,
    ) -> Result<bool, Errno> {
        for entry in Dir::read_from(&self.dir)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy();
            if !name.starts_with(JOURNAL) {
                continue;
            }
            match self.dir.open_beneath(name.as_bytes(), OFlags::RDWR | OFlags::NONBLOCK, Mode::empty()) {
                Ok(journal) => {
                    if !look(&name, journal)? {
                        return Ok(false);
                    }
                }
                Err(Errno::NOENT) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

/// Shows every unfinished transfer into `base` itself to `found`; `path` is how `base` is called.
pub fn in_directory(base: &Root, path: &[u8], found: &mut dyn FnMut(Abandoned)) -> Result<()> {
    let path = if path.is_empty() { WORK_DIR.to_vec() } else { [path, b"/", WORK_DIR].concat() };
    let failed = |error| Error::io("list", &path, error);
    let all = match base.dir_within(WORK_DIR) {
        Ok(all) => all,
        // What is mounted there is no work of ours.
        Err(Errno::NOENT | Errno::XDEV) => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    for entry in Dir::read_from(&all).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_bytes();
        let Some(id) = is_id(name).then(|| String::from_utf8_lossy(name).into_owned()) else { continue };
        // What cannot be opened is no work directory, or not ours.
        let (Ok(dir), Ok(all)) = (all.dir_within(name), all.dir(b"")) else { continue };
        let size = size(&dir);
        let idle = idle(&dir);
        let base = base.dir(b"").ok();
        found(Abandoned { base, all, dir, name: id, path: [&path[..], b"/", name].concat(), size, idle });
    }
    Ok(())
}

/// As [`in_directory`], for `base` and all directories beneath it; links are not followed. What cannot be looked
/// at is shown to `problem`.
pub fn beneath(base: &Root, found: &mut dyn FnMut(Abandoned), problem: &mut dyn FnMut(Error)) {
    let mut left = vec![Vec::new()];
    while let Some(path) = left.pop() {
        let shown = if path.is_empty() { &b"."[..] } else { &path };
        let names = base.dir(&path).and_then(|dir| Ok((directories(&dir)?, dir)));
        match names {
            Ok((names, dir)) => {
                if let Err(error) = in_directory(&dir, &path, found) {
                    problem(error);
                }
                let inner = |name: Vec<u8>| match path.is_empty() {
                    true => name,
                    false => [&path[..], b"/", &name].concat(),
                };
                left.extend(names.into_iter().map(inner));
            }
            // It vanished while we looked.
            Err(Errno::NOENT) if !path.is_empty() => {}
            Err(error) => problem(Error::io("list", shown, error)),
        }
    }
}

/// Removes what is too old to be continued from `base`, but nothing of transfer `id`, which begins now, and
/// nothing of other users.
pub(super) fn expire(base: &Root, id: &TransferId) {
    let now = data_encoding::HEXLOWER.encode(id);
    let mut old = Vec::new();
    let looked = in_directory(base, b"", &mut |abandoned| {
        let is_ours = fstat(&abandoned.dir).is_ok_and(|stat| stat.st_uid == host::user());
        if abandoned.idle >= EXPIRY && abandoned.name != now && is_ours {
            old.push(abandoned);
        }
    });
    // Whoever cannot be let in is told so by what comes next.
    drop(looked);
    for abandoned in old {
        let (path, size, days) = (abandoned.path.clone(), abandoned.size, abandoned.idle.as_secs() / 86_400);
        match abandoned.remove() {
            Ok(Removal::Removed) => tracing::info!(
                "removed {}, what a transfer left unfinished {days} days ago ({size})",
                show(&path)
            ),
            Ok(Removal::Running) => {}
            Err(error) => tracing::warn!("{error}"),
        }
    }
}

/// The names of the directories in `dir` that may hold destinations.
fn directories(dir: &Root) -> Result<Vec<Vec<u8>>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        let is_directory = match entry.file_type() {
            FileType::Directory => true,
            FileType::Unknown => {
                dir.stat(name).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_dir())
            }
            _ => false,
        };
        if is_directory && name != b"." && name != b".." && !is_reserved(name) {
            names.push(name.to_vec());
        }
    }
    Ok(names)
}

/// Whether `name` is how a transfer's work directory is called.
fn is_id(name: &[u8]) -> bool {
    name.len() == 2 * size_of::<TransferId>() && name.iter().all(u8::is_ascii_hexdigit)
}

fn each(dir: &Root, mut look: impl FnMut(&Stat)) {
    if let Ok(stat) = fstat(dir) {
        look(&stat);
    }
    let Ok(entries) = Dir::read_from(dir) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name().to_bytes();
        if name != b"."
            && name != b".."
            && let Ok(stat) = dir.stat(name)
        {
            look(&stat);
        }
    }
}

fn size(dir: &Root) -> ByteCount {
    let mut blocks = 0;
    each(dir, |stat| blocks += stat.st_blocks as u64);
    ByteCount(blocks * 512)
}

/// How long ago anything in `dir` was written to.
fn idle(dir: &Root) -> Duration {
    let mut newest = Duration::ZERO;
    each(dir, |stat| {
        let time = Duration::new(u64::try_from(stat.st_mtime).unwrap_or_default(), stat.st_mtime_nsec as u32);
        newest = newest.max(time);
    });
    let now = clock::wall().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.saturating_sub(newest)
}
