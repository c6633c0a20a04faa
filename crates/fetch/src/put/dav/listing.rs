//! What such a server says is in a directory: by WebDAV, or as a page of links.

use std::sync::Arc;

use tidegate_transfer::error::Result;
use url::Url;

use super::{DavContext, send};
use crate::foreign::io_words;
use crate::remote::http::answer::why;
use crate::remote::index::{Link, Lists, MAX_PAGE, links, members};
use crate::remote::request::{HttpClient, Payload, Reply};
use crate::remote::{Refusal, Why, shown};

/// Lists directories with the headers that files are put with.
pub(super) struct DavListing {
    client: HttpClient,
    shared: Arc<DavContext>,
}

impl DavListing {
    pub fn new(shared: &Arc<DavContext>) -> Result<Self> {
        Ok(Self { client: shared.requests.client(&shared.base)?, shared: Arc::clone(shared) })
    }

    fn ask(&self, method: &str, url: &Url) -> Result<Reply, Refusal> {
        let depth = ("depth".to_owned(), "1".to_owned());
        let headers: Vec<_> = self.shared.headers.iter().cloned().chain([depth]).collect();
        send(&self.client, method, url, &headers, Payload::None)
    }
}

impl Lists for DavListing {
    fn list(&mut self, url: &Url, _: &Url) -> Result<Vec<Link>, Refusal> {
        let told = self.ask("PROPFIND", url)?;
        if told.status == 207 {
            let xml = text(told, url)?;
            let senseless = || {
                Refusal::new(Why::Senseless, format!("cannot list {}: its answer makes no sense", shown(url)))
            };
            return members(url, &xml).ok_or_else(senseless);
        }
        if !matches!(told.status, 400 | 403 | 405 | 501) {
            return Err(refused(told, url));
        }
        told.finish();
        let page = self.ask("GET", url)?;
        match page.status {
            200 => Ok(links(url, &text(page, url)?)),
            _ => Err(refused(page, url)),
        }
    }
}

fn text(reply: Reply, url: &Url) -> Result<String, Refusal> {
    reply.text(MAX_PAGE).map_err(|error| {
        Refusal::new(Why::Broken, format!("cannot list {}: {}", shown(url), io_words(&error)))
    })
}

fn refused(reply: Reply, url: &Url) -> Refusal {
    let (why, wait, status) = (why(reply.status, &reply.headers), reply.retry_after(), reply.status);
    reply.finish();
    Refusal::new(why, format!("cannot list {}: the server says {status}", shown(url))).after(wait)
}
