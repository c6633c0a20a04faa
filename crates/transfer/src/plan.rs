//! What a run would do with each entry, as one that only says so tells it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
pub use tidegate_contract::plan_line::{Action, Difference, EntryKind};

use crate::bounded::at_most;
use crate::manifest::{Entry, Kind};
use crate::path::RelPath;

/// More than there are.
const MAX_DIFFERENCES: usize = 16;

/// What would become of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedChange {
    /// That.
    pub action: Action,
    /// Why it would change.
    #[serde(deserialize_with = "at_most::<MAX_DIFFERENCES, _, _>")]
    pub differs: Vec<Difference>,
    /// Whether its content would be sent.
    pub sent: bool,
}

/// An entry, and what would become of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Planned {
    /// Where it is, relative to the destination.
    pub path: RelPath,
    /// What it is.
    pub kind: EntryKind,
    /// Its size in bytes.
    pub size: u64,
    /// What would become of it.
    pub change: PlannedChange,
}

impl PlannedChange {
    /// Nothing bears the name of a file, if `sent`, or of something else.
    pub const fn new(sent: bool) -> Self {
        Self { action: Action::New, differs: Vec::new(), sent }
    }

    /// What bears the name differs so.
    pub fn of(differs: Vec<Difference>, sent: bool) -> Self {
        let action = if differs.is_empty() { Action::Same } else { Action::Changed };
        Self { action, differs, sent }
    }
}

impl Planned {
    /// `change` is what would become of `entry`.
    pub fn new(entry: Entry, change: PlannedChange) -> Self {
        let size = entry.size();
        let kind = match entry.kind {
            Kind::File { .. } => EntryKind::File,
            Kind::Directory => EntryKind::Directory,
            Kind::Symlink { .. } => EntryKind::Link,
        };
        Self { path: entry.path, kind, size, change }
    }
}

/// Who is told, in the order in which the source lists its entries. It may take its time: no more is listed meanwhile.
#[derive(Clone)]
pub struct PlanListener(Arc<dyn Fn(Vec<Planned>) + Send + Sync>);

tidegate_contract::opaque!(PlanListener);

impl PlanListener {
    /// Tells `hear`.
    pub fn new(hear: impl Fn(Vec<Planned>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(hear))
    }

    /// Tells of some more.
    pub fn tell(&self, planned: Vec<Planned>) {
        (self.0)(planned);
    }
}
