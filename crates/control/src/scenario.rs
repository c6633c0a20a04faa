//! A network as data, with what is expected of it beside it.
//!
//! One TOML file drives the simulator, training and the lab. Quantities are strings with their unit
//! (`"1Gbit/s"`, `"256MiB"`, `"20ms"`); a bare number or an unknown key is refused. Every key is
//! described in docs/scenarios.md.

use std::time::Duration;

use serde::Deserialize;

use crate::stage::{Bounds, Concurrency, PerStage};
use crate::units::{BitRate, ByteCount};

mod check;
mod extras;
mod text;

pub use check::ScenarioError;
pub use extras::Extra;

/// A path, what happens to it, and what is expected.
///
/// ```
/// use tidegate_control::{BitRate, Scenario};
///
/// let scenario = Scenario::from_toml(
///     r#"
///     name = "two-to-fill"
///     description = "Two streams fill it"
///     [network]
///     worker_rate = "500Mbit/s"
///     [link]
///     rate = "1Gbit/s"
///     rtt = "20ms"
///     "#,
/// )?;
/// assert_eq!(scenario.link.rate, BitRate::mbps(1000));
/// assert!(scenario.bounds().read.is_fixed(), "nothing is read: there is nothing to decide");
/// # Ok::<(), tidegate_control::scenario::ScenarioError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The file's name without `.toml`.
    pub name: String,
    /// What it shows, in a sentence.
    pub description: String,
    /// Reading; absent where nothing is read (memory to memory, a remote source).
    pub read: Option<StagePath>,
    /// Sending.
    pub network: StagePath,
    /// Writing; absent where nothing is written.
    pub write: Option<StagePath>,
    /// What all streams share.
    pub link: Link,
    /// Buffers at both ends.
    #[serde(default)]
    pub staging: Staging,
    /// How far measurements are off.
    #[serde(default)]
    pub noise: Noise,
    /// Who else uses the link.
    #[serde(default)]
    pub background: Background,
    /// How decisions take effect.
    #[serde(default)]
    pub decision: Decision,
    /// How much there is to move; endless if absent.
    pub dataset: Option<Dataset>,
    /// What changes, in order of time.
    #[serde(default)]
    pub timeline: Vec<Change>,
    /// What should come out.
    #[serde(default)]
    pub expected: Expected,
}

/// One stage and its workers.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StagePath {
    /// What one worker moves when nothing holds it back.
    #[serde(deserialize_with = "text::rate")]
    pub worker_rate: BitRate,
    /// What all its workers move at most.
    #[serde(default, deserialize_with = "text::optional_rate")]
    pub total_rate: Option<BitRate>,
    /// The fewest workers.
    #[serde(default = "one")]
    pub min_workers: u16,
    /// The most workers.
    #[serde(default = "most")]
    pub max_workers: u16,
    /// Where more workers begin to disturb one another.
    pub knee: Option<StageKnee>,
    /// The time constant with which a new worker reaches its rate.
    #[serde(default, deserialize_with = "text::duration")]
    pub ramp_up: Duration,
}

const fn one() -> u16 {
    1
}

const fn most() -> u16 {
    64
}

impl StagePath {
    /// The fewest and the most workers.
    pub const fn bounds(&self) -> Bounds {
        Bounds::new(self.min_workers, self.max_workers)
    }
}

/// Beyond `workers`, each further one divides every worker's rate by 1 + `slope` more.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageKnee {
    /// Workers that do not disturb one another.
    pub workers: u16,
    /// The loss per worker beyond.
    pub slope: f64,
}

/// What all streams share.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// What it carries.
    #[serde(deserialize_with = "text::rate")]
    pub rate: BitRate,
    /// Round-trip time.
    #[serde(default, deserialize_with = "text::duration")]
    pub rtt: Duration,
    /// The share of segments lost at random. With an RTT it limits each stream (Mathis).
    #[serde(default)]
    pub loss: f64,
    /// The share of what streams offer beyond the link's rate that is lost in its queue.
    #[serde(default)]
    pub surplus_loss: f64,
    /// The time constant of a new stream in round-trip times; the stage's `ramp_up` if that is longer.
    #[serde(default)]
    pub ramp_rtts: f64,
}

/// Buffers at both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Staging {
    /// Between read and network.
    #[serde(deserialize_with = "text::size")]
    pub sender: ByteCount,
    /// Between network and write.
    #[serde(deserialize_with = "text::size")]
    pub receiver: ByteCount,
}

impl Default for Staging {
    fn default() -> Self {
        Self { sender: ByteCount::mib(64), receiver: ByteCount::mib(64) }
    }
}

/// How far measurements are off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Noise {
    /// Standard deviation of a measured throughput, relative to the true one.
    pub throughput: f64,
}

/// Who else uses the link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Background {
    /// Traffic that takes this much, whatever we do.
    #[serde(deserialize_with = "text::rate")]
    pub rate: BitRate,
    /// Competing streams, each of which takes an equal share of what is left.
    pub streams: u16,
    /// More of both, which comes and goes.
    pub bursts: Option<Bursts>,
}

/// Traffic that comes and goes at random: times are exponentially distributed, and a seed fixes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bursts {
    /// What a burst takes, whatever we do.
    #[serde(default, deserialize_with = "text::rate")]
    pub rate: BitRate,
    /// The competing streams of a burst.
    #[serde(default)]
    pub streams: u16,
    /// How long a burst lasts in the mean.
    #[serde(deserialize_with = "text::duration")]
    pub on: Duration,
    /// How long it is quiet in the mean; it is at the start.
    #[serde(deserialize_with = "text::duration")]
    pub off: Duration,
}

/// How decisions take effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Decision {
    /// The time from asking for a set-point to its taking effect; the first one takes effect at once.
    #[serde(deserialize_with = "text::duration")]
    pub lag: Duration,
}

/// How much there is to move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dataset {
    /// Bytes in all.
    #[serde(deserialize_with = "text::size")]
    pub size: ByteCount,
    /// Files they are spread over evenly.
    #[serde(default = "one_file")]
    pub files: u64,
}

const fn one_file() -> u64 {
    1
}

/// What is different from a moment on; what is not named stays.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// Since the start.
    #[serde(deserialize_with = "text::duration")]
    pub at: Duration,
    /// Changes to reading.
    #[serde(default)]
    pub read: StageChange,
    /// Changes to sending.
    #[serde(default)]
    pub network: StageChange,
    /// Changes to writing.
    #[serde(default)]
    pub write: StageChange,
    /// Changes to the link.
    #[serde(default)]
    pub link: LinkChange,
    /// Changes to the other traffic.
    #[serde(default)]
    pub background: BackgroundChange,
}

/// New values for a stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StageChange {
    /// What one worker moves.
    #[serde(deserialize_with = "text::optional_rate")]
    pub worker_rate: Option<BitRate>,
    /// What all workers move.
    #[serde(deserialize_with = "text::optional_rate")]
    pub total_rate: Option<BitRate>,
}

/// New values for the link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LinkChange {
    /// What it carries.
    #[serde(deserialize_with = "text::optional_rate")]
    pub rate: Option<BitRate>,
    /// Round-trip time.
    #[serde(deserialize_with = "text::optional_duration")]
    pub rtt: Option<Duration>,
    /// The share of segments lost at random.
    pub loss: Option<f64>,
}

/// New values for the other traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BackgroundChange {
    /// Traffic that takes this much.
    #[serde(deserialize_with = "text::optional_rate")]
    pub rate: Option<BitRate>,
    /// Competing streams.
    pub streams: Option<u16>,
}

/// What should come out; the ranges are for the default rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Expected {
    /// The best set-point at the start.
    pub optimum: Option<Concurrency>,
    /// The goodput it gives.
    #[serde(deserialize_with = "text::optional_rate")]
    pub goodput: Option<BitRate>,
    /// The least share of the best goodput to be reached over 60 epochs, 0 to 1.
    pub throughput_share_min: Option<f64>,
    /// The most epochs until 95 % of the best goodput.
    pub epochs_to_95_max: Option<u32>,
}

impl Scenario {
    /// Reads and checks a scenario; the error is one line and names the key.
    pub fn from_toml(text: &str) -> Result<Self, ScenarioError> {
        let scenario: Self = toml::from_str(text).map_err(|error| ScenarioError::toml(text, &error))?;
        scenario.check()?;
        Ok(scenario)
    }

    /// The stages there are.
    pub const fn stages(&self) -> PerStage<Option<&StagePath>> {
        PerStage::new(self.read.as_ref(), Some(&self.network), self.write.as_ref())
    }

    /// What may be asked for; an absent stage is fixed at one worker.
    pub fn bounds(&self) -> PerStage<Bounds> {
        self.stages().map(|stage| stage.map_or(Bounds::fixed(1), StagePath::bounds))
    }
}
