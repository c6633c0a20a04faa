//! Texts by key, kept in a file without a name: only keys and places stay in memory.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;

use tidegate_transfer::error::{Error, Result};
use tidegate_transfer::sys::fs::nameless;

/// How much is gathered before it is written.
const BUFFER: usize = 64 << 10;

/// The texts. A later one takes an earlier one's place.
#[derive(Debug)]
pub(crate) struct Spool<K> {
    file: File,
    /// What is in the file already.
    end: u64,
    buffer: Vec<u8>,
    places: BTreeMap<K, (u64, u32)>,
}

impl<K: Ord> Spool<K> {
    /// An empty one on the file system of `directory`.
    pub fn new(directory: &Path) -> Result<Self> {
        let create = |error| Error::io("create a file in", directory.as_os_str().as_bytes(), error);
        let file = nameless(directory).map_err(create)?;
        Ok(Self { file, end: 0, buffer: Vec::new(), places: BTreeMap::new() })
    }

    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    pub fn contains<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.places.contains_key(key)
    }

    pub fn put(&mut self, key: K, text: &[u8]) -> Result<()> {
        let at = self.end + self.buffer.len() as u64;
        self.buffer.extend_from_slice(text);
        self.places.insert(key, (at, text.len() as u32));
        if self.buffer.len() >= BUFFER { self.flush() } else { Ok(()) }
    }

    /// The text put under `key` last.
    pub fn get(&mut self, key: &K) -> Result<Option<Vec<u8>>> {
        let Some(&place) = self.places.get(key) else { return Ok(None) };
        self.flush()?;
        read(&self.file, place).map(Some).map_err(failed)
    }

    fn flush(&mut self) -> Result<()> {
        self.file.write_all_at(&self.buffer, self.end).map_err(failed)?;
        self.end += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// The texts, in the order of their keys.
    pub(crate) fn by_key(&mut self) -> Result<impl Iterator<Item = io::Result<Vec<u8>>>> {
        self.flush()?;
        Ok(self.places.values().map(|&place| read(&self.file, place)))
    }

    /// The texts, in the order they were put in.
    pub fn in_order(&mut self) -> Result<impl Iterator<Item = io::Result<Vec<u8>>>> {
        self.flush()?;
        let mut places: Vec<_> = self.places.values().copied().collect();
        places.sort_unstable();
        Ok(places.into_iter().map(|place| read(&self.file, place)))
    }
}

fn read(file: &File, (at, length): (u64, u32)) -> io::Result<Vec<u8>> {
    let mut text = vec![0; length as usize];
    file.read_exact_at(&mut text, at)?;
    Ok(text)
}

fn failed(error: io::Error) -> Error {
    Error::io("keep", b"what is to be written beside the files", error)
}
