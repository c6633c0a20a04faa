//! What the logic counts.

use crate::counters::NotKept;
use crate::error::Error;
use crate::ledger::Ledger;
use crate::plan::Planned;

/// Some files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Files {
    /// How many.
    pub files: u64,
    /// Their bytes in all.
    pub bytes: u64,
}

impl Files {
    /// One of so many bytes.
    pub const fn one(bytes: u64) -> Self {
        Self { files: 1, bytes }
    }

    /// Another one of so many.
    pub const fn add(&mut self, bytes: u64) {
        self.files += 1;
        self.bytes += bytes;
    }
}

/// Something to be counted in a [`Ledger`], whose function of that name it is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Count {
    /// Files of so many bytes in all were listed.
    Listed(Files),
    /// The whole source was.
    AllListed,
    /// A listed file of so many bytes does not count after all.
    LeftOut(u64),
    /// Files of so many bytes in all were there.
    Skipped(Files),
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
            Count::Listed(Files { files, bytes }) => self.listed_some(files, bytes),
            Count::AllListed => self.all_listed(),
            Count::LeftOut(size) => self.left_out(size),
            Count::Skipped(Files { files, bytes }) => self.skipped_some(files, bytes),
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
