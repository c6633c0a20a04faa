//! Where redirects led to, so that all parts of a file come from one place.
//!
//! A service that spreads requests over mirrors sends each request elsewhere, and no two of its mirrors need
//! agree on a tag: then every part would look like another version. What is remembered is a hint only: the
//! version is checked with every answer, and whoever fails at the place begins at the original URL again.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use url::Url;

/// How many files are remembered, those of the last minutes.
const KEPT: usize = 1024;

/// Places by the URL that led there.
#[derive(Debug, Default)]
pub struct Moved(Mutex<HashMap<Url, Url>>);

impl Moved {
    /// Where the file at `url` was found.
    pub fn place(&self, url: &Url) -> Option<Url> {
        self.lock().get(url).cloned()
    }

    /// The file at `url` was found at `place`. A place with a query is not remembered: most are signed, and
    /// expire.
    pub fn remember(&self, url: &Url, place: &Url) {
        if place.query().is_some() || place[..url::Position::AfterPath] == url[..url::Position::AfterPath] {
            return;
        }
        let mut known = self.lock();
        if known.len() >= KEPT {
            known.clear();
        }
        known.insert(url.clone(), place.clone());
    }

    /// The file is there no more, or not as it should be.
    pub fn forget(&self, url: &Url) {
        self.lock().remove(url);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Url, Url>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
