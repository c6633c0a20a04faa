//! Opening paths that cannot leave a directory, whatever a peer or a racing process puts in them.
//!
//! Every open is [`resolve`]d as `RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS` has it, relative to a
//! directory descriptor; strings are never joined. The one exception looks where a link leads, for `store::named`.
//!
//! Where something is `Hidden`, it is not there for whoever looks, and refuses to be changed: a directory is a
//! [`Root`] here, and everything that is done by names goes through its methods.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{
    Access, AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Stat, Timestamps, accessat, open, readlinkat,
    statat, symlinkat, unlinkat, utimensat,
};
use rustix::io::Errno;

use super::fs::{fstat, linkat, mkdirat, rename_new, renameat};
use super::hidden::Hidden;
pub(crate) use super::identity::path_of;
use super::resolve;
use super::whereabouts::containing;
use crate::path::{MAX_PIECE, is_reserved, split};

/// How directories on the way are opened.
const ON_THE_WAY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY);

/// A directory as the root that paths are resolved beneath.
#[derive(Debug)]
pub struct Root {
    dir: OwnedFd,
    hidden: Option<Arc<Hidden>>,
}

impl Root {
    /// Opens the directory at `path`, which the local user named and is therefore trusted.
    pub fn open(path: &[u8]) -> Result<Self, Errno> {
        let dir = open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self { dir, hidden: None })
    }

    /// The same directory, in which `hidden` is not there, nor in any directory that is reached from here.
    #[must_use]
    pub(crate) fn hiding(self, hidden: Arc<Hidden>) -> Self {
        Self { hidden: Some(hidden), ..self }
    }

    /// The same, in which nobody finds a directory that is marked as the program's own, if nothing is hidden here.
    #[must_use]
    pub(crate) fn hiding_marked(self) -> Self {
        Self { hidden: self.hidden.or_else(|| Some(Arc::default())), ..self }
    }

    /// The same, in which nothing is hidden: for what transfers keep for themselves, where peers have no names.
    #[must_use]
    pub(crate) fn hiding_nothing(self) -> Self {
        Self { hidden: None, ..self }
    }

    /// The open directory `dir`, in which the same is hidden as in this one.
    fn likewise(&self, dir: OwnedFd) -> Self {
        Self { dir, hidden: self.hidden.clone() }
    }

    /// The directory at `path` beneath this one; an empty path is this one.
    pub fn dir(&self, path: &[u8]) -> Result<Self, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let dir = match path {
            b"" => self.open_piece(b".", flags, Mode::empty(), ResolveFlags::empty()),
            path => self.open_beneath(path, flags, Mode::empty()),
        };
        dir.map(|dir| self.likewise(dir))
    }

    /// The same, only to open what is in it: for a server of files that is no opening.
    pub(crate) fn dir_to_open_in(&self, path: &[u8]) -> Result<Self, Errno> {
        let path = if path.is_empty() { b"." } else { path };
        self.open_beneath(path, ON_THE_WAY, Mode::empty()).map(|dir| self.likewise(dir))
    }

    /// The directory at the absolute `path`, which was looked up before, in which the same is hidden as in this one.
    pub fn elsewhere(&self, path: &[u8]) -> Result<Self, Errno> {
        Self::open(path).map(|Self { dir, .. }| self.likewise(dir))
    }

    /// As [`dir`](Self::dir), and fails with `EXDEV` where something is mounted on the way, or there.
    pub(crate) fn dir_within(&self, path: &[u8]) -> Result<Self, Errno> {
        let path = if path.is_empty() { b"." } else { path };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let dir = self.open_in_pieces(path, flags, Mode::empty(), ResolveFlags::NO_XDEV);
        dir.map(|dir| self.likewise(dir))
    }

    /// What contains this one in its mount, without being opened for reading; `None` at the top of that. Nothing is hidden
    /// there.
    pub fn above(&self) -> Result<Option<Self>, Errno> {
        let above = match containing(&self.dir) {
            Err(Errno::XDEV) => return Ok(None),
            above => above?,
        };
        let (stat, here) = (fstat(&above)?, fstat(&self.dir)?);
        // The top of all is its own parent.
        let is_same = (stat.st_dev, stat.st_ino) == (here.st_dev, here.st_ino);
        Ok((!is_same).then_some(Self { dir: above, hidden: None }))
    }

    /// As [`dir`](Self::dir), making the missing ones with mode 0777 less the umask.
    pub fn make_dir(&self, path: &[u8]) -> Result<Self, Errno> {
        match self.dir(path) {
            Err(Errno::NOENT) => {}
            found => return found,
        }
        // As a rule only the last is missing; else from the top, since a peer says how many there are.
        let (parent, name) = split(path);
        match self.dir(parent) {
            Ok(parent) => parent.make_one(name),
            Err(Errno::NOENT) => {
                let mut names = path.split(|&b| b == b'/');
                names.try_fold(self.dir(b"")?, |parent, name| parent.make_one(name))
            }
            Err(error) => Err(error),
        }
    }

    /// The directory `name` directly in this one, made if it is missing.
    fn make_one(&self, name: &[u8]) -> Result<Self, Errno> {
        match self.make(name, Mode::from_raw_mode(0o777)) {
            Ok(()) => self.dir(name),
            // What is hidden is there, and no place for anybody.
            Err(Errno::EXIST) if self.hides(name) => Err(Errno::ACCESS),
            Err(Errno::EXIST) => self.dir(name),
            Err(error) => Err(error),
        }
    }

    /// Opens `path` beneath the root; one that is longer than the kernel takes at once, a piece after the other.
    pub fn open_beneath(&self, path: &[u8], flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
        self.open_in_pieces(path, flags, mode, ResolveFlags::empty())
    }

    fn open_in_pieces(
        &self,
        path: &[u8],
        flags: OFlags,
        mode: Mode,
        also: ResolveFlags,
    ) -> Result<OwnedFd, Errno> {
        match &self.hidden {
            Some(hidden) => self.open_looking(hidden, path, flags, mode, also),
            None => self.open_long(path, flags, mode, also),
        }
    }

    /// Whatever is on the way.
    fn open_long(
        &self,
        path: &[u8],
        flags: OFlags,
        mode: Mode,
        also: ResolveFlags,
    ) -> Result<OwnedFd, Errno> {
        let mut reached: Option<Self> = None;
        let mut rest = path;
        while rest.len() > MAX_PIECE {
            let slash = rest[..=MAX_PIECE].iter().rposition(|&b| b == b'/').ok_or(Errno::NAMETOOLONG)?;
            let from = reached.as_ref().unwrap_or(self);
            reached =
                Some(from.likewise(from.open_piece(&rest[..slash], ON_THE_WAY, Mode::empty(), also)?));
            rest = &rest[slash + 1..];
        }
        reached.as_ref().unwrap_or(self).open_piece(rest, flags, mode, also)
    }

    /// As [`open_long`](Self::open_long), as if nothing hidden were there.
    fn open_looking(
        &self,
        hidden: &Hidden,
        path: &[u8],
        flags: OFlags,
        mode: Mode,
        also: ResolveFlags,
    ) -> Result<OwnedFd, Errno> {
        let path = path.strip_suffix(b"/").unwrap_or(path);
        let (parents, last) = split(path);
        let parent = match parents {
            b"" => None,
            parents => {
                let parent = self.open_long(parents, ON_THE_WAY, Mode::empty(), also)?;
                let parent = match hidden.has_passed(&parent) {
                    true => parent,
                    false => self.look_along(hidden, parents, also)?,
                };
                Some(self.likewise(parent))
            }
        };
        let opened = parent.as_ref().unwrap_or(self).open_piece(last, flags, mode, also)?;
        if hidden.hides(&opened)? { Err(Errno::NOENT) } else { Ok(opened) }
    }

    /// Opens the directory `path` a name after the other, since each on the way may be one that is not there.
    fn look_along(&self, hidden: &Hidden, path: &[u8], also: ResolveFlags) -> Result<OwnedFd, Errno> {
        // Whoever walks a tree has just been in the directory above.
        let (above, last) = split(path);
        let above = match above {
            b"" => None,
            above => Some(self.open_long(above, ON_THE_WAY, Mode::empty(), also)?),
        };
        let (mut reached, rest) = match above.filter(|above| hidden.has_passed(above)) {
            Some(above) => (above, last),
            None => (self.open_piece(b".", ON_THE_WAY, Mode::empty(), also)?, path),
        };
        for name in rest.split(|&b| b == b'/').filter(|name| !name.is_empty()) {
            reached = self.likewise(reached).open_piece(name, ON_THE_WAY, Mode::empty(), also)?;
            if hidden.hides(&reached)? {
                return Err(Errno::NOENT);
            }
        }
        hidden.passed(&reached);
        Ok(reached)
    }

    fn open_piece(
        &self,
        path: &[u8],
        flags: OFlags,
        mode: Mode,
        also: ResolveFlags,
    ) -> Result<OwnedFd, Errno> {
        let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS | also;
        resolve::open(&self.dir, path, flags, mode, how)
    }

    /// What the link `name` in this directory leads to, wherever that is: for whoever checks where. Opened without
    /// being touched.
    pub(crate) fn open_link(&self, name: &[u8]) -> Result<OwnedFd, Errno> {
        resolve::open(&self.dir, name, OFlags::PATH, Mode::empty(), ResolveFlags::NO_MAGICLINKS)
    }

    /// As [`open_beneath`](Self::open_beneath), following symlinks as long as they stay beneath and lead to
    /// nothing that transfers keep for themselves. Links may lead up again, so the path cannot be taken in pieces.
    pub(crate) fn open_following(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        let how = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let opened = resolve::open(&self.dir, path, flags, Mode::empty(), how)?;
        let inner = self.inner(&opened)?;
        if inner.split(|&b| b == b'/').any(is_reserved) {
            return Err(Errno::XDEV);
        }
        match (&self.hidden, &inner[..]) {
            (None, _) | (_, b"") => Ok(opened),
            // Opened anew where it is, by way of directories that are looked at.
            (Some(_), inner) => match self.open_beneath(inner, flags, Mode::empty()) {
                Err(Errno::NOENT) => Err(Errno::XDEV),
                opened => opened,
            },
        }
    }

    /// The same for a directory.
    pub(crate) fn dir_following(&self, path: &[u8]) -> Result<Self, Errno> {
        self.open_following(path, OFlags::RDONLY | OFlags::DIRECTORY).map(|dir| self.likewise(dir))
    }

    /// The path of `opened` beneath this directory, as the kernel knows it.
    fn inner(&self, opened: &OwnedFd) -> Result<Vec<u8>, Errno> {
        let (root, path) = (path_of(&self.dir)?, path_of(opened)?);
        let inner = path.strip_prefix(&root[..]).unwrap_or(&path);
        Ok(inner.strip_prefix(b"/").unwrap_or(inner).to_vec())
    }

    /// Whether what is called `name` in this directory is hidden.
    pub fn hides(&self, name: &[u8]) -> bool {
        let Some(hidden) = &self.hidden else { return false };
        let stat = statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW);
        stat.is_ok_and(|stat| hidden.hides_named(&self.dir, name, &stat))
    }

    /// Whether what is called `name` in this directory stays as it is: it is hidden, or a link by way of which that is found.
    pub fn keeps(&self, name: &[u8]) -> bool {
        let Some(hidden) = &self.hidden else { return false };
        let stat = statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW);
        stat.is_ok_and(|stat| hidden.is_on_the_way(&stat) || hidden.hides_named(&self.dir, name, &stat))
    }

    fn may_change(&self, name: &[u8]) -> Result<(), Errno> {
        if self.keeps(name) { Err(Errno::ACCESS) } else { Ok(()) }
    }

    /// What is called `name` directly in this directory, without following a symlink.
    pub fn stat(&self, name: &[u8]) -> Result<Stat, Errno> {
        let stat = statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
        match &self.hidden {
            Some(hidden) if hidden.hides_named(&self.dir, name, &stat) => Err(Errno::NOENT),
            _ => Ok(stat),
        }
    }

    /// What the link `name` in this directory says.
    pub fn read_link(&self, name: &[u8]) -> Result<Vec<u8>, Errno> {
        readlinkat(&self.dir, name, Vec::new()).map(std::ffi::CString::into_bytes)
    }

    /// Whether names in this directory may be changed.
    pub fn may_write(&self) -> Result<(), Errno> {
        accessat(&self.dir, ".", Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS)
    }

    /// Makes the directory `name` in this one.
    pub fn make(&self, name: &[u8], mode: Mode) -> Result<(), Errno> {
        mkdirat(&self.dir, name, mode)
    }

    /// Makes the link `name` in this directory, which leads to `target`.
    pub fn symlink(&self, target: &[u8], name: &[u8]) -> Result<(), Errno> {
        symlinkat(target, &self.dir, name)
    }

    /// Sets the times of what is called `name` in this directory, without following a symlink.
    pub(crate) fn set_times(&self, name: &[u8], times: &Timestamps) -> Result<(), Errno> {
        self.may_change(name)?;
        utimensat(&self.dir, name, times, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// Removes the file, or the link, `name` from this directory.
    pub fn remove(&self, name: &[u8]) -> Result<(), Errno> {
        self.may_change(name)?;
        unlinkat(&self.dir, name, AtFlags::empty())
    }

    /// Removes the directory `name`, in which nothing is, from this one.
    pub fn remove_dir(&self, name: &[u8]) -> Result<(), Errno> {
        self.may_change(name)?;
        unlinkat(&self.dir, name, AtFlags::REMOVEDIR)
    }

    /// Gives what is called `name` in this directory the name `new` in `to`, in place of what bears that. What contains
    /// something hidden keeps its name.
    pub fn rename(&self, name: &[u8], to: &Self, new: &[u8]) -> Result<(), Errno> {
        self.may_move(name)?;
        to.may_change(new)?;
        renameat(&self.dir, name, &to.dir, new)
    }

    /// The same, unless something bears the new name: then it fails with `EXIST`.
    pub fn rename_new(&self, name: &[u8], to: &Self, new: &[u8]) -> Result<(), Errno> {
        self.may_move(name)?;
        to.may_change(new)?;
        rename_new(&self.dir, name, &to.dir, new)
    }

    fn may_move(&self, name: &[u8]) -> Result<(), Errno> {
        self.may_change(name)?;
        let Some(hidden) = &self.hidden else { return Ok(()) };
        match self.open_piece(name, ON_THE_WAY, Mode::empty(), ResolveFlags::empty()) {
            Ok(directory) if hidden.lies_in(&directory) => Err(Errno::ACCESS),
            // What is no directory contains nothing.
            _ => Ok(()),
        }
    }

    /// Gives the file that is called `name` in this directory the name `new` in `to` as well.
    pub fn link(&self, name: &[u8], to: &Self, new: &[u8]) -> Result<(), Errno> {
        self.may_change(name)?;
        linkat(&self.dir, name, &to.dir, new, AtFlags::empty())
    }
}

impl AsFd for Root {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.dir.as_fd()
    }
}

/// The absolute path of `path` with symlinks resolved, for people and for catalogue keys.
pub fn canonical(path: &[u8]) -> Result<Vec<u8>, Errno> {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    let path = std::path::Path::new(std::ffi::OsStr::from_bytes(path));
    match path.canonicalize() {
        Ok(path) => Ok(path.into_os_string().into_vec()),
        Err(error) => Err(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
    }
}

/// Whether `path`, named by the local user, is a symlink itself.
pub(crate) fn is_link(path: &[u8]) -> bool {
    statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_symlink())
}

/// What `path`, named by the local user, leads to.
pub(crate) fn stat_trusted(path: &[u8]) -> Result<Stat, Errno> {
    statat(CWD, path, AtFlags::empty())
}

/// An empty directory, and it as a root.
#[cfg(test)]
pub(crate) fn scratch() -> (tempfile::TempDir, Root) {
    use std::os::unix::ffi::OsStrExt;
    let directory = tempfile::tempdir().expect("a directory");
    let root = Root::open(directory.path().as_os_str().as_bytes()).expect("opened");
    (directory, root)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;

    #[test]
    fn nothing_is_opened_outside_the_root() {
        let outer = tempfile::tempdir().expect("a directory");
        std::fs::create_dir_all(outer.path().join("root/in")).expect("made");
        std::fs::write(outer.path().join("secret"), "s").expect("written");
        symlink("../secret", outer.path().join("root/link")).expect("linked");
        symlink("/", outer.path().join("root/slash")).expect("linked");
        symlink("in", outer.path().join("root/alias")).expect("linked");
        let root = Root::open(outer.path().join("root").as_os_str().as_bytes()).expect("opened");
        for path in
            [&b"../secret"[..], b"link", b"slash/etc/passwd", b"alias/x", b"/etc/passwd", b"in/../../secret"]
        {
            assert!(root.open_beneath(path, OFlags::RDONLY, Mode::empty()).is_err());
            assert!(root.open_beneath(path, OFlags::WRONLY | OFlags::CREATE, Mode::RWXU).is_err());
        }
        assert!(root.open_following(b"link", OFlags::RDONLY).is_err());
        assert!(root.open_following(b"alias", OFlags::RDONLY).is_ok());
        std::fs::create_dir_all(outer.path().join("root/in/.tidegate/id")).expect("made");
        symlink("in/.tidegate/id", outer.path().join("root/state")).expect("linked");
        for path in [&b"state"[..], b"alias/.tidegate", b"in/.tidegate/id"] {
            assert_eq!(root.open_following(path, OFlags::RDONLY).err(), Some(Errno::XDEV));
        }
        assert!(root.make_dir(b"alias/y").is_err());
        assert!(root.make_dir(b"in/a/b/c").is_ok());
        assert!(outer.path().join("root/in/a/b/c").is_dir());
    }
    #[test]
    fn a_path_may_be_longer_than_the_kernel_takes_at_once() {
        let (_directory, root) = scratch();
        let name = [b'n'; 200];
        let long = vec![&name[..]; 100].join(&b'/');
        root.make_dir(&long).expect("made");
        let file = [&long[..], b"/file"].concat();
        root.open_beneath(&file, OFlags::WRONLY | OFlags::CREATE, Mode::RWXU).expect("opened");
        let halfway = root.dir(&long[..200 * 50 + 49]).expect("the fiftieth");
        halfway.open_beneath(&file[200 * 50 + 50..], OFlags::RDONLY, Mode::empty()).expect("the same");
        assert_eq!(root.dir(&[&long[..], b"/.."].concat()).err(), None, "it stays beneath");
        for bad in [[b"../", &long[..]].concat(), [&[b'x'; MAX_PIECE + 1][..], b"/y"].concat()] {
            root.dir(&bad).expect_err("it leads out, or is no name");
        }
        // A link in any of the pieces is none that is followed.
        symlink("..", format!("/proc/self/fd/{}/link", halfway.dir.as_raw_fd())).expect("linked");
        let by_link = [&long[..200 * 50 + 49], b"/link/", &name].concat();
        assert_eq!(root.dir(&by_link).err(), Some(Errno::LOOP));
    }
}
