//! A directory with all beneath it as one file, made while it is sent: a tar, or a zip.

mod tar;
mod zip;

use std::io;
use std::str::FromStr;

use axum::body::{Body, Bytes};
use tidegate_transfer::endpoint::access::Access;
use tidegate_transfer::error::{ErrorKind, Result};
use tidegate_transfer::manifest::Timestamp;
use tidegate_transfer::path::{inside, split};

use crate::body::{MAX_HELD, Pieces, TEXT, streamed};
use crate::limit::Share;
use crate::pages::{Extent, Pages, enter};
use crate::refusal::Answer;
use crate::tree::{self, Directory, File, FilePieces, Found};

/// What kind of archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
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
    fn end(&mut self, member: &Member) -> io::Result<Vec<u8>>;

    /// The next piece of what comes behind all; nothing once that is over.
    fn finish(&mut self) -> io::Result<Option<Vec<u8>>>;
}

/// The archive of `directory`, which can be named only once it is there: a failure on the way cuts it off.
pub fn body(access: &Access, share: &Share, directory: &Directory, format: Format) -> Answer<Body> {
    let held = share.memory(MAX_HELD + Extent::All.memory() + zip::MAX_MEMORY)?;
    let walk = Walk::new(access.clone(), directory);
    let pieces = match format {
        Format::Tar => written(walk, tar::Tar::default()),
        Format::Zip => written(walk, zip::Zip::new(access.clone(), share.scratch()?)),
    };
    Ok(streamed(access, held, pieces))
}

/// What an archive of the directory at `path` is called.
pub fn name(path: &[u8], format: Format) -> Vec<u8> {
    let name = match split(path).1 {
        b"" => b"files",
        name => name,
    };
    [name, b".", format.extension().as_bytes()].concat()
}

fn written(mut walk: Walk, mut writer: impl Writer) -> Pieces {
    let (mut current, mut is_over) = (None, false);
    Box::new(std::iter::from_fn(move || next(&mut walk, &mut writer, &mut current, &mut is_over).transpose()))
}

/// The next piece of an archive.
fn next(
    walk: &mut Walk,
    writer: &mut impl Writer,
    current: &mut Option<(Member, FilePieces)>,
    is_over: &mut bool,
) -> io::Result<Option<Bytes>> {
    // Small members come together, so that each is not a piece of its own.
    let mut small = Vec::new();
    while small.len() < TEXT {
        if let Some((member, pieces)) = current {
            match pieces.next().transpose()? {
                Some(piece) => {
                    writer.note(&piece);
                    if small.is_empty() {
                        return Ok(Some(piece));
                    }
                    small.extend_from_slice(&piece);
                    continue;
                }
                None => small.extend(writer.end(member)?),
            }
            *current = None;
        }
        let member = if *is_over { None } else { walk.next().map_err(io::Error::other)? };
        let Some(member) = member else {
            *is_over = true;
            match writer.finish()? {
                Some(piece) => small.extend(piece),
                None => break,
            }
            continue;
        };
        small.extend(writer.begin(&member)?);
        let pieces = match &member.file {
            Some(file) => file.pieces(0..file.size),
            None => FilePieces::none(),
        };
        *current = Some((member, pieces));
    }
    Ok((!small.is_empty()).then(|| small.into()))
}

/// Everything beneath a directory, each directory before what is in it.
struct Walk {
    access: Access,
    top: usize,
    open: Vec<Pages>,
}

impl Walk {
    fn new(access: Access, directory: &Directory) -> Self {
        let path = directory.path().to_vec();
        let top = if path.is_empty() { 0 } else { path.len() + 1 };
        Self { access, top, open: vec![Pages::new(path, Vec::new(), Extent::All)] }
    }

    fn next(&mut self) -> Result<Option<Member>> {
        while let Some(pages) = self.open.last_mut() {
            let Some(key) = pages.next(&self.access)? else {
                self.open.pop();
                continue;
            };
            let Some(item) = pages.at(&self.access, &key)? else { continue };
            if item.is_directory() && item.by_link {
                continue;
            }
            let path = inside(pages.path(), &item.name);
            let name = path[self.top..].to_vec();
            let modified = item.version.modified;
            if item.is_directory() {
                enter(self.open.iter_mut());
                self.open.push(Pages::new(path, Vec::new(), Extent::All));
                return Ok(Some(Member { name, modified, file: None }));
            }
            match tree::open(&self.access, &path) {
                Ok(Found::File(file)) => return Ok(Some(Member { name, modified, file: Some(file) })),
                // It has become a directory, or is gone: it is no file any more.
                Ok(Found::Directory(_)) => {}
                Err(error) if error.kind == ErrorKind::NotFound => {}
                // What cannot be read must not be missed unseen.
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }
}
