//! What the logic counts.

use crate::counters::NotKept;
use crate::error::Error;
use crate::ledger::Ledger;
use crate::plan::Planned;

/// Something to be counted in a [`Ledger`], whose function of that name it is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Count {
    /// A file of so many bytes was listed.
    Listed(u64),
    /// The whole source was.
    AllListed,
    /// A listed file of so many bytes does not count after all.
    LeftOut(u64),
    /// A file of so many bytes was there.
    Skipped(u64),
    /// It got another mode or time.
    Refreshed,
    /// So many bytes of a wanted file were there.
    Already(u64),
    /// A file is complete, of which so many bytes had to be moved.
    Done(u64),
    /// An entry failed.
    Failed {
        /// Its path.
        path: Vec<u8>,
        /// Why.
        error: Error,
        /// Whether it was counted as listed.
        was_listed: bool,
    },
    /// So much was removed.
    Deleted(u64),
    /// Why nothing, or no more, was.
    NotDeleted(Error),
    /// What the destination refused to keep.
    NotKept(NotKept),
    /// What would become of entries.
    Would(Vec<Planned>),
}

impl Ledger {
    /// Counts what the logic says.
    pub(crate) fn count(&self, count: Count) {
        match count {
            Count::Listed(size) => self.listed(size),
            Count::AllListed => self.all_listed(),
            Count::LeftOut(size) => self.left_out(size),
            Count::Skipped(size) => self.skipped(size),
            Count::Refreshed => self.refreshed(),
            Count::Already(bytes) => self.already(bytes),
            Count::Done(fresh) => self.done(fresh),
            Count::Failed { path, error, was_listed } => self.failed(&path, error, was_listed),
            Count::Deleted(entries) => self.deleted(entries),
            Count::NotDeleted(error) => self.not_deleted(error),
            Count::NotKept(not_kept) => self.keeps_not(not_kept),
            Count::Would(planned) => self.would(planned),
        }
    }
}
