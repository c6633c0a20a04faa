//! Rows by key, kept in a file without a name: only keys and places stay in memory.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use tidegate_transfer::error::{Error, Result};

/// How much is gathered before it is written.
const BUFFER: usize = 64 << 10;

/// The rows, in the order of their keys. A later row takes an earlier one's place.
#[derive(Debug)]
pub struct Spool {
    file: File,
    /// What is in the file already.
    end: u64,
    buffer: Vec<u8>,
    places: BTreeMap<Box<str>, (u64, u32)>,
}

impl Spool {
    /// An empty one on the file system of `directory`.
    pub fn new(directory: &Path) -> Result<Self> {
        let (path, file) = super::create(directory, "spool", 0o600)?;
        fs::remove_file(&path).map_err(failed)?;
        Ok(Self { file, end: 0, buffer: Vec::new(), places: BTreeMap::new() })
    }

    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    pub fn contains(&self, key: &str) -> bool {
        self.places.contains_key(key)
    }

    pub fn put(&mut self, key: &str, row: &[u8]) -> Result<()> {
        let at = self.end + self.buffer.len() as u64;
        self.buffer.extend_from_slice(row);
        self.places.insert(key.into(), (at, row.len() as u32));
        if self.buffer.len() >= BUFFER { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        self.file.write_all_at(&self.buffer, self.end).map_err(failed)?;
        self.end += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// The rows, by key.
    pub fn rows(&mut self) -> Result<impl Iterator<Item = std::io::Result<Vec<u8>>>> {
        self.flush()?;
        Ok(self.places.values().map(|&(at, length)| {
            let mut row = vec![0; length as usize];
            self.file.read_exact_at(&mut row, at)?;
            Ok(row)
        }))
    }
}

fn failed(error: std::io::Error) -> Error {
    Error::io("keep", b"what is to be written beside the files", error)
}
