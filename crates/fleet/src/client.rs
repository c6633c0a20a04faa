//! Asks a service over HTTP, and says what its refusals mean.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tidegate_transfer::error::{Error, ErrorKind, Result, usage};
use tidegate_transfer::wire::distrust;
use ureq::Agent;
use ureq::http::Response;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

/// Longest wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a service may not answer, as when it is started again, before those give up who wait for what goes on there.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// Longest wait for an answer; an estimate may have to measure first.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(330);
/// Most bytes of an answer: a page of jobs with long addresses has room.
const MAX_ANSWER: u64 = 64 << 20;
/// Most bytes of the file that certifies it.
const MAX_FILE: u64 = 1 << 20;

/// A service that can be asked.
pub struct Service {
    agent: Agent,
    base: String,
    token: String,
}

fn read_text(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(MAX_FILE).read_to_string(&mut text)?;
    Ok(text)
}

impl Service {
    /// The service at `base`, for whoever shows `token`.
    pub fn at(base: &str, token: String, ca: Option<&Path>) -> Result<Self> {
        let base = base.trim().trim_end_matches('/').to_owned();
        if !base.starts_with("http://") && !base.starts_with("https://") {
            return Err(usage(format!("'{base}' is no address of a service: write http://… or https://…")));
        }
        let mut tls = TlsConfig::builder().root_certs(RootCerts::PlatformVerifier);
        if let Some(path) = ca {
            let wrong = |why: &dyn std::fmt::Display| usage(format!("cannot use {}: {why}", path.display()));
            let pem = read_text(path).map_err(|error| wrong(&error))?;
            let authority = Certificate::from_pem(pem.as_bytes()).map_err(|error| wrong(&error))?;
            tls = tls.root_certs(RootCerts::new_with_certs(&[authority]));
        }
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            // A proxy for the web has no business with the service of this site.
            .proxy(None)
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .timeout_recv_response(Some(ANSWER_TIMEOUT))
            .tls_config(tls.build())
            .build();
        Ok(Service { agent: config.new_agent(), base, token })
    }

    /// Where it is.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// What GET answers.
    pub fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        self.value(self.request_get(path)?)
    }

    /// What POST answers.
    pub fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T> {
        self.post_once(path, None, body)
    }

    /// The same, which the service does once for each key however often it is asked.
    pub fn post_once<T: DeserializeOwned>(
        &self,
        path: &str,
        key: Option<&str>,
        body: &impl Serialize,
    ) -> Result<T> {
        let body = json(body);
        let mut request =
            self.agent.post(self.address(path)).header("authorization", format!("Bearer {}", self.token));
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        let response = request.header("content-type", "application/json").send(&body[..]);
        let response = response.map_err(|error| self.unreachable(&error))?;
        self.value(self.accepted(response)?)
    }

    /// The lines of a stream, as it goes on.
    pub fn lines(&self, path: &str) -> Result<impl BufRead> {
        let response = self.request_get(path)?;
        Ok(BufReader::new(response.into_body().into_with_config().limit(u64::MAX).reader()))
    }

    /// What POST answers as server-sent events: hands their names and data to `hear` until that has what it wants. An
    /// event `problem` is an error.
    pub fn follow<T, E: From<Error>>(
        &self,
        path: &str,
        body: &impl Serialize,
        mut hear: impl FnMut(&str, &str) -> Result<Option<T>, E>,
    ) -> Result<T, E> {
        let body = json(body);
        let request =
            self.agent.post(self.address(path)).header("authorization", format!("Bearer {}", self.token));
        let request =
            request.header("accept", "text/event-stream").header("content-type", "application/json");
        let response = request.send(&body[..]).map_err(|error| self.unreachable(&error))?;
        let body = self.accepted(response)?.into_body().into_with_config().limit(MAX_ANSWER);
        let broken = |why: &str| {
            Error::new(ErrorKind::Connection, format!("the answer of {} broke off: {why}", self.base))
        };
        let mut name = String::new();
        for line in BufReader::new(body.reader()).lines() {
            let line = line.map_err(|error| broken(&error.to_string()))?;
            if let Some(event) = line.strip_prefix("event:") {
                event.trim().clone_into(&mut name);
            } else if let Some(data) = line.strip_prefix("data:") {
                if name == "problem" {
                    let problem: Value =
                        serde_json::from_str(data).map_err(|error| broken(&error.to_string()))?;
                    let status = problem.get("status").and_then(Value::as_u64).unwrap_or(0);
                    return Err(self.refusal(u16::try_from(status).unwrap_or(0), Some(&problem)).into());
                }
                if let Some(found) = hear(&name, data.trim())? {
                    return Ok(found);
                }
            }
        }
        Err(broken("it has no end").into())
    }

    fn address(&self, path: &str) -> String {
        format!("{}/api/v1{path}", self.base)
    }

    fn request_get(&self, path: &str) -> Result<Response<ureq::Body>> {
        let request =
            self.agent.get(self.address(path)).header("authorization", format!("Bearer {}", self.token));
        let response = request.call().map_err(|error| self.unreachable(&error))?;
        self.accepted(response)
    }

    fn unreachable(&self, error: &ureq::Error) -> Error {
        let inner: &(dyn std::error::Error + 'static) = match error {
            ureq::Error::Io(inner) => inner,
            ureq::Error::Rustls(inner) => inner,
            other => other,
        };
        if let Some(why) = distrust::reason(inner) {
            let why = format!(
                "the certificate of the service at {} is not trusted: {why}; name its authority with --server-ca",
                self.base
            );
            return Error::new(ErrorKind::Authentication, why);
        }
        let why =
            format!("the service at {} does not answer: {error}; start it with `tidegate serve`", self.base);
        Error::new(ErrorKind::Connection, why)
    }

    fn accepted(&self, response: Response<ureq::Body>) -> Result<Response<ureq::Body>> {
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let problem = self.text(response).ok().and_then(|text| serde_json::from_str::<Value>(&text).ok());
        Err(self.refusal(status.as_u16(), problem.as_ref()))
    }

    /// The error that a refusal stands for.
    fn refusal(&self, status: u16, problem: Option<&Value>) -> Error {
        let said = |key: &str| problem.and_then(|problem| problem.get(key)?.as_str()).map(str::to_owned);
        let detail = said("detail").unwrap_or_else(|| format!("{} answered {status}", self.base));
        // What to ask of the API is no advice to who uses a command.
        let text = match said("advice").filter(|advice| !advice.contains("/api/")) {
            Some(advice) => format!("{detail}: {advice}"),
            None => detail,
        };
        let kind = match status {
            404 => ErrorKind::NotFound,
            401 | 403 => ErrorKind::Authentication,
            409 => ErrorKind::Busy,
            400 | 405 | 413 | 415 | 422 => ErrorKind::Usage,
            _ => ErrorKind::Connection,
        };
        Error::new(kind, text)
    }

    fn text(&self, response: Response<ureq::Body>) -> Result<String> {
        let body = response.into_body().into_with_config().limit(MAX_ANSWER);
        let mut text = String::new();
        let read = body.reader().read_to_string(&mut text);
        read.map_err(|error| {
            Error::new(ErrorKind::Connection, format!("the answer of {} broke off: {error}", self.base))
        })?;
        Ok(text)
    }

    fn value<T: DeserializeOwned>(&self, response: Response<ureq::Body>) -> Result<T> {
        let text = self.text(response)?;
        serde_json::from_str(&text).map_err(|error| {
            let why = format!("{} answered what this version does not understand: {error}", self.base);
            Error::new(ErrorKind::Connection, why)
        })
    }
}

/// What is asked, as it is sent.
fn json(body: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(body).expect("what is asked is plain data")
}
