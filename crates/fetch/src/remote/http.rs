//! Files on HTTP servers: ranges, pinned versions, redirects, and connections that stay warm.
//!
//! Nothing that a server says is believed that can be checked: a range must be the one asked for, of the
//! version asked for, and as long as it was promised to be.

pub(crate) mod agents;
pub mod answer;
mod body;
pub mod cookies;
mod early;
mod forward;
mod moved;
mod named;
pub(crate) mod trouble;
pub(super) mod wire;

use std::io::{self, Read as _};
use std::ops::Range;
use std::sync::Arc;

use tidegate_transfer::manifest::{BLOCK, MAX_SIZE};
use ureq::Body as Answer;
use ureq::http::{HeaderMap, HeaderName, HeaderValue, Method, Response, header};
use url::Url;

pub use self::agents::HttpContext;
use self::agents::{AgentPool, Reach};
use self::body::ResponseBody;
use self::trouble::{refused, says_expired};
use super::login::Login;
use super::{Ask, Opened, Refusal, Remote, Version, Why, shown};

/// Most redirects that are followed for one request.
const REDIRECTS: usize = 10;
/// Longest body of an answer that is no file (a redirect, an error) that is read to keep the connection.
const SMALL_BODY: u64 = 64 << 10;

/// One worker's way to HTTP servers: at most one idle connection a host.
#[derive(Debug)]
pub(crate) struct Http {
    lines: AgentPool,
}

/// What came of a request for bytes.
enum Answered {
    /// Bytes of the file.
    File(Opened),
    /// A part of a file whose size the server does not tell.
    Sizeless,
    /// No part, or none that is of use, and why: another request is answered better.
    NoPart(Refusal),
}

/// An answer and where it came from at last.
struct Reply {
    from: Url,
    answer: Response<Answer>,
}

impl Http {
    /// Without a connection yet.
    pub const fn new(shared: Arc<HttpContext>) -> Self {
        Self { lines: AgentPool::new(shared) }
    }

    /// Sends a request without a body to `url` and follows redirects. `headers` go to the origin of `url`
    /// only, `conditions` (ranges and pins) wherever the file is. A file that was found elsewhere is asked
    /// for there at once, and from the beginning again if that fails in any way.
    fn send(
        &mut self,
        method: &Method,
        url: &Url,
        headers: &HeaderMap,
        conditions: &HeaderMap,
    ) -> Result<Reply, Refusal> {
        let is_file = |reply: &Reply| matches!(reply.answer.status().as_u16(), 200 | 206);
        if let Some(place) = self.lines.shared().moved.place(url) {
            match self.follow(method, url, place, headers, conditions) {
                Ok(reply) if is_file(&reply) => return Ok(reply),
                other => {
                    self.lines.shared().moved.forget(url);
                    other.map(|reply| drain(reply.answer)).unwrap_or_default();
                }
            }
        }
        let reply = self.follow(method, url, url.clone(), headers, conditions)?;
        if is_file(&reply) {
            self.lines.shared().moved.remember(url, &reply.from);
        }
        Ok(reply)
    }

    /// Sends a request for `url` to `at` and follows redirects.
    fn follow(
        &mut self,
        method: &Method,
        url: &Url,
        mut at: Url,
        headers: &HeaderMap,
        conditions: &HeaderMap,
    ) -> Result<Reply, Refusal> {
        at.set_fragment(None);
        let mut been = vec![at.clone()];
        // What was asked for before a cookie came may be asked for again.
        let mut since = 0;
        loop {
            let answer = self.ask_at(method, (url, &at), &been, headers, conditions)?;
            if !is_redirect(&answer) {
                return Ok(Reply { from: at, answer });
            }
            if self.lines.shared().cookies.keep(&at, answer.headers()) {
                since = been.len();
            }
            let allow_downgrade = self.lines.shared().settings.allow_downgrade;
            let next = redirected(&at, &been, since, answer.headers(), allow_downgrade);
            drain(answer);
            at = next?;
            been.push(at.clone());
        }
    }

    /// Sends a request for `url` to `at`, having been at other places before.
    fn ask_at(
        &mut self,
        method: &Method,
        (url, at): (&Url, &Url),
        been: &[Url],
        headers: &HeaderMap,
        conditions: &HeaderMap,
    ) -> Result<Response<Answer>, Refusal> {
        let mut all = conditions.clone();
        // Once encryption was given up, whoever listens could have redirected us.
        let in_clear =
            at.scheme() == "http" && [url].into_iter().chain(been).any(|place| place.scheme() == "https");
        if same_origin(url, at) && !in_clear {
            all.extend(headers.iter().map(|(name, value)| (name.clone(), value.clone())));
        }
        // A login is for the host that people named, not for where its server sends us: unless they named
        // that too, as for data whose logins are another host's matter, and nobody listens.
        let shared = self.lines.shared();
        let login = match at.host() == url.host() {
            true => Login::in_url(at).or_else(|| shared.logins.of(at).cloned()),
            false if at.scheme() == "https" => shared.logins.named(at).cloned(),
            false => None,
        };
        if !all.contains_key(header::AUTHORIZATION)
            && !in_clear
            && let Some(login) = login
            && let Ok(mut value) = HeaderValue::from_str(&login.basic())
        {
            value.set_sensitive(true);
            all.insert(header::AUTHORIZATION, value);
        }
        if let Some(cookies) = shared.cookies.of(at, all.get(header::COOKIE)) {
            all.insert(header::COOKIE, cookies);
        }
        let was_redirected =
            been.len() > 1 || at[..url::Position::AfterPath] != url[..url::Position::AfterPath];
        let reach = if was_redirected { self.lines.reach(url)? } else { Reach::All };
        self.lines.exchange(method, at, &all, reach)
    }

    /// The web page of at most so many bytes at `url`, and where it is. A redirect is followed where `may` says so.
    pub fn page(
        &mut self,
        url: &Url,
        most: u64,
        may: impl Fn(&Url) -> bool,
    ) -> Result<(Url, Vec<u8>), Refusal> {
        let refuse = |what: &str| Refusal::new(Why::Senseless, format!("{}: {what}", shown(url)));
        let none = HeaderMap::new();
        let mut been = vec![url.clone()];
        loop {
            let at = been.last().expect("there is one").clone();
            let answer = self.ask_at(&Method::GET, (url, &at), &been, &none, &none)?;
            if is_redirect(&answer) {
                let next =
                    redirected(&at, &been, 0, answer.headers(), self.lines.shared().settings.allow_downgrade);
                drain(answer);
                let next = next?;
                if !may(&next) {
                    return Err(refuse(&format!(
                        "the server redirects to {}, which lies elsewhere",
                        shown(&next)
                    )));
                }
                been.push(next);
                continue;
            }
            if answer.status() != 200 {
                return Err(refuse_reply(url, Reply { from: at, answer }));
            }
            if !answer::is_page(answer.headers()) {
                drain(answer);
                return Err(refuse(
                    "this is no listing of a directory: the server answers with what is no web page",
                ));
            }
            let mut bytes = Vec::new();
            let read = answer.into_body().into_reader().take(most + 1).read_to_end(&mut bytes);
            read.map_err(|error| Refusal::new(Why::Broken, format!("{}: {error}", shown(url))))?;
            if bytes.len() as u64 > most {
                return Err(refuse(&format!("the listing is longer than {} MiB", most >> 20)));
            }
            return Ok((at, bytes));
        }
    }

    /// What a WebDAV server tells of the directory at `url` and of what is in it, as XML of at most so many bytes.
    pub fn properties(&mut self, url: &Url, most: u64) -> Result<String, Refusal> {
        let method = Method::from_bytes(b"PROPFIND").expect("letters");
        let depth = HeaderMap::from_iter([(HeaderName::from_static("depth"), HeaderValue::from_static("1"))]);
        let answer =
            self.ask_at(&method, (url, url), std::slice::from_ref(url), &HeaderMap::new(), &depth)?;
        if answer.status() != 207 {
            return Err(refuse_reply(url, Reply { from: url.clone(), answer }));
        }
        let mut bytes = Vec::new();
        let read = answer.into_body().into_reader().take(most + 1).read_to_end(&mut bytes);
        read.map_err(|error| Refusal::new(Why::Broken, format!("{}: {error}", shown(url))))?;
        match String::from_utf8(bytes).ok().filter(|xml| xml.len() as u64 <= most) {
            Some(xml) => Ok(xml),
            None => {
                let what = format!("{}: the listing is no XML of at most {} MiB", shown(url), most >> 20);
                Err(Refusal::new(Why::Senseless, what))
            }
        }
    }

    /// As `open`, and puts what the head of the answer says into `said`.
    pub(crate) fn open_hearing(
        &mut self,
        ask: &Ask<'_>,
        mut said: Option<&mut HeaderMap>,
    ) -> Result<Opened, Refusal> {
        let mut answered = self.open_once(ask, said.as_deref_mut())?;
        if matches!(answered, Answered::Sizeless)
            && let Some(bytes) = self.size(ask)?
        {
            let version = Version { bytes: Some(bytes), ..ask.version.cloned().unwrap_or_default() };
            answered =
                self.open_once(&Ask { version: Some(&version), ..ask.clone() }, said.as_deref_mut())?;
        }
        match answered {
            Answered::File(opened) => return Ok(opened),
            Answered::NoPart(refusal) if ask.range.start > 0 => return Err(refusal),
            Answered::NoPart(_) | Answered::Sizeless => {}
        }
        match self.open_once(&Ask { range: 0..u64::MAX, ..ask.clone() }, said)? {
            Answered::File(mut opened) => {
                opened.version.ranges = false;
                Ok(opened)
            }
            Answered::NoPart(refusal) => Err(refusal),
            Answered::Sizeless => {
                let what = "the server sends a part where the whole file was asked for";
                Err(Refusal::new(Why::Senseless, format!("{}: {what}", shown(ask.url))))
            }
        }
    }

    /// How large a file is, by its head; `None` if that is not told.
    fn size(&mut self, ask: &Ask<'_>) -> Result<Option<u64>, Refusal> {
        let reply = self.send(&Method::HEAD, ask.url, &given(ask)?, &HeaderMap::new())?;
        let is_file = reply.answer.status() == 200;
        let size = answer::text(reply.answer.headers(), "content-length").and_then(|size| size.parse().ok());
        Ok(size.filter(|_| is_file))
    }

    fn open_once(&mut self, ask: &Ask<'_>, said: Option<&mut HeaderMap>) -> Result<Answered, Refusal> {
        let headers = given(ask)?;
        let mut conditions = conditions(ask);
        let mut reply = self.send(&Method::GET, ask.url, &headers, &conditions)?;
        // Some servers know of no tag, or answer so whatever it is: what comes is held against the version anyway.
        if matches!(reply.answer.status().as_u16(), 400 | 412 | 501) && unpin(&mut conditions) {
            drain(reply.answer);
            reply = self.send(&Method::GET, ask.url, &headers, &conditions)?;
        }
        if let Some(said) = said {
            said.clone_from(reply.answer.headers());
        }
        let shared = self.lines.shared();
        let allow_pages = shared.settings.allow_pages;
        let opened = match reply.answer.status().as_u16() {
            200 if is_part(ask, &reply) => part(ask, reply, allow_pages),
            200 => whole(ask, reply, allow_pages).map(Answered::File),
            206 => part(ask, reply, allow_pages),
            416 => beyond(ask, reply),
            _ => Err(refuse_reply(ask.url, reply)),
        };
        if opened.is_err() {
            shared.moved.forget(ask.url);
        }
        opened
    }
}

impl Remote for Http {
    fn open(&mut self, ask: &Ask<'_>) -> Result<Opened, Refusal> {
        self.open_hearing(ask, None)
    }

    fn look(&mut self, ask: &Ask<'_>) -> Result<Version, Refusal> {
        let headers = given(ask)?;
        let reply = self.send(&Method::HEAD, ask.url, &headers, &HeaderMap::new())?;
        let status = reply.answer.status().as_u16();
        if status == 200 {
            let headers = reply.answer.headers();
            sensible(ask.url, &reply, self.lines.shared().settings.allow_pages)?;
            let size = answer::text(headers, "content-length").and_then(|size| size.parse().ok());
            let version = version(headers, size, accepts_ranges(headers), true);
            return pinned(ask, version);
        }
        // Some servers and signed URLs know of GET only.
        if matches!(status, 400 | 403 | 405 | 500 | 501) {
            let first = Ask { range: 0..1, ..ask.clone() };
            return self.open(&first).map(|opened| opened.version);
        }
        Err(refuse_reply(ask.url, reply))
    }
}

/// Whether an answer sends us elsewhere.
fn is_redirect<T>(answer: &Response<T>) -> bool {
    matches!(answer.status().as_u16(), 301 | 302 | 303 | 307 | 308)
}

/// Where a redirect leads from `at`, if we may follow it after having been at all of these, and not `since` then.
pub(crate) fn redirected(
    at: &Url,
    been: &[Url],
    since: usize,
    headers: &HeaderMap,
    allow_downgrade: bool,
) -> Result<Url, Refusal> {
    let refuse = |what: String| Refusal::new(Why::Senseless, format!("{}: {what}", shown(at)));
    let location = answer::location(headers)
        .ok_or_else(|| refuse("the server redirects without saying where to".to_owned()))?;
    let mut next =
        at.join(&location).map_err(|_| refuse("the server redirects to what is no URL".to_owned()))?;
    next.set_fragment(None);
    if !matches!(next.scheme(), "http" | "https") {
        return Err(refuse(format!("the server redirects to {}, which is not followed", next.scheme())));
    }
    if at.scheme() == "https" && next.scheme() == "http" && !allow_downgrade {
        return Err(refuse(format!("the server redirects to {} without encryption", shown(&next))));
    }
    if been[since..].contains(&next) {
        return Err(refuse("the server redirects in a circle".to_owned()));
    }
    if been.len() > REDIRECTS {
        return Err(refuse(format!("the server redirects more than {REDIRECTS} times")));
    }
    Ok(next)
}

/// Header lines that are ours to say: lists copied from a browser have some of them.
const OURS: [HeaderName; 12] = [
    header::ACCEPT_ENCODING,
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::EXPECT,
    header::HOST,
    header::IF_MATCH,
    header::IF_MODIFIED_SINCE,
    header::IF_NONE_MATCH,
    header::IF_RANGE,
    header::IF_UNMODIFIED_SINCE,
    header::RANGE,
    header::TRANSFER_ENCODING,
];

/// The header lines that came with the request for the file, without those that are ours.
fn given(ask: &Ask<'_>) -> Result<HeaderMap, Refusal> {
    let mut headers = HeaderMap::new();
    for (name, value) in ask.headers {
        let line = name.parse::<HeaderName>().ok().zip(HeaderValue::from_str(value).ok());
        let Some((name, mut value)) = line else {
            let what = format!("{}: {name:?} with its value is no header line", shown(ask.url));
            return Err(Refusal::new(Why::Senseless, what));
        };
        if !OURS.contains(&name) {
            value.set_sensitive(true);
            headers.append(name, value);
        }
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

/// Takes what pins the version out of a request's conditions; whether there was any.
fn unpin(conditions: &mut HeaderMap) -> bool {
    let pins = [header::IF_MATCH, header::IF_UNMODIFIED_SINCE];
    pins.into_iter().filter(|name| conditions.remove(name).is_some()).count() > 0
}

/// Whether a body's end is marked otherwise than by the end of the connection.
fn has_end(headers: &HeaderMap) -> bool {
    headers.contains_key(header::CONTENT_LENGTH) || headers.contains_key(header::TRANSFER_ENCODING)
}

fn accepts_ranges(headers: &HeaderMap) -> bool {
    answer::text(headers, "accept-ranges").is_some_and(|units| units.eq_ignore_ascii_case("bytes"))
}

fn version(headers: &HeaderMap, bytes: Option<u64>, ranges: bool, whole: bool) -> Version {
    Version {
        bytes,
        tag: answer::strong_tag(headers),
        modified: answer::modified(headers),
        kept: None,
        ranges,
        checksums: answer::checksums(headers, whole),
    }
}

/// `version`, unless another one was asked for.
fn pinned(ask: &Ask<'_>, version: Version) -> Result<Version, Refusal> {
    match ask.version {
        Some(wanted) if wanted.differs(&version) => Err(changed(ask)),
        _ => Ok(version),
    }
}

fn changed(ask: &Ask<'_>) -> Refusal {
    Refusal::new(Why::Changed, format!("{}: the file has changed on the server", shown(ask.url)))
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
    let ends = has_end(&head.headers);
    let size = body.content_length().or_else(|| {
        // A body of no bytes at all is no body to ureq.
        (answer::text(&head.headers, "content-length") == Some("0")).then_some(0)
    });
    // A server may answer a range that is the whole file so, and still know ranges.
    let asked_all = ask.range.start == 0 && size.is_some_and(|size| ask.range.end >= size);
    let ranges = asked_all && accepts_ranges(&head.headers);
    let version = pinned(ask, version(&head.headers, size, ranges, true))?;
    opened(ask, version, 0..size.unwrap_or(u64::MAX), body, size, ends)
}

/// Whether an answer of status 200 is a part all the same, as its header says and its length proves.
fn is_part(ask: &Ask<'_>, reply: &Reply) -> bool {
    let Some((range, size)) = answer::content_range(reply.answer.headers()) else { return false };
    let is_whole = size.is_none_or(|size| range == (0..size));
    conditions(ask).contains_key(header::RANGE)
        && !is_whole
        && reply.answer.body().content_length() == Some(range.end - range.start)
}

/// Status 206: a part of the file, which must be the one asked for.
fn part(ask: &Ask<'_>, reply: Reply, allow_pages: bool) -> Result<Answered, Refusal> {
    let refusal = |what: &str| Refusal::new(Why::Senseless, format!("{}: {what}", shown(ask.url)));
    let refuse = |what: &str| Err(refusal(what));
    if answer::is_multipart(reply.answer.headers()) {
        let what = "the server answered with several parts although one was asked for";
        return Ok(Answered::NoPart(refusal(what)));
    }
    sensible(ask.url, &reply, allow_pages)?;
    let (head, body) = reply.answer.into_parts();
    let ends = has_end(&head.headers);
    let Some((range, size)) = answer::content_range(&head.headers) else {
        return refuse("the server answered with a part without saying which");
    };
    if body.content_length().is_some_and(|length| length != range.end - range.start) {
        return refuse("the server answered with a part of another length than it says");
    }
    let mut version = pinned(ask, version(&head.headers, size, true, false))?;
    let size = size.or(ask.version.and_then(|version| version.bytes));
    version.bytes = size;
    if size.is_none() {
        return Ok(Answered::Sizeless);
    }
    let wanted = ask.range.start..ask.range.end.min(size.unwrap_or(ask.range.end));
    if range.start != wanted.start || range.end > wanted.end {
        return refuse("the server answered with a part that was not asked for");
    }
    // Less than was asked for is taken in whole blocks, and the rest is asked for then.
    let blocks = (range.end - range.start) / BLOCK * BLOCK;
    if range.end < wanted.end && blocks > 0 {
        let promised = range.start..range.start + blocks;
        return opened(ask, version, promised, body, Some(blocks), false).map(Answered::File);
    }
    if range.end < wanted.end && range.start == 0 {
        return Ok(Answered::NoPart(refusal("the server sends less of the file than was asked for")));
    }
    // What ends too early all the same is a body that does.
    let length = wanted.end - wanted.start;
    opened(ask, version, wanted, body, Some(length), ends).map(Answered::File)
}

/// Status 416: the part begins at the end of the file or beyond. An empty file has no other answer.
fn beyond(ask: &Ask<'_>, reply: Reply) -> Result<Answered, Refusal> {
    let headers = reply.answer.headers();
    let size = answer::size_beyond(headers);
    let version = version(headers, size, true, false);
    drain(reply.answer);
    let version = pinned(ask, version)?;
    if size == Some(0) && ask.range.start == 0 {
        return Ok(Answered::File(Opened { version, range: 0..0, body: Box::new(io::empty()) }));
    }
    let is_within = |version: &Version| version.bytes.is_some_and(|bytes| ask.range.start < bytes);
    if ask.range.start > 0 && ask.version.is_some_and(is_within) {
        return Err(changed(ask));
    }
    let what = match size {
        Some(size) => format!("the file ends at byte {size}, before the part asked for"),
        None => "the server has no such part of the file".to_owned(),
    };
    Ok(Answered::NoPart(Refusal::new(Why::Senseless, format!("{}: {what}", shown(ask.url)))))
}

fn opened(
    ask: &Ask<'_>,
    version: Version,
    range: Range<u64>,
    body: Answer,
    promised: Option<u64>,
    ends: bool,
) -> Result<Opened, Refusal> {
    let body = ResponseBody::new(body.into_reader(), promised, ends)
        .map_err(|error| Refusal::new(Why::Senseless, format!("{}: {error}", shown(ask.url))))?;
    Ok(Opened { version, range, body: Box::new(body) })
}

/// The refusal in an answer that is neither the file nor a redirect.
fn refuse_reply(url: &Url, reply: Reply) -> Refusal {
    let refusal = refused(url, &reply.from, &reply.answer);
    if reply.answer.status() != 400 {
        drain(reply.answer);
        return refusal;
    }
    let mut body = Vec::new();
    let _ = reply.answer.into_body().into_reader().take(SMALL_BODY).read_to_end(&mut body);
    if says_expired(&body) { trouble::expired(url) } else { refusal }
}

/// Reads a short body to its end, so that the connection can be used again; lets go of a long one.
fn drain(answer: Response<Answer>) {
    let mut reader = answer.into_body().into_reader().take(SMALL_BODY);
    let _ = io::copy(&mut reader, &mut io::sink());
}

pub(super) fn same_origin(one: &Url, other: &Url) -> bool {
    one.origin() == other.origin()
}
