//! What a URL names: a file, or a directory whose listing has begun.

use std::sync::Arc;

use tidegate_transfer::error::Result;
use tidegate_transfer::path::{RelPath, inside};
use tidegate_transfer::sys::sync::Mutex;
use url::Url;

use super::line::LinePool;
use super::wanted::Wanted;
use crate::list;
use crate::record::{Named, Names};
use crate::remote::servers::Servers;
use crate::remote::{Refusal, Version, Why};

/// One source.
pub(super) struct ServerPlace {
    /// Where it lies; that of a directory ends in a slash.
    base: Url,
    what: What,
}

enum What {
    /// A file, as it was seen first.
    File(RelPath, Version),
    /// A directory: what it is called at the destination, or nothing if its contents are put there; and its listing,
    /// until that is read.
    Directory(Vec<u8>, Mutex<Option<Names>>),
}

impl std::fmt::Debug for ServerPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&crate::remote::shown(&self.base))
    }
}

impl ServerPlace {
    /// Asks what `url` names: a directory if it ends in a slash or is a bucket, else a file, or else a directory.
    ///
    /// # Errors
    /// Nothing is there, or it cannot be read.
    pub fn find(url: &Url, servers: &Servers, lines: &LinePool, wanted: &Arc<Wanted>) -> Result<Self> {
        if is_directory(url) {
            return Self::directory(url.clone(), Vec::new(), listed(servers, url, b"", wanted)?);
        }
        let name = list::path_of(url)?;
        match lines.look(url) {
            Ok(seen) => Ok(Self { base: url.clone(), what: What::File(name, seen) }),
            Err(refusal) if may_be_directory(&refusal, url) => {
                let mut within = url.clone();
                within.set_path(&format!("{}/", url.path()));
                let names = listed(servers, &within, name.as_bytes(), wanted)
                    .ok()
                    .and_then(|names| begun(names).ok());
                match names {
                    Some(names) => Self::directory(within, name.as_bytes().to_vec(), names),
                    None => Err(refusal.error),
                }
            }
            Err(refusal) => Err(refusal.error),
        }
    }

    fn directory(base: Url, prefix: Vec<u8>, names: Names) -> Result<Self> {
        Ok(Self { base, what: What::Directory(prefix, Mutex::new(Some(begun(names)?))) })
    }

    /// Whether it is a file.
    pub fn is_file(&self) -> bool {
        matches!(self.what, What::File(..))
    }

    /// The file that it is, and what was seen of it.
    pub fn file(&self) -> Option<(&RelPath, &Version)> {
        match &self.what {
            What::File(name, seen) => Some((name, seen)),
            What::Directory(..) => None,
        }
    }

    /// The directory that it is: what it is called at the destination.
    pub fn prefix(&self) -> Option<&[u8]> {
        match &self.what {
            What::File(..) => None,
            What::Directory(prefix, _) => Some(prefix),
        }
    }

    /// What lies in the directory that it is; told once.
    pub fn names(&self) -> Option<Names> {
        match &self.what {
            What::File(..) => None,
            What::Directory(_, names) => names.lock().take(),
        }
    }

    /// Where it lies.
    pub fn base(&self) -> &Url {
        &self.base
    }

    /// What the file `inner` of its directory is called at the destination.
    pub fn path(&self, inner: &RelPath) -> Result<RelPath> {
        RelPath::new(inside(self.prefix().unwrap_or_default(), inner.as_bytes()))
    }

    /// Where the file lies that is called `path` at the destination.
    pub fn url(&self, path: &RelPath) -> Result<Url> {
        let Some(prefix) = self.prefix() else { return Ok(self.base.clone()) };
        let inner = match prefix.is_empty() {
            true => path.clone(),
            false => RelPath::new(path.as_bytes().get(prefix.len() + 1..).unwrap_or_default())?,
        };
        list::beneath(&self.base, &inner)
    }
}

/// Whether a URL says that it names a directory, or is that of a whole bucket.
fn is_directory(url: &Url) -> bool {
    url.path().is_empty() || url.path().ends_with('/')
}

/// Whether what was refused as a file may be a directory: nothing else bears its name, or its server answers with a page.
fn may_be_directory(refusal: &Refusal, url: &Url) -> bool {
    url.query().is_none() && matches!(refusal.why, Why::Missing | Why::Senseless)
}

/// What lies beneath `url`, which is called `prefix` at the destination.
fn listed(servers: &Servers, url: &Url, prefix: &[u8], wanted: &Arc<Wanted>) -> Result<Names> {
    if let Some(names) = servers.list(url) {
        return names;
    }
    let (wanted, prefix) = (Arc::clone(wanted), prefix.to_vec());
    Ok(servers.tree_entering(url, Box::new(move |inner| wanted.enters(&prefix, inner))))
}

/// The same names, once it is known that there are any.
///
/// # Errors
/// There is nothing but an error.
fn begun(mut names: Names) -> Result<Names> {
    let first = names.next();
    let second = first.as_ref().and_then(|_| names.next());
    match (first, second) {
        (Some(Named::Problem(_, error)), None) => Err(error),
        (first, second) => Ok(Box::new(first.into_iter().chain(second).chain(names))),
    }
}
