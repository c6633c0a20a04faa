//! A directory's items one after the other, however many there are: read a page at a time.

use tidegate_transfer::endpoint::access::Access;
use tidegate_transfer::error::{ErrorKind, Result};

use crate::tree::{self, Directory, Found, Item, Keys, listing};

/// Items that are read at first, and most that are read at a time: each page reads the whole directory.
const PAGE: usize = 1000;
const MAX_PAGE: usize = 8000;

/// Most bytes that directories within each other keep at hand: those further out are read again when it is their turn.
const MAX_AT_HAND: usize = 1 << 20;

/// How many items of a directory are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// A page of them, as a rule.
    Page,
    /// All.
    All,
}

impl Extent {
    fn most(self) -> usize {
        match self {
            Self::Page => PAGE,
            Self::All => MAX_PAGE,
        }
    }

    /// Most bytes that it takes to go through directories within each other.
    pub fn memory(self) -> usize {
        MAX_AT_HAND + listing(self.most())
    }
}

/// The items of one directory that are still to come.
#[derive(Debug)]
pub(crate) struct Pages {
    path: Vec<u8>,
    /// Open only while its items are asked for.
    directory: Option<Directory>,
    keys: Keys,
    /// The key of the last one that was taken, and whether more come behind those at hand.
    last: Vec<u8>,
    more: bool,
    /// How many are read next, and at most.
    next: usize,
    most: usize,
}

impl Pages {
    /// The items of the directory at `path` behind the key `after`.
    pub fn new(path: Vec<u8>, after: Vec<u8>, extent: Extent) -> Self {
        let (keys, most) = (Keys::default(), extent.most());
        Self { path, directory: None, keys, last: after, more: true, next: PAGE, most }
    }

    /// The directory's path.
    pub fn path(&self) -> &[u8] {
        &self.path
    }

    /// The key of the next item; none of a directory that is not there.
    pub fn next(&mut self, access: &Access) -> Result<Option<Vec<u8>>> {
        if self.keys.len() == 0 && self.more {
            let Some(directory) = self.open(access)? else { return Ok(None) };
            let (keys, more) = directory.keys(access, &self.last, self.next)?;
            self.next = (2 * self.next).min(self.most);
            // What vanished is no reason to ask again for ever.
            self.more = more && keys.len() > 0;
            self.directory = Some(directory);
            self.keys = keys;
        }
        let key = self.keys.next();
        if let Some(key) = &key {
            self.last.clone_from(key);
        }
        Ok(key)
    }

    /// What has the key; `None` if it vanished meanwhile.
    pub fn at(&mut self, access: &Access, key: &[u8]) -> Result<Option<Item>> {
        if self.directory.is_none() {
            self.directory = self.open(access)?;
        }
        Ok(self.directory.as_ref().and_then(|directory| directory.at(access, key)))
    }

    fn open(&mut self, access: &Access) -> Result<Option<Directory>> {
        if let Some(directory) = self.directory.take() {
            return Ok(Some(directory));
        }
        match tree::open(access, &self.path) {
            Ok(Found::Directory(directory)) => Ok(Some(directory)),
            Ok(Found::File(_)) => Ok(None),
            Err(error) if error.kind == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn memory(&self) -> usize {
        self.path.capacity() + self.last.capacity() + self.keys.memory()
    }
}

/// Goes from the last of the directories `open` into one that lies in it: the others need not be open meanwhile, and keep little.
pub(crate) fn enter<'p>(open: impl Iterator<Item = &'p mut Pages>) {
    let mut open: Vec<&mut Pages> = open.collect();
    let mut memory: usize = open.iter().map(|pages| pages.memory()).sum();
    for pages in &mut open {
        pages.directory = None;
        if memory > MAX_AT_HAND {
            memory -= pages.keys.memory();
            pages.more |= pages.keys.len() > 0;
            pages.keys = Keys::default();
        }
    }
}
