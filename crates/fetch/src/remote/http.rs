//! Files on HTTP servers: ranges, pinned versions, redirects, and connections that stay warm.
//!
//! Nothing that a server says is believed that can be checked: a range must be the one asked for, of the
//! version asked for, and as long as it was promised to be.

pub mod answer;
mod body;
pub(super) mod wire;

use std::io::{self, Read as _};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use tidegate_transfer::error::ErrorKind;
use tidegate_transfer::manifest::MAX_SIZE;
use ureq::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, header};
use ureq::{Agent, Body as Answer, Proxy, ProxyProtocol};
use url::Url;

use self::body::Body;
use self::wire::Addresses;
use super::login::{Login, Logins};
use super::settings::ServerSettings;
use super::tls::Tls;
use super::{Ask, Opened, Refusal, Remote, Version, Why, shown};

/// Most redirects that are followed for one request.
const REDIRECTS: usize = 10;
/// Longest body of an answer that is no file (a redirect, an error) that is read to keep the connection.
const SMALL_BODY: u64 = 64 << 10;
/// Most bytes of an answer's header.
const LARGEST_HEADER: usize = 64 << 10;
/// Input buffer of a connection. One read from the socket fills it; 128 KiB stays in the processor's
/// second-level cache (docs/decisions/0008).
const INPUT: usize = 128 << 10;
/// Output buffer of a connection.
const OUTPUT: usize = 16 << 10;
/// Connections kept idle for different hosts; redirects lead to a second one for most.
const IDLE: usize = 8;
/// How long an idle connection may be used again. Servers close theirs after 5 to 75 s.
const IDLE_AGE: Duration = Duration::from_secs(90);

/// What all workers' HTTP shares.
#[derive(Debug)]
pub struct Shared {
    settings: ServerSettings,
    tls: Arc<Tls>,
    logins: Arc<Logins>,
    addresses: Addresses,
}

impl Shared {
    /// With these settings, trust and logins.
    pub fn new(settings: &ServerSettings, tls: &Arc<Tls>, logins: &Arc<Logins>) -> Self {
        Self {
            settings: settings.clone(),
            tls: Arc::clone(tls),
            logins: Arc::clone(logins),
            addresses: Addresses::default(),
        }
    }
}

/// One worker's way to HTTP servers: at most one idle connection a host.
#[derive(Debug)]
pub struct Http {
    shared: Arc<Shared>,
    /// One for every proxy in use, or none; there are at most three.
    lines: Vec<Line>,
}

/// An agent, the proxy it goes through, and how many connections it has opened.
#[derive(Debug)]
struct Line {
    proxy: Option<String>,
    agent: Agent,
    opened: wire::Opened,
}

/// An answer and where it came from at last.
struct Reply {
    from: Url,
    answer: Response<Answer>,
}

impl Http {
    /// Without a connection yet.
    pub const fn new(shared: Arc<Shared>) -> Self {
        Self { shared, lines: Vec::new() }
    }

    fn line(&mut self, url: &Url) -> Result<&Line, Refusal> {
        let proxy = self.shared.settings.proxies.of(url).map(str::to_owned);
        let at = match self.lines.iter().position(|line| line.proxy == proxy) {
            Some(at) => at,
            None => {
                let line = self.new_line(proxy, url)?;
                self.lines.push(line);
                self.lines.len() - 1
            }
        };
        Ok(&self.lines[at])
    }

    fn new_line(&self, proxy: Option<String>, url: &Url) -> Result<Line, Refusal> {
        let settings = &self.shared.settings;
        let through = match &proxy {
            None => None,
            Some(proxy) => match Proxy::new(proxy) {
                Ok(proxy) if matches!(proxy.protocol(), ProxyProtocol::Http | ProxyProtocol::Https) => {
                    Some(proxy)
                }
                // Not named, since it may hold a password.
                _ => {
                    let why = format!(
                        "{}: the proxy set for {} is none of http://HOST:PORT and https://HOST:PORT",
                        shown(url),
                        url.scheme()
                    );
                    let mut refusal = Refusal::new(Why::Senseless, why);
                    refusal.error.kind = ErrorKind::Usage;
                    return Err(refusal);
                }
            },
        };
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .proxy(through)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .user_agent(settings.user_agent.as_str())
            .accept("*/*")
            .accept_encoding("identity")
            .no_delay(true)
            .max_response_header_size(LARGEST_HEADER)
            .input_buffer_size(INPUT)
            .output_buffer_size(OUTPUT)
            .max_idle_connections(IDLE)
            .max_idle_connections_per_host(1)
            .max_idle_age(IDLE_AGE)
            .timeout_connect(Some(settings.timeout))
            .timeout_resolve(Some(settings.timeout))
            .timeout_per_read(Some(settings.timeout))
            .timeout_per_write(Some(settings.timeout))
            .build();
        let opened = wire::Opened::default();
        let connector = wire::connector(&self.shared.tls, &opened);
        let agent = Agent::with_parts(config, connector, self.shared.addresses.clone());
        Ok(Line { proxy, agent, opened })
    }

    /// Sends a request without a body to `url` and follows redirects. `headers` go to the origin of `url`
    /// only, `conditions` (ranges and pins) wherever the file is.
    fn send(
        &mut self,
        method: &Method,
        url: &Url,
        headers: &HeaderMap,
        conditions: &HeaderMap,
    ) -> Result<Reply, Refusal> {
        let mut at = url.clone();
        at.set_fragment(None);
        let mut been = vec![at.clone()];
        loop {
            let mut all = conditions.clone();
            if same_origin(url, &at) {
                all.extend(headers.iter().map(|(name, value)| (name.clone(), value.clone())));
            }
            if !all.contains_key(header::AUTHORIZATION)
                && let Some(login) = Login::in_url(&at).or_else(|| self.shared.logins.of(&at).cloned())
                && let Ok(mut value) = HeaderValue::from_str(&login.basic())
            {
                value.set_sensitive(true);
                all.insert(header::AUTHORIZATION, value);
            }
            let answer = self.exchange(method, &at, &all)?;
            let status = answer.status().as_u16();
            if !matches!(status, 301 | 302 | 303 | 307 | 308) {
                return Ok(Reply { from: at, answer });
            }
            let next = self.redirect(&at, &been, &answer);
            drain(answer);
            at = next?;
            been.push(at.clone());
        }
    }

    /// Where a redirect leads, if we may follow it.
    fn redirect(&self, at: &Url, been: &[Url], answer: &Response<Answer>) -> Result<Url, Refusal> {
        let refuse = |what: String| Refusal::new(Why::Senseless, format!("{}: {what}", shown(at)));
        let location = answer::text(answer.headers(), "location")
            .ok_or_else(|| refuse("the server redirects without saying where to".to_owned()))?;
        let mut next =
            at.join(location).map_err(|_| refuse("the server redirects to what is no URL".to_owned()))?;
        next.set_fragment(None);
        if !matches!(next.scheme(), "http" | "https") {
            return Err(refuse(format!("the server redirects to {}, which is not followed", next.scheme())));
        }
        if at.scheme() == "https" && next.scheme() == "http" && !self.shared.settings.allow_downgrade {
            return Err(refuse(format!("the server redirects to {} without encryption", shown(&next))));
        }
        if been.contains(&next) {
            return Err(refuse("the server redirects in a circle".to_owned()));
        }
        if been.len() > REDIRECTS {
            return Err(refuse(format!("the server redirects more than {REDIRECTS} times")));
        }
        Ok(next)
    }

    /// One request and its answer. A connection kept from an earlier request may have been closed by the
    /// server in the meantime; then the request goes out once more on a new one.
    fn exchange(
        &mut self,
        method: &Method,
        url: &Url,
        headers: &HeaderMap,
    ) -> Result<Response<Answer>, Refusal> {
        let line = self.line(url)?;
        let mut bare = url.clone();
        let _ = bare.set_username("");
        let _ = bare.set_password(None);
        let request = || {
            let mut request = Request::builder().method(method).uri(uri_text(&bare));
            if let Some(all) = request.headers_mut() {
                *all = headers.clone();
            }
            request.body(())
        };
        let mut again = true;
        loop {
            let request = request().map_err(|_| {
                Refusal::new(Why::Senseless, format!("{}: this URL cannot be asked for", shown(url)))
            })?;
            let before = line.opened.load(Ordering::Relaxed);
            match line.agent.run(request) {
                Ok(answer) => return Ok(answer),
                Err(error) => {
                    let kept = line.opened.load(Ordering::Relaxed) == before;
                    if again && kept && is_lost(&error) {
                        again = false;
                        continue;
                    }
                    return Err(failed(url, &error));
                }
            }
        }
    }
}

impl Remote for Http {
    fn open(&mut self, ask: &Ask<'_>) -> Result<Opened, Refusal> {
        let headers = given(ask)?;
        let conditions = conditions(ask);
        let reply = self.send(&Method::GET, ask.url, &headers, &conditions)?;
        let settings = &self.shared.settings;
        match reply.answer.status().as_u16() {
            200 => whole(ask, reply, settings.allow_pages),
            206 => part(ask, reply, settings.allow_pages),
            416 => beyond(ask, reply),
            _ => Err(refused(ask.url, reply)),
        }
    }

    fn look(&mut self, ask: &Ask<'_>) -> Result<Version, Refusal> {
        let headers = given(ask)?;
        let reply = self.send(&Method::HEAD, ask.url, &headers, &HeaderMap::new())?;
        let status = reply.answer.status().as_u16();
        if status == 200 {
            let headers = reply.answer.headers();
            sensible(ask.url, &reply, self.shared.settings.allow_pages)?;
            let size = answer::text(headers, "content-length").and_then(|size| size.parse().ok());
            let version = version(headers, size, accepts_ranges(headers), true);
            return pinned(ask, version);
        }
        // Some servers and signed URLs know of GET only.
        if matches!(status, 400 | 403 | 405 | 500 | 501) {
            let first = Ask { range: 0..1, ..ask.clone() };
            return self.open(&first).map(|opened| opened.version);
        }
        Err(refused(ask.url, reply))
    }
}

/// The header lines that came with the request for the file.
fn given(ask: &Ask<'_>) -> Result<HeaderMap, Refusal> {
    let mut headers = HeaderMap::new();
    for (name, value) in ask.headers {
        let line = name.parse::<HeaderName>().ok().zip(HeaderValue::from_str(value).ok());
        let Some((name, mut value)) = line else {
            let what = format!("{}: {name:?} with its value is no header line", shown(ask.url));
            return Err(Refusal::new(Why::Senseless, what));
        };
        value.set_sensitive(true);
        headers.append(name, value);
    }
    Ok(headers)
}

/// `Range` and what pins the version. `If-Match` makes a server answer 412 rather than send all of another
/// version, as it would after `If-Range`.
fn conditions(ask: &Ask<'_>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let mut set = |name: HeaderName, value: &str| {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    };
    let Range { start, end } = ask.range;
    // Servers count in 63 bits.
    if end <= MAX_SIZE && end > start {
        set(header::RANGE, &format!("bytes={start}-{}", end - 1));
    } else if start > 0 {
        set(header::RANGE, &format!("bytes={start}-"));
    }
    if let Some(version) = ask.version {
        match (&version.tag, version.modified.and_then(answer::http_date)) {
            (Some(tag), _) => set(header::IF_MATCH, tag),
            (None, Some(date)) => set(header::IF_UNMODIFIED_SINCE, &date),
            (None, None) => {}
        }
    }
    headers
}

fn accepts_ranges(headers: &HeaderMap) -> bool {
    answer::text(headers, "accept-ranges").is_some_and(|units| units.eq_ignore_ascii_case("bytes"))
}

fn version(headers: &HeaderMap, bytes: Option<u64>, ranges: bool, whole: bool) -> Version {
    Version {
        bytes,
        tag: answer::strong_tag(headers),
        modified: answer::modified(headers),
        ranges,
        checksums: answer::checksums(headers, whole),
    }
}

/// `version`, unless another one was asked for.
fn pinned(ask: &Ask<'_>, version: Version) -> Result<Version, Refusal> {
    match ask.version {
        Some(wanted) if wanted.differs(&version) => {
            Err(Refusal::new(Why::Changed, format!("{}: the file has changed on the server", shown(ask.url))))
        }
        _ => Ok(version),
    }
}

/// Refuses an answer that is not the file's bytes.
fn sensible(url: &Url, reply: &Reply, allow_pages: bool) -> Result<(), Refusal> {
    // The name is the one asked for, not that of some storage behind a redirect.
    match answer::not_the_file(reply.answer.headers(), url.path(), allow_pages) {
        Some(what) => Err(Refusal::new(Why::Senseless, format!("{}: {what}", shown(url)))),
        None => Ok(()),
    }
}

/// Status 200: the whole file, whatever was asked for.
fn whole(ask: &Ask<'_>, reply: Reply, allow_pages: bool) -> Result<Opened, Refusal> {
    sensible(ask.url, &reply, allow_pages)?;
    let (head, body) = reply.answer.into_parts();
    let size = body.content_length().or_else(|| {
        // A body of no bytes at all is no body to ureq.
        (answer::text(&head.headers, "content-length") == Some("0")).then_some(0)
    });
    // A server may answer a range that is the whole file so, and still know ranges.
    let asked_all = ask.range.start == 0 && size.is_some_and(|size| ask.range.end >= size);
    let ranges = asked_all && accepts_ranges(&head.headers);
    let version = pinned(ask, version(&head.headers, size, ranges, true))?;
    opened(ask, version, 0..size.unwrap_or(u64::MAX), body, size)
}

/// Status 206: a part of the file, which must be the one asked for.
fn part(ask: &Ask<'_>, reply: Reply, allow_pages: bool) -> Result<Opened, Refusal> {
    let refuse = |what: &str| Err(Refusal::new(Why::Senseless, format!("{}: {what}", shown(ask.url))));
    sensible(ask.url, &reply, allow_pages)?;
    let (head, body) = reply.answer.into_parts();
    let Some((range, size)) = answer::content_range(&head.headers) else {
        return refuse("the server answered with a part without saying which");
    };
    if body.content_length().is_some_and(|length| length != range.end - range.start) {
        return refuse("the server answered with a part of another length than it says");
    }
    let version = pinned(ask, version(&head.headers, size, true, false))?;
    let size = size.or(ask.version.and_then(|version| version.bytes));
    let wanted = ask.range.start..ask.range.end.min(size.unwrap_or(ask.range.end));
    if range.start != wanted.start || range.end > wanted.end {
        return refuse("the server answered with a part that was not asked for");
    }
    // A part that ends too early is a body that does, and one whose end nobody knows ends where it says.
    let promised = if wanted.end == u64::MAX { range } else { wanted };
    let length = promised.end - promised.start;
    opened(ask, version, promised, body, Some(length))
}

/// Status 416: the part begins at the end of the file or beyond. An empty file has no other answer.
fn beyond(ask: &Ask<'_>, reply: Reply) -> Result<Opened, Refusal> {
    let headers = reply.answer.headers();
    let size = answer::size_beyond(headers);
    let version = version(headers, size, true, false);
    drain(reply.answer);
    let version = pinned(ask, version)?;
    if size == Some(0) && ask.range.start == 0 {
        return Ok(Opened { version, range: 0..0, body: Box::new(io::empty()) });
    }
    let what = match size {
        Some(size) => format!("the file ends at byte {size}, before the part asked for"),
        None => "the server has no such part of the file".to_owned(),
    };
    Err(Refusal::new(Why::Senseless, format!("{}: {what}", shown(ask.url))))
}

fn opened(
    ask: &Ask<'_>,
    version: Version,
    range: Range<u64>,
    body: Answer,
    promised: Option<u64>,
) -> Result<Opened, Refusal> {
    let body = Body::new(body.into_reader(), promised, shown(ask.url))
        .map_err(|error| Refusal::new(Why::Senseless, error.to_string()))?;
    Ok(Opened { version, range, body: Box::new(body) })
}

/// The refusal in an answer that is neither the file nor a redirect.
fn refused(url: &Url, reply: Reply) -> Refusal {
    let status = reply.answer.status();
    let (why, wait) = {
        let headers = reply.answer.headers();
        (answer::why(status.as_u16(), headers), answer::retry_after(headers, SystemTime::now()))
    };
    let reason = status.canonical_reason().unwrap_or("no standard status");
    let through = if reply.from.host() == url.host() {
        String::new()
    } else {
        format!(" (after a redirect to {})", reply.from.host_str().unwrap_or_default())
    };
    let advice = match status.as_u16() {
        401 => "; a name and password go into ~/.netrc or the URL",
        407 => "; the proxy wants a name and password in its URL",
        _ => "",
    };
    drain(reply.answer);
    let what = format!("{}{through}: the server says {} {reason}{advice}", shown(url), status.as_u16());
    let mut refusal = Refusal::new(why, what).after(wait);
    if matches!(status.as_u16(), 401 | 407) {
        refusal.error.kind = ErrorKind::Authentication;
    }
    refusal
}

/// Reads a short body to its end, so that the connection can be used again; lets go of a long one.
fn drain(answer: Response<Answer>) {
    let mut reader = answer.into_body().into_reader().take(SMALL_BODY);
    let _ = io::copy(&mut reader, &mut io::sink());
}

fn same_origin(one: &Url, other: &Url) -> bool {
    one.origin() == other.origin()
}

/// Whether the connection went away, as it does when the server has closed it meanwhile.
fn is_lost(error: &ureq::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected, UnexpectedEof};
    let ureq::Error::Io(error) = error else { return false };
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | NotConnected | UnexpectedEof)
}

/// A request that got no answer.
fn failed(url: &Url, error: &ureq::Error) -> Refusal {
    let host = url.host_str().unwrap_or_default();
    let refuse = |why, what: String| Refusal::new(why, format!("{}: {what}", shown(url)));
    if let Some(error) = tls_error(error) {
        return match error {
            rustls::Error::InvalidCertificate(reason) => {
                let mut refusal = refuse(
                    Why::Denied,
                    format!(
                        "the certificate of {host} is not trusted ({reason}); a private authority's file is given with --ca"
                    ),
                );
                refusal.error.kind = ErrorKind::Authentication;
                refusal
            }
            other => refuse(Why::Broken, format!("no TLS connection to {host}: {other}")),
        };
    }
    match error {
        ureq::Error::HostNotFound => refuse(Why::Missing, format!("there is no host {host}")),
        ureq::Error::Io(error) if is_unknown_host(error) => {
            refuse(Why::Missing, format!("there is no host {host}"))
        }
        ureq::Error::Timeout(_) => refuse(Why::Broken, format!("{host} does not answer in time")),
        ureq::Error::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            refuse(Why::Broken, format!("{host} takes no connections"))
        }
        ureq::Error::Io(_) if is_lost(error) => {
            refuse(Why::Broken, format!("{host} closed the connection without an answer"))
        }
        ureq::Error::Io(error) => refuse(Why::Broken, format!("no connection to {host}: {error}")),
        ureq::Error::ConnectProxyFailed(_) => {
            refuse(Why::Broken, format!("the proxy does not lead to {host}"))
        }
        ureq::Error::BadUri(_) | ureq::Error::Http(_) => {
            refuse(Why::Senseless, "this URL cannot be asked for".to_owned())
        }
        ureq::Error::Other(error) => match error.downcast_ref::<tidegate_transfer::error::Error>() {
            Some(ours) => {
                let mut refusal = refuse(Why::Denied, ours.message.clone());
                refusal.error.kind = ours.kind;
                refusal
            }
            None => refuse(Why::Broken, format!("no connection to {host}: {error}")),
        },
        ureq::Error::Protocol(_) | ureq::Error::LargeResponseHeader(..) => {
            refuse(Why::Senseless, format!("{host} does not answer as HTTP servers do"))
        }
        other => refuse(Why::Broken, format!("no answer from {host}: {other}")),
    }
}

fn tls_error(error: &ureq::Error) -> Option<&rustls::Error> {
    match error {
        ureq::Error::Rustls(error) => Some(error),
        ureq::Error::Io(error) => error.get_ref()?.downcast_ref(),
        _ => None,
    }
}

/// The system's resolver tells "no such name" from "no answer" only in words.
fn is_unknown_host(error: &io::Error) -> bool {
    let text = error.to_string();
    text.contains("failed to lookup") && !text.contains("Temporary failure") && !text.contains("Try again")
}

/// A URL as a request takes it: what `url` leaves as it is and HTTP does not know is percent-encoded.
fn uri_text(url: &Url) -> String {
    let mut text = String::with_capacity(url.as_str().len());
    for c in url.as_str().chars() {
        match c {
            '"' | '<' | '>' | '\\' | '^' | '`' | '{' | '|' | '}' => {
                text.push_str(&format!("%{:02X}", u32::from(c)));
            }
            c => text.push(c),
        }
    }
    text
}
