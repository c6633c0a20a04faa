//! A command of `tidegate` in this process. What a caller waits for it waits for without the interpreter, and messages,
//! progress and results are fetched, so that no Python is ever run by a thread of ours but for the one call at the end.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use pyo3::prelude::*;
use tidegate::{Call, Options, Outcome, Progress, Refused, Run, Task};

use crate::convert::{per_stage, refuse};

/// A command that runs, or has run.
#[pyclass(name = "Run", module = "tidegate._core", frozen)]
pub(crate) struct PyRun {
    run: Run,
}

#[pymethods]
impl PyRun {
    /// Begins `command` from `sources` to `destination`, if there is one, with `options`, a JSON object. `over` is called by
    /// another thread when it has ended.
    #[new]
    #[pyo3(signature = (command, sources, destination, options, over = None))]
    fn new(
        command: &str,
        sources: Vec<OsString>,
        destination: Option<OsString>,
        options: &str,
        over: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let asked = asked(command, sources, destination, options)?;
        let over = move || {
            let Some(over) = over else { return };
            // Nobody waits any more when the interpreter is about to go.
            Python::try_attach(|py| {
                if let Err(error) = over.call0(py) {
                    error.write_unraisable(py, None);
                }
                drop(over);
            });
        };
        Ok(Self { run: Run::start(asked, over) })
    }

    /// Asks it to end.
    fn interrupt(&self) {
        self.run.interrupt();
    }

    /// Waits so many seconds at most; whether it has ended.
    fn wait(&self, py: Python<'_>, seconds: f64) -> PyResult<bool> {
        let patience = Duration::try_from_secs_f64(seconds);
        let patience = patience.map_err(|_| refuse("seconds must be a number, 0 or more"))?;
        Ok(py.detach(|| self.run.wait(patience)))
    }

    /// What it said to people since the last time.
    fn messages(&self) -> Vec<String> {
        self.run.messages()
    }

    /// How it is getting on: the fields of `tidegate.Progress`, in their order.
    fn progress<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(progress) = self.run.progress() else { return Ok(None) };
        let Progress { bytes, total_bytes, files, total_files, failed_files, rate, concurrency, time_left } =
            progress;
        let fields = (
            bytes.0,
            total_bytes.map(|bytes| bytes.0),
            files,
            total_files,
            failed_files,
            rate.0,
            per_stage(py, concurrency)?,
            time_left.map(|time| time.as_secs_f64()),
        );
        Ok(Some(fields.into_pyobject(py)?.into_any()))
    }

    /// How it ended, once it has: the exit code, lines of JSON, and why nothing was begun, if so: its kind, why, and the
    /// system's number for that.
    fn outcome(&self) -> PyResult<Option<(u8, Vec<String>, Option<(String, String, Option<i32>)>)>> {
        let Some(Outcome { code, results, refusal }) = self.run.outcome() else { return Ok(None) };
        let named = |Refused { kind, why, errno }| {
            let kind = serde_json::to_value(kind).map_err(|error| refuse(error.to_string()))?;
            Ok::<_, PyErr>((kind.as_str().unwrap_or_default().to_owned(), why, errno))
        };
        Ok(Some((code, results, refusal.map(named).transpose()?)))
    }
}

/// What a call asks for.
fn asked(command: &str, from: Vec<OsString>, destination: Option<OsString>, options: &str) -> PyResult<Task> {
    let options: Options = serde_json::from_str(options).map_err(|error| refuse(error.to_string()))?;
    let call = Call { options, from, to: destination.unwrap_or_default() };
    Ok(match command {
        "copy" => Task::Copy(call),
        "get" => Task::Get(call),
        "put" => Task::Put(call),
        "verify" => Task::Verify(call),
        "estimate" => Task::Estimate(call),
        "ls" => Task::Ls(call),
        "hash" => Task::Hash(call),
        other => return Err(refuse(format!("{other:?} is no command that runs in a program's process"))),
    })
}

/// Says where the program `tidegate` is, which other programs of ours are begun by.
#[pyfunction]
pub(crate) fn program_is_at(path: PathBuf) {
    tidegate::program_is_at(path);
}

/// Runs the program `tidegate` on a command line, and answers with its exit code.
#[pyfunction]
pub(crate) fn main(py: Python<'_>, words: Vec<OsString>) -> u8 {
    py.detach(|| tidegate::main_in_process(words))
}
