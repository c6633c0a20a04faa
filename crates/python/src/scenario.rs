//! `Scenario`: a network as data.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use tidegate_control::{Path, Scenario};

use crate::convert::{all_bounds, oracle, refuse, setpoint, time, unreadable};

/// A network as data, from the text of a TOML file; docs/scenarios.md describes every key.
///
/// `Scenario.from_file(path)` reads a file. What is wrong with either is one line that names the key.
#[pyclass(name = "Scenario", module = "tidegate", frozen)]
#[derive(Clone, Debug)]
pub(crate) struct PyScenario {
    pub(crate) scenario: Scenario,
    toml: String,
}

impl PyScenario {
    fn parse(toml: String, place: &str) -> PyResult<Self> {
        let scenario = Scenario::from_toml(&toml).map_err(|error| refuse(format!("{place}: {error}")))?;
        Ok(Self { scenario, toml })
    }

    fn path(&self, at_ms: Option<&Bound<'_, PyAny>>) -> PyResult<Path> {
        let at = at_ms.map_or(Ok(Duration::ZERO), |at_ms| time(at_ms, "at_ms", 1e3))?;
        Ok(Path::at(&self.scenario, at))
    }
}

#[pymethods]
impl PyScenario {
    #[new]
    fn new(toml: String) -> PyResult<Self> {
        Self::parse(toml, "scenario")
    }

    /// Reads a file. Raises `FileNotFoundError` and its kin, or `ValueError` naming file and key.
    #[staticmethod]
    #[expect(clippy::needless_pass_by_value, reason = "what Python hands over")]
    fn from_file(path: PathBuf) -> PyResult<Self> {
        let bytes = fs::read(&path).map_err(|error| unreadable(&error, &path))?;
        let place = path.display();
        let toml = String::from_utf8(bytes).map_err(|_| refuse(format!("{place}: is not UTF-8 text")))?;
        Self::parse(toml, &place.to_string())
    }

    /// The scenario's name.
    #[getter]
    fn name(&self) -> &str {
        &self.scenario.name
    }

    /// What it shows, in a sentence.
    #[getter]
    fn description(&self) -> &str {
        &self.scenario.description
    }

    /// The text it was made from.
    #[getter]
    fn toml(&self) -> &str {
        &self.toml
    }

    /// The fewest and the most workers a stage: three pairs. An absent stage is fixed at one.
    #[getter]
    fn bounds<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        all_bounds(py, self.scenario.bounds())
    }

    /// The fewest workers within 2 % of the best goodput, and that goodput in bit/s, `at_ms` after
    /// the start.
    #[pyo3(signature = (at_ms = None))]
    fn oracle<'py>(&self, py: Python<'py>, at_ms: Option<&Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
        oracle(py, self.path(at_ms)?.oracle())
    }

    /// End-to-end goodput in bit/s that three numbers of workers settle at, `at_ms` after the start.
    #[pyo3(signature = (setpoint, at_ms = None))]
    fn goodput_bps(
        &self,
        #[pyo3(from_py_with = asked)] setpoint: tidegate_control::Concurrency,
        at_ms: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<f64> {
        let setpoint = self.scenario.bounds().clamp(setpoint);
        Ok(self.path(at_ms)?.goodput(setpoint))
    }

    fn __repr__(&self) -> String {
        format!("<Scenario {}: {}>", self.scenario.name, self.scenario.description)
    }

    fn __eq__(&self, other: &Self) -> bool {
        self.scenario == other.scenario
    }

    /// The text it is made of, so that it can be copied and pickled.
    fn __getnewargs__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, [&self.toml])
    }
}

fn asked(value: &Bound<'_, PyAny>) -> PyResult<tidegate_control::Concurrency> {
    setpoint(value, "setpoint")
}
