//! How much of a destination would go, whether that looks like an accident, and how it is said that something stays.

use crate::error::{Error, ErrorKind, Result};
use crate::text::show;

/// Of more files than this, over half are not removed unless it is said how many may be.
const FEW: u64 = 100;

/// What of a destination's directories was compared so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Files that are there.
    pub files: u64,
    /// Those of them that are to go.
    pub going: u64,
    /// A directory that was named, has nothing at the source, and something at the destination that would go.
    pub emptied: Option<Vec<u8>>,
}

impl Extent {
    /// Whether what is to go may; `most` is how much may, if that was said.
    ///
    /// # Errors
    /// What would go looks like an accident.
    pub fn verdict(&self, most: Option<u64>) -> Result<()> {
        if most.is_some() {
            return Ok(());
        }
        let refuse = |why: String| Err(Error::new(ErrorKind::Denied, why));
        if let Some(path) = &self.emptied {
            let what = if path.is_empty() { "the source".into() } else { show(path) };
            return refuse(format!("{what} is empty; if that is right, say --max-delete N"));
        }
        let Self { files, going, .. } = self;
        if *files > FEW && *going > files / 2 {
            return refuse(format!(
                "{going} of {files} files at the destination would go, over half; if that is right, say --max-delete N"
            ));
        }
        Ok(())
    }
}

/// Nothing was deleted, because of `error`.
pub fn nothing_deleted(error: &Error) -> Error {
    let kind = if error.kind == ErrorKind::Usage { ErrorKind::Denied } else { error.kind };
    Error::new(kind, format!("nothing was deleted: {error}"))
}

/// Why not all went, if so many `beyond` the `most` would have.
pub fn stopped_at(most: Option<u64>, beyond: u64) -> Option<Error> {
    let most = most.unwrap_or_default();
    let why = format!("deleting stopped at --max-delete {most}: {beyond} more would go");
    (beyond > 0).then(|| Error::new(ErrorKind::Denied, why))
}
