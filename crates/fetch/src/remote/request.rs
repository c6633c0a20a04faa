//! One HTTP request with any method and a body that may be large, and its answer: what S3 and WebDAV
//! need beyond asking for a range. Each [`HttpClient`] has connections of its own, which stay warm.

use std::io::{self, Read};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tidegate_transfer::error::{ErrorKind, Result};
use ureq::{Agent, Body, SendBody, http};
use url::Url;

use super::http::agents::{AgentPool, HttpContext, Reach};
use super::http::{answer, redirected, same_origin, trouble};
use super::login::{Login, Logins};
use super::settings::ServerSettings;
use super::tls::Tls;
use super::{Refusal, Why, shown};

/// Most of an answer that is read through to keep its connection.
const MAX_DRAINED: u64 = 64 << 10;

/// What all workers' clients share.
#[derive(Debug)]
pub struct Requests {
    shared: Arc<HttpContext>,
}

impl Requests {
    /// With these settings.
    pub fn new(settings: &ServerSettings) -> Self {
        let tls = Arc::new(Tls::new(settings.ca.clone()));
        let logins = Arc::new(settings.netrc.as_deref().map(Logins::read).unwrap_or_default());
        Self::of(Arc::new(HttpContext::new(settings, &tls, &logins)))
    }

    /// With what workers' HTTP shares already.
    pub const fn of(shared: Arc<HttpContext>) -> Self {
        Self { shared }
    }

    /// Who we are at `url`: what stands in it, or in `.netrc`.
    pub fn login(&self, url: &Url) -> Option<Login> {
        Login::in_url(url).or_else(|| self.shared.logins.of(url).cloned())
    }

    /// A client without a connection, for the server of `url`. It follows no redirects.
    pub fn client(&self, url: &Url) -> Result<HttpClient> {
        let mut lines = AgentPool::new(Arc::clone(&self.shared));
        let agent = lines.agent(url, Reach::All).map_err(|refusal| refusal.error)?.clone();
        Ok(HttpClient { agent })
    }

    /// Ways to where a server sends its clients, without a connection.
    pub fn redirects(&self) -> Redirects {
        Redirects { lines: AgentPool::new(Arc::clone(&self.shared)) }
    }
}

/// One worker's ways to where a server sends its clients.
#[derive(Debug)]
pub struct Redirects {
    lines: AgentPool,
}

impl Redirects {
    /// Where an answer from `at` with these headers leads, after `been`.
    pub fn next(&self, at: &Url, been: &[Url], headers: &http::HeaderMap) -> Result<Url, Refusal> {
        self.lines.shared().cookies.keep(at, headers);
        redirected(at, been, 0, headers, self.lines.shared().settings.allow_downgrade)
    }

    /// A client for `at`, to which the server of `url` has led by way of `been`, and the headers of `ours` that may go there.
    pub fn client(
        &mut self,
        url: &Url,
        (at, been): (&Url, &[Url]),
        ours: &[(String, String)],
    ) -> Result<(HttpClient, Vec<(String, String)>), Refusal> {
        let reach = self.lines.reach(url)?;
        let client = HttpClient { agent: self.lines.agent(at, reach)?.clone() };
        // Once encryption was given up, whoever listens could have led us here.
        let in_clear =
            at.scheme() == "http" && been.iter().chain([url]).any(|place| place.scheme() == "https");
        let mut headers = match in_clear {
            true => Vec::new(),
            false if same_origin(url, at) => ours.to_vec(),
            // A login is for the host that people named.
            false if at.scheme() == "https" => {
                let login = self.lines.shared().logins.named(at);
                login.map(|login| ("authorization".to_owned(), login.basic())).into_iter().collect()
            }
            false => Vec::new(),
        };
        let is_cookie = |(name, _): &(String, String)| name.eq_ignore_ascii_case("cookie");
        let own = headers.iter().find(|line| is_cookie(line)).and_then(|(_, own)| own.parse().ok());
        if let Some(cookies) = self.lines.shared().cookies.of(at, own.as_ref())
            && let Ok(cookies) = cookies.to_str()
        {
            headers.retain(|line| !is_cookie(line));
            headers.push(("cookie".to_owned(), cookies.to_owned()));
        }
        Ok((client, headers))
    }
}

/// What is sent behind a request's head.
pub enum Payload<'a> {
    /// Nothing.
    None,
    /// These bytes.
    Bytes(&'a [u8]),
    /// So many bytes of a reader.
    Reader(&'a mut dyn Read, u64),
}

/// A server's answer, its body not yet read.
#[derive(Debug)]
pub struct Reply {
    /// The status code.
    pub status: u16,
    /// The header lines.
    pub headers: http::HeaderMap,
    body: Body,
}

/// One worker's connections.
#[derive(Clone, Debug)]
pub struct HttpClient {
    agent: Agent,
}

impl HttpClient {
    /// Sends a request and waits for the head of the answer. The error names no URL: one that is signed
    /// is a secret.
    pub fn send(
        &self,
        method: &str,
        url: &Url,
        headers: &[(String, String)],
        payload: Payload<'_>,
    ) -> Result<Reply, ureq::Error> {
        let mut request = http::Request::builder().method(method).uri(url.as_str());
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let wants_body = matches!(method, "PUT" | "POST");
        let response = match payload {
            Payload::None if !wants_body => self.run(request.body(SendBody::none())?)?,
            Payload::None => self.run(request.body(&b""[..])?)?,
            Payload::Bytes(bytes) => self.run(request.body(bytes)?)?,
            Payload::Reader(reader, length) => {
                let request = request.header("content-length", length);
                self.run(request.body(SendBody::from_reader(reader))?)?
            }
        };
        let (head, body) = response.into_parts();
        Ok(Reply { status: head.status.as_u16(), headers: head.headers, body })
    }

    fn run(
        &self,
        request: http::Request<impl ureq::AsSendBody>,
    ) -> Result<http::Response<Body>, ureq::Error> {
        // WebDAV's methods are none of HTTP's own.
        let request = self.agent.configure_request(request).allow_non_standard_methods(true).build();
        self.agent.run(request)
    }
}

impl Reply {
    /// Whether it says that all is well.
    pub const fn is_ok(&self) -> bool {
        matches!(self.status, 200..300)
    }

    /// A header line's value, if it is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The entity tag without its quotes; a weak one is none.
    pub fn tag(&self) -> Option<String> {
        self.header("etag").filter(|tag| !tag.starts_with("W/")).map(unquoted)
    }

    /// How long the server asks to wait.
    pub fn retry_after(&self) -> Option<Duration> {
        answer::retry_after(&self.headers, SystemTime::now())
    }

    /// The body as text, read no further than `most` bytes.
    pub fn text(self, most: u64) -> io::Result<String> {
        let mut bytes = Vec::new();
        self.body.into_reader().take(most + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > most {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "an answer that is too long"));
        }
        String::from_utf8(bytes)
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "an answer that is no text"))
    }

    /// The body as a stream.
    pub(crate) fn into_reader(self) -> impl Read + Send + 'static {
        self.body.into_reader()
    }

    /// Reads a short body through, so that the connection can be used again.
    pub fn finish(self) {
        let _ = io::copy(&mut self.body.into_reader().take(MAX_DRAINED), &mut io::sink());
    }
}

/// A tag without its quotes.
pub(crate) fn unquoted(tag: &str) -> String {
    tag.trim().trim_matches('"').to_owned()
}

/// A request to `url` that was not answered, as what it means for `what` (such as `cannot put s3://b/k`).
pub(crate) fn unanswered(what: &str, url: &Url, error: &ureq::Error) -> Refusal {
    let mut refusal = trouble::failed(url, error);
    let prefix = format!("{}: ", shown(url));
    let why = refusal.error.message.strip_prefix(&prefix).unwrap_or(&refusal.error.message);
    refusal.error.message = format!("{what}: {why}");
    // A name that is not known may be a resolver's bad moment, and the whole target depends on it.
    if refusal.why == Why::Missing {
        (refusal.why, refusal.error.kind) = (Why::Unreachable, ErrorKind::Connection);
        refusal.names_no_host = true;
    }
    refusal
}
