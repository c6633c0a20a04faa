//! What tells a file or directory of this host from every other, by whatever path, link or mount it is reached.

use std::os::fd::{AsFd, AsRawFd};
use std::sync::OnceLock;

use rustix::fs::{AtFlags, Mode, OFlags, Stat, fstat, openat, readlink, statat};
use rustix::io::Errno;

use super::clock;

/// A hash of what the kernel calls it by, and of this run of this host: it tells others nothing but whether two are one.
pub type FileIdentity = [u8; 16];

/// What `stat` belongs to.
pub fn identity(stat: &Stat) -> FileIdentity {
    hash(&[&stat.st_dev.to_le_bytes(), &stat.st_ino.to_le_bytes(), boot()].concat())
}

/// What `words` are on this run of this host, and nowhere else.
pub(super) fn hash_here(words: &[u8]) -> FileIdentity {
    hash(&[words, boot()].concat())
}

/// Tells this run of this host from all others.
pub(crate) fn this_host() -> FileIdentity {
    hash_here(b"host")
}

/// What tells this version of a file from others: its number in its file system, its size and its times. Hosts give one file
/// system different device numbers, and are to agree on its files.
pub fn fingerprint(stat: &Stat) -> FileIdentity {
    let numbers = [
        stat.st_ino,
        stat.st_size as u64,
        stat.st_mtime as u64,
        stat.st_mtime_nsec,
        stat.st_ctime as u64,
        stat.st_ctime_nsec,
    ];
    hash(numbers.map(u64::to_le_bytes).as_flattened())
}

/// The directory `dir` and all that contain it, as far as they may be looked at; innermost first.
pub fn with_ancestors(dir: &impl AsFd) -> Vec<FileIdentity> {
    let mut found = Vec::new();
    let mut next = openat(dir, ".", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    while let Ok(dir) = next {
        let (Ok(stat), Ok(above)) = (fstat(&dir), statat(&dir, "..", AtFlags::empty())) else { break };
        found.push(identity(&stat));
        if identity(&above) == identity(&stat) {
            break;
        }
        next = openat(&dir, "..", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    }
    found
}

/// The absolute path of what is open as `fd`, as the kernel knows it.
pub(crate) fn path_of(fd: &impl AsFd) -> Result<Vec<u8>, Errno> {
    let link = format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd());
    Ok(readlink(link, Vec::new())?.into_bytes())
}

fn hash(words: &[u8]) -> FileIdentity {
    *blake3::hash(words).as_bytes().first_chunk().expect("sixteen bytes")
}

/// Names this run of this host; where the kernel does not, this process, which then knows only its own.
fn boot() -> &'static [u8] {
    static BOOT: OnceLock<Vec<u8>> = OnceLock::new();
    BOOT.get_or_init(|| {
        let ours = || format!("{} {:?}", std::process::id(), clock::wall()).into_bytes();
        std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_else(|_| ours())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_itself_by_any_path_and_lies_in_all_above_it() {
        let outer = tempfile::tempdir().expect("a directory");
        std::fs::create_dir_all(outer.path().join("a/b")).expect("made");
        std::os::unix::fs::symlink("a/b", outer.path().join("link")).expect("linked");
        let of = |name: &str| with_ancestors(&std::fs::File::open(outer.path().join(name)).expect("opened"));
        let (a, b) = (of("a"), of("a/b"));
        assert_eq!((b[0], &b[1..]), (of("link")[0], &a[..]));
        assert_eq!(b.last(), Some(&identity(&rustix::fs::stat("/").expect("there"))));
    }
}
