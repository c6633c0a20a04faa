//! The kinds of list, and how one is read.

use std::str::FromStr;

use tidegate_transfer::error::{Error, ErrorKind, Result};
use url::Url;

/// What is done with a word that is no URL, such as an accession: it is kept for later, or refused.
pub type Words = Box<dyn FnMut(&str) -> Result<()> + Send>;

/// The kinds of list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListFormat {
    /// URLs, one file a line, in the syntax of aria2's `-i`; words that are no URLs are accessions.
    Urls,
    /// What `md5sum`, `sha256sum` and the like print; needs a base URL.
    Sums,
    /// A table with a header, its columns separated by tabs.
    Tsv,
    /// The same with commas.
    Csv,
    /// JSON: one object a line, or one array of objects.
    Json,
    /// The `fetch.txt` of a BagIt bag (RFC 8493).
    Bag,
    /// Metalink 4 (RFC 5854).
    Metalink,
}

impl ListFormat {
    /// All of them by name.
    pub const ALL: [(&'static str, Self); 7] = [
        ("urls", Self::Urls),
        ("sums", Self::Sums),
        ("tsv", Self::Tsv),
        ("csv", Self::Csv),
        ("json", Self::Json),
        ("bagit", Self::Bag),
        ("metalink", Self::Metalink),
    ];
}

impl FromStr for ListFormat {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|(name, _)| *name == text).map(|(_, format)| format).ok_or_else(|| {
            let known = Self::ALL.map(|(name, _)| name).join(", ");
            Error::new(ErrorKind::Usage, format!("{text:?} is no kind of list; there are {known}"))
        })
    }
}

/// How lists are read.
#[derive(Clone, Debug)]
pub struct Options {
    /// The kind of list; looked for if not given.
    pub format: Option<ListFormat>,
    /// What names in a checksum file, and relative URLs in a table, are relative to.
    pub base: Option<Url>,
    /// Which of the file columns of an ENA table: `fastq` for `fastq_ftp`, `fastq_bytes`, `fastq_md5`.
    pub files: String,
    /// The scheme of addresses that ENA writes without one.
    pub scheme: String,
}

impl Default for Options {
    fn default() -> Self {
        Self { format: None, base: None, files: "fastq".to_owned(), scheme: "https".to_owned() }
    }
}
