//! `Paths`: any number of simulated paths that take a step together.

use std::sync::Arc;

use pyo3::buffer::{Element, PyBuffer};
use pyo3::prelude::*;
use tidegate_control::{Bounds, Concurrency, PerStage, Scenario};

use crate::convert::{
    all_bounds, choice, epoch_count, epoch_length, number, number_if_any, reference, refuse, setpoint,
};
use crate::episode::{Episode, INFORMATION, Outcome, Settings};
use crate::observation::PyObservation;
use crate::scenario::PyScenario;
use crate::view::{FEATURES, Taste};

/// What happens to an episode that is over.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Autoreset {
    /// The next step begins the next episode, whatever its action.
    NextStep,
    /// The next episode begins at once; how the last one ended is told beside.
    SameStep,
    /// Nothing: the caller resets.
    Disabled,
}

/// Simulated paths, stepped together without holding the interpreter's lock.
///
/// Arrays are the caller's, contiguous and of the documented type; they are written only when a call
/// succeeds.
#[pyclass(module = "tidegate._core")]
pub(crate) struct Paths {
    episodes: Vec<Episode>,
}

fn given_start(value: &Bound<'_, PyAny>) -> PyResult<Option<Concurrency>> {
    match value.extract::<String>() {
        Ok(text) if text == "random" => Ok(None),
        Ok(text) => Err(refuse(format!("start must be 'random' or three numbers of workers, not '{text}'"))),
        Err(_) => setpoint(value, "start").map(Some),
    }
}

/// Copies `values` into an array of the caller's.
fn fill<T: Element>(py: Python<'_>, array: &PyBuffer<T>, name: &str, values: &[T]) -> PyResult<()> {
    if array.item_count() != values.len() {
        return Err(refuse(format!("{name} must hold {} values, not {}", values.len(), array.item_count())));
    }
    array.copy_from_slice(py, values)
}

/// How a step ended, an episode that began anew in it included.
#[derive(Clone, Copy)]
struct Taken {
    outcome: Outcome,
    /// State and information at the end, where another episode has begun since.
    last: Option<([f32; FEATURES], [f64; INFORMATION])>,
}

fn take(episode: &mut Episode, setpoint: Concurrency, autoreset: Autoreset) -> Taken {
    if autoreset == Autoreset::NextStep && episode.ended() {
        episode.reset(None);
        return Taken { outcome: Outcome::default(), last: None };
    }
    let outcome = episode.step(setpoint);
    let over = (outcome.terminated || outcome.truncated) && autoreset == Autoreset::SameStep;
    let last = over.then(|| (episode.state(), episode.information()));
    if over {
        episode.reset(None);
    }
    Taken { outcome, last }
}

impl Paths {
    fn tell(
        &self,
        py: Python<'_>,
        observations: &PyBuffer<f32>,
        information: &PyBuffer<f64>,
    ) -> PyResult<()> {
        let states: Vec<f32> = self.episodes.iter().flat_map(Episode::state).collect();
        fill(py, observations, "observations", &states)?;
        let known: Vec<f64> = self.episodes.iter().flat_map(Episode::information).collect();
        fill(py, information, "information", &known)
    }

    fn episode(&self, index: usize) -> PyResult<&Episode> {
        let count = self.episodes.len();
        self.episodes.get(index).ok_or_else(|| refuse(format!("no path {index}: there are {count}")))
    }
}

#[pymethods]
impl Paths {
    #[new]
    #[pyo3(signature = (scenarios, *, epochs, epoch_ms, actions, reward, k, start, reference_bps))]
    #[expect(clippy::too_many_arguments, reason = "keywords of a constructor")]
    #[expect(clippy::needless_pass_by_value, reason = "what Python hands over")]
    fn new(
        scenarios: Vec<PyRef<'_, PyScenario>>,
        #[pyo3(from_py_with = number)] epochs: i64,
        #[pyo3(from_py_with = number)] epoch_ms: f64,
        actions: &str,
        reward: &str,
        #[pyo3(from_py_with = number)] k: f64,
        #[pyo3(from_py_with = given_start)] start: Option<Concurrency>,
        #[pyo3(from_py_with = number_if_any)] reference_bps: Option<f64>,
    ) -> PyResult<Self> {
        let settings = Settings {
            epochs: epoch_count(epochs)?,
            epoch: epoch_length(epoch_ms)?,
            taste: Taste::named(actions, reward, k)?,
            start,
            reference: reference_bps.map(reference).transpose()?,
        };
        // Paths of one scenario share it: a thousand of them are usual.
        let mut shared: Vec<Arc<Scenario>> = Vec::new();
        let mut episodes = Vec::with_capacity(scenarios.len());
        for scenario in &scenarios {
            let same = shared.last().filter(|last| ***last == scenario.scenario).cloned();
            let scenario = same.unwrap_or_else(|| Arc::new(scenario.scenario.clone()));
            shared.push(Arc::clone(&scenario));
            episodes.push(Episode::new(scenario, settings));
        }
        Ok(Self { episodes })
    }

    fn __len__(&self) -> usize {
        self.episodes.len()
    }

    /// The fewest and the most workers of a path, a stage.
    fn bounds<'py>(&self, py: Python<'py>, index: usize) -> PyResult<Bound<'py, PyAny>> {
        all_bounds(py, self.episode(index)?.view().bounds())
    }

    /// Whether all paths have the same bounds.
    fn same_bounds(&self) -> bool {
        let all: Vec<PerStage<Bounds>> =
            self.episodes.iter().map(|episode| episode.view().bounds()).collect();
        all.windows(2).all(|pair| pair[0] == pair[1])
    }

    /// What a path's throughput is shown relative to, in bit/s.
    fn reference_bps(&self, index: usize) -> PyResult<f64> {
        self.episode(index).map(|episode| episode.view().reference())
    }

    /// Fixes every episode of a path from here on.
    fn seed(&mut self, index: usize, seed: u64) -> PyResult<()> {
        self.episode(index)?;
        self.episodes[index].seed(seed);
        Ok(())
    }

    /// What a path's last epoch showed; None before the first.
    fn observation(&self, index: usize) -> PyResult<Option<PyObservation>> {
        Ok(self.episode(index)?.seen().cloned().map(PyObservation))
    }

    /// A path's present epoch as a line for people.
    fn text(&self, index: usize) -> PyResult<String> {
        self.episode(index).map(Episode::text)
    }

    /// Which paths' episodes are over or were never begun.
    fn ended(&self) -> Vec<bool> {
        self.episodes.iter().map(Episode::ended).collect()
    }

    /// Begins an episode on each path that `mask` (uint8, (N,)) names.
    fn reset(
        &mut self,
        py: Python<'_>,
        mask: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = given_start)] start: Option<Concurrency>,
        observations: &Bound<'_, PyAny>,
        information: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let mask = PyBuffer::<u8>::get(mask)?.to_vec(py)?;
        if mask.len() != self.episodes.len() {
            return Err(refuse(format!("mask must hold {} values, not {}", self.episodes.len(), mask.len())));
        }
        let (observations, information) = (PyBuffer::get(observations)?, PyBuffer::get(information)?);
        let episodes = &mut self.episodes;
        py.detach(|| {
            for (episode, _) in episodes.iter_mut().zip(mask).filter(|(_, wanted)| *wanted != 0) {
                episode.reset(start);
            }
        });
        self.tell(py, &observations, &information)
    }

    /// Lets an epoch pass on every path.
    ///
    /// `actions` is float64 (N, 3); all of them are checked before any path moves. Written are
    /// `observations` (float32, (N, FEATURES)), `rewards` (float64, (N,)), `terminated` and `truncated`
    /// (uint8, (N,)) and `information` (float64, (N, INFORMATION)). With `autoreset` "SameStep" the last
    /// states and information of episodes that ended are returned as well, as (index, state,
    /// information); its other values are "NextStep" and "Disabled".
    #[expect(clippy::too_many_arguments, reason = "one array a result")]
    fn step(
        &mut self,
        py: Python<'_>,
        actions: &Bound<'_, PyAny>,
        autoreset: &str,
        observations: &Bound<'_, PyAny>,
        rewards: &Bound<'_, PyAny>,
        terminated: &Bound<'_, PyAny>,
        truncated: &Bound<'_, PyAny>,
        information: &Bound<'_, PyAny>,
    ) -> PyResult<Vec<(usize, [f32; FEATURES], [f64; INFORMATION])>> {
        let modes = [
            ("NextStep", Autoreset::NextStep),
            ("SameStep", Autoreset::SameStep),
            ("Disabled", Autoreset::Disabled),
        ];
        let autoreset = choice("autoreset", autoreset, &modes)?;
        let actions = PyBuffer::<f64>::get(actions)?.to_vec(py)?;
        if actions.len() != 3 * self.episodes.len() {
            return Err(refuse(format!("actions must have the shape ({}, 3)", self.episodes.len())));
        }
        let (observations, information) = (PyBuffer::get(observations)?, PyBuffer::get(information)?);
        let (rewards, terminated) = (PyBuffer::<f64>::get(rewards)?, PyBuffer::<u8>::get(terminated)?);
        let truncated = PyBuffer::<u8>::get(truncated)?;
        let episodes = &mut self.episodes;
        let taken = py.detach(|| -> Result<Vec<Taken>, String> {
            let mut setpoints = Vec::with_capacity(episodes.len());
            for (i, (episode, action)) in episodes.iter().zip(actions.chunks_exact(3)).enumerate() {
                // An action that will be ignored may be anything.
                let ignored = autoreset == Autoreset::NextStep && episode.ended();
                let asked = if ignored { Ok(PerStage::all(1)) } else { episode.view().setpoint(action) };
                setpoints.push(asked.map_err(|why| format!("action of path {i}: {why}"))?);
            }
            let all = episodes.iter_mut().zip(setpoints);
            Ok(all.map(|(episode, setpoint)| take(episode, setpoint, autoreset)).collect())
        });
        let taken = taken.map_err(refuse)?;
        let outcome = |value: fn(&Outcome) -> u8| -> Vec<u8> {
            taken.iter().map(|taken| value(&taken.outcome)).collect()
        };
        let worth: Vec<f64> = taken.iter().map(|taken| taken.outcome.reward).collect();
        fill(py, &rewards, "rewards", &worth)?;
        fill(py, &terminated, "terminated", &outcome(|outcome| u8::from(outcome.terminated)))?;
        fill(py, &truncated, "truncated", &outcome(|outcome| u8::from(outcome.truncated)))?;
        self.tell(py, &observations, &information)?;
        let ended = taken.iter().enumerate();
        Ok(ended.filter_map(|(i, taken)| taken.last.map(|(state, known)| (i, state, known))).collect())
    }
}
