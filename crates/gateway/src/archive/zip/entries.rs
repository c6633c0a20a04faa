//! What a zip says of its members at its end: kept in memory while it is little, and then in a file without a name.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

use tidegate_transfer::endpoint::access::Access;
use tidegate_transfer::quota::Held;

/// Most bytes of it in memory.
pub(crate) const MAX_MEMORY: usize = 64 << 10;

/// Bytes of disk that are taken at a time.
const TAKEN: usize = 1 << 20;

/// All that is kept.
pub(crate) struct Entries {
    access: Access,
    file: Option<File>,
    /// What is not in the file.
    memory: Vec<u8>,
    /// Space on disk.
    held: Held,
    length: u64,
    /// How much of it was told.
    told: u64,
}

impl Entries {
    /// None yet; files are made where `access` has them.
    pub fn new(access: Access, held: Held) -> Self {
        Self { access, file: None, memory: Vec::new(), held, length: 0, told: 0 }
    }

    /// How many bytes it is.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Adds one.
    pub fn add(&mut self, entry: &[u8]) -> io::Result<()> {
        self.memory.extend_from_slice(entry);
        self.length += entry.len() as u64;
        if self.memory.len() >= MAX_MEMORY { self.keep() } else { Ok(()) }
    }

    fn keep(&mut self) -> io::Result<()> {
        let needs = (self.length as usize).next_multiple_of(TAKEN);
        if needs > self.held.amount() && !self.held.resize(needs) {
            return Err(io::Error::other("there is no space for what a zip has at its end: take a tar"));
        }
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(self.access.scratch()?),
        };
        file.write_all(&self.memory)?;
        self.memory.clear();
        Ok(())
    }

    /// The next piece, from the first on, once all were added.
    pub fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        let in_file = self.length - self.memory.len() as u64;
        let left = self.length - self.told;
        match &mut self.file {
            _ if left == 0 => Ok(None),
            Some(file) if self.told < in_file => {
                if self.told == 0 {
                    file.seek(SeekFrom::Start(0))?;
                }
                let mut piece = vec![0; (in_file - self.told).min(MAX_MEMORY as u64) as usize];
                file.read_exact(&mut piece)?;
                self.told += piece.len() as u64;
                Ok(Some(piece))
            }
            _ => {
                self.told = self.length;
                Ok(Some(self.memory.clone()))
            }
        }
    }
}
