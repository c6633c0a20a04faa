//! `Policy`: a learned policy as `--policy` takes it, from layers of numbers or from a file.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tidegate_control::policy::{Actions, Block, Network, Policy, Recipe, Scales, Shape};
use tidegate_control::{BitRate, Bounds, Concurrency, PerStage};

use crate::convert::{all_bounds, bounds, reference, refuse, setpoint, unreadable};

/// The most a policy file may hold, as the command has it.
const MAX_FILE: u64 = 64 << 20;

/// The logarithm of each action's deviation where nobody says another; a third of what there is to choose from.
const LOG_SIGMA: f32 = -1.0;

/// A learned policy: a network of linear layers of one width with tanh between them, and what it was trained on.
///
/// `tidegate.export_policy` makes one of a model. Here `layers` and `critic` are pairs of weights (outputs × inputs) and
/// biases, float32 arrays. `Policy.from_file(path)` reads what `tidegate train` or `save` has written.
#[pyclass(name = "Policy", module = "tidegate", frozen, eq)]
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PyPolicy(pub(crate) Policy);

/// The policy itself, or the one in the file of that name.
pub(crate) fn given(value: &Bound<'_, PyAny>) -> PyResult<Option<Policy>> {
    if value.is_none() {
        return Ok(None);
    }
    if let Ok(policy) = value.cast::<PyPolicy>() {
        return Ok(Some(policy.get().0.clone()));
    }
    let path = value.extract::<PathBuf>();
    let path = path.map_err(|_| refuse("policy must be a tidegate.Policy or the name of a policy file"))?;
    read(&path).map(Some)
}

fn read(path: &Path) -> PyResult<Policy> {
    let place = path.display();
    let mut bytes = Vec::new();
    let opened = File::open(path).map_err(|error| unreadable(&error, path))?;
    opened.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(|error| unreadable(&error, path))?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(refuse(format!("{place}: is too large to be a policy")));
    }
    Policy::from_bytes(&bytes).map_err(|error| refuse(format!("{place}: {error}")))
}

/// The network of `layers`; its sizes are those of the arrays.
fn network(py: Python<'_>, what: &str, layers: &[(Bound<'_, PyAny>, Bound<'_, PyAny>)]) -> PyResult<Network> {
    if layers.len() < 2 {
        return Err(refuse(format!("{what}: a network has two layers or more, not {}", layers.len())));
    }
    let (mut parameters, mut sizes) = (Vec::new(), Vec::new());
    for (i, (weight, bias)) in layers.iter().enumerate() {
        let array = |value: &Bound<'_, PyAny>, part: &str| {
            PyBuffer::<f32>::get(value)
                .map_err(|_| refuse(format!("{what}: {part} of layer {} must be a float32 array", i + 1)))
        };
        let (weight, bias) = (array(weight, "weights")?, array(bias, "biases")?);
        let (&[outputs, inputs], &[biases]) = (weight.shape(), bias.shape()) else {
            let why = "must have weights outputs × inputs and a row of biases";
            return Err(refuse(format!("{what}: layer {} {why}", i + 1)));
        };
        if biases != outputs {
            return Err(refuse(format!("{what}: layer {} has {outputs} outputs and {biases} biases", i + 1)));
        }
        parameters.extend(weight.to_vec(py)?);
        parameters.extend(bias.to_vec(py)?);
        sizes.push((outputs, inputs));
    }
    let (width, inputs) = sizes[0];
    let outputs = sizes[sizes.len() - 1].0;
    for (i, &(to, from)) in sizes.iter().enumerate().skip(1) {
        let wanted = (if i + 1 == sizes.len() { outputs } else { width }, width);
        if (to, from) != wanted {
            return Err(refuse(format!(
                "{what}: layer {} is {to} × {from}, expected {} × {}: all layers between have one width",
                i + 1,
                wanted.0,
                wanted.1
            )));
        }
    }
    let shape = Shape { inputs, width, blocks: sizes.len() - 2, block: Block::Dense, outputs };
    Network::new(shape, parameters).ok_or_else(|| refuse(format!("{what}: its sizes are out of range")))
}

type Layers<'py> = Vec<(Bound<'py, PyAny>, Bound<'py, PyAny>)>;

#[pymethods]
impl PyPolicy {
    #[new]
    #[pyo3(signature = (
        recipe, layers, *, bounds, reference_bps, log_sigma = None, critic = None, start = None, facts = None
    ))]
    #[expect(clippy::too_many_arguments, reason = "keywords of a constructor")]
    #[expect(clippy::needless_pass_by_value, reason = "what Python hands over")]
    fn new(
        py: Python<'_>,
        recipe: &str,
        layers: Layers<'_>,
        #[pyo3(from_py_with = bounds)] bounds: PerStage<Bounds>,
        reference_bps: f64,
        log_sigma: Option<Vec<f32>>,
        critic: Option<Layers<'_>>,
        #[pyo3(from_py_with = started)] start: Option<Concurrency>,
        facts: Option<BTreeMap<String, String>>,
    ) -> PyResult<Self> {
        let recipe: Recipe = recipe.parse().map_err(|why: String| refuse(why))?;
        let scales =
            Scales { rate_bps: BitRate::from_bps(reference(reference_bps)?.max(1.0)), bounds, start };
        let features = recipe.features(&scales);
        let deviations = if features.actions() == Actions::Gaussian { features.heads() } else { 0 };
        let policy = Policy {
            recipe,
            scales,
            actor: network(py, "actor", &layers)?,
            log_sigma: log_sigma.unwrap_or_else(|| vec![LOG_SIGMA; deviations]),
            critic: critic.map(|layers| network(py, "critic", &layers)).transpose()?,
            facts: facts.unwrap_or_default(),
        };
        // What will be read is what was meant, or it is not written.
        Policy::from_bytes(&policy.to_bytes()).map(Self).map_err(|error| refuse(error.to_string()))
    }

    /// Reads a file. Raises `FileNotFoundError` and its kin, or `ValueError` naming file and field.
    #[staticmethod]
    #[expect(clippy::needless_pass_by_value, reason = "what Python hands over")]
    fn from_file(path: PathBuf) -> PyResult<Self> {
        read(&path).map(Self)
    }

    /// What a file of it holds.
    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.to_bytes())
    }

    /// How it sees and acts.
    #[getter]
    fn recipe(&self) -> &'static str {
        self.0.recipe.name()
    }

    /// Numbers it is shown.
    #[getter]
    fn inputs(&self) -> usize {
        self.0.actor.shape().inputs
    }

    /// Numbers it answers.
    #[getter]
    fn outputs(&self) -> usize {
        self.0.actor.shape().outputs
    }

    /// The fewest and the most workers a stage that it was trained in.
    #[getter]
    fn bounds<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        all_bounds(py, self.0.scales.bounds)
    }

    /// What throughput is shown relative to, in bit/s.
    #[getter]
    fn reference_bps(&self) -> u64 {
        self.0.scales.rate_bps.0
    }

    /// Where it came from, as its file says.
    #[getter]
    fn facts(&self) -> BTreeMap<String, String> {
        self.0.facts.clone()
    }

    /// What the network answers to a state: the means of the actions, or how likely each choice is.
    #[expect(clippy::needless_pass_by_value, reason = "what Python hands over")]
    fn forward(&self, state: Vec<f32>) -> PyResult<Vec<f32>> {
        let inputs = self.inputs();
        if state.len() != inputs {
            return Err(refuse(format!("a state has {inputs} numbers, not {}", state.len())));
        }
        Ok(self.0.actor.forward(&state))
    }

    fn __repr__(&self) -> String {
        let shape = self.0.actor.shape();
        let (blocks, width) = (shape.blocks + 1, shape.width);
        format!(
            "<Policy {}: {} numbers, {blocks} × {width}, {} numbers>",
            self.recipe(),
            shape.inputs,
            shape.outputs
        )
    }
}

fn started(value: &Bound<'_, PyAny>) -> PyResult<Option<Concurrency>> {
    if value.is_none() { Ok(None) } else { setpoint(value, "start").map(Some) }
}
