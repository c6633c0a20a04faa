//! The ledger of one transfer: what was listed, moved, skipped and failed. Written by workers, read by
//! the progress view and the summary.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use tidegate_control::Arrival;

use crate::counters::{NotKept, Totals};
use crate::error::Error;
use crate::offer::LeftOut;
use crate::plan::{PlanListener, Planned};
use crate::sys::sync::Mutex;

/// Most failures that are kept one by one; further ones are only counted.
const MAX_FAILURES: usize = 10_000;
const MAX_FAILURE_BYTES: usize = 8 << 20;

/// Most of what is left out that is kept for a third party until it is told, and bytes of its names.
const MAX_LEFT_OUT: usize = 1000;
const MAX_LEFT_OUT_BYTES: usize = 1 << 20;

/// A file that did not arrive, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Its path at the source, as bytes.
    pub path: Vec<u8>,
    /// What happened.
    pub error: Error,
}

/// Counters of one end. Bytes are of content, without headers.
#[derive(Debug, Default)]
pub struct Ledger {
    listing: Listing,
    files_done: AtomicU64,
    files_skipped: AtomicU64,
    files_failed: AtomicU64,
    files_refreshed: AtomicU64,
    deleted: AtomicU64,
    modes_not_kept: AtomicU64,
    times_not_kept: AtomicU64,
    bytes_unfinished: AtomicU64,
    bytes_skipped: AtomicU64,
    bytes_done: AtomicU64,
    /// Bytes that left or arrived, repeats included.
    pub bytes_moved: AtomicU64,
    /// Bytes that were sent again.
    pub bytes_again: AtomicU64,
    /// Of these, bytes that the other end had not taken in when it was last asked; none at a receiver.
    in_flight: AtomicU64,
    notes: Notes,
}

/// What was listed.
#[derive(Debug, Default)]
struct Listing {
    files: AtomicU64,
    bytes: AtomicU64,
    is_complete: AtomicBool,
}

/// What is said in words.
#[derive(Debug, Default)]
struct Notes {
    failures: Mutex<Failures>,
    left_out: Mutex<LeftOutNames>,
    /// Who is told what would be done.
    listener: Option<PlanListener>,
}

/// The first failures.
#[derive(Debug, Default)]
struct Failures {
    list: Vec<Failure>,
    bytes: usize,
}

/// The first names that are left out.
#[derive(Debug, Default)]
struct LeftOutNames {
    list: Vec<(Vec<u8>, LeftOut)>,
    bytes: usize,
}

impl Ledger {
    /// One whose `listener` is told what would be done, where it is not done.
    pub(crate) fn of_plan(listener: Option<PlanListener>) -> Self {
        Self { notes: Notes { listener, ..Notes::default() }, ..Self::default() }
    }

    /// This would become of entries.
    pub fn would(&self, planned: Vec<Planned>) {
        if let Some(listener) = self.notes.listener.as_ref().filter(|_| !planned.is_empty()) {
            listener.tell(planned);
        }
    }

    /// A file was listed.
    pub fn listed(&self, size: u64) {
        self.listed_some(1, size);
    }

    /// So many were, of so many bytes in all.
    pub(crate) fn listed_some(&self, files: u64, bytes: u64) {
        self.listing.files.fetch_add(files, Relaxed);
        self.listing.bytes.fetch_add(bytes, Relaxed);
    }

    /// A file that was listed with `before` bytes turned out to have `now`.
    pub fn resized(&self, before: u64, now: u64) {
        if now >= before {
            self.listing.bytes.fetch_add(now - before, Relaxed);
        } else {
            self.listing.bytes.fetch_sub(before - now, Relaxed);
        }
    }

    /// A file that was listed is not to be taken: it does not count.
    pub fn left_out(&self, size: u64) {
        self.listing.files.fetch_sub(1, Relaxed);
        self.listing.bytes.fetch_sub(size, Relaxed);
    }

    /// Something of the source is not copied, which is no failure.
    pub fn leaves_out(&self, path: &[u8], why: LeftOut) {
        let mut left_out = self.notes.left_out.lock();
        if left_out.list.len() < MAX_LEFT_OUT && left_out.bytes + path.len() <= MAX_LEFT_OUT_BYTES {
            left_out.bytes += path.len();
            left_out.list.push((path.to_vec(), why));
        }
    }

    /// What was left out since this was asked last: the first 1000 of it, or 1 MiB.
    pub(crate) fn take_left_out(&self) -> Vec<(Vec<u8>, LeftOut)> {
        std::mem::take(&mut *self.notes.left_out.lock()).list
    }

    /// The whole source has been listed.
    pub fn all_listed(&self) {
        self.listing.is_complete.store(true, Relaxed);
    }

    /// A file was there already.
    pub fn skipped(&self, size: u64) {
        self.skipped_some(1, size);
    }

    /// So many were, of so many bytes in all.
    pub(crate) fn skipped_some(&self, files: u64, bytes: u64) {
        self.files_skipped.fetch_add(files, Relaxed);
        self.bytes_skipped.fetch_add(bytes, Relaxed);
    }

    /// The transfer ends, and so much is kept of files that are not complete.
    pub fn leaves(&self, bytes: u64) {
        self.bytes_unfinished.store(bytes, Relaxed);
    }

    /// How much is kept of files that were not complete when the transfer ended; a sender knows it about.
    pub fn bytes_unfinished(&self) -> u64 {
        self.bytes_unfinished.load(Relaxed)
    }

    /// A file that was there already, and is counted as such, got another mode or time.
    pub fn refreshed(&self) {
        self.files_refreshed.fetch_add(1, Relaxed);
    }

    /// How many did.
    pub fn files_refreshed(&self) -> u64 {
        self.files_refreshed.load(Relaxed)
    }

    /// So much was removed at the destination, or moved away from it.
    pub fn deleted(&self, entries: u64) {
        self.deleted.store(entries, Relaxed);
    }

    /// How much was.
    pub fn entries_deleted(&self) -> u64 {
        self.deleted.load(Relaxed)
    }

    /// The destination has refused to keep so much.
    pub(crate) fn keeps_not(&self, not_kept: NotKept) {
        self.modes_not_kept.store(not_kept.modes, Relaxed);
        self.times_not_kept.store(not_kept.times, Relaxed);
    }

    /// What it has refused.
    pub fn not_kept(&self) -> NotKept {
        NotKept { modes: self.modes_not_kept.load(Relaxed), times: self.times_not_kept.load(Relaxed) }
    }

    /// Takes over how many another end saw (third-party transfers).
    pub(crate) fn adopt_refreshed(&self, files: u64) {
        self.files_refreshed.store(files, Relaxed);
    }

    /// Bytes of a wanted file were there from an earlier run.
    pub fn already(&self, bytes: u64) {
        self.bytes_skipped.fetch_add(bytes, Relaxed);
    }

    /// Bytes that were there from an earlier run turned out to be of no use.
    pub fn already_not(&self, bytes: u64) {
        self.bytes_skipped.fetch_sub(bytes, Relaxed);
    }

    /// A file is complete; `fresh` of its bytes had to be moved.
    pub fn done(&self, fresh: u64) {
        self.files_done.fetch_add(1, Relaxed);
        self.bytes_done.fetch_add(fresh, Relaxed);
    }

    /// An entry failed; `was_listed` if it had been counted by [`listed`](Self::listed).
    pub fn failed(&self, path: &[u8], error: Error, was_listed: bool) {
        if !was_listed {
            self.listing.files.fetch_add(1, Relaxed);
        }
        self.files_failed.fetch_add(1, Relaxed);
        self.keep(std::iter::once(Failure { path: path.to_vec(), error }));
    }

    /// Something was not removed at the end, which is no file that did not arrive.
    pub fn not_deleted(&self, error: Error) {
        self.keep(std::iter::once(Failure { path: Vec::new(), error }));
    }

    /// Failures are told by the other end too, which must not fill our memory with them.
    fn keep(&self, more: impl Iterator<Item = Failure>) {
        let mut failures = self.notes.failures.lock();
        for failure in more {
            let bytes = size_of::<Failure>() + failure.path.len() + failure.error.message.len();
            if failures.list.len() >= MAX_FAILURES || failures.bytes + bytes > MAX_FAILURE_BYTES {
                return;
            }
            failures.bytes += bytes;
            failures.list.push(failure);
        }
    }

    /// The failures so far: the first 10,000 of them, or 8 MiB.
    pub fn failures(&self) -> Vec<Failure> {
        self.notes.failures.lock().list.clone()
    }

    /// Everything but the failures.
    pub fn totals(&self) -> Totals {
        Totals {
            files_listed: self.listing.files.load(Relaxed),
            files_done: self.files_done.load(Relaxed),
            files_skipped: self.files_skipped.load(Relaxed),
            files_failed: self.files_failed.load(Relaxed),
            bytes_listed: self.listing.bytes.load(Relaxed),
            bytes_skipped: self.bytes_skipped.load(Relaxed),
            bytes_done: self.bytes_done.load(Relaxed),
            bytes_moved: self.bytes_moved.load(Relaxed),
            bytes_again: self.bytes_again.load(Relaxed),
            listed: self.listing.is_complete.load(Relaxed),
        }
    }

    /// The other end says that it has taken in so many bytes, repeats included.
    pub(crate) fn taken_in(&self, bytes: u64) {
        self.in_flight.store(self.bytes_moved.load(Relaxed).saturating_sub(bytes), Relaxed);
    }

    /// How much has arrived.
    pub fn arrival(&self) -> Arrival {
        self.totals().arrival(self.in_flight.load(Relaxed))
    }

    /// Takes over what another end counted (third-party transfers).
    pub fn adopt(&self, totals: Totals) {
        self.listing.files.store(totals.files_listed, Relaxed);
        self.files_done.store(totals.files_done, Relaxed);
        self.files_skipped.store(totals.files_skipped, Relaxed);
        self.files_failed.store(totals.files_failed, Relaxed);
        self.listing.bytes.store(totals.bytes_listed, Relaxed);
        self.bytes_skipped.store(totals.bytes_skipped, Relaxed);
        self.bytes_done.store(totals.bytes_done, Relaxed);
        self.bytes_moved.store(totals.bytes_moved, Relaxed);
        self.bytes_again.store(totals.bytes_again, Relaxed);
        self.listing.is_complete.store(totals.listed, Relaxed);
    }

    /// Takes over a failure that another end has counted (third-party transfers).
    pub(crate) fn adopt_failure(&self, path: Vec<u8>, error: Error) {
        self.keep(std::iter::once(Failure { path, error }));
    }
}

#[cfg(test)]
mod tests {
    use tidegate_control::ByteCount;

    use super::*;

    #[test]
    fn what_is_on_its_way_comes_again_or_is_too_much_has_not_arrived() {
        let ledger = Ledger::default();
        let arrived = || {
            let Arrival { bytes, new_bytes, total_bytes } = ledger.arrival();
            (bytes.0, new_bytes.0, total_bytes)
        };
        ledger.listed(100);
        ledger.already(20);
        ledger.bytes_moved.fetch_add(50, Relaxed);
        assert_eq!(arrived(), (70, 50, None));
        // The other end has taken in 45 of them, and 10 are sent again.
        ledger.taken_in(45);
        ledger.bytes_again.fetch_add(10, Relaxed);
        assert_eq!(arrived(), (55, 35, None));
        ledger.all_listed();
        ledger.bytes_moved.fetch_add(500, Relaxed);
        assert_eq!(arrived(), (100, 80, Some(ByteCount(100))));
        // What is committed has arrived, whatever was told last.
        let ledger = Ledger::default();
        ledger.listed(8);
        ledger.bytes_moved.fetch_add(8, Relaxed);
        ledger.taken_in(0);
        ledger.done(8);
        assert_eq!(ledger.arrival().bytes, ByteCount(8));
    }
}
