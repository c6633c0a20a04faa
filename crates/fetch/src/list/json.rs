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

pub struct Json {
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
        match object.map(|object| (keys(&object), row(object))) {
            Ok((files, row)) => row.named(&place, &self.options, files, &mut self.words, named),
            Err(error) => named.push_back(Named::problem(&place.to_string(), error)),
        }
        true
    }
}

fn row(object: Map<String, Value>) -> FileRow {
    let mut row = FileRow::default();
    for (key, value) in object {
        let key = normal(&key);
        match (&key[..], value) {
            ("urls" | "mirrors" | "links", Value::Array(urls)) => {
                row.urls.extend(urls.iter().filter_map(scalar));
            }
            ("checksums" | "hashes", Value::Object(sums)) => {
                row.checksums
                    .extend(sums.iter().filter_map(|(name, sum)| Some((name.clone(), scalar(sum)?))));
            }
            ("headers", Value::Object(headers)) => row.headers.extend(
                headers.iter().filter_map(|(name, value)| Some(format!("{name}: {}", scalar(value)?))),
            ),
            ("headers", Value::Array(lines)) => row.headers.extend(lines.iter().filter_map(scalar)),
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
    row
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
