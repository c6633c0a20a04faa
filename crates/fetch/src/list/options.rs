//! The kinds of list, and how one is read.

use tidegate_transfer::error::Result;
use url::Url;

use crate::choice::choice;

/// What is done with a word that is no URL, such as an accession: it is kept for later, or refused.
pub type Words = Box<dyn FnMut(&str) -> Result<()> + Send>;

choice! {
    /// The kinds of list.
    ListFormat, "kind of list", {
        /// URLs, one file a line, in the syntax of aria2's `-i`; words that are no URLs are accessions.
        Urls = "urls",
        /// What `md5sum`, `sha256sum` and the like print; needs a base URL.
        Sums = "sums",
        /// A table with a header, its columns separated by tabs.
        Tsv = "tsv",
        /// The same with commas.
        Csv = "csv",
        /// JSON: one object a line, or one array of objects.
        Json = "json",
        /// The `fetch.txt` of a BagIt bag (RFC 8493).
        Bag = "bagit",
        /// Metalink 4 (RFC 5854).
        Metalink = "metalink",
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
