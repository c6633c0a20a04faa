//! A row of a table, or an object of a JSON list, becomes records: columns are found by their names.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use tidegate_contract::redact;
use tidegate_transfer::error::{Error, ErrorKind, Result};
use tidegate_transfer::path::RelPath;
use url::Url;

use super::input::Position;
use super::name;
use super::options::{Options, Words};
use super::urls::{MAX_MIRRORS, header};
use crate::checksum::{Algorithm, Checksums};
use crate::record::{Named, Record};

/// One file's address, in the order they are looked for.
const URL: [&str; 8] = ["url", "uri", "link", "href", "download_url", "file_url", "access_url", "source_url"];
/// Several addresses of one file, separated by white space, `;` or `|`.
const MIRRORS: [&str; 3] = ["urls", "mirrors", "links"];
const BYTES: [&str; 6] = ["bytes", "size", "file_size", "filesize", "size_bytes", "content_length"];
const PATH: [&str; 5] = ["path", "out", "filename", "file_name", "file"];
/// A sum with its algorithm in front (`md5:…`, `sha-256=…`), or told by its length.
const SUM: [&str; 2] = ["checksum", "hash"];
/// What stands for its files where no address does, as in NCBI's run tables.
const ACCESSION: [&str; 4] = ["run_accession", "run", "accession", "acc"];
/// ENA's groups of columns: `fastq_ftp`, `fastq_bytes`, `fastq_md5`.
const FILES: [&str; 4] = ["fastq", "submitted", "sra", "bam"];

/// A column's name as it is looked for.
pub(crate) fn normal(name: &str) -> String {
    let name = name.trim().trim_matches('"').trim().to_lowercase();
    name.chars().map(|c| if c == ' ' || c == '-' { '_' } else { c }).collect()
}

/// Whether these are the columns of a table that names files.
pub(crate) fn is_header<'a>(mut columns: impl Iterator<Item = &'a str>) -> bool {
    columns.any(|column| is_address(&normal(column)))
}

fn is_address(name: &str) -> bool {
    let ena = || name.strip_suffix("_ftp").is_some_and(|files| FILES.contains(&files));
    URL.contains(&name) || MIRRORS.contains(&name) || ACCESSION.contains(&name) || ena()
}

/// Whether columns of these names list files as ENA does.
pub(crate) fn lists_files<'a>(mut columns: impl Iterator<Item = &'a str>) -> bool {
    columns.any(|column| column.strip_suffix("_ftp").is_some_and(|files| FILES.contains(&files)))
}

/// What a row says, by its columns' [`normal`] names.
#[derive(Debug, Default)]
pub(crate) struct FileRow {
    /// Plain values, none of them empty.
    pub values: BTreeMap<String, String>,
    /// Addresses that stand in a list of their own.
    pub urls: Vec<String>,
    /// Checksums by algorithm.
    pub checksums: Vec<(String, String)>,
    /// Header lines.
    pub headers: Vec<String>,
    /// What is known besides, told apart from what stands in columns.
    pub meta: BTreeMap<String, String>,
}

impl FileRow {
    /// Adds the files that the row names. `lists_files` if its table has columns for files.
    pub fn named(
        mut self,
        place: &Position,
        options: &Options,
        lists_files: bool,
        words: &mut Words,
        named: &mut VecDeque<Named>,
    ) {
        let written = self.shown();
        let has_url = !self.urls.is_empty() || first(&self.values, &URL).is_some();
        let result = if has_url || first(&self.values, &MIRRORS).is_some() {
            self.record(options).map(|record| vec![record])
        } else if lists_files {
            self.files(options)
        } else if let Some(accession) = first(&self.values, &ACCESSION) {
            words(accession.trim()).map(|()| Vec::new())
        } else {
            Err(refuse("the row has neither a URL nor an accession"))
        };
        match result {
            Ok(records) => named.extend(records.into_iter().map(|record| Named::Record(Box::new(record)))),
            Err(error) => named.push_back(place.problem(&written, error)),
        }
    }

    /// What the row is called in a message.
    fn shown(&self) -> String {
        let known = ["run_accession", "run", "accession", "url", "urls", "path", "out", "filename"];
        let value = known.iter().find_map(|name| self.values.get(*name)).or_else(|| self.urls.first());
        value.map_or_else(|| "a row".to_owned(), |value| redact::public_text(value))
    }

    /// One file with its mirrors.
    fn record(&mut self, options: &Options) -> Result<Record> {
        let mut texts: Vec<String> = take(&mut self.values, &URL).into_iter().collect();
        texts.append(&mut self.urls);
        if let Some(mirrors) = take(&mut self.values, &MIRRORS) {
            let split = mirrors.split(|c: char| c.is_whitespace() || c == ';' || c == '|');
            texts.extend(split.filter(|text| !text.is_empty()).map(str::to_owned));
        }
        if texts.len() > MAX_MIRRORS {
            return Err(refuse(format!("there are more than {MAX_MIRRORS} mirrors")));
        }
        let mut urls: Vec<Url> = Vec::new();
        for text in texts {
            let url = address(text.trim(), options)?;
            if !urls.contains(&url) {
                urls.push(url);
            }
        }
        let first = urls.first().ok_or_else(|| refuse("the row has no URL"))?;
        let path = match take(&mut self.values, &PATH) {
            Some(path) => RelPath::new(path.strip_prefix("./").unwrap_or(&path))?,
            None => name::path_of(first)?,
        };
        let bytes = take(&mut self.values, &BYTES).map(|bytes| number(&bytes)).transpose()?.flatten();
        let checksums = self.sums()?;
        let mut headers = Vec::new();
        for line in &self.headers {
            header(line, &mut headers).map_err(refuse)?;
        }
        let group = take(&mut self.values, &["group"]).or_else(|| self.values.get("run_accession").cloned());
        let group = group.map(Arc::from);
        self.meta.append(&mut self.values);
        let meta = Arc::new(std::mem::take(&mut self.meta));
        Ok(Record { urls, path, bytes, modified: None, checksums, headers, group, meta })
    }

    fn sums(&mut self) -> Result<Checksums> {
        let mut checksums = Checksums::none();
        for algorithm in Algorithm::ALL {
            let mut sum = |name: String| self.values.remove(&name);
            let found = sum(algorithm.name().to_owned()).or_else(|| sum(format!("{algorithm}sum")));
            if let Some(hex) = found.as_deref().map(str::trim).filter(|hex| !is_nothing(hex)) {
                checksums.add_hex(algorithm, hex)?;
            }
        }
        for (algorithm, hex) in &self.checksums {
            checksums.add_hex(algorithm.parse()?, hex)?;
        }
        if let Some(sum) = take(&mut self.values, &SUM).filter(|sum| !is_nothing(sum)) {
            let (algorithm, hex) = match sum.split_once([':', '=']) {
                Some((algorithm, hex)) => (algorithm.trim().parse()?, hex),
                None => (by_length(&sum)?, &sum[..]),
            };
            checksums.add_hex(algorithm, hex)?;
        }
        Ok(checksums)
    }

    /// All the files of a run, as ENA lists them: `;` between them, in every column the same order.
    fn files(self, options: &Options) -> Result<Vec<Record>> {
        let run = self.values.get("run_accession").cloned();
        let column = |files: &str, what: &str| {
            let text = self.values.get(&format!("{files}_{what}")).map_or("", String::as_str);
            let fields: Vec<String> = text.split(';').map(|field| field.trim().to_owned()).collect();
            if text.is_empty() { Vec::new() } else { fields }
        };
        let files = &options.files[..];
        let places = column(files, "ftp");
        if places.is_empty() {
            let others: Vec<&str> =
                FILES.into_iter().filter(|other| !column(other, "ftp").is_empty()).collect();
            let there = if others.is_empty() { "nothing".to_owned() } else { others.join(", ") };
            let run = run.as_deref().unwrap_or("the row");
            let why = format!("{run} has no {files} files; there is {there} (--format)");
            return Err(Error::new(ErrorKind::NotFound, why));
        }
        let (bytes, sums) = (column(files, "bytes"), column(files, "md5"));
        for (what, fields) in [("bytes", &bytes), ("md5", &sums)] {
            if !fields.is_empty() && fields.len() != places.len() {
                return Err(refuse(format!(
                    "{files}_ftp lists {} files, and {files}_{what} {}",
                    places.len(),
                    fields.len()
                )));
            }
        }
        let mut meta = self.values.clone();
        meta.insert("format".to_owned(), files.to_owned());
        let (meta, group) = (Arc::new(meta), run.map(Arc::from));
        let mut records = Vec::new();
        for (i, place) in places.iter().enumerate().filter(|(_, place)| !place.is_empty()) {
            let url = address(place, options)?;
            let mut checksums = Checksums::none();
            if let Some(sum) = sums.get(i).filter(|sum| !sum.is_empty()) {
                checksums.add_hex(Algorithm::Md5, sum)?;
            }
            records.push(Record {
                bytes: bytes.get(i).map(|bytes| number(bytes)).transpose()?.flatten(),
                checksums,
                group: group.clone(),
                meta: Arc::clone(&meta),
                ..Record::new(url.clone(), name::path_of(&url)?)
            });
        }
        Ok(records)
    }
}

/// An address; ENA writes `ftp.sra.ebi.ac.uk/vol1/…`, and a table may have names beneath a base URL.
fn address(text: &str, options: &Options) -> Result<Url> {
    if text.contains("://") {
        return name::url(text);
    }
    match &options.base {
        Some(base) => name::beneath(base, &RelPath::new(text)?),
        None if text.split('/').next().is_some_and(|host| host.contains('.')) && text.contains('/') => {
            name::url(&format!("{}://{text}", options.scheme))
        }
        None => Err(refuse(format!("{}: is no URL", redact::public_text(text)))),
    }
}

fn number(text: &str) -> Result<Option<u64>> {
    let text = text.trim();
    if is_nothing(text) {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| refuse(format!("{:?} is no size in bytes", redact::public_text(text))))
}

/// How tables write that something is not known.
fn is_nothing(text: &str) -> bool {
    ["", "-", "na", "n/a", "null", "none"].contains(&text.trim().to_lowercase().as_str())
}

fn by_length(hex: &str) -> Result<Algorithm> {
    let digits = hex.trim().len();
    [Algorithm::Md5, Algorithm::Sha1, Algorithm::Sha256, Algorithm::Sha512]
        .into_iter()
        .find(|algorithm| 2 * algorithm.length() == digits)
        .ok_or_else(|| refuse("the checksum's length is none of md5, sha1, sha256 or sha512"))
}

fn first<'a>(values: &'a BTreeMap<String, String>, names: &[&str]) -> Option<&'a String> {
    names.iter().find_map(|name| values.get(*name))
}

fn take(values: &mut BTreeMap<String, String>, names: &[&str]) -> Option<String> {
    names.iter().find_map(|name| values.remove(*name))
}

fn refuse(why: impl Into<String>) -> Error {
    Error::new(ErrorKind::Usage, why)
}
