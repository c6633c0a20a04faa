//! A file that is put by one request.

use std::sync::Arc;

use axum::body::Body;

use crate::blocking::blocking;
use crate::conditions::{Conditions, failed};
use crate::credentials::{Asker, Shown};
use crate::receive::{Expected, Taker, modified, receive};
use crate::refusal::Answer;
use crate::served::{Asked, Served};
use crate::upload::{Parents, Upload};
use crate::validators::Validators;

impl Taker for Upload {
    fn take(&mut self, bytes: &[u8]) -> Answer<()> {
        Ok(self.write(bytes)?)
    }
}

/// Puts `body` where `asked` says. Answers with whether something was replaced, and which version is there now.
pub async fn put(
    served: &Arc<Served>,
    asked: &Asked,
    asker: Asker,
    body: Body,
    parents: Parents,
) -> Answer<(bool, Option<Validators>)> {
    let Asker { access, by } = asker;
    let modified = modified(&asked.parts.headers, matches!(by, Shown::Signature(_)));
    let expected = Expected::read(&asked.parts, by, served.unverified)?;
    let conditions = Conditions::read(&asked.parts.headers)?;
    let (path, size) = (asked.path.clone(), expected.size);
    let (own, first) = (access.clone(), conditions.clone());
    let upload = blocking(move || {
        first.check(&own, &path)?;
        let upload = Upload::begin(&own, &path, size, parents)?;
        // It is looked at once more when the name is given: the body need not come for that.
        if first.new && upload.replaces { Err(failed("something bears that name")) } else { Ok(upload) }
    });
    let (upload, _) = receive((&access, &asked.share), body, expected, upload.await?).await?;
    let replaces = upload.replaces;
    let served = Arc::clone(served);
    let version = blocking(move || upload.finish(&access, modified, (&served.names, &conditions))).await?;
    Ok((replaces, version))
}
