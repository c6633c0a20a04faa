//! Lists that name files: URLs in aria2's syntax, checksum files, tables, JSON, BagIt, Metalink. Each becomes
//! a stream of records that is read as it is asked for, so that a list of a million URLs is never held whole.
//!
//! A list is somebody else's: every line, field and element has a bound, every name is checked as a
//! [`RelPath`](tidegate_transfer::path::RelPath), and every problem names the list and the line and leaves
//! the rest of the list alone.

mod bag;
mod detect;
mod input;
mod json;
mod lines;
mod metalink;
mod name;
mod options;
mod row;
mod sums;
mod table;
mod urls;
mod write;

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufReader, Cursor, Read};
use std::path::Path;
use std::sync::Arc;

use tidegate_contract::redact;
use tidegate_transfer::error::{Error, ErrorKind, Result};
use url::Url;

use crate::checksum::Algorithm;
use crate::foreign::error as escaped;
use crate::record::{Named, Names, Record};

use input::{Input, ListParser};
pub(crate) use name::{beneath, path_of};

pub use name::{SCHEMES, is_host_and_path, public, url};
pub use options::{ListFormat, Options, Words};
pub use write::{entry, json_line};

/// A line of a checksum file: algorithm, sum in hexadecimal, and name.
pub(crate) fn checksum_line(line: &[u8]) -> Result<(Algorithm, String, Vec<u8>)> {
    sums::parse(line, None).map(|sum| (sum.algorithm, sum.hex, sum.name))
}

/// The file that a URL by itself stands for.
pub fn of_url(text: &str) -> Named {
    match url(text).and_then(|url| Ok(Record::new(url.clone(), path_of(&url)?))) {
        Ok(record) => Named::Record(Box::new(record)),
        Err(error) => Named::problem(&redact::public_text(text), error),
    }
}

/// Opens the list in the file at `path`.
pub fn open(path: &Path, options: &Options, words: Words) -> Result<Names> {
    use std::os::unix::ffi::OsStrExt;
    let failed = |error| Error::io("read", path.as_os_str().as_bytes(), error);
    let file = File::open(path).map_err(failed)?;
    if file.metadata().map_err(failed)?.is_dir() {
        return Err(failed(std::io::ErrorKind::IsADirectory.into()));
    }
    read(file, Some(path), options, words)
}

/// Reads a list from `input`; `path` is where it lies, if it lies anywhere.
///
/// ```
/// use tidegate_fetch::list::{self, Options};
/// use tidegate_fetch::record::Named;
///
/// let text = "https://example.org/a.bin\n  out=first/a.bin\nSRR390728\n";
/// let accessions = |word: &str| {
///     println!("{word} is no URL");
///     Ok(())
/// };
/// let mut names = list::read(text.as_bytes(), None, &Options::default(), Box::new(accessions))?;
/// let Some(Named::Record(record)) = names.next() else { panic!("a file") };
/// assert_eq!(record.urls[0].as_str(), "https://example.org/a.bin");
/// assert_eq!(record.path.as_bytes(), b"first/a.bin");
/// assert!(names.next().is_none());
/// # Ok::<(), tidegate_transfer::error::Error>(())
/// ```
pub fn read(
    mut input: impl Read + Send + 'static,
    path: Option<&Path>,
    options: &Options,
    words: Words,
) -> Result<Names> {
    let shown = path.map_or_else(|| "standard input".to_owned(), |path| path.display().to_string());
    let list: Arc<str> = tidegate_transfer::text::show(shown.as_bytes()).into();
    let head = detect::head(&mut input).map_err(|error| Error::io("read", list.as_bytes(), error))?;
    let format = options.format.unwrap_or_else(|| detect::format(&head, path));
    let input = Input {
        list,
        path: path.map(Path::to_path_buf),
        reader: BufReader::new(Box::new(Cursor::new(head).chain(input))),
    };
    let from_elsewhere = path.is_none();
    let base = options.base.clone();
    let begin = || -> Result<Names> {
        Ok(match format {
            ListFormat::Urls => stream(urls::Urls::new(input, &options.scheme, words)),
            ListFormat::Sums => stream(sums::Sums::new(input, options.base.clone())?),
            ListFormat::Tsv => stream(table::Table::new(input, b'\t', options, words)?),
            ListFormat::Csv => stream(table::Table::new(input, b',', options, words)?),
            ListFormat::Json => stream(json::Json::new(input, options, words)?),
            ListFormat::Bag => stream(bag::Bag::new(input)?),
            ListFormat::Metalink => stream(metalink::Metalink::new(input)),
        })
    };
    let names = begin().map_err(escaped)?;
    Ok(if from_elsewhere { Box::new(names.map(move |named| from_pipe(named, base.as_ref()))) } else { names })
}

/// What a list from a pipe may name: whoever wrote it is unknown, and shall not choose files of this machine,
/// except beneath the base that the user gave.
fn from_pipe(named: Named, base: Option<&Url>) -> Named {
    let beneath = |url: &Url| {
        base.is_some_and(|base| {
            let base = format!("{}/", base.as_str().trim_end_matches('/'));
            url.as_str().starts_with(&base)
        })
    };
    match named {
        Named::Record(record) => match record.urls.iter().find(|url| url.scheme() == "file" && !beneath(url))
        {
            Some(url) => {
                let url = public(url);
                let why = format!(
                    "{url}: a list from standard input may not name files of this machine; \
                     name it on the command line, or save the list and name that"
                );
                Named::problem(&url, Error::new(ErrorKind::Usage, why))
            }
            None => Named::Record(record),
        },
        other => other,
    }
}

struct Stream<S> {
    source: Option<S>,
    named: VecDeque<Named>,
}

fn stream(source: impl ListParser + Send + 'static) -> Names {
    Box::new(Stream { source: Some(source), named: VecDeque::new() })
}

impl<S: ListParser> Iterator for Stream<S> {
    type Item = Named;

    fn next(&mut self) -> Option<Named> {
        while self.named.is_empty()
            && let Some(source) = &mut self.source
        {
            if !source.fill(&mut self.named) {
                self.source = None;
            }
        }
        self.named.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &'static str, path: Option<&Path>, base: Option<&str>) -> Vec<bool> {
        let base = base.map(|base| Url::parse(base).expect("a URL"));
        let options = Options { base, ..Options::default() };
        let list = read(text.as_bytes(), path, &options, Box::new(|_| Ok(()))).expect("a list");
        list.map(|named| matches!(named, Named::Record(_))).collect()
    }

    #[test]
    fn a_list_from_a_pipe_names_no_files_of_this_machine() {
        let urls = "file:///etc/passwd\nhttps://host/a\nhttps://host/b\tFILE:///etc/shadow\n";
        assert_eq!(names(urls, None, None), [false, true, false]);
        assert_eq!(names(urls, Some(Path::new("list.txt")), None), [true, true, true]);
        let urls = "file:///data/a\nfile:///data/../etc/passwd\nfile:///database\n";
        assert_eq!(names(urls, None, Some("file:///data")), [true, false, false]);
    }
}
