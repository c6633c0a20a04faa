//! What S3's clients ask: a bucket is a directory right beneath the root, a key a path beneath that.

mod copying;
mod list;
mod removal;

mod put;

pub(crate) use put::change;

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use tidegate_transfer::endpoint::access::{Access, Right};
use tidegate_transfer::manifest::Timestamp;
use tidegate_transfer::text::show;

use crate::body::{TEXT, streamed, text};
use crate::content;
use crate::limit::Share;
use crate::names::value;
use crate::refusal::{Answer, Refusal};
use crate::served::Asked;
use crate::tree::{self, Found, Item, listing};
use crate::validators::date_time;
use crate::xml::Xml;

/// The namespace of S3's documents.
const NAMESPACE: &str = "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"";

/// Buckets that are listed.
const MAX_BUCKETS: usize = 10_000;

/// What a request may ask for that reads an object. Anything else is of something that is not kept here, and must not be
/// answered as if it were of the object.
const OF_OBJECTS: [&str; 3] = ["partNumber", "versionId", "x-id"];

/// The same of lists and buckets.
const OF_BUCKETS: [&str; 14] = [
    "continuation-token",
    "delimiter",
    "encoding-type",
    "fetch-owner",
    "list-type",
    "location",
    "marker",
    "max-keys",
    "prefix",
    "start-after",
    "uploads",
    "versioning",
    "versions",
    "x-id",
];

/// Refuses a request with other parameters than those that are `known`, those of signatures, and headers that clients sign as
/// such and that change nothing here.
fn is_known(query: &[(String, String)], known: &[&str]) -> Answer<()> {
    let passes = |name: &str| {
        let small = name.to_ascii_lowercase();
        let of_amazon = small.starts_with("x-amz-") && !small.starts_with("x-amz-copy-source");
        known.contains(&name) || of_amazon || name.starts_with("response-")
    };
    let unknown = query.iter().find(|(name, _)| !passes(name));
    let refuse = |why: String| Err(Refusal::new(StatusCode::NOT_IMPLEMENTED, why));
    match (unknown, value(query, "versionId")) {
        (Some((name, _)), _) => refuse(format!("no {} is kept here", show(name.as_bytes()))),
        (None, Some(version)) if version != "null" => refuse("no versions are kept here".to_owned()),
        _ => Ok(()),
    }
}

/// A request that reads, of who may do what `access` says.
pub fn answer(access: &Access, Asked { parts, path, query, share }: &Asked) -> Answer {
    if !matches!(parts.method, Method::GET | Method::HEAD) {
        return Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "S3 has no such request"));
    }
    let (bucket, key) = split(path);
    is_known(query, if key.is_empty() { &OF_BUCKETS } else { &OF_OBJECTS })?;
    match (&parts.method, bucket, key) {
        (_, b"", _) => buckets(access, share),
        (method, bucket, b"") => {
            let here = is_bucket(access, bucket);
            if *method == Method::HEAD {
                here?;
                return Ok(StatusCode::OK.into_response());
            }
            of_bucket((access, share), bucket, (query, parts.uri.query().unwrap_or_default()), here)
        }
        (method, _, key) => match object(access, path)? {
            Found::File(_) if value(query, "partNumber").is_some_and(|part| part != "1") => {
                let why = "an object is one part here, whatever it was put in";
                Err(Refusal::new(StatusCode::RANGE_NOT_SATISFIABLE, why).called("InvalidPartNumber"))
            }
            Found::File(file) if !key.ends_with(b"/") => {
                let name = tidegate_transfer::path::split(key).1;
                let mut response = content::answer((access, share), method, &parts.headers, &file, name)?;
                let modified = file.version.modified;
                // The second of `Last-Modified` is not all: this is how rclone and s3fs keep the rest.
                let exact = format!("{}.{:09}", modified.seconds, modified.nanoseconds);
                if let (true, Ok(exact)) = (modified.seconds >= 0, HeaderValue::from_str(&exact)) {
                    response.headers_mut().insert("x-amz-meta-mtime", exact);
                }
                Ok(response)
            }
            _ => Err(Refusal::new(StatusCode::NOT_FOUND, "there is no such object")),
        },
    }
}

/// What is at the path of an object.
fn object(access: &Access, path: &[u8]) -> Answer<Found> {
    tree::open(access, path).or_else(|error| {
        let refusal = Refusal::from(error);
        if refusal.status == StatusCode::NOT_FOUND {
            is_bucket(access, split(path).0)?;
        }
        Err(refusal)
    })
}

/// The bucket and the key that a path means.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().position(|&b| b == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (path, b""),
    }
}

/// Whether there is such a bucket, and something in it that the token opens.
fn is_bucket(access: &Access, bucket: &[u8]) -> Answer<()> {
    // Who may use a part of it may know that it is there.
    let opened = if split(access.path()).0 == bucket { access.path() } else { bucket };
    match tree::open(access, opened) {
        Ok(Found::Directory(_)) => Ok(()),
        Ok(Found::File(_)) if opened != bucket => Ok(()),
        Ok(Found::File(_)) => Err(no_bucket()),
        Err(error) => {
            let refusal = Refusal::from(error);
            Err(if refusal.status == StatusCode::NOT_FOUND { no_bucket() } else { refusal })
        }
    }
}

fn no_bucket() -> Refusal {
    Refusal::new(StatusCode::NOT_FOUND, "there is no such bucket").called("NoSuchBucket")
}

fn document(name: &str, inner: impl FnOnce(&mut Xml)) -> Response {
    let mut xml = begun(name);
    inner(&mut xml);
    xml.close(name);
    told(Body::from(xml.finish()))
}

/// A document that has begun.
fn begun(name: &str) -> Xml {
    let mut xml = Xml::new();
    xml.open(&format!("{name} {NAMESPACE}"));
    xml
}

/// Its end.
fn ended(name: &str) -> String {
    let mut xml = Xml::part();
    xml.close(name);
    xml.finish()
}

fn told(body: Body) -> Response {
    let mut response = body.into_response();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/xml"));
    response
}

fn buckets(access: &Access, share: &Share) -> Answer {
    let own = access.path();
    access.check(own, Right::Read)?;
    let named = |name: &str, created: Timestamp| {
        let mut xml = Xml::part();
        xml.within("Bucket", |xml| {
            xml.element("Name", name);
            xml.element("CreationDate", &date_time(created));
        });
        xml.finish()
    };
    let mut before = begun("ListAllMyBucketsResult");
    before.within("Owner", |xml| xml.element("ID", "tidegate"));
    before.open("Buckets");
    let before = before.finish();
    let behind = || format!("</Buckets>{}", ended("ListAllMyBucketsResult"));
    if !own.is_empty() {
        let name = String::from_utf8_lossy(split(own).0);
        return Ok(told(Body::from(before + &named(&name, Timestamp::default()) + &behind())));
    }
    let Found::Directory(root) = tree::open(access, b"")? else {
        return Err(Refusal::new(StatusCode::NOT_FOUND, "nothing is here"));
    };
    let mut held = share.memory(listing(MAX_BUCKETS))?;
    let (keys, _) = root.keys(access, b"", MAX_BUCKETS)?;
    held.resize(keys.memory() + 4 * TEXT);
    let items = {
        let access = access.clone();
        keys.filter(|key| key.ends_with(b"/")).filter_map(move |key| root.at(&access, &key))
    };
    let write = move |item: &Item, text: &mut String| {
        // What has another name could not be asked for.
        if let Ok(name) = std::str::from_utf8(&item.name) {
            text.push_str(&named(name, item.version.modified));
        }
    };
    Ok(told(streamed(access, held, text(before, items.map(Ok), write, behind))))
}

fn of_bucket(
    (access, share): (&Access, &Share),
    bucket: &[u8],
    (query, text): (&[(String, String)], &str),
    here: Answer<()>,
) -> Answer {
    if value(query, "location").is_some() {
        here?;
        return Ok(document("LocationConstraint", |_| {}));
    }
    if value(query, "versioning").is_some() {
        here?;
        return Ok(document("VersioningConfiguration", |_| {}));
    }
    if value(query, "uploads").is_some() || value(query, "versions").is_some() {
        return Err(Refusal::new(
            StatusCode::NOT_IMPLEMENTED,
            "neither uploads nor versions are listed here",
        ));
    }
    here?;
    Ok(told(list::answer(access, share, bucket, list::ListQuery::read(text)?)?))
}
