//! What such a server says is in a directory: by WebDAV, or as a page of links.

use std::sync::Arc;

use tidegate_transfer::error::Result;
use url::Url;

use super::{DavConnection, DavContext, send};
use crate::foreign::io_words;
use crate::remote::http::answer::why;
use crate::remote::index::{Link, Lists, MAX_PAGE, links, members};
use crate::remote::request::{HttpClient, Payload, Reply};
use crate::remote::s3::answer::elements;
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

/// Whether a directory is at `url`, as far as the server tells: by WebDAV, or by leading to the same with a slash.
pub(super) fn is_directory(connection: &DavConnection, url: &Url) -> Result<bool, Refusal> {
    let told = properties(&connection.client, &connection.shared, url, "0")?;
    if told.status == 207 {
        let mut is_directory = false;
        elements(&text(told, url)?, |path, _| {
            is_directory |= path == "response/propstat/prop/resourcetype/collection";
        });
        return Ok(is_directory);
    }
    told.finish();
    let reply = connection.ask("HEAD", url, &[], Payload::None)?;
    let to = reply.header("location").and_then(|to| url.join(to).ok());
    let is_directory =
        matches!(reply.status, 300..400) && to.is_some_and(|to| to.path() == format!("{}/", url.path()));
    reply.finish();
    Ok(is_directory)
}

fn properties(client: &HttpClient, shared: &DavContext, url: &Url, depth: &str) -> Result<Reply, Refusal> {
    let lines = [("depth", depth), ("content-type", "application/xml")];
    let lines = lines.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let headers = [&shared.headers[..], &lines].concat();
    send(client, "PROPFIND", url, &headers, Payload::Bytes(KINDS))
}

impl Lists for DavListing {
    fn list(&mut self, url: &Url, _: &Url) -> Result<Vec<Link>, Refusal> {
        let told = properties(&self.client, &self.shared, url, "1")?;
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
