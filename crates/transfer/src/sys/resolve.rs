//! Opening a path beneath a directory: by `openat2`, or a name at a time where the kernel has none.
//!
//! Kernels before 5.6 answer it with `ENOSYS`, and filters of system calls that are older than it, as of containers,
//! with `EPERM`.

use std::collections::VecDeque;
use std::io::Read as _;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, openat, openat2, readlinkat, statat};
use rustix::io::Errno;

use super::fs::fstat;

/// How directories on the way are opened.
const ON_THE_WAY: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// How many links one path leads through, as in the kernel.
const MAX_LINKS: u32 = 40;

/// Whether the kernel lets this process use `openat2`.
pub fn is_native() -> bool {
    static NATIVE: OnceLock<bool> = OnceLock::new();
    *NATIVE.get_or_init(|| {
        let opened = openat2(CWD, "/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::empty());
        !matches!(opened, Err(Errno::NOSYS | Errno::PERM))
    })
}

/// Opens `path` from `dir` with the promises of `resolve`, of which `BENEATH`, `NO_SYMLINKS`, `NO_MAGICLINKS` and `NO_XDEV`
/// are known. Closed on exec.
pub(super) fn open(
    dir: impl AsFd,
    path: &[u8],
    flags: OFlags,
    mode: Mode,
    resolve: ResolveFlags,
) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::CLOEXEC;
    if !is_native() {
        return Walk::new(dir.as_fd(), resolve).open(path, flags, mode);
    }
    loop {
        // EAGAIN: a rename raced with the resolution; the kernel asks to try again.
        match openat2(&dir, path, flags, mode, resolve) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            opened => return opened,
        }
    }
}

/// The way from a directory, a name at a time. What was passed stays open: to go up is to go back, wherever what is above may
/// have been moved meanwhile.
struct Walk<'d> {
    top: BorrowedFd<'d>,
    /// The directories below `top`, the innermost last.
    passed: Vec<OwnedFd>,
    resolve: ResolveFlags,
    links: u32,
}

impl<'d> Walk<'d> {
    const fn new(top: BorrowedFd<'d>, resolve: ResolveFlags) -> Self {
        Self { top, passed: Vec::new(), resolve, links: 0 }
    }

    fn here(&self) -> BorrowedFd<'_> {
        self.passed.last().map_or(self.top, AsFd::as_fd)
    }

    fn open(mut self, path: &[u8], flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
        if path.is_empty() {
            return Err(Errno::NOENT);
        }
        let mut rest = VecDeque::new();
        let mut directory = self.queue(path, &mut rest)?;
        while let Some(name) = rest.pop_front() {
            let is_last = rest.is_empty();
            if let Some(target) = self.link(&name, is_last && !directory, flags)? {
                directory |= self.queue(&target, &mut rest)? && is_last;
                continue;
            }
            if is_last && name != b".." {
                let flags = if directory { flags | OFlags::DIRECTORY } else { flags };
                return self.enter(&name, flags | OFlags::NOFOLLOW, mode);
            }
            match &name[..] {
                b".." => self.up()?,
                name => {
                    let next = self.enter(name, ON_THE_WAY, Mode::empty())?;
                    self.passed.push(next);
                }
            }
        }
        openat(self.here(), ".", flags, mode)
    }

    /// Puts the names of `path` before those that are left. Answers whether it ends as a directory's does.
    fn queue(&mut self, path: &[u8], rest: &mut VecDeque<Vec<u8>>) -> Result<bool, Errno> {
        if path.starts_with(b"/") {
            if self.resolve.contains(ResolveFlags::BENEATH) {
                return Err(Errno::XDEV);
            }
            let slash = openat(CWD, "/", ON_THE_WAY, Mode::empty())?;
            self.check_mount(&slash)?;
            self.passed.push(slash);
        }
        for name in path.split(|&byte| byte == b'/').rev().filter(|name| !matches!(*name, b"" | b".")) {
            rest.push_front(name.to_vec());
        }
        Ok(path.ends_with(b"/") || path.ends_with(b"/."))
    }

    /// Where `name` leads if it is a link that is followed.
    fn link(&mut self, name: &[u8], is_last: bool, flags: OFlags) -> Result<Option<Vec<u8>>, Errno> {
        let is_link = statat(self.here(), name, AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink);
        let stays = flags.contains(OFlags::NOFOLLOW) || flags.contains(OFlags::CREATE | OFlags::EXCL);
        if !is_link || is_last && stays {
            return Ok(None);
        }
        self.links += 1;
        if self.resolve.contains(ResolveFlags::NO_SYMLINKS) || self.links > MAX_LINKS {
            return Err(Errno::LOOP);
        }
        readlinkat(self.here(), name, Vec::new()).map(|target| Some(target.into_bytes()))
    }

    fn up(&mut self) -> Result<(), Errno> {
        if self.resolve.contains(ResolveFlags::BENEATH) {
            return self.passed.pop().map(drop).ok_or(Errno::XDEV);
        }
        let above = self.enter(b"..", ON_THE_WAY, Mode::empty())?;
        self.passed.push(above);
        Ok(())
    }

    fn enter(&self, name: &[u8], flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
        let opened = openat(self.here(), name, flags, mode)?;
        self.check_mount(&opened)?;
        Ok(opened)
    }

    fn check_mount(&self, opened: &OwnedFd) -> Result<(), Errno> {
        let stays =
            !self.resolve.contains(ResolveFlags::NO_XDEV) || mount(self.top)? == mount(opened.as_fd())?;
        if stays { Ok(()) } else { Err(Errno::XDEV) }
    }
}

/// What tells the mount of `fd` from others: its number, or where the kernel does not tell that, the device's.
fn mount(fd: BorrowedFd<'_>) -> Result<u64, Errno> {
    let mut told = String::new();
    let read = std::fs::File::open(format!("/proc/self/fdinfo/{}", fd.as_raw_fd()))
        .and_then(|mut file| file.read_to_string(&mut told));
    let number = read
        .ok()
        .and_then(|_| told.lines().find_map(|line| line.strip_prefix("mnt_id:")?.trim().parse().ok()));
    number.map_or_else(|| fstat(fd).map(|stat| stat.st_dev), Ok)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const BENEATH: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS);
    const STRICT: ResolveFlags = BENEATH.union(ResolveFlags::NO_SYMLINKS);

    /// A tree with links of each kind, and its open root.
    fn tree() -> (tempfile::TempDir, OwnedFd) {
        let outer = tempfile::tempdir().expect("a directory");
        let at = |name: &str| outer.path().join(name);
        std::fs::create_dir_all(at("root/a/b")).expect("made");
        for (name, content) in [("secret", "no"), ("root/file", "top"), ("root/a/b/file", "inner")] {
            std::fs::write(at(name), content).expect("written");
        }
        for (target, name) in [
            ("a/b", "down"),
            ("../file", "a/up"),
            ("a/up", "twice"),
            ("../secret", "out"),
            ("..", "a/back"),
            ("/etc/passwd", "absolute"),
            ("loop", "loop"),
            ("missing", "dangling"),
            ("file/", "slashed"),
            ("a/b/", "directory"),
        ] {
            symlink(target, at("root").join(name)).expect("linked");
        }
        let root =
            openat(CWD, at("root"), OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).expect("opened");
        (outer, root)
    }

    #[test]
    fn a_name_at_a_time_opens_and_refuses_what_the_kernel_does() {
        if !is_native() {
            return;
        }
        let (_outer, root) = tree();
        let (read, path) = (OFlags::RDONLY | OFlags::CLOEXEC, OFlags::PATH | OFlags::CLOEXEC);
        let mut compared = 0;
        for name in [
            "",
            ".",
            "./",
            "..",
            "/",
            "file",
            "file/",
            "./file",
            "a//b/./file",
            "a/../file",
            "a/b/..",
            "a/b/../..",
            "a/../..",
            "../root/file",
            "down",
            "down/",
            "down/file",
            "down/../file",
            "down/..",
            "a/up",
            "twice",
            "out",
            "a/back",
            "a/back/file",
            "a/back/out",
            "absolute",
            "loop",
            "loop/x",
            "dangling",
            "dangling/x",
            "slashed",
            "directory",
            "directory/file",
            "missing",
            "missing/x",
            "file/x",
            "a/",
            "a/.",
            "file/.",
            "down/.",
        ] {
            for resolve in [STRICT, BENEATH, ResolveFlags::NO_MAGICLINKS, STRICT | ResolveFlags::NO_XDEV] {
                for flags in
                    [read, path, read | OFlags::DIRECTORY, path | OFlags::NOFOLLOW, read | OFlags::NOFOLLOW]
                {
                    let theirs = openat2(&root, name, flags, Mode::empty(), resolve);
                    let ours = Walk::new(root.as_fd(), resolve).open(name.as_bytes(), flags, Mode::empty());
                    let what = |opened: Result<OwnedFd, Errno>| {
                        opened.map(|fd| fstat(&fd).map(|stat| (stat.st_dev, stat.st_ino)).expect("looked at"))
                    };
                    assert_eq!(what(ours), what(theirs), "{name:?} {flags:?} {resolve:?}");
                    compared += 1;
                }
            }
        }
        assert!(compared > 500);
    }

    #[test]
    fn files_are_made_beneath_and_mounts_are_told_apart() {
        let (outer, root) = tree();
        let make = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let walk = |resolve| Walk::new(root.as_fd(), resolve);
        walk(STRICT).open(b"a/new", make, Mode::RUSR).expect("made");
        assert!(outer.path().join("root/a/new").exists());
        assert_eq!(walk(STRICT).open(b"down/new", make, Mode::RUSR).expect_err("refused"), Errno::LOOP);
        assert_eq!(walk(STRICT).open(b"out", make, Mode::RUSR).expect_err("refused"), Errno::EXIST);
        let slash = openat(CWD, "/", OFlags::PATH, Mode::empty()).expect("opened");
        let into = |resolve| {
            Walk::new(slash.as_fd(), resolve).open(
                b"proc/self",
                OFlags::PATH | OFlags::NOFOLLOW,
                Mode::empty(),
            )
        };
        into(STRICT).expect("opened");
        assert_eq!(into(STRICT | ResolveFlags::NO_XDEV).expect_err("refused"), Errno::XDEV);
    }
}
