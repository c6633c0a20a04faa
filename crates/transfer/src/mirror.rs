//! A destination as a mirror: what is there and not at the source is removed at the end, or moved away.
//!
//! [`plan`] decides, and touches nothing: what is to go, and why it may not. [`removal`] acts on that, and does not decide.
//! Between them what is to go lies in a file, so that memory does not grow with it.

pub mod backup;

pub mod plan;

mod removal;

use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::offer::DirectoryNames;
use crate::quota::Quota;
use crate::selection::Deletion;
use crate::store::Sink;
use crate::store::file_sink::FileSink;
use crate::sys::confined::Root;

use self::backup::Backup;
use self::plan::Plan;
use self::removal::Spill;

/// What becomes of a destination once everything has arrived there.
#[derive(Debug)]
pub struct Mirror {
    base: Root,
    plan: Plan,
    spill: Spill,
    most: Option<u64>,
    backup: Option<Backup>,
}

/// How it ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deleted {
    /// How much was removed, or moved away.
    pub entries: u64,
    /// Why no more was.
    pub error: Option<Error>,
}

impl Mirror {
    /// What `sink` becomes, if there is a `deletion`; `backup` opens the directory that it names.
    ///
    /// # Errors
    /// Nothing new is left where `sink` keeps unfinished files.
    pub fn of(
        sink: &FileSink,
        deletion: Option<&Deletion>,
        metadata: &Arc<Quota>,
        backup: impl FnOnce(&[u8]) -> Result<Backup>,
    ) -> Result<Option<Self>> {
        let (Some(deletion), Some(work)) = (deletion, sink.work()) else { return Ok(None) };
        let make = || {
            let backup = deletion.backup.as_deref().map(backup).transpose()?;
            let base = sink.base().map_err(|error| Error::io("use the destination", b"", error))?;
            Self::new((base, work), deletion, backup, metadata)
        };
        make().map(Some).inspect_err(|_| {
            if !sink.has_parts() {
                sink.clean_up();
            }
        })
    }

    fn new(
        (base, work): (&Root, &Root),
        deletion: &Deletion,
        backup: Option<Backup>,
        metadata: &Arc<Quota>,
    ) -> Result<Self> {
        let failed = |error| Error::io("use the destination", b"", error);
        Ok(Self {
            base: base.dir(b"").map_err(failed)?,
            plan: Plan::new(base.dir(b"").map_err(failed)?, deletion.filter()?, metadata),
            spill: Spill::new(work.dir(b"").map_err(failed)?)?,
            most: deletion.most,
            backup,
        })
    }

    /// Compares directories with what the source has in them.
    pub fn compare(&mut self, directories: &[DirectoryNames]) -> Result<()> {
        let Self { plan, spill, .. } = self;
        directories.iter().try_for_each(|names| plan.compare(names, &mut |stranger| spill.note(stranger)))
    }

    /// Removes what is to go, unless something speaks against it.
    pub fn act(self) -> Deleted {
        let Self { base, plan, spill, most, backup } = self;
        match plan.verdict(most) {
            Ok(()) => spill.remove(&base, most, backup.as_ref()),
            Err(error) => Deleted::nothing(&error),
        }
    }
}

impl Deleted {
    /// Nothing was, because of `error`.
    pub fn nothing(error: &Error) -> Self {
        let kind = if error.kind == ErrorKind::Usage { ErrorKind::Denied } else { error.kind };
        Self { entries: 0, error: Some(Error::new(kind, format!("nothing was deleted: {error}"))) }
    }
}
