//! What a listing named, directory by directory, for a mirror.

use std::collections::BTreeMap;

use tidegate_transfer::error::{Error, ErrorKind, Result};
use tidegate_transfer::offer::DirectoryNames;
use tidegate_transfer::path::split;
use tidegate_transfer::sys::sync::Mutex;

/// Bytes of names told at a time.
const PORTION: usize = 256 << 10;

/// The names that rules do not hide, also of files that are not offered.
#[derive(Debug, Default)]
pub(crate) struct ListedNames {
    /// Names in each directory, a NUL byte behind each. Directories are called so that each is followed by those in it.
    directories: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Whether something could not be listed.
    is_partial: bool,
}

impl ListedNames {
    /// Something is called `path`, and is a directory or is not.
    pub fn add(&mut self, path: &[u8], is_directory: bool) {
        let (parent, name) = split(path);
        let names = self.directories.entry(reordered(parent, b'/', 0)).or_default();
        names.extend_from_slice(name);
        names.push(0);
        if is_directory {
            self.directories.entry(reordered(path, b'/', 0)).or_default();
        }
    }

    /// The directory `root` is a source, and may have nothing in it.
    pub fn begin(&mut self, root: &[u8]) {
        self.directories.entry(reordered(root, b'/', 0)).or_default();
    }

    /// Not everything was listed.
    pub fn is_partial(&mut self) {
        self.is_partial = true;
    }

    /// What `names` tell, if they were noted.
    ///
    /// # Errors
    /// Nothing was to be deleted, or not everything is known.
    pub fn tell_of(
        names: Option<&Mutex<Self>>,
        roots: &[&[u8]],
        told: &mut dyn FnMut(DirectoryNames) -> bool,
    ) -> Result<()> {
        match names {
            Some(names) => names.lock().tell(roots, told),
            None => Err(Error::protocol("names were asked for, and nothing is to be deleted")),
        }
    }

    /// Tells of the directories that are compared: all, if contents are put into the destination's own, and else those
    /// that were named. `roots` are the directories that are sources, as they are called at the destination.
    ///
    /// # Errors
    /// Not everything is known.
    fn tell(&self, roots: &[&[u8]], told: &mut dyn FnMut(DirectoryNames) -> bool) -> Result<()> {
        if self.is_partial {
            let why = "not everything at the source could be listed";
            return Err(Error::new(ErrorKind::Io, why));
        }
        let all = roots.iter().any(|root| root.is_empty());
        for (ordered, names) in &self.directories {
            let directory = reordered(ordered, 0, b'/');
            // Beside what was named others may lie.
            if directory.is_empty() && !all {
                continue;
            }
            let is_root = match all {
                true => directory.is_empty(),
                false => roots.contains(&&directory[..]),
            };
            if !tell_one(directory, is_root, names, told) {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// Tells of one directory, in as many portions as it takes; `false` once nobody wants more.
fn tell_one(
    directory: Vec<u8>,
    is_root: bool,
    names: &[u8],
    told: &mut dyn FnMut(DirectoryNames) -> bool,
) -> bool {
    let mut sorted: Vec<&[u8]> = names.split_inclusive(|&byte| byte == 0).collect();
    sorted.sort_unstable();
    let mut portion = DirectoryNames { directory, is_root, ..DirectoryNames::default() };
    for name in sorted {
        if portion.names.len() > PORTION {
            let more = DirectoryNames { names: Vec::new(), ..portion.clone() };
            if !told(std::mem::replace(&mut portion, more)) {
                return false;
            }
        }
        portion.names.extend_from_slice(name);
    }
    portion.is_whole = true;
    told(portion)
}

/// A path with other separators: with the smallest byte in their place each directory is followed by those in it.
fn reordered(path: &[u8], from: u8, to: u8) -> Vec<u8> {
    path.iter().map(|&byte| if byte == from { to } else { byte }).collect()
}
