//! An interface's answer as it is, to be looked at rather than read.

use std::io::Read as _;

use tidegate_transfer::error::{Error, ErrorKind, Result};
use ureq::http::{HeaderMap, Method};

use super::{ArchiveClient, Service, place};

/// Most that is read of an answer that is only looked at.
const MAX_PROBE: u64 = 1 << 20;

/// An answer as it is.
#[derive(Debug)]
pub(crate) struct Probe {
    /// Its status.
    pub status: u16,
    /// Where it came from, if not from where it was asked for.
    pub(crate) redirected_to: Option<String>,
    /// Its body, or the beginning of it.
    pub text: String,
    headers: HeaderMap,
}

impl Probe {
    /// The value of a header line.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

impl ArchiveClient {
    /// One question that is asked once, and its answer whatever it is.
    pub fn probe(
        &self,
        service: &Service,
        method: &Method,
        path: &str,
        form: &[(&str, &str)],
    ) -> Result<Probe> {
        let mut url = service.at(path);
        if method == Method::GET {
            url.query_pairs_mut().extend_pairs(form);
        }
        let answer = match *method {
            Method::POST => self.post(service, &url, form).map(|response| (url.clone(), response)),
            _ => self.ask(service, method, &url),
        };
        let (from, mut response) = answer.map_err(|failure| failure.error)?;
        let mut bytes = Vec::new();
        response.body_mut().as_reader().take(MAX_PROBE).read_to_end(&mut bytes).map_err(|error| {
            let why = self.words(&error.to_string());
            let message = format!("cannot ask {} at {}: {why}", service.name, place(&url));
            Error::new(ErrorKind::Connection, message)
        })?;
        Ok(Probe {
            status: response.status().as_u16(),
            redirected_to: (from != url).then(|| place(&from)),
            text: String::from_utf8_lossy(&bytes).into_owned(),
            headers: response.headers().clone(),
        })
    }
}
