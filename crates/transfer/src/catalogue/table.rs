//! A sorted table of records: a file that is written once and looked up in place.
//!
//! ```text
//! +-------+ +-------+-------+-- +-------+ +---------+ +-----------+ +-------------+ +------------+
//! | magic | | block | block | … | index | | records | | last seen | | index bytes | | checksums  |
//! |  (8)  | |       |       |   |       | |  (u64)  | |   (u64)   | |    (u64)    | | (2 × u32)  |
//! +-------+ +-------+-------+-- +-------+ +---------+ +-----------+ +-------------+ +------------+
//! block   records, one after the other: what the key shares with the one before it, the rest of it, and the value (postcard)
//! index   for each block its length (u32), its crc32c (u32), the length of its first key (u32), and that key
//! ```
//! Numbers are little-endian. The checksums are those of the index and of what stands before them in the last 32 bytes. Of a
//! table just the index is in memory, and the block that was looked into last.

use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::record_log::check_ours;
use crate::sys::confined::Root;
use crate::sys::fs::{self, Mode, OFlags, fstat};

/// What a block may grow to before another one begins; one record is whole in any case.
const BLOCK: usize = 16 << 10;

/// What is written at a time.
const PORTION: usize = 1 << 20;

const MAGIC_LENGTH: usize = 8;
const END_LENGTH: usize = 32;

/// Longest index; a longer one is damage.
const MAX_INDEX: u64 = 1 << 30;

/// A table that is there.
#[derive(Debug)]
pub(crate) struct Table<V> {
    content: Arc<Content>,
    /// The block that was looked into last.
    block: Option<(usize, Vec<(Vec<u8>, V)>)>,
}

#[derive(Debug)]
struct Content {
    file: OwnedFd,
    name: String,
    blocks: Vec<Block>,
    /// First keys of the blocks, one after the other.
    keys: Vec<u8>,
    size: TableSize,
}

/// How many records a table has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TableSize {
    /// Now.
    pub records: u64,
    /// When those of files that are gone were forgotten last.
    pub(crate) last_seen: u64,
}

#[derive(Debug)]
struct Block {
    at: u64,
    length: u32,
    checksum: u32,
    first: Range<usize>,
}

impl<V: for<'a> Deserialize<'a>> Table<V> {
    /// The table `name`; `None` if there is none, or none that can be used.
    ///
    /// # Errors
    /// It cannot be read, or is somebody else's.
    pub fn open(directory: &Root, name: &str, magic: &[u8; MAGIC_LENGTH]) -> Result<Option<Self>> {
        let failed = |error: Errno| Error::io("open", name.as_bytes(), error);
        let flags = OFlags::RDONLY | OFlags::NONBLOCK;
        let file = match directory.open_beneath(name.as_bytes(), flags, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            file => file.map_err(failed)?,
        };
        check_ours(directory, &file, name)?;
        let content = Content::read(file, name, magic).map_err(failed)?;
        if content.is_none() {
            tracing::warn!("{name} is damaged or of another version: nothing of it is used");
        }
        Ok(content.map(|content| Self { content: Arc::new(content), block: None }))
    }

    /// How many records it has.
    pub fn size(&self) -> TableSize {
        self.content.size
    }

    /// The value of `key`.
    pub fn get(&mut self, key: &[u8]) -> Option<&V> {
        let at = self.content.block_of(key)?;
        if self.block.as_ref().is_none_or(|(there, _)| *there != at) {
            self.block = Some((at, self.content.records(at)));
        }
        let (_, records) = self.block.as_ref()?;
        let found = records.binary_search_by(|(there, _)| there[..].cmp(key)).ok()?;
        Some(&records[found].1)
    }

    /// All of it, in the order of the keys.
    pub fn records(&self) -> TableRecords<V> {
        TableRecords { content: Arc::clone(&self.content), next: 0, block: Vec::new().into_iter() }
    }
}

/// The records of a table, in the order of their keys.
#[derive(Debug)]
pub(crate) struct TableRecords<V> {
    content: Arc<Content>,
    next: usize,
    block: std::vec::IntoIter<(Vec<u8>, V)>,
}

impl<V: for<'a> Deserialize<'a>> Iterator for TableRecords<V> {
    type Item = (Vec<u8>, V);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(record) = self.block.next() {
                return Some(record);
            }
            if self.next == self.content.blocks.len() {
                return None;
            }
            self.block = self.content.records(self.next).into_iter();
            self.next += 1;
        }
    }
}

impl Content {
    /// `None` if this is no such table.
    fn read(file: OwnedFd, name: &str, magic: &[u8; MAGIC_LENGTH]) -> Result<Option<Self>, Errno> {
        let length = fstat(&file)?.st_size as u64;
        let mut head = [0; MAGIC_LENGTH];
        let mut end = [0; END_LENGTH];
        let Some(end_at) = length.checked_sub(END_LENGTH as u64).filter(|at| *at >= MAGIC_LENGTH as u64)
        else {
            return Ok(None);
        };
        if fs::read_at(&file, &mut head, 0)? < head.len() || fs::read_at(&file, &mut end, end_at)? < end.len()
        {
            return Ok(None);
        }
        let [records, last_seen, index_length] = [0, 8, 16].map(|at| long(&end, at));
        let is_whole = head == *magic && crc_fast::crc32_iscsi(&end[..28]) == number(&end, 28);
        let Some(index_at) =
            end_at.checked_sub(index_length).filter(|_| is_whole && index_length <= MAX_INDEX)
        else {
            return Ok(None);
        };
        let mut index = vec![0; index_length as usize];
        if fs::read_at(&file, &mut index, index_at)? < index.len()
            || crc_fast::crc32_iscsi(&index) != number(&end, 24)
        {
            return Ok(None);
        }
        let Some((blocks, keys)) = blocks(&index, index_at) else { return Ok(None) };
        let size = TableSize { records, last_seen };
        Ok(Some(Self { file, name: name.to_owned(), blocks, keys, size }))
    }

    /// The block that may have `key`.
    fn block_of(&self, key: &[u8]) -> Option<usize> {
        self.blocks.partition_point(|block| &self.keys[block.first.clone()] <= key).checked_sub(1)
    }

    /// What a block has: nothing if it is damaged, which is said.
    fn records<V: for<'a> Deserialize<'a>>(&self, at: usize) -> Vec<(Vec<u8>, V)> {
        let block = &self.blocks[at];
        let mut bytes = vec![0; block.length as usize];
        let read = fs::read_at(&self.file, &mut bytes, block.at);
        let is_whole =
            read.is_ok_and(|read| read == bytes.len() && crc_fast::crc32_iscsi(&bytes) == block.checksum);
        is_whole.then(|| decoded(&bytes)).flatten().unwrap_or_else(|| {
            tracing::warn!("{} is damaged: a part of it is not used", self.name);
            Vec::new()
        })
    }
}

/// The blocks that an index which stands at `end` names, and their first keys; `None` if it is none.
fn blocks(index: &[u8], end: u64) -> Option<(Vec<Block>, Vec<u8>)> {
    let (mut blocks, mut keys) = (Vec::new(), Vec::new());
    let (mut rest, mut at) = (index, MAGIC_LENGTH as u64);
    while !rest.is_empty() {
        let (head, after) = rest.split_at_checked(12)?;
        let (key, after) = after.split_at_checked(number(head, 8) as usize)?;
        let first = keys.len()..keys.len() + key.len();
        keys.extend_from_slice(key);
        let length = number(head, 0);
        blocks.push(Block { at, length, checksum: number(head, 4), first });
        at += u64::from(length);
        rest = after;
    }
    (at == end).then_some((blocks, keys))
}

fn decoded<V: for<'a> Deserialize<'a>>(mut bytes: &[u8]) -> Option<Vec<(Vec<u8>, V)>> {
    let mut records: Vec<(Vec<u8>, V)> = Vec::new();
    while !bytes.is_empty() {
        let ((shared, rest, value), after) = postcard::take_from_bytes::<(u32, &[u8], V)>(bytes).ok()?;
        let before = records.last().map_or(&[][..], |(key, _)| &key[..]);
        let key = [before.get(..shared as usize)?, rest].concat();
        records.push((key, value));
        bytes = after;
    }
    Some(records)
}

/// A table that is being written.
#[derive(Debug)]
pub(crate) struct TableWriter {
    file: OwnedFd,
    name: String,
    /// What was not written yet, and where it goes.
    pending: Vec<u8>,
    at: u64,
    block: Vec<u8>,
    first: Vec<u8>,
    last: Vec<u8>,
    index: Vec<u8>,
    records: u64,
}

impl TableWriter {
    /// Begins the table `name`, in the place of what an earlier try left.
    pub fn new(directory: &Root, name: &str, magic: &[u8; MAGIC_LENGTH]) -> Result<Self> {
        let _ = directory.remove(name.as_bytes());
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        let file = directory
            .open_beneath(name.as_bytes(), flags, Mode::RUSR | Mode::WUSR)
            .map_err(|error| Error::io("create", name.as_bytes(), error))?;
        Ok(Self {
            file,
            name: name.to_owned(),
            pending: magic.to_vec(),
            at: 0,
            block: Vec::new(),
            first: Vec::new(),
            last: Vec::new(),
            index: Vec::new(),
            records: 0,
        })
    }

    /// Adds a record, whose key is behind all before.
    pub fn push<V: Serialize>(&mut self, key: &[u8], value: &V) -> Result<()> {
        if self.block.len() >= BLOCK {
            self.end_block()?;
        }
        let mut shared = 0;
        if self.block.is_empty() {
            self.first = key.to_vec();
        } else {
            shared = self.last.iter().zip(key).take_while(|(before, now)| before == now).count();
        }
        let record = (shared as u32, &key[shared..], value);
        self.block =
            postcard::to_extend(&record, std::mem::take(&mut self.block)).expect("records are plain data");
        self.last.truncate(shared);
        self.last.extend_from_slice(&key[shared..]);
        self.records += 1;
        Ok(())
    }

    fn end_block(&mut self) -> Result<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        let head =
            [self.block.len() as u32, crc_fast::crc32_iscsi(&self.block) as u32, self.first.len() as u32];
        self.index.extend(head.iter().flat_map(|number| number.to_le_bytes()));
        self.index.extend_from_slice(&self.first);
        self.pending.append(&mut self.block);
        self.last.clear();
        if self.pending.len() >= PORTION { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<()> {
        fs::write_at(&self.file, &self.pending, self.at)
            .map_err(|error| Error::io("write", self.name.as_bytes(), error))?;
        self.at += self.pending.len() as u64;
        self.pending.clear();
        Ok(())
    }

    /// Makes all of it durable. `looked` if none of its files is known to be gone; else `last_seen` is of the table before.
    pub fn finish(mut self, last_seen: Option<u64>) -> Result<()> {
        self.end_block()?;
        let mut end = Vec::with_capacity(END_LENGTH);
        for number in [self.records, last_seen.unwrap_or(self.records), self.index.len() as u64] {
            end.extend_from_slice(&number.to_le_bytes());
        }
        end.extend_from_slice(&crc_fast::crc32_iscsi(&self.index).to_le_bytes());
        end.extend_from_slice(&crc_fast::crc32_iscsi(&end).to_le_bytes());
        self.pending.append(&mut self.index);
        self.pending.append(&mut end);
        self.write()?;
        fs::fdatasync(&self.file).map_err(|error| Error::io("write", self.name.as_bytes(), error))
    }
}

fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*bytes[at..].first_chunk().expect("four bytes"))
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(*bytes[at..].first_chunk().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use tidegate_control::Rng;

    use super::*;
    use crate::sys::confined::scratch;

    const MAGIC: &[u8; 8] = b"TGTEST01";

    fn written(root: &Root, records: &BTreeMap<Vec<u8>, u64>) {
        let mut table = TableWriter::new(root, "table", MAGIC).expect("begun");
        for (key, value) in records {
            table.push(key, value).expect("added");
        }
        table.finish(None).expect("written");
    }

    /// Keys that resemble one another, of all lengths up to `longest`.
    fn records(rng: &mut Rng, number: u16, longest: u16) -> BTreeMap<Vec<u8>, u64> {
        let key =
            |rng: &mut Rng| (0..rng.integer(0, longest)).map(|_| rng.integer(0, 1) as u8 * 255).collect();
        (0..number).map(|_| (key(rng), rng.next_u64())).collect()
    }

    #[test]
    fn each_key_has_its_value_and_others_have_none() {
        for seed in 0..6 {
            println!("seed {seed}");
            let (mut rng, (_directory, root)) = (Rng::new(seed), scratch());
            let longest = [12, 400, u16::MAX][seed as usize % 3];
            let mut all = records(&mut rng, if longest == u16::MAX { 30 } else { 3000 }, longest);
            let absent: Vec<_> = all.keys().filter(|_| rng.unit() < 0.2).cloned().collect();
            all.retain(|key, _| absent.binary_search(key).is_err());
            written(&root, &all);
            let mut table = Table::<u64>::open(&root, "table", MAGIC).expect("opened").expect("there");
            assert_eq!(table.size().records, all.len() as u64);
            assert!(table.records().eq(all.clone()));
            assert!(all.iter().all(|(key, value)| table.get(key) == Some(value)));
            assert!(absent.iter().all(|key| table.get(key).is_none()));
        }
        let (_directory, root) = scratch();
        assert!(Table::<u64>::open(&root, "table", MAGIC).expect("opened").is_none());
        written(&root, &BTreeMap::new());
        let mut none = Table::<u64>::open(&root, "table", MAGIC).expect("opened").expect("there");
        assert!(none.records().next().is_none() && none.get(b"").is_none());
    }

    #[test]
    fn what_is_damaged_is_not_believed() {
        let (mut rng, (directory, root)) = (Rng::new(7), scratch());
        let all = records(&mut rng, 4000, 12);
        written(&root, &all);
        let path = directory.path().join("table");
        let whole = std::fs::read(&path).expect("read");
        let tail = whole.len() - 60..whole.len();
        let places: Vec<_> = (0..40).map(|_| rng.next_u64() as usize % whole.len()).chain(tail).collect();
        for at in places {
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << (rng.next_u64() % 8);
            for damaged in [&flipped[..], &whole[..at]] {
                std::fs::write(&path, damaged).expect("written");
                let Some(mut table) = Table::<u64>::open(&root, "table", MAGIC).expect("opened") else {
                    continue;
                };
                assert_eq!(damaged.len(), whole.len(), "what was cut off at {at} is taken for a table");
                let known = all.iter().filter(|(key, value)| {
                    let found = table.get(key);
                    assert!(found.is_none_or(|found| found == *value), "flipped at {at}");
                    found.is_some()
                });
                assert!(known.count() < all.len(), "flipped at {at}");
            }
        }
    }
}
