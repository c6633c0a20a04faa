//! How files get their names. A final name never holds bytes that are unverified, or not durable: only who calls this
//! with what it verified gets one for it, and only of a [`Durable`] file.

use crate::error::{Error, Result};
use crate::manifest::Entry;
use crate::store::split_part::SplitPart;
use crate::store::{Sink, SinkFile};

/// What may bear the name that a file is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replaced {
    /// Another file.
    File,
    /// Nothing.
    Nothing,
}

/// That all bytes of an unfinished file are durable.
#[derive(Debug)]
pub struct Durable(());

impl Durable {
    /// Makes them so.
    pub fn make(file: &dyn SinkFile) -> Result<Self> {
        file.sync().map(|()| Self(()))
    }
}

/// A verified file without its name.
#[derive(Debug)]
pub(crate) struct Unnamed<'a> {
    /// What it is.
    pub entry: &'a Entry,
    /// The unfinished file, if several move it.
    pub split: Option<&'a SplitPart>,
    /// What may bear its name.
    pub replaced: Replaced,
    /// That its bytes are.
    pub durable: Durable,
}

/// Gives files their names under a `leave` that ends then, and makes the names durable. Answers for each whether it has it.
pub(crate) fn give_names<L>(sink: &dyn Sink, files: &[Unnamed<'_>], leave: L) -> Vec<Result<bool>> {
    let name = |file: &Unnamed<'_>| match file.split {
        Some(split) => sink.publish_split(file.entry, split, &file.durable).map(|()| true),
        None => sink.publish(file.entry, file.replaced, &file.durable),
    };
    let named: Vec<_> = files.iter().map(name).collect();
    drop(leave);
    let failed = sink.sync_names();
    let durable = |(file, named): (&Unnamed<'_>, Result<bool>)| {
        let parent = sink.place(file.entry).split().0;
        match failed.iter().find(|(directory, _)| directory == parent) {
            Some((_, error)) => named.and_then(|_| Err(error.clone())),
            None => named,
        }
    };
    files.iter().zip(named).map(durable).collect()
}

/// Makes one file that is all written durable and gives it its name, unless `leave` says why not. Answers whether it has it.
pub fn finish<L, E: From<Error>>(
    sink: &dyn Sink,
    file: &dyn SinkFile,
    entry: &Entry,
    replaced: Replaced,
    leave: impl FnOnce() -> Result<L, E>,
) -> Result<bool, E> {
    file.seal(entry)?;
    let durable = Durable::make(file)?;
    let leave = leave()?;
    let unnamed = Unnamed { entry, split: None, replaced, durable };
    Ok(give_names(sink, &[unnamed], leave).remove(0)?)
}
