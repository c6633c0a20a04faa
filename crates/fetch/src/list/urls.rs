//! URLs in the syntax of aria2's `-i`: mirrors of one file separated by tabs, indented options below them,
//! `#` comments. Addresses without a scheme, as ENA writes them, are files of their own, several by `;`. A word that is
//! neither is handed to whoever knows accessions.

use std::collections::{BTreeSet, VecDeque};
use std::io::BufRead;

use tidegate_contract::redact;
use tidegate_transfer::error::{Error, Result};
use tidegate_transfer::path::RelPath;
use url::Url;

use super::input::{Input, ListParser, Position, Reader};
use super::lines::Lines;
use super::name;
use super::options::Words;
use crate::checksum::{Algorithm, Checksums};
use crate::foreign::is_plain;
use crate::record::{Named, Record};

/// Most mirrors and most header lines of one file.
pub(crate) const MAX_MIRRORS: usize = 64;
pub(crate) const MAX_HEADERS: usize = 64;

/// Most kinds of option that are noted as having no meaning here.
const MAX_NOTES: usize = 64;

pub(crate) struct Urls<R = Reader> {
    lines: Lines<R>,
    words: Words,
    /// That of addresses without one.
    scheme: String,
    entry: Option<Entry>,
    noted: BTreeSet<String>,
}

/// What is known of one file so far.
struct Entry {
    place: Position,
    /// The first URL as written.
    written: String,
    urls: Vec<Url>,
    out: Option<String>,
    dir: Option<String>,
    checksums: Checksums,
    headers: Vec<(String, String)>,
    refused: Option<Error>,
}

impl Urls {
    pub fn new(input: Input, scheme: &str, words: Words) -> Self {
        let lines = Lines::new(input.reader, input.list);
        Self { lines, words, scheme: scheme.to_owned(), entry: None, noted: BTreeSet::new() }
    }
}

impl<R: BufRead> Urls<R> {
    fn line(&mut self, line: &str, named: &mut VecDeque<Named>) {
        let place = self.lines.place().clone();
        let text = line.trim();
        if text.is_empty() || line.starts_with('#') {
            return;
        }
        if is_option(line) {
            self.option(line.trim_start(), &place, named);
            return;
        }
        self.finish(named);
        if text.contains("://") {
            self.entry = Some(Entry::new(text, &place));
            return;
        }
        let text = text.split('#').next().unwrap_or_default();
        for word in text.split([' ', '\t', ',', ';']).filter(|word| !word.is_empty()) {
            if name::is_host_and_path(word) {
                // Options below are the last one's.
                self.finish(named);
                self.entry = Some(Entry::new(&format!("{}://{word}", self.scheme), &place));
                continue;
            }
            if let Err(error) = (self.words)(word) {
                named.push_back(place.problem(word, error));
            }
        }
    }

    fn option(&mut self, text: &str, place: &Position, named: &mut VecDeque<Named>) {
        let (option, value) = text.split_once('=').unwrap_or((text, ""));
        let option = option.trim_end();
        let Some(entry) = &mut self.entry else {
            let error = place.usage("an indented option stands before any URL");
            named.push_back(Named::problem(&redact::public_text(option), error));
            return;
        };
        let mut note = |key: &str, why: String| {
            if self.noted.len() < MAX_NOTES && self.noted.insert(key.to_owned()) {
                named.push_back(place.note(why));
            }
        };
        match option {
            "out" => entry.out = Some(value.to_owned()),
            "dir" => entry.dir = Some(value.to_owned()),
            "checksum" => {
                let (algorithm, sum) = value.split_once('=').unwrap_or((value, ""));
                match algorithm.trim().parse::<Algorithm>() {
                    Ok(algorithm) => {
                        let added = entry.checksums.add_hex(algorithm, sum);
                        entry.refuse_if(added.map_err(|error| error.within(place)));
                    }
                    Err(error) => note(option, format!("{error}; files are not checked against it")),
                }
            }
            "header" => {
                let added = header(value, &mut entry.headers);
                entry.refuse_if(added.map_err(|why| place.usage(why)));
            }
            "referer" | "user-agent" => {
                let name = if option == "referer" { "Referer" } else { "User-Agent" };
                let added = header(&format!("{name}: {value}"), &mut entry.headers);
                entry.refuse_if(added.map_err(|why| place.usage(why)));
            }
            other => {
                let shown = redact::public_text(other);
                note(other, format!("the option '{shown}' has no meaning here and is left out"));
            }
        }
    }

    fn finish(&mut self, named: &mut VecDeque<Named>) {
        named.extend(self.entry.take().map(Entry::named));
    }
}

/// Whether a line is `name=value`, indented as aria2 wants it, or one that people forget to indent.
fn is_option(line: &str) -> bool {
    let Some((name, _)) = line.trim_start().split_once('=') else { return false };
    let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    let known = ["out", "dir", "checksum", "header", "referer", "user-agent"];
    is_name && (line.starts_with([' ', '\t']) || known.contains(&name))
}

impl<R: BufRead> ListParser for Urls<R> {
    fn fill(&mut self, named: &mut VecDeque<Named>) -> bool {
        match self.lines.next_text() {
            Some(Ok(line)) => self.line(&line, named),
            Some(Err(error)) => {
                self.finish(named);
                let place = self.lines.place().to_string();
                named.push_back(Named::problem(&place, error));
            }
            None => {
                self.finish(named);
                return false;
            }
        }
        true
    }
}

impl Entry {
    fn new(text: &str, place: &Position) -> Self {
        let written = text.split('\t').next().unwrap_or_default().trim().to_owned();
        let mut entry = Self {
            place: place.clone(),
            written,
            urls: Vec::new(),
            out: None,
            dir: None,
            checksums: Checksums::none(),
            headers: Vec::new(),
            refused: None,
        };
        for mirror in text.split('\t').map(str::trim).filter(|mirror| !mirror.is_empty()) {
            if entry.urls.len() == MAX_MIRRORS {
                entry.refuse_if(Err(place.usage(format!("there are more than {MAX_MIRRORS} mirrors"))));
                break;
            }
            match name::url(mirror) {
                Ok(url) => entry.urls.push(url),
                Err(error) => entry.refuse_if(Err(error.within(place))),
            }
        }
        entry
    }

    /// Keeps the first thing that is wrong.
    fn refuse_if(&mut self, result: Result<()>) {
        self.refused = self.refused.take().or(result.err());
    }

    fn named(self) -> Named {
        let written = redact::public_text(&self.written);
        match self.record() {
            Ok(record) => Named::Record(Box::new(record)),
            Err(error) => Named::problem(&written, error),
        }
    }

    fn record(self) -> Result<Record> {
        if let Some(error) = self.refused {
            return Err(error);
        }
        let path = path(&self.urls, self.out.as_deref(), self.dir.as_deref());
        let path = path.map_err(|error| error.within(&self.place))?;
        Ok(Record {
            urls: self.urls,
            path,
            bytes: None,
            modified: None,
            checksums: self.checksums,
            headers: self.headers,
            group: None,
            meta: std::sync::Arc::default(),
        })
    }
}

/// Where a file goes: `out` in `dir`, both beneath the output directory.
fn path(urls: &[Url], out: Option<&str>, dir: Option<&str>) -> Result<RelPath> {
    let named = match (out, urls.first()) {
        (Some(out), _) => RelPath::new(out.strip_prefix("./").unwrap_or(out))?,
        (None, Some(url)) => name::path_of(url)?,
        (None, None) => RelPath::new("")?,
    };
    let dir = dir.map(|dir| dir.strip_prefix("./").unwrap_or(dir).trim_end_matches('/'));
    match dir {
        None | Some("" | ".") => Ok(named),
        Some(dir) => tidegate_transfer::path::join(dir.as_bytes(), named.as_bytes()),
    }
}

/// Adds a header line `Name: value`; the error does not repeat the value, which may be secret.
pub fn header(line: &str, headers: &mut Vec<(String, String)>) -> Result<(), String> {
    let (name, value) = line.split_once(':').ok_or("a header is written 'Name: value'")?;
    let (name, value) = (name.trim(), value.trim());
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if name.is_empty() || !name.chars().all(is_token) {
        return Err("a header's name holds letters, digits and '-' only".to_owned());
    }
    if !is_plain(&value.replace('\t', " ")) {
        return Err(format!("the header {name} holds a character that cannot be seen"));
    }
    if headers.len() == MAX_HEADERS {
        return Err(format!("there are more than {MAX_HEADERS} headers"));
    }
    headers.push((name.to_owned(), value.to_owned()));
    Ok(())
}
