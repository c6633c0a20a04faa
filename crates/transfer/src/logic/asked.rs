//! What a sender may offer: names beneath what was asked for. Whoever is asked for one file must not choose names.

use crate::error::{Error, ErrorKind, Result};
use crate::manifest::{Entry, Kind};
use crate::path::split;
use crate::text::show;

/// What a transfer was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// Whatever the sender names, as the destination's ticket allows.
    Anything,
    /// One file, which gets the destination's name.
    OneFile,
    /// Entries of these names and what lies beneath them.
    Beneath(Vec<Vec<u8>>),
}

impl Asked {
    /// What these paths of an endpoint may turn out to be; `single` if they are one file that gets another name.
    pub fn of(paths: &[Vec<u8>], single: bool) -> Self {
        if single {
            return Self::OneFile;
        }
        match paths.iter().any(|path| path.is_empty() || path.ends_with(b"/")) {
            // The contents of a directory: any name is one of them.
            true => Self::Anything,
            false => Self::Beneath(paths.iter().map(|path| split(path).1.to_vec()).collect()),
        }
    }

    /// How many things were asked for that must be offered, or told to have failed.
    pub fn names(&self) -> usize {
        match self {
            Self::Anything => 0,
            Self::OneFile => 1,
            Self::Beneath(names) => names.len(),
        }
    }

    /// What the `index`th of them is called.
    pub fn name(&self, index: usize) -> String {
        match self {
            Self::Beneath(names) => names.get(index).map(|name| show(name).into_owned()).unwrap_or_default(),
            _ => "the file".to_owned(),
        }
    }

    /// Which of what was asked for an entry belongs to; refuses one that nobody asked for.
    pub fn check(&self, entry: &Entry) -> Result<Option<usize>> {
        let refuse = |why: &str| {
            let why = format!("the other end offered {}, {why}: nothing more is taken from it", entry.path);
            Err(Error::new(ErrorKind::UnsafeName, why))
        };
        let path = entry.path.as_bytes();
        match self {
            Self::Anything => Ok(None),
            Self::OneFile if matches!(entry.kind, Kind::File { .. }) => Ok(Some(0)),
            Self::OneFile => refuse("which is no file, where one file was asked for"),
            Self::Beneath(names) => match names.iter().enumerate().find(|(_, name)| lies_beneath(path, name))
            {
                None => refuse("which was not asked for"),
                Some((_, name)) if name.len() == path.len() && matches!(entry.kind, Kind::Symlink { .. }) => {
                    refuse("a link where a file or a directory was asked for")
                }
                Some((index, _)) => Ok(Some(index)),
            },
        }
    }
}

impl Asked {
    /// Refuses a directory that is compared although nobody asked for what lies in it.
    pub(crate) fn check_directory(&self, directory: &[u8]) -> Result<()> {
        let was_asked = match self {
            Self::Anything => true,
            Self::OneFile => false,
            Self::Beneath(names) => names.iter().any(|name| lies_beneath(directory, name)),
        };
        match was_asked {
            true => Ok(()),
            false => {
                let why = format!(
                    "the other end told names of {}, which was not asked for: nothing is deleted",
                    show(directory)
                );
                Err(Error::new(ErrorKind::UnsafeName, why))
            }
        }
    }
}

fn lies_beneath(path: &[u8], name: &[u8]) -> bool {
    path.strip_prefix(name).is_some_and(|rest| rest.first().is_none_or(|&b| b == b'/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::Timestamp;
    use crate::path::RelPath;

    fn entry(path: &str, kind: Kind) -> Entry {
        Entry::new(RelPath::new(path).expect("a name"), kind, 0o644, Timestamp::default())
    }

    #[test]
    fn only_what_was_asked_for_is_accepted() {
        let file = |path| entry(path, Kind::File { size: 1, fingerprint: [0; 16] });
        let link = |path| entry(path, Kind::Symlink { target: b"/etc/passwd".to_vec() });
        let asked = Asked::of(&[b"data/report.pdf".to_vec(), b"tree".to_vec()], false);
        for fine in [file("report.pdf"), file("tree"), file("tree/a/b"), link("tree/link")] {
            asked.check(&fine).expect("asked for");
        }
        for bad in [file(".bashrc"), file("report.pdf2"), file("data/report.pdf"), link("report.pdf")] {
            assert_eq!(asked.check(&bad).expect_err("not asked for").kind, ErrorKind::UnsafeName);
        }
        let one = Asked::of(&[b"report.pdf".to_vec()], true);
        one.check(&file("report.pdf")).expect("it gets another name anyway");
        for bad in [link("report.pdf"), entry("report.pdf", Kind::Directory)] {
            one.check(&bad).expect_err("no file");
        }
        for contents in ["tree/", ""] {
            assert_eq!(Asked::of(&[contents.into()], false), Asked::Anything);
        }
    }
}
