//! What an endpoint did since it began, for who watches it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::ledger::Ledger;
use crate::sys::sync::Mutex;

/// Which way content goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Direction {
    /// To here.
    Received,
    /// From here.
    Sent,
}

impl Direction {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Received, Self::Sent];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Received => "received",
            Self::Sent => "sent",
        }
    }
}

/// Content that went one way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Bytes.
    pub bytes: u64,
    /// Files that were completed.
    pub files: u64,
}

impl Moved {
    fn of(ledger: &Ledger) -> Self {
        let totals = ledger.totals();
        Self { bytes: totals.bytes_moved, files: totals.files_done }
    }

    fn add(&mut self, more: Self) {
        self.bytes = self.bytes.saturating_add(more.bytes);
        self.files = self.files.saturating_add(more.files);
    }
}

/// What was counted, at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndpointCounts {
    /// Transfers that run.
    pub running: u64,
    /// Connections that have proved nothing yet.
    pub unproven: u64,
    /// Whether the directory that is served is there.
    pub has_root: bool,
    /// What went each way, also of transfers that run.
    pub moved: BTreeMap<&'static str, Moved>,
    /// Transfers that ended, by their way and how they ended.
    pub ended: BTreeMap<(&'static str, &'static str), u64>,
    /// Peers that were refused, by kind.
    pub refused: BTreeMap<&'static str, u64>,
    /// Requests that were answered over HTTP, by the class of their status.
    pub http: BTreeMap<u16, u64>,
}

/// What was counted so far.
#[derive(Debug, Default)]
pub(crate) struct Counted(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    running: Vec<(Direction, Arc<Ledger>)>,
    moved: BTreeMap<&'static str, Moved>,
    ended: BTreeMap<(&'static str, &'static str), u64>,
    refused: BTreeMap<&'static str, u64>,
    http: BTreeMap<u16, u64>,
}

impl Counted {
    /// A transfer begins.
    pub fn began(&self, direction: Direction, ledger: &Arc<Ledger>) {
        self.0.lock().running.push((direction, Arc::clone(ledger)));
    }

    /// It has ended, in a word.
    pub fn ended(&self, direction: Direction, ledger: &Arc<Ledger>, how: &'static str) {
        let mut counts = self.0.lock();
        counts.running.retain(|(_, running)| !Arc::ptr_eq(running, ledger));
        counts.moved.entry(direction.name()).or_default().add(Moved::of(ledger));
        *counts.ended.entry((direction.name(), how)).or_default() += 1;
    }

    /// Somebody was refused, in a word.
    pub fn refused(&self, why: &'static str) {
        *self.0.lock().refused.entry(why).or_default() += 1;
    }

    /// A request was answered over HTTP with this status.
    pub fn answered(&self, status: u16) {
        *self.0.lock().http.entry(status / 100).or_default() += 1;
    }

    /// What was counted so far.
    pub fn so_far(&self) -> EndpointCounts {
        let counts = self.0.lock();
        let mut moved: BTreeMap<_, Moved> =
            Direction::ALL.into_iter().map(|direction| (direction.name(), Moved::default())).collect();
        let running = counts.running.iter().map(|(direction, ledger)| (direction.name(), Moved::of(ledger)));
        for (direction, more) in counts.moved.iter().map(|(name, moved)| (*name, *moved)).chain(running) {
            moved.entry(direction).or_default().add(more);
        }
        EndpointCounts {
            running: counts.running.len() as u64,
            moved,
            ended: counts.ended.clone(),
            refused: counts.refused.clone(),
            http: counts.http.clone(),
            ..EndpointCounts::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_is_counted_with_what_has_ended() {
        let (counted, ledger) = (Counted::default(), Arc::<Ledger>::default());
        counted.began(Direction::Sent, &ledger);
        assert_eq!((counted.so_far().running, counted.so_far().moved["sent"]), (1, Moved::default()));
        counted.ended(Direction::Sent, &ledger, "complete");
        counted.refused("authentication");
        let counts = counted.so_far();
        assert_eq!((counts.running, counts.ended[&("sent", "complete")]), (0, 1));
        assert_eq!((counts.refused["authentication"], counts.moved.len()), (1, 2));
    }
}
