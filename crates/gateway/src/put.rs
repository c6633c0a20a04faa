//! A file that is put by one request.

use axum::body::Body;
use axum::http::{Method, StatusCode};
use tidegate_transfer::error::ErrorKind;

use crate::blocking::blocking;
use crate::credentials::{Asker, Shown};
use crate::receive::{Expected, Taker, modified, receive};
use crate::refusal::{Answer, Refusal};
use crate::served::{Asked, Served};
use crate::tree::{self, Found};
use crate::upload::{Parents, Upload};
use crate::validators::{Validators, Verdict, judge};

impl Taker for Upload {
    fn take(&mut self, bytes: &[u8]) -> Answer<()> {
        Ok(self.write(bytes)?)
    }
}

/// Puts `body` where `asked` says. Answers with whether something was replaced, and which version is there now.
pub async fn put(
    served: &Served,
    asked: &Asked,
    asker: Asker,
    body: Body,
    parents: Parents,
) -> Answer<(bool, Option<Validators>)> {
    let Asker { access, by } = asker;
    let modified = modified(&asked.parts.headers, matches!(by, Shown::Signature(_)));
    let expected = Expected::read(&asked.parts, by, served.unverified)?;
    let (path, headers, size) = (asked.path.clone(), asked.parts.headers.clone(), expected.size);
    let own = access.clone();
    let upload = blocking(move || {
        if headers.contains_key("if-match") || headers.contains_key("if-none-match") {
            let there = match tree::open(&own, &path) {
                Ok(Found::File(file)) => Some(file.version),
                Ok(Found::Directory(_)) => None,
                Err(error) if error.kind == ErrorKind::NotFound => None,
                Err(error) => return Err(error.into()),
            };
            if judge(&Method::PUT, &headers, there.as_ref()) != Verdict::Proceed {
                let why = "another version of the file is there, or none";
                return Err(Refusal::new(StatusCode::PRECONDITION_FAILED, why));
            }
        }
        Ok(Upload::begin(&own, &path, size, parents)?)
    });
    let (upload, _) = receive((&access, &asked.share), body, expected, upload.await?).await?;
    let replaces = upload.replaces;
    let version = blocking(move || Ok(upload.finish(&access, modified)?)).await?;
    Ok((replaces, version))
}
