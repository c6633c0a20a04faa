//! What is written beside the files that were got: `runs.tsv`, `md5sums.txt`, `samplesheet.csv` for
//! pipelines, and `failed.txt`, which is a list of what to get again.
//!
//! Each is written whole and put in place in one step at the end, merged with what an earlier run wrote. A
//! file of the same name that is not ours is left alone. What a run knows of its files waits in a spool, so
//! that a long list costs little memory.

mod failed;
mod runs;
mod sheet;
mod spool;
mod sums;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, BufWriter};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidegate_transfer::error::{Error, Result};
use tidegate_transfer::sys::whole_file::WholeFile;
use tidegate_transfer::text::show;
use url::Url;

use crate::checksum::{Algorithm, Checksums};
use crate::list::public;
use crate::record::Record;

pub use sheet::Shape;

/// The table of the runs' files.
const RUNS: &str = "runs.tsv";
/// Sums that `md5sum -c` reads.
const SUMS: &str = "md5sums.txt";
/// What pipelines start from.
const SHEET: &str = "samplesheet.csv";
/// What to get again.
const FAILED: &str = "failed.txt";

/// A file that is there.
#[derive(Clone, Copy, Debug)]
pub struct Arrived<'a> {
    /// Where it came from.
    pub url: &'a Url,
    /// Its size; `None` if only its record was looked at.
    pub bytes: Option<u64>,
    /// What it sums up to, as far as that was computed.
    pub checksums: &'a Checksums,
    /// How long it took, if it was moved now.
    pub seconds: Option<f64>,
    /// Whether its content was held against the checksums declared.
    pub verified: bool,
}

/// Gathers what is to be written.
#[derive(Debug)]
pub struct Sidecars {
    directory: PathBuf,
    shape: Option<Shape>,
    runs: runs::Runs,
    sums: BTreeMap<Vec<u8>, [u8; 16]>,
    failed: failed::FailureList,
    /// Runs that lack a file.
    incomplete: BTreeSet<Arc<str>>,
    /// Names that a file of the list has.
    taken: BTreeSet<&'static str>,
    notes: Vec<String>,
}

impl Sidecars {
    /// For the files in `directory`, which exists; with a samplesheet of that shape, if any.
    pub fn new(directory: &Path, shape: Option<Shape>) -> Result<Self> {
        Ok(Self {
            directory: directory.to_path_buf(),
            shape,
            runs: runs::Runs::new(directory)?,
            sums: BTreeMap::new(),
            failed: failed::FailureList::new(directory)?,
            incomplete: BTreeSet::new(),
            taken: BTreeSet::new(),
            notes: Vec::new(),
        })
    }

    /// A file of `record` is there.
    pub fn arrived(&mut self, record: &Record, arrived: &Arrived<'_>) -> Result<()> {
        let path = record.path.as_bytes();
        self.taken.extend([RUNS, SUMS, SHEET, FAILED].into_iter().find(|name| name.as_bytes() == path));
        if arrived.bytes.is_some() {
            self.failed.forget(record);
        }
        let md5 =
            [arrived.checksums, &record.checksums].into_iter().find_map(|sums| sums.get(Algorithm::Md5));
        if let (Some(md5), Some(_)) = (md5.and_then(|md5| md5.try_into().ok()), arrived.bytes) {
            self.sums.insert(path.to_vec(), md5);
        }
        if record.group.is_none() && record.meta.is_empty() {
            return Ok(());
        }
        let mut row: BTreeMap<String, String> = (*record.meta).clone();
        if let Some(group) = &record.group {
            row.entry("run_accession".to_owned()).or_insert_with(|| group.to_string());
        }
        let declared = record.checksums.get(Algorithm::Md5).is_some();
        let known = |value: Option<String>| value.unwrap_or_default();
        for (column, value) in [
            ("path", show(path).into_owned()),
            ("url", public(arrived.url)),
            ("bytes", known(arrived.bytes.or(record.bytes).map(|bytes| bytes.to_string()))),
            ("md5", known(md5.map(|md5| data_encoding::HEXLOWER.encode(md5)))),
            ("md5_ok", known((declared && arrived.verified).then(|| "true".to_owned()))),
            ("seconds", known(arrived.seconds.map(|seconds| format!("{seconds:.3}")))),
        ] {
            row.insert(column.to_owned(), value);
        }
        for column in ["source", "format"] {
            row.entry(column.to_owned()).or_default();
        }
        self.runs.add(&row)
    }

    /// Something was not got.
    pub fn failed(&mut self, named: &str, record: Option<&Record>, error: &Error) -> Result<()> {
        if let Some(group) = record.and_then(|record| record.group.as_ref()) {
            self.incomplete.insert(Arc::clone(group));
        }
        self.failed.add(named, record, error)
    }

    /// Writes everything that there is something to say in, and answers with the names of the files.
    /// `whole` if the list came to its end: only then are the runs known to be complete.
    pub fn write(mut self, whole: bool) -> Result<Written> {
        let mut written = Vec::new();
        if whole {
            self.failed.conclude();
        }
        let is_free = |name: &str, taken: &BTreeSet<&'static str>, notes: &mut Vec<String>| {
            if taken.contains(name) {
                notes.push(format!("{name} is one of the files got: nothing else is written there"));
            }
            !taken.contains(name)
        };
        if is_free(RUNS, &self.taken, &mut self.notes) && !self.runs.is_empty() {
            let path = self.directory.join(RUNS);
            if self.runs.merge(&path)? {
                replace(&self.directory, RUNS, 0o666, |out| self.runs.write(out))?;
                written.push(RUNS);
            } else {
                self.notes.push(foreign(RUNS));
            }
        }
        if let Some(shape) = self.shape
            && !self.runs.is_empty()
            && is_free(SHEET, &self.taken, &mut self.notes)
        {
            if !whole {
                self.notes.push(format!("{SHEET} is not written: not every run is known to be complete"));
            } else if !sheet::is_ours(&self.directory.join(SHEET)) {
                self.notes.push(foreign(SHEET));
            } else {
                let sheet = sheet::Sheet::of(&mut self.runs, shape, &self.directory, &self.incomplete)?;
                self.notes.extend(sheet.notes());
                if !sheet.is_empty() {
                    replace(&self.directory, SHEET, 0o666, |out| sheet.write(out))?;
                    written.push(SHEET);
                }
            }
        }
        if is_free(SUMS, &self.taken, &mut self.notes) && !self.sums.is_empty() {
            if sums::merge(&mut self.sums, &self.directory.join(SUMS))? {
                replace(&self.directory, SUMS, 0o666, |out| sums::write(&self.sums, out))?;
                written.push(SUMS);
            } else {
                self.notes.push(foreign(SUMS));
            }
        }
        if is_free(FAILED, &self.taken, &mut self.notes) {
            let path = self.directory.join(FAILED);
            if !self.failed.is_ours() {
                self.notes.push(foreign(FAILED));
            } else if !self.failed.is_empty() {
                // What is named here may carry a password or a signature.
                replace(&self.directory, FAILED, 0o600, |out| self.failed.write(out))?;
                written.push(FAILED);
            } else if let Err(error) = fs::remove_file(&path)
                && error.kind() != io::ErrorKind::NotFound
            {
                return Err(Error::io("remove", path.as_os_str().as_bytes(), error));
            }
        }
        Ok(Written { files: written, notes: self.notes })
    }
}

/// What was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// The names of the files.
    pub files: Vec<&'static str>,
    /// What people should know.
    pub notes: Vec<String>,
}

fn foreign(name: &str) -> String {
    format!("{name} is there already and was not written by tidegate: it is left as it is")
}

/// Puts a file in place in one step: a reader finds the old one or the new one.
fn replace(
    directory: &Path,
    name: &str,
    mode: u32,
    content: impl FnOnce(&mut BufWriter<WholeFile>) -> io::Result<()>,
) -> Result<()> {
    let path = directory.join(name);
    let write = || {
        let mut out = BufWriter::new(WholeFile::begin(&path, mode)?);
        content(&mut out)?;
        out.into_inner().map_err(io::IntoInnerError::into_error)?.commit()
    };
    write().map_err(|error| Error::io("write", path.as_os_str().as_bytes(), error))
}
