//! What lies beneath `s3://bucket/prefix/`, as names: page after page, each key checked.

use std::collections::{HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tidegate_transfer::error::{Error, ErrorKind};
use tidegate_transfer::path::RelPath;

use crate::record::{Named, Names, Record};
use crate::remote::s3::answer::Item;
use crate::remote::s3::calls::S3Client;
use crate::remote::s3::place::Object;

/// Most keys a page holds.
const PAGE: u32 = 1000;

/// How often a page is asked for.
const TRIES: u32 = 6;

/// Most pages in a row that hold nothing and promise more: versions deleted lately make some.
const EMPTY_PAGES: u32 = 100;

/// Lists what lies beneath the prefix `within.key`. Paths are what follows the prefix's last slash, so
/// that `s3://bucket/runs/` gives what is in `runs`. The iterator waits for the server.
pub fn names(client: S3Client, within: Object) -> Names {
    names_by(client, within, PAGE)
}

/// The same with another number of keys a page, at most 1000.
pub fn names_by(client: S3Client, within: Object, page: u32) -> Names {
    let cut = within.key.rfind('/').map_or(0, |slash| slash + 1);
    let state = Listing {
        client,
        within,
        page,
        cut,
        ready: VecDeque::new(),
        next: None,
        places: HashSet::new(),
        empty: 0,
        begun: false,
        any: false,
    };
    Box::new(state)
}

struct Listing {
    client: S3Client,
    within: Object,
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

impl Iterator for Listing {
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

impl Listing {
    fn shown(&self) -> String {
        self.within.url().map_or_else(|_| format!("s3://{}", self.within.bucket), |url| url.to_string())
    }

    /// Gets the next page; answers with what ends the listing early.
    fn turn(&mut self) -> Option<Named> {
        let mut tries = 0;
        let page = loop {
            tries += 1;
            match self.client.list(&self.within, self.page, self.next.as_deref()) {
                Ok(page) => break page,
                Err(failed) => {
                    let again = failed.refusal.why.may_pass();
                    if !again || tries >= TRIES {
                        return Some(Named::problem(&self.shown(), failed.refusal.error));
                    }
                    let pause = Duration::from_millis(250 << tries);
                    thread::sleep(failed.refusal.retry_after.unwrap_or(pause).min(Duration::from_secs(60)));
                }
            }
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
            let named = self.named(&item);
            self.ready.push_back(named);
        }
        None
    }

    fn named(&self, item: &Item) -> Named {
        let record = || {
            let Some(path) =
                item.key.starts_with(&self.within.key).then(|| item.key.get(self.cut..)).flatten()
            else {
                return Err(Error::new(ErrorKind::Protocol, format!("{:?} was not asked for", item.key)));
            };
            let url = self.within.with_key(item.key.clone()).url()?;
            let mut record = Record::new(url, RelPath::new(path.as_bytes())?);
            record.bytes = Some(item.bytes);
            record.group = Some(Arc::from(self.shown()));
            Ok(record)
        };
        match record() {
            Ok(record) => Named::Record(Box::new(record)),
            Err(error) => Named::problem(&format!("s3://{}/{}", self.within.bucket, item.key), error),
        }
    }
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}
