//! What S3's clients change.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use rustix::io::Errno;
use tidegate_transfer::endpoint::access::{Access, Right};

use super::copying::{SOURCE, copy, copy_part};
use super::removal::{remove_all, removed};
use super::{document as answered, is_known, no_bucket, split};
use crate::blocking::blocking;
use crate::change::{Removed, is_directory, make_directory, remove};
use crate::conditions::{Conditions, Names};
use crate::credentials::Asker;
use crate::document::{self, malformed};
use crate::multipart::{Completion, Receiving};
use crate::names::value;
use crate::put::put;
use crate::receive::{Expected, document, modified, nothing, receive};
use crate::refusal::{Answer, Refusal};
use crate::served::{Asked, Served};
use crate::upload::Parents;
use crate::xml::Xml;

/// What a request may ask for besides: the name of the operation, which some clients add, and what S3 calls the version of what
/// has none. Anything else is of something that is not kept here, and must neither write the object nor remove it.
const PARAMETERS: [&str; 6] = ["uploadId", "partNumber", "uploads", "delete", "x-id", "versionId"];

/// What the headers begin with that ask for what is not done here: to encrypt, to keep from removal, to write behind what is there,
/// and conditions of other kinds. Whoever asks for that must not be told that it was done.
const NOT_DONE: [&str; 5] = [
    "x-amz-copy-source-server-side-",
    "x-amz-if-match-",
    "x-amz-object-lock-",
    "x-amz-server-side-encryption",
    "x-amz-write-offset-bytes",
];

/// Refuses a request with such a header.
fn is_done(headers: &HeaderMap) -> Answer<()> {
    let is_not = |name: &&str| NOT_DONE.iter().any(|begin| name.starts_with(begin));
    match headers.keys().map(HeaderName::as_str).find(is_not) {
        None => Ok(()),
        Some(name) => {
            Err(Refusal::new(StatusCode::NOT_IMPLEMENTED, format!("what {name} asks for is not done here")))
        }
    }
}

/// Does what `asked` wants, who is known to be `asker`.
pub(crate) async fn change(served: &Arc<Served>, asked: Asked, asker: Asker, body: Body) -> Answer {
    let Asked { parts, path, query, share } = &asked;
    is_known(query, &PARAMETERS)?;
    is_done(&parts.headers)?;
    let (bucket, key) = split(path);
    if bucket.is_empty() {
        return Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "buckets are listed, and no more"));
    }
    let has = |name: &str| value(query, name).is_some();
    let unknown = || Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "S3 has no such request"));
    let copies = parts.headers.contains_key(SOURCE);
    if !key.is_empty() || has("delete") {
        let (access, bucket) = (asker.access.clone(), bucket.to_vec());
        blocking(move || takes(&access, &bucket)).await?;
    }
    match (&parts.method, value(query, "uploadId"), has("uploads"), has("delete")) {
        (&Method::PUT, None, false, false) if key.is_empty() => make_bucket(asked, asker, body).await,
        (&Method::PUT, Some(id), false, false) if copies => {
            let upload = served.uploads.find(&asker.access, path, id)?;
            let Asker { access, by } = asker;
            nothing((&access, share), body, Expected::read(parts, by, true)?, StatusCode::BAD_REQUEST)
                .await?;
            let number = value(query, "partNumber").unwrap_or_default().to_owned();
            let headers = parts.headers.clone();
            blocking(move || copy_part(&access, upload, &number, &headers)).await
        }
        (&Method::PUT, Some(id), false, false) => put_part(served, &asked, asker, (id, body)).await,
        (&Method::PUT, None, ..) if has("partNumber") => unknown(),
        (&Method::PUT, None, false, false) if copies => {
            let Asker { access, by } = asker;
            access.check(path, Right::Write)?;
            nothing((&access, share), body, Expected::read(parts, by, true)?, StatusCode::BAD_REQUEST)
                .await?;
            let (served, to, headers) = (Arc::clone(served), path.clone(), parts.headers.clone());
            blocking(move || copy(&access, &served.names, &to, &headers)).await
        }
        // How some clients have directories.
        (&Method::PUT, None, false, false) if key.ends_with(b"/") => {
            let (path, Asker { access, by }) = (path.clone(), asker);
            access.check(&path, Right::Write)?;
            nothing((&access, share), body, Expected::read(parts, by, true)?, StatusCode::BAD_REQUEST)
                .await?;
            blocking(move || directory(&access, &path)).await
        }
        (&Method::PUT, None, false, false) => {
            let (_, version) = put(served, &asked, asker, body, Parents::Make).await?;
            let mut response = StatusCode::OK.into_response();
            if let Some(version) = version {
                version.write(response.headers_mut());
            }
            Ok(response)
        }
        (&Method::POST, None, true, false) => {
            let (served, to, modified) = (Arc::clone(served), path.clone(), modified(&parts.headers, true));
            let Asker { access, by } = asker;
            access.check(path, Right::Write)?;
            nothing((&access, share), body, Expected::read(parts, by, true)?, StatusCode::BAD_REQUEST)
                .await?;
            let share = Arc::clone(share);
            let id = blocking(move || served.uploads.begin(&access, share, &to, modified)).await?;
            Ok(named("InitiateMultipartUploadResult", path, |xml| xml.element("UploadId", &id)))
        }
        (&Method::POST, None, false, true) if key.is_empty() => {
            let Asker { access, by } = asker;
            let expected = Expected::read(parts, by, served.unverified)?;
            let document = document((&access, share), body, expected).await?;
            let (served, bucket) = (Arc::clone(served), bucket.to_vec());
            blocking(move || remove_all(&access, &served.names, &bucket, &document.text)).await
        }
        (&Method::POST, Some(id), false, false) => complete(served, &asked, asker, (id, body)).await,
        (&Method::DELETE, Some(id), false, false) => {
            served.uploads.find(&asker.access, path, id)?;
            let (served, id) = (Arc::clone(served), id.to_owned());
            blocking(move || {
                served.uploads.end(&id);
                Ok(StatusCode::NO_CONTENT.into_response())
            })
            .await
        }
        (&Method::DELETE, None, false, false) => {
            let (access, path, is_bucket) = (asker.access, path.clone(), key.is_empty());
            let (served, conditions) = (Arc::clone(served), Conditions::read(&parts.headers)?);
            blocking(move || match is_bucket {
                true => remove_bucket(&access, &path, (&served.names, &conditions)),
                false => removed(&access, &path, (&served.names, &conditions)),
            })
            .await
        }
        _ => unknown(),
    }
}

/// Refuses what is to be put into a bucket that is not there, or removed from it. Who may use only a part of a bucket has it
/// made by what is put there.
fn takes(access: &Access, bucket: &[u8]) -> Answer<()> {
    let there = access.reach(bucket, Right::Write);
    let is_there = there.map_or(Ok(()), |there| there.base.dir(&there.rest).map(drop));
    match is_there {
        Err(Errno::NOENT | Errno::NOTDIR) if access.path().is_empty() => Err(no_bucket()),
        _ => Ok(()),
    }
}

/// A bucket is a directory; where it is to lie does not matter here.
async fn make_bucket(asked: Asked, asker: Asker, body: Body) -> Answer {
    let (Asked { parts, path, share, .. }, Asker { access, by }) = (asked, asker);
    access.check(&path, Right::Write)?;
    let document = document((&access, &share), body, Expected::read(&parts, by, true)?).await?;
    if !document.text.trim().is_empty() {
        document::read(&document.text, |names, _| match &names[0][..] {
            "CreateBucketConfiguration" => Ok(()),
            _ => Err(malformed()),
        })?;
    }
    blocking(move || {
        directory(&access, &path).map_err(|refusal| match refusal.status {
            StatusCode::CONFLICT => refusal.called("BucketAlreadyExists"),
            _ => refusal,
        })
    })
    .await
}

/// Has a directory be at `path`, and those that it lies in: one that is there is as good as made.
fn directory(access: &Access, path: &[u8]) -> Answer {
    access.check(path, Right::Write)?;
    let path = path.strip_suffix(b"/").unwrap_or(path);
    let ends = path.iter().enumerate().filter(|(_, b)| **b == b'/').map(|(at, _)| at);
    for end in ends.chain([path.len()]).filter(|end| *end > access.path().len()) {
        match make_directory(access, &path[..end]) {
            Err(refusal) if refusal.status != StatusCode::METHOD_NOT_ALLOWED => return Err(refusal),
            Err(_) if !is_directory(access, &path[..end], Right::Write) => {
                return Err(Refusal::new(StatusCode::CONFLICT, "a file bears that name"));
            }
            _ => {}
        }
    }
    Ok(StatusCode::OK.into_response())
}

fn remove_bucket(access: &Access, path: &[u8], when: (&Names, &Conditions)) -> Answer {
    remove(access, path, Removed::Directory, when).map_err(|refusal| match refusal.status {
        StatusCode::CONFLICT => refusal.called("BucketNotEmpty"),
        StatusCode::NOT_FOUND => refusal.called("NoSuchBucket"),
        _ => refusal,
    })
}

async fn put_part(
    served: &Arc<Served>,
    Asked { parts, path, query, share }: &Asked,
    asker: Asker,
    (id, body): (&str, Body),
) -> Answer {
    let upload = served.uploads.find(&asker.access, path, id)?;
    let number = value(query, "partNumber").unwrap_or_default().to_owned();
    let expected = Expected::read(parts, asker.by, served.unverified)?;
    let size = expected.size;
    let part = blocking(move || Receiving::begin(upload, &number, size)).await?;
    let (part, sums) = receive((&asker.access, share), body, expected, part).await?;
    let tag = blocking(move || part.finish(sums)).await?;
    let mut response = StatusCode::OK.into_response();
    response
        .headers_mut()
        .extend(HeaderValue::from_str(&tag).ok().map(|tag| (axum::http::header::ETAG, tag)));
    Ok(response)
}

async fn complete(served: &Arc<Served>, asked: &Asked, asker: Asker, (id, body): (&str, Body)) -> Answer {
    let Asked { parts, path, share, .. } = asked;
    let upload = served.uploads.find(&asker.access, path, id)?;
    let Asker { access, by } = asker;
    let document = document((&access, share), body, Expected::completing(parts, by)?).await?;
    let completion = Completion::read(&document.text, &parts.headers)?;
    let conditions = Conditions::read(&parts.headers)?;
    let (served, id) = (Arc::clone(served), id.to_owned());
    let version = blocking(move || {
        let version = upload.complete(&access, completion, (&served.names, &conditions))?;
        drop(document);
        served.uploads.end(&id);
        Ok(version)
    });
    let tag = version.await?.map_or_else(|| "\"\"".to_owned(), |version| version.tag);
    Ok(named("CompleteMultipartUploadResult", path, |xml| xml.element("ETag", &tag)))
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
