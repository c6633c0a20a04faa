//! What each directory of a copy holds at the source, for a mirror: all names that rules do not hide, also those that are
//! not offered for their size or kind. Directories that several sources put together are told once.

use rustix::io::Errno;

use super::FileSource;
use super::tree::{Tree, is_dots};
use super::walk::{MAX_DEPTH, rule_file};
use crate::error::{Error, ErrorKind, Result};
use crate::filter::Filter;
use crate::offer::DirectoryNames;
use crate::path::{inside, is_reserved};
use crate::sys::confined::Root;
use crate::sys::fs::{Dir, FileType, OFlags, fstat};
use crate::terms::Links;
use crate::text::show;

/// Bytes of names told at a time.
const PORTION: usize = 256 << 10;

/// A walk through all trees at once.
pub(super) struct Names<'s> {
    source: &'s FileSource,
    /// The rules as each tree has them.
    filters: Vec<Filter>,
    told: u64,
}

/// A directory on the way down.
struct Level {
    path: Vec<u8>,
    trees: Vec<usize>,
    /// Device and inode in each of them.
    ids: Vec<(u64, u64)>,
    /// Directories in it, the last one first, and in which trees they are.
    below: Vec<(Vec<u8>, Vec<usize>)>,
}

impl<'s> Names<'s> {
    pub(super) fn new(source: &'s FileSource) -> Self {
        Self { source, filters: vec![source.filter.clone(); source.roots.len()], told: 0 }
    }

    /// Tells everything; `None` once nobody wants more, else how many names there were.
    pub(super) fn run(mut self, told: &mut dyn FnMut(DirectoryNames) -> bool) -> Result<Option<u64>> {
        let named: Vec<usize> =
            (0..self.source.roots.len()).filter(|&tree| self.source.roots[tree].name().is_some()).collect();
        let tops = match self.source.contents.is_empty() {
            false => vec![(Vec::new(), self.source.contents.clone())],
            true => {
                self.told = named.len() as u64;
                let directories = named.iter().filter(|&&tree| self.source.roots[tree].file().is_none());
                directories.map(|&tree| (self.source.roots[tree].prefix.clone(), vec![tree])).collect()
            }
        };
        for (path, trees) in tops {
            let Some(level) = self.tell(path, trees, &[], told)? else { return Ok(None) };
            let mut levels = vec![level];
            while let Some(level) = levels.last_mut() {
                let Some((name, trees)) = level.below.pop() else {
                    level.trees.iter().for_each(|&tree| self.filters[tree].leave());
                    levels.pop();
                    continue;
                };
                let path = inside(&level.path, &name);
                if levels.len() >= MAX_DEPTH {
                    let why = format!("{} is nested too deeply", show(&path));
                    return Err(Error::new(ErrorKind::Io, why));
                }
                let trees = self.entered(&path, trees, &levels)?;
                if trees.is_empty() {
                    continue;
                }
                let Some(level) = self.tell(path, trees, &levels, told)? else { return Ok(None) };
                levels.push(level);
            }
        }
        Ok(Some(self.told))
    }

    /// Those of `trees` whose directory `path` is entered when files are listed: not where another file system begins, if
    /// that was asked for, nor where a link leads back up. One that is not entered leaves it uncompared for all.
    fn entered(&self, path: &[u8], trees: Vec<usize>, levels: &[Level]) -> Result<Vec<usize>> {
        let follows = self.source.links == Links::Follow;
        if !self.source.selection.one_file_system && !follows {
            return Ok(trees);
        }
        for &tree in &trees {
            let (root, dir) = (&self.source.roots[tree], self.open(tree, path)?);
            let stat = |dir: &Root| fstat(dir).map_err(|error| Error::io("list", path, error));
            let (top, here) = (stat(&root.base)?, stat(&dir)?);
            let elsewhere = self.source.selection.one_file_system
                && (top.st_dev != here.st_dev || self.source.is_mounted(root, within(root, path)));
            let id = (here.st_dev, here.st_ino);
            if elsewhere || (follows && levels.iter().any(|level| level.ids.contains(&id))) {
                return Ok(Vec::new());
            }
        }
        Ok(trees)
    }

    /// Enters the directory `path` of `trees` and tells what it holds.
    fn tell(
        &mut self,
        path: Vec<u8>,
        trees: Vec<usize>,
        above: &[Level],
        told: &mut dyn FnMut(DirectoryNames) -> bool,
    ) -> Result<Option<Level>> {
        // Each name, with the tree in which it is a directory.
        let (mut names, mut ids) = (Vec::new(), Vec::new());
        for &tree in &trees {
            let dir = self.open(tree, &path)?;
            let stat = fstat(&dir).map_err(|error| Error::io("list", &path, error))?;
            ids.push((stat.st_dev, stat.st_ino));
            self.filters[tree].enter(&path, |name| rule_file(&path, &dir, name))?;
            self.read(tree, &path, &dir, &mut names).map_err(|error| Error::io("list", &path, error))?;
        }
        if above.is_empty() && path.is_empty() {
            for (index, tree) in self.source.roots.iter().enumerate() {
                if let Some(name) = tree.name() {
                    names.push((name.to_vec(), tree.file().is_none().then_some(index)));
                }
            }
        }
        names.sort_unstable();
        let mut below: Vec<(Vec<u8>, Vec<usize>)> = Vec::new();
        let mut portion = DirectoryNames { is_root: above.is_empty(), ..DirectoryNames::default() };
        portion.directory.clone_from(&path);
        let mut last: Option<Vec<u8>> = None;
        for (name, tree) in names {
            if last.as_ref() != Some(&name) {
                if portion.names.len() > PORTION {
                    let more = DirectoryNames { names: Vec::new(), ..portion.clone() };
                    if !told(std::mem::replace(&mut portion, more)) {
                        return Ok(None);
                    }
                }
                portion.names.extend_from_slice(&name);
                portion.names.push(0);
                self.told += 1;
            }
            if let Some(tree) = tree {
                match below.last_mut().filter(|(above, _)| *above == name) {
                    Some((_, trees)) => trees.push(tree),
                    None => below.push((name.clone(), vec![tree])),
                }
            }
            last = Some(name);
        }
        portion.is_whole = true;
        below.reverse();
        Ok(told(portion).then_some(Level { path, trees, ids, below }))
    }

    /// Reads the names in `dir` that rules do not hide.
    fn read(
        &self,
        tree: usize,
        path: &[u8],
        dir: &Root,
        names: &mut Vec<(Vec<u8>, Option<usize>)>,
    ) -> Result<(), Errno> {
        for entry in Dir::read_from(dir)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if is_dots(name) || is_reserved(name) || dir.hides(name) {
                continue;
            }
            let inner = inside(path, name);
            let is_directory = match entry.file_type() {
                FileType::Symlink if self.source.links == Links::Follow => {
                    let root = &self.source.roots[tree];
                    let target = root.open_following(within(root, &inner), OFlags::PATH)?;
                    FileType::from_raw_mode(fstat(&target)?.st_mode).is_dir()
                }
                FileType::Unknown => {
                    let stat = dir.stat(name)?;
                    FileType::from_raw_mode(stat.st_mode).is_dir()
                }
                kind => kind.is_dir(),
            };
            if self.filters[tree].takes(&inner, is_directory) {
                names.push((name.to_vec(), is_directory.then_some(tree)));
            }
        }
        Ok(())
    }

    fn open(&self, tree: usize, path: &[u8]) -> Result<Root> {
        let tree = &self.source.roots[tree];
        let inner = within(tree, path);
        let opened = match self.source.links {
            Links::Follow if !inner.is_empty() => tree.base.dir_following(inner),
            _ => tree.base.dir(inner),
        };
        opened.map_err(|error| Error::io("list", path, error))
    }
}

/// What `tree` calls `path` of the copy.
fn within<'p>(tree: &Tree, path: &'p [u8]) -> &'p [u8] {
    match tree.prefix.is_empty() {
        true => path,
        false => path.get(tree.prefix.len() + 1..).unwrap_or_default(),
    }
}
