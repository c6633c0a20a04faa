//! What a policy is shown and what its answer means: the half of a recipe that training and
//! production share, so that neither can see or do what the other cannot.

use serde::{Deserialize, Serialize};

use crate::observation::Observation;
use crate::stage::{Bounds, Concurrency, PerStage, Stage};
use crate::units::BitRate;

mod discrete;
mod fast;
pub mod gymnasium;
mod published;
mod universal;

/// How a policy is trained, shown its path, and understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Recipe {
    /// Ours: normalised state and logarithmic action, for the path it was trained on.
    Fast,
    /// LDM's: throughput, workers and their changes; one number for all stages.
    Ldm,
    /// AutoMDT's: eight raw values; one number a stage.
    Automdt,
    /// AutoMDT's with a choice among all numbers of workers a stage, as in its figure 4.
    #[serde(rename = "automdt_discrete")]
    AutomdtDiscrete,
    /// Hasibul et al.'s, as far as it is known: steps up and down; one number for all stages.
    #[serde(rename = "discrete_rl")]
    DiscreteRl,
    /// That of Python's environments: nine shares, and one logarithmic number a stage; trained outside of this program.
    Gymnasium,
    /// Ours for every path: nothing with a unit, and three offsets from what is believed.
    Universal,
}

impl Recipe {
    /// All of them, the default first.
    pub const ALL: [Self; 7] = [
        Self::Fast,
        Self::Ldm,
        Self::Automdt,
        Self::AutomdtDiscrete,
        Self::DiscreteRl,
        Self::Gymnasium,
        Self::Universal,
    ];

    /// The name used in files and options.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fast => "fast",
            Self::Ldm => "ldm",
            Self::Automdt => "automdt",
            Self::AutomdtDiscrete => "automdt_discrete",
            Self::DiscreteRl => "discrete_rl",
            Self::Gymnasium => "gymnasium",
            Self::Universal => "universal",
        }
    }

    /// Encoder and decoder for a path with these scales.
    pub fn features(self, scales: &Scales) -> Box<dyn Features> {
        match self {
            Self::Fast => Box::new(fast::Fast::new(*scales)),
            Self::Ldm => Box::new(published::LdmFeatures::new(*scales)),
            Self::Automdt => Box::new(published::AutomdtFeatures::new(*scales)),
            Self::AutomdtDiscrete => Box::new(published::AutomdtDiscreteFeatures::new(*scales)),
            Self::DiscreteRl => Box::new(discrete::Discrete::new(*scales)),
            Self::Gymnasium => Box::new(gymnasium::Gymnasium::new(*scales)),
            Self::Universal => Box::new(universal::Universal::new()),
        }
    }
}

crate::named!(Recipe, "recipe");

/// What a policy has to know of the path it was trained on, kept beside its weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scales {
    /// The best goodput: throughput is shown as a share of it.
    pub rate_bps: BitRate,
    /// The workers it may ask for; a stage with fixed bounds was not trained.
    pub bounds: PerStage<Bounds>,
    /// Where it came to rest at the end of training; a transfer begins there.
    pub start: Option<Concurrency>,
}

impl Scales {
    /// The stages there is something to decide about; the network's if there are none.
    pub fn stages(&self) -> Vec<Stage> {
        let open: Vec<Stage> =
            Stage::ALL.into_iter().filter(|&stage| !self.bounds[stage].is_fixed()).collect();
        if open.is_empty() { vec![Stage::Network] } else { open }
    }
}

/// What a network's output means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Actions {
    /// The mean of a Gaussian, a value a head.
    #[default]
    Gaussian,
    /// The logarithm of how likely each choice is, up to a constant; the greatest is taken, of each group if
    /// there are several.
    Choice,
}

/// Turns observations into a network's input and its output into a set-point.
pub trait Features: Send {
    /// Values the network is shown.
    fn inputs(&self) -> usize;

    /// Values the network answers.
    fn heads(&self) -> usize;

    /// What the answered values mean.
    fn actions(&self) -> Actions {
        Actions::Gaussian
    }

    /// How many values belong to each group of choices, in order; none where values are numbers.
    fn choices(&self) -> Vec<usize> {
        match self.actions() {
            Actions::Gaussian => Vec::new(),
            Actions::Choice => vec![self.heads()],
        }
    }

    /// The set-point to begin with.
    fn start(&self, bounds: PerStage<Bounds>) -> Concurrency;

    /// Forgets what was seen: another transfer begins.
    fn reset(&mut self);

    /// Writes what the network is shown after `seen`; `state` has as many values as `inputs` says.
    fn encode(&mut self, seen: &Observation, bounds: PerStage<Bounds>, state: &mut [f32]);

    /// What `action` asks for, rounded and within `bounds`; it has as many values as `heads` says.
    fn decode(&self, action: &[f32], bounds: PerStage<Bounds>) -> Concurrency;

    /// What actions are offsets from, a stage, after what was encoded last; none if they are not.
    fn anchor(&self) -> Option<PerStage<f64>> {
        None
    }

    /// Whether a short epoch is long enough to see what `next` brings, after what was encoded last.
    fn short_epochs(&self, _next: Concurrency) -> bool {
        false
    }

    /// What the spread of the actions is multiplied by when a transfer draws them.
    fn spread(&self) -> f32 {
        1.0
    }
}

/// Which of `values` is the greatest; the last of several.
fn greatest(values: &[f32]) -> Option<usize> {
    (0..values.len()).max_by(|&a, &b| values[a].total_cmp(&values[b]))
}

/// The number of workers of a path driven by one number: that of the network stage, or of the first
/// that can be set.
fn one_number(seen: &Observation, stages: &[Stage]) -> u16 {
    match stages {
        [only] => seen.concurrency[*only],
        _ => seen.concurrency.network,
    }
}
