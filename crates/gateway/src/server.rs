//! The server: who asks, in which dialect, and what every answer has.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use tidegate_http::listener::{Listener, Peer, TlsFiles, is_open};
use tidegate_transfer::endpoint::Endpoint;
use tidegate_transfer::error::{Error, ErrorKind, Result};
use tokio::task::spawn_blocking;

use crate::credentials::{Shown, asker};
use crate::names;
use crate::plain::{self, Reading};
use crate::refusal::{Answer, Refusal};

/// Most connections at once.
const CONNECTIONS: usize = 1024;

/// The methods that are answered.
const METHODS: &str = "OPTIONS, GET, HEAD";

/// How an endpoint is reached over HTTP.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where to listen.
    pub listen: SocketAddr,
    /// With which certificate; none on a loopback address alone.
    pub tls: Option<TlsFiles>,
}

/// A server that listens and does not answer yet.
#[derive(Debug)]
pub struct Gateway {
    listener: Listener,
    endpoint: Arc<Endpoint>,
}

impl Gateway {
    /// Listens; needs a runtime.
    pub fn bind(endpoint: Arc<Endpoint>, config: &Config) -> Result<Self> {
        if config.tls.is_none() && is_open(config.listen) {
            let why = format!(
                "{} can be reached from other hosts, and tokens could be read on the way: give --https with a certificate, or a loopback address for a proxy that encrypts",
                config.listen
            );
            return Err(Error::new(ErrorKind::Usage, why));
        }
        let listener = Listener::bind(config.listen, config.tls.as_ref()).map_err(|error| {
            let kind = match error.kind() {
                std::io::ErrorKind::AddrInUse => ErrorKind::Busy,
                std::io::ErrorKind::InvalidInput => ErrorKind::Usage,
                _ => ErrorKind::Io,
            };
            Error::new(kind, error.to_string())
        })?;
        Ok(Self { listener: listener.at_most(CONNECTIONS), endpoint })
    }

    /// Where it can be reached from this host.
    pub fn url(&self) -> String {
        self.listener.url()
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.listener.address().port()
    }

    /// Answers until `stop`, and ends what is being answered.
    pub async fn serve(self, stop: impl Future<Output = ()>) {
        let router = Router::new().fallback(handle).with_state(self.endpoint);
        self.listener.serve(router, stop).await;
    }
}

async fn handle(State(endpoint): State<Arc<Endpoint>>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let peer = parts.extensions.get::<Peer>().map(|peer| peer.0);
    // Not its query: a link's token stands there.
    let said = format!("{} {}", parts.method, parts.uri.path());
    let mut response = answer(&endpoint, parts).await.unwrap_or_else(IntoResponse::into_response);
    let peer = peer.map_or_else(|| "a client".to_owned(), |peer| peer.to_string());
    tracing::info!("{peer}: {said}: {}", response.status().as_u16());
    harden(&mut response);
    response
}

/// What opens, lists and reads may wait for a disk.
async fn answer(endpoint: &Arc<Endpoint>, parts: Parts) -> Answer {
    let endpoint = Arc::clone(endpoint);
    let answered = spawn_blocking(move || {
        let query = names::query(parts.uri.query().unwrap_or_default());
        let asker = asker(&endpoint, &parts, &query)?;
        let path = names::path(parts.uri.path())?;
        let link = match &asker.by {
            Shown::Link(word) => Some(&word[..]),
            Shown::Header | Shown::Signature(_) => None,
        };
        match parts.method {
            Method::GET | Method::HEAD => {
                let reading = Reading {
                    method: &parts.method,
                    path: &path,
                    query: &query,
                    headers: &parts.headers,
                    link,
                };
                plain::answer(&asker.access, &reading)
            }
            Method::OPTIONS => Ok(allowed(StatusCode::NO_CONTENT)),
            _ => Ok(allowed(StatusCode::METHOD_NOT_ALLOWED)),
        }
    });
    answered.await.unwrap_or_else(|_| {
        Err(Refusal::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "this cannot be answered; the endpoint's log says why",
        ))
    })
}

fn allowed(status: StatusCode) -> Response {
    let mut response = status.into_response();
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(METHODS));
    response
}

/// Headers that keep a browser from guessing, framing, keeping and telling.
fn harden(response: &mut Response) {
    let headers = response.headers_mut();
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    headers.entry(CONTENT_SECURITY_POLICY).or_insert(HeaderValue::from_static("sandbox; default-src 'none'"));
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
}
