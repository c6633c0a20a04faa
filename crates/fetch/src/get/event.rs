//! What a download tells of.

use tidegate_transfer::error::Error;
use tidegate_transfer::manifest::Timestamp;
use tidegate_transfer::path::RelPath;
use url::Url;

use crate::checksum::Checksums;
use crate::record::Record;

/// What happened to one thing that was named.
#[derive(Debug)]
pub enum DownloadEvent<'a> {
    /// A file has been fetched, verified, and has its name.
    Done {
        /// What was wanted.
        record: &'a Record,
        /// What was got.
        got: &'a Got,
    },
    /// A file was there already.
    Skipped {
        /// What was wanted.
        record: &'a Record,
        /// What is there.
        got: &'a Got,
    },
    /// Something did not arrive.
    Failed {
        /// As it was written, or the path it was to have.
        named: &'a str,
        /// What was wanted, if it came that far.
        record: Option<&'a Record>,
        /// Why.
        error: &'a Error,
    },
    /// Something people should know.
    Note(&'a str),
}

/// A file that is there.
#[derive(Clone, Debug, PartialEq)]
pub struct Got {
    /// Its size.
    pub bytes: u64,
    /// Its checksums, as computed, or as they were when it was fetched.
    pub checksums: Checksums,
    /// Whether its content was held against a sum: one that was declared, or that its server vouches for.
    pub checked: bool,
    /// From the first request to its name; 0 if nothing was fetched.
    pub seconds: f64,
    /// Where it came from.
    pub url: Url,
    /// When it was last modified, as its server says.
    pub modified: Option<Timestamp>,
}

/// A file under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Active {
    /// Where it goes.
    pub path: RelPath,
    /// What is written.
    pub done: u64,
    /// Its size, once known.
    pub bytes: Option<u64>,
}

/// What is told of, from any thread.
pub type DownloadListener = Box<dyn Fn(DownloadEvent<'_>) + Send + Sync>;
