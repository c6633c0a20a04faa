//! What is served: files and directories beneath the root, as far as a token opens them.

use std::collections::BinaryHeap;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use axum::body::Bytes;
use data_encoding::HEXLOWER;
use tidegate_transfer::endpoint::access::{Access, Right};
use tidegate_transfer::error::{Error, Result};
use tidegate_transfer::hash::Digest;
use tidegate_transfer::manifest::{BLOCK, Timestamp};
use tidegate_transfer::path::{inside, is_reserved};
use tidegate_transfer::store::browse::{self, OpenFile, OpenPath};
use tidegate_transfer::sys::confined::Root;
use tidegate_transfer::sys::fs::{Dir, DirEntry, FileType, Mode, OFlags, Stat, fstat};
use tidegate_transfer::sys::identity::{fingerprint, identity, with_ancestors};
use tidegate_transfer::wire::files::FileRange;

use crate::validators::Validators;

/// Most bytes of keys that are at hand at a time.
const MAX_KEYS: usize = 1 << 20;

/// Most bytes that it takes to find out the [keys](Directory::keys) of so many items.
pub(crate) const fn listing(most: usize) -> usize {
    let names = most * 256;
    (if names < MAX_KEYS { 2 * names } else { 2 * MAX_KEYS }) + most * 48
}

/// What a path leads to.
#[derive(Debug)]
pub enum Found {
    /// A regular file.
    File(File),
    /// A directory.
    Directory(Directory),
}

/// An open file.
#[derive(Clone, Debug)]
pub(crate) struct File {
    file: Arc<OpenFile>,
    /// Its size when it was opened.
    pub size: u64,
    /// Which version that was.
    pub version: Validators,
    /// Its permission bits.
    pub mode: u32,
}

/// An open directory.
#[derive(Debug)]
pub(crate) struct Directory {
    root: Root,
    path: Vec<u8>,
    /// When something was put there or removed last.
    pub modified: Timestamp,
}

/// Something in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// What it is called there.
    pub name: Vec<u8>,
    /// Its size; `None` for a directory.
    pub size: Option<u64>,
    /// Which version is there.
    pub version: Validators,
    /// Whether a link leads there. Whole trees are taken without the directories that links lead to, which may be those
    /// that contain them.
    pub(crate) by_link: bool,
}

impl Item {
    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        self.size.is_none()
    }
}

/// What an item is ordered by, so that whole trees come in the order of their paths' bytes: a directory's name has a slash
/// behind it.
fn key(name: &[u8], is_directory: bool) -> Vec<u8> {
    [name, if is_directory { b"/" } else { b"" }].concat()
}

fn name_of(key: &[u8]) -> &[u8] {
    key.strip_suffix(b"/").unwrap_or(key)
}

/// Keys of a directory's items, one after the other.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    text: Vec<u8>,
    /// Where each ends, the last first.
    ends: Vec<u32>,
    begin: usize,
}

impl Keys {
    fn new(keys: Vec<Box<[u8]>>, bytes: usize) -> Self {
        let (mut text, mut ends) = (Vec::with_capacity(bytes), Vec::with_capacity(keys.len()));
        for key in keys {
            text.extend_from_slice(&key);
            ends.push(text.len() as u32);
        }
        ends.reverse();
        Self { text, ends, begin: 0 }
    }

    /// How many are left.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// The last of them, if any is left.
    pub fn end(&self) -> Option<&[u8]> {
        let begin = self.ends.get(1).map_or(self.begin, |end| *end as usize);
        (!self.ends.is_empty()).then(|| &self.text[begin..])
    }

    /// What they take in memory.
    pub fn memory(&self) -> usize {
        self.text.capacity() + self.ends.capacity() * size_of::<u32>()
    }
}

impl Iterator for Keys {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        let end = self.ends.pop()? as usize;
        let begin = std::mem::replace(&mut self.begin, end);
        Some(self.text[begin..end].to_vec())
    }
}

/// Opens what is at `path` for reading.
pub fn open(access: &Access, path: &[u8]) -> Result<Found> {
    let scope = access.scope(path, Right::Read)?;
    match browse::open(&scope, path.strip_suffix(b"/").unwrap_or(path))? {
        OpenPath::Directory(root) => {
            let failed = |error| Error::io("open", path, error);
            let modified = modified(&fstat(&root).map_err(failed)?);
            Ok(Found::Directory(Directory { root, path: path.to_vec(), modified }))
        }
        OpenPath::File(file) => {
            let (file, stat) = file.pinned()?;
            let (size, version, mode) = (stat.st_size as u64, version(&stat), stat.st_mode & 0o777);
            Ok(Found::File(File { file: Arc::new(file), size, version, mode }))
        }
    }
}

fn modified(stat: &Stat) -> Timestamp {
    Timestamp { seconds: stat.st_mtime, nanoseconds: stat.st_mtime_nsec as u32 }
}

/// The tag is shorter than an MD5, for which clients would take it.
fn version(stat: &Stat) -> Validators {
    let tag = format!("\"{}\"", HEXLOWER.encode(&fingerprint(stat)[..12]));
    Validators { tag, modified: modified(stat) }
}

impl File {
    /// Its BLAKE3; an error once it is another version, or `over`.
    pub fn digest(&self, over: &dyn Fn() -> bool) -> Result<Digest> {
        self.file.digest(over)
    }

    /// What `range` holds, piece by piece; an error once the file is another version.
    pub fn pieces(&self, range: Range<u64>) -> FilePieces {
        FilePieces { file: Some(self.clone()), range }
    }
}

/// What a file holds, piece by piece.
#[derive(Debug)]
pub(crate) struct FilePieces {
    file: Option<File>,
    range: Range<u64>,
}

impl FilePieces {
    /// Those of nothing.
    pub fn none() -> Self {
        Self { file: None, range: 0..0 }
    }
}

impl Iterator for FilePieces {
    type Item = io::Result<Bytes>;

    fn next(&mut self) -> Option<Self::Item> {
        let file = self.file.as_ref().filter(|_| !self.range.is_empty())?;
        let length = (self.range.end - self.range.start).min(BLOCK) as u32;
        let piece = file.file.read(FileRange { offset: self.range.start, length });
        self.range.start += u64::from(length);
        Some(match piece {
            Ok(piece) if piece.len() == length as usize => Ok(piece.into()),
            Ok(_) => Err(io::Error::other("the file ended while it was sent")),
            Err(error) => Err(io::Error::other(error)),
        })
    }
}

impl Directory {
    /// Its path beneath the root, without a slash at its end.
    pub fn path(&self) -> &[u8] {
        self.path.strip_suffix(b"/").unwrap_or(&self.path)
    }

    /// The keys of the first things in it behind `after`, in their order, at most so many and of [`MAX_KEYS`] bytes;
    /// and whether there are more.
    pub fn keys(&self, access: &Access, after: &[u8], most: usize) -> Result<(Keys, bool)> {
        let failed = |error| Error::io("list", self.path(), error);
        let mut first: BinaryHeap<Box<[u8]>> = BinaryHeap::new();
        let (mut bytes, mut more) = (0, false);
        for entry in Dir::read_from(&self.root).map_err(failed)? {
            let Some(key) = self.key(access, &entry.map_err(failed)?) else { continue };
            if &key[..] <= after || (more && first.peek().is_some_and(|last| *key > **last)) {
                continue;
            }
            bytes += key.len();
            first.push(key.into());
            while first.len() > most || bytes > MAX_KEYS {
                bytes -= first.pop().map_or(0, |last| last.len());
                more = true;
            }
        }
        Ok((Keys::new(first.into_sorted_vec(), bytes), more))
    }

    /// The key of what is served of a directory.
    fn key(&self, access: &Access, entry: &DirEntry) -> Option<Vec<u8>> {
        let name = entry.file_name().to_bytes();
        if matches!(name, b"." | b"..") || is_reserved(name) {
            return None;
        }
        let is_directory = match entry.file_type() {
            FileType::Directory => true,
            FileType::RegularFile => false,
            FileType::Symlink | FileType::Unknown => self.item(access, name)?.is_directory(),
            _ => return None,
        };
        Some(key(name, is_directory))
    }

    /// All that is in it, in no order.
    pub fn all(self, access: &Access) -> Result<impl Iterator<Item = Result<Item>> + Send + use<>> {
        let access = access.clone();
        let mut entries =
            Dir::read_from(&self.root).map_err(|error| Error::io("list", self.path(), error))?;
        Ok(std::iter::from_fn(move || {
            loop {
                match entries.next()? {
                    Err(error) => return Some(Err(Error::io("list", self.path(), error))),
                    Ok(entry) => {
                        let key = self.key(&access, &entry);
                        // What vanished meanwhile is left out.
                        if let Some(item) = key.and_then(|key| self.item(&access, name_of(&key))) {
                            return Some(Ok(item));
                        }
                    }
                }
            }
        }))
    }

    /// What has the key; `None` if it vanished meanwhile.
    pub fn at(&self, access: &Access, key: &[u8]) -> Option<Item> {
        self.item(access, name_of(key))
    }

    /// What is called `name`; `None` for what is not served.
    fn item(&self, access: &Access, name: &[u8]) -> Option<Item> {
        let mut stat = self.root.stat(name).ok()?;
        let by_link = FileType::from_raw_mode(stat.st_mode).is_symlink();
        if by_link {
            let reached = access.reach(&inside(self.path(), name), Right::Read).ok()?;
            let opened = match &reached.rest[..] {
                b"" => reached.base.dir(b"").and_then(fstat),
                rest => reached.base.open_beneath(rest, OFlags::PATH, Mode::empty()).and_then(fstat),
            };
            stat = opened.ok()?;
            // A link to what contains it would make a tree without end of it.
            if with_ancestors(&self.root).contains(&identity(&stat)) {
                return None;
            }
        }
        let size = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Some(stat.st_size as u64),
            FileType::Directory => None,
            _ => return None,
        };
        Some(Item { name: name.to_vec(), size, version: version(&stat), by_link })
    }
}
