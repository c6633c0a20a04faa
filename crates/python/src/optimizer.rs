//! `Optimizer`: a rule by its name.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use tidegate_control::optimizer::{Optimizer, OptimizerOptions, build, needs_policy, with_constants};
use tidegate_control::{Bounds, Host, PerStage, Policy};

use crate::convert::{all_bounds, bounds, number, number_if_any, per_stage, refuse};
use crate::observation::PyObservation;
use crate::policy;

/// A rule by the name `--optimizer` knows it by: once an epoch it is shown an `Observation` and answers
/// with three numbers of workers.
///
/// The same history gives the same answers; `seed` fixes those of rules that draw at random. `policy` is what `"policy"`
/// and its kin decide by: a `Policy`, or the name of a policy file.
#[pyclass(name = "Optimizer", module = "tidegate", frozen)]
pub(crate) struct PyOptimizer {
    name: String,
    bounds: PerStage<Bounds>,
    // A rule changes as it learns and cannot be shared; the class can, as Python demands.
    rule: Mutex<Scored>,
}

/// A rule, and the score it gave last.
struct Scored {
    rule: Box<dyn Optimizer>,
    utility: Option<f64>,
}

/// The rule called `name`, with the constants or the policy of the rules that have them.
pub(crate) fn rule(
    name: &str,
    seed: u64,
    constants: [(&str, Option<f64>); 3],
    policy: Option<Policy>,
) -> PyResult<Box<dyn Optimizer>> {
    if policy.is_some() && !needs_policy(name) {
        return Err(refuse(format!("policy goes with a rule that decides by one: {name} does not")));
    }
    let given: Vec<_> =
        constants.into_iter().filter_map(|(key, value)| Some((key, value?.to_string()))).collect();
    let given = given.iter().map(|(key, value)| (*key, *key, value.as_str()));
    let name = &with_constants(name, given).map_err(refuse)?;
    let options = OptimizerOptions { seed, policy, ..OptimizerOptions::default() };
    build(name, &options).map_err(|error| refuse(error.to_string()))
}

impl PyOptimizer {
    fn rule(&self) -> MutexGuard<'_, Scored> {
        self.rule.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl PyOptimizer {
    #[new]
    #[pyo3(signature = (name = "auto", *, bounds = None, seed = 1, k = None, b = None, epsilon = None, policy = None))]
    fn new(
        name: &str,
        #[pyo3(from_py_with = given)] bounds: Option<PerStage<Bounds>>,
        #[pyo3(from_py_with = number)] seed: u64,
        #[pyo3(from_py_with = number_if_any)] k: Option<f64>,
        #[pyo3(from_py_with = number_if_any)] b: Option<f64>,
        #[pyo3(from_py_with = number_if_any)] epsilon: Option<f64>,
        #[pyo3(from_py_with = policy::given)] policy: Option<Policy>,
    ) -> PyResult<Self> {
        let constants = [("k", k), ("b", b), ("epsilon", epsilon)];
        Ok(Self {
            name: name.to_owned(),
            bounds: bounds.unwrap_or(PerStage::all(Bounds::new(1, 64))),
            rule: Mutex::new(Scored { rule: rule(name, seed, constants, policy)?, utility: None }),
        })
    }

    /// The rule's name.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// The fewest and the most workers a stage: three pairs.
    #[getter]
    fn bounds<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        all_bounds(py, self.bounds)
    }

    /// How long this rule's epochs should be, in ms.
    #[getter]
    fn epoch_ms(&self) -> f64 {
        self.rule().rule.epoch_length().as_secs_f64() * 1e3
    }

    /// The score the rule gave the last observation; None for rules that give none.
    #[getter]
    fn utility(&self) -> Option<f64> {
        self.rule().utility
    }

    /// The set-point to begin with: three numbers of workers.
    fn start<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        // What runs Python moves nothing: no host limits where a rule begins, as in the simulator.
        let start = self.rule().rule.start(self.bounds, &Host::default());
        per_stage(py, self.bounds.clamp(start.setpoint))
    }

    /// The set-point for the next epoch, within `bounds` (those of the constructor unless given).
    #[pyo3(signature = (observation, bounds = None))]
    fn propose<'py>(
        &self,
        py: Python<'py>,
        observation: &PyObservation,
        #[pyo3(from_py_with = given)] bounds: Option<PerStage<Bounds>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let bounds = bounds.unwrap_or(self.bounds);
        let mut scored = self.rule();
        let next = scored.rule.propose(&observation.0, bounds);
        scored.utility = next.utility;
        per_stage(py, bounds.clamp(next.setpoint))
    }

    fn __repr__(&self) -> String {
        format!("<Optimizer {}>", self.name)
    }
}

fn given(value: &Bound<'_, PyAny>) -> PyResult<Option<PerStage<Bounds>>> {
    if value.is_none() { Ok(None) } else { bounds(value).map(Some) }
}
