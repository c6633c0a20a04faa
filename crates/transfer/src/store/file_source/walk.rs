//! Walks one source from the top down and shows what of it is selected. What rules exclude is not entered.

use std::collections::HashSet;

use rustix::io::Errno;

use super::FileSource;
use super::tree::{Tree, is_dots};
use crate::error::{Error, ErrorKind, Result};
use crate::filter::{Filter, MAX_RULE_FILE};
use crate::manifest::{Entry, Kind, Timestamp};
use crate::offer::LeftOut;
use crate::path::{RelPath, inside, is_reserved, join, split};
use crate::store::{Found, Listed};
use crate::sys::confined::Root;
use crate::sys::fs::{Dir, FileType, Mode, OFlags, Stat, fstat, read_at};
use crate::sys::identity::fingerprint;
use crate::terms::Links;
use crate::text::show;

/// Deepest directory nesting walked into.
pub(crate) const MAX_DEPTH: usize = 1000;

/// A walk through one of a source's trees.
pub(super) struct Walk<'w> {
    source: &'w FileSource,
    tree: &'w Tree,
    root: u16,
    found: &'w mut dyn FnMut(Found) -> bool,
    filter: Filter,
    /// The file system that the tree is on.
    device: u64,
    /// Names of the selection that have not come up.
    pending: HashSet<&'w [u8]>,
}

/// What was found under a name.
enum Look {
    /// Something to copy, and its device and inode.
    At(Entry, (u64, u64)),
    /// A link, which are left out without a word, as asked, or what is not there for whoever asks.
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

    /// A directory of which only some names are looked at.
    fn of_some(dir: Root, path: &[u8]) -> Self {
        Self { dir, path: path.to_vec(), names: Vec::new(), id: (0, 0) }
    }
}

impl<'w> Walk<'w> {
    pub(super) fn new(
        source: &'w FileSource,
        tree: &'w Tree,
        root: u16,
        found: &'w mut dyn FnMut(Found) -> bool,
    ) -> Self {
        Self { source, tree, root, found, filter: source.filter.clone(), device: 0, pending: HashSet::new() }
    }

    /// Shows everything; `false` once nobody wants more.
    pub(super) fn run(mut self) -> Result<bool> {
        match self.tree.file() {
            Some(name) => self.file(name),
            None if self.source.selection.listed => self.listed(),
            None => self.all(),
        }
    }

    /// The one file that is the source.
    fn file(&mut self, name: &[u8]) -> Result<bool> {
        let dir = self.tree.base.dir(b"").map_err(|error| Error::io("list", name, error))?;
        let path = RelPath::new(self.tree.prefix.clone())?;
        let next = self.enter_rules(b"", &dir).and_then(|()| {
            let level = Level::of_some(dir, b"");
            match self.look(&level, name, name, path)? {
                Look::At(entry, _) => self.source.is_free(self.root, b"", &entry).map(|_| entry),
                Look::Special | Look::Skipped => {
                    Err(Error::new(ErrorKind::Usage, format!("{} is not a regular file", show(name))))
                }
            }
        });
        match next {
            Ok(entry) if !self.filter.takes(entry.path.as_bytes(), false) => self.named_and_excluded(),
            Ok(entry) if !self.source.selection.fits(&entry) => Ok(true),
            Ok(entry) => Ok(self.show(entry)),
            Err(error) => Ok(self.problem(name.to_vec(), error)),
        }
    }

    /// The directory that is the source, and what lies in it.
    fn all(&mut self) -> Result<bool> {
        let Some(level) = self.top()? else { return Ok(true) };
        let level = Level::open(level.dir, level.path, level.id)
            .map_err(|error| Error::io("list", &self.tree.prefix, error))?;
        self.down(level)
    }

    /// Opens the directory that is the source and shows it; `None` if it cannot be taken.
    fn top(&mut self) -> Result<Option<Level>> {
        let prefix = &self.tree.prefix;
        let failed = |error| Error::io("list", prefix, error);
        let dir = self.tree.base.dir(b"").map_err(failed)?;
        let stat = fstat(&dir).map_err(failed)?;
        self.device = stat.st_dev;
        if !prefix.is_empty() {
            let path = RelPath::new(prefix.clone())?;
            if !self.filter.takes(prefix, true) {
                return self.named_and_excluded().map(|_| None);
            }
            let entry = Entry::new(path, Kind::Directory, permissions(&stat), mtime(&stat));
            match self.source.is_free(self.root, b"", &entry) {
                Ok(true) if !self.show(entry) => return Ok(None),
                Ok(_) => {}
                Err(error) => {
                    self.problem(prefix.clone(), error);
                    return Ok(None);
                }
            }
        }
        if !self.source.selection.listed {
            self.enter_rules(prefix, &dir)?;
        }
        Ok(Some(Level { dir, path: Vec::new(), names: Vec::new(), id: id(&stat) }))
    }

    /// What the selection lists, with the directories on the way there.
    fn listed(&mut self) -> Result<bool> {
        let Some(top) = self.top()? else { return Ok(true) };
        let mut names: Vec<&[u8]> = self.source.selection.names.iter().map(Vec::as_slice).collect();
        names.sort_unstable();
        names.dedup();
        // Of the source itself, all is meant.
        if names.first() == Some(&&b""[..]) {
            let level = Level::open(top.dir, top.path, top.id);
            let level = level.map_err(|error| Error::io("list", &self.tree.prefix, error))?;
            self.enter_rules(&self.tree.prefix, &level.dir)?;
            return self.down(level);
        }
        self.pending = names.iter().copied().collect();
        let mut shown = HashSet::new();
        for name in names {
            // It may have come up in a directory that is listed, too.
            if !self.pending.contains(name) {
                continue;
            }
            let mut entered = 0;
            let listed = self.one_listed(name, &mut shown, &mut entered);
            (0..entered).for_each(|_| self.filter.leave());
            let goes_on = match listed {
                Ok(goes_on) => goes_on,
                Err(error) => self.problem(name.to_vec(), error),
            };
            if !goes_on {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Rules are asked of the name and of what lies beneath it, and not of the directories on the way to it, of which
    /// `entered` tells how many were. Files of rules count in those, not in the source itself, and only once those
    /// directories are offered: as for rsync.
    fn one_listed(
        &mut self,
        name: &'w [u8],
        shown: &mut HashSet<&'w [u8]>,
        entered: &mut usize,
    ) -> Result<bool> {
        if name.split(|byte| *byte == b'/').any(is_reserved) {
            return Err(Error::new(ErrorKind::UnsafeName, "'.tidegate' is where transfers keep their state"));
        }
        let (entry, id) = match self.look_at(name)? {
            Look::At(entry, id) => (entry, id),
            Look::Skipped => return Ok(true),
            Look::Special => return Ok((self.found)(Found::Note(name.to_vec(), LeftOut::Special))),
        };
        let (path, is_directory) = (entry.path.clone(), entry.kind == Kind::Directory);
        let parents: Vec<&[u8]> = above(name).collect();
        if !self.filter.takes(path.as_bytes(), is_directory) || !self.source.selection.fits(&entry) {
            return Ok(true);
        }
        for parent in parents.into_iter().rev() {
            if shown.insert(parent)
                && let Look::At(entry, _) = self.look_at(parent)?
                && !self.show_only(entry)
            {
                return Ok(false);
            }
            if !self.filter.is_whole() {
                let dir = self.open_dir(parent)?;
                self.enter_rules(join(&self.tree.prefix, parent)?.as_bytes(), &dir)?;
                *entered += 1;
            }
        }
        if *entered > 0 && !self.filter.takes(path.as_bytes(), is_directory) {
            return Ok(true);
        }
        if self.source.is_free(self.root, name, &entry)? && !self.show(entry) {
            return Ok(false);
        }
        if !is_directory {
            return Ok(true);
        }
        let level = Level::open(self.open_dir(name)?, name.to_vec(), id);
        let level = level.map_err(|error| Error::io("list", name, error))?;
        self.enter_rules(path.as_bytes(), &level.dir)?;
        self.down(level)
    }

    /// Shows what lies in `level`, whose rules have been entered and are left.
    fn down(&mut self, level: Level) -> Result<bool> {
        let mut levels = vec![level];
        while let Some(level) = levels.last_mut() {
            let Some(name) = level.names.pop() else {
                levels.pop();
                self.filter.leave();
                continue;
            };
            let inner = inside(&level.path, &name);
            // What unfinished transfers into this directory left is no content of it.
            if is_reserved(&name) {
                continue;
            }
            let looked = join(&self.tree.prefix, &inner)
                .and_then(|path| self.look(levels.last().expect("the one above"), &name, &inner, path));
            let goes_on = match looked {
                Ok(Look::At(entry, id)) => self.entry(&mut levels, inner, entry, id),
                Ok(Look::Special) => (self.found)(Found::Note(inner, LeftOut::Special)),
                Ok(Look::Skipped) => continue,
                Err(error) => self.problem(inner, error),
            };
            if !goes_on {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Shows an entry if it is taken, and enters it if it is a directory.
    fn entry(&mut self, levels: &mut Vec<Level>, inner: Vec<u8>, entry: Entry, id: (u64, u64)) -> bool {
        let is_directory = entry.kind == Kind::Directory;
        if !self.filter.takes(entry.path.as_bytes(), is_directory) || !self.source.selection.fits(&entry) {
            return true;
        }
        let free = match self.source.is_free(self.root, &inner, &entry) {
            Ok(free) => free,
            Err(error) => return self.problem(inner, error),
        };
        let is_elsewhere = self.source.selection.one_file_system
            && is_directory
            && (id.0 != self.device || self.source.is_mounted(self.tree, &inner));
        if is_directory && !is_elsewhere {
            match self.enter(levels, &inner, entry.path.as_bytes(), id) {
                Ok(Some(level)) => levels.push(level),
                Ok(None) => {
                    return (self.found)(Found::Note(inner, LeftOut::LinkBack));
                }
                Err(error) => {
                    if !self.problem(inner, error) {
                        return false;
                    }
                }
            }
        }
        !free || self.show(entry)
    }

    /// Opens the directory `inner`, which is offered as `path`; `None` if a followed link leads back to where we are.
    fn enter(
        &mut self,
        levels: &[Level],
        inner: &[u8],
        path: &[u8],
        id: (u64, u64),
    ) -> Result<Option<Level>> {
        if levels.len() >= MAX_DEPTH {
            return Err(Error::new(ErrorKind::Io, format!("{} is nested too deeply", show(inner))));
        }
        if self.source.links == Links::Follow && levels.iter().any(|level| level.id == id) {
            return Ok(None);
        }
        let dir = self.open_dir(inner)?;
        self.enter_rules(path, &dir)?;
        let opened = Level::open(dir, inner.to_vec(), id).map_err(|error| Error::io("list", inner, error));
        if opened.is_err() {
            self.filter.leave();
        }
        opened.map(Some)
    }

    fn open_dir(&self, inner: &[u8]) -> Result<Root> {
        let opened = match self.source.links {
            Links::Follow => self.tree.base.dir_following(inner),
            _ => self.tree.base.dir(inner),
        };
        opened.map_err(|error| Error::io("list", inner, error))
    }

    /// Reads what rules say of the directory `dir`, which is offered as `path`.
    fn enter_rules(&mut self, path: &[u8], dir: &Root) -> Result<()> {
        self.filter.enter(path, |name| rule_file(path, dir, name))
    }

    /// What `inner` is, by way of the directory that holds it.
    fn look_at(&self, inner: &[u8]) -> Result<Look> {
        let (parent, name) = split(inner);
        let dir = match parent.is_empty() {
            true => self.tree.base.dir(b"").map_err(|error| Error::io("list", inner, error))?,
            false => self.open_dir(parent)?,
        };
        self.look(&Level::of_some(dir, parent), name, inner, join(&self.tree.prefix, inner)?)
    }

    /// What `name` is.
    fn look(&self, level: &Level, name: &[u8], inner: &[u8], path: RelPath) -> Result<Look> {
        let failed = |error| Error::io("read", inner, error);
        let mut stat = match level.dir.stat(name) {
            Err(Errno::NOENT) if level.dir.hides(name) => return Ok(Look::Skipped),
            stat => stat.map_err(failed)?,
        };
        let mut kind = FileType::from_raw_mode(stat.st_mode);
        if kind.is_symlink() {
            match self.tree.links(self.source.links) {
                Links::Keep => {
                    let target = level.dir.read_link(name).map_err(failed)?;
                    let kind = Kind::Symlink { target };
                    let mode = permissions(&stat);
                    return Ok(Look::At(Entry::new(path, kind, mode, mtime(&stat)), id(&stat)));
                }
                Links::Skip => return Ok(Look::Skipped),
                Links::Follow => {
                    let target =
                        self.tree.open_following(inner, OFlags::PATH).map_err(|error| match error {
                            Errno::XDEV => {
                                let why =
                                    format!("{} points out of the source tree: not followed", show(inner));
                                Error::new(ErrorKind::UnsafeName, why)
                            }
                            error => failed(error),
                        })?;
                    stat = fstat(&target).map_err(failed)?;
                    kind = FileType::from_raw_mode(stat.st_mode);
                }
            }
        }
        if kind.is_dir() {
            let entry = Entry::new(path, Kind::Directory, permissions(&stat), mtime(&stat));
            return Ok(Look::At(entry, id(&stat)));
        }
        Ok(file_entry(path, &stat).map_or(Look::Special, |entry| Look::At(entry, id(&stat))))
    }

    fn show(&mut self, entry: Entry) -> bool {
        if !self.pending.is_empty() {
            let path = entry.path.as_bytes();
            self.pending.remove(
                path.strip_prefix(&self.tree.prefix[..])
                    .map_or(path, |inner| inner.strip_prefix(b"/").unwrap_or(inner)),
            );
        }
        self.show_only(entry)
    }

    fn show_only(&mut self, entry: Entry) -> bool {
        (self.found)(Found::Entry(Listed { entry, root: self.root }))
    }

    fn problem(&mut self, path: Vec<u8>, error: Error) -> bool {
        (self.found)(Found::Problem(path, error))
    }

    /// What was named is to be copied, and a rule says that it is not.
    fn named_and_excluded(&mut self) -> Result<bool> {
        let name = &self.tree.prefix;
        let why = format!(
            "{} is named as a source and excluded by a filter rule: leave one of them out",
            show(name)
        );
        Ok(self.problem(name.clone(), Error::new(ErrorKind::Usage, why)))
    }
}

/// The entry of a file at `path` whose state is `stat`; `None` if that is of something else.
pub(super) fn file_entry(path: RelPath, stat: &Stat) -> Option<Entry> {
    let kind = Kind::File { size: stat.st_size as u64, fingerprint: fingerprint(stat) };
    let is_file = FileType::from_raw_mode(stat.st_mode).is_file();
    is_file.then(|| Entry::new(path, kind, permissions(stat), mtime(stat)))
}

/// The directories on the way to `path`, the innermost first.
fn above(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let slashes = path.iter().enumerate().rev().filter(|(_, byte)| **byte == b'/');
    slashes.map(move |(at, _)| &path[..at])
}

/// The content of the file of rules that is called `name` in `dir`; `None` if it is not there, or is no file.
pub(crate) fn rule_file(path: &[u8], dir: &Root, name: &[u8]) -> Result<Option<Vec<u8>>> {
    let failed = |error| Error::io("read the filter rules in", &[path, b"/", name].concat(), error);
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW;
    let file = match dir.open_beneath(name, flags, Mode::empty()) {
        Ok(file) => file,
        Err(Errno::NOENT) => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let stat = fstat(&file).map_err(failed)?;
    if !FileType::from_raw_mode(stat.st_mode).is_file() {
        return Ok(None);
    }
    let mut content = vec![0; (stat.st_size as u64).min(MAX_RULE_FILE as u64 + 1) as usize];
    let length = read_at(&file, &mut content, 0).map_err(failed)?;
    content.truncate(length);
    if length > MAX_RULE_FILE {
        return Err(Error::new(
            ErrorKind::Usage,
            format!("the filter rules in {}/{} are longer than 1 MiB", show(path), show(name)),
        ));
    }
    Ok(Some(content))
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
