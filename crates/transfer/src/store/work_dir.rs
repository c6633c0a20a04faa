//! The directory of one transfer's unfinished files, `.tidegate/<transfer>/` beside the destination's files.
//!
//! Others may write into the destination too, so what is found there is taken for ours only once it is shown to
//! be: a directory that belongs to us and that nobody else can write, holding plain files of ours with one name
//! each. It stays open from then on, and everything in it is reached through its descriptor up to the rename,
//! so nobody can put something else in its place.

use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;

use crate::error::{Error, ErrorKind, Result};
use crate::path::WORK_DIR;
use crate::spec::TransferId;
use crate::sys::confined::Root;
use crate::sys::fs::{
    Dir, FileType, Mode, OFlags, Stat, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, fchmod, fstat, futimens,
};
use crate::sys::host;
use crate::text::show;

/// What the journal is called in it, whose lock shows that a run goes on.
pub(crate) const JOURNAL: &str = "journal";

/// How often a directory is made again that other transfers remove as they end.
const ATTEMPTS: u32 = 100;

/// A work directory.
#[derive(Debug)]
pub(crate) struct WorkDir {
    dir: Root,
    name: String,
    /// Who we are on this file system: servers of files may give us another identity.
    owner: u32,
}

impl WorkDir {
    /// Makes or opens the work directory of transfer `id` in `base`.
    pub fn make(base: &Root, id: &TransferId) -> Result<Self> {
        let name = data_encoding::HEXLOWER.encode(id);
        let mut made = Self::try_make(base, &name);
        for _ in 0..ATTEMPTS {
            // Another transfer that ends just now removes the directory that holds both.
            if !matches!(made, Err((_, Errno::NOENT))) {
                break;
            }
            made = Self::try_make(base, &name);
        }
        let (dir, is_new) = made.map_err(|(path, error)| cannot_make(base, &path, error))?;
        Self::of(dir, name, is_new)
    }

    /// Opens the work directory of transfer `id` in `base`, if there is one.
    pub fn open(base: &Root, id: &TransferId) -> Result<Option<Self>> {
        let name = data_encoding::HEXLOWER.encode(id);
        let path = path_of(&name);
        match base.dir_within(&path) {
            Ok(dir) => Self::of(dir.hiding_nothing(), name, false).map(Some),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(cannot_make(base, &path, error)),
        }
    }

    /// The work directory of transfer `id` in `base`, to be looked at and left as it is, if there is one of ours.
    pub fn look(base: &Root, id: &TransferId) -> Option<Self> {
        let name = data_encoding::HEXLOWER.encode(id);
        let dir = base.dir(&path_of(&name)).ok()?;
        let owner = fstat(&dir).ok()?.st_uid;
        (owner == host::user()).then_some(Self { dir, name, owner })
    }

    /// One that is there, if it is ours.
    fn of(dir: Root, name: String, is_new: bool) -> Result<Self> {
        let path = path_of(&name);
        let failed = |error| Error::io("use", &path, error);
        let stat = fstat(&dir).map_err(failed)?;
        if stat.st_uid != host::user() && identity(&dir).ok() != Some(stat.st_uid) {
            return Err(refused(&path, &format!("it belongs to user {}", stat.st_uid)));
        }
        if !is_new {
            // Without effect where the file system knows no modes.
            let _ = fchmod(&dir, Mode::RWXU);
            // It is in use again: see `abandoned`.
            let _ = futimens(&dir, &now());
        }
        Ok(Self { dir, name, owner: stat.st_uid })
    }

    fn try_make(base: &Root, name: &str) -> Result<(Root, bool), (Vec<u8>, Errno)> {
        let of_all = |error| (WORK_DIR.to_vec(), error);
        // Sticky, so that those who share it cannot remove each other's.
        match base.make(WORK_DIR, Mode::from_raw_mode(0o1777)) {
            Ok(()) | Err(Errno::EXIST) => {}
            // Also where nothing may be made but all is there.
            Err(error) if base.dir_within(WORK_DIR).is_err() => return Err(of_all(error)),
            Err(_) => {}
        }
        // Files get their names by renaming, which does not leave a mount; and what is mounted is none of ours to remove.
        let all = base.dir_within(WORK_DIR).map_err(of_all)?.hiding_nothing();
        let of_this = |error| (path_of(name), error);
        let is_new = match all.make(name.as_bytes(), Mode::RWXU) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(error) if all.dir_within(name.as_bytes()).is_err() => return Err(of_this(error)),
            Err(_) => false,
        };
        Ok((all.dir_within(name.as_bytes()).map_err(of_this)?, is_new))
    }

    /// The directory itself, for the journal.
    pub fn dir(&self) -> &Root {
        &self.dir
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What is in it.
    pub fn names(&self) -> Result<Vec<String>, Errno> {
        let names = Dir::read_from(&self.dir)?.map(|entry| {
            entry.map(|entry| String::from_utf8_lossy(entry.file_name().to_bytes()).into_owned())
        });
        names.collect()
    }

    /// Calls it after transfer `id` from now on, unless that has one with something in it.
    pub fn rename(&self, base: &Root, id: &TransferId) -> Result<(), Errno> {
        let all = base.dir(WORK_DIR)?.hiding_nothing();
        all.rename(self.name.as_bytes(), &all, data_encoding::HEXLOWER.encode(id).as_bytes())
    }

    /// Makes the unfinished file `part` anew, in place of what an earlier run left.
    pub fn create(&self, part: &str) -> Result<OwnedFd> {
        let path = self.path(part);
        let failed = |error| Error::io("create", &path, error);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        let create = || self.dir.open_beneath(part.as_bytes(), flags, Mode::RUSR | Mode::WUSR);
        match create() {
            Err(Errno::EXIST) => {
                let stat = self.dir.stat(part.as_bytes()).map_err(failed)?;
                // A link that was to get its name is left by runs of ours too.
                if !FileType::from_raw_mode(stat.st_mode).is_symlink() || stat.st_uid != self.owner {
                    self.check(&stat, part)?;
                }
                self.dir.remove(part.as_bytes()).map_err(failed)?;
                create().map_err(failed)
            }
            created => created.map_err(failed),
        }
    }

    /// Opens the unfinished file `part` that an earlier run left, sealed or not.
    pub(crate) fn reopen(&self, part: &str) -> Result<OwnedFd> {
        let path = self.path(part);
        let failed = |error| Error::io("open", &path, error);
        // A FIFO is opened without waiting for its other end, and refused.
        let open = |flags| self.dir.open_beneath(part.as_bytes(), flags | OFlags::NONBLOCK, Mode::empty());
        let stat = self.dir.stat(part.as_bytes()).map_err(failed)?;
        self.check(&stat, part)?;
        let opened = match open(OFlags::RDWR) {
            // Sealed read-only, just before it was to get its name.
            Err(Errno::ACCESS) => open(OFlags::RDONLY)
                .and_then(|fd| fchmod(&fd, Mode::RUSR | Mode::WUSR))
                .and_then(|()| open(OFlags::RDWR)),
            opened => opened,
        };
        let fd = opened.map_err(failed)?;
        self.check(&fstat(&fd).map_err(failed)?, part)?;
        Ok(fd)
    }

    /// Removes the unfinished file or link `part`, if there is one.
    pub fn discard(&self, part: &str) {
        let _ = self.dir.remove(part.as_bytes());
    }

    /// Whether something is there whose name satisfies `like`.
    pub fn any(&self, like: impl Fn(&[u8]) -> bool) -> bool {
        let Ok(entries) = Dir::read_from(&self.dir) else { return false };
        entries.flatten().any(|entry| like(entry.file_name().to_bytes()))
    }

    /// Removes it with all that is in it, and the directory that holds it once that is empty.
    pub fn remove(&self, base: &Root) {
        if let Ok(all) = base.dir(WORK_DIR).map(Root::hiding_nothing) {
            let _ = empty_and_remove(&self.dir, &all, &self.name);
        }
        // Fails, rightly, while another transfer works here.
        let _ = base.remove_dir(WORK_DIR);
    }

    /// Refuses what no run of ours can have left there.
    fn check(&self, stat: &Stat, part: &str) -> Result<()> {
        let path = self.path(part);
        if !FileType::from_raw_mode(stat.st_mode).is_file() {
            return Err(refused(&path, "it is no regular file"));
        }
        if stat.st_nlink > 1 {
            return Err(refused(&path, "it has another name, a hard link"));
        }
        if stat.st_uid != self.owner {
            return Err(refused(&path, &format!("it belongs to user {}", stat.st_uid)));
        }
        Ok(())
    }

    fn path(&self, part: &str) -> Vec<u8> {
        [&path_of(&self.name)[..], b"/", part.as_bytes()].concat()
    }
}

/// Removes what lies in the directory `dir`, then it itself from `all`, where it bears `name`.
pub(super) fn empty_and_remove(dir: &Root, all: &Root, name: &str) -> Result<(), Errno> {
    for entry in Dir::read_from(dir)?.flatten() {
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            dir.remove(entry.file_name().to_bytes())?;
        }
    }
    all.remove_dir(name.as_bytes())
}

/// Whose the files are that we make in `dir`.
fn identity(dir: &Root) -> Result<u32, Errno> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
    let _ = dir.remove(b"probe");
    let probe = dir.open_beneath(b"probe", flags, Mode::RUSR | Mode::WUSR)?;
    let stat = fstat(probe.as_fd());
    let _ = dir.remove(b"probe");
    stat.map(|stat| stat.st_uid)
}

fn path_of(name: &str) -> Vec<u8> {
    [WORK_DIR, b"/", name.as_bytes()].concat()
}

fn cannot_make(base: &Root, path: &[u8], error: Errno) -> Error {
    match error {
        Errno::LOOP => refused(path, "it is a symbolic link"),
        Errno::NOTDIR => refused(path, "it is no directory"),
        Errno::XDEV => refused(path, "something is mounted there"),
        Errno::ACCESS | Errno::PERM => match base.stat(WORK_DIR) {
            Ok(stat) if stat.st_uid != host::user() => {
                let why = format!(
                    "cannot create {}: user {} has unfinished transfers there and lets nobody else begin one",
                    show(path),
                    stat.st_uid
                );
                Error::new(ErrorKind::Denied, why)
            }
            _ => Error::io("create", path, error),
        },
        error => Error::io("create", path, error),
    }
}

fn refused(path: &[u8], why: &str) -> Error {
    let what = format!("will not put unfinished files into {}: {why}; remove it", show(path));
    Error::new(ErrorKind::Denied, what)
}

fn now() -> Timestamps {
    let time = |nanoseconds| Timespec { tv_sec: 0, tv_nsec: nanoseconds };
    Timestamps { last_access: time(UTIME_OMIT), last_modification: time(UTIME_NOW) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
    use std::path::{Path, PathBuf};

    const ID: TransferId = [0xab; 16];
    const NAME: &str = "abababababababababababababababab";

    fn root(path: &Path) -> Root {
        Root::open(path.as_os_str().as_bytes()).expect("opened")
    }

    fn destination() -> (tempfile::TempDir, PathBuf) {
        let base = tempfile::tempdir().expect("a directory");
        let work = base.path().join(".tidegate").join(NAME);
        (base, work)
    }

    #[test]
    fn only_we_can_write_there_whatever_an_earlier_version_left() {
        let (base, work) = destination();
        WorkDir::make(&root(base.path()), &ID).expect("made");
        assert_eq!(work.metadata().expect("there").mode() & 0o777, 0o700);
        std::fs::set_permissions(&work, PermissionsExt::from_mode(0o777)).expect("set");
        WorkDir::make(&root(base.path()), &ID).expect("opened");
        assert_eq!(work.metadata().expect("there").mode() & 0o777, 0o700);
    }

    #[test]
    fn what_is_planted_in_its_place_is_refused_in_one_line() {
        let elsewhere = tempfile::tempdir().expect("a directory");
        let plants: [(&str, &dyn Fn(&Path)); 4] = [
            ("symbolic link", &|work| {
                std::fs::create_dir(work.parent().expect("one")).expect("made");
                symlink(elsewhere.path(), work).expect("linked");
            }),
            ("symbolic link", &|work| {
                symlink(elsewhere.path(), work.parent().expect("one")).expect("linked");
            }),
            ("no directory", &|work| std::fs::write(work.parent().expect("one"), "x").expect("written")),
            ("no directory", &|work| {
                std::fs::create_dir(work.parent().expect("one")).expect("made");
                std::fs::write(work, "x").expect("written");
            }),
        ];
        for (why, plant) in plants {
            let (base, work) = destination();
            plant(&work);
            let error = WorkDir::make(&root(base.path()), &ID).expect_err("planted");
            assert!(error.message.contains(why) && !error.message.contains('\n'), "{error}");
        }
        assert_eq!(elsewhere.path().read_dir().expect("read").count(), 0);
    }

    #[test]
    fn a_planted_part_is_refused_and_what_it_names_is_untouched() {
        let (base, work) = destination();
        let ours = WorkDir::make(&root(base.path()), &ID).expect("made");
        let precious = base.path().join("precious");
        std::fs::write(&precious, "precious").expect("written");
        std::fs::hard_link(&precious, work.join("hard")).expect("linked");
        symlink(&precious, work.join("soft")).expect("linked");
        let fifo = std::process::Command::new("mkfifo").arg(work.join("fifo")).status().expect("ran");
        assert!(fifo.success());
        let refusals = ["hard", "fifo"].map(|part| (part, ours.create(part).expect_err(part)));
        let unused = ["hard", "fifo", "soft"].map(|part| (part, ours.reopen(part).expect_err(part)));
        for (part, error) in refusals.into_iter().chain(unused) {
            assert!(error.message.contains(part) && error.message.ends_with("remove it"), "{error}");
        }
        ours.create("soft").expect("made in its place");
        assert_eq!(std::fs::read(&precious).expect("read"), b"precious");
    }

    #[test]
    fn a_part_of_an_earlier_run_is_made_anew_or_continued() {
        let (base, work) = destination();
        let ours = WorkDir::make(&root(base.path()), &ID).expect("made");
        std::fs::write(work.join("part"), "old").expect("written");
        std::fs::set_permissions(work.join("part"), PermissionsExt::from_mode(0o444)).expect("set");
        ours.reopen("part").expect("sealed, and ours");
        ours.create("part").expect("made anew");
        assert_eq!(std::fs::read(work.join("part")).expect("read"), b"");
        ours.remove(&root(base.path()));
        assert!(!base.path().join(".tidegate").exists());
    }
}
