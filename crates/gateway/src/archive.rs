//! A directory with all beneath it as one file, made while it is sent: a tar, or a zip.

mod tar;
mod zip;

use std::io;
use std::str::FromStr;

use axum::body::{Body, Bytes};
use tidegate_transfer::endpoint::access::Access;
use tidegate_transfer::manifest::Timestamp;
use tidegate_transfer::path::{inside, split};

use crate::body::streamed;
use crate::tree::{self, Directory, File, Found, Item};

/// Names that are read ahead in one directory.
const PAGE: usize = 1000;

/// What kind of archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// As POSIX has it.
    Tar,
    /// Not compressed.
    Zip,
}

impl Format {
    /// How its name ends.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Tar => "tar",
            Self::Zip => "zip",
        }
    }

    /// What it is said to be.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Tar => "application/x-tar",
            Self::Zip => "application/zip",
        }
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = [Self::Tar, Self::Zip].into_iter().find(|format| format.extension() == text);
        known.ok_or_else(|| "an archive is a tar or a zip".to_owned())
    }
}

/// Something that goes into an archive.
struct Member {
    /// Its name there.
    name: Vec<u8>,
    modified: Timestamp,
    /// `None` for a directory.
    file: Option<File>,
}

/// Writes one kind of archive.
trait Writer: Send + 'static {
    /// What comes before a member's content.
    fn begin(&mut self, member: &Member) -> io::Result<Vec<u8>>;

    /// Takes note of a piece of its content.
    fn note(&mut self, piece: &[u8]);

    /// What comes behind it.
    fn end(&mut self, member: &Member) -> Vec<u8>;

    /// What comes behind all.
    fn finish(&mut self) -> Vec<u8>;
}

/// The archive of `directory`, which can be named only once it is there: a failure on the way cuts it off.
pub fn body(access: &Access, directory: &Directory, format: Format) -> Body {
    let walk = Walk::new(access.clone(), directory);
    match format {
        Format::Tar => written(walk, tar::Tar::default()),
        Format::Zip => written(walk, zip::Zip::default()),
    }
}

/// What an archive of the directory at `path` is called.
pub fn name(path: &[u8], format: Format) -> Vec<u8> {
    let name = match split(path).1 {
        b"" => b"files",
        name => name,
    };
    [name, b".", format.extension().as_bytes()].concat()
}

fn written(walk: Walk, writer: impl Writer) -> Body {
    let mut state = (walk, writer, None::<(Member, tree::Pieces)>, false);
    streamed(Box::new(std::iter::from_fn(move || next(&mut state).transpose())))
}

/// The next piece of an archive.
fn next<W: Writer>(
    (walk, writer, current, is_over): &mut (Walk, W, Option<(Member, tree::Pieces)>, bool),
) -> io::Result<Option<Bytes>> {
    if let Some((_, pieces)) = current
        && let Some(piece) = pieces.next()
    {
        let piece = piece?;
        writer.note(&piece);
        return Ok(Some(piece));
    }
    // Small members come together, so that each is not a piece of its own.
    let mut small = current.take().map_or_else(Vec::new, |(member, _)| writer.end(&member));
    if let Some(member) = walk.next().transpose()? {
        small.extend(writer.begin(&member)?);
        let pieces = match &member.file {
            Some(file) => file.pieces(0..file.size),
            None => tree::Pieces::none(),
        };
        *current = Some((member, pieces));
        return Ok(Some(small.into()));
    }
    if !std::mem::replace(is_over, true) {
        small.extend(writer.finish());
        return Ok(Some(small.into()));
    }
    Ok(None)
}

/// Everything beneath a directory, each directory before what is in it.
struct Walk {
    access: Access,
    top: usize,
    open: Vec<Level>,
}

/// A directory on the way.
struct Level {
    path: Vec<u8>,
    items: std::vec::IntoIter<Item>,
    /// The key of the last one that was taken, and whether more come behind those at hand.
    last: Vec<u8>,
    more: bool,
}

impl Walk {
    fn new(access: Access, directory: &Directory) -> Self {
        let path = directory.path().to_vec();
        let top = if path.is_empty() { 0 } else { path.len() + 1 };
        Self { access, top, open: vec![Level::of(path)] }
    }
}

impl Level {
    fn of(path: Vec<u8>) -> Self {
        Self { path, items: Vec::new().into_iter(), last: Vec::new(), more: true }
    }

    fn next(&mut self, access: &Access) -> io::Result<Option<Item>> {
        if self.items.len() == 0 && self.more {
            let Found::Directory(directory) = tree::open(access, &self.path).map_err(io::Error::other)?
            else {
                return Ok(None);
            };
            let (items, more) = directory.list(access, &self.last, PAGE).map_err(io::Error::other)?;
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

impl Iterator for Walk {
    type Item = io::Result<Member>;

    fn next(&mut self) -> Option<Self::Item> {
        while let Some(level) = self.open.last_mut() {
            let item = match level.next(&self.access) {
                Ok(Some(item)) => item,
                Ok(None) => {
                    self.open.pop();
                    continue;
                }
                Err(error) => return Some(Err(error)),
            };
            if item.is_directory() && item.by_link {
                continue;
            }
            let path = inside(&level.path, &item.name);
            let name = path[self.top..].to_vec();
            let modified = item.version.modified;
            if item.is_directory() {
                self.open.push(Level::of(path));
                return Some(Ok(Member { name, modified, file: None }));
            }
            // What cannot be read is left out, as in a listing; what breaks off in the middle is not.
            if let Ok(Found::File(file)) = tree::open(&self.access, &path) {
                return Some(Ok(Member { name, modified, file: Some(file) }));
            }
        }
        None
    }
}
