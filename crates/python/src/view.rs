//! How a path is seen by a learner, what its numbers ask for, and what an epoch is worth: the same for simulated and for
//! live ones.

use pyo3::prelude::*;
use tidegate_control::policy::Scales;
use tidegate_control::policy::features::gymnasium::{self, Gymnasium};
use tidegate_control::utility::LossTerm;
use tidegate_control::{BitRate, Bounds, Concurrency, Observation, PerStage, Stage, Utility};

use crate::convert::{bounds, choice, per_stage, reference, refuse};
use crate::observation::PyObservation;

/// Numbers in a state.
pub(crate) const FEATURES: usize = gymnasium::INPUTS;

/// What an epoch is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reward {
    /// End-to-end goodput relative to the reference, times the mean of K⁻ⁿ over the stages that can
    /// be set. Reading into the staging faster than the path drains it pays nothing.
    EndToEnd,
    /// AutoMDT: the sum of T/Kⁿ over the stages, in Mbit/s.
    Automdt,
    /// LDM: T/Kⁿ − B·L with the end-to-end goodput and the streams, in Mbit/s.
    Ldm,
}

/// What the numbers of an action mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Actions {
    /// Each from −1, the fewest workers, to 1, the most, evenly in the logarithm; beyond is cut off.
    Continuous,
    /// Each a number of workers above the fewest.
    Discrete,
}

/// What actions mean and epochs are worth.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taste {
    pub actions: Actions,
    pub reward: Reward,
    /// The utility's price of a worker.
    pub k: f64,
}

impl Taste {
    /// By their names.
    pub fn named(actions: &str, reward: &str, k: f64) -> PyResult<Self> {
        if !(k.is_finite() && k > 1.0) {
            return Err(refuse("k must be more than 1"));
        }
        let rewards = [("end_to_end", Reward::EndToEnd), ("automdt", Reward::Automdt), ("ldm", Reward::Ldm)];
        let kinds = [("continuous", Actions::Continuous), ("discrete", Actions::Discrete)];
        Ok(Self {
            actions: choice("actions", actions, &kinds)?,
            reward: choice("reward", reward, &rewards)?,
            k,
        })
    }
}

/// See the module's description.
#[derive(Clone, Debug)]
pub(crate) struct View {
    bounds: PerStage<Bounds>,
    reference: f64,
    taste: Taste,
    shown: Gymnasium,
}

impl View {
    pub fn new(bounds: PerStage<Bounds>, reference: f64, taste: Taste) -> Self {
        let reference = reference.max(1.0);
        let scales = Scales { rate_bps: BitRate::from_bps(reference), bounds, start: None };
        Self { bounds, reference, taste, shown: Gymnasium::new(scales) }
    }

    /// The fewest and the most workers.
    pub const fn bounds(&self) -> PerStage<Bounds> {
        self.bounds
    }

    /// What throughput is shown relative to, in bit/s.
    pub const fn reference(&self) -> f64 {
        self.reference
    }

    /// What an epoch looks like, each number within the bounds of the observation space.
    pub fn state(&self, seen: &Observation) -> [f32; FEATURES] {
        self.shown.state(seen)
    }

    /// The set-point that an action asks for; what is wrong with it otherwise.
    pub fn setpoint(&self, action: &[f64]) -> Result<Concurrency, String> {
        for (stage, value) in Stage::ALL.into_iter().zip(action) {
            let bounds = self.bounds[stage];
            let most = f64::from(bounds.max - bounds.min);
            let whole = value.fract() == 0.0 && (0.0..=most).contains(value);
            if !value.is_finite() {
                return Err(format!("{stage} is {value}, not a finite number"));
            } else if self.taste.actions == Actions::Discrete && !whole {
                return Err(format!("{stage} is {value}, not a whole number from 0 to {most}"));
            }
        }
        let action = PerStage::from_fn(|stage| action[stage as usize]);
        Ok(match self.taste.actions {
            Actions::Continuous => self.shown.setpoint(action),
            Actions::Discrete => PerStage::from_fn(|stage| {
                let bounds = self.bounds[stage];
                bounds.clamp_f64(f64::from(bounds.min) + action[stage])
            }),
        })
    }

    /// What an epoch is worth.
    pub fn worth(&self, seen: &Observation) -> f64 {
        let Taste { k, reward, .. } = self.taste;
        let utility = |loss_term| Utility { k, loss_term, ..Utility::default() };
        let loss = seen.loss.unwrap_or(0.0);
        match reward {
            Reward::EndToEnd => {
                let free = || Stage::ALL.into_iter().filter(|&stage| !self.bounds[stage].is_fixed());
                let price = |stage| k.powi(-i32::from(seen.concurrency[stage]));
                let count = free().count();
                let mean = if count > 0 { free().map(price).sum::<f64>() / count as f64 } else { 1.0 };
                seen.goodput().0 as f64 / self.reference * mean
            }
            Reward::Automdt => utility(LossTerm::None).total(seen.throughput, seen.concurrency, loss),
            Reward::Ldm => {
                utility(LossTerm::Ldm).score(seen.goodput().as_mbps(), seen.concurrency.network, loss)
            }
        }
    }
}

/// The same for Python, where somebody else lets the epochs pass.
#[pyclass(name = "View", module = "tidegate._core", frozen)]
pub(crate) struct PyView(View);

#[pymethods]
impl PyView {
    #[new]
    #[pyo3(signature = (*, bounds, reference_bps, actions, reward, k))]
    fn new(
        #[pyo3(from_py_with = bounds)] bounds: PerStage<Bounds>,
        reference_bps: f64,
        actions: &str,
        reward: &str,
        k: f64,
    ) -> PyResult<Self> {
        Ok(Self(View::new(bounds, reference(reference_bps)?, Taste::named(actions, reward, k)?)))
    }

    /// What an epoch looks like: the numbers of a state.
    fn state(&self, observation: &PyObservation) -> [f32; FEATURES] {
        self.0.state(&observation.0)
    }

    /// The set-point that three numbers ask for.
    #[expect(clippy::needless_pass_by_value, reason = "what Python hands over")]
    fn setpoint<'py>(&self, py: Python<'py>, action: Vec<f64>) -> PyResult<Bound<'py, PyAny>> {
        if action.len() != Stage::ALL.len() {
            return Err(refuse("an action has three numbers"));
        }
        per_stage(py, self.0.setpoint(&action).map_err(|why| refuse(format!("action: {why}")))?)
    }

    /// What an epoch is worth.
    fn worth(&self, observation: &PyObservation) -> f64 {
        self.0.worth(&observation.0)
    }
}
