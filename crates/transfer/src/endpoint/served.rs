//! The directory that is served: opened anew where it was removed, and another one was made in its place.

use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use crate::endpoint::{Config, Endpoint, SessionContext, private};
use crate::error::{Error, ErrorKind, Result};
use crate::store::named::Scope;
use crate::sys::confined::{self, Root};
use crate::sys::fs::fstat;
use crate::sys::sync::Mutex;
use crate::text::show;

/// What of this host `session` may name.
pub fn scope<'a>(endpoint: &'a Endpoint, session: &'a SessionContext) -> Result<Scope<'a>> {
    Ok(Scope { root: endpoint.root()?, claim: &session.within, followed: &endpoint.followed })
}

/// The directory that is served.
#[derive(Debug)]
pub(crate) struct ServedRoot {
    current: Mutex<Arc<Root>>,
    /// Where it lay at the start, without links on the way.
    absolute: Vec<u8>,
}

impl ServedRoot {
    /// The open `root`, which lies at `absolute`.
    pub fn new(root: Root, absolute: Vec<u8>) -> Self {
        Self { current: Mutex::new(Arc::new(root)), absolute }
    }

    /// Where it lies.
    pub fn absolute(&self) -> &[u8] {
        &self.absolute
    }

    /// It, as it was opened or, if that one is gone, what is at its place by now.
    ///
    /// # Errors
    /// Nothing is there, or what an endpoint would not begin to serve, or its path leads elsewhere than it did.
    pub fn open(&self, config: &Config, followed: &[Vec<u8>]) -> Result<Arc<Root>> {
        let mut current = self.current.lock();
        if is_there(&current) {
            return Ok(Arc::clone(&current));
        }
        let path = config.root.as_os_str().as_bytes();
        let failed = |error| Error::io("serve", path, error);
        let gone = |error| Error { kind: ErrorKind::Io, ..Error::io("serve", path, error) };
        let absolute = confined::canonical(path).map_err(gone)?;
        if absolute != self.absolute {
            let why = format!(
                "{} leads to {} by now and not to {}, as it did at the start: start the endpoint again to serve that",
                show(path),
                show(&absolute),
                show(&self.absolute)
            );
            return Err(Error::new(ErrorKind::Denied, why));
        }
        let root = Root::open(&absolute).map_err(failed)?;
        let (root, _) = private::hide(root, followed, config)?;
        tracing::info!("{} was removed and made again, and is served as it is now", show(path));
        *current = Arc::new(root);
        Ok(Arc::clone(&current))
    }
}

/// Whether an open directory still has a name.
fn is_there(root: &Root) -> bool {
    fstat(root.as_fd()).is_ok_and(|stat| stat.st_nlink > 0)
}
