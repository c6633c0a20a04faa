//! `runs.tsv`: one row a file of a run, with everything that its archive says of the run.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Write};
use std::path::Path;

use csv::ReaderBuilder;
use tidegate_transfer::error::{Error, Result};

use super::spool::Spool;
use crate::foreign::cell;

/// A row: values by column.
pub(crate) type RunFields = BTreeMap<String, String>;

/// What stands behind the archive's columns.
const OURS: [&str; 8] = ["path", "url", "source", "format", "bytes", "md5", "md5_ok", "seconds"];

/// Most columns; what a hostile list has beyond them is left out.
const MAX_COLUMNS: usize = 1024;

/// The table.
#[derive(Debug)]
pub(crate) struct Runs {
    rows: Spool<Box<str>>,
    /// The archive's columns in the order they were met, the accession of the run first.
    columns: Vec<String>,
}

impl Runs {
    pub fn new(directory: &Path) -> Result<Self> {
        Ok(Self { rows: Spool::new(directory)?, columns: vec!["run_accession".to_owned()] })
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The archive's columns, in the order they were met.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    pub fn add(&mut self, row: &RunFields) -> Result<()> {
        for column in row.keys() {
            let is_new = !OURS.contains(&&column[..]) && !self.columns.contains(column);
            if is_new && self.columns.len() < MAX_COLUMNS {
                self.columns.push(column.clone());
            }
        }
        let key = row.get("path").map_or("", String::as_str);
        self.rows.put(key.into(), &serde_json::to_vec(row).expect("text is plain data"))
    }

    /// Takes in the rows of an earlier run whose files this one did not meet; `false` if the file at `path`
    /// is none of ours.
    pub fn merge(&mut self, path: &Path) -> Result<bool> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
            Err(error) => return Err(failed(path, error)),
        };
        let mut reader = ReaderBuilder::new()
            .delimiter(b'\t')
            .quoting(false)
            .flexible(true)
            .from_reader(BufReader::new(file));
        let header: Vec<String> = match reader.headers() {
            Ok(header) => header.iter().map(str::to_owned).collect(),
            Err(_) => return Ok(false),
        };
        if !OURS.iter().all(|column| header.iter().any(|found| found == column)) {
            return Ok(false);
        }
        for record in reader.records() {
            let Ok(record) = record else { continue };
            let row: RunFields = header
                .iter()
                .zip(&record)
                .filter(|(_, value)| !value.is_empty())
                .map(|(column, value)| (column.clone(), value.to_owned()))
                .collect();
            if row.get("path").is_some_and(|path| !self.rows.contains(&path[..])) {
                self.add(&row)?;
            }
        }
        Ok(true)
    }

    /// Shows every row to `on_row`, in the order of their paths.
    pub fn each(&mut self, mut on_row: impl FnMut(RunFields)) -> Result<()> {
        for row in self.rows.by_key()? {
            let row = row.and_then(|row| serde_json::from_slice(&row).map_err(io::Error::from));
            on_row(row.map_err(|error| Error::io("read", b"what was noted of the files", error))?);
        }
        Ok(())
    }

    pub fn write(&mut self, out: &mut impl Write) -> io::Result<()> {
        let columns: Vec<&str> = self.columns.iter().map(String::as_str).chain(OURS).collect();
        writeln!(out, "{}", columns.iter().map(|column| cell(column)).collect::<Vec<_>>().join("\t"))?;
        let all = self.rows.by_key().map_err(|error| io::Error::other(error.message))?;
        for row in all {
            let row: RunFields = serde_json::from_slice(&row?)?;
            let cells: Vec<Cow<'_, str>> = columns
                .iter()
                .map(|column| row.get(*column).map_or_else(Cow::default, |value| cell(value)))
                .collect();
            writeln!(out, "{}", cells.join("\t"))?;
        }
        Ok(())
    }
}

fn failed(path: &Path, error: io::Error) -> Error {
    use std::os::unix::ffi::OsStrExt;
    Error::io("read", path.as_os_str().as_bytes(), error)
}
