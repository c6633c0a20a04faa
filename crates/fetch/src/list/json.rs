//! JSON: one object a line, or one array of objects as ENA answers with.

use std::collections::VecDeque;
use std::io::{BufRead, Read};

use serde_json::{Map, Value};
use tidegate_transfer::error::{Error, ErrorKind, Result};

use super::input::{Input, ListParser, Position, Reader};
use super::lines::Lines;
use super::options::{Options, Words};
use super::row::{FileRow, lists_files, normal};
use crate::record::Named;

/// Longest array: it is held whole, and one object a line is not.
const MAX_ARRAY: u64 = 64 << 20;

/// What was read, or what is wrong with it.
type Readable<T> = std::result::Result<T, String>;

pub(crate) struct Json {
    items: Items,
    options: Options,
    words: Words,
}

enum Items {
    Lines(Lines<Reader>),
    Array(std::vec::IntoIter<Value>, Position),
}

impl Json {
    pub fn new(mut input: Input, options: &Options, words: Words) -> Result<Self> {
        let failed = |error| Error::io("read", input.list.as_bytes(), error);
        let head = input.reader.fill_buf().map_err(failed)?;
        let head = head.strip_prefix("\u{feff}".as_bytes()).unwrap_or(head);
        let is_array = head.trim_ascii_start().first() == Some(&b'[');
        let items = if is_array {
            let place = Position { list: input.list.clone(), line: 0 };
            let mut bytes = Vec::new();
            input.reader.take(MAX_ARRAY + 1).read_to_end(&mut bytes).map_err(failed)?;
            if bytes.len() as u64 > MAX_ARRAY {
                let why = "the array is larger than 64 MiB; write one object a line instead";
                return Err(Error::new(ErrorKind::Usage, format!("{}: {why}", place.list)));
            }
            let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&bytes);
            let values: Vec<Value> = serde_json::from_slice(bytes)
                .map_err(|error| Error::new(ErrorKind::Usage, format!("{}: {error}", place.list)))?;
            Items::Array(values.into_iter(), place)
        } else {
            Items::Lines(Lines::new(input.reader, input.list))
        };
        Ok(Self { items, options: options.clone(), words })
    }
}

impl ListParser for Json {
    fn fill(&mut self, named: &mut VecDeque<Named>) -> bool {
        let (value, place) = match &mut self.items {
            Items::Array(values, place) => {
                let Some(value) = values.next() else { return false };
                place.line += 1;
                (Ok(value), place.clone())
            }
            Items::Lines(lines) => {
                let Some(line) = lines.next() else { return false };
                let place = lines.place().clone();
                match line {
                    Ok(line) if line.trim_ascii().is_empty() => return true,
                    Ok(line) => (serde_json::from_slice(&line).map_err(|error| place.usage(error)), place),
                    Err(error) => (Err(error), place),
                }
            }
        };
        let object = value.and_then(|value: Value| match value {
            Value::Object(object) => Ok(object),
            _ => Err(place.usage("is no JSON object")),
        });
        let keys = |object: &Map<String, Value>| lists_files(object.keys().map(String::as_str));
        let read = object.and_then(|object| {
            let files = keys(&object);
            row(object).map(|row| (files, row)).map_err(|why| place.usage(why))
        });
        match read {
            Ok((files, row)) => row.named(&place, &self.options, files, &mut self.words, named),
            Err(error) => named.push_back(Named::problem(&place.to_string(), error)),
        }
        true
    }
}

/// What it says; or what is of a structure that its key has not: without its checksums a file would be taken unchecked.
fn row(object: Map<String, Value>) -> Readable<FileRow> {
    let mut row = FileRow::default();
    for (key, value) in object {
        let key = normal(&key);
        match (&key[..], value) {
            ("urls" | "mirrors" | "links", Value::Array(urls)) => {
                for url in &urls {
                    row.urls.extend(text(&key, url)?);
                }
            }
            ("checksums" | "hashes", Value::Object(sums)) => {
                for (name, sum) in sums {
                    row.checksums.extend(text(&key, &sum)?.map(|sum| (name, sum)));
                }
            }
            ("headers", Value::Object(headers)) => {
                for (name, value) in &headers {
                    row.headers.extend(text(&key, value)?.map(|value| format!("{name}: {value}")));
                }
            }
            ("headers", Value::Array(lines)) => {
                for line in &lines {
                    row.headers.extend(text(&key, line)?);
                }
            }
            ("checksums" | "hashes", Value::Array(_)) => {
                return Err(format!("{key} is a list, and must be an object, as in {{\"md5\": \"…\"}}"));
            }
            ("urls" | "mirrors" | "links", Value::Object(_)) => {
                return Err(format!("{key} is an object, and must be a list of URLs"));
            }
            ("meta", Value::Object(meta)) => {
                row.meta.extend(meta.iter().filter_map(|(name, value)| Some((name.clone(), scalar(value)?))));
            }
            (_, value) => {
                if let Some(text) = scalar(&value).filter(|text| !text.is_empty()) {
                    row.values.insert(key, text);
                }
            }
        }
    }
    Ok(row)
}

/// A text of the list or the object that `key` is; none for what is null.
fn text(key: &str, value: &Value) -> Readable<Option<String>> {
    match scalar(value) {
        None if !value.is_null() => Err(format!("{key} holds a list or an object where a text is wanted")),
        text => Ok(text),
    }
}

/// A value as a column would have it; none for what has structure or is null.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(value) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}
