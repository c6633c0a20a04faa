//! Files of a place, for `tidegate.fs`. Whoever waits for an answer waits without the interpreter, and Ctrl-C is heard.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tidegate::Files;
use tidegate_contract::exit::Exit;
use tidegate_transfer::error::{Error, ErrorKind, Result};
use tidegate_transfer::transfer::Interrupt;
use tidegate_transfer::transfer::file_client::WantedRange;
use tidegate_transfer::wire::files::{FileKind, FileStatus, MAX_CONTENT};

use crate::convert::refuse;

/// How often signals are looked for while an answer is awaited.
const GLANCE: Duration = Duration::from_millis(100);

/// What something is, its size, permissions, time, version, and what stands in the link that it is.
type Status<'py> = (&'static str, u64, u32, f64, Bound<'py, PyBytes>, Option<OsString>);

/// A place whose files are looked at and changed.
#[pyclass(name = "Connection", module = "tidegate._core", frozen)]
pub(crate) struct PyConnection {
    files: Files,
}

#[pymethods]
impl PyConnection {
    /// Reaches the place that `words` name, with options of `tidegate ls`.
    #[new]
    fn new(py: Python<'_>, words: Vec<OsString>, sessions: u16) -> PyResult<Self> {
        let files = awaited(py, &[], move |interrupt| Files::connect(words, sessions, interrupt))?;
        Ok(Self { files })
    }

    fn stat<'py>(&self, py: Python<'py>, path: OsString) -> PyResult<Status<'py>> {
        let path = path.into_vec();
        let status = awaited(py, &path, |interrupt| self.files.stat(&path, interrupt))?;
        Ok(told(py, status))
    }

    /// What a directory is, what lies in it, and why some of that cannot be told.
    fn list<'py>(
        &self,
        py: Python<'py>,
        path: OsString,
        recursive: bool,
    ) -> PyResult<(Status<'py>, Vec<(OsString, Status<'py>)>, Vec<String>)> {
        let path = path.into_vec();
        let listing = awaited(py, &path, |interrupt| self.files.list(&path, recursive, interrupt))?;
        let entries = listing.entries.into_iter();
        let entries = entries.map(|entry| (OsString::from_vec(entry.path.into()), told(py, entry.status)));
        let problems = listing.problems.into_iter().map(|(_, error)| error.message).collect();
        Ok((told(py, listing.itself), entries.collect(), problems))
    }

    /// The content of ranges, each a path, a version or none, a start and an end; or the exception that is its error.
    fn read<'py>(
        &self,
        py: Python<'py>,
        wanted: Vec<(OsString, Option<Vec<u8>>, u64, u64)>,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let wanted = wanted.into_iter().map(|(path, version, start, end)| {
            let version = version.map(|version| version.try_into()).transpose();
            let version = version.map_err(|_| refuse("a version is of 16 bytes"))?;
            Ok(WantedRange { path: path.into_vec(), version, range: start..end.max(start) })
        });
        let wanted = wanted.collect::<PyResult<Vec<_>>>()?;
        let paths: Vec<_> = wanted.iter().map(|one| one.path.clone()).collect();
        let read = awaited(py, &[], |interrupt| self.files.read(wanted, interrupt))?;
        let content = read.into_iter().zip(paths).map(|(pieces, path)| match pieces {
            Ok(pieces) => {
                let bytes = PyBytes::new_with(py, pieces.iter().map(Vec::len).sum(), |mut buffer| {
                    for piece in pieces {
                        let (here, rest) = buffer.split_at_mut(piece.len());
                        here.copy_from_slice(&piece);
                        buffer = rest;
                    }
                    Ok(())
                })?;
                Ok(bytes.into_any())
            }
            Err(error) => exception(py, &error, &path),
        });
        content.collect()
    }

    fn hash(&self, py: Python<'_>, path: OsString) -> PyResult<String> {
        let path = path.into_vec();
        let digest = awaited(py, &path, |interrupt| self.files.hash(&path, interrupt))?;
        Ok(digest.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    #[pyo3(signature = (path, content, new = false))]
    /// Writes a file of at most `MAX_CONTENT` bytes; if it is to be `new`, only where nothing bears its name.
    fn write(&self, py: Python<'_>, path: OsString, content: &[u8], new: bool) -> PyResult<()> {
        if content.len() > MAX_CONTENT {
            return Err(refuse(format!("at most {MAX_CONTENT} bytes are written at once")));
        }
        let (path, content) = (path.into_vec(), content.to_vec());
        awaited(py, &path, |interrupt| match new {
            true => self.files.create(&path, content, interrupt),
            false => self.files.write(&path, content, interrupt),
        })
    }

    fn rename(&self, py: Python<'_>, from: OsString, to: OsString) -> PyResult<()> {
        let (from, to) = (from.into_vec(), to.into_vec());
        awaited(py, &from, |interrupt| self.files.rename(&from, &to, interrupt))
    }

    /// Removes files and links, then directories, which must be empty by then.
    fn remove(&self, py: Python<'_>, files: Vec<OsString>, directories: Vec<OsString>) -> PyResult<()> {
        let bytes = |paths: Vec<OsString>| paths.into_iter().map(OsString::into_vec).collect::<Vec<_>>();
        let (files, directories) = (bytes(files), bytes(directories));
        // Where there are several nobody says which.
        let about = match (&files[..], &directories[..]) {
            ([one], []) | ([], [one]) => one,
            _ => &[][..],
        };
        awaited(py, about, |interrupt| self.files.remove(&files, &directories, interrupt))
    }

    fn make_directory(&self, py: Python<'_>, path: OsString, parents: bool) -> PyResult<()> {
        let path = path.into_vec();
        awaited(py, &path, |interrupt| self.files.make_directory(&path, parents, interrupt))
    }
}

/// Waits for what `ask` answers about `path`, if it is about one; a signal whose handler raises ends it.
fn awaited<T: Send>(
    py: Python<'_>,
    path: &[u8],
    ask: impl FnOnce(&Interrupt) -> Result<T> + Send,
) -> PyResult<T> {
    let interrupt = Interrupt::default();
    let answer = py.detach(|| {
        thread::scope(|scope| {
            let (tell, told) = mpsc::channel();
            let interrupt = &interrupt;
            scope.spawn(move || tell.send(ask(interrupt)));
            loop {
                match told.recv_timeout(GLANCE) {
                    Ok(answer) => return Ok(answer),
                    Err(RecvTimeoutError::Timeout) => {
                        if let Err(raised) = Python::attach(|py| py.check_signals()) {
                            interrupt.raise();
                            return Err(raised);
                        }
                    }
                    Err(RecvTimeoutError::Disconnected) => {
                        return Ok(Err(Error::new(ErrorKind::Io, "a thread panicked")));
                    }
                }
            }
        })
    })?;
    answer.map_err(|error| match exception(py, &error, path) {
        Ok(raised) => PyErr::from_value(raised),
        Err(failed) => failed,
    })
}

/// The exception of the package that `error` is; `path` is what was asked about, if that is known.
fn exception<'py>(py: Python<'py>, error: &Error, path: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    let kind = serde_json::to_value(error.kind).map_err(|error| refuse(error.to_string()))?;
    let of_exit = py.import("tidegate.errors")?.getattr("of_exit")?;
    let kind = kind.as_str().unwrap_or_default();
    let path = (!path.is_empty()).then(|| OsStr::from_bytes(path));
    of_exit.call1((Exit::of(error.kind).code(), &error.message, kind, error.errno(), path))
}

fn told(py: Python<'_>, status: FileStatus) -> Status<'_> {
    let kind = match status.kind {
        FileKind::File => "file",
        FileKind::Directory => "directory",
        FileKind::Link => "link",
        FileKind::Other => "other",
    };
    let modified = status.mtime.seconds as f64 + f64::from(status.mtime.nanoseconds) / 1e9;
    let link = status.link.map(|target| OsStr::from_bytes(&target).to_owned());
    (kind, status.size, status.mode, modified, PyBytes::new(py, &status.version), link)
}
