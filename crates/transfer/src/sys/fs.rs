//! Files. What changes content, makes it durable or gives it a name is ours, so that a test's disk can fail, or lose at a
//! crash what was not synced; the rest is the kernel's as it is. Paths are resolved, and names made, changed and removed, in
//! [`confined`](super::confined).

pub use rustix::fs::{
    Dir, DirEntry, FallocateFlags, FileType, Mode, OFlags, SeekFrom, Stat, Timespec, Timestamps, UTIME_NOW,
    UTIME_OMIT, fchmod, fstat, futimens, ioctl_getflags, seek,
};

pub(crate) use std::fs::File;

use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rustix::fs::{AtFlags, RenameFlags, renameat_with, statat, unlinkat};
use rustix::io::{Errno, pread};
use rustix::ioctl::{Opcode, Setter, ioctl, opcode};
use rustix::path::Arg;

#[cfg(test)]
pub(crate) mod faulty;

/// Writes all of `data` at `offset`.
///
/// # Errors
///
/// `ENOSPC` also where the device takes nothing and says nothing.
#[inline]
pub(crate) fn write_at(file: impl AsFd, data: &[u8], offset: u64) -> Result<(), Errno> {
    let mut done = 0;
    while done < data.len() {
        match write_some(&file, &data[done..], offset + done as u64) {
            Ok(0) => return Err(Errno::NOSPC),
            Ok(n) => done += n,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[inline]
fn write_some(file: &impl AsFd, data: &[u8], offset: u64) -> Result<usize, Errno> {
    #[cfg(test)]
    let data = faulty::before_write(file.as_fd(), data)?;
    rustix::io::pwrite(file, data, offset)
}

/// Fills `buffer` from `offset` on; answers with how much there was.
#[inline]
pub(crate) fn read_at(file: impl AsFd, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
    let mut filled = 0;
    while filled < buffer.len() {
        match pread(&file, &mut buffer[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Makes `file` so long.
#[inline]
pub(crate) fn ftruncate(file: impl AsFd, length: u64) -> Result<(), Errno> {
    #[cfg(test)]
    faulty::before_change(file.as_fd());
    rustix::fs::ftruncate(file, length)
}

/// Allocates a range of `file`, or makes it a hole.
#[inline]
pub(crate) fn fallocate(
    file: impl AsFd,
    mode: FallocateFlags,
    offset: u64,
    length: u64,
) -> Result<(), Errno> {
    #[cfg(test)]
    faulty::before_change(file.as_fd());
    rustix::fs::fallocate(file, mode, offset, length)
}

/// What `FICLONERANGE` is told.
#[repr(C)]
struct CloneRange {
    file: i64,
    offset: u64,
    length: u64,
    to: u64,
}

/// Has `range` of `to` share its blocks with the same range of `file`, where the file system can.
#[allow(unsafe_code)]
pub(crate) fn clone_range(to: impl AsFd, file: BorrowedFd<'_>, range: Range<u64>) -> Result<(), Errno> {
    #[cfg(test)]
    faulty::before_change(to.as_fd());
    const CLONE_RANGE: Opcode = opcode::write::<CloneRange>(0x94, 13);
    let length = range.end.saturating_sub(range.start);
    // None would mean all there is.
    if length == 0 {
        return Ok(());
    }
    let clone = CloneRange { file: file.as_raw_fd().into(), offset: range.start, length, to: range.start };
    // SAFETY: the kernel reads one structure of this form, and keeps nothing of it.
    unsafe { ioctl(to, Setter::<CLONE_RANGE, CloneRange>::new(clone)) }
}

/// Makes content and everything about `file` durable.
#[inline]
pub(crate) fn fsync(file: impl AsFd) -> Result<(), Errno> {
    sync(file.as_fd(), rustix::fs::fsync)
}

/// Makes the content of `file` durable.
#[inline]
pub(crate) fn fdatasync(file: impl AsFd) -> Result<(), Errno> {
    sync(file.as_fd(), rustix::fs::fdatasync)
}

#[inline]
fn sync<'f>(file: BorrowedFd<'f>, how: fn(BorrowedFd<'f>) -> Result<(), Errno>) -> Result<(), Errno> {
    #[cfg(test)]
    if faulty::synced(file)? {
        return Ok(());
    }
    how(file)
}

/// Gives `new_name` in `new_dir` to what is called `old_name` in `old_dir`.
#[inline]
pub(super) fn renameat(
    old_dir: impl AsFd,
    old_name: impl Arg,
    new_dir: impl AsFd,
    new_name: impl Arg,
) -> Result<(), Errno> {
    #[cfg(test)]
    faulty::before_rename(new_name.as_str().unwrap_or_default())?;
    #[cfg(test)]
    faulty::named(new_dir.as_fd(), new_name.as_str().unwrap_or_default());
    rustix::fs::renameat(old_dir, old_name, new_dir, new_name)
}

/// Makes the directory `name` in `dir`.
#[inline]
pub(super) fn mkdirat(dir: impl AsFd, name: impl Arg, mode: Mode) -> Result<(), Errno> {
    #[cfg(test)]
    let told = name.as_str().unwrap_or_default().to_owned();
    rustix::fs::mkdirat(&dir, name, mode)?;
    #[cfg(test)]
    faulty::named(dir.as_fd(), &told);
    Ok(())
}

/// Gives `new_name` in `new_dir`, too, to what is called `old_name` in `old_dir`.
#[inline]
pub(super) fn linkat(
    old_dir: impl AsFd,
    old_name: impl Arg,
    new_dir: impl AsFd,
    new_name: impl Arg,
    flags: AtFlags,
) -> Result<(), Errno> {
    #[cfg(test)]
    faulty::named(new_dir.as_fd(), new_name.as_str().unwrap_or_default());
    rustix::fs::linkat(old_dir, old_name, new_dir, new_name, flags)
}

/// The same, unless something bears the new name: then it fails with `EXIST`.
pub(super) fn rename_new(
    old_dir: impl AsFd,
    old_name: &[u8],
    new_dir: impl AsFd,
    new_name: &[u8],
) -> Result<(), Errno> {
    #[cfg(test)]
    faulty::before_rename(new_name.as_str().unwrap_or_default())?;
    #[cfg(test)]
    faulty::named(new_dir.as_fd(), new_name.as_str().unwrap_or_default());
    match renameat_with(&old_dir, old_name, &new_dir, new_name, RenameFlags::NOREPLACE) {
        // Some file systems, and old kernels, cannot.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            rename_by_link(old_dir, old_name, new_dir, new_name)
        }
        done => done,
    }
}

/// The same where renaming replaces always: a second name is given only if nothing bears it. What can have no second name, as
/// directories, is renamed once nothing was seen there, which somebody else may have made in between.
fn rename_by_link(
    old_dir: impl AsFd,
    old_name: &[u8],
    new_dir: impl AsFd,
    new_name: &[u8],
) -> Result<(), Errno> {
    match linkat(&old_dir, old_name, &new_dir, new_name, AtFlags::empty()) {
        Ok(()) => unlinkat(old_dir, old_name, AtFlags::empty()),
        Err(error @ (Errno::EXIST | Errno::NOENT)) => Err(error),
        Err(_) => match statat(&new_dir, new_name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Err(Errno::EXIST),
            Err(Errno::NOENT) => rustix::fs::renameat(old_dir, old_name, new_dir, new_name),
            Err(error) => Err(error),
        },
    }
}

/// The text in the file that the local user calls `path`.
pub(crate) fn read_to_string(path: &Path) -> std::io::Result<String> {
    std::fs::read_to_string(path)
}

/// Makes `directory` for its owner alone, if it is missing.
pub(super) fn private_directory(directory: &Path) -> std::io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

/// Files made by this process so far where none without a name is to be had.
static SCRATCH: AtomicU64 = AtomicU64::new(0);

/// A file without a name in `directory`, for its owner alone, which is gone once it is closed.
pub fn nameless(directory: &Path) -> std::io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    match rustix::fs::open(directory, flags | OFlags::TMPFILE, Mode::RUSR | Mode::WUSR) {
        Ok(file) => Ok(file.into()),
        // Not all file systems have that.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT | Errno::INVAL) => {
            let name = format!("scratch{}-{}", std::process::id(), SCRATCH.fetch_add(1, Relaxed));
            let path = directory.join(name);
            let file =
                rustix::fs::open(&path, flags | OFlags::CREATE | OFlags::EXCL, Mode::RUSR | Mode::WUSR)?;
            std::fs::remove_file(&path)?;
            Ok(file.into())
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_never_replaced_whatever_the_file_system_can() {
        let directory = tempfile::tempdir().expect("a directory");
        let open = File::open(directory.path()).expect("opened");
        let at = |name: &str| directory.path().join(name);
        type Rename = fn(&File, &[u8], &File, &[u8]) -> Result<(), Errno>;
        let ways: [Rename; 2] = [
            |from, name, to, new| rename_new(from, name, to, new),
            |from, name, to, new| rename_by_link(from, name, to, new),
        ];
        for rename in ways {
            std::fs::write(at("old"), "old").expect("written");
            std::fs::write(at("there"), "there").expect("written");
            std::fs::create_dir(at("directory")).expect("made");
            for taken in [&b"there"[..], b"directory"] {
                for name in [&b"old"[..], b"directory"] {
                    assert_eq!(rename(&open, name, &open, taken), Err(Errno::EXIST));
                }
            }
            assert_eq!(rename(&open, b"none", &open, b"new"), Err(Errno::NOENT));
            rename(&open, b"old", &open, b"new").expect("renamed");
            rename(&open, b"directory", &open, b"moved").expect("renamed");
            assert_eq!(std::fs::read(at("there")).expect("there"), b"there");
            assert_eq!(std::fs::read(at("new")).expect("there"), b"old");
            assert!(at("moved").is_dir() && !at("old").exists() && !at("directory").exists());
            std::fs::remove_file(at("new")).expect("removed");
            std::fs::remove_dir(at("moved")).expect("removed");
        }
    }

    #[test]
    fn a_nameless_file_keeps_what_is_written_and_leaves_no_name() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = nameless(directory.path()).expect("made");
        write_at(&file, b"content", 3).expect("written");
        let mut buffer = [9; 10];
        assert_eq!(read_at(&file, &mut buffer, 0), Ok(10));
        assert_eq!(&buffer, b"\0\0\0content");
        assert_eq!(directory.path().read_dir().expect("read").count(), 0);
        nameless(&directory.path().join("none")).expect_err("no directory");
    }
}
