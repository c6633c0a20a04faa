//! What so many workers were seen to do: one point of a curve.

use serde::{Deserialize, Serialize};

use crate::units::BitRate;

/// What so many workers of a stage could do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Look {
    /// Workers.
    pub workers: u16,
    /// What they moved, had they never waited for staging, in bit/s.
    pub able_bps: BitRate,
    /// Its standard error, as a share of it.
    pub standard_error: f64,
}
