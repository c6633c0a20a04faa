//! Which servers S3 means, and how their URLs are made.

use tidegate_transfer::error::{Error, ErrorKind, Result};
use url::Url;

use super::s3_credentials::{Credentials, Found};

/// Whether the bucket stands in the host's name or in the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// `https://bucket.host/key`
    Virtual,
    /// `https://host/bucket/key`
    Path,
}

/// Which servers S3 means, and who we are there.
#[derive(Clone, Debug, Default)]
pub struct S3Settings {
    /// The server; AWS if not given.
    pub endpoint: Option<Url>,
    /// The region; `us-east-1` until the server says otherwise.
    pub region: Option<String>,
    /// How URLs are made: by default virtual for AWS and path for others.
    pub style: Option<Style>,
    /// Who we are; nobody means unsigned requests.
    pub credentials: Option<Credentials>,
    /// Whether we agree to pay for what others' buckets charge for.
    pub requester_pays: bool,
}

impl S3Settings {
    /// What the environment and `~/.aws` say; `variable` tells the environment.
    pub fn from_environment(variable: &dyn Fn(&str) -> Option<String>) -> Result<Self> {
        let found = Found::look_up(variable)?;
        let style = match found.style.as_deref() {
            Some("path") => Some(Style::Path),
            Some("virtual") => Some(Style::Virtual),
            _ => None,
        };
        let endpoint = found.endpoint.as_deref().map(endpoint).transpose()?;
        let Found { credentials, region, .. } = found;
        Ok(Self { endpoint, region, style, credentials, requester_pays: false })
    }
}

/// Reads an endpoint's URL; a bare host gets `https`.
pub fn endpoint(text: &str) -> Result<Url> {
    let whole = if text.contains("://") { text.to_owned() } else { format!("https://{text}") };
    let url = Url::parse(&whole).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    url.filter(Url::has_host).ok_or_else(|| {
        let why = format!("{text:?} is no S3 endpoint: https://host or http://host:port is needed");
        Error::new(ErrorKind::Usage, why)
    })
}
