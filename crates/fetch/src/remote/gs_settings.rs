//! Which server Google Cloud Storage means, who we are there, and who pays.

use std::fmt;

use tidegate_transfer::error::{Error, ErrorKind, Result};
use url::{Host, Url};

/// Where the objects are, unless somebody says otherwise.
const GOOGLE: &str = "https://storage.googleapis.com";

/// Which server `gs://` means, and as whom it is asked. Shown without the token.
#[derive(Clone, PartialEq, Eq)]
pub struct GsSettings {
    /// The server; buckets are the first part of its paths.
    pub endpoint: Url,
    /// An OAuth 2 access token; without one requests are anonymous.
    pub token: Option<String>,
    /// The project that pays for requests to buckets whose owners let requesters pay. Never sent where it is not given.
    pub project: Option<String>,
}

impl fmt::Debug for GsSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GsSettings")
            .field("endpoint", &self.endpoint)
            .field("token", &self.token.is_some())
            .field("project", &self.project)
            .finish()
    }
}

impl GsSettings {
    /// What the environment says, which `variable` tells: `GOOGLE_OAUTH_ACCESS_TOKEN` or gcloud's own
    /// `CLOUDSDK_AUTH_ACCESS_TOKEN`, and `STORAGE_EMULATOR_HOST` for another server, unless `endpoint` names one.
    ///
    /// # Errors
    ///
    /// If the server's URL is none, or a token would travel in clear.
    pub fn from_environment(
        variable: &dyn Fn(&str) -> Option<String>,
        endpoint: Option<&str>,
    ) -> Result<Self> {
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
        let text = endpoint.map(str::to_owned).or_else(|| variable("STORAGE_EMULATOR_HOST"));
        let text = text.unwrap_or_else(|| GOOGLE.to_owned());
        let whole = if text.contains("://") { text.clone() } else { format!("http://{text}") };
        let url = Url::parse(&whole).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let endpoint = url.filter(|url| url.has_host() && url.query().is_none()).ok_or_else(|| {
            let why = format!("{text:?} is no server of Google Cloud Storage: https://host is needed");
            Error::new(ErrorKind::Usage, why)
        })?;
        let token = variable("GOOGLE_OAUTH_ACCESS_TOKEN").or_else(|| variable("CLOUDSDK_AUTH_ACCESS_TOKEN"));
        let is_here = match endpoint.host() {
            Some(Host::Domain(name)) => name == "localhost",
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            None => false,
        };
        if token.is_some() && endpoint.scheme() == "http" && !is_here {
            let why =
                format!("no token is sent in clear to {endpoint}: name it with https://, or unset the token");
            return Err(Error::new(ErrorKind::Usage, why));
        }
        Ok(Self { endpoint, token, project: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(pairs: &[(&str, &str)], endpoint: Option<&str>) -> Result<GsSettings> {
        let found = |name: &str| pairs.iter().find(|(known, _)| *known == name).map(|(_, v)| (*v).to_owned());
        GsSettings::from_environment(&found, endpoint)
    }

    #[test]
    fn nothing_said_is_google_and_nobody() {
        let settings = with(&[("GOOGLE_OAUTH_ACCESS_TOKEN", "")], None).expect("settings");
        assert_eq!(settings.endpoint.as_str(), "https://storage.googleapis.com/");
        assert_eq!((settings.token, settings.project), (None, None));
    }

    #[test]
    fn a_token_goes_neither_in_clear_nor_into_words() {
        let token = ("GOOGLE_OAUTH_ACCESS_TOKEN", "hush");
        let settings = with(&[token], Some("http://127.0.0.1:4443")).expect("loopback");
        assert_eq!(settings.token.as_deref(), Some("hush"));
        assert!(!format!("{settings:?}").contains("hush"));
        let other = ("CLOUDSDK_AUTH_ACCESS_TOKEN", "also");
        assert_eq!(with(&[token, other], None).expect("both").token.as_deref(), Some("hush"));
        let error = with(&[other], Some("http://store.example")).expect_err("in clear");
        assert!(error.kind == ErrorKind::Usage && !error.message.contains("also"), "{error}");
        assert!(with(&[("STORAGE_EMULATOR_HOST", "localhost:9")], None).is_ok());
        assert!(with(&[], Some("ftp://x")).is_err());
    }
}
