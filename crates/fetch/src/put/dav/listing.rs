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

/// Asks what is a directory and nothing else: some servers open each file to tell of what type it is.
const KINDS: &[u8] =
    br#"<?xml version="1.0"?><propfind xmlns="DAV:"><prop><resourcetype/></prop></propfind>"#;

/// Lists directories with the headers that files are put with.
pub(super) struct DavListing {
    client: HttpClient,
    shared: Arc<DavContext>,
}

impl DavListing {
    pub fn new(shared: &Arc<DavContext>) -> Result<Self> {
        Ok(Self { client: shared.requests.client(&shared.base)?, shared: Arc::clone(shared) })
    }
}

/// Whether a status of `PROPFIND` says that the server knows nothing of it.
pub(super) const fn knows_no_webdav(status: u16) -> bool {
    matches!(status, 400 | 403 | 405 | 501)
}

/// Asks what is a directory of what is at `url`, and with a `depth` of 1 of what is in it.
pub(super) fn kinds(
    client: &HttpClient,
    shared: &DavContext,
    url: &Url,
    depth: &str,
) -> Result<Reply, Refusal> {
    let lines = [("depth", depth), ("content-type", "application/xml")];
    let lines = lines.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let headers = [&shared.headers[..], &lines].concat();
    send(client, "PROPFIND", url, &headers, Payload::Bytes(KINDS))
}

impl Lists for DavListing {
    fn list(&mut self, url: &Url, _: &Url) -> Result<Vec<Link>, Refusal> {
        let told = kinds(&self.client, &self.shared, url, "1")?;
        if told.status == 207 {
            let xml = text(told, url)?;
            let senseless = || {
                Refusal::new(Why::Senseless, format!("cannot list {}: its answer makes no sense", shown(url)))
            };
            return members(url, &xml).ok_or_else(senseless);
        }
        if !knows_no_webdav(told.status) {
            return Err(refused(told, url));
        }
        told.finish();
        let page = send(&self.client, "GET", url, &self.shared.headers, Payload::None)?;
        match page.status {
            200 => Ok(links(url, &text(page, url)?)),
            _ => Err(refused(page, url)),
        }
    }
}

pub(super) fn text(reply: Reply, url: &Url) -> Result<String, Refusal> {
    reply.text(MAX_PAGE).map_err(|error| {
        Refusal::new(Why::Broken, format!("cannot list {}: {}", shown(url), io_words(&error)))
    })
}

fn refused(reply: Reply, url: &Url) -> Refusal {
    let (why, wait, status) = (why(reply.status, &reply.headers), reply.retry_after(), reply.status);
    reply.finish();
    Refusal::new(why, format!("cannot list {}: the server says {status}", shown(url))).after(wait)
}
