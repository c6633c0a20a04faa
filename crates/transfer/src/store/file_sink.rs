//! A directory of a local file system as a sink.
//!
//! Unfinished files live in the transfer's work directory (`store::work_dir`), under names made
//! from their paths' hashes; a finished one is renamed into place. Every path is resolved beneath the
//! destination (see [`confined`]).

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustix::io::Errno;

use crate::counters::NotKept;
use crate::error::{Error, ErrorKind, Result};
use crate::hash::{Digest, FileHash, block_digest};
use crate::manifest::{BLOCK, Entry, Kind, Timestamp};
use crate::path::{RelPath, WORK_DIR, split};
use crate::quota::Quota;
use crate::spec::{RunId, TransferId};
use crate::store::apart::{Apart, deepest};
use crate::store::appearance::{Appearance, times};
use crate::store::backup::Backup;
use crate::store::destination_path::DestinationPath;
use crate::store::granularity::modified_as;
use crate::store::naming::{Durable, Replaced};
use crate::store::part_file::PartFile;
use crate::store::split_part::SplitPart;
use crate::store::work_dir::WorkDir;
use crate::store::{Sink, SinkFile, Standing, There};
use crate::sys::confined::{self, Root};
use crate::sys::durable::{settle_above, sync_directory};
use crate::sys::fs::{self, FileType, Mode, OFlags, Stat, fchmod, fstat};
use crate::sys::host;
use crate::sys::identity::fingerprint;
use crate::sys::sync::{Mutex, OnceLock};
use crate::terms::{Purpose, Verify};
use crate::text::show;

mod directories;
mod made;
mod mounts;
mod refused;
mod settling;
mod spellings;
mod still_there;
mod unfinished;
mod work_names;

use directories::{Directories, FilledDirectory};
use made::{Made, opened_for_us};
pub(crate) use refused::no_room;
use refused::{
    IN_SOURCE, in_source, is_a_directory, not_a_directory, special, taken, there_by_now, unreached, unusable,
};
use settling::Settling;
use spellings::Spellings;
use unfinished::work_dirs;
use work_names::{is_part_name, part_name, split_id, work_id};

/// Directories kept open so that small files need no path resolution each.
const OPEN_DIRECTORIES: usize = 64;

/// Where a transfer's files go.
#[derive(Debug)]
pub struct FileSink {
    /// The destination's directory; `None` if there is none, and none is to be made.
    base: Option<Root>,
    base_path: Vec<u8>,
    /// How that was named.
    named: DestinationPath,
    work: Option<WorkDir>,
    /// The one that an earlier run left, where it is only looked at.
    left: Option<WorkDir>,
    new_name: Option<RelPath>,
    directories: Mutex<Directories>,
    backup: OnceLock<Arc<Backup>>,
    /// Whether what is there stays.
    only_new: AtomicBool,
    apart: Arc<Apart>,
    appearance: Arc<Appearance>,
    made: Made,
    spellings: Spellings,
    /// The last directory that was found to be on the destination's own file system.
    checked_mount: Mutex<Option<Vec<u8>>>,
    settling: Settling,
}

/// Where beneath `root` the files of the destination `path` lie, and what the one file is called there, if it is `single`
/// and given a name.
///
/// A path with a trailing slash, or one that is a directory, takes the source's names; else a single file is given the path's
/// last name.
pub(crate) fn aim(root: &Root, path: &[u8], single: bool) -> Result<(Vec<u8>, Option<RelPath>)> {
    let trimmed = trimmed(path);
    if trimmed.is_empty() {
        return Ok((Vec::new(), None));
    }
    let checked = RelPath::new(trimmed)?;
    match single && trimmed == path && root.dir(trimmed).is_err() {
        true => Ok((checked.split().0.to_vec(), Some(RelPath::new(checked.split().1)?))),
        false => Ok((checked.into(), None)),
    }
}

fn trimmed(path: &[u8]) -> &[u8] {
    let trimmed = path.strip_suffix(b"/").unwrap_or(path);
    if trimmed.iter().all(|&b| b == b'/') { b"" } else { trimmed }
}

impl FileSink {
    /// The destination `path` beneath `root`, for transfer `id`; `single` if the source is one file.
    ///
    /// Only for a copy anything is made, and nothing where it cannot be kept `apart` from the source.
    pub fn new(
        (root, path): (&Root, &[u8]),
        single: bool,
        id: &TransferId,
        purpose: Purpose,
        mut apart: Apart,
    ) -> Result<Self> {
        let shown = match confined::path_of(root) {
            // So it was typed.
            Ok(root) if root == b"/" => [b"/", path].concat(),
            _ if path.is_empty() => b".".to_vec(),
            _ => path.to_vec(),
        };
        let failed = |error| match error {
            Errno::LOOP => {
                let why =
                    format!("cannot use the destination {}: a link on the way is not followed", show(&shown));
                Error::new(ErrorKind::UnsafeName, why)
            }
            // As it was asked for a comparison, it is to be there.
            Errno::NOENT if purpose == Purpose::Copy => {
                unusable(&shown, Error::io("make", &shown, Errno::NOENT))
            }
            error => Error::io("use the destination", &shown, error),
        };
        let trimmed = trimmed(path);
        let (base_path, new_name) = aim(root, path, single)?;
        match purpose {
            // Nothing is changed by it.
            Purpose::Compare => apart = Apart::default(),
            _ => apart.destination(root, trimmed, single && trimmed == path)?,
        }
        let open = |path: &[u8]| match purpose {
            Purpose::Copy => root.make_dir(path).map(Some),
            Purpose::Compare => root.dir(path).map(Some),
            Purpose::Plan => match root.dir(path) {
                Err(Errno::NOENT) => Ok(None),
                found => found.map(Some),
            },
        };
        if purpose == Purpose::Plan {
            let (there, _) = deepest(root, trimmed);
            there.and_then(|there| there.may_write()).map_err(failed)?;
        }
        let made = !trimmed.is_empty() && root.dir(trimmed).err() == Some(Errno::NOENT);
        let base = if base_path.is_empty() { root.dir(b"").map(Some) } else { open(&base_path) };
        let base = base.map_err(failed)?;
        if let (Some(base), Some(name)) = (&base, &new_name)
            && base.stat(name.as_bytes()).is_ok_and(|stat| is_special(&stat))
        {
            return Err(special(&shown));
        }
        let (work, left) = work_dirs(base.as_ref(), &work_id(id, new_name.as_ref()), purpose)
            .map_err(|error| unusable(&shown, error))?;
        let found = root.dir(b"").map_err(failed)?;
        let named = DestinationPath::beneath(found, base_path.clone(), shown);
        Ok(Self {
            base,
            base_path,
            named,
            work,
            left,
            made: Made {
                is_new: made && new_name.is_none() && purpose == Purpose::Copy,
                mode: OnceLock::new(),
            },
            new_name,
            directories: Mutex::default(),
            backup: OnceLock::new(),
            only_new: AtomicBool::new(false),
            appearance: Arc::default(),
            spellings: Spellings::default(),
            checked_mount: Mutex::default(),
            apart: Arc::new(apart),
            settling: Settling::default(),
        })
    }

    /// The same, whose directory was found by `named`.
    #[must_use]
    pub fn found_by(self, named: DestinationPath) -> Self {
        Self { named, ..self }
    }

    /// What is to be there for it cannot be had.
    pub(crate) fn unusable(&self, error: Error) -> Error {
        if error.kind == ErrorKind::Busy { error } else { unusable(self.named.shown(), error) }
    }

    /// What it is kept apart from.
    pub const fn apart(&self) -> &Arc<Apart> {
        &self.apart
    }

    /// The same where what is in a directory of the `mode` is copied, if there is one: ours of that has it at the end if it was
    /// made for it. One of ours that is read-only is opened for us meanwhile.
    pub(crate) fn for_contents(
        mode: Option<u32>,
        to: (&Root, &[u8]),
        single: bool,
        id: &TransferId,
        (purpose, apart): (Purpose, Apart),
    ) -> Result<Self> {
        let opened = mode.filter(|_| purpose == Purpose::Copy).and_then(|_| opened_for_us(to));
        let sink = Self::new(to, single, id, purpose, apart);
        match (&sink, opened) {
            (Ok(sink), Some((_, earlier))) => drop(sink.made.mode.set(earlier)),
            (Ok(sink), None) => sink.keep_mode(mode),
            (Err(_), Some((directory, earlier))) => drop(fchmod(&directory, earlier)),
            (Err(_), None) => {}
        }
        sink
    }

    /// The source's directory has this mode, and so has ours at the end if it was made for it. Until then it is no more
    /// open to others.
    fn keep_mode(&self, mode: Option<u32>) {
        if let (true, Some(mode), Ok(base)) = (self.made.is_new, mode, self.base()) {
            let special = fstat(base).map_or(0, |stat| stat.st_mode & 0o7000);
            let _ = fchmod(base, Mode::from_raw_mode(special | mode & 0o777 | 0o700));
            let _ = self.made.mode.set(Mode::from_raw_mode(special | mode & 0o777));
        }
    }

    /// Makes the directory that `entry` is: while files come into it it is no more open to others than at the end, and we
    /// may write to it.
    fn make_directory(&self, place: &RelPath, entry: &Entry) -> Result<(), Errno> {
        let (directory, is_new) = match self.enter(place.as_bytes()) {
            Err(Errno::NOENT) => (self.make(place.as_bytes())?, true),
            found => (found?, false),
        };
        let stat = fstat(&directory)?;
        let (special, mode) = (stat.st_mode & 0o7000, stat.st_mode & 0o777);
        let meanwhile = match is_new {
            true => entry.mode & 0o777 | 0o700,
            false if stat.st_uid == host::user() => mode | 0o300,
            false => mode,
        };
        if meanwhile != mode {
            // Where modes are not kept, that is said of what is refused at the end.
            let _ = fchmod(&directory, Mode::from_raw_mode(special | meanwhile));
        }
        Ok(())
    }

    /// From now on what is replaced is kept there.
    pub(crate) fn keep_replaced(&self, backup: Arc<Backup>) {
        let _ = self.backup.set(backup);
    }

    /// Gives a finished part its name, in place of what has it unless that is `new`.
    fn put_in_place(
        &self,
        (work, part): (&Root, &str),
        place: &RelPath,
        directory: &Root,
        new: bool,
    ) -> Result<()> {
        let failed = |error| Error::io("give its name to", place.as_bytes(), error);
        if new || self.only_new.load(Relaxed) {
            return match work.rename_new(part.as_bytes(), directory, place.split().1) {
                Err(Errno::EXIST) => Err(there_by_now(place)),
                renamed => renamed.map_err(failed),
            };
        }
        if let Some(backup) = self.backup.get() {
            backup.keep(directory, place.as_bytes())?;
        }
        work.rename(part.as_bytes(), directory, place.split().1).map_err(|error| taken(error, place, failed))
    }

    /// The same for the file that the entry is.
    fn name_part(&self, entry: &Entry, from: (&Root, &str), new: bool) -> Result<()> {
        let place = self.place(entry);
        let parent = place.split().0;
        let directory =
            self.directory(parent).map_err(|error| unreached("give its name to", place, error))?;
        self.put_in_place(from, place, &directory, new)?;
        let mut open = self.directories.lock();
        open.last = None;
        let name = place.split().1.to_vec();
        open.renamed_into.insert(parent.to_vec(), FilledDirectory { directory, name });
        Ok(())
    }

    /// The directory for the journal and unfinished files; `None` unless it is a copy.
    pub fn work(&self) -> Option<&Root> {
        self.work.as_ref().map(WorkDir::dir)
    }

    /// The directory with what an earlier run left, where it is only to be said what a copy would do.
    pub fn left(&self) -> Option<&Root> {
        self.left.as_ref().map(WorkDir::dir)
    }

    /// Where entries' paths are relative to, beneath the root.
    pub(crate) fn base_path(&self) -> &[u8] {
        &self.base_path
    }

    /// Whether unfinished files are left.
    pub fn has_parts(&self) -> bool {
        self.work.as_ref().is_some_and(|work| work.any(is_part_name))
    }

    fn work_dir(&self) -> Result<&WorkDir> {
        self.work.as_ref().ok_or_else(|| Error::protocol("nothing is to be written"))
    }

    /// The destination's directory, which is not there yet where a copy is only planned.
    pub fn base(&self) -> Result<&Root, Errno> {
        self.base.as_ref().ok_or(Errno::NOENT)
    }

    /// Opens the directory `path`; fails with [`IN_SOURCE`] where that is no place for a copy.
    fn enter(&self, path: &[u8]) -> Result<Root, Errno> {
        let base = self.base()?;
        let (directory, mounted) = match base.dir_within(path) {
            Err(Errno::XDEV) => (base.dir(path)?, true),
            directory => (directory?, false),
        };
        if self.apart.forbids(&directory, mounted) { Err(IN_SOURCE) } else { Ok(directory) }
    }

    /// As [`enter`](Self::enter), making what is missing, as at least the last of it is.
    fn make(&self, path: &[u8]) -> Result<Root, Errno> {
        // What is not there is no source, and lies in what contains it.
        // As a rule only the last is missing.
        if let Err(error) = self.enter(split(path).0) {
            if error != Errno::NOENT {
                return Err(error);
            }
            let (there, end) = deepest(self.base()?, path);
            there.and_then(|_| self.enter(&path[..end]))?;
        }
        self.base()?.make_dir(path)
    }

    fn directory(&self, path: &[u8]) -> Result<Arc<Root>, Errno> {
        let mut open = self.directories.lock();
        if let Some((_, directory)) = open.last.as_ref().filter(|(last, _)| last == path) {
            return Ok(Arc::clone(directory));
        }
        let filled = open.renamed_into.get(path).map(|filled| &filled.directory);
        let known = filled.or_else(|| open.looked_up.get(path)).cloned();
        let directory = match known {
            Some(directory) => directory,
            None => {
                let directory = Arc::new(self.enter(path)?);
                if open.looked_up.len() >= OPEN_DIRECTORIES {
                    open.looked_up.clear();
                }
                open.looked_up.insert(path.to_vec(), Arc::clone(&directory));
                directory
            }
        };
        open.last = Some((path.to_vec(), Arc::clone(&directory)));
        Ok(directory)
    }

    /// Makes the names of the directory `path` and of those on the way there durable.
    fn settle_way(&self, path: &[u8]) -> Result<()> {
        let mut settled = self.settling.names.lock();
        let settled = self.base().and_then(|base| settled.settle(base, path));
        settled.map_err(|error| Error::io("make durable", path, error))
    }

    /// Whether what bears a name is a file that was named as a source.
    fn would_replace_source(&self, stat: &Stat) -> bool {
        self.apart.is_nested() && self.apart.is_source(stat)
    }

    fn make_link(&self, place: &RelPath, target: &[u8], entry: &Entry) -> Result<Standing> {
        let (parent, name) = place.split();
        let failed = |error| Error::io("create the link", place.as_bytes(), error);
        let parent = self.directory(parent).map_err(|error| unreached("create the link", place, error))?;
        let same = parent.read_link(name).is_ok_and(|there| there == target);
        if !same && parent.stat(name).is_ok_and(|stat| self.would_replace_source(&stat)) {
            return Err(in_source(place));
        }
        if !same && parent.stat(name).is_ok_and(|stat| is_special(&stat)) {
            return Err(special(place.as_bytes()));
        }
        if !same {
            let part = part_name(place);
            let work = self.work_dir()?;
            work.discard(&part);
            work.dir().symlink(target, part.as_bytes()).map_err(failed)?;
            self.put_in_place((work.dir(), &part), place, &parent, false)?;
        }
        let _ = parent.set_times(name, &times(entry.mtime));
        Ok(Standing::Made)
    }
}

impl Sink for FileSink {
    fn place<'a>(&'a self, entry: &'a Entry) -> &'a RelPath {
        self.new_name.as_ref().unwrap_or(&entry.path)
    }

    fn prepare(&self, entry: &Entry, dry: bool) -> Result<Standing> {
        let place = self.place(entry);
        let (parent, name) = place.split();
        let failed = |error| unreached("create", place, error);
        match &entry.kind {
            Kind::Directory => {
                let made = match dry {
                    true => self.enter(place.as_bytes()).map(drop),
                    false => self.make_directory(place, entry),
                };
                match made {
                    Ok(()) => Ok(Standing::Made),
                    Err(Errno::NOENT) if dry => Ok(Standing::Made),
                    Err(Errno::NOTDIR) => Err(not_a_directory(place)),
                    Err(error) => Err(failed(error)),
                }
            }
            Kind::Symlink { .. } if dry => {
                match self.directory(parent).and_then(|parent| parent.stat(name)) {
                    Ok(stat) if self.would_replace_source(&stat) => Err(in_source(place)),
                    Ok(stat) if FileType::from_raw_mode(stat.st_mode).is_dir() => Err(is_a_directory(place)),
                    Ok(stat) if is_special(&stat) => Err(special(place.as_bytes())),
                    Ok(_) | Err(Errno::NOENT) => Ok(Standing::Made),
                    Err(error) => Err(unreached("create the link", place, error)),
                }
            }
            Kind::Symlink { target } => self.make_link(place, target, entry),
            Kind::File { size, fingerprint: offered } => {
                let directory = match self.directory(parent) {
                    Ok(directory) => directory,
                    Err(Errno::NOENT) if dry => return Ok(Standing::Absent),
                    Err(error) => return Err(failed(error)),
                };
                match directory.stat(name) {
                    Ok(stat) if self.would_replace_source(&stat) => Err(in_source(place)),
                    Ok(stat) if FileType::from_raw_mode(stat.st_mode).is_dir() => Err(is_a_directory(place)),
                    Ok(stat)
                        if FileType::from_raw_mode(stat.st_mode).is_file()
                            && stat.st_size as u64 == *size =>
                    {
                        if *offered == fingerprint(&stat) {
                            return Ok(Standing::Same);
                        }
                        Ok(Standing::Present(modified_as(&stat, entry.mtime), stat.st_mode & 0o777))
                    }
                    Ok(stat) if is_special(&stat) => Err(special(place.as_bytes())),
                    Ok(_) | Err(Errno::NOENT) => Ok(Standing::Absent),
                    Err(error) => Err(failed(error)),
                }
            }
        }
    }

    fn there(&self, path: &RelPath, mtime: Timestamp) -> Result<Option<There>> {
        let place = self.new_name.as_ref().unwrap_or(path);
        let (parent, name) = place.split();
        let looked = self.directory(parent).and_then(|directory| {
            let stat = directory.stat(name)?;
            let kind = match FileType::from_raw_mode(stat.st_mode) {
                FileType::RegularFile => {
                    Some(Kind::File { size: stat.st_size as u64, fingerprint: fingerprint(&stat) })
                }
                FileType::Directory => Some(Kind::Directory),
                FileType::Symlink => {
                    let target = directory.read_link(name)?;
                    Some(Kind::Symlink { target })
                }
                _ => None,
            };
            Ok(There { kind, mode: stat.st_mode & 0o777, mtime: modified_as(&stat, mtime) })
        });
        match looked {
            Ok(there) => Ok(Some(there)),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(error) => Err(unreached("look for", place, error)),
        }
    }

    fn digest(&self, entry: &Entry, over: &dyn Fn() -> bool) -> Result<Digest> {
        let place = self.place(entry);
        let failed = |error| Error::io("read", place.as_bytes(), error);
        let flags = OFlags::RDONLY | OFlags::NONBLOCK;
        let file = self.base().and_then(|base| base.open_beneath(place.as_bytes(), flags, Mode::empty()));
        let file = file.map_err(failed)?;
        match digest_of(&file, entry.size(), over).map_err(failed)? {
            Some(digest) => Ok(digest),
            None => Err(Error::new(ErrorKind::Interrupted, "stopped")),
        }
    }

    fn open(&self, entry: &Entry, keep: bool) -> Result<Box<dyn SinkFile>> {
        let place = self.place(entry);
        let failed = |error| Error::io("create", place.as_bytes(), error);
        let work = self.work_dir()?;
        let part = part_name(place);
        // What is kept must be there: a new file in its place would pass off holes as verified bytes.
        let fd = match keep {
            true => work.reopen(&part),
            false => work.create(&part),
        };
        let fd = fd.map_err(|error| error.within(format_args!("cannot create {place}")))?;
        // One block or less is written whole; anything longer starts as one hole.
        if entry.size() > BLOCK || keep {
            fs::ftruncate(&fd, entry.size()).map_err(failed)?;
        }
        Ok(Box::new(PartFile::new(fd, place.clone(), entry.size(), keep, &self.appearance)))
    }

    fn folded(&self, entry: &Entry) -> Option<Vec<u8>> {
        self.folded_place(self.place(entry))
    }

    fn other_there(&self, entry: &Entry) -> Option<Vec<u8>> {
        self.other_name(entry)
    }

    fn takes(&self, entry: &Entry) -> Result<()> {
        self.check_mount(self.place(entry))
    }

    fn has_part(&self, entry: &Entry) -> bool {
        let part = part_name(self.place(entry));
        let stat = match (&self.work, &self.left) {
            (Some(work), _) => work.reopen(&part).ok().and_then(|fd| fstat(&fd).ok()),
            (None, Some(left)) => left.dir().stat(part.as_bytes()).ok(),
            (None, None) => None,
        };
        stat.is_some_and(|stat| stat.st_size as u64 == entry.size())
    }

    fn discard(&self, entry: &Entry) {
        if let Some(work) = &self.work {
            work.discard(&part_name(self.place(entry)));
        }
    }

    fn keep_existing(&self) {
        self.only_new.store(true, Relaxed);
    }

    fn publish(&self, entry: &Entry, replaced: Replaced, _: &Durable) -> Result<bool> {
        let new = replaced == Replaced::Nothing;
        match self.name_part(entry, (self.work_dir()?.dir(), &part_name(self.place(entry))), new) {
            Err(error) if new && error.kind == ErrorKind::Changed => Ok(false),
            named => named.map(|()| true),
        }
    }

    fn split(
        &self,
        entry: &Entry,
        (run, verify): (&RunId, Verify),
        made: bool,
        descriptors: &Arc<Quota>,
    ) -> Result<Option<Arc<SplitPart>>> {
        let (place, work) = (self.place(entry), self.work_dir()?);
        let failed = |error| Error::io("create", place.as_bytes(), error);
        let base = self.base().map_err(failed)?;
        let id = split_id(entry, place, run, verify);
        let part = (place, part_name(place), entry.size());
        SplitPart::open(base, (&id, work.name()), part, made, (descriptors, &self.appearance))
    }

    fn publish_split(&self, entry: &Entry, part: &SplitPart, _: &Durable) -> Result<()> {
        self.name_part(entry, part.lies(), false)
    }

    fn sync_names(&self) -> Vec<(Vec<u8>, Error)> {
        // Looked up anew from now on: others may move directories at any time.
        let directories = std::mem::take(&mut *self.directories.lock()).renamed_into;
        // What was replaced is safe before what replaces it.
        let kept = self.backup.get().map_or(Ok(()), |backup| backup.settle());
        let root = self.check_named();
        let mut failed = Vec::new();
        for (path, FilledDirectory { directory, name }) in directories {
            let synced = sync_directory(&*directory).map_err(|error| Error::io("make durable", &path, error));
            if let Err(error) = root.clone().and(kept.clone()).and(synced) {
                failed.push((path, error));
                continue;
            }
            match self.is_still_there(&path, &directory).and_then(|()| self.settle_way(&path)) {
                Ok(()) => self.settling.filled.lock().note(path, &directory, name),
                Err(error) => failed.push((path, error)),
            }
        }
        if let (Err(error), true) = (root, failed.is_empty()) {
            failed.push((Vec::new(), error));
        }
        failed
    }

    fn moved(&self) -> Option<Error> {
        self.check_named().err().filter(|error| error.kind == ErrorKind::Changed)
    }

    fn still_there(&self) -> Result<()> {
        self.check_named()?;
        self.check_filled()
    }

    fn refresh(&self, entry: &Entry) -> Result<()> {
        let place = self.place(entry);
        let failed = |error| Error::io("set mode and times of", place.as_bytes(), error);
        let flags = OFlags::RDONLY | OFlags::NONBLOCK;
        let there = self.base().and_then(|base| base.open_beneath(place.as_bytes(), flags, Mode::empty()));
        self.appearance.set(&there.map_err(failed)?, entry).map_err(failed)
    }

    fn settle(&self, entry: &Entry) -> Result<()> {
        let place = self.place(entry);
        let failed = |error| Error::io("make durable", place.as_bytes(), error);
        let flags = OFlags::RDONLY | OFlags::NONBLOCK;
        let there = self.base().and_then(|base| base.open_beneath(place.as_bytes(), flags, Mode::empty()));
        fs::fsync(&there.map_err(failed)?).map_err(failed)?;
        // Its name may be as young as it is.
        let parent = place.split().0;
        let directory = self.directory(parent).map_err(|error| unreached("make durable", place, error))?;
        sync_directory(&*directory).map_err(failed)?;
        self.settle_way(parent)?;
        self.check_named()
    }

    fn settle_work(&self) -> Result<()> {
        let Some(work) = self.work.as_ref().map(WorkDir::dir) else { return Ok(()) };
        let failed = |error| Error::io("make durable", WORK_DIR, error);
        sync_directory(work).map_err(failed)?;
        self.settling.work.get_or_init(|| settle_above(work)).map_err(failed)
    }

    fn not_kept(&self) -> NotKept {
        self.appearance.not_kept()
    }

    fn clean_up(&self) {
        if let (Some(work), Some(base)) = (&self.work, &self.base) {
            work.remove(base);
        }
        if let (Some(mode), Some(base)) = (self.made.mode.get(), &self.base) {
            let _ = fchmod(base, *mode);
        }
    }
}

/// The root hash of `file`, of zeros if it is shorter than `size`; `None` once `over`.
pub(super) fn digest_of(
    file: &impl AsFd,
    size: u64,
    over: &dyn Fn() -> bool,
) -> Result<Option<Digest>, Errno> {
    let mut hash = FileHash::new(size);
    let mut buffer = vec![0; BLOCK as usize];
    let mut offset = 0;
    while offset < size || (offset == 0 && size == 0) {
        if over() {
            return Ok(None);
        }
        let want = (size - offset).min(BLOCK) as usize;
        // Shorter than it was a moment ago: certainly another file.
        if fs::read_at(file, &mut buffer[..want], offset)? < want {
            return Ok(Some([0; 32]));
        }
        hash.add_block(offset, block_digest(&buffer[..want], offset, size));
        offset += BLOCK;
    }
    Ok(hash.root())
}

/// Whether it is a device, a pipe or a socket: none of them is replaced by a file.
fn is_special(stat: &Stat) -> bool {
    let kind = FileType::from_raw_mode(stat.st_mode);
    !kind.is_file() && !kind.is_dir() && !kind.is_symlink()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::naming::finish;
    use crate::sys::confined::scratch;
    use crate::sys::fs::faulty;

    fn entry(size: u64) -> Entry {
        let kind = Kind::File { size, fingerprint: [1; 16] };
        let path = RelPath::new("file").expect("a name");
        Entry::new(path, kind, 0o644, Timestamp::default())
    }

    #[test]
    fn what_appears_meanwhile_is_replaced_only_where_that_is_meant() {
        let (directory, root) = scratch();
        let path = directory.path().join("file");
        let begin = || {
            let sink =
                FileSink::new((&root, b""), true, &[1; 16], Purpose::Copy, Apart::default()).expect("a sink");
            let file = sink.open(&entry(3), false).expect("opened");
            file.write_at(0, b"new").expect("written");
            std::fs::write(&path, "theirs").expect("written");
            (sink, file)
        };
        let finish = |(sink, file): &(FileSink, Box<dyn SinkFile>), replaced| {
            finish(sink, &**file, &entry(3), replaced, || Ok::<_, Error>(()))
        };
        assert_eq!(finish(&begin(), Replaced::Nothing), Ok(false));
        let keeping = begin();
        keeping.0.keep_existing();
        assert_eq!(finish(&keeping, Replaced::File).expect_err("kept").kind, ErrorKind::Changed);
        assert_eq!(std::fs::read(&path).expect("there"), b"theirs");
        assert_eq!(finish(&begin(), Replaced::File), Ok(true));
        assert_eq!(std::fs::read(&path).expect("there"), b"new");
        let begun = begin();
        std::fs::remove_file(&path).expect("removed");
        assert_eq!(finish(&begun, Replaced::Nothing), Ok(true));
    }

    #[test]
    fn what_is_synced_and_only_that_survives_a_crash() {
        let (_directory, root) = scratch();
        let sink =
            FileSink::new((&root, b""), true, &[1; 16], Purpose::Copy, Apart::default()).expect("a sink");
        let disk = faulty::disk();
        let entry = entry(3 * BLOCK);
        let file = sink.open(&entry, false).expect("opened");
        file.write_at(0, &[1; 100]).expect("written");
        file.sync().expect("synced");
        file.write_at(BLOCK, &[2; 100]).expect("written");
        disk.crash(|_| 0);
        let mut buffer = [9; 100];
        file.read_at(0, &mut buffer).expect("read");
        assert_eq!(buffer, [1; 100]);
        file.read_at(BLOCK, &mut buffer).expect("read");
        assert_eq!(buffer, [0; 100]);
    }

    fn named(path: &str) -> Entry {
        Entry { path: RelPath::new(path).expect("a path"), ..entry(1) }
    }

    fn put(sink: &FileSink, path: &str) -> Vec<(Vec<u8>, Error)> {
        let entry = named(path);
        let parent = Entry { kind: Kind::Directory, ..named(path.rsplit_once('/').expect("a parent").0) };
        sink.prepare(&parent, false).expect("made");
        let file = sink.open(&entry, false).expect("opened");
        file.write_at(0, &[1]).expect("written");
        file.seal(&entry).expect("sealed");
        let durable = Durable::make(&*file).expect("synced");
        sink.publish(&entry, Replaced::File, &durable).expect("named");
        sink.sync_names()
    }

    /// What is not durable, but for unfinished files.
    fn unsynced(disk: &faulty::Disk) -> Vec<String> {
        let names = disk.unsynced_names().into_iter();
        names.filter(|name| name != ".tidegate" && !is_part_name(name.as_bytes())).collect()
    }

    #[test]
    fn every_directory_on_the_way_is_durable_before_a_file_is() {
        let (_directory, root) = scratch();
        let disk = faulty::disk();
        let to = (&root, &b"new/parents/of/it/"[..]);
        let sink = FileSink::new(to, false, &[1; 16], Purpose::Copy, Apart::default()).expect("a sink");
        assert!(unsynced(&disk).len() >= 4);
        assert_eq!(put(&sink, "a/b/c/file"), []);
        assert_eq!(unsynced(&disk), [""; 0]);
        assert_eq!(put(&sink, "a/b/d/file"), []);
        assert_eq!(unsynced(&disk), [""; 0]);
        // Where one of them cannot be made so, the file is not either; nor is another run's that finds it there.
        disk.set_faults(|call, name| call == faulty::Call::Sync && name == "b");
        let failed = put(&sink, "a/b/e/f/file");
        assert!(failed.len() == 1 && failed[0].0 == b"a/b/e/f", "{failed:?}");
        disk.heal();
        let later = FileSink::new(to, false, &[2; 16], Purpose::Copy, Apart::default()).expect("a sink");
        assert_eq!(put(&later, "a/b/e/f/file"), []);
        assert_eq!(unsynced(&disk), [""; 0]);
        assert_eq!(sink.settle_work(), Ok(()));
        assert_eq!(later.settle_work(), Ok(()));
        assert_eq!(disk.unsynced_names(), [""; 0]);
    }

    #[test]
    fn what_is_replaced_is_kept_for_good_before_what_replaces_it_is_there() {
        let (directory, root) = scratch();
        std::fs::create_dir_all(directory.path().join("to/a")).expect("made");
        std::fs::write(directory.path().join("to/a/file"), "old").expect("written");
        let to = (&root, &b"to/"[..]);
        let sink = FileSink::new(to, false, &[1; 16], Purpose::Copy, Apart::default()).expect("a sink");
        let backup = Backup::open(&root, b"../old/1", &root, b"to", sink.apart(), b"to", None);
        let backup = backup.expect("a directory");
        sink.keep_replaced(Arc::new(backup));
        let disk = faulty::disk();
        let synced = Arc::new(Mutex::new(Vec::new()));
        disk.set_faults({
            let synced = Arc::clone(&synced);
            move |call, name| {
                let is_sync = call == faulty::Call::Sync;
                synced.lock().extend(is_sync.then(|| name.to_owned()));
                false
            }
        });
        assert_eq!(put(&sink, "a/file"), []);
        assert_eq!(std::fs::read(directory.path().join("old/1/a/file")).expect("kept"), b"old");
        assert_eq!(unsynced(&disk), [""; 0]);
        let synced = synced.lock().clone();
        let kept = synced.iter().position(|name| name == "old");
        assert!(kept.is_some() && kept < synced.iter().position(|name| name == "to"), "{synced:?}");
    }

    #[test]
    fn a_full_disk_is_said_to_be_full() {
        let (_directory, root) = scratch();
        let sink =
            FileSink::new((&root, b""), true, &[1; 16], Purpose::Copy, Apart::default()).expect("a sink");
        let disk = faulty::disk();
        let file = sink.open(&entry(BLOCK), false).expect("opened");
        disk.set_room(Some(150));
        file.write_at(0, &[1; 100]).expect("written");
        let error = file.write_at(100, &[2; 100]).expect_err("full");
        assert_eq!(error.kind, ErrorKind::NoSpace, "{error}");
        disk.set_room(None);
        file.write_at(100, &[2; 100]).expect("there is room again");
    }
}
