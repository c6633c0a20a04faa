//! Asks the archives' interfaces: paced, patient with what passes, and never repeating a secret.
//!
//! Answers with status 429 or 5xx, lost connections and timeouts are tried again, after `Retry-After` or
//! after 1, 2, 4 s and jitter. NCBI's rate limit inside status 200 counts as 429, and a page in place of data
//! as a failure of the server. Nothing found (204, 404) is an answer; a refusal (400) is final.

mod probe;

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tidegate_control::Rng;
use tidegate_transfer::error::{Error, ErrorKind, Result};
use tidegate_transfer::text::show;
use ureq::http::{Method, Request, Response};
use ureq::{Agent, Body};
use url::Url;

pub(crate) use self::probe::Probe;
use super::pace::{Pace, sleep};
use crate::remote::http::agents::{AgentPool, HttpContext, Reach};
use crate::remote::http::redirected;
use crate::remote::http::trouble::{system_error, tls_error};
use crate::remote::login::Logins;
use crate::remote::settings::{Proxies, ServerSettings};
use crate::remote::tls::{Tls, words};

/// Largest answer that is read: a project of 100,000 runs is about 100 MB.
const MAX_ANSWER: u64 = 256 << 20;

/// Longest wait that a server's `Retry-After` is obeyed for, and longest back-off.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// Longest part of a server's words that is repeated, in characters.
const MAX_WORDS: usize = 160;

/// ENA refuses above 50 requests a second; this is what its users settled on.
const ENA_RATE: f64 = 8.0;

/// A tenth below what NCBI allows, 3 without an API key and 10 with one, since what is sent evenly may arrive
/// bunched. Locating data is held to the former.
const NCBI_RATE: f64 = 2.7;
const NCBI_KEY_RATE: f64 = 9.0;

/// Heads of files on object storage.
const AWS_RATE: f64 = 50.0;

/// Whom to ask, and as whom.
#[derive(Clone)]
pub struct ArchiveSettings {
    /// ENA's Portal API.
    pub ena_url: String,
    /// NCBI's E-utilities.
    pub eutils_url: String,
    /// NCBI's locator of data, with its endpoint.
    pub sdl_url: String,
    /// The open-data mirror of SRA; a run is at `sra/<run>/<run>` beneath it.
    pub aws_url: String,
    /// NCBI's API key. Never shown.
    pub api_key: Option<String>,
    /// An address that NCBI may write to.
    pub email: Option<String>,
    /// Certificates (PEM) to trust besides the system's.
    pub ca: Option<PathBuf>,
    /// Which proxies questions go through.
    pub proxies: Proxies,
    /// Which addresses are of the public Internet, whose servers may not redirect us to others.
    pub is_public: fn(IpAddr) -> bool,
    /// How long to wait for a connection and for the beginning of an answer.
    pub timeout: Duration,
    /// How often to try again.
    pub retries: u32,
    /// The wait before the first of them; it doubles.
    pub backoff: Duration,
    /// Requests a second to ENA.
    pub ena_rate: f64,
    /// Requests a second to NCBI; what it allows, with the API key or without, if none is given.
    pub ncbi_rate: Option<f64>,
    /// Seed of the jitter.
    pub seed: u64,
}

impl Default for ArchiveSettings {
    fn default() -> Self {
        Self {
            ena_url: "https://www.ebi.ac.uk/ena/portal/api".to_owned(),
            eutils_url: "https://eutils.ncbi.nlm.nih.gov/entrez/eutils".to_owned(),
            sdl_url: "https://locate.ncbi.nlm.nih.gov/sdl/2/retrieve".to_owned(),
            aws_url: "https://sra-pub-run-odp.s3.amazonaws.com".to_owned(),
            api_key: None,
            email: None,
            ca: None,
            proxies: Proxies::from_env(),
            is_public: ServerSettings::default().is_public,
            timeout: Duration::from_secs(60),
            retries: 4,
            backoff: Duration::from_secs(1),
            ena_rate: ENA_RATE,
            ncbi_rate: None,
            seed: 1,
        }
    }
}

impl fmt::Debug for ArchiveSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArchiveSettings")
            .field("ena_url", &self.ena_url)
            .field("eutils_url", &self.eutils_url)
            .field("sdl_url", &self.sdl_url)
            .field("aws_url", &self.aws_url)
            .field("api_key", &self.api_key.as_ref().map(|_| "…"))
            .field("timeout", &self.timeout)
            .field("retries", &self.retries)
            .finish_non_exhaustive()
    }
}

/// An interface or a store that is asked.
pub(crate) struct Service {
    name: &'static str,
    base: Url,
    pace: Pace,
    /// Whether it says 404 of what it does not know, as ENA may; from others that is a wrong URL.
    says_404: bool,
    /// Whether it failed to the end the last time: then one try has to do.
    down: AtomicBool,
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Service {
    /// One at `base` that is asked so often a second; 0 is no limit.
    pub fn new(name: &'static str, base: &str, rate: f64) -> Result<Self> {
        let url = Url::parse(base.trim()).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let Some(mut base) = url.filter(Url::has_host) else {
            let why = format!(
                "{} for {name} is no URL that begins with https:// or http://",
                show(base.as_bytes())
            );
            return Err(Error::new(ErrorKind::Usage, why));
        };
        base.set_fragment(None);
        base.set_query(None);
        Ok(Self { name, base, pace: Pace::new(rate), says_404: false, down: AtomicBool::new(false) })
    }

    /// What it is called.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Where something beneath it is, for people.
    pub fn place(&self, path: &str) -> String {
        place(&self.at(path))
    }

    /// The URL of something beneath it.
    pub fn at(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        if !path.is_empty() {
            let whole = format!("{}/{path}", url.path().trim_end_matches('/'));
            url.set_path(&whole);
        }
        url
    }
}

/// An answer that is no failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// What was asked for.
    Text(String),
    /// There is nothing (204, 404).
    Nothing,
    /// The question was refused (400), in the server's words.
    Refused(String),
}

/// What a store says of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// Its size.
    pub bytes: Option<u64>,
    /// Its entity tag without quotes.
    pub tag: String,
}

/// The archives' interfaces.
pub(crate) struct ArchiveClient {
    lines: Mutex<AgentPool>,
    /// ENA's Portal API.
    pub ena: Service,
    /// NCBI's E-utilities.
    pub eutils: Service,
    /// NCBI's locator.
    pub sdl: Service,
    /// The open-data mirror.
    pub aws: Service,
    api_key: Option<String>,
    email: Option<String>,
    retries: u32,
    backoff: Duration,
    rng: Mutex<Rng>,
}

impl fmt::Debug for ArchiveClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("ena", &self.ena).field("eutils", &self.eutils).finish_non_exhaustive()
    }
}

/// A try that failed: what to say if it was the last, and how long to wait if another may help.
struct Failure {
    error: Error,
    again: bool,
    after: Option<Duration>,
}

impl ArchiveClient {
    /// With these settings.
    pub fn new(settings: ArchiveSettings) -> Result<Self> {
        let tls = Arc::new(Tls::new(settings.ca.clone()));
        let servers = ServerSettings {
            timeout: settings.timeout,
            ca: settings.ca,
            proxies: settings.proxies,
            is_public: settings.is_public,
            ..ServerSettings::default()
        };
        let shared = Arc::new(HttpContext::new(&servers, &tls, &Arc::new(Logins::default())));
        let api_key = settings.api_key.filter(|key| !key.is_empty());
        let allowed = if api_key.is_some() { NCBI_KEY_RATE } else { NCBI_RATE };
        let eutils_rate = settings.ncbi_rate.unwrap_or(allowed);
        let sdl_rate = settings.ncbi_rate.unwrap_or(NCBI_RATE);
        Ok(Self {
            lines: Mutex::new(AgentPool::new(shared)),
            ena: Service { says_404: true, ..Service::new("ENA", &settings.ena_url, settings.ena_rate)? },
            eutils: Service::new("NCBI's E-utilities", &settings.eutils_url, eutils_rate)?,
            sdl: Service::new("NCBI's locator", &settings.sdl_url, sdl_rate)?,
            aws: Service::new("the open-data mirror", &settings.aws_url, AWS_RATE)?,
            api_key,
            email: settings.email,
            retries: settings.retries,
            backoff: settings.backoff,
            rng: Mutex::new(Rng::new(settings.seed)),
        })
    }

    /// Asks with a form: in the URL, or as the body of a `POST`, as long lists of accessions and the API key need,
    /// which so is in no URL.
    pub fn call(
        &self,
        service: &Service,
        method: &Method,
        path: &str,
        form: &[(&str, &str)],
        over: &AtomicBool,
    ) -> Result<Answer> {
        let mut url = service.at(path);
        let posts = method == Method::POST;
        if !posts {
            url.query_pairs_mut().extend_pairs(form);
        }
        self.persist(service, &url, over, || {
            let answer =
                if posts { self.post(service, &url, form)? } else { self.ask(service, method, &url)?.1 };
            self.text(service, &url, answer)
        })
    }

    /// One question without a body, and its answer wherever that is: redirects are followed as those of files are.
    fn ask(&self, service: &Service, method: &Method, url: &Url) -> Result<(Url, Response<Body>), Failure> {
        let mut been = vec![url.clone()];
        loop {
            let at = &been[been.len() - 1];
            let reach = match been.len() {
                1 => Reach::All,
                _ => self.lines().reach(url).map_err(|refusal| self.refused(service, url, &refusal.error))?,
            };
            let agent = self.agent(service, at, reach)?;
            let request = Request::builder().method(method).uri(at.as_str()).body(());
            let answer = request.map_err(ureq::Error::from).and_then(|request| agent.run(request));
            let answer = answer.map_err(|error| self.lost(service, at, &error))?;
            let is_redirect = matches!(answer.status().as_u16(), 301 | 302 | 303 | 307 | 308);
            if !is_redirect || header(&answer, "location").is_none() {
                return Ok((been.pop().unwrap_or_else(|| url.clone()), answer));
            }
            let next = redirected(at, &been, 0, answer.headers(), false);
            been.push(next.map_err(|refusal| self.refused(service, url, &refusal.error))?);
        }
    }

    /// A form as the body of a request. Its redirects are not followed: they would lose the form.
    fn post(&self, service: &Service, url: &Url, form: &[(&str, &str)]) -> Result<Response<Body>, Failure> {
        let agent = self.agent(service, url, Reach::All)?;
        let response = agent.post(url.as_str()).send_form(form.iter().copied());
        response.map_err(|error| self.lost(service, url, &error))
    }

    fn lines(&self) -> MutexGuard<'_, AgentPool> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn agent(&self, service: &Service, url: &Url, reach: Reach) -> Result<Agent, Failure> {
        let mut lines = self.lines();
        let agent = lines.agent(url, reach).cloned();
        agent.map_err(|refusal| self.refused(service, url, &refusal.error))
    }

    /// What is not asked at all, or not asked further.
    fn refused(&self, service: &Service, url: &Url, why: &Error) -> Failure {
        let message = format!("cannot ask {} at {}: {}", service.name, place(url), self.words(&why.message));
        Failure { error: Error::new(why.kind, message), again: false, after: None }
    }

    /// A question to the E-utilities, signed as NCBI asks for.
    pub fn eutils(&self, program: &str, form: &[(&str, &str)], over: &AtomicBool) -> Result<Answer> {
        let mut signed = form.to_vec();
        signed.push(("tool", "tidegate"));
        signed.extend(self.email.as_deref().map(|email| ("email", email)));
        signed.extend(self.api_key.as_deref().map(|key| ("api_key", key)));
        self.call(&self.eutils, &Method::POST, program, &signed, over)
    }

    /// What the open-data mirror says of a file; `None` if it has none.
    pub fn head(&self, path: &str, over: &AtomicBool) -> Result<Option<Head>> {
        let url = self.aws.at(path);
        self.persist(&self.aws, &url, over, || {
            let (_, response) = self.ask(&self.aws, &Method::HEAD, &url)?;
            match response.status().as_u16() {
                200 => {
                    let bytes = header(&response, "content-length").and_then(|text| text.parse().ok());
                    let tag = header(&response, "etag").unwrap_or_default().trim_matches('"').to_owned();
                    Ok(Some(Head { bytes, tag }))
                }
                // Without the right to list, object storage says 403 of what is not there.
                403 | 404 => Ok(None),
                _ => Err(self.failed(&self.aws, &url, &response, String::new())),
            }
        })
    }

    /// Tries until it works, or until it is enough.
    fn persist<T>(
        &self,
        service: &Service,
        url: &Url,
        over: &AtomicBool,
        mut once: impl FnMut() -> Result<T, Failure>,
    ) -> Result<T> {
        let retries = if service.down.load(Relaxed) { 0 } else { self.retries };
        let mut wait = self.backoff;
        for tried in 0.. {
            if !service.pace.take(over) {
                break;
            }
            let failure = match once() {
                Ok(answer) => {
                    service.down.store(false, Relaxed);
                    return Ok(answer);
                }
                Err(failure) => failure,
            };
            if !failure.again || tried >= retries {
                service.down.store(failure.again, Relaxed);
                let times = if tried > 0 { format!(" (tried {} times)", tried + 1) } else { String::new() };
                let why = format!("{}{times}", failure.error.message);
                return Err(failure.error.in_words(why));
            }
            tracing::debug!(service = service.name, "trying again: {}", failure.error);
            let jitter = self.rng.lock().unwrap_or_else(PoisonError::into_inner).unit();
            let pause = failure.after.unwrap_or(wait.mul_f64(1.0 + jitter / 2.0)).min(MAX_WAIT);
            wait = (wait * 2).min(MAX_WAIT);
            if !sleep(pause, over) {
                break;
            }
        }
        Err(Error::new(ErrorKind::Interrupted, format!("stopped while asking {}", place(url))))
    }

    /// Reads one answer of an interface.
    fn text(&self, service: &Service, url: &Url, mut response: Response<Body>) -> Result<Answer, Failure> {
        let body = response.body_mut().with_config().limit(MAX_ANSWER).read_to_vec();
        let body = body.map_err(|error| self.lost(service, url, &error))?;
        let text = match String::from_utf8(body) {
            Ok(text) => text,
            Err(broken) => String::from_utf8_lossy(broken.as_bytes()).into_owned(),
        };
        let page = is_page(header(&response, "content-type").unwrap_or_default(), &text);
        match response.status().as_u16() {
            200 if is_rate_limit(&text) => Err(self.failed(service, url, &response, RATE_LIMIT.to_owned())),
            200 if page => Err(self.failed(service, url, &response, format!("a page{}", title(&text)))),
            200 => Ok(Answer::Text(text)),
            204 => Ok(Answer::Nothing),
            404 if !page && service.says_404 => Ok(Answer::Nothing),
            400 => Ok(Answer::Refused(self.words(&text))),
            429 => Err(self.failed(service, url, &response, RATE_LIMIT.to_owned())),
            _ if page => Err(self.failed(service, url, &response, format!("a page{}", title(&text)))),
            _ => Err(self.failed(service, url, &response, self.words(&text))),
        }
    }

    /// An answer that is a failure. The rate limit's body is never repeated: it holds the caller's key.
    fn failed(&self, service: &Service, url: &Url, response: &Response<Body>, words: String) -> Failure {
        let status = response.status().as_u16();
        let limited = status == 429 || words == RATE_LIMIT;
        let (kind, again, advice) = match status {
            _ if limited => (ErrorKind::Connection, true, "; try later, or with fewer at a time"),
            401 | 403 => (ErrorKind::Denied, false, "; is access to it allowed from here?"),
            200 => {
                (ErrorKind::Protocol, true, " in place of data; is it the right URL, and no proxy's login?")
            }
            404 | 501 => (ErrorKind::Protocol, false, "; is it the right URL?"),
            300..=399 => (ErrorKind::Protocol, false, "; give the URL it redirects to"),
            500..=599 | 408 => (ErrorKind::Connection, true, "; try later"),
            _ => (ErrorKind::Protocol, false, ""),
        };
        let words = if words.is_empty() { words } else { format!(": {words}") };
        let message = format!("{} at {} answered {status}{words}{advice}", service.name, place(url));
        Failure { error: Error::new(kind, message), again, after: retry_after(response) }
    }

    /// No answer at all, or only a part of one.
    fn lost(&self, service: &Service, url: &Url, error: &ureq::Error) -> Failure {
        let ours = match error {
            ureq::Error::Other(error) => error.downcast_ref::<Error>(),
            _ => None,
        };
        if let Some(error) = ours {
            return self.refused(service, url, error);
        }
        let tls = tls_error(error);
        let (kind, again) = match error {
            _ if tls.is_some() => (ErrorKind::Denied, false),
            ureq::Error::Tls(_) => (ErrorKind::Denied, false),
            ureq::Error::Io(_)
            | ureq::Error::Timeout(_)
            | ureq::Error::HostNotFound
            | ureq::Error::ConnectionFailed
            | ureq::Error::Protocol(_) => (ErrorKind::Connection, true),
            _ => (ErrorKind::Protocol, false),
        };
        let host = url.host_str().unwrap_or_default();
        let why = tls.map_or_else(|| self.words(&error.to_string()), |error| words::of(host, error));
        let message = format!("cannot ask {} at {}: {why}", service.name, place(url));
        let told = Error::new(kind, message);
        let error = match system_error(error) {
            Some(cause) => told.because(cause),
            None => told,
        };
        Failure { error, again, after: None }
    }

    /// A server's words, short and in one line, without our key.
    fn words(&self, text: &str) -> String {
        let text = match &self.api_key {
            Some(key) => text.replace(key.as_str(), "…"),
            None => text.to_owned(),
        };
        let short: String =
            text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(MAX_WORDS).collect();
        show(short.as_bytes()).into_owned()
    }
}

const RATE_LIMIT: &str = "too many requests";

/// Where something was asked, without user, password and query.
fn place(url: &Url) -> String {
    let port = url.port().map_or(String::new(), |port| format!(":{port}"));
    format!("{}://{}{port}{}", url.scheme(), url.host_str().unwrap_or_default(), url.path())
}

fn header<'a>(response: &'a Response<Body>, name: &str) -> Option<&'a str> {
    response.headers().get(name)?.to_str().ok()
}

/// What `Retry-After` says: seconds or a date.
fn retry_after(response: &Response<Body>) -> Option<Duration> {
    let text = header(response, "retry-after")?.trim();
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.0..=1e6).contains(seconds));
    match seconds {
        Some(seconds) => Some(Duration::from_secs_f64(seconds)),
        None => httpdate::parse_http_date(text).ok()?.duration_since(SystemTime::now()).ok(),
    }
}

/// NCBI's rate limit, which comes with status 200 too.
pub(crate) fn is_rate_limit(text: &str) -> bool {
    let start = text.trim_start();
    let start = &start.as_bytes()[..start.len().min(512)];
    let start = String::from_utf8_lossy(start).to_lowercase();
    start.starts_with('{') && start.contains("\"error\"") && start.contains("rate limit")
}

/// A page for people, where no interface here answers with one.
fn is_page(kind: &str, text: &str) -> bool {
    let start: String = text.trim_start().chars().take(16).collect::<String>().to_lowercase();
    kind.starts_with("text/html") || start.starts_with("<!doctype html") || start.starts_with("<html")
}

/// A page's title, to be told which page it is.
fn title(text: &str) -> String {
    let rest = text.find("<title>").map(|at| &text[at + "<title>".len()..]);
    let Some(end) = rest.and_then(|rest| rest.find('<')) else { return String::new() };
    let title: String = rest.unwrap_or_default()[..end].trim().chars().take(60).collect();
    format!(" ({})", show(title.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_limit_is_known_by_its_body() {
        assert!(is_rate_limit(include_str!("../../tests/samples/eutils/rate_limited_429.json")));
        for other in
            ["", "{}", "{\"error\":\"no such database\"}", "Run,rate limit", "{\"esearchresult\":{}}"]
        {
            assert!(!is_rate_limit(other), "{other}");
        }
    }

    #[test]
    fn settings_and_messages_keep_the_key_to_themselves() {
        let settings = ArchiveSettings { api_key: Some("s3cr3t".to_owned()), ..ArchiveSettings::default() };
        assert!(!format!("{settings:?}").contains("s3cr3t"));
        let client = ArchiveClient::new(settings).expect("good settings");
        assert_eq!(client.words("a bad\n key:  s3cr3t"), "a bad key: …");
        let url = Url::parse("https://me:pw@host:81/a/b?api_key=s3cr3t").expect("a URL");
        assert_eq!(place(&url), "https://host:81/a/b");
    }

    #[test]
    fn a_base_may_end_in_a_slash_and_has_to_be_http() {
        let service = Service::new("ENA", " http://host/portal/api/ ", 1.0).expect("a URL");
        assert_eq!(service.at("search").as_str(), "http://host/portal/api/search");
        assert_eq!(service.at("").as_str(), "http://host/portal/api/");
        for bad in ["", "host/api", "ftp://host/", "file:///etc"] {
            let error = Service::new("ENA", bad, 1.0).expect_err(bad);
            assert_eq!(error.kind, ErrorKind::Usage);
        }
    }

    #[test]
    fn pages_are_told_from_data() {
        assert!(is_page("text/html; charset=utf-8", "anything"));
        assert!(is_page("text/plain", "\n<!DOCTYPE HTML><html>"));
        assert!(!is_page("text/plain", "run_accession\n"));
        assert_eq!(title("<html><title> Sign in\x1b </title>"), " (Sign in\\x1b)");
        assert_eq!(title("<html>"), "");
    }
}
