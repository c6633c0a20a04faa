//! Files of a local file system as a source.

use std::collections::HashMap;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::io::Errno;

use crate::error::{Error, ErrorKind, Result};
use crate::manifest::{Entry, Kind, Timestamp};
use crate::path::{RelPath, is_reserved, join};
use crate::quota::{Held, Quota};
use crate::spec::SourceRoot;
use crate::store::named::Scope;
use crate::store::{Found, Listed, RangeReader, Source};
use crate::sys::confined::Root;
use crate::sys::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, fstat, readlinkat, statat};
use crate::sys::identity::fingerprint;
use crate::terms::Links;
use crate::text::show;

mod reader;
mod tree;

use reader::{FileReader, changed};
use tree::{Tree, is_dots};

/// Deepest directory nesting walked into.
const MAX_DEPTH: usize = 1000;

/// Trees and files of the local file system.
#[derive(Debug)]
pub struct FileSource {
    roots: Vec<Tree>,
    links: Links,
    /// Which of them has a name of its own at the destination, and which put their contents there.
    names: HashMap<Vec<u8>, usize>,
    contents: Vec<usize>,
    _descriptors: Option<Held>,
}

impl FileSource {
    /// Opens what the local user named; a trailing slash on a directory means its contents.
    pub fn local(paths: &[Vec<u8>], links: Links) -> Result<Self> {
        Self::new(paths.iter().map(|path| Tree::local(path)), links, None)
    }

    /// Opens paths as a peer named them, within `scope`. Each takes one of its `descriptors`.
    pub fn beneath(
        scope: &Scope<'_>,
        paths: &[Vec<u8>],
        links: Links,
        descriptors: &Arc<Quota>,
    ) -> Result<Self> {
        let held = descriptors.take(paths.len()).ok_or_else(|| {
            let why = format!(
                "{} paths are more than may be open here for one peer right now: name a directory that holds them",
                paths.len()
            );
            Error::new(ErrorKind::Busy, why)
        })?;
        Self::new(paths.iter().map(|path| Tree::beneath(scope, path)), links, Some(held))
    }

    fn new(
        trees: impl Iterator<Item = Result<Tree>>,
        links: Links,
        descriptors: Option<Held>,
    ) -> Result<Self> {
        let (mut roots, mut names, mut contents) = (Vec::<Tree>::new(), HashMap::new(), HashMap::new());
        for tree in trees {
            let tree = tree?;
            let index = roots.len();
            if index > usize::from(u16::MAX) {
                return Err(Error::new(ErrorKind::Usage, "more than 65536 sources in one command"));
            }
            let earlier = match tree.name() {
                Some(name) => names.insert(name.to_vec(), index),
                None => tree.id().and_then(|id| contents.insert(id, index)),
            };
            if let Some(earlier) = earlier {
                return Err(tree.doubles(&roots[earlier]));
            }
            roots.push(tree);
        }
        let mut contents: Vec<usize> = contents.into_values().collect();
        contents.sort_unstable();
        Ok(Self { roots, links, names, contents, _descriptors: descriptors })
    }

    /// Whether the source is one single file, which a destination may give a new name.
    pub fn is_single_file(&self) -> bool {
        matches!(self.roots.as_slice(), [tree] if tree.file().is_some())
    }

    /// Whether the sources before `root` leave the name of `entry` to it; `false` if it is a directory that one
    /// of them has as well, and an error if both cannot have it. Looked up, so that no list is held.
    fn is_free(&self, root: u16, inner: &[u8], entry: &Entry) -> Result<bool> {
        let root = usize::from(root);
        let tree = &self.roots[root];
        let first = entry.path.as_bytes().split(|&b| b == b'/').next().unwrap_or_default();
        let named = self.names.get(first).copied();
        let others = named.into_iter().chain(self.contents.iter().copied()).filter(|&other| other < root);
        for other in others.map(|other| &self.roots[other]) {
            match other.bears(entry.path.as_bytes(), self.links) {
                None => {}
                Some(kind) if kind.is_dir() && entry.kind == Kind::Directory => return Ok(false),
                Some(_) => return Err(tree.clash(inner, other, &entry.path)),
            }
        }
        Ok(true)
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
            match self.is_free(root, b"", &entry) {
                Ok(true) if !found(Found::Entry(Listed { entry, root })) => return Ok(false),
                Ok(_) => {}
                Err(error) => return Ok(found(Found::Problem(tree.prefix.clone(), error))),
            }
        }
        let mut levels = vec![Level::open(top, Vec::new(), id(&stat)).map_err(|e| failed(&tree.prefix, e))?];
        while let Some(level) = levels.last_mut() {
            let Some(name) = level.names.pop() else {
                levels.pop();
                continue;
            };
            let inner =
                if level.path.is_empty() { name.clone() } else { [&level.path[..], b"/", &name].concat() };
            // What unfinished transfers into this directory left is no content of it.
            if is_reserved(&name) {
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
            let entry = match self.look(tree, level, &name, &inner, path) {
                Ok(Look::At(entry, id)) => {
                    let free = match self.is_free(root, &inner, &entry) {
                        Ok(free) => free,
                        Err(error) => match found(Found::Problem(inner, error)) {
                            true => continue,
                            false => return Ok(false),
                        },
                    };
                    if entry.kind == Kind::Directory {
                        match enter(&levels, tree, &inner, id, self.links) {
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
                    if !free {
                        continue;
                    }
                    Found::Entry(Listed { entry, root })
                }
                Ok(Look::Special) => Found::Note(inner, "neither a file, a directory nor a link"),
                Ok(Look::Skipped) => continue,
                Err(error) => Found::Problem(inner, error),
            };
            if !found(entry) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// What `name` is.
    fn look(&self, tree: &Tree, level: &Level, name: &[u8], inner: &[u8], path: RelPath) -> Result<Look> {
        let failed = |error| Error::io("read", inner, error);
        let mut stat = statat(&level.dir, name, AtFlags::SYMLINK_NOFOLLOW).map_err(failed)?;
        let mut kind = FileType::from_raw_mode(stat.st_mode);
        if kind.is_symlink() {
            match tree.links(self.links) {
                Links::Keep => {
                    let target = readlinkat(&level.dir, name, Vec::new()).map_err(failed)?.into_bytes();
                    let kind = Kind::Symlink { target };
                    let mode = permissions(&stat);
                    return Ok(Look::At(Entry { path, kind, mode, mtime: mtime(&stat) }, id(&stat)));
                }
                Links::Skip => return Ok(Look::Skipped),
                Links::Follow => {
                    let target = tree.open_following(inner, OFlags::PATH).map_err(|error| match error {
                        Errno::XDEV => {
                            let why = format!("{} points out of the source tree: not followed", show(inner));
                            Error::new(ErrorKind::UnsafeName, why)
                        }
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
            return Ok(Look::Special);
        };
        Ok(Look::At(Entry { path, kind, mode: permissions(&stat), mtime: mtime(&stat) }, id(&stat)))
    }

    fn open_file(&self, file: &Listed) -> Result<OwnedFd> {
        let tree = &self.roots[usize::from(file.root)];
        let path = file.entry.path.as_bytes();
        let inner = match tree.file() {
            Some(inner) => inner,
            None if tree.prefix.is_empty() => path,
            None => &path[tree.prefix.len() + 1..],
        };
        let flags = OFlags::RDONLY | OFlags::NONBLOCK;
        let opened = match tree.links(self.links) {
            Links::Follow => tree.open_following(inner, flags),
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
    fn roots(&self) -> Vec<SourceRoot> {
        self.roots.iter().filter_map(|tree| tree.root(self.links)).collect()
    }

    fn list(&self, found: &mut dyn FnMut(Found) -> bool) -> Result<()> {
        for (index, tree) in self.roots.iter().enumerate() {
            let root = index as u16;
            let Some(inner) = tree.file() else {
                if !self.walk(tree, root, found)? {
                    return Ok(());
                }
                continue;
            };
            let dir = tree.base.dir(b"").map_err(|error| Error::io("list", inner, error))?;
            let level = Level { dir, path: Vec::new(), names: Vec::new(), id: (0, 0) };
            let path = RelPath::new(tree.prefix.clone())?;
            let free = |entry: Entry| self.is_free(root, b"", &entry).map(|_| entry);
            let next = match self.look(tree, &level, inner, inner, path) {
                Ok(Look::At(entry, _)) => free(entry).map(|entry| Found::Entry(Listed { entry, root })),
                Ok(Look::Special | Look::Skipped) => {
                    Err(Error::new(ErrorKind::Usage, format!("{} is not a regular file", show(inner))))
                }
                Err(error) => Err(error),
            };
            let next = next.unwrap_or_else(|error| Found::Problem(inner.to_vec(), error));
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
        let reader = FileReader::new(fd, path, &stat, (size, fingerprint), range.start)?;
        Ok(Box::new(reader))
    }
}

/// What was found under a name.
enum Look {
    /// Something to copy, and its device and inode.
    At(Entry, (u64, u64)),
    /// A link, which are left out without a word, as asked.
    Skipped,
    /// Something that is not copied.
    Special,
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
    fn open(dir: Root, path: Vec<u8>, id: (u64, u64)) -> Result<Self, Errno> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&dir)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if !is_dots(name) {
                names.push(name.to_vec());
            }
        }
        names.sort_unstable_by(|a, b| b.cmp(a));
        Ok(Self { dir, path, names, id })
    }
}

/// Opens the directory `inner`; `None` if a followed link leads back to where we are.
fn enter(levels: &[Level], tree: &Tree, inner: &[u8], id: (u64, u64), links: Links) -> Result<Option<Level>> {
    if levels.len() >= MAX_DEPTH {
        return Err(Error::new(ErrorKind::Io, format!("{} is nested too deeply", show(inner))));
    }
    if links == Links::Follow && levels.iter().any(|level| level.id == id) {
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
    Level::open(dir, inner.to_vec(), id).map(Some).map_err(failed)
}

fn id(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

fn permissions(stat: &Stat) -> u32 {
    stat.st_mode & 0o777
}

fn mtime(stat: &Stat) -> Timestamp {
    Timestamp { seconds: stat.st_mtime, nanoseconds: stat.st_mtime_nsec as u32 }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;
    use std::path::Path;

    use super::*;

    /// What `paths` list: entries, problems with their kinds, and notes, each by its path.
    fn listed(paths: &[&Path], links: Links) -> (Vec<String>, Vec<(String, ErrorKind)>, Vec<String>) {
        let paths: Vec<_> = paths.iter().map(|path| path.as_os_str().as_bytes().to_vec()).collect();
        let source = FileSource::local(&paths, links).expect("opened");
        let (mut entries, mut problems, mut notes) = (Vec::new(), Vec::new(), Vec::new());
        let all = source.list(&mut |found| {
            match found {
                Found::Entry(listed) => entries.push(listed.entry.path.to_string()),
                Found::Problem(path, error) => problems.push((show(&path).into_owned(), error.kind)),
                Found::Note(path, _) => notes.push(show(&path).into_owned()),
            }
            true
        });
        all.expect("listed");
        (entries, problems, notes)
    }

    #[test]
    fn what_is_left_out_is_no_failure() {
        let place = tempfile::tempdir().expect("a directory");
        let tree = place.path().join("tree");
        fs::create_dir(&tree).expect("made");
        fs::write(tree.join("file"), b"x").expect("written");
        symlink("file", tree.join("link")).expect("linked");
        let _socket = UnixListener::bind(tree.join("socket")).expect("bound");
        let there = |names: &[&str]| names.iter().map(|name| format!("tree{name}")).collect::<Vec<_>>();
        for (links, names) in [(Links::Skip, &["", "/file"][..]), (Links::Keep, &["", "/file", "/link"])] {
            let (entries, problems, notes) = listed(&[&tree], links);
            assert_eq!((entries, problems, notes), (there(names), Vec::new(), vec!["socket".to_owned()]));
        }
    }

    #[test]
    fn usage_errors_of_the_walk_are_failures() {
        let place = tempfile::tempdir().expect("a directory");
        let (a, b) = (place.path().join("a"), place.path().join("b"));
        for tree in [&a, &b] {
            fs::create_dir(tree).expect("made");
            fs::write(tree.join("same"), b"x").expect("written");
        }
        fs::write(b.join("other"), b"x").expect("written");
        // Both put their contents at one place, where only the first can have the name.
        let (entries, problems, notes) = listed(&[&a.join(""), &b.join("")], Links::Skip);
        assert_eq!(entries, ["same", "other"]);
        assert_eq!((problems, notes), (vec![("same".to_owned(), ErrorKind::Usage)], Vec::new()));
        // What was named must be there to be copied, unlike what lies beneath it.
        let socket = place.path().join("socket");
        let _socket = UnixListener::bind(&socket).expect("bound");
        let (entries, problems, notes) = listed(&[&socket, &a], Links::Skip);
        assert_eq!(entries, ["a", "a/same"]);
        assert_eq!((problems, notes), (vec![("socket".to_owned(), ErrorKind::Usage)], Vec::new()));
    }
}
