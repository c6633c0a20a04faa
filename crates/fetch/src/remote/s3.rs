//! S3-compatible stores: objects as a [`Remote`], a prefix as a stream of names ([`list`]).
//!
//! Requests are signed into their URLs (docs/decisions/0009) and then are plain HTTP, with all that is
//! checked there. Only what S3 says in words about a refusal is asked for here.

pub mod answer;
pub mod calls;
pub(crate) mod head;
pub mod list;
mod parts;
pub mod place;

use std::sync::{Arc, OnceLock};

use rusty_s3::Method;
use tidegate_transfer::error::Result;
use ureq::http::HeaderMap;

use self::calls::{PAYER, S3Client, S3Failure, S3Request};
use self::parts::{PartsAsk, PartsTold};
use self::place::{Object, Signer};
use super::http::{Http, answer as http};
use super::request::Requests;
use super::s3_settings::S3Settings;
use super::{Ask, Opened, Refusal, Remote, Version, Why, shown};

/// What all workers' S3 shares.
#[derive(Debug)]
pub(crate) struct S3Context {
    settings: Option<S3Settings>,
    requests: Requests,
    /// Looked up when the first object is asked for: most people have no keys, and need none.
    signer: OnceLock<Result<Arc<Signer>>>,
    parts: PartsTold,
}

impl S3Context {
    /// With these settings, of which the environment's take the place where there are none.
    pub fn new(settings: Option<S3Settings>, requests: Requests) -> Self {
        Self { settings, requests, signer: OnceLock::new(), parts: PartsTold::default() }
    }

    /// Who signs.
    pub fn signer(&self) -> Result<Arc<Signer>> {
        let look_up = || match &self.settings {
            Some(settings) => Ok(settings.clone()),
            None => S3Settings::from_environment(&|name| std::env::var(name).ok()),
        };
        self.signer.get_or_init(|| look_up().map(|settings| Arc::new(Signer::new(settings)))).clone()
    }

    /// A client of its own for the server that has `bucket`.
    pub fn client(&self, bucket: &str) -> Result<S3Client> {
        let signer = self.signer()?;
        Ok(S3Client::new(self.requests.client(&signer.server(bucket)?)?, signer))
    }
}

/// One worker's way to S3-compatible stores.
#[derive(Debug)]
pub(crate) struct S3 {
    shared: Arc<S3Context>,
    http: Http,
}

impl S3 {
    /// Without a connection yet.
    pub(crate) const fn new(shared: Arc<S3Context>, http: Http) -> Self {
        Self { shared, http }
    }

    /// Header lines that are signed: those that came with the file and are S3's own.
    fn signed(&self, signer: &Signer, ask: &Ask<'_>) -> Vec<(String, String)> {
        let lower = |(name, value): &(String, String)| (name.to_lowercase(), value.clone());
        let mut headers: Vec<_> =
            ask.headers.iter().map(lower).filter(|(name, _)| name.starts_with("x-amz-")).collect();
        if signer.settings().requester_pays && !headers.iter().any(|(name, _)| name == PAYER) {
            headers.push((PAYER.to_owned(), "requester".to_owned()));
        }
        headers.push((head::ASKS_SUMS.0.to_owned(), head::ASKS_SUMS.1.to_owned()));
        headers.sort();
        headers
    }

    fn ask(&mut self, ask: &Ask<'_>, object: &Object, signer: &Signer) -> Result<Opened, Refusal> {
        let signed = self.signed(signer, ask);
        let url = signer.url(Method::Get, object, &[], &signed).map_err(senseless)?;
        let others = ask.headers.iter().filter(|(name, _)| !name.to_lowercase().starts_with("x-amz-"));
        let headers: Vec<_> = signed.iter().cloned().chain(others.cloned()).collect();
        let mut said = HeaderMap::new();
        let opened =
            self.http.open_hearing(&Ask { url: &url, headers: &headers, ..ask.clone() }, Some(&mut said));
        let mut opened = opened.map_err(|refusal| refusal.speaking_of(&url, ask.url))?;
        head::add(&said, &object.bucket, &mut opened.version);
        if opened.version.bytes.is_some_and(|bytes| opened.range == (0..bytes)) {
            head::add_sums(&said, &mut opened.version);
        } else if ask.version.is_none() && opened.version.checksums.is_empty() {
            // An answer with a part says nothing of the whole.
            said = self.add_sums(object, &signed, &mut opened.version).unwrap_or(said);
        }
        if ask.version.is_none() {
            self.add_sum_of_parts(object, &signed, &said, &mut opened.version);
        }
        Ok(opened)
    }

    /// Adds the sums that the object's head says of the whole, and answers with that head.
    fn add_sums(
        &self,
        object: &Object,
        signed: &[(String, String)],
        version: &mut Version,
    ) -> Option<HeaderMap> {
        let client = self.shared.client(&object.bucket).ok()?;
        match client.call(&S3Request::new("look at", Method::Head, object).headers(signed), &[]) {
            Ok(reply) => {
                let heads = reply.headers.clone();
                reply.finish();
                let is_same = http::strong_tag(&heads) == version.tag;
                is_same.then(|| head::add_sums(&heads, version));
                is_same.then_some(heads)
            }
            Err(failed) => {
                tracing::debug!("sums that the server keeps are not known: {}", failed.refusal.error);
                None
            }
        }
    }

    /// Where nothing is known of the whole, what its parts sum up to is.
    fn add_sum_of_parts(
        &self,
        object: &Object,
        signed: &[(String, String)],
        heads: &HeaderMap,
        version: &mut Version,
    ) {
        let Ok(client) = self.shared.client(&object.bucket) else { return };
        if version.checksums.is_empty() {
            PartsAsk { client: &client, object, signed, told: &self.shared.parts }.add_sum(heads, version);
        }
    }

    /// What S3 says in its own words of a refusal.
    fn explained(&self, refusal: Refusal, object: &Object, signed: &[(String, String)]) -> S3Failure {
        let Ok(client) = self.shared.client(&object.bucket) else { return refusal.into() };
        let mut headers = signed.to_vec();
        headers.push(("range".to_owned(), "bytes=0-0".to_owned()));
        headers.sort();
        match client.call(&S3Request::new("get", Method::Get, object).headers(&headers), &[]) {
            Ok(reply) => {
                reply.finish();
                refusal.into()
            }
            // It says nothing, as a redirect that was not followed does.
            Err(failed) if failed.code.is_empty() && failed.refusal.why == Why::Senseless => refusal.into(),
            Err(failed) => failed,
        }
    }

    /// S3 answers a range that lies beyond the end without saying where that is. An empty object has no
    /// range at all.
    fn beyond(&mut self, ask: &Ask<'_>, refusal: Refusal) -> Result<Opened, Refusal> {
        let version = self.look(ask)?;
        match version.bytes {
            Some(0) if ask.range.start == 0 => {
                Ok(Opened { version, range: 0..0, body: Box::new(std::io::empty()) })
            }
            _ => Err(refusal),
        }
    }
}

impl Remote for S3 {
    fn open(&mut self, ask: &Ask<'_>) -> Result<Opened, Refusal> {
        let object = Object::of(ask.url).map_err(senseless)?;
        let signer = self.shared.signer().map_err(denied)?;
        let refusal = match self.ask(ask, &object, &signer) {
            Err(refusal) if matches!(refusal.why, Why::Denied | Why::Senseless) => refusal,
            answer => return answer,
        };
        // An error's document tells which key, clock or region is wrong.
        let known = signer.region(&object.bucket);
        let failed = self.explained(refusal, &object, &self.signed(&signer, ask));
        if signer.region(&object.bucket) != known {
            return self.ask(ask, &object, &signer);
        }
        match failed.code.as_str() {
            "InvalidRange" => self.beyond(ask, failed.refusal),
            _ => Err(failed.refusal),
        }
    }

    fn look(&mut self, ask: &Ask<'_>) -> Result<Version, Refusal> {
        let object = Object::of(ask.url).map_err(senseless)?;
        let client = self.shared.client(&object.bucket).map_err(denied)?;
        let signed = self.signed(client.signer(), ask);
        let reply = client.call(&S3Request::new("look at", Method::Head, &object).headers(&signed), &[])?;
        let mut version = Version {
            bytes: reply.header("content-length").and_then(|length| length.parse().ok()),
            tag: http::strong_tag(&reply.headers),
            modified: http::modified(&reply.headers),
            ranges: true,
            ..Version::default()
        };
        head::add(&reply.headers, &object.bucket, &mut version);
        head::add_sums(&reply.headers, &mut version);
        let heads = reply.headers.clone();
        reply.finish();
        self.add_sum_of_parts(&object, &signed, &heads, &mut version);
        match ask.version {
            Some(wanted) if wanted.differs(&version) => {
                Err(Refusal::new(Why::Changed, format!("{}: the object has changed", shown(ask.url))))
            }
            _ => Ok(version),
        }
    }
}

fn senseless(error: tidegate_transfer::error::Error) -> Refusal {
    Refusal::of(Why::Senseless, error)
}

fn denied(error: tidegate_transfer::error::Error) -> Refusal {
    Refusal::of(Why::Denied, error)
}
