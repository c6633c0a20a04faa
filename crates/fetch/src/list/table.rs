//! Tables with a header: TSV as ENA writes it, and CSV.

use std::collections::VecDeque;

use csv::{ReaderBuilder, StringRecord};
use tidegate_transfer::error::{Error, ErrorKind, Result};

use super::input::{Input, ListParser, Position, Reader};
use super::lines::MAX_LINE;
use super::options::{Options, Words};
use super::row::{FileRow, is_header, lists_files, normal};
use crate::record::Named;

/// Most columns of a table.
const MAX_COLUMNS: usize = 1024;

pub(crate) struct Table {
    reader: csv::Reader<Bounded>,
    columns: Vec<String>,
    place: Position,
    options: Options,
    words: Words,
    lists_files: bool,
    /// In TSV a quote means itself, unless it surrounds the whole field.
    tabs: bool,
    row: StringRecord,
}

impl Table {
    pub fn new(input: Input, separator: u8, options: &Options, words: Words) -> Result<Self> {
        let tabs = separator == b'\t';
        let mut reader = ReaderBuilder::new()
            .delimiter(separator)
            .quoting(!tabs)
            .comment(Some(b'#'))
            .flexible(true)
            .has_headers(false)
            .from_reader(Bounded { reader: input.reader, left: MAX_LINE });
        let mut row = StringRecord::new();
        let place = Position { list: input.list, line: 1 };
        let refuse = |why: String| place.usage(why);
        reader.read_record(&mut row).map_err(|error| refuse(plain(&error)))?;
        if row.len() > MAX_COLUMNS {
            return Err(refuse(format!("there are more than {MAX_COLUMNS} columns")));
        }
        let first = row.get(0).map(|name| name.trim_start_matches('\u{feff}').to_owned());
        let columns: Vec<String> =
            first.iter().map(String::as_str).chain(row.iter().skip(1)).map(normal).collect();
        if !is_header(columns.iter().map(String::as_str)) {
            let why = "no column is called url, urls, fastq_ftp, submitted_ftp, sra_ftp or run_accession";
            return Err(Error::new(ErrorKind::Usage, format!("{place}: {why}")));
        }
        let lists_files = lists_files(columns.iter().map(String::as_str));
        Ok(Self { reader, columns, place, options: options.clone(), words, lists_files, tabs, row })
    }

    fn value(&self, field: &str) -> String {
        let field = field.trim();
        let quoted = self.tabs.then(|| field.strip_prefix('"')?.strip_suffix('"')).flatten();
        quoted.map_or_else(|| field.to_owned(), |inner| inner.replace("\"\"", "\""))
    }
}

impl ListParser for Table {
    fn fill(&mut self, named: &mut VecDeque<Named>) -> bool {
        self.reader.get_mut().left = MAX_LINE;
        self.place.line = self.reader.position().line();
        let read = self.reader.read_record(&mut self.row);
        if let Some(position) = self.row.position().filter(|_| matches!(read, Ok(true))) {
            self.place.line = position.line();
        }
        match read {
            Ok(true) => {}
            Ok(false) => return false,
            Err(error) => {
                let goes_on = !error.is_io_error();
                let error = self.place.usage(plain(&error));
                named.push_back(Named::problem(&self.place.to_string(), error));
                return goes_on;
            }
        }
        if self.row.len() != self.columns.len() {
            let (has, wants) = (self.row.len(), self.columns.len());
            let error = self.place.usage(format!("the row has {has} fields, and the header {wants}"));
            named.push_back(Named::problem(&self.place.to_string(), error));
            return true;
        }
        let mut row = FileRow::default();
        for (column, field) in self.columns.iter().zip(&self.row) {
            let value = self.value(field);
            if !value.is_empty() {
                row.values.entry(column.clone()).or_insert(value);
            }
        }
        row.named(&self.place, &self.options, self.lists_files, &mut self.words, named);
        true
    }
}

/// The csv crate's errors without their kind in front.
fn plain(error: &csv::Error) -> String {
    match error.kind() {
        csv::ErrorKind::Io(error) => format!("the list cannot be read on: {error}"),
        csv::ErrorKind::Utf8 { .. } => "the row is not UTF-8 text".to_owned(),
        _ => error.to_string(),
    }
}

/// Ends in an error when so much was read since the count began: an open quote would swallow the rest of a
/// list.
struct Bounded {
    reader: Reader,
    left: usize,
}

impl std::io::Read for Bounded {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.left == 0 {
            return Err(std::io::Error::other("a row is longer than 1 MiB; is a quote left open?"));
        }
        let most = buffer.len().min(self.left);
        let length = self.reader.read(&mut buffer[..most])?;
        self.left -= length;
        Ok(length)
    }
}
