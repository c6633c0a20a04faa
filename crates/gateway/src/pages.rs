//! A directory's items one after the other, however many there are: read a page at a time.

use tidegate_transfer::endpoint::access::Access;
use tidegate_transfer::error::{ErrorKind, Result};

use crate::tree::{self, Found, Item};

/// Items that are read at a time.
const PAGE: usize = 1000;

/// The items of one directory that are still to come.
#[derive(Debug)]
pub struct Pages {
    path: Vec<u8>,
    items: std::vec::IntoIter<Item>,
    /// The key of the last one that was taken, and whether more come behind those at hand.
    last: Vec<u8>,
    more: bool,
}

impl Pages {
    /// The items of the directory at `path` behind the key `after`.
    pub fn new(path: Vec<u8>, after: Vec<u8>) -> Self {
        Self { path, items: Vec::new().into_iter(), last: after, more: true }
    }

    /// The directory's path.
    pub fn path(&self) -> &[u8] {
        &self.path
    }

    /// The next item; none of a directory that is not there.
    pub fn next(&mut self, access: &Access) -> Result<Option<Item>> {
        if self.items.len() == 0 && self.more {
            let directory = match tree::open(access, &self.path) {
                Ok(Found::Directory(directory)) => directory,
                Ok(Found::File(_)) => return Ok(None),
                Err(error) if error.kind == ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error),
            };
            let (items, more) = directory.list(access, &self.last, PAGE)?;
            // What vanished is no reason to ask again for ever.
            self.more = more && !items.is_empty();
            self.items = items.into_iter();
        }
        let item = self.items.next();
        if let Some(item) = &item {
            self.last = item.key();
        }
        Ok(item)
    }
}
