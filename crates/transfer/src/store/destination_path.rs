//! How a destination was named, and where that leads now: files go into a directory that is held open, and that somebody
//! may move, remove or replace meanwhile.

use rustix::io::Errno;

use crate::error::{Error, ErrorKind, Result};
use crate::sys::confined::Root;
use crate::sys::fs::fstat;
use crate::sys::identity::identity;
use crate::text::show;

/// Goes to a directory once more.
type Leads = Box<dyn Fn() -> Result<Root> + Send + Sync>;

/// The path of a destination's directory.
pub struct DestinationPath {
    shown: Vec<u8>,
    leads_to: Leads,
}

tidegate_contract::opaque!(DestinationPath);

impl DestinationPath {
    /// What is `shown` as that; `leads_to` goes there anew, as it was found at the start.
    pub fn new(shown: Vec<u8>, leads_to: impl Fn() -> Result<Root> + Send + Sync + 'static) -> Self {
        Self { shown, leads_to: Box::new(leads_to) }
    }

    /// What is `shown` as that lies at `path` beneath `root`.
    pub(super) fn beneath(root: Root, path: Vec<u8>, shown: Vec<u8>) -> Self {
        let leads_to = move || root.dir(&path).map_err(|error| Error::io("open", &path, error));
        Self::new(shown, leads_to)
    }

    /// For people.
    pub(super) fn shown(&self) -> &[u8] {
        &self.shown
    }

    /// Fails unless it still leads to the open `directory`; what was done `meanwhile` is said.
    pub(super) fn check(&self, directory: &Root, meanwhile: &str) -> Result<()> {
        let identity_of = |directory: &Root| fstat(directory).map(|stat| identity(&stat));
        match (self.leads_to)() {
            Ok(there) if identity_of(directory).is_ok_and(|this| identity_of(&there) == Ok(this)) => Ok(()),
            Err(error)
                if error.errno().is_some_and(|error| says_nothing(Errno::from_raw_os_error(error))) =>
            {
                Err(error)
            }
            _ => {
                let destination = show(&self.shown);
                let why = format!(
                    "the destination {destination} was moved or replaced while {meanwhile}; start again"
                );
                Err(Error::new(ErrorKind::Changed, why))
            }
        }
    }
}

/// Whether an error is of this moment, and tells nothing of what was looked at.
pub(super) fn says_nothing(error: Errno) -> bool {
    matches!(error, Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::IO)
}
