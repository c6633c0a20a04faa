//! Files of a local file system as a source.

use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, SeekFrom, Stat, fstat, readlinkat, seek, statat};
use rustix::io::{Errno, pread};

use crate::error::{Error, ErrorKind, Result};
use crate::manifest::{Entry, Fingerprint, Kind, Timestamp};
use crate::path::{RelPath, WORK_DIR, join};
use crate::store::{Found, Listed, Piece, RangeReader, Source};
use crate::sys::confined::{self, Root};
use crate::wire::message::Links;

/// Deepest directory nesting walked into.
const MAX_DEPTH: usize = 1000;

/// Trees and files of the local file system.
#[derive(Debug)]
pub struct FileSource {
    roots: Vec<Tree>,
    links: Links,
}

/// One argument: a directory's contents under a prefix, or one file.
#[derive(Debug)]
struct Tree {
    base: Root,
    /// What entries' paths begin with at the destination; empty for `dir/`.
    prefix: Vec<u8>,
    /// The one file's name beneath `base`; `None` for a directory.
    file: Option<Vec<u8>>,
}

impl FileSource {
    /// Opens what the local user named; a trailing slash on a directory means its contents.
    pub fn local(paths: &[Vec<u8>], links: Links) -> Result<Self> {
        let open = |path: &Vec<u8>| {
            let failed = |error| Error::io("read", path, error);
            let (trimmed, contents) = trim(path);
            let stat = confined::stat_trusted(trimmed).map_err(failed)?;
            // Symlinks, `.` and `..` in what the user typed are resolved here, once.
            let real = confined::canonical(trimmed).map_err(failed)?;
            let (parent, name) = match real.iter().rposition(|&b| b == b'/') {
                Some(0) => (&b"/"[..], &real[1..]),
                Some(slash) => (&real[..slash], &real[slash + 1..]),
                None => (&b"."[..], &real[..]),
            };
            if FileType::from_raw_mode(stat.st_mode).is_dir() {
                let prefix = if contents || is_dots(trimmed) { Vec::new() } else { last_name(trimmed, name) };
                return Ok(Tree { base: Root::open(&real).map_err(failed)?, prefix, file: None });
            }
            let base = Root::open(parent).map_err(failed)?;
            Ok(Tree { base, prefix: last_name(trimmed, name), file: Some(name.to_vec()) })
        };
        Self::new(paths.iter().map(open).collect::<Result<_>>()?, links)
    }

    /// Opens paths beneath `root`, as a peer named them.
    pub fn beneath(root: &Root, paths: &[Vec<u8>], links: Links) -> Result<Self> {
        let open = |path: &Vec<u8>| {
            let failed = |error| Error::io("read", path, error);
            let (trimmed, contents) = trim(path);
            if trimmed.is_empty() {
                return Ok(Tree { base: root.dir(b"").map_err(failed)?, prefix: Vec::new(), file: None });
            }
            let checked = RelPath::new(trimmed)?;
            let (parent, name) = checked.split();
            let parent = root.dir(parent).map_err(failed)?;
            let stat = parent.stat(name).map_err(failed)?;
            if FileType::from_raw_mode(stat.st_mode).is_dir() {
                let prefix = if contents { Vec::new() } else { name.to_vec() };
                return Ok(Tree { base: parent.dir(name).map_err(failed)?, prefix, file: None });
            }
            Ok(Tree { base: parent, prefix: name.to_vec(), file: Some(name.to_vec()) })
        };
        Self::new(paths.iter().map(open).collect::<Result<_>>()?, links)
    }

    fn new(roots: Vec<Tree>, links: Links) -> Result<Self> {
        let one_name = |tree: &Tree| tree.file.is_some() || !tree.prefix.is_empty();
        for (i, tree) in roots.iter().enumerate() {
            if one_name(tree) && roots[..i].iter().any(|other| one_name(other) && other.prefix == tree.prefix)
            {
                let name = crate::text::show(&tree.prefix).into_owned();
                return Err(Error::new(
                    ErrorKind::Usage,
                    format!("two sources would both become '{name}' at the destination: copy them apart"),
                ));
            }
        }
        if u16::try_from(roots.len()).is_err() {
            return Err(Error::new(ErrorKind::Usage, "more than 65535 sources in one command"));
        }
        Ok(Self { roots, links })
    }

    /// Whether the source is one single file, which a destination may give a new name.
    pub fn is_single_file(&self) -> bool {
        matches!(self.roots.as_slice(), [tree] if tree.file.is_some())
    }

    fn walk(&self, tree: &Tree, root: u16, found: &mut dyn FnMut(Found) -> bool) -> Result<bool> {
        // Each level: the directory, its path beneath the base, and the names still to visit.
        let failed = |path: &[u8], error| Error::io("list", path, error);
        let top = tree.base.dir(b"").map_err(|error| failed(&tree.prefix, error))?;
        let stat = fstat(&top).map_err(|error| failed(&tree.prefix, error))?;
        if !tree.prefix.is_empty() {
            let entry = Entry {
                path: RelPath::new(tree.prefix.clone())?,
                kind: Kind::Directory,
                mode: permissions(&stat),
                mtime: mtime(&stat),
            };
            if !found(Found::Entry(Listed { entry, root })) {
                return Ok(false);
            }
        }
        let mut levels = vec![Level::open(top, Vec::new(), &stat).map_err(|e| failed(&tree.prefix, e))?];
        while let Some(level) = levels.last_mut() {
            let Some(name) = level.names.pop() else {
                levels.pop();
                continue;
            };
            let inner =
                if level.path.is_empty() { name.clone() } else { [&level.path[..], b"/", &name].concat() };
            // What an unfinished transfer into this directory left is no content of it.
            if inner == WORK_DIR {
                continue;
            }
            let path = match join(&tree.prefix, &inner) {
                Ok(path) => path,
                Err(error) => {
                    if !found(Found::Problem(inner, error)) {
                        return Ok(false);
                    }
                    continue;
                }
            };
            let entry = match self.entry(tree, level, &name, &inner, path) {
                Ok(Some((entry, stat))) => {
                    if entry.kind == Kind::Directory {
                        match enter(&levels, tree, &inner, &stat, self.links) {
                            Ok(Some(level)) => levels.push(level),
                            Ok(None) => {
                                let note = "a link back to a directory above it";
                                if !found(Found::Note(inner, note)) {
                                    return Ok(false);
                                }
                                continue;
                            }
                            Err(error) => {
                                if !found(Found::Problem(inner, error)) {
                                    return Ok(false);
                                }
                            }
                        }
                    }
                    Found::Entry(Listed { entry, root })
                }
                Ok(None) => Found::Note(inner, "neither a file, a directory nor a link"),
                Err(error) if error.kind == ErrorKind::Usage => continue,
                Err(error) => Found::Problem(inner, error),
            };
            if !found(entry) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// What `name` is; `None` for something that is not copied.
    fn entry(
        &self,
        tree: &Tree,
        level: &Level,
        name: &[u8],
        inner: &[u8],
        path: RelPath,
    ) -> Result<Option<(Entry, Stat)>> {
        let failed = |error| Error::io("read", inner, error);
        let mut stat = statat(&level.dir, name, AtFlags::SYMLINK_NOFOLLOW).map_err(failed)?;
        let mut kind = FileType::from_raw_mode(stat.st_mode);
        if kind.is_symlink() {
            match self.links {
                Links::Keep => {
                    let target = readlinkat(&level.dir, name, Vec::new()).map_err(failed)?.into_bytes();
                    let kind = Kind::Symlink { target };
                    let mode = permissions(&stat);
                    return Ok(Some((Entry { path, kind, mode, mtime: mtime(&stat) }, stat)));
                }
                // Left out without a word, as asked; the kind is not reported.
                Links::Skip => return Err(Error::new(ErrorKind::Usage, "skipped")),
                Links::Follow => {
                    let target =
                        tree.base.open_following(inner, OFlags::PATH).map_err(|error| match error {
                            Errno::XDEV => Error::new(
                                ErrorKind::UnsafeName,
                                format!(
                                    "{} points out of the source tree: not followed",
                                    crate::text::show(inner)
                                ),
                            ),
                            error => failed(error),
                        })?;
                    stat = fstat(&target).map_err(failed)?;
                    kind = FileType::from_raw_mode(stat.st_mode);
                }
            }
        }
        let kind = if kind.is_dir() {
            Kind::Directory
        } else if kind.is_file() {
            Kind::File { size: stat.st_size as u64, fingerprint: fingerprint(&stat) }
        } else {
            return Ok(None);
        };
        Ok(Some((Entry { path, kind, mode: permissions(&stat), mtime: mtime(&stat) }, stat)))
    }

    fn open_file(&self, file: &Listed) -> Result<OwnedFd> {
        let tree = &self.roots[usize::from(file.root)];
        let path = file.entry.path.as_bytes();
        let inner = match &tree.file {
            Some(name) => name,
            None if tree.prefix.is_empty() => path,
            None => &path[tree.prefix.len() + 1..],
        };
        let flags = OFlags::RDONLY | OFlags::NONBLOCK;
        let opened = match self.links {
            Links::Follow => tree.base.open_following(inner, flags),
            _ => tree.base.open_beneath(inner, flags, Mode::empty()),
        };
        opened.map_err(|error| match error {
            Errno::NOENT => changed(path, "it vanished"),
            Errno::LOOP => changed(path, "it became a link"),
            error => Error::io("open", path, error),
        })
    }
}

impl Source for FileSource {
    fn list(&self, found: &mut dyn FnMut(Found) -> bool) -> Result<()> {
        for (index, tree) in self.roots.iter().enumerate() {
            let root = index as u16;
            let Some(name) = &tree.file else {
                if !self.walk(tree, root, found)? {
                    return Ok(());
                }
                continue;
            };
            let level = Level {
                dir: tree.base.dir(b"").map_err(|e| Error::io("list", name, e))?,
                path: Vec::new(),
                names: Vec::new(),
                id: (0, 0),
            };
            let path = RelPath::new(tree.prefix.clone())?;
            let next = match self.entry(tree, &level, name, name, path) {
                Ok(Some((entry, _))) => Found::Entry(Listed { entry, root }),
                Ok(None) => Found::Problem(
                    name.clone(),
                    Error::new(
                        ErrorKind::Usage,
                        format!("{} is not a regular file", crate::text::show(name)),
                    ),
                ),
                Err(error) => Found::Problem(name.clone(), error),
            };
            if !found(next) {
                return Ok(());
            }
        }
        Ok(())
    }

    fn open(&self, file: &Listed, range: Range<u64>) -> Result<Box<dyn RangeReader>> {
        let Kind::File { size, fingerprint } = file.entry.kind else {
            return Err(Error::protocol("only files are read"));
        };
        let path = file.entry.path.as_bytes().to_vec();
        let fd = self.open_file(file)?;
        let stat = fstat(&fd).map_err(|error| Error::io("read", &path, error))?;
        let reader = FileReader {
            fd: Arc::new(fd),
            path,
            fingerprint,
            sparse: (stat.st_blocks as u64) * 512 < size,
            hole: 0..0,
            data_end: range.start,
        };
        reader.check(&stat)?;
        Ok(Box::new(reader))
    }
}

/// One directory on the way down.
#[derive(Debug)]
struct Level {
    dir: Root,
    path: Vec<u8>,
    names: Vec<Vec<u8>>,
    id: (u64, u64),
}

impl Level {
    /// Reads the names in `dir`, sorted so that every run lists in the same order.
    fn open(dir: Root, path: Vec<u8>, stat: &Stat) -> Result<Self, Errno> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&dir)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if !is_dots(name) {
                names.push(name.to_vec());
            }
        }
        names.sort_unstable_by(|a, b| b.cmp(a));
        Ok(Self { dir, path, names, id: (stat.st_dev, stat.st_ino) })
    }
}

/// Opens the directory `inner`; `None` if a followed link leads back to where we are.
fn enter(levels: &[Level], tree: &Tree, inner: &[u8], stat: &Stat, links: Links) -> Result<Option<Level>> {
    if levels.len() >= MAX_DEPTH {
        return Err(Error::new(ErrorKind::Io, format!("{} is nested too deeply", crate::text::show(inner))));
    }
    if links == Links::Follow && levels.iter().any(|level| level.id == (stat.st_dev, stat.st_ino)) {
        return Ok(None);
    }
    let failed = |error| Error::io("list", inner, error);
    let dir = match links {
        Links::Follow => {
            let fd = tree.base.open_following(inner, OFlags::RDONLY | OFlags::DIRECTORY).map_err(failed)?;
            Root::from(fd)
        }
        _ => tree.base.dir(inner).map_err(failed)?,
    };
    Level::open(dir, inner.to_vec(), stat).map(Some).map_err(failed)
}

/// An open file, known to be one version.
struct FileReader {
    fd: Arc<OwnedFd>,
    path: Vec<u8>,
    fingerprint: Fingerprint,
    sparse: bool,
    hole: Range<u64>,
    data_end: u64,
}

impl FileReader {
    fn check(&self, stat: &Stat) -> Result<()> {
        if fingerprint(stat) == self.fingerprint {
            return Ok(());
        }
        Err(changed(&self.path, "it was written to while it was being sent"))
    }

    /// Whether all of `range` is a hole.
    fn in_hole(&mut self, range: &Range<u64>) -> bool {
        if !self.sparse {
            return false;
        }
        if range.end > self.hole.end && range.start >= self.data_end {
            // The next data at or after the range, and where it ends; no more data is one long hole.
            let data = match seek(&self.fd, SeekFrom::Data(range.start)) {
                Ok(data) => data,
                Err(Errno::NXIO) => u64::MAX,
                Err(_) => {
                    self.sparse = false;
                    return false;
                }
            };
            self.hole = range.start..data;
            self.data_end = match seek(&self.fd, SeekFrom::Hole(data.min(i64::MAX as u64))) {
                Ok(end) if data < u64::MAX => end,
                _ => data,
            };
        }
        self.hole.start <= range.start && range.end <= self.hole.end
    }
}

impl RangeReader for FileReader {
    fn sendable(&self) -> Option<&Arc<OwnedFd>> {
        Some(&self.fd)
    }

    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<Piece> {
        let piece = if self.in_hole(&(offset..offset + buffer.len() as u64)) {
            Piece::Zero
        } else {
            let mut filled = 0;
            while filled < buffer.len() {
                match pread(&self.fd, &mut buffer[filled..], offset + filled as u64) {
                    Ok(0) => return Err(changed(&self.path, "it became shorter")),
                    Ok(n) => filled += n,
                    Err(Errno::INTR) => {}
                    Err(error) => return Err(Error::io("read", &self.path, error)),
                }
            }
            Piece::Data
        };
        // After the read: what was read belongs to the version that was listed.
        self.check(&fstat(&self.fd).map_err(|error| Error::io("read", &self.path, error))?)?;
        Ok(piece)
    }
}

fn changed(path: &[u8], how: &str) -> Error {
    Error::new(
        ErrorKind::Changed,
        format!("{} was not copied: {how}; copy it again once it rests", crate::text::show(path)),
    )
}

/// The path without trailing slashes, and whether it had one.
fn trim(path: &[u8]) -> (&[u8], bool) {
    let end = path.iter().rposition(|&b| b != b'/').map_or(0, |last| last + 1);
    if end == 0 && path.first() == Some(&b'/') {
        (&path[..1], true)
    } else {
        (&path[..end], end < path.len())
    }
}

fn is_dots(name: &[u8]) -> bool {
    name == b"." || name == b".."
}

/// The name the user typed, or the real one where what was typed ends in dots.
fn last_name(typed: &[u8], real: &[u8]) -> Vec<u8> {
    let name = typed.rsplit(|&b| b == b'/').next().unwrap_or(typed);
    if is_dots(name) || name.is_empty() { real.to_vec() } else { name.to_vec() }
}

fn permissions(stat: &Stat) -> u32 {
    stat.st_mode & 0o777
}

fn mtime(stat: &Stat) -> Timestamp {
    Timestamp { seconds: stat.st_mtime, nanoseconds: stat.st_mtime_nsec as u32 }
}

fn fingerprint(stat: &Stat) -> Fingerprint {
    let mut hasher = blake3::Hasher::new();
    for number in [
        stat.st_dev,
        stat.st_ino,
        stat.st_size as u64,
        stat.st_mtime as u64,
        stat.st_mtime_nsec,
        stat.st_ctime as u64,
        stat.st_ctime_nsec,
    ] {
        hasher.update(&number.to_le_bytes());
    }
    hasher.finalize().as_bytes()[..16].try_into().expect("sixteen bytes")
}
