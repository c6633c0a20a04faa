//! What S3's clients change.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use quick_xml::escape::unescape;
use tidegate_transfer::endpoint::access::{Access, Right, url_path};

use super::{document as answered, split};
use crate::blocking::blocking;
use crate::change::{Removed, make_directory, remove};
use crate::credentials::Asker;
use crate::multipart::Receiving;
use crate::names::{self, value};
use crate::put::put;
use crate::receive::{Expected, document, modified, receive};
use crate::refusal::{Answer, Refusal};
use crate::served::{Asked, Served};
use crate::tree::{self, Found};
use crate::upload::{Parents, Upload};
use crate::validators::date_time;
use crate::xml::Xml;

/// The header that says what is copied.
const SOURCE: &str = "x-amz-copy-source";

/// Most objects that one request removes.
const MAX_REMOVED: usize = 1000;

/// Does what `asked` wants, who is known to be `asker`.
pub async fn change(served: &Arc<Served>, asked: Asked, asker: Asker, body: Body) -> Answer {
    let Asked { parts, path, query } = &asked;
    let query = |name: &str| value(query, name);
    let (bucket, key) = split(path);
    if bucket.is_empty() {
        return Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "buckets are listed, and no more"));
    }
    match (&parts.method, query("uploadId")) {
        (&Method::PUT, _) if key.is_empty() => {
            let (access, bucket) = (asker.access, bucket.to_vec());
            // One that is there is as good as made.
            let made = blocking(move || match make_directory(&access, &bucket) {
                Err(refusal) if refusal.status == StatusCode::METHOD_NOT_ALLOWED => {
                    Ok(StatusCode::OK.into_response())
                }
                made => made.map(|_| StatusCode::OK.into_response()),
            });
            made.await
        }
        (&Method::PUT, Some(_)) if parts.headers.contains_key(SOURCE) => {
            Err(Refusal::new(StatusCode::NOT_IMPLEMENTED, "parts are put, and not copied"))
        }
        (&Method::PUT, Some(id)) => {
            let upload = served.uploads.find(&asker.access, path, id)?;
            let number = query("partNumber").unwrap_or_default().to_owned();
            let expected = Expected::read(parts, asker.by, served.unverified)?;
            let part = blocking(move || Receiving::begin(upload, &number)).await?;
            let part = receive(body, expected, part).await?;
            let tag = blocking(move || Ok(part.finish())).await?;
            let mut response = StatusCode::OK.into_response();
            response
                .headers_mut()
                .extend(HeaderValue::from_str(&tag).ok().map(|tag| (axum::http::header::ETAG, tag)));
            Ok(response)
        }
        (&Method::PUT, None) if parts.headers.contains_key(SOURCE) => {
            let (access, to, headers) = (asker.access, path.clone(), parts.headers.clone());
            blocking(move || copy(&access, &to, &headers)).await
        }
        // How some clients have directories.
        (&Method::PUT, None) if key.ends_with(b"/") => {
            let (access, path) = (asker.access, path.clone());
            blocking(move || {
                access.check(&path, Right::Write)?;
                match make_directory(&access, &path) {
                    Err(refusal) if refusal.status != StatusCode::METHOD_NOT_ALLOWED => Err(refusal),
                    _ => Ok(StatusCode::OK.into_response()),
                }
            })
            .await
        }
        (&Method::PUT, None) => {
            let (_, version) = put(served, &asked, asker, body, Parents::Make).await?;
            let mut response = StatusCode::OK.into_response();
            if let Some(version) = version {
                version.write(response.headers_mut());
            }
            Ok(response)
        }
        (&Method::POST, None) if query("uploads").is_some() => {
            let (served, to, modified) = (Arc::clone(served), path.clone(), modified(&parts.headers, true));
            let id = blocking(move || served.uploads.begin(&asker.access, &to, modified)).await?;
            Ok(named("InitiateMultipartUploadResult", path, |xml| xml.element("UploadId", &id)))
        }
        (&Method::POST, None) if query("delete").is_some() && key.is_empty() => {
            let (access, bucket, text) = (asker.access, bucket.to_vec(), document(body).await?);
            blocking(move || remove_all(&access, &bucket, &text)).await
        }
        (&Method::POST, Some(id)) => {
            let upload = served.uploads.find(&asker.access, path, id)?;
            let (access, text) = (asker.access, document(body).await?);
            let (served, id) = (Arc::clone(served), id.to_owned());
            let version = blocking(move || {
                let version = upload.complete(&access, &text)?;
                served.uploads.end(&id);
                Ok(version)
            });
            let version = version.await?;
            let tag = version.map_or_else(|| "\"\"".to_owned(), |version| version.tag);
            Ok(named("CompleteMultipartUploadResult", path, |xml| xml.element("ETag", &tag)))
        }
        (&Method::DELETE, Some(id)) => {
            served.uploads.find(&asker.access, path, id)?;
            let (served, id) = (Arc::clone(served), id.to_owned());
            blocking(move || {
                served.uploads.end(&id);
                Ok(StatusCode::NO_CONTENT.into_response())
            })
            .await
        }
        (&Method::DELETE, None) => {
            let (access, path) = (asker.access, path.clone());
            blocking(move || removed(&access, &path)).await
        }
        _ => Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "S3 has no such request")),
    }
}

/// Copies an object that is here to `to`.
fn copy(access: &Access, to: &[u8], headers: &HeaderMap) -> Answer {
    if headers.keys().any(|name| name.as_str().starts_with("x-amz-copy-source-")) {
        return Err(Refusal::new(StatusCode::NOT_IMPLEMENTED, "copies have no conditions here"));
    }
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let from = text(SOURCE).unwrap_or_default();
    if from.contains('?') {
        return Err(Refusal::new(StatusCode::NOT_IMPLEMENTED, "no versions are kept here"));
    }
    let Found::File(source) = tree::open(access, &names::path(from)?)? else {
        return Err(Refusal::new(StatusCode::NOT_FOUND, "there is no such object"));
    };
    let replaces_metadata =
        text("x-amz-metadata-directive").is_some_and(|how| how.eq_ignore_ascii_case("replace"));
    let modified = if replaces_metadata { modified(headers, true) } else { source.version.modified };
    let mut upload = Upload::begin(access, to, Some(source.size), Parents::Make)?;
    for piece in source.pieces(0..source.size) {
        let piece = piece.map_err(|error| Refusal::new(StatusCode::CONFLICT, error.to_string()))?;
        upload.write(&piece)?;
    }
    let version = upload.finish(access, modified)?.unwrap_or(source.version);
    Ok(answered("CopyObjectResult", |xml| {
        xml.element("ETag", &version.tag);
        xml.element("LastModified", &date_time(version.modified));
    }))
}

/// Removes an object. What is not there was removed, as S3 sees it, and so was the name of a directory that holds others.
fn removed(access: &Access, path: &[u8]) -> Answer {
    match remove(access, path, Removed::AsNamed) {
        Err(refusal) if matches!(refusal.status, StatusCode::NOT_FOUND | StatusCode::CONFLICT) => {
            Ok(StatusCode::NO_CONTENT.into_response())
        }
        ended => ended,
    }
}

/// A document that names the object at `path`.
fn named(name: &str, path: &[u8], more: impl FnOnce(&mut Xml)) -> Response {
    let (bucket, key) = split(path);
    answered(name, |xml| {
        xml.element("Bucket", &String::from_utf8_lossy(bucket));
        xml.element("Key", &String::from_utf8_lossy(key));
        more(xml);
    })
}

/// Removes the objects that `document` lists.
fn remove_all(access: &Access, bucket: &[u8], document: &str) -> Answer {
    let keys: Vec<&str> =
        document.split("<Key>").skip(1).filter_map(|rest| Some(rest.split_once("</Key>")?.0)).collect();
    if keys.is_empty() || keys.len() > MAX_REMOVED {
        return Err(Refusal::senseless("one to a thousand keys are removed at once").called("MalformedXML"));
    }
    let ended: Vec<(String, Answer)> = keys
        .into_iter()
        .map(|key| {
            let key = unescape(key).map_or_else(|_| key.to_owned(), |key| key.into_owned());
            let path = [bucket, b"/", key.as_bytes()].concat();
            let path = names::path(&url_path(&path));
            (key, path.and_then(|path| removed(access, &path)))
        })
        .collect();
    Ok(answered("DeleteResult", |xml| {
        for (key, ended) in &ended {
            match ended {
                Ok(_) => xml.within("Deleted", |xml| xml.element("Key", key)),
                Err(refusal) => xml.within("Error", |xml| {
                    xml.element("Key", key);
                    xml.element("Code", refusal.code);
                    xml.element("Message", &refusal.message);
                }),
            }
        }
    }))
}
