//! What the program keeps for itself, and peers neither see nor touch: state directories, and files of keys and tokens.
//!
//! Each is known by its device and inode, so whatever path, hard link, mount or later name leads there is hidden. A state
//! directory of another endpoint, or a copy of one, is known by a mark in it: a file in `.tidegate`, where peers can put
//! none.

use std::collections::{HashSet, VecDeque};
use std::fs::{DirBuilder, OpenOptions};
use std::io::Write as _;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, StatxAttributes, StatxFlags, fstat, openat, statat,
    statx,
};
use rustix::io::Errno;

use super::identity::path_of;
use super::sync::Mutex;
use super::whereabouts::{Mounts, Whereabouts};
use super::{clock, host};
use crate::path::{WORK_DIR, inside};

/// The file in `.tidegate` that marks a state directory.
const MARK: &[u8] = b"private";

/// What is in it.
const MARK_TEXT: &str =
    "This directory is Tidegate's own: no endpoint serves it, and no mirror removes it.\n";

/// Most entries of the hidden directories that are looked at for files that have another name, and how deep: what is secret
/// is near the top.
const MAX_ENTRIES: usize = 20_000;
const MAX_DEPTH: usize = 4;

/// Most links on the way to something.
const MAX_LINKS: usize = 40;

/// How far a file system's clock may be behind ours, and how long what was looked at counts where it is further.
const SKEW: Duration = Duration::from_secs(2);
const LOOKED: Duration = Duration::from_secs(10);

/// Most directories that are remembered to lie in nothing hidden.
const MAX_PASSED: usize = 16 << 10;

/// Device and inode.
type Number = (u64, u64);

/// What is hidden from peers.
#[derive(Debug, Default)]
pub(crate) struct Hidden {
    /// Held open, so that nothing else gets their numbers.
    directories: Vec<(OwnedFd, Number)>,
    /// Looked up each time: keys are renewed.
    files: Vec<PathBuf>,
    /// The file systems that these are on.
    devices: Vec<u64>,
    /// Symbolic links by way of which all that is found.
    links: Vec<Number>,
    /// Directories in hidden ones that are served all the same.
    served: Vec<Number>,
    inside: Mutex<Inside>,
    /// Directories that were reached by way of nothing hidden, by hashes of their paths and numbers.
    passed: Mutex<HashSet<[u8; 16]>>,
}

/// What is in the hidden directories.
#[derive(Debug, Default)]
struct Inside {
    looked: Option<SystemTime>,
    numbers: HashSet<Number>,
}

/// Marks `directory`, which is there, as one that no endpoint serves and no mirror removes.
pub fn mark(directory: &Path) -> std::io::Result<()> {
    use std::ffi::OsStr;
    let within = directory.join(OsStr::from_bytes(WORK_DIR));
    let mark = within.join(OsStr::from_bytes(MARK));
    if mark.symlink_metadata().is_ok() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o700).create(&within)?;
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&mark) {
        Ok(mut file) => file.write_all(MARK_TEXT.as_bytes()),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

impl Hidden {
    /// Hides the `directories` and `files`, and every marked directory, but none that is `served`. What is not there yet is
    /// hidden by its mark.
    pub fn new(directories: &[&Path], files: &[&Path], served: &[impl AsFd]) -> Result<Self, Errno> {
        let mut hidden = Self::default();
        for directory in directories {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            match openat(CWD, *directory, flags, Mode::empty()) {
                Ok(directory) => {
                    let number = number(&fstat(&directory)?);
                    hidden.directories.push((directory, number));
                }
                Err(Errno::NOENT | Errno::NOTDIR) => {}
                Err(error) => return Err(error),
            }
        }
        for file in files {
            hidden.files.extend(std::path::absolute(file).ok());
            // Where a link led once stays hidden.
            hidden.files.extend(file.canonicalize().ok());
        }
        hidden.files.sort();
        hidden.files.dedup();
        let stats = hidden.files.iter().filter_map(|file| statat(CWD, file, AtFlags::empty()).ok());
        hidden.devices = stats.map(|stat| stat.st_dev).collect();
        hidden.links = directories.iter().chain(files).flat_map(|path| links_on_the_way(path)).collect();
        hidden.served =
            served.iter().map(|dir| fstat(dir).map(|stat| number(&stat))).collect::<Result<_, _>>()?;
        Ok(hidden)
    }

    /// Whether the directory was reached by way of nothing hidden before, and has had its path since.
    pub(super) fn has_passed(&self, dir: &impl AsFd) -> bool {
        passing(dir).is_some_and(|passing| self.passed.lock().contains(&passing))
    }

    /// The directory was reached by way of nothing hidden.
    pub(super) fn passed(&self, dir: &impl AsFd) {
        let mut passed = self.passed.lock();
        if passed.len() >= MAX_PASSED {
            passed.clear();
        }
        passed.extend(passing(dir));
    }

    /// Whether what is open as `opened` is hidden itself.
    pub fn hides(&self, opened: &impl AsFd) -> Result<bool, Errno> {
        fstat(opened).map(|stat| self.hides_named(opened, b".", &stat))
    }

    /// Whether what is called `name` in `dir`, and is what `stat` says, is hidden itself.
    pub(super) fn hides_named(&self, dir: &impl AsFd, name: &[u8], stat: &Stat) -> bool {
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                let number = number(stat);
                self.directories.iter().any(|(_, hidden)| *hidden == number)
                    || is_marked(dir, name, stat)
                    || (self.is_any() && is_mounted(dir, name) && self.has_inside(stat))
            }
            FileType::RegularFile => self.hides_file(dir, name, stat),
            _ => false,
        }
    }

    /// Whether what `stat` says is a link on the way to what is hidden: it may be followed, and is not changed.
    pub(super) fn is_on_the_way(&self, stat: &Stat) -> bool {
        FileType::from_raw_mode(stat.st_mode).is_symlink() && self.links.contains(&number(stat))
    }

    fn is_any(&self) -> bool {
        !self.directories.is_empty()
    }

    fn hides_file(&self, dir: &impl AsFd, name: &[u8], stat: &Stat) -> bool {
        let leads = |path: &PathBuf| {
            statat(CWD, path, AtFlags::empty()).is_ok_and(|there| number(&there) == number(stat))
        };
        let has_two_names = || self.is_any() && (stat.st_nlink > 1 || is_mounted(dir, name));
        (self.devices.contains(&stat.st_dev) && self.files.iter().any(leads))
            || (has_two_names() && self.has_inside(stat))
    }

    /// Whether `dir` contains something hidden, which would get another path with it.
    pub(super) fn lies_in(&self, dir: &impl AsFd) -> bool {
        !self.within(dir).is_empty()
    }

    /// The paths of the hidden directories and files that lie in `dir`, or are it.
    pub fn within(&self, dir: &impl AsFd) -> Vec<Vec<u8>> {
        let mounts = Mounts::read();
        let known = mounts.whereabouts(dir).itself.here;
        let contains = |inner: &OwnedFd| {
            let Whereabouts { itself, above, beyond } = mounts.whereabouts(inner);
            [itself, above, beyond].iter().any(|level| level.here.iter().any(|one| known.contains(one)))
        };
        let directories = self.directories.iter().filter(|(hidden, _)| contains(hidden));
        let mut within: Vec<Vec<u8>> = directories.filter_map(|(hidden, _)| path_of(hidden).ok()).collect();
        let has_parent = |file: &&PathBuf| {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let parent = file.parent().and_then(|parent| openat(CWD, parent, flags, Mode::empty()).ok());
            parent.is_some_and(|parent| contains(&parent))
        };
        let files = self.files.iter().filter(has_parent);
        within.extend(files.map(|file| file.as_os_str().as_bytes().to_vec()));
        within.sort();
        within.dedup();
        within
    }

    /// Whether what has another name, or is mounted, lies in a hidden directory. Linking changes its ctime: what was looked at
    /// later than that holds.
    fn has_inside(&self, stat: &Stat) -> bool {
        let changed = UNIX_EPOCH + Duration::from_secs(u64::try_from(stat.st_ctime).unwrap_or_default());
        let now = clock::wall();
        let mut inside = self.inside.lock();
        let holds = inside.looked.is_some_and(|looked| {
            changed + SKEW < looked && now.duration_since(looked).is_ok_and(|age| age < LOOKED)
        });
        if !holds {
            *inside = Inside { looked: Some(now), numbers: self.look() };
        }
        inside.numbers.contains(&number(stat))
    }

    /// The files and directories in the hidden directories.
    fn look(&self) -> HashSet<Number> {
        let mut numbers = HashSet::new();
        let mut left = MAX_ENTRIES;
        for (top, _) in &self.directories {
            let mut waiting = VecDeque::from([(Vec::new(), 0)]);
            while let Some((path, depth)) = waiting.pop_front() {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let opened =
                    openat(top, if path.is_empty() { &b"."[..] } else { &path }, flags, Mode::empty());
                let Ok(dir) = opened else { continue };
                let Ok(entries) = Dir::read_from(&dir) else { continue };
                for entry in entries.flatten().take(left) {
                    left -= 1;
                    let name = entry.file_name().to_bytes();
                    let Ok(stat) = statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
                    let is_directory = FileType::from_raw_mode(stat.st_mode).is_dir();
                    if matches!(name, b"." | b"..") || (is_directory && self.served.contains(&number(&stat)))
                    {
                        continue;
                    }
                    numbers.insert(number(&stat));
                    if is_directory && depth < MAX_DEPTH {
                        waiting.push_back((inside(&path, name), depth + 1));
                    }
                }
            }
        }
        numbers
    }
}

/// What a directory is remembered by: it is another one, or has moved, if that is another.
fn passing(dir: &impl AsFd) -> Option<[u8; 16]> {
    let (path, (device, inode)) = (path_of(dir).ok()?, number(&fstat(dir).ok()?));
    let mut hasher = blake3::Hasher::new();
    hasher.update(&device.to_le_bytes()).update(&inode.to_le_bytes()).update(&path);
    hasher.finalize().as_bytes().first_chunk().copied()
}

/// The symbolic links by way of which the user's `path` leads to something.
fn links_on_the_way(path: &Path) -> Vec<Number> {
    let Ok(path) = std::path::absolute(path) else { return Vec::new() };
    let (mut found, mut waiting) = (Vec::new(), vec![path]);
    while let Some(path) = waiting.pop() {
        for part in path.ancestors() {
            let Ok(stat) = statat(CWD, part, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            if !FileType::from_raw_mode(stat.st_mode).is_symlink() || found.contains(&number(&stat)) {
                continue;
            }
            found.push(number(&stat));
            // What it says is a way of its own.
            let target = std::fs::read_link(part).unwrap_or_default();
            waiting.extend(part.parent().map(|parent| parent.join(target)));
        }
        if found.len() > MAX_LINKS {
            break;
        }
    }
    found
}

fn number(stat: &Stat) -> Number {
    (stat.st_dev, stat.st_ino)
}

/// Whether what is called `name` in `dir` is mounted there.
fn is_mounted(dir: &impl AsFd, name: &[u8]) -> bool {
    let (name, flags) = match name {
        b"." => (&b""[..], AtFlags::EMPTY_PATH),
        name => (name, AtFlags::SYMLINK_NOFOLLOW),
    };
    let told = statx(dir, name, flags | AtFlags::STATX_DONT_SYNC, StatxFlags::empty());
    told.is_ok_and(|told| told.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

/// Whether the directory `name` in `dir` has a mark, of its owner, of the system's or of ours.
fn is_marked(dir: &impl AsFd, name: &[u8], stat: &Stat) -> bool {
    let path = [name, WORK_DIR, MARK].join(&b'/');
    statat(dir, path, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|mark| {
        FileType::from_raw_mode(mark.st_mode).is_file()
            && [0, stat.st_uid, host::user()].contains(&mark.st_uid)
    })
}
