//! What was once verified where: lets a second run skip a file without reading it.
//!
//! A file counts as there if its size, its modification time and the source's modification time are
//! what they were when its root hash was verified. Kept in the state directory, never among the data.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::hash::Digest;
use crate::manifest::Timestamp;
use crate::record_log::RecordLog;
use crate::sys::confined::Root;

const MAGIC: &[u8; 8] = b"TGCATL01";
const NAME: &str = "catalogue";

/// A destination file: the first half of the hash of its absolute path.
type Key = [u8; 16];

/// What was seen when a file was verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verified {
    /// Its size in bytes.
    pub size: u64,
    /// The source's modification time, which the file was given.
    pub mtime: Timestamp,
    /// Its root hash; zeros if only block checksums were asked for.
    pub root: Digest,
}

/// Everything verified in the past.
#[derive(Debug)]
pub struct Catalogue {
    log: RecordLog<(Key, Verified)>,
    known: HashMap<Key, Verified>,
}

impl Catalogue {
    /// Opens the catalogue in the state directory.
    pub fn open(state: &Root) -> Result<Self> {
        let mut known = HashMap::new();
        let log = RecordLog::open(state, NAME, MAGIC, |(key, verified)| {
            known.insert(key, verified);
        })?;
        Ok(Self { log, known })
    }

    /// What is known of `path` in the directory with absolute path `base`.
    pub fn get(&self, base: &[u8], path: &[u8]) -> Option<Verified> {
        self.known.get(&key(base, path)).copied()
    }

    /// Remembers verified files of the directory with absolute path `base`.
    pub fn put<'p>(&mut self, base: &[u8], files: impl Iterator<Item = (&'p [u8], Verified)>) -> Result<()> {
        let records: Vec<_> = files.map(|(path, verified)| (key(base, path), verified)).collect();
        self.log.append(&records)?;
        self.known.extend(records);
        Ok(())
    }
}

fn key(base: &[u8], path: &[u8]) -> Key {
    let digest = blake3::Hasher::new().update(base).update(b"\0").update(path).finalize();
    digest.as_bytes()[..16].try_into().expect("sixteen bytes")
}
