//! A destination as a mirror: what is there and not at the source is removed at the end, or moved away.
//!
//! `plan` decides, and touches nothing: what is to go, and why it may not. `removal` acts on that, and does not decide.
//! Between them what is to go lies in a file, so that memory does not grow with it.

pub mod extent;
pub(crate) mod plan;

mod removal;

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::offer::DirectoryNames;
use crate::quota::Quota;
use crate::selection::Deletion;
use crate::store::Sink;
use crate::store::backup::Backup;
use crate::store::file_sink::FileSink;
use crate::sys::confined::Root;

use self::extent::{nothing_deleted, stopped_at};
use self::plan::{Extraneous, Plan};
use self::removal::Spill;

/// What becomes of a destination once everything has arrived there.
#[derive(Debug)]
pub(crate) struct Mirror {
    plan: Plan,
    most: Option<u64>,
    /// Directories and files that are to go by now.
    going: u64,
    acting: Option<Acting>,
}

/// What removes; none where it is only to be said what would go.
#[derive(Debug)]
struct Acting {
    base: Root,
    spill: Spill,
    backup: Option<Arc<Backup>>,
}

/// How it ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Deleted {
    /// How much was removed, or moved away.
    pub entries: u64,
    /// Why no more was.
    pub error: Option<Error>,
}

impl Mirror {
    /// What `sink` becomes, if there is a `deletion`; `backup` keeps what is replaced, too.
    ///
    /// # Errors
    /// Nothing new is left where `sink` keeps unfinished files.
    pub fn of(
        sink: &FileSink,
        deletion: Option<&Deletion>,
        metadata: &Arc<Quota>,
        backup: Option<Backup>,
    ) -> Result<Option<Self>> {
        let Some(deletion) = deletion else { return Ok(None) };
        let failed = |error| Error::io("use the destination", b"", error);
        let base = match (sink.base(), sink.work()) {
            (Ok(base), _) => base,
            // Where nothing is there yet nothing would go.
            (Err(_), None) => return Ok(None),
            (Err(error), Some(_)) => return Err(failed(error)),
        };
        let make = || {
            let backup = backup.map(Arc::new);
            if let Some(backup) = &backup {
                sink.keep_replaced(Arc::clone(backup));
            }
            let acting = |work: &Root| {
                let work = work.dir(b"").map_err(failed)?;
                let base = base.dir(b"").map_err(failed)?.hiding_marked();
                Ok::<_, Error>(Acting { base, spill: Spill::new(work)?, backup })
            };
            // No mirror removes a state, whoever asks for it.
            let mirrored = base.dir(b"").map_err(failed)?.hiding_marked();
            let apart = Arc::clone(sink.apart());
            let plan = Plan::new(mirrored, (deletion.filter()?, apart), metadata)?;
            let acting = sink.work().map(acting).transpose()?;
            Ok(Self { plan, most: deletion.most, going: 0, acting })
        };
        make().map(Some).inspect_err(|_| {
            if !sink.has_parts() {
                sink.clean_up();
            }
        })
    }

    /// Compares directories with what the source has in them; where nothing is removed `tell` hears of what would go.
    pub fn compare(
        &mut self,
        directories: &[DirectoryNames],
        tell: &mut dyn FnMut(Extraneous) -> Result<()>,
    ) -> Result<()> {
        let Self { plan, most, going, acting } = self;
        directories.iter().try_for_each(|names| {
            plan.compare(names, &mut |extraneous| {
                *going += 1;
                match acting {
                    Some(acting) => acting.spill.note(extraneous),
                    None if most.is_some_and(|most| *going > most) => Ok(()),
                    None => tell(extraneous),
                }
            })
        })
    }

    /// Removes what is to go, unless something speaks against it.
    pub fn act(self) -> Deleted {
        let Self { plan, most, going, acting } = self;
        match (plan.verdict(most), acting) {
            (Err(error), _) => Deleted::nothing(&error),
            (Ok(()), Some(Acting { base, spill, backup })) => spill.remove(&base, most, backup.as_deref()),
            (Ok(()), None) => {
                let beyond = most.map_or(0, |most| going.saturating_sub(most));
                Deleted { entries: 0, error: stopped_at(most, beyond) }
            }
        }
    }
}

impl Deleted {
    /// Nothing was, because of `error`.
    pub fn nothing(error: &Error) -> Self {
        Self { entries: 0, error: Some(nothing_deleted(error)) }
    }
}
