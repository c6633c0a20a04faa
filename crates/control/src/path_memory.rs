//! What a path last held, as plain numbers that the next run over it may begin with.
//!
//! It is advice. What it says may be long wrong, or come from a file that somebody has edited: whoever begins with it
//! holds it to the bounds, and believes what the path shows.

use serde::{Deserialize, Serialize};

use crate::look::Look;
use crate::stage::{Bounds, Concurrency, PerStage};
use crate::units::BitRate;

/// What a rule says that begins with a memory.
pub const BEGINS: &str = "begins where this path ended";

/// Numbers of workers a stage of which is remembered what they can do.
pub const MAX_LOOKS: usize = 4;

/// What one stage last held.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StageMemory {
    /// Workers.
    pub workers: u16,
    /// What they moved, in bit/s.
    pub throughput_bps: BitRate,
    /// What these and other numbers of workers can do, ascending by workers, at most [`MAX_LOOKS`].
    pub looks: Vec<Look>,
}

/// What a path last held.
///
/// ```
/// use tidegate_control::path_memory::{PathMemory, StageMemory};
/// use tidegate_control::{Bounds, PerStage};
///
/// let held = |workers| StageMemory { workers, ..StageMemory::default() };
/// let memory = PathMemory { stages: PerStage::new(held(4), held(50), held(0)), ..PathMemory::default() };
/// assert_eq!(memory.start(PerStage::all(Bounds::new(1, 32))), PerStage::new(4, 32, 1));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PathMemory {
    /// When, in seconds since 1970.
    pub at_unix_s: u64,
    /// Epochs that it was made of.
    pub epochs: u64,
    /// The shortest round trip, in µs.
    pub round_trip_us: Option<u64>,
    /// What each stage held.
    pub stages: PerStage<StageMemory>,
}

impl PathMemory {
    /// The set-point to begin with.
    pub fn start(&self, bounds: PerStage<Bounds>) -> Concurrency {
        bounds.clamp(PerStage::from_fn(|stage| self.stages[stage].workers))
    }
}

impl StageMemory {
    /// The looks that make sense.
    pub fn sound(&self) -> impl Iterator<Item = Look> + '_ {
        let sound = |look: &&Look| {
            look.workers > 0
                && look.able_bps.0 > 0
                && look.standard_error.is_finite()
                && look.standard_error >= 0.0
        };
        self.looks.iter().filter(sound).take(MAX_LOOKS).copied()
    }
}
