//! Paths relative to a transfer's root, as bytes: any name a Linux file system may hold, and none
//! that could lead out of the root.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::text::show;

/// The directory beside the destination's files that holds the journal and unfinished files.
pub(crate) const WORK_DIR: &[u8] = b".tidegate";

/// Longest path in bytes; so long that whoever asks the kernel for one may have to do it in pieces.
pub(crate) const MAX_PATH: usize = (64 << 10) - 1;

/// Longest path that the kernel takes at once (PATH_MAX on Linux, less its end).
pub(crate) const MAX_PIECE: usize = 4095;

/// Longest name in a path (NAME_MAX on Linux).
const MAX_NAME: usize = 255;

/// A checked path: not empty, relative, `/`-separated, without `.`, `..`, empty or over-long names.
///
/// Deserialising checks too, so a peer cannot hand over a hostile name.
///
/// ```
/// use tidegate_transfer::path::RelPath;
///
/// let path = RelPath::new("run/file")?;
/// assert_eq!(path.split(), (&b"run"[..], &b"file"[..]));
/// assert_eq!(path.join(b"part")?.as_bytes(), b"run/file/part");
/// for unsafe_name in ["", "/etc/passwd", "../secret", "a//b", "a/./b"] {
///     assert!(RelPath::new(unsafe_name).is_err());
/// }
/// # Ok::<(), tidegate_transfer::error::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "Vec<u8>", into = "Vec<u8>")]
pub struct RelPath(Vec<u8>);

impl RelPath {
    /// Checks `bytes`.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Result<Self> {
        let bytes = bytes.into();
        let refuse = |why: &str| {
            Err(Error::new(ErrorKind::UnsafeName, format!("refused the name {}: {why}", show(&bytes))))
        };
        if bytes.is_empty() {
            return refuse("it is empty");
        }
        if bytes.len() > MAX_PATH {
            return refuse("it is longer than 65535 bytes");
        }
        if bytes.contains(&0) {
            return refuse("it contains a NUL byte");
        }
        for name in bytes.split(|&b| b == b'/') {
            match name {
                b"" => return refuse("it is absolute or has an empty component"),
                b"." | b".." => return refuse("it contains '.' or '..'"),
                _ if name.len() > MAX_NAME => return refuse("a component is longer than 255 bytes"),
                _ if is_reserved(name) => return refuse("'.tidegate' is where transfers keep their state"),
                _ => {}
            }
        }
        Ok(Self(bytes))
    }

    /// The path's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The path of the containing directory (empty at the root) and the last name.
    pub fn split(&self) -> (&[u8], &[u8]) {
        split(&self.0)
    }

    /// `name` inside this directory.
    pub fn join(&self, name: &[u8]) -> Result<Self> {
        join(&self.0, name)
    }
}

/// Whether `name` is that of the directories where transfers keep their state, at any depth: no content of a
/// source, never served, never written by a peer. Some file systems take either case for the same.
pub fn is_reserved(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(WORK_DIR)
}

/// Whether `path` lies in `directory`, at any depth.
pub fn lies_in(path: &[u8], directory: &[u8]) -> bool {
    directory.is_empty() || path.strip_prefix(directory).is_some_and(|rest| rest.first() == Some(&b'/'))
}

/// The containing directory of `path` (empty at the root) and the last name.
pub fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|&b| b == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (&[], path),
    }
}

/// `name` inside the directory `parent`, which may be empty for the root.
pub fn join(parent: &[u8], name: &[u8]) -> Result<RelPath> {
    RelPath::new(inside(parent, name))
}

/// The same, unchecked.
pub fn inside(parent: &[u8], name: &[u8]) -> Vec<u8> {
    if parent.is_empty() { name.to_vec() } else { [parent, b"/", name].concat() }
}

impl TryFrom<Vec<u8>> for RelPath {
    type Error = Error;
    fn try_from(bytes: Vec<u8>) -> Result<Self> {
        Self::new(bytes)
    }
}

impl From<RelPath> for Vec<u8> {
    fn from(path: RelPath) -> Self {
        path.0
    }
}

impl fmt::Display for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&show(&self.0))
    }
}

impl fmt::Debug for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_names_are_refused() {
        let long = vec![b'a'; 256];
        let deep = b"a/".repeat(MAX_PATH / 2 + 1);
        let bad: [&[u8]; 18] = [
            b"",
            b"/",
            b"/etc/passwd",
            b"..",
            b"a/../b",
            b"a/..",
            b".",
            b"./a",
            b"a//b",
            b"a/",
            b"a\0b",
            &long,
            &deep,
            b".tidegate",
            b".tidegate/x",
            b"a/.tidegate",
            b"a/.TideGate/x",
            b"../../x",
        ];
        for name in bad {
            let error = RelPath::new(name).expect_err(&show(name));
            assert_eq!(error.kind, ErrorKind::UnsafeName);
        }
    }

    #[test]
    fn odd_names_are_kept() {
        let longest = vec![b'z'; 255];
        let good: [&[u8]; 8] =
            [b"-rf", b"a b", b"new\nline", b"\xff\xfe", b"...", b"..a", b"a/.tidegate.d", &longest];
        for name in good {
            assert_eq!(RelPath::new(name).expect("kept").as_bytes(), name);
        }
    }
}
