//! What was named as a source: a directory's contents, a directory, or a file.

use std::os::fd::OwnedFd;

use rustix::io::Errno;

use crate::error::{Error, ErrorKind, Result};
use crate::path::{RelPath, split};
use crate::spec::SourceRoot;
use crate::store::named::{Reached, Scope};
use crate::sys::confined::{self, Root};
use crate::sys::fs::{FileType, Mode, OFlags, fstat};
use crate::sys::identity::identity;
use crate::terms::Links;
use crate::text::show;

/// One argument: a directory's contents under a prefix, or one file.
#[derive(Debug)]
pub(super) struct Tree {
    /// What everything is opened beneath.
    pub(super) base: Root,
    /// What entries' paths begin with at the destination; empty for `dir/`.
    pub(super) prefix: Vec<u8>,
    place: Place,
    /// The argument as typed, without trailing slashes.
    named: Vec<u8>,
    /// Whether a link led to it.
    linked: bool,
}

/// What of a tree's base is meant.
#[derive(Debug)]
enum Place {
    /// All of it.
    Directory,
    /// The file of this name and nothing else: links were followed on the way here, and none is any more.
    File(Vec<u8>),
}

impl Tree {
    /// What the local user named, who is trusted.
    pub(super) fn local(path: &[u8]) -> Result<Self> {
        let failed = |error| Error::io("read", path, error);
        let (trimmed, contents) = trim(path);
        let stat = confined::stat_trusted(trimmed).map_err(failed)?;
        // Symlinks, `.` and `..` in what the user typed are resolved here, once.
        let real = confined::canonical(trimmed).map_err(failed)?;
        let (parent, name) = match real.iter().rposition(|&b| b == b'/') {
            Some(0) => (&b"/"[..], &real[1..]),
            Some(slash) => (&real[..slash], &real[slash + 1..]),
            None => (&b"."[..], &real[..]),
        };
        let (named, linked) = (trimmed.to_vec(), confined::is_link(trimmed));
        if FileType::from_raw_mode(stat.st_mode).is_dir() {
            let prefix = if contents || is_dots(trimmed) { Vec::new() } else { last_name(trimmed, name) };
            let base = Root::open(&real).map_err(failed)?;
            return Ok(Self { base, prefix, place: Place::Directory, named, linked });
        }
        let base = Root::open(parent).map_err(failed)?;
        Ok(Self { base, prefix: last_name(trimmed, name), place: Place::File(name.to_vec()), named, linked })
    }

    /// What a peer named.
    pub(super) fn beneath(scope: &Scope<'_>, path: &[u8]) -> Result<Self> {
        let failed = |error| Error::io("read", path, error);
        let (trimmed, contents) = trim(path);
        let named = trimmed.to_vec();
        let name = match trimmed.is_empty() {
            true => Vec::new(),
            false => RelPath::new(trimmed)?.split().1.to_vec(),
        };
        let Reached { base, rest, by_link: linked } = scope.reach(trimmed)?;
        let base = match rest.is_empty() {
            true => base,
            false => {
                let (parent, last) = split(&rest);
                let parent = base.dir(parent).map_err(failed)?;
                let stat = parent.stat(last).map_err(failed)?;
                if !FileType::from_raw_mode(stat.st_mode).is_dir() {
                    let place = Place::File(last.to_vec());
                    return Ok(Self { base: parent, place, prefix: name, named, linked });
                }
                parent.dir(last).map_err(failed)?
            }
        };
        let prefix = if contents { Vec::new() } else { name };
        Ok(Self { base, prefix, place: Place::Directory, named, linked })
    }

    /// The one file's name in the base; `None` for a directory.
    pub(super) fn file(&self) -> Option<&[u8]> {
        match &self.place {
            Place::Directory => None,
            Place::File(name) => Some(name),
        }
    }

    /// What it is called at the destination, and which directory or file it is.
    pub(super) fn root(&self, links: Links) -> Option<SourceRoot> {
        let stat = match self.file() {
            None => fstat(&self.base),
            Some(inner) => match self.links(links) {
                Links::Follow => self.open_following(inner, OFlags::PATH).and_then(|file| fstat(&file)),
                _ => return None,
            },
        };
        Some(SourceRoot { name: self.prefix.clone(), identity: identity(&stat.ok()?) })
    }

    /// What to do about links: one that was named is followed.
    pub(super) fn links(&self, otherwise: Links) -> Links {
        if self.file().is_some() { Links::Follow } else { otherwise }
    }

    /// Opens what `inner` leads to, by way of links that stay within what may be opened.
    pub(super) fn open_following(&self, inner: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        match self.place {
            Place::File(_) => match self.base.open_beneath(inner, flags, Mode::empty()) {
                Err(Errno::LOOP) => Err(Errno::XDEV),
                opened => opened,
            },
            Place::Directory => self.base.open_following(inner, flags),
        }
    }

    /// What it is called at the destination; `None` for a directory's contents.
    pub(super) fn name(&self) -> Option<&[u8]> {
        (self.file().is_some() || !self.prefix.is_empty()).then_some(&self.prefix[..])
    }

    /// Whether a link led to it.
    pub(super) fn is_linked(&self) -> bool {
        self.linked
    }

    /// Why it cannot be moved away.
    pub(super) fn is_link(&self) -> Error {
        let named = show(&self.named);
        let why = format!("{named} is a link, and --move would remove what it leads to: name that");
        Error::new(ErrorKind::Usage, why)
    }

    /// Device and inode of the directory.
    pub(super) fn id(&self) -> Option<(u64, u64)> {
        fstat(&self.base).ok().map(|stat| (stat.st_dev, stat.st_ino))
    }

    /// Why it and an earlier one cannot be copied together: they are one thing at the destination.
    pub(super) fn doubles(&self, earlier: &Self) -> Error {
        let why = match self.name() {
            Some(name) => format!(
                "{} and {} would both become {} at the destination: copy them apart",
                show(&earlier.named),
                show(&self.named),
                show(name)
            ),
            None => {
                format!(
                    "{} and {} are the same directory: name it once",
                    show(&earlier.named),
                    show(&self.named)
                )
            }
        };
        Error::new(ErrorKind::Usage, why)
    }

    /// What this tree puts at `path` of the destination; `None` if nothing.
    pub(super) fn bears(&self, path: &[u8], links: Links) -> Option<FileType> {
        let inner = match self.file() {
            Some(inner) if path == self.prefix => inner,
            Some(_) => return None,
            None if self.prefix.is_empty() => path,
            None if path == self.prefix => return Some(FileType::Directory),
            None => path.strip_prefix(&self.prefix[..])?.strip_prefix(b"/")?,
        };
        let found = match self.links(links) {
            Links::Follow => self.open_following(inner, OFlags::PATH),
            _ => self.base.open_beneath(inner, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty()),
        };
        let kind = FileType::from_raw_mode(fstat(&found.ok()?).ok()?.st_mode);
        let is_copied = kind.is_file() || kind.is_dir() || (kind.is_symlink() && links == Links::Keep);
        is_copied.then_some(kind)
    }

    /// `inner` of this tree cannot have the name `place`: an earlier tree has it.
    pub(super) fn clash(&self, inner: &[u8], earlier: &Self, place: &RelPath) -> Error {
        let first = match earlier.file() {
            Some(_) => show(&earlier.named).into_owned(),
            None => earlier.source_of(place.as_bytes()),
        };
        let second = match (self.file(), inner) {
            (Some(_), _) | (None, b"") => show(&self.named).into_owned(),
            (None, inner) => show(&[&self.named[..], b"/", inner].concat()).into_owned(),
        };
        let why = format!("{first} and {second} would both become {place}: only the first is copied");
        Error::new(ErrorKind::Usage, why)
    }

    fn source_of(&self, place: &[u8]) -> String {
        let inner = match self.prefix.is_empty() {
            true => place,
            false => place.get(self.prefix.len() + 1..).unwrap_or_default(),
        };
        match inner.is_empty() {
            true => show(&self.named).into_owned(),
            false => show(&[&self.named[..], b"/", inner].concat()).into_owned(),
        }
    }
}

/// The path without trailing slashes, and whether it had one.
fn trim(path: &[u8]) -> (&[u8], bool) {
    let end = path.iter().rposition(|&b| b != b'/').map_or(0, |last| last + 1);
    if end == 0 && path.first() == Some(&b'/') {
        (&path[..1], true)
    } else {
        (&path[..end], end < path.len())
    }
}

/// Whether `name` is `.` or `..`.
pub(super) fn is_dots(name: &[u8]) -> bool {
    name == b"." || name == b".."
}

/// The name the user typed, or the real one where what was typed ends in dots.
fn last_name(typed: &[u8], real: &[u8]) -> Vec<u8> {
    let name = typed.rsplit(|&b| b == b'/').next().unwrap_or(typed);
    if is_dots(name) || name.is_empty() { real.to_vec() } else { name.to_vec() }
}
