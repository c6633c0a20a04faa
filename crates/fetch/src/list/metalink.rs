//! Metalink 4 (RFC 5854): files with mirrors, sizes and hashes, as XML. It is read element by element;
//! entities that a document defines itself are not expanded.

use std::collections::VecDeque;
use std::io::{self, BufRead, Read};
use std::sync::Arc;

use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader as Xml, XmlVersion};
use tidegate_contract::redact;
use tidegate_transfer::error::{Error, ErrorKind, Result};
use tidegate_transfer::path::RelPath;
use url::Url;

use super::input::{Input, ListParser, Position, Reader};
use super::lines::MAX_LINE;
use super::name;
use super::urls::MAX_MIRRORS;
use crate::checksum::{Algorithm, Checksums};
use crate::record::{Named, Record};

const NAMESPACE: &str = "urn:ietf:params:xml:ns:metalink";

/// Deepest nesting; the format needs five levels.
const MAX_DEPTH: usize = 32;
/// Longest text of an element.
const MAX_TEXT: usize = 64 << 10;
/// What RFC 5854 calls the lowest priority.
const LAST: u32 = 999_999;

pub(crate) struct Metalink {
    xml: Xml<Counted>,
    list: Arc<str>,
    buffer: Vec<u8>,
    /// The names of the elements that are open.
    open: Vec<String>,
    file: Option<Entry>,
    text: String,
    /// Of the element that is open.
    kind: String,
    priority: u32,
    noted_pieces: bool,
    begun: bool,
    over: bool,
}

/// A `file` element so far.
struct Entry {
    place: Position,
    name: String,
    bytes: Option<u64>,
    checksums: Checksums,
    urls: Vec<(u32, Url)>,
    refused: Option<Error>,
}

impl Metalink {
    pub fn new(input: Input) -> Self {
        let mut xml = Xml::from_reader(Counted { reader: input.reader, line: 1, left: MAX_LINE });
        xml.config_mut().expand_empty_elements = true;
        Self {
            xml,
            list: input.list,
            buffer: Vec::new(),
            open: Vec::new(),
            file: None,
            text: String::new(),
            kind: String::new(),
            priority: LAST,
            noted_pieces: false,
            begun: false,
            over: false,
        }
    }

    fn place(&self) -> Position {
        Position { list: Arc::clone(&self.list), line: self.xml.get_ref().line }
    }

    /// Goes on to the next event; an error ends the list.
    fn step(&mut self, named: &mut VecDeque<Named>) -> Result<()> {
        self.xml.get_mut().left = MAX_LINE;
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        let event = self.xml.read_event_into(&mut buffer).map(Event::into_owned);
        self.buffer = buffer;
        match event.map_err(|error| self.place().usage(error))? {
            Event::Start(start) => self.start(&start, named),
            Event::End(_) => {
                self.end(named);
                Ok(())
            }
            Event::Text(text) => self.add_text(&text.xml10_content()),
            Event::CData(data) => self.add_text(&data),
            Event::GeneralRef(reference) => {
                let known = match reference.resolve_char_ref() {
                    Ok(Some(c)) => Some(c.to_string()),
                    Ok(None) => resolve_predefined_entity(&reference).map(str::to_owned),
                    Err(_) => None,
                };
                let why = || format!("the entity &{}; is not expanded", redact::public_text(&reference));
                match known {
                    Some(text) => self.add_text(&text)?,
                    None => self.refuse(self.place().usage(why())),
                }
                Ok(())
            }
            Event::Eof if !self.open.is_empty() || !self.begun => {
                Err(self.place().usage("the document ends too early"))
            }
            Event::Eof => {
                self.over = true;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn start(&mut self, start: &BytesStart<'_>, named: &mut VecDeque<Named>) -> Result<()> {
        let place = self.place();
        let tag = start.local_name().as_ref().to_owned();
        let value = |wanted: &str| -> Result<Option<String>> {
            let found = start.try_get_attribute(wanted).map_err(|error| place.usage(error))?;
            let value = found.map(|attribute| attribute.normalized_value(XmlVersion::Explicit1_0));
            Ok(value.transpose().map_err(|error| place.usage(error))?.map(|value| value.into_owned()))
        };
        if self.open.is_empty() && (tag != "metalink" || !declares(start, NAMESPACE)) {
            return Err(place.usage("is no Metalink 4 document (RFC 5854)"));
        }
        if self.open.len() == MAX_DEPTH {
            return Err(place.usage("elements are nested too deeply"));
        }
        self.begun = true;
        self.open.push(tag);
        self.text.clear();
        let path: Vec<&str> = self.open.iter().map(String::as_str).collect();
        match path[..] {
            ["metalink", "file"] => {
                let name = value("name")?.unwrap_or_default();
                let (checksums, urls) = (Checksums::none(), Vec::new());
                self.file = Some(Entry { place, name, bytes: None, checksums, urls, refused: None });
            }
            ["metalink", "file", "hash"] => self.kind = value("type")?.unwrap_or_default(),
            ["metalink", "file", "url"] => {
                let priority = value("priority")?.and_then(|text| text.trim().parse().ok());
                self.priority = priority.unwrap_or(LAST);
            }
            ["metalink", "file", "pieces"] if !self.noted_pieces => {
                self.noted_pieces = true;
                named.push_back(place.note("hashes of pieces are left out; whole files are checked"));
            }
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, named: &mut VecDeque<Named>) {
        let path: Vec<&str> = self.open.iter().map(String::as_str).collect();
        let text = self.text.trim();
        let place = self.place();
        if let (["metalink", "file", what], Some(file)) = (&path[..], &mut self.file) {
            let result = match *what {
                "size" => text
                    .parse()
                    .map(|bytes| file.bytes = Some(bytes))
                    .map_err(|_| place.usage(format!("{:?} is no size in bytes", redact::public_text(text)))),
                // A hash of another kind says nothing that could be checked.
                "hash" => self.kind.parse::<Algorithm>().map_or(Ok(()), |algorithm| {
                    file.checksums.add_hex(algorithm, text).map_err(|error| error.within(&place))
                }),
                "url" if file.urls.len() == MAX_MIRRORS => Ok(()),
                "url" => name::url(text).map_err(|error| error.within(&place)).map(|url| {
                    file.urls.push((self.priority, url));
                }),
                _ => Ok(()),
            };
            file.refuse_if(result);
        }
        if path == ["metalink", "file"]
            && let Some(file) = self.file.take()
        {
            named.push_back(file.named());
        }
        self.open.pop();
        self.text.clear();
    }

    fn add_text(&mut self, text: &str) -> Result<()> {
        if self.open.is_empty() {
            return Ok(());
        }
        if self.text.len() + text.len() > MAX_TEXT {
            return Err(self.place().usage("the text of an element is longer than 64 KiB"));
        }
        self.text.push_str(text);
        Ok(())
    }

    fn refuse(&mut self, error: Error) {
        if let Some(file) = &mut self.file {
            file.refuse_if(Err(error));
        }
    }
}

/// Whether the element's namespace, by default or by its prefix, is `namespace`.
fn declares(start: &BytesStart<'_>, namespace: &str) -> bool {
    let declared = |attribute: &str| {
        let found = start.try_get_attribute(attribute).ok().flatten();
        found.is_some_and(|found| &*found.value == namespace)
    };
    match start.name().as_ref().split_once(':') {
        Some((prefix, _)) => declared(&format!("xmlns:{prefix}")),
        None => declared("xmlns"),
    }
}

impl ListParser for Metalink {
    fn fill(&mut self, named: &mut VecDeque<Named>) -> bool {
        if self.over {
            return false;
        }
        if let Err(error) = self.step(named) {
            self.over = true;
            let what = self.file.take().map_or_else(|| self.list.to_string(), |file| file.shown());
            named.push_back(Named::problem(&what, error));
        }
        true
    }
}

impl Entry {
    fn refuse_if(&mut self, result: Result<()>) {
        self.refused = self.refused.take().or(result.err());
    }

    fn shown(&self) -> String {
        redact::public_text(&self.name)
    }

    fn named(self) -> Named {
        let (place, shown) = (self.place.clone(), self.shown());
        if let Some(error) = self.refused {
            return Named::problem(&shown, error);
        }
        match self.record() {
            Ok(record) => Named::Record(Box::new(record)),
            Err(error) => place.problem(&shown, error),
        }
    }

    fn record(mut self) -> Result<Record> {
        let path = RelPath::new(self.name)?;
        // Equal priorities stay in the order they are written in.
        self.urls.sort_by_key(|(priority, _)| *priority);
        let urls: Vec<Url> = self.urls.into_iter().map(|(_, url)| url).collect();
        let first = urls.first().cloned();
        let first = first.ok_or_else(|| Error::new(ErrorKind::Usage, "the file has no URL"))?;
        Ok(Record { urls, bytes: self.bytes, checksums: self.checksums, ..Record::new(first, path) })
    }
}

/// Counts lines, and ends in an error when one event takes too much.
struct Counted {
    reader: Reader,
    line: u64,
    left: usize,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.fill_buf()?.read(buffer)?;
        self.consume(length);
        Ok(length)
    }
}

impl BufRead for Counted {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.left == 0 {
            return Err(io::Error::other("an element is longer than 1 MiB"));
        }
        let left = self.left;
        let buffer = self.reader.fill_buf()?;
        Ok(&buffer[..buffer.len().min(left)])
    }

    fn consume(&mut self, length: usize) {
        let taken = &self.reader.buffer()[..length];
        self.line += taken.iter().filter(|&&byte| byte == b'\n').count() as u64;
        self.left -= length;
        self.reader.consume(length);
    }
}
