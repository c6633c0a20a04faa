//! The one record that everything that names data resolves to: an accession, a list, a manifest.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_transfer::error::Error;
use tidegate_transfer::manifest::Timestamp;
use tidegate_transfer::path::RelPath;
use tidegate_transfer::text;
use url::Url;

use crate::checksum::Checksums;
use crate::foreign;

/// One file to get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Where it lies: equal mirrors, the preferred one first. Never empty.
    pub urls: Vec<Url>,
    /// Where it goes beneath the output directory.
    pub path: RelPath,
    /// Its size, if whoever named it knows.
    pub bytes: Option<u64>,
    /// When it was last modified, if whoever named it knows that as exactly as its server.
    pub modified: Option<Timestamp>,
    /// What its content must sum up to.
    pub checksums: Checksums,
    /// Further header lines of HTTP requests for it, such as `Authorization`.
    pub headers: Vec<(String, String)>,
    /// What it belongs to: the run of a sequence archive, the list it stands in.
    pub group: Option<Arc<str>>,
    /// What else is known of it, by the name of the source's column.
    pub meta: Arc<BTreeMap<String, String>>,
}

impl Record {
    /// A file at one place of which nothing else is known.
    pub fn new(url: Url, path: RelPath) -> Self {
        Self {
            urls: vec![url],
            path,
            bytes: None,
            modified: None,
            checksums: Checksums::none(),
            headers: Vec::new(),
            group: None,
            meta: Arc::default(),
        }
    }
}

/// What resolving a name turns up, one after the other: fetching begins before the whole list is known.
///
/// Its words come from lists and servers and are shown to people: [`problem`](Self::problem) and
/// [`note`](Self::note) make them fit for that.
#[derive(Debug)]
pub enum Named {
    /// A file to get.
    Record(Box<Record>),
    /// Something named that cannot be got, as it was written, and why. The rest goes on.
    Problem(String, Error),
    /// Something that is there and is no file to get, such as a link, and why it is left out.
    LeftOut(RelPath, &'static str),
    /// Something people should know, such as a format that was taken in place of another.
    Note(String),
}

impl Named {
    /// `named` cannot be got.
    pub fn problem(named: &str, error: Error) -> Self {
        Self::Problem(text::foreign(named), foreign::error(error))
    }

    /// Something people should know.
    pub fn note(words: &str) -> Self {
        Self::Note(text::foreign(words))
    }
}

/// A stream of what was named. It may wait for a server; it is read by one thread.
pub type Names = Box<dyn Iterator<Item = Named> + Send>;
