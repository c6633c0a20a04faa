//! The server: who asks, in which dialect, and what every answer has.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{
    ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, Version};
use axum::response::{IntoResponse, Response};
use tidegate_http::connections::Line;
use tidegate_http::listener::{Listener, Peer, Renewal, TlsFiles, is_open, open_files};
use tidegate_transfer::endpoint::Endpoint;
use tidegate_transfer::endpoint::access::Right;
use tidegate_transfer::error::{Error, ErrorKind, Result};
use tidegate_transfer::text::show;

use crate::blocking::blocking;
use crate::change::{Removed, make_directory, remove, rename};
use crate::conditions::{Conditions, Names};
use crate::credentials::{Asker, Shown, asker, is_s3, refuse_other_sites};
use crate::digests::WantedDigest;
use crate::limit::{Limits, MAX_REQUESTS};
use crate::multipart::Uploads;
use crate::plain::{self, Reading};
use crate::put::put;
use crate::receive::{Expected, document, nothing};
use crate::refusal::Answer;
use crate::served::{Asked, Served};
use crate::unread::Unread;
use crate::upload::Parents;
use crate::{dav, names, s3};

/// How often is looked whether what was begun may go on.
const LOOK: Duration = Duration::from_millis(250);

/// How often is looked for uploads that nobody goes on with.
const SWEEP: Duration = Duration::from_secs(60);

/// Fewest connections that are worth listening for.
const MIN_CONNECTIONS: usize = 16;

/// The methods that are answered.
const METHODS: &str = "OPTIONS, GET, HEAD, PROPFIND, PUT, DELETE, MKCOL, MOVE";

/// How an endpoint is reached over HTTP.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where to listen.
    pub listen: SocketAddr,
    /// With which certificate; none on a loopback address alone.
    pub tls: Option<TlsFiles>,
    /// Whether files may be put that nothing vouches for.
    pub unverified: bool,
}

/// A server that listens and does not answer yet.
#[derive(Debug)]
pub struct Gateway {
    listener: Listener,
    endpoint: Arc<Endpoint>,
    unverified: bool,
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
        // The rest of what this process may open is for transfers and files.
        let connections = MAX_REQUESTS.min(open_files() / 8).max(MIN_CONNECTIONS);
        Ok(Self { listener: listener.at_most(connections), endpoint, unverified: config.unverified })
    }

    /// Where it can be reached from this host.
    pub fn url(&self) -> String {
        self.listener.url()
    }

    /// What reads its certificate again while it serves.
    pub fn renewal(&self) -> Renewal {
        self.listener.renewal()
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.listener.address().port()
    }

    /// Answers until `stop`, and ends what is being answered.
    pub async fn serve(self, stop: impl Future<Output = ()>) {
        let Self { listener, endpoint, unverified } = self;
        let (uploads, hashes) = (Uploads::default(), Arc::default());
        let limits = Limits::new(open_files());
        let served =
            Arc::new(Served { endpoint, unverified, names: Names::default(), uploads, hashes, limits });
        let app = Router::new().fallback(handle).with_state(Arc::clone(&served));
        tokio::select! {
            () = listener.serve(app, stop) => {}
            () = watch(&served) => {}
        }
    }
}

/// Ends what was begun with tokens that are not valid any more, and what nobody goes on with.
async fn watch(served: &Arc<Served>) {
    let mut next = Instant::now() + SWEEP;
    loop {
        tokio::time::sleep(LOOK).await;
        let sweeps = Instant::now() >= next;
        if sweeps {
            next = Instant::now() + SWEEP;
        }
        let served = Arc::clone(served);
        let looked = move || {
            served.limits.end_invalid();
            if sweeps {
                served.uploads.sweep();
            }
            Ok(())
        };
        // What failed here has been told.
        let _ = blocking(looked).await;
    }
}

async fn handle(State(served): State<Arc<Served>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let (unread, body) = Unread::of(body, &parts.headers);
    let keeps = parts.version <= Version::HTTP_11;
    let peer = parts.extensions.get::<Peer>().map(|peer| peer.0);
    let path = parts.uri.path().to_owned();
    // Not its query: a link's token stands there.
    let said = format!("{} {}", parts.method, show(path.as_bytes()));
    let query = names::query(parts.uri.query().unwrap_or_default());
    let by_s3 = is_s3(&parts, &query);
    let (who, answered) = answer(&served, parts, query, body).await;
    let mut response = answered.unwrap_or_else(|refusal| match by_s3 {
        true => refusal.into_s3(&path),
        false => refusal.into_response(),
    });
    let who = who.map_or_else(|| "no token".to_owned(), |name| format!("token {name}"));
    let peer = peer.map_or_else(|| "a client".to_owned(), |peer| peer.to_string());
    served.endpoint.count_http(response.status().as_u16());
    tracing::info!("{peer} ({who}): {said}: {}", response.status().as_u16());
    if !unread.read().await && keeps {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    harden(&mut response);
    response
}

/// What a request gets, and what the token is called that it came with.
async fn answer(
    served: &Arc<Served>,
    parts: Parts,
    query: Vec<(String, String)>,
    body: Body,
) -> (Option<String>, Answer) {
    let endpoint = Arc::clone(&served.endpoint);
    let line = parts.extensions.get::<Line>().cloned();
    let admitted = blocking(move || {
        let asker = asker(&endpoint, &parts, &query)?;
        Ok((parts, query, asker))
    });
    let (parts, query, asker) = match admitted.await {
        Ok(admitted) => admitted,
        Err(refusal) => return (None, Err(refusal)),
    };
    let who = Some(asker.access.name().to_owned());
    line.iter().for_each(Line::is_proven);
    let turn = match served.limits.begin(&asker.access, line) {
        Ok(turn) => turn,
        Err(refusal) => return (who, Err(refusal)),
    };
    let asked = match names::path(parts.uri.path()) {
        Ok(path) => Asked { parts, path, query, share: Arc::clone(turn.share()) },
        Err(refusal) => return (who, Err(refusal)),
    };
    let answered = match asked.parts.method.as_str() {
        "PROPFIND" if !matches!(asker.by, Shown::Signature(_)) => properties(asked, asker, body).await,
        "GET" | "HEAD" if asks_hash(&asked, &asker) => plain::hash(asker.access, asked, &served.hashes).await,
        "GET" | "HEAD" | "OPTIONS" | "PROPFIND" => {
            let wanted = WantedDigest::read(&asked.parts.headers);
            let wanted = wanted.filter(|_| !matches!(asker.by, Shown::Signature(_)));
            let (access, share, path) = (asker.access.clone(), Arc::clone(&asked.share), asked.path.clone());
            let to_read = Arc::clone(served);
            let mut answered = blocking(move || read(&to_read, &asked, &asker)).await;
            if let (Some(wanted), Ok(response)) = (wanted, &mut answered)
                && let Err(refusal) =
                    plain::digest(wanted, response, access, share, path, &served.hashes).await
            {
                answered = Err(refusal);
            }
            answered
        }
        _ => change(served, asked, asker, body).await,
    };
    (who, answered.map(|response| response.map(|body| turn.until_sent(body))))
}

fn asks_hash(asked: &Asked, asker: &Asker) -> bool {
    !matches!(asker.by, Shown::Signature(_)) && names::value(&asked.query, "hash").is_some()
}

fn read(served: &Served, asked: &Asked, asker: &Asker) -> Answer {
    let (Asked { parts, path, query, share }, Asker { access, by }) = (asked, asker);
    let link = match by {
        Shown::Signature(_) => return s3::answer(access, asked),
        Shown::Link(word) => Some(&word[..]),
        Shown::Header => None,
    };
    match parts.method.as_str() {
        "GET" | "HEAD" => {
            let after = names::bytes(parts.uri.query().unwrap_or_default(), "after").unwrap_or_default();
            let (method, headers, hashes) = (&parts.method, &parts.headers, &served.hashes);
            plain::answer(
                access,
                &Reading { method, path, after: &after, query, headers, hashes, share, link },
            )
        }
        _ => Ok(allowed(StatusCode::NO_CONTENT)),
    }
}

async fn properties(asked: Asked, Asker { access, by }: Asker, body: Body) -> Answer {
    let expected = Expected::read(&asked.parts, by, true)?;
    let document = document((&access, &asked.share), body, expected).await?;
    dav::check_request(&document.text)?;
    blocking(move || dav::properties(&access, &asked.share, &asked.path, &asked.parts.headers)).await
}

async fn change(served: &Arc<Served>, asked: Asked, asker: Asker, body: Body) -> Answer {
    refuse_other_sites(&asked.parts)?;
    if matches!(asker.by, Shown::Signature(_)) {
        return s3::change(served, asked, asker, body).await;
    }
    let Asked { parts, path, share, .. } = &asked;
    let (access, path) = (asker.access.clone(), path.clone());
    match parts.method.as_str() {
        "PUT" => {
            let (replaces, version) = put(served, &asked, asker, body, Parents::Need).await?;
            let status = if replaces { StatusCode::NO_CONTENT } else { StatusCode::CREATED };
            let mut response = status.into_response();
            if let Some(version) = version {
                version.write(response.headers_mut());
            }
            Ok(response)
        }
        "MKCOL" => {
            access.check(&path, Right::Write)?;
            let expected = Expected::read(parts, asker.by, true)?;
            nothing((&access, share), body, expected, StatusCode::UNSUPPORTED_MEDIA_TYPE).await?;
            blocking(move || make_directory(&access, &path)).await
        }
        "DELETE" => {
            let (served, conditions) = (Arc::clone(served), Conditions::read(&parts.headers)?);
            blocking(move || remove(&access, &path, Removed::Any, (&served.names, &conditions))).await
        }
        "MOVE" => {
            let (served, conditions) = (Arc::clone(served), Conditions::read(&parts.headers)?);
            let (to, overwrite) = dav::destination(&parts.headers)?;
            blocking(move || rename(&access, &path, (&to, overwrite), (&served.names, &conditions))).await
        }
        _ => Ok(allowed(StatusCode::METHOD_NOT_ALLOWED)),
    }
}

fn allowed(status: StatusCode) -> Response {
    let mut response = status.into_response();
    let headers = response.headers_mut();
    headers.insert(ALLOW, HeaderValue::from_static(METHODS));
    headers.insert("dav", HeaderValue::from_static("1"));
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

#[cfg(test)]
mod tests;
