//! The number by which people, programs and tables know a job.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The number of a job, given when it is submitted and never given again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
#[serde(transparent)]
pub struct JobId(NonZeroU64);

impl JobId {
    /// The job of this number, which is from 1 to what SQL can hold.
    pub fn new(number: u64) -> Option<Self> {
        NonZeroU64::new(number).filter(|number| i64::try_from(number.get()).is_ok()).map(Self)
    }

    /// Its number.
    pub const fn get(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for JobId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.parse().ok().and_then(Self::new);
        number.ok_or_else(|| {
            format!("{:?} is not the number of a job", text.chars().take(40).collect::<String>())
        })
    }
}
