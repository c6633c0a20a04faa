//! Where a directory lies: what contains it in its file system, and what contains the places where that is mounted.
//!
//! A directory is known by its number, by whatever path it is reached, and by its path *in its file system*, as the table
//! of mounts has it: where only a part of a file system is mounted, nothing leads up to what contains that part.

use std::collections::HashSet;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::{Mode, OFlags, ResolveFlags, fstat, fstatfs, openat};
use rustix::io::Errno;

use super::identity::{FileIdentity, fingerprint, hash_here, identity, path_of};
use super::resolve;

/// What file systems are called, as the kernel numbers them, that no two hosts have at a time. Copies of a whole disk have
/// the same directories, and are not taken for one file system.
const OF_ONE_HOST: [u32; 10] = [
    0xef53,      // ext2, ext3, ext4
    0x5846_5342, // XFS
    0x9123_683e, // Btrfs
    0x2fc1_2fc1, // ZFS
    0xca45_1a4e, // bcachefs
    0xf2f5_2010, // F2FS
    0x0102_1994, // tmpfs
    0x8584_58f6, // ramfs
    0x794c_7630, // overlayfs
    0x4d44,      // FAT
];

/// Deepest directory that is looked up from.
const MAX_LEVELS: usize = 4096;

/// What directories are known by.
#[derive(Clone, Debug, Default)]
pub(crate) struct Identities {
    /// On this host.
    pub here: Vec<FileIdentity>,
    /// On every host that has the file system, as long as nothing in the directory gets or loses a name.
    pub anywhere: Vec<FileIdentity>,
}

/// Where a directory lies.
#[derive(Clone, Debug, Default)]
pub(crate) struct Whereabouts {
    /// The directory.
    pub itself: Identities,
    /// What contains it in its file system: whoever goes down from there reaches it without crossing a mount.
    pub above: Identities,
    /// What contains the places where that is mounted.
    pub beyond: Identities,
}

impl Whereabouts {
    /// Looks from `dir`, as far up as may be looked.
    pub fn of(dir: &impl AsFd) -> Self {
        Mounts::read().whereabouts(dir)
    }
}

/// What is mounted, as this process sees it.
#[derive(Debug, Default)]
pub(crate) struct Mounts(Vec<Mount>);

#[derive(Debug)]
struct Mount {
    id: u64,
    device: Vec<u8>,
    /// Which directory of the file system is mounted.
    root: Vec<u8>,
    /// Where.
    point: Vec<u8>,
}

impl Mounts {
    /// The table as it is now; empty where there is none.
    pub fn read() -> Self {
        let text = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
        Self(text.split(|&byte| byte == b'\n').filter_map(Mount::parse).collect())
    }

    /// Where `dir` lies.
    pub(crate) fn whereabouts(&self, dir: &impl AsFd) -> Whereabouts {
        let mut found = Whereabouts::default();
        let mut next = openat(dir, ".", PATH, Mode::empty());
        let (mut first, mut inside) = (true, true);
        // Of the directory that a mount was entered at from below, its paths in the file system.
        let mut entered: Option<Vec<FileIdentity>> = None;
        for _ in 0..MAX_LEVELS {
            let Ok(dir) = next else { break };
            let Ok(stat) = fstat(&dir) else { break };
            let paths = entered.get_or_insert_with(|| self.paths_of(&dir));
            let level = match (first, inside) {
                (true, _) => &mut found.itself,
                (false, true) => &mut found.above,
                (false, false) => &mut found.beyond,
            };
            level.here.push(identity(&stat));
            level.anywhere.extend(is_shared(&dir).then(|| fingerprint(&stat)));
            if first && !paths.is_empty() {
                level.here.push(paths.remove(0));
            }
            first = false;
            let leaves = match containing(&dir) {
                // The top of all is its own parent.
                Ok(up) if fstat(&up).is_ok_and(|up| identity(&up) == identity(&stat)) => None,
                // A file system may have parts with numbers of their own.
                Ok(up) if fstat(&up).is_ok_and(|up| up.st_dev == stat.st_dev) => {
                    next = Ok(up);
                    continue;
                }
                Ok(up) => {
                    inside = false;
                    next = Ok(up);
                    continue;
                }
                Err(Errno::XDEV) => Some(openat(&dir, "..", PATH, Mode::empty())),
                Err(_) => None,
            };
            let level = if inside { &mut found.above } else { &mut found.beyond };
            level.here.extend(entered.take().unwrap_or_default());
            inside = false;
            match leaves {
                Some(up) => next = up,
                None => break,
            }
        }
        found
    }

    /// What is mounted beneath the absolute path `top`, by its path in its file system.
    pub fn beneath(&self, top: &[u8]) -> Vec<Whereabouts> {
        let of_mount = |mount: &Mount| {
            let mut paths = mount.paths(&mount.root);
            let mut found = Whereabouts::default();
            found.itself.here.push(paths.remove(0));
            found.above.here = paths;
            found
        };
        self.0.iter().filter(|mount| mount.below(top).is_some()).map(of_mount).collect()
    }

    /// Where something is mounted beneath the absolute path `top`, as paths from there.
    pub fn points(&self, top: &[u8]) -> HashSet<Vec<u8>> {
        self.0.iter().filter_map(|mount| mount.below(top).map(<[u8]>::to_vec)).collect()
    }

    /// The mount through which `dir` was opened.
    fn of(&self, dir: &impl AsFd) -> Option<&Mount> {
        let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", dir.as_fd().as_raw_fd())).ok()?;
        let id: u64 = text.lines().find_map(|line| line.strip_prefix("mnt_id:"))?.trim().parse().ok()?;
        self.0.iter().find(|mount| mount.id == id)
    }

    /// What `dir` is known by through its path in its file system, and behind it what contains it there.
    fn paths_of(&self, dir: &OwnedFd) -> Vec<FileIdentity> {
        let found = self.of(dir).zip(path_of(dir).ok());
        let paths = found.and_then(|(mount, path)| Some(mount.paths(&mount.inner(&path)?)));
        paths.unwrap_or_default()
    }
}

impl Mount {
    /// `36 35 98:0 /root /point …`, where spaces and the like in paths are written in octal.
    fn parse(line: &[u8]) -> Option<Self> {
        let mut words = line.split(|&byte| byte == b' ');
        let id = std::str::from_utf8(words.next()?).ok()?.parse().ok()?;
        let _parent = words.next()?;
        let device = words.next()?.to_vec();
        let (root, point) = (unescaped(words.next()?), unescaped(words.next()?));
        Some(Self { id, device, root, point })
    }

    /// Where it is mounted, as a path from `top`, if that contains it.
    fn below(&self, top: &[u8]) -> Option<&[u8]> {
        let top = if top == b"/" { b"" } else { top };
        let rest = self.point.strip_prefix(top)?.strip_prefix(b"/")?;
        (!rest.is_empty()).then_some(rest)
    }

    /// The path in the file system of what is called `path` by way of this mount.
    fn inner(&self, path: &[u8]) -> Option<Vec<u8>> {
        let point = if self.point == b"/" { &b""[..] } else { &self.point };
        let rest = path.strip_prefix(point).filter(|rest| rest.is_empty() || rest[0] == b'/')?;
        let root = if self.root == b"/" { &b""[..] } else { &self.root };
        let rest = if rest == b"/" { b"" } else { rest };
        Some([root, rest].concat())
    }

    /// What the directory at `path` of the file system is known by, and behind it each that contains it.
    fn paths(&self, path: &[u8]) -> Vec<FileIdentity> {
        let path = path.strip_suffix(b"/").unwrap_or(path);
        let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        let mut ends: Vec<usize> = slashes.chain([path.len()]).collect();
        ends.dedup();
        let hash = |&end: &usize| hash_here(&[b"path ", &self.device[..], b" ", &path[..end]].concat());
        ends.iter().rev().map(hash).collect()
    }
}

const PATH: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// What contains `dir` in its mount.
pub(super) fn containing(dir: &OwnedFd) -> Result<OwnedFd, Errno> {
    resolve::open(dir, b"..", PATH, Mode::empty(), ResolveFlags::NO_XDEV)
}

/// Whether other hosts may have the file system of `dir`, too.
fn is_shared(dir: &OwnedFd) -> bool {
    fstatfs(dir).is_ok_and(|found| !OF_ONE_HOST.contains(&(found.f_type as u32)))
}

fn unescaped(word: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((&byte, behind)) = rest.split_first() {
        let digits = behind.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()).filter(|_| byte == b'\\') {
            Some(escaped) => {
                plain.push(escaped);
                rest = &behind[3..];
            }
            None => {
                plain.push(byte);
                rest = behind;
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(root: &str, point: &str) -> Mount {
        Mount { id: 1, device: b"8:1".to_vec(), root: root.into(), point: point.into() }
    }

    #[test]
    fn a_mount_is_read_off_its_line() {
        let line = b"36 35 98:0 /mnt\\0401 /mnt\\1342 rw,noatime master:1 - ext3 /dev/root rw";
        let found = Mount::parse(line).expect("a line");
        assert_eq!((found.id, &found.device[..]), (36, &b"98:0"[..]));
        assert_eq!((&found.root[..], &found.point[..]), (&b"/mnt 1"[..], &b"/mnt\\2"[..]));
        assert!(Mount::parse(b"36 35 98:0 /").is_none() && Mount::parse(b"x y z / /").is_none());
    }

    #[test]
    fn paths_in_a_file_system_are_those_of_every_mount_of_it() {
        let (whole, part) = (mount("/", "/"), mount("/data/x", "/m"));
        assert_eq!(whole.inner(b"/data/x/y").as_deref(), Some(&b"/data/x/y"[..]));
        assert_eq!(part.inner(b"/m/y").as_deref(), Some(&b"/data/x/y"[..]));
        assert_eq!((part.inner(b"/mx"), part.inner(b"/m")), (None, Some(b"/data/x".to_vec())));
        let (inner, outer) = (whole.paths(b"/data/x/y"), part.paths(b"/data"));
        assert_eq!((inner.len(), outer.len()), (4, 2));
        assert_eq!((inner[2..].to_vec(), whole.paths(b"")), (outer.clone(), vec![outer[1]]));
        assert_eq!(whole.paths(b"/"), whole.paths(b""));
    }

    #[test]
    fn a_directory_lies_in_all_above_it() {
        let outer = tempfile::tempdir().expect("a directory");
        std::fs::create_dir_all(outer.path().join("a/b/c")).expect("made");
        let of = |name: &str| Whereabouts::of(&std::fs::File::open(outer.path().join(name)).expect("opened"));
        let (a, c) = (of("a"), of("a/b/c"));
        assert_eq!(a.itself.here.len(), 2, "by its number and by its path");
        assert!(a.itself.here.iter().all(|identity| c.above.here.contains(identity)));
        assert!(!c.itself.here.iter().any(|identity| a.above.here.contains(identity)));
        let top = identity(&rustix::fs::stat("/").expect("there"));
        assert!(c.above.here.contains(&top) || c.beyond.here.contains(&top));
    }
}
