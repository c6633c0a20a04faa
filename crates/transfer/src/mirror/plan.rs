//! Decides what of a destination is to go: compares each directory with the names that the source has in it, both in
//! ascending order, so that the names of one directory are held at a time and no more.

use std::collections::HashSet;
use std::iter::Peekable;
use std::sync::Arc;
use std::vec::IntoIter;

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::extent::Extent;
use crate::error::{Error, ErrorKind, Result};
use crate::filter::Filter;
use crate::offer::DirectoryNames;
use crate::path::{RelPath, inside, is_reserved, lies_in};
use crate::quota::{Held, Quota, remember};
use crate::store::apart::{Apart, would_be_removed};
use crate::store::file_source::{MAX_DEPTH, rule_file};
use crate::store::folding::Folding;
use crate::sys::confined::{Root, path_of};
use crate::sys::fs::{Dir, FileType, fstat};
use crate::sys::identity::{FileIdentity, identity};
use crate::sys::whereabouts::Mounts;
use crate::text::show;

/// Something that is at the destination and not at the source: an extraneous file, as rsync calls it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Extraneous {
    /// Its path beneath the destination's directory.
    pub path: Vec<u8>,
    /// Whether it is a directory, told behind all that is in it.
    pub is_directory: bool,
}

/// A comparison under way.
#[derive(Debug)]
pub struct Plan {
    base: Root,
    device: u64,
    /// Where something is mounted in it, which may be a file.
    mounted: HashSet<Vec<u8>>,
    filter: Filter,
    apart: Arc<Apart>,
    metadata: Arc<Quota>,
    /// The directories whose rules are in force, the innermost last.
    entered: Vec<Vec<u8>>,
    open: Option<Open>,
    extent: Extent,
}

/// The directory that is being compared. What of it would go is known at its end: a name of the source may be there in
/// another spelling.
#[derive(Debug)]
struct Open {
    path: Vec<u8>,
    /// What is here and was not passed yet; none if there is no such directory.
    there: Option<(Root, Peekable<IntoIter<Name>>)>,
    last: Vec<u8>,
    is_empty: bool,
    extraneous: Vec<Name>,
    spelled: Spelled,
    _held: Option<Held>,
}

/// What the source's names are here, where they are not what they are there.
#[derive(Debug, Default)]
struct Spelled {
    folding: Folding,
    /// What all spellings of the source's names have in common, where some are one.
    keys: HashSet<Vec<u8>>,
    /// What is found by names that are not listed.
    found: HashSet<FileIdentity>,
    held: Option<Held>,
}

impl Spelled {
    /// The source has this name; `is_missing` if the list of names in `dir` has not.
    fn add(&mut self, dir: &Root, name: &[u8], is_missing: bool) {
        if self.folding.is_any() {
            self.keys.insert(self.folding.key(name));
        }
        if is_missing && let Ok(stat) = dir.stat(name) {
            self.found.insert(identity(&stat));
        }
    }

    /// Whether `name` in `dir` is one of the source's.
    fn has(&self, dir: &Root, name: &[u8]) -> bool {
        self.keys.contains(&self.folding.key(name))
            || (!self.found.is_empty()
                && dir.stat(name).is_ok_and(|stat| self.found.contains(&identity(&stat))))
    }

    /// What it takes in memory.
    fn memory(&self) -> usize {
        let keys: usize = self.keys.iter().map(|key| size_of::<Vec<u8>>() + key.len()).sum();
        keys + self.found.len() * size_of::<FileIdentity>()
    }
}

/// A name, and whether it is a directory's.
type Name = (Vec<u8>, bool);

impl Plan {
    /// Nothing is compared yet; `filter` says what stays.
    pub fn new(base: Root, (filter, apart): (Filter, Arc<Apart>), metadata: &Arc<Quota>) -> Result<Self> {
        let failed = |error| Error::io("list", b"", error);
        let device = fstat(&base).map_err(failed)?.st_dev;
        let mounted = Mounts::read().points(&path_of(&base).map_err(failed)?);
        Ok(Self {
            base,
            device,
            mounted,
            filter,
            apart,
            metadata: Arc::clone(metadata),
            entered: Vec::new(),
            open: None,
            extent: Extent::default(),
        })
    }

    /// What was opened, if it is a part of the mirror: not what is mounted there, or has a device of its own, as parts of
    /// some file systems do that are no mounts.
    ///
    /// # Errors
    /// It is the source. Two versions of one directory look the same from another host, so that what `is_root` of the
    /// mirror may.
    fn part(&self, opened: Result<Root, Errno>, path: &[u8], is_root: bool) -> Result<Option<Root>> {
        let failed = |error| Error::io("list", path, error);
        let dir = match opened {
            Err(Errno::XDEV) => return Ok(None),
            dir => dir.map_err(failed)?,
        };
        let stat = fstat(&dir).map_err(failed)?;
        if !is_root && self.apart.is_source(&stat) {
            return Err(would_be_removed());
        }
        Ok((stat.st_dev == self.device).then_some(dir))
    }

    /// Compares a directory, or the next part of one, and tells `goes` of what is to go.
    pub fn compare(
        &mut self,
        names: &DirectoryNames,
        goes: &mut dyn FnMut(Extraneous) -> Result<()>,
    ) -> Result<()> {
        let mut open = match self.open.take() {
            Some(open) if open.path == names.directory => open,
            Some(_) => return Err(Error::protocol("names of another directory before one was whole")),
            None => self.enter(&names.directory, names.is_root)?,
        };
        for name in names.names.split_inclusive(|&byte| byte == 0) {
            let Some(name) = name.strip_suffix(&[0]).filter(|&name| name > &open.last[..]) else {
                return Err(Error::protocol("names that are not in ascending order"));
            };
            open.is_empty = false;
            open.set_aside(Some(name));
            if let Some((dir, there)) = &mut open.there {
                let listed = there.next_if(|(here, _)| here == name);
                self.extent.files += u64::from(matches!(listed, Some((_, false))));
                let is_taken = || self.filter.takes(&inside(&open.path, name), false);
                open.spelled.add(dir, name, listed.is_none() && is_taken());
            }
            open.last = name.to_vec();
        }
        open.spelled.held = Some(remember(&self.metadata, open.spelled.memory())?);
        if !names.is_whole {
            self.open = Some(open);
            return Ok(());
        }
        open.set_aside(None);
        let before = self.extent.going;
        for (name, is_directory) in std::mem::take(&mut open.extraneous) {
            match open.there.as_ref().is_some_and(|(dir, _)| open.spelled.has(dir, &name)) {
                true => self.extent.files += u64::from(!is_directory),
                false => self.extraneous(&open, (name, is_directory), goes)?,
            }
        }
        if names.is_root && open.is_empty && self.extent.going > before {
            self.extent.emptied = Some(open.path);
        }
        Ok(())
    }

    /// Whether what was found may go; `most` is how much may, if that was said.
    ///
    /// # Errors
    /// What would go looks like an accident, or not everything was told.
    pub fn verdict(&self, most: Option<u64>) -> Result<()> {
        if self.open.is_some() {
            return Err(Error::protocol("the source did not tell all names"));
        }
        self.extent.verdict(most)
    }

    /// Opens the directory `path`, which lies in one that was compared before, or in none.
    fn enter(&mut self, path: &[u8], is_root: bool) -> Result<Open> {
        while self.entered.last().is_some_and(|last| !lies_in(path, last)) {
            self.entered.pop();
            self.filter.leave();
        }
        if !path.is_empty() {
            RelPath::new(path)?;
        }
        let failed = |error| Error::io("list", path, error);
        let (mut there, mut held, mut spelled) = (None, None, Spelled::default());
        let dir = match self.base.dir_within(path) {
            // Not made, as asked: there is nothing in it.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => None,
            opened => self.part(opened, path, is_root)?,
        };
        if let Some(dir) = dir {
            self.enter_rules(path, &dir)?;
            let names = names_in(&dir).map_err(failed)?;
            let memory = names.iter().map(|(name, _)| size_of::<Name>() + name.len()).sum();
            held = Some(remember(&self.metadata, memory)?);
            spelled.folding = Folding::look(&dir, names.iter().map(|(name, _)| &name[..]));
            there = Some((dir, names.into_iter().peekable()));
            self.entered.push(path.to_vec());
        }
        let (path, last, extraneous) = (path.to_vec(), Vec::new(), Vec::new());
        Ok(Open { path, there, last, is_empty: true, extraneous, spelled, _held: held })
    }

    fn enter_rules(&mut self, path: &[u8], dir: &Root) -> Result<()> {
        self.filter.enter(path, |name| rule_file(path, dir, name))
    }

    fn extraneous(
        &mut self,
        open: &Open,
        (name, is_directory): Name,
        goes: &mut dyn FnMut(Extraneous) -> Result<()>,
    ) -> Result<()> {
        let Some((dir, _)) = &open.there else { return Ok(()) };
        let path = inside(&open.path, &name);
        self.go(dir, &name, path, is_directory, goes, 0).map(|_| ())
    }

    /// Tells of `name` in `dir` and all that is in it, as far as it is to go; answers with whether all is.
    fn go(
        &mut self,
        dir: &Root,
        name: &[u8],
        path: Vec<u8>,
        is_directory: bool,
        goes: &mut dyn FnMut(Extraneous) -> Result<()>,
        depth: usize,
    ) -> Result<bool> {
        // What is the program's own stays.
        if is_reserved(name) || dir.keeps(name) {
            return Ok(false);
        }
        let stays = !self.filter.takes(&path, is_directory) || self.mounted.contains(&path);
        if !is_directory {
            self.extent.files += 1;
            if !stays {
                self.extent.going += 1;
                goes(Extraneous { path, is_directory })?;
            }
            return Ok(!stays);
        }
        if stays {
            return Ok(false);
        }
        let failed = |error| Error::io("list", &path, error);
        if depth >= MAX_DEPTH {
            return Err(Error::new(ErrorKind::Io, format!("{} is nested too deeply", show(&path))));
        }
        let Some(inner) = self.part(dir.dir_within(name), &path, false)? else { return Ok(false) };
        let names = names_in(&inner).map_err(failed)?;
        self.enter_rules(&path, &inner)?;
        let mut all = true;
        for (name, is_directory) in names {
            self.filter.going(true);
            all &= self.go(&inner, &name, inside(&path, &name), is_directory, goes, depth + 1)?;
        }
        self.filter.leave();
        self.filter.going(depth > 0);
        if all {
            goes(Extraneous { path, is_directory })?;
        }
        Ok(all)
    }
}

impl Open {
    /// Passes the names here that come before `name`, or all that are left.
    fn set_aside(&mut self, name: Option<&[u8]>) {
        let Some((_, there)) = self.there.as_mut() else { return };
        while let Some(extraneous) = there.next_if(|(here, _)| name.is_none_or(|name| &here[..] < name)) {
            self.extraneous.push(extraneous);
        }
    }
}

/// What is in `dir`, in ascending order.
fn names_in(dir: &Root) -> Result<Vec<Name>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        let is_directory = match entry.file_type() {
            FileType::Unknown => FileType::from_raw_mode(dir.stat(name)?.st_mode).is_dir(),
            kind => kind.is_dir(),
        };
        names.push((name.to_vec(), is_directory));
    }
    names.sort_unstable();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::confined::scratch;

    #[test]
    fn what_the_source_has_in_another_spelling_is_not_extraneous() {
        let (directory, dir) = scratch();
        for name in ["README", "Extra", "linked", "alias"] {
            std::fs::write(directory.path().join(name), name).expect("written");
        }
        let mut spelled = Spelled { folding: Folding::CASEFOLD, ..Spelled::default() };
        spelled.add(&dir, b"readme", true);
        assert!(spelled.has(&dir, b"README") && !spelled.has(&dir, b"Extra"));
        // Found by a name that is not listed: whatever the file system has made of it, it is that file.
        let mut spelled = Spelled::default();
        std::fs::remove_file(directory.path().join("alias")).expect("removed");
        std::fs::hard_link(directory.path().join("linked"), directory.path().join("alias")).expect("linked");
        spelled.add(&dir, b"alias", true);
        spelled.add(&dir, b"missing", true);
        assert!(spelled.has(&dir, b"linked") && !spelled.has(&dir, b"README"));
    }
}
