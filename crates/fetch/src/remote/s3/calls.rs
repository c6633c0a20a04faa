//! S3's requests, signed and sent, and its refusals put into words.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rusty_s3::Method;
use tidegate_transfer::error::{Error, ErrorKind};

use crate::foreign::io_words;
use crate::remote::request::{HttpClient, Payload, Reply, unanswered};
use crate::remote::s3::answer::{self, Page, Part, Uploads};
use crate::remote::s3::place::{Object, Signer};
use crate::remote::{Refusal, Why};

/// How far a clock may be off before signatures are refused; servers allow 15 minutes.
const SKEW: Duration = Duration::from_secs(240);

/// Most bytes of an error's document that are read.
const MAX_ERROR: u64 = 64 << 10;

/// The header line by which the requester agrees to pay.
pub(crate) const PAYER: &str = "x-amz-request-payer";

/// Most parts that an upload has.
const MAX_PARTS: usize = 10_000;

/// A request that was refused, with S3's own code for it.
#[derive(Clone, Debug)]
pub struct S3Failure {
    /// What it means.
    pub refusal: Refusal,
    /// Such as `NoSuchUpload`; empty if the server gave none.
    pub code: String,
}

impl From<Refusal> for S3Failure {
    fn from(refusal: Refusal) -> Self {
        Self { refusal, code: String::new() }
    }
}

impl From<Error> for S3Failure {
    fn from(error: Error) -> Self {
        Refusal::of(Why::Senseless, error).into()
    }
}

impl From<S3Failure> for Refusal {
    fn from(failed: S3Failure) -> Self {
        failed.refusal
    }
}

/// A request for an object, in order to do something such as `upload` it.
#[derive(Clone, Copy, Debug)]
pub struct S3Request<'a> {
    what: &'a str,
    method: Method,
    object: &'a Object,
    query: &'a [(&'a str, &'a str)],
    headers: &'a [(String, String)],
}

impl<'a> S3Request<'a> {
    /// One with neither a query nor headers.
    pub const fn new(what: &'a str, method: Method, object: &'a Object) -> Self {
        Self { what, method, object, query: &[], headers: &[] }
    }

    /// The same with a query.
    #[must_use]
    pub const fn query(self, query: &'a [(&'a str, &'a str)]) -> Self {
        Self { query, ..self }
    }

    /// The same with headers, in lower case and sorted.
    #[must_use]
    pub const fn headers(self, headers: &'a [(String, String)]) -> Self {
        Self { headers, ..self }
    }
}

/// One worker's way to S3.
#[derive(Clone, Debug)]
pub struct S3Client {
    client: HttpClient,
    signer: Arc<Signer>,
}

impl S3Client {
    /// Requests over `client`, signed by `signer`.
    pub const fn new(client: HttpClient, signer: Arc<Signer>) -> Self {
        Self { client, signer }
    }

    /// Who signs.
    pub const fn signer(&self) -> &Arc<Signer> {
        &self.signer
    }

    /// Sends a request. A bucket in another region than thought is asked for there once more.
    pub fn call(&self, request: &S3Request<'_>, payload: &[u8]) -> Result<Reply, S3Failure> {
        let attempt = || {
            let payload = if payload.is_empty() { Payload::None } else { Payload::Bytes(payload) };
            self.once(request, payload)
        };
        let bucket = &request.object.bucket;
        let known = self.signer.region(bucket);
        attempt().or_else(|failed| match self.signer.region(bucket) == known {
            true => Err(failed),
            false => attempt(),
        })
    }

    /// Sends a request with a body that can be read once.
    pub fn once(&self, request: &S3Request<'_>, payload: Payload<'_>) -> Result<Reply, S3Failure> {
        let S3Request { what, method, object, query, headers } = *request;
        let mut headers = headers.to_vec();
        // Whoever asks for an object has said so already.
        if self.signer.settings().requester_pays && !headers.iter().any(|(name, _)| name == PAYER) {
            headers.push((PAYER.to_owned(), "requester".to_owned()));
            headers.sort();
        }
        let url = self.signer.url(method, object, query, &headers)?;
        let shown = object.url().map_or_else(|_| format!("s3://{}", object.bucket), |url| url.to_string());
        let what = format!("cannot {what} {shown}");
        let reply = self
            .client
            .send(method.to_str(), &url, &headers, payload)
            .map_err(|error| unanswered(&what, &url, &error))?;
        if reply.is_ok() { Ok(reply) } else { Err(self.refused(&what, &object.bucket, reply)) }
    }

    fn get(&self, what: &str, object: &Object, query: &[(&str, &str)]) -> Result<Reply, S3Failure> {
        self.call(&S3Request::new(what, Method::Get, object).query(query), &[])
    }

    /// Reads an answer's document.
    pub fn document(&self, what: &str, reply: Reply) -> Result<String, S3Failure> {
        reply.text(answer::MAX_ANSWER).map_err(|error| {
            let error = Error::new(ErrorKind::Connection, format!("cannot {what}: {}", io_words(&error)));
            Refusal::of(Why::Broken, error).into()
        })
    }

    /// One page of what lies beneath the prefix `within.key`.
    pub fn list(&self, within: &Object, most: u32, from: Option<&str>) -> Result<Page, S3Failure> {
        let most = most.to_string();
        let mut query = vec![("encoding-type", "url"), ("list-type", "2"), ("max-keys", &most)];
        query.extend(from.map(|from| ("continuation-token", from)));
        query.push(("prefix", &within.key));
        query.sort_unstable();
        let reply = self.get("list", &within.with_key(""), &query)?;
        let xml = self.document("list", reply)?;
        answer::objects(&xml).ok_or_else(|| senseless("list", within))
    }

    /// One page of uploads under way beneath the prefix `within.key`.
    pub fn uploads(&self, within: &Object, from: Option<&(String, String)>) -> Result<Uploads, S3Failure> {
        let mut query = vec![("encoding-type", "url"), ("uploads", "")];
        if let Some((key, id)) = from {
            query.push(("key-marker", key));
            query.push(("upload-id-marker", id));
        }
        query.push(("prefix", &within.key));
        query.sort_unstable();
        let what = "list uploads to";
        let reply = self.get(what, &within.with_key(""), &query)?;
        let xml = self.document(what, reply)?;
        answer::uploads(&xml).ok_or_else(|| senseless(what, within))
    }

    /// The parts of an upload that the server has, from the first.
    pub fn parts(&self, object: &Object, id: &str) -> Result<Vec<Part>, S3Failure> {
        let what = "list the parts of";
        let mut all: Vec<Part> = Vec::new();
        let mut behind = None;
        loop {
            let marker: Option<String> = behind.map(|number: u32| number.to_string());
            let mut query: Vec<(&str, &str)> =
                marker.iter().map(|m| ("part-number-marker", m.as_str())).collect();
            query.push(("uploadId", id));
            let reply = self.get(what, object, &query)?;
            let xml = self.document(what, reply)?;
            let (parts, next) = answer::parts(&xml).ok_or_else(|| senseless(what, object))?;
            // A server that promises more brings some each time, so there is an end.
            let grows =
                next.is_none_or(|next| !parts.is_empty() && behind.is_none_or(|behind| next > behind));
            all.extend(parts);
            if !grows || all.len() > MAX_PARTS {
                return Err(senseless(what, object));
            }
            match next {
                Some(next) => behind = Some(next),
                None => return Ok(all),
            }
        }
    }

    fn refused(&self, what: &str, bucket: &str, reply: Reply) -> S3Failure {
        let status = reply.status;
        let retry_after = reply.retry_after();
        let skew = reply.header("date").and_then(skew);
        let region = reply.header("x-amz-bucket-region").map(str::to_owned);
        let text = reply.text(MAX_ERROR).unwrap_or_default();
        let (code, message) = answer::error(&text);
        let region = region.or_else(|| answer::element(&text, "Region"));
        if matches!(status, 301 | 307 | 400 | 403)
            && let Some(region) = region
        {
            self.signer.learn(bucket, &region);
        }
        let (why, kind) = meaning(status, &code);
        let said = match (code.is_empty(), message.is_empty()) {
            (true, _) => format!("the server answered {status}"),
            (false, true) => code.clone(),
            (false, false) => format!("{code}: {}", shortened(&message)),
        };
        let signed = self.signer.settings().credentials.is_some();
        let advice = match (code.as_str(), status) {
            (_, 403) if signed && skew.is_some() => {
                let (ahead, by) = skew.unwrap_or_default();
                let which = if ahead { "ahead of" } else { "behind" };
                format!(
                    "; this host's clock is {} min {which} the server's: set it, signatures depend on it",
                    by.as_secs() / 60
                )
            }
            ("RequestTimeTooSkewed", _) => "; set this host's clock, signatures depend on it".to_owned(),
            ("InvalidAccessKeyId" | "SignatureDoesNotMatch", _) => {
                "; check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the profile in ~/.aws".to_owned()
            }
            ("ExpiredToken" | "InvalidToken", _) => "; get fresh temporary credentials".to_owned(),
            ("AccessDenied", _) if signed && !self.signer.settings().requester_pays => {
                "; if its owner lets requesters pay, --requester-pays agrees to".to_owned()
            }
            (_, 401 | 403) if !signed => {
                "; no credentials were found (AWS_ACCESS_KEY_ID, AWS_PROFILE, ~/.aws)".to_owned()
            }
            _ => String::new(),
        };
        let error = Error::new(kind, format!("{what}: {said}{advice}"));
        S3Failure { refusal: Refusal::of(why, error).after(retry_after), code }
    }
}

/// What a status and S3's code mean.
pub(crate) fn meaning(status: u16, code: &str) -> (Why, ErrorKind) {
    match (code, status) {
        ("RequestTimeout" | "IncompleteBody" | "InternalError", _) => (Why::Broken, ErrorKind::Connection),
        ("BadDigest" | "XAmzContentChecksumMismatch", _) => (Why::Broken, ErrorKind::Corrupt),
        ("SlowDown" | "TooManyRequests" | "ServiceUnavailable", _) | (_, 429 | 503) => {
            (Why::Busy, ErrorKind::Busy)
        }
        (_, 404 | 410) => (Why::Missing, ErrorKind::NotFound),
        ("InvalidAccessKeyId" | "SignatureDoesNotMatch" | "ExpiredToken" | "InvalidToken", _) | (_, 401) => {
            (Why::Denied, ErrorKind::Authentication)
        }
        ("RequestTimeTooSkewed", _) => (Why::Denied, ErrorKind::Authentication),
        (_, 403) => (Why::Denied, ErrorKind::Denied),
        ("OperationAborted" | "ConditionalRequestConflict", _) | (_, 408 | 500) => {
            (Why::Broken, ErrorKind::Connection)
        }
        (_, 502 | 504) => (Why::Unreachable, ErrorKind::Connection),
        (_, 507) | ("QuotaExceeded" | "XMinioStorageFull", _) => (Why::Denied, ErrorKind::NoSpace),
        (_, 412) => (Why::Changed, ErrorKind::Changed),
        _ => (Why::Senseless, ErrorKind::Protocol),
    }
}

/// Whether our clock is ahead of the date the server gave, and by how much, if by too much.
fn skew(date: &str) -> Option<(bool, Duration)> {
    let theirs = httpdate::parse_http_date(date).ok()?;
    let ours = SystemTime::now();
    let (ahead, by) = match ours.duration_since(theirs) {
        Ok(by) => (true, by),
        Err(error) => (false, error.duration()),
    };
    (by > SKEW).then_some((ahead, by))
}

fn shortened(message: &str) -> String {
    let shown = tidegate_transfer::text::show(message.trim().as_bytes()).into_owned();
    match shown.char_indices().nth(200) {
        Some((end, _)) => format!("{}…", &shown[..end]),
        None => shown,
    }
}

fn senseless(what: &str, object: &Object) -> S3Failure {
    let why = format!("cannot {what} s3://{}: the answer makes no sense", object.bucket);
    Error::new(ErrorKind::Protocol, why).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_say_more_than_the_status() {
        assert_eq!(meaning(503, "SlowDown").0, Why::Busy);
        assert_eq!(meaning(400, "RequestTimeout").0, Why::Broken);
        assert_eq!(meaning(400, "BadDigest"), (Why::Broken, ErrorKind::Corrupt));
        assert_eq!(meaning(403, "SignatureDoesNotMatch"), (Why::Denied, ErrorKind::Authentication));
        assert_eq!(meaning(404, "NoSuchBucket").0, Why::Missing);
        assert_eq!(meaning(412, "PreconditionFailed").0, Why::Changed);
        assert_eq!(meaning(418, "").0, Why::Senseless);
    }

    #[test]
    fn a_wrong_clock_is_noticed() {
        assert_eq!(skew(&httpdate::fmt_http_date(SystemTime::now())), None);
        let hour = Duration::from_secs(3600);
        let (ahead, by) = skew(&httpdate::fmt_http_date(SystemTime::now() - hour)).expect("an hour off");
        assert!(ahead && by >= hour);
    }
}
