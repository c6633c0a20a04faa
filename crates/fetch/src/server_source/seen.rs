//! Which names were listed so far, by their hashes: sixteen bytes a name are all that is kept.

use std::collections::HashMap;

use tidegate_transfer::path::split;

/// Names and what they are.
#[derive(Debug, Default)]
pub(super) struct Seen(HashMap<[u8; 16], Known>);

/// What bears a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// A file.
    File,
    /// A directory that rules exclude.
    Excluded,
    /// A directory that was not offered yet.
    Directory,
    /// One that was.
    Offered,
}

impl Seen {
    /// What bears the name `path`, if anything does so far.
    pub fn get(&self, path: &[u8]) -> Option<Known> {
        self.0.get(&key(path)).copied()
    }

    /// Something does.
    pub fn set(&mut self, path: &[u8], known: Known) {
        self.0.insert(key(path), known);
    }

    /// Takes the directories on the way to `path` that were not offered yet, the topmost first.
    pub fn take_unoffered<'p>(&mut self, path: &'p [u8]) -> Vec<&'p [u8]> {
        let mut left = Vec::new();
        let mut parent = split(path).0;
        while !parent.is_empty() && self.get(parent) == Some(Known::Directory) {
            self.set(parent, Known::Offered);
            left.push(parent);
            parent = split(parent).0;
        }
        left.reverse();
        left
    }
}

/// The directories on the way to `path`, the topmost first.
pub(crate) fn above(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(end, _)| &path[..end])
}

/// Sixteen bytes that stand for `path`.
pub(crate) fn key(path: &[u8]) -> [u8; 16] {
    *blake3::hash(path).as_bytes().first_chunk().expect("long enough")
}
