//! Whether directories that files were put into are where they were: each is held open meanwhile, and may be moved.

use std::collections::HashMap;

use super::FileSink;
use crate::error::{Error, ErrorKind, Result};
use crate::store::destination_path::says_nothing;
use crate::sys::confined::Root;
use crate::sys::fs::fstat;
use crate::sys::identity::{FileIdentity, identity};
use crate::text::show;

/// Most directories that are looked for again at the end; of others it is only known that they were there before.
const MAX_FILLED: usize = 64 << 10;

/// Directories beneath the destination that files were put into, and what a file in each is called.
#[derive(Debug, Default)]
pub(super) struct Filled(HashMap<Vec<u8>, (FileIdentity, Vec<u8>)>);

impl Filled {
    /// Files were put into the open `directory`, which lies at `path`; one of them is called `name`.
    pub fn note(&mut self, path: Vec<u8>, directory: &Root, name: Vec<u8>) {
        if let (true, Ok(stat)) = (self.0.len() < MAX_FILLED, fstat(directory)) {
            self.0.insert(path, (identity(&stat), name));
        }
    }
}

impl FileSink {
    /// Fails unless the destination is still where it was named. One that is not there yet is.
    pub(super) fn check_named(&self) -> Result<()> {
        let meanwhile = match self.work {
            Some(_) => "files were put into it: they are where it is now",
            None => "it was looked at",
        };
        self.base().map_or(Ok(()), |base| self.named.check(base, meanwhile))
    }

    /// Fails unless the directories that files were put into are where they were then. Some file systems number what nobody
    /// has open anew: a directory with the file in it is taken for the same.
    pub(super) fn check_filled(&self) -> Result<()> {
        self.settling.filled.lock().0.iter().try_for_each(|(path, (then, name))| {
            let has_it = || self.base()?.dir(path)?.stat(name);
            self.leads_to(path, *then).or_else(|moved| has_it().map(drop).map_err(|_| moved))
        })
    }

    /// Whether `path` still leads to that directory. What cannot be looked at now need not have been moved.
    pub(super) fn is_still_there(&self, path: &[u8], directory: &Root) -> Result<()> {
        let stat = fstat(directory).map_err(|error| Error::io("look at", path, error))?;
        self.leads_to(path, identity(&stat))
    }

    fn leads_to(&self, path: &[u8], directory: FileIdentity) -> Result<()> {
        let there = self.base().and_then(|base| fstat(base.dir(path)?));
        match there {
            Ok(there) if identity(&there) == directory => Ok(()),
            Err(error) if says_nothing(error) => Err(Error::io("look for", path, error)),
            _ => {
                let why = "was moved or replaced while files were put into it: they are where it is now";
                Err(Error::new(ErrorKind::Changed, format!("{} {why}", show(path))))
            }
        }
    }
}
