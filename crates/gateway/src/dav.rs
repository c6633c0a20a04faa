//! What WebDAV's clients ask to read: the properties of a file, or of a directory and what is in it (RFC 4918).

use std::io;

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use tidegate_transfer::endpoint::access::{Access, url_path};
use tidegate_transfer::manifest::Timestamp;
use tidegate_transfer::path::{inside, split};

use crate::body::{TEXT, streamed, text};
use crate::document::{malformed, read};
use crate::limit::Share;
use crate::names;
use crate::refusal::{Answer, Refusal};
use crate::tree::{self, Found, Item};
use crate::validators::{date_time, http_date};
use crate::xml::Xml;

/// Refuses what is no request for properties. One that says nothing asks for all.
pub(crate) fn check_request(document: &str) -> Answer<()> {
    match document.trim().is_empty() {
        true => Ok(()),
        false => read(document, |names, _| if names[0] == "propfind" { Ok(()) } else { Err(malformed()) }),
    }
}

/// The answer to PROPFIND; it tells the same whatever properties are asked for, as clients bear.
pub(crate) fn properties(access: &Access, share: &Share, path: &[u8], headers: &HeaderMap) -> Answer {
    let depth = headers.get("depth").and_then(|value| value.to_str().ok()).unwrap_or("infinity");
    match (tree::open(access, path)?, depth) {
        (Found::File(file), "0" | "1" | "infinity") => {
            let version = (&file.version.tag[..], file.version.modified);
            let mut xml = Xml::new();
            xml.within(MULTISTATUS, |xml| told(xml, path, Some(file.size), version));
            Ok(document(StatusCode::MULTI_STATUS, Body::from(xml.finish())))
        }
        (Found::Directory(directory), "0" | "1") => {
            let own = directory.path().to_vec();
            let mut before = Xml::new();
            before.open(MULTISTATUS);
            told(&mut before, &own, None, ("", directory.modified));
            let items: Box<dyn Iterator<Item = _> + Send> = match depth {
                "0" => Box::new(std::iter::empty()),
                _ => Box::new(directory.all(access)?.map(|item| item.map_err(io::Error::other))),
            };
            let write = move |item: &Item, text: &mut String| {
                let mut xml = Xml::part();
                let version = (&item.version.tag[..], item.version.modified);
                told(&mut xml, &inside(&own, &item.name), item.size, version);
                text.push_str(&xml.finish());
            };
            let behind = || {
                let mut xml = Xml::part();
                xml.close(MULTISTATUS);
                xml.finish()
            };
            let body = streamed(access, share.memory(4 * TEXT)?, text(before.finish(), items, write, behind));
            Ok(document(StatusCode::MULTI_STATUS, body))
        }
        (Found::Directory(_), "infinity") => {
            let mut xml = Xml::new();
            xml.within("error xmlns=\"DAV:\"", |xml| xml.element("propfind-finite-depth", ""));
            Ok(document(StatusCode::FORBIDDEN, Body::from(xml.finish())))
        }
        _ => Err(Refusal::senseless("the depth is 0, 1 or infinity")),
    }
}

/// Where a MOVE leads, beneath the root, and whether it may replace what is there.
pub fn destination(headers: &HeaderMap) -> Answer<(Vec<u8>, bool)> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let wanted = || Refusal::senseless("the header Destination says where to: a URL of this server");
    let uri: Uri = text("destination").and_then(|text| text.parse().ok()).ok_or_else(wanted)?;
    let overwrite = match headers.get("overwrite").map(|said| said.as_bytes().trim_ascii()) {
        None | Some(b"T" | b"t") => true,
        Some(b"F" | b"f") => false,
        // Who means to keep what is there must not lose it to a word that is not known.
        Some(_) => return Err(Refusal::senseless("the header Overwrite is T or F")),
    };
    // What it is called by others is known to a proxy alone: the host is not compared.
    Ok((names::path(uri.path())?, overwrite))
}

const MULTISTATUS: &str = "multistatus xmlns=\"DAV:\"";

fn told(xml: &mut Xml, path: &[u8], size: Option<u64>, (tag, modified): (&str, Timestamp)) {
    let slash = if size.is_none() && !path.is_empty() { "/" } else { "" };
    xml.within("response", |xml| {
        xml.element("href", &format!("/{}{slash}", url_path(path)));
        xml.within("propstat", |xml| {
            xml.within("prop", |xml| {
                xml.element("displayname", &String::from_utf8_lossy(split(path).1));
                xml.element("getlastmodified", &http_date(modified));
                // Nothing else is known of when it was made.
                xml.element("creationdate", &date_time(modified));
                match size {
                    None => xml.within("resourcetype", |xml| xml.element("collection", "")),
                    Some(size) => {
                        xml.element("resourcetype", "");
                        xml.element("getcontentlength", &size.to_string());
                        xml.element("getcontenttype", "application/octet-stream");
                        xml.element("getetag", tag);
                    }
                }
            });
            xml.element("status", "HTTP/1.1 200 OK");
        });
    });
}

fn document(status: StatusCode, body: Body) -> Response {
    let mut response = (status, body).into_response();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/xml; charset=utf-8"));
    response
}
