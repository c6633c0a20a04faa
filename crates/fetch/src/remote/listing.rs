//! What lies beneath a bucket's prefix, as names: page after page, each key checked.

use std::collections::{HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use tidegate_transfer::error::{Error, ErrorKind, Result};
use tidegate_transfer::path::{RelPath, is_reserved};
use url::Url;

use super::Refusal;
use super::object::Object;
use super::patience::Patience;
use crate::record::{Named, Names, Record};

/// Most keys a page holds.
const PAGE: u32 = 1000;

/// Most pages in a row that hold nothing and promise more: versions deleted lately make some.
const EMPTY_PAGES: u32 = 100;

/// One object of a listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Item {
    /// Its key.
    pub key: String,
    /// Its size.
    pub bytes: u64,
    /// Its tag without quotes.
    pub tag: String,
}

/// A page of a listing, and where the next one begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// The objects.
    pub items: Vec<Item>,
    /// What continues it.
    pub next: Option<String>,
}

/// A store that lists what it has.
pub(crate) trait Pages: Send {
    /// How its URLs begin.
    const SCHEME: &'static str;
    /// The prefix that is listed.
    fn within(&self) -> &Object;
    /// The URL of an object there.
    fn url(&self, object: &Object) -> Result<Url>;
    /// The page of at most so many keys that begins at `from`, or the first.
    fn page(&self, most: u32, from: Option<&str>) -> Result<Page, Refusal>;
}

/// What lies beneath a prefix. Paths are what follows the prefix's last slash, so that `s3://bucket/runs/` gives what is
/// in `runs`. The iterator waits for the server.
pub(crate) struct Listing<P> {
    pages: P,
    patience: Patience,
    page: u32,
    /// Where keys' paths begin.
    cut: usize,
    /// At most one page.
    ready: VecDeque<Named>,
    next: Option<String>,
    /// Hashes of what led from page to page so far: none comes twice.
    places: HashSet<u64>,
    /// Pages in a row that held nothing.
    empty: u32,
    begun: bool,
    any: bool,
}

impl<P: Pages> Iterator for Listing<P> {
    type Item = Named;

    fn next(&mut self) -> Option<Named> {
        loop {
            if let Some(named) = self.ready.pop_front() {
                return Some(named);
            }
            if self.begun && self.next.is_none() {
                if self.any {
                    return None;
                }
                self.any = true;
                let why = format!("nothing lies beneath {}", self.shown());
                return Some(Named::problem(&self.shown(), Error::new(ErrorKind::NotFound, why)));
            }
            if let Some(problem) = self.turn() {
                (self.begun, self.any, self.next) = (true, true, None);
                return Some(problem);
            }
        }
    }
}

impl<P: Pages + 'static> Listing<P> {
    /// Lists `pages`.
    pub fn names(pages: P, patience: Patience) -> Names {
        Self::names_by(pages, patience, PAGE)
    }

    /// The same with another number of keys a page, at most 1000.
    pub fn names_by(pages: P, patience: Patience, page: u32) -> Names {
        let cut = pages.within().key.rfind('/').map_or(0, |slash| slash + 1);
        Box::new(Self {
            pages,
            patience,
            page,
            cut,
            ready: VecDeque::new(),
            next: None,
            places: HashSet::new(),
            empty: 0,
            begun: false,
            any: false,
        })
    }
}

impl<P: Pages> Listing<P> {
    fn shown(&self) -> String {
        let within = self.pages.within();
        self.pages
            .url(within)
            .map_or_else(|_| format!("{}://{}", P::SCHEME, within.bucket), |url| url.to_string())
    }

    /// Gets the next page; answers with what ends the listing early.
    fn turn(&mut self) -> Option<Named> {
        let page = match self.patience.ask(|| self.pages.page(self.page, self.next.as_deref())) {
            Ok(page) => page,
            Err(refusal) => return Some(Named::problem(&self.shown(), refusal.error)),
        };
        let repeats = page.next.as_ref().is_some_and(|next| !self.places.insert(hash(next)));
        self.empty = if page.items.is_empty() { self.empty + 1 } else { 0 };
        let endless = if repeats {
            Some(format!("the listing of {} goes in a circle", self.shown()))
        } else if page.next.is_some() && self.empty > EMPTY_PAGES {
            Some(format!("the listing of {} has no end: {} empty pages in a row", self.shown(), self.empty))
        } else {
            None
        };
        if let Some(why) = endless {
            return Some(Named::problem(&self.shown(), Error::new(ErrorKind::Protocol, why)));
        }
        self.begun = true;
        self.next = page.next;
        self.any |= !page.items.is_empty();
        for item in page.items {
            // A key that ends in a slash stands for a directory that somebody made by hand.
            if item.key.ends_with('/') && item.bytes == 0 {
                continue;
            }
            let path = item.key.get(self.cut..).unwrap_or_default();
            if path.split('/').any(|name| is_reserved(name.as_bytes())) {
                continue;
            }
            let named = self.named(&item);
            self.ready.push_back(named);
        }
        None
    }

    fn named(&self, item: &Item) -> Named {
        let within = self.pages.within();
        let record = || {
            let Some(path) = item.key.starts_with(&within.key).then(|| item.key.get(self.cut..)).flatten()
            else {
                return Err(Error::new(ErrorKind::Protocol, format!("{:?} was not asked for", item.key)));
            };
            let url = self.pages.url(&within.with_key(item.key.clone()))?;
            let mut record = Record::new(url, RelPath::new(path.as_bytes())?);
            record.bytes = Some(item.bytes);
            record.group = Some(Arc::from(self.shown()));
            Ok(record)
        };
        match record() {
            Ok(record) => Named::Record(Box::new(record)),
            Err(error) => Named::problem(&format!("{}://{}/{}", P::SCHEME, within.bucket, item.key), error),
        }
    }
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}
