//! What a user asks to be done, and what has become of it.

pub(crate) mod arguments;
pub mod file;
mod stream_rule;
mod values;

mod spec;

mod request;

mod advice;
mod state;
pub(crate) mod stored;
pub(crate) mod written;

pub use request::{Dependency, JobKind, LogFormat, Request, RequestError};
pub use spec::Spec;
pub use state::{Event, IllegalTransition, State};
pub use stream_rule::{StreamRule, StreamSpec};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
pub use tidegate_contract::job_id::JobId;
use tidegate_contract::summary::Summary;
use tidegate_control::{BitRate, ByteCount};

/// A job as it stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Job {
    /// Its number.
    pub id: JobId,
    /// What was asked for.
    pub request: Request,
    /// What it is doing.
    pub state: State,
    /// Why it is in that state, in one line.
    pub reason: String,
    /// How often it was begun.
    pub attempts: u32,
    /// How often it failed and was to be tried again.
    pub failures: u32,
    /// When it was submitted, in ms since the epoch.
    pub submitted_ms: i64,
    /// When it was begun last.
    pub started_ms: Option<i64>,
    /// When it ended for good.
    pub ended_ms: Option<i64>,
    /// Not begun again before this time.
    pub not_before_ms: Option<i64>,
    /// Since when an end of it does not answer.
    #[serde(default)]
    pub outage_since_ms: Option<i64>,
    /// How many jobs it still waits for.
    pub waits_for: u32,
    /// How far it had come when this was last noted.
    pub progress: Progress,
    /// How the last attempt ended, with what all of them have moved.
    #[serde(with = "written")]
    #[schemars(with = "Option<written::Written>")]
    pub summary: Option<Summary>,
}

impl Job {
    /// The same without the secrets of its addresses, to be shown.
    #[must_use]
    pub fn public(mut self) -> Self {
        self.request = self.request.public();
        self
    }
}

/// How far a job has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Progress {
    /// Bytes of content that are at the destination, committed or not, those that were there before among them.
    pub bytes: ByteCount,
    /// Bytes that will be there in the end, once that is known.
    pub total_bytes: Option<ByteCount>,
    /// How fast they arrive, over the last ten seconds, in bit/s.
    pub throughput_bps: BitRate,
    /// How long the rest takes at that rate, in ms.
    pub left_ms: Option<u64>,
    /// Network streams in the last epoch.
    pub streams: u16,
}
