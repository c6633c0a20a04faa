//! One HTTP request with any method and a body that may be large, and its answer: what S3 and WebDAV
//! need beyond asking for a range. Each [`Client`] has connections of its own, which stay warm.

use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tidegate_transfer::error::{Error, ErrorKind, Result};
use ureq::http;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Body, SendBody};
use url::Url;

use crate::remote::{Refusal, Why};

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(30);

/// Most idle connections kept: a worker talks with one server at a time.
const IDLE: usize = 2;

/// The longest `Retry-After` that is believed.
const LONGEST_WAIT: Duration = Duration::from_secs(600);

/// Most of an answer that is read through to keep its connection.
const MOST_DRAINED: u64 = 64 << 10;

/// How requests are made.
#[derive(Clone, Debug)]
pub struct RequestSettings {
    /// How long a server may be silent, and a write may stall.
    pub timeout: Duration,
    /// Certificates (PEM) trusted instead of the system's.
    pub ca: Option<PathBuf>,
}

impl Default for RequestSettings {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(60), ca: None }
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
pub struct Client {
    agent: Agent,
}

impl Client {
    /// A client without a connection. The proxy is the environment's.
    pub fn new(settings: &RequestSettings) -> Result<Self> {
        let roots = match &settings.ca {
            None => RootCerts::PlatformVerifier,
            Some(path) => {
                let wrong = |why: String| {
                    Error::new(ErrorKind::Usage, format!("the certificates in {}: {why}", path.display()))
                };
                let pem = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
                let trusted: Vec<Certificate<'static>> = parse_pem(&pem)
                    .filter_map(|item| match item {
                        Ok(PemItem::Certificate(certificate)) => Some(certificate),
                        _ => None,
                    })
                    .collect();
                if trusted.is_empty() {
                    return Err(wrong("none is there".to_owned()));
                }
                RootCerts::Specific(Arc::new(trusted))
            }
        };
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .allow_non_standard_methods(true)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .user_agent(concat!("tidegate/", env!("CARGO_PKG_VERSION")))
            .accept_encoding("identity")
            .timeout_connect(Some(CONNECT))
            .timeout_per_read(Some(settings.timeout))
            .timeout_per_write(Some(settings.timeout))
            .max_idle_connections(IDLE)
            .max_idle_connections_per_host(IDLE)
            .output_buffer_size(128 << 10)
            .tls_config(TlsConfig::builder().root_certs(roots).build())
            .build();
        Ok(Self { agent: config.new_agent() })
    }

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
            Payload::None if !wants_body => self.agent.run(request.body(SendBody::none())?)?,
            Payload::None => self.agent.run(request.body(&b""[..])?)?,
            Payload::Bytes(bytes) => self.agent.run(request.body(bytes)?)?,
            Payload::Reader(reader, length) => {
                let request = request.header("content-length", length);
                self.agent.run(request.body(SendBody::from_reader(reader))?)?
            }
        };
        let (head, body) = response.into_parts();
        Ok(Reply { status: head.status.as_u16(), headers: head.headers, body })
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
        let text = self.header("retry-after")?.trim();
        let wait = match text.parse() {
            Ok(seconds) => Duration::from_secs(seconds),
            Err(_) => {
                let date = httpdate::parse_http_date(text).ok()?;
                date.duration_since(SystemTime::now()).unwrap_or_default()
            }
        };
        Some(wait.min(LONGEST_WAIT))
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
    pub fn into_reader(self) -> impl Read + Send + 'static {
        self.body.into_reader()
    }

    /// Reads a short body through, so that the connection can be used again.
    pub fn finish(self) {
        let _ = io::copy(&mut self.body.into_reader().take(MOST_DRAINED), &mut io::sink());
    }
}

/// A tag without its quotes.
pub fn unquoted(tag: &str) -> String {
    tag.trim().trim_matches('"').to_owned()
}

/// A request that was not answered, as what it means for `what` (such as `cannot put s3://bucket/key`).
pub fn unanswered(what: &str, error: &ureq::Error) -> Refusal {
    let words = match error {
        ureq::Error::HostNotFound => "the host's name is not known".to_owned(),
        ureq::Error::Timeout(_) => "the server has fallen silent".to_owned(),
        ureq::Error::ConnectionFailed => "no connection was made".to_owned(),
        ureq::Error::Io(error) => words(error),
        ureq::Error::BadUri(_) | ureq::Error::Http(_) => "the request cannot be written".to_owned(),
        error => error.to_string(),
    };
    let (why, kind) = match error {
        ureq::Error::Tls(_) | ureq::Error::Rustls(_) => (Why::Denied, ErrorKind::Authentication),
        ureq::Error::BadUri(_) | ureq::Error::Http(_) => (Why::Senseless, ErrorKind::Usage),
        _ => (Why::Broken, ErrorKind::Connection),
    };
    Refusal { why, error: Error::new(kind, format!("{what}: {words}")), retry_after: None }
}

/// An I/O error without the system's number.
pub fn words(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

/// A refusal for a reason of our own.
pub fn refusal(why: Why, kind: ErrorKind, message: impl Into<String>) -> Refusal {
    Refusal { why, error: Error::new(kind, message), retry_after: None }
}
