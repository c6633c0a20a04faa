//! `simulate`: a rule on a scenario, and what it came to.

use pyo3::prelude::*;
use pyo3::types::PyString;
use tidegate_control::{Bounds, Concurrency, Observation, Optimizer, PerStage, Policy, Proposal, judge};

use crate::convert::{all_bounds, epoch_count, epoch_length, number, number_if_any, refuse, setpoint};
use crate::observation::PyObservation;
use crate::optimizer::rule;
use crate::policy;
use crate::scenario::PyScenario;

/// A rule written in Python: called once an epoch with the observation and the bounds.
struct Callable {
    rule: Py<PyAny>,
    /// What it raised; from then on it is not asked again.
    error: Option<PyErr>,
}

impl Callable {
    fn ask(&self, seen: &Observation, bounds: PerStage<Bounds>) -> PyResult<Concurrency> {
        Python::attach(|py| {
            let seen = PyObservation(seen.clone());
            let answer = self.rule.bind(py).call1((seen, all_bounds(py, bounds)?))?;
            setpoint(&answer, "the rule's answer")
        })
    }
}

impl Optimizer for Callable {
    fn propose(&mut self, seen: &Observation, bounds: PerStage<Bounds>) -> Proposal {
        if self.error.is_none() {
            match self.ask(seen, bounds) {
                Ok(next) => return next.into(),
                Err(error) => self.error = Some(error),
            }
        }
        seen.concurrency.into()
    }
}

/// Runs a rule on a scenario and returns what it came to, with the keys of `tidegate simulate --json`.
///
/// `optimizer` is a rule's name, or a function that is given an `Observation` and the bounds once an
/// epoch and returns three numbers of workers; it begins with the fewest. `policy` is what the rule `"policy"` decides by:
/// a `Policy`, or the name of a policy file.
#[pyfunction]
#[pyo3(signature = (scenario, optimizer = None, *, seed = 1, epochs = 60, epoch_ms = None, policy = None))]
pub(crate) fn simulate<'py>(
    py: Python<'py>,
    scenario: &PyScenario,
    optimizer: Option<&Bound<'py, PyAny>>,
    #[pyo3(from_py_with = number)] seed: u64,
    #[pyo3(from_py_with = number)] epochs: i64,
    #[pyo3(from_py_with = number_if_any)] epoch_ms: Option<f64>,
    #[pyo3(from_py_with = policy::given)] policy: Option<Policy>,
) -> PyResult<Bound<'py, PyAny>> {
    let epochs = epoch_count(epochs)?;
    let length = epoch_ms.map(epoch_length).transpose()?;
    let default = PyString::new(py, "auto").into_any();
    let optimizer = optimizer.unwrap_or(&default);
    let (name, summary) = if let Ok(name) = optimizer.extract::<String>() {
        let mut rule = rule(&name, seed, [("k", None), ("b", None), ("epsilon", None)], policy)?;
        let scenario = &scenario.scenario;
        (name, py.detach(|| judge(scenario, rule.as_mut(), seed, epochs, length)))
    } else if optimizer.is_callable() {
        let mut rule = Callable { rule: optimizer.clone().unbind(), error: None };
        let summary = judge(&scenario.scenario, &mut rule, seed, epochs, length);
        if let Some(error) = rule.error {
            return Err(error);
        }
        let name = optimizer.getattr("__name__").and_then(|name| name.extract()).ok();
        (name.unwrap_or_else(|| "callable".to_owned()), summary)
    } else {
        return Err(refuse("optimizer must be a rule's name or a function"));
    };
    // By way of JSON, so that the keys and the units are those of the command.
    let text = serde_json::to_string(&summary).map_err(|error| refuse(error.to_string()))?;
    let result = py.import("json")?.call_method1("loads", (text,))?;
    result.set_item("optimizer", name)?;
    Ok(result)
}
