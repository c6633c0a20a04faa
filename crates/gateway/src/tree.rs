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
use tidegate_transfer::sys::fs::{Dir, FileType, Mode, OFlags, Stat, fstat};
use tidegate_transfer::sys::identity::{fingerprint, identity, with_ancestors};
use tidegate_transfer::wire::files::FileRange;

use crate::validators::Validators;

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
pub struct File {
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
pub struct Directory {
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
    pub by_link: bool,
}

impl Item {
    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        self.size.is_none()
    }

    /// What it is ordered by, so that whole trees come in the order of their paths' bytes: a directory's name has a slash
    /// behind it.
    pub fn key(&self) -> Vec<u8> {
        key(&self.name, self.is_directory())
    }
}

fn key(name: &[u8], is_directory: bool) -> Vec<u8> {
    [name, if is_directory { b"/" } else { b"" }].concat()
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
pub struct FilePieces {
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

    /// The first things in it behind `after`, in the order of their [keys](Item::key), at most so many; and whether there
    /// are more.
    pub fn list(&self, access: &Access, after: &[u8], most: usize) -> Result<(Vec<Item>, bool)> {
        let failed = |error| Error::io("list", self.path(), error);
        let mut first: BinaryHeap<(Vec<u8>, usize)> = BinaryHeap::new();
        let mut more = false;
        for entry in Dir::read_from(&self.root).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") || is_reserved(name) {
                continue;
            }
            let is_directory = match entry.file_type() {
                FileType::Directory => true,
                FileType::RegularFile => false,
                FileType::Symlink | FileType::Unknown => match self.item(access, name) {
                    Some(item) => item.is_directory(),
                    None => continue,
                },
                _ => continue,
            };
            let key = key(name, is_directory);
            if &key[..] <= after {
                continue;
            }
            first.push((key, name.len()));
            if first.len() > most {
                first.pop();
                more = true;
            }
        }
        // What vanished meanwhile is left out.
        let first = first.into_sorted_vec();
        let items = first.iter().filter_map(|(key, length)| self.item(access, &key[..*length])).collect();
        Ok((items, more))
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
