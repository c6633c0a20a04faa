//! What goes wrong at the disks of a [`Pair`](super::Pair), and when.

use std::collections::BTreeMap;

use crate::error::{Error, ErrorKind, Result};

/// Something that is done with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Deed {
    /// Its place is looked at.
    Look,
    /// What is there is read for its hash.
    Digest,
    /// What is there gets its mode and time.
    Settle,
    /// It is begun.
    Begin,
    /// A block of it is written.
    Write,
    /// It gets its name.
    Commit,
    /// The source's is read.
    Read,
    /// The source's is removed.
    Remove,
    /// The source's directory is listed again, for its names.
    Name,
    /// The destination's is deleted.
    Delete,
    /// All is made durable.
    Conclude,
}

/// What fails, until it is mended.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults {
    of: BTreeMap<(Deed, String), ErrorKind>,
}

impl Faults {
    /// Has this fail with `path`.
    pub fn fail(&mut self, deed: Deed, path: &str, kind: ErrorKind) {
        self.of.insert((deed, path.to_owned()), kind);
    }

    /// Mends everything.
    pub fn mend(&mut self) {
        self.of.clear();
    }

    /// Whether a deed succeeds.
    pub fn check(&self, deed: Deed, path: &str) -> Result<()> {
        match self.of.is_empty() {
            true => Ok(()),
            false => match self.of.get(&(deed, path.to_owned())) {
                Some(kind) => {
                    Err(Error::new(*kind, format!("cannot do {deed:?} with {path}: as it was told to")))
                }
                None => Ok(()),
            },
        }
    }
}
