//! What curl and browsers ask: files, directories, archives of them.

use std::sync::Arc;

use axum::body::Body;
use axum::http::header::{ACCEPT_RANGES, CONTENT_DISPOSITION, CONTENT_TYPE, LOCATION};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use data_encoding::HEXLOWER;
use tidegate_transfer::endpoint::access::{Access, Right, url_path};
use tidegate_transfer::path::split;

use crate::archive::{self, Format};
use crate::blocking::blocking;
use crate::body::{TEXT, streamed};
use crate::content::{self, attachment};
use crate::digests::WantedDigest;
use crate::hashes::{BLAKE3, Hashes};
use crate::limit::Share;
use crate::names::value;
use crate::page::{PAGE, Page, form};
use crate::refusal::{Answer, Refusal};
use crate::served::Asked;
use crate::tree::{self, Directory, Found, listing};

/// A request that reads.
#[derive(Debug)]
pub(crate) struct Reading<'r> {
    /// GET or HEAD.
    pub method: &'r Method,
    /// Beneath the root.
    pub path: &'r [u8],
    /// The name that a page begins behind.
    pub after: &'r [u8],
    /// What is asked besides.
    pub query: &'r [(String, String)],
    /// Its headers.
    pub headers: &'r HeaderMap,
    /// What files are known to hash to.
    pub hashes: &'r Arc<Hashes>,
    /// What may be used for it.
    pub share: &'r Share,
    /// The token of the link that is used.
    pub link: Option<&'r str>,
}

/// The answer to a request of who may do what `access` says.
pub fn answer(access: &Access, reading: &Reading<'_>) -> Answer {
    match tree::open(access, reading.path)? {
        Found::File(_) if reading.path.ends_with(b"/") => {
            Err(Refusal::new(StatusCode::NOT_FOUND, "that is a file: leave the slash at the end out"))
        }
        Found::File(file) => {
            let name = split(reading.path).1;
            content::answer((access, reading.share), reading.method, reading.headers, &file, name)
        }
        Found::Directory(_) if !reading.path.is_empty() && !reading.path.ends_with(b"/") => {
            Ok(with_slash(reading))
        }
        Found::Directory(directory) => of_directory(access, directory, reading),
    }
}

/// What the file hashes to that is asked about.
pub async fn hash(access: Access, asked: Asked, hashes: &Hashes) -> Answer {
    let share = Arc::clone(&asked.share);
    let valid = access.clone();
    if value(&asked.query, "hash") != Some("blake3") {
        return Err(Refusal::senseless("hash=blake3 is what can be asked for"));
    }
    let method = asked.parts.method;
    let file = blocking(move || match tree::open(&access, &asked.path)? {
        Found::File(file) => Ok(file),
        Found::Directory(_) => Err(Refusal::senseless("that is a directory: only files have a hash")),
    });
    let file = file.await?;
    let text = if method == Method::HEAD {
        String::new()
    } else {
        HEXLOWER.encode(&hashes.of(BLAKE3, &valid, &share, file).await?) + "\n"
    };
    let mut response = text.into_response();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    Ok(response)
}

/// Tells in an answer that sends a file the digest that is `wanted` of it.
pub async fn digest(
    wanted: WantedDigest,
    response: &mut Response,
    access: Access,
    share: Arc<Share>,
    path: Vec<u8>,
    hashes: &Hashes,
) -> Answer<()> {
    if !response.headers().contains_key(ACCEPT_RANGES) {
        return Ok(());
    }
    let valid = access.clone();
    if let Found::File(file) = blocking(move || Ok(tree::open(&access, &path)?)).await? {
        let version = file.version.clone();
        let sum = hashes.of(wanted.kind, &valid, &share, file).await?;
        wanted.write(response, &sum, &version);
    }
    Ok(())
}

/// The links of a page are relative to its directory, which ends with a slash.
fn with_slash(reading: &Reading<'_>) -> Response {
    let pairs = reading
        .query
        .iter()
        .map(|(name, value)| format!("{}={}", url_path(name.as_bytes()), url_path(value.as_bytes())));
    let query = pairs.collect::<Vec<_>>().join("&");
    let mark = if query.is_empty() { "" } else { "?" };
    // Only the last name: a proxy in front may serve this beneath another path.
    let location = format!("./{}/{mark}{query}", url_path(split(reading.path).1));
    let mut response = (StatusCode::MOVED_PERMANENTLY, Body::empty()).into_response();
    if let Ok(location) = HeaderValue::from_str(&location) {
        response.headers_mut().insert(LOCATION, location);
    }
    response
}

fn of_directory(access: &Access, directory: Directory, reading: &Reading<'_>) -> Answer {
    if let Some(format) = value(reading.query, "archive") {
        let format: Format = format.parse().map_err(Refusal::senseless)?;
        let body = match *reading.method {
            Method::HEAD => Body::empty(),
            _ => archive::body(access, reading.share, &directory, format)?,
        };
        let mut response = body.into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(format.kind()));
        if let Ok(name) = HeaderValue::from_str(&attachment(&archive::name(directory.path(), format))) {
            headers.insert(CONTENT_DISPOSITION, name);
        }
        return Ok(response);
    }
    let mut held = reading.share.memory(listing(PAGE))?;
    let (keys, more) = directory.keys(access, reading.after, PAGE)?;
    held.resize(keys.memory() + 4 * TEXT);
    let path = directory.path().to_vec();
    let page = Page {
        last: keys.end().filter(|_| more).map(<[u8]>::to_vec),
        has_parent: !path.is_empty() && access.check(split(&path).0, Right::Read).is_ok(),
        path,
        hashes: Arc::clone(reading.hashes),
        token: reading.link.map(str::to_owned),
    };
    let form = form(reading.headers);
    let items = {
        let access = access.clone();
        keys.filter_map(move |key| directory.at(&access, &key))
    };
    let body = match *reading.method {
        Method::HEAD => Body::empty(),
        _ => streamed(access, held, page.pieces(form, items)),
    };
    let mut response = body.into_response();
    Page::describe(form, response.headers_mut());
    Ok(response)
}
