//! Objects of Google Cloud Storage by its XML interface: plain HTTP with paths of bucket and name, hashes in
//! `x-goog-hash`, and listings as S3 has them.

use std::sync::{Arc, OnceLock};

use percent_encoding::utf8_percent_encode;
use tidegate_transfer::error::{Error, ErrorKind, Result};
use url::Url;

use super::gs_settings::GsSettings;
use super::http::Http;
use super::listing::{Listing, Page, Pages};
use super::object::{KEPT, Object};
use super::patience::Patience;
use super::request::{HttpClient, Payload, Requests, unanswered};
use super::s3::answer;
use super::s3::calls::meaning;
use super::{Ask, Opened, Refusal, Remote, Version, Why};
use crate::foreign::io_words;
use crate::record::Names;

/// How its URLs begin, and how they name one of an object's versions.
const SCHEME: &str = "gs";
const VERSION: &str = "generation";

/// Most bytes of an error's document that are read.
const MAX_ERROR: u64 = 64 << 10;

/// What all workers share.
#[derive(Debug)]
pub(crate) struct GsContext {
    settings: Option<GsSettings>,
    requests: Requests,
    /// What the environment says, looked up when the first object is asked for.
    found: OnceLock<Result<GsSettings>>,
}

impl GsContext {
    /// With these settings, of which the environment's take the place where there are none.
    pub const fn new(settings: Option<GsSettings>, requests: Requests) -> Self {
        Self { settings, requests, found: OnceLock::new() }
    }

    fn settings(&self) -> Result<&GsSettings> {
        let look_up = || match &self.settings {
            Some(settings) => Ok(settings.clone()),
            None => GsSettings::from_environment(&|name| std::env::var(name).ok(), None),
        };
        self.found.get_or_init(look_up).as_ref().map_err(Clone::clone)
    }

    /// The object that `url` names.
    pub fn object(url: &Url) -> Result<Object> {
        Object::read(url, SCHEME, VERSION)
    }

    /// What lies beneath the prefix `within.key`.
    pub fn names(self: &Arc<Self>, within: Object, patience: Patience) -> Result<Names> {
        let client = self.requests.client(&self.settings()?.endpoint)?;
        Ok(Listing::names(GsPages { shared: Arc::clone(self), client, within }, patience))
    }
}

impl GsSettings {
    /// The URL of a request, with the project that pays if there is one.
    fn url(&self, object: &Object, query: &[(&str, &str)]) -> Result<Url> {
        // A key that no URL can carry is refused.
        object.url_as(SCHEME, VERSION)?;
        let mut url = self.endpoint.clone();
        let base = url.path().trim_end_matches('/').to_owned();
        let path = match object.key.as_str() {
            "" => format!("{base}/{}", object.bucket),
            key => format!("{base}/{}/{}", object.bucket, utf8_percent_encode(key, KEPT)),
        };
        url.set_path(&path);
        let version = object.version.as_deref().map(|version| (VERSION, version));
        let project = self.project.as_deref().map(|project| ("userProject", project));
        let query: Vec<_> = query.iter().copied().chain(version).chain(project).collect();
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        Ok(url)
    }

    /// The header line that says who we are.
    fn authorization(&self) -> Option<(String, String)> {
        let token = self.token.as_ref()?;
        Some(("authorization".to_owned(), format!("Bearer {token}")))
    }

    /// What a request for `what` met: the server's own words for it, and what helps.
    fn refused(&self, what: &str, status: u16, text: &str) -> Refusal {
        let (code, message) = answer::error(text);
        let (why, kind) = meaning(status, &code);
        let shown: String =
            message.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(200).collect();
        let said = match (code.is_empty(), shown.is_empty()) {
            (true, _) => format!("the server answered {status}"),
            (false, true) => code.clone(),
            (false, false) => format!("{code}: {shown}"),
        };
        let pays = code.starts_with("UserProject") || shown.to_lowercase().contains("requester pays");
        let advice = match (status, &self.token, &self.project) {
            _ if pays && self.project.is_none() => {
                "; --billing-project PROJECT lets a project of yours pay for it"
            }
            (401, Some(_), _) => {
                "; get a fresh token: export GOOGLE_OAUTH_ACCESS_TOKEN=\"$(gcloud auth print-access-token)\""
            }
            (401 | 403, None, _) => "; no token was found (GOOGLE_OAUTH_ACCESS_TOKEN)",
            _ => "",
        };
        let kind = if status == 401 { ErrorKind::Authentication } else { kind };
        Refusal::of(why, Error::new(kind, format!("cannot {what}: {said}{advice}")))
    }
}

/// One worker's way to Google Cloud Storage.
#[derive(Debug)]
pub(crate) struct Gs {
    shared: Arc<GsContext>,
    http: Http,
}

impl Gs {
    /// Without a connection yet.
    pub(crate) const fn new(shared: Arc<GsContext>, http: Http) -> Self {
        Self { shared, http }
    }

    /// Asks for an object by plain HTTP.
    fn by_http<T>(
        &mut self,
        ask: &Ask<'_>,
        send: impl Fn(&mut Http, &Ask<'_>) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let senseless = |error| Refusal::of(Why::Senseless, error);
        let object = GsContext::object(ask.url).map_err(senseless)?;
        let settings = self.shared.settings().map_err(senseless)?;
        let url = settings.url(&object, &[]).map_err(senseless)?;
        let headers: Vec<_> = ask.headers.iter().cloned().chain(settings.authorization()).collect();
        let answer = send(&mut self.http, &Ask { url: &url, headers: &headers, ..ask.clone() });
        let refusal = match answer {
            Ok(answer) => return Ok(answer),
            Err(refusal) => refusal.speaking_of(&url, ask.url),
        };
        if !matches!(refusal.why, Why::Denied | Why::Senseless) {
            return Err(refusal);
        }
        // An error's document tells who is to pay, or what is wrong with the token.
        Err(self.explained(settings, &url, ask).unwrap_or(refusal))
    }

    fn explained(&self, settings: &GsSettings, url: &Url, ask: &Ask<'_>) -> Option<Refusal> {
        let client = self.shared.requests.client(url).ok()?;
        let headers: Vec<_> = settings
            .authorization()
            .into_iter()
            .chain([("range".to_owned(), "bytes=0-0".to_owned())])
            .collect();
        let reply = client.send("GET", url, &headers, Payload::None).ok()?;
        let status = reply.status;
        if !matches!(status, 400 | 401 | 403) {
            return None;
        }
        let text = reply.text(MAX_ERROR).ok()?;
        Some(settings.refused(&format!("get {}", super::shown(ask.url)), status, &text))
    }
}

impl Remote for Gs {
    fn open(&mut self, ask: &Ask<'_>) -> Result<Opened, Refusal> {
        self.by_http(ask, Http::open)
    }

    fn look(&mut self, ask: &Ask<'_>) -> Result<Version, Refusal> {
        self.by_http(ask, Http::look)
    }
}

/// Pages of a listing.
struct GsPages {
    shared: Arc<GsContext>,
    client: HttpClient,
    within: Object,
}

impl Pages for GsPages {
    const SCHEME: &'static str = SCHEME;

    fn within(&self) -> &Object {
        &self.within
    }

    fn url(&self, object: &Object) -> Result<Url> {
        object.url_as(SCHEME, VERSION)
    }

    fn page(&self, most: u32, from: Option<&str>) -> Result<Page, Refusal> {
        let senseless = |error| Refusal::of(Why::Senseless, error);
        let settings = self.shared.settings().map_err(senseless)?;
        let most = most.to_string();
        let mut query = vec![
            ("list-type", "2"),
            ("encoding-type", "url"),
            ("max-keys", &most),
            ("prefix", &self.within.key),
        ];
        query.extend(from.map(|from| ("continuation-token", from)));
        let url = settings.url(&self.within.with_key(""), &query).map_err(senseless)?;
        let what = format!("list {SCHEME}://{}", self.within.bucket);
        let headers: Vec<_> = settings.authorization().into_iter().collect();
        let reply = self.client.send("GET", &url, &headers, Payload::None);
        let reply = reply.map_err(|error| unanswered(&format!("cannot {what}"), &url, &error))?;
        let (status, retry_after) = (reply.status, reply.retry_after());
        let text = reply.text(answer::MAX_ANSWER).map_err(|error| {
            let why = format!("cannot {what}: {}", io_words(&error));
            Refusal::of(Why::Broken, Error::new(ErrorKind::Connection, why))
        })?;
        if status != 200 {
            return Err(settings.refused(&what, status, &text).after(retry_after));
        }
        answer::objects(&text).ok_or_else(|| {
            let why = format!("cannot {what}: the answer makes no sense");
            Refusal::of(Why::Senseless, Error::new(ErrorKind::Protocol, why))
        })
    }
}
