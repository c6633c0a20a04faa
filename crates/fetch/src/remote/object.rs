//! Objects in buckets as URLs.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use tidegate_transfer::error::{Error, ErrorKind, Result};
use url::Url;

use super::shown;

/// How URLs of S3 begin, and how they name a version.
const S3: &str = "s3";
const S3_VERSION: &str = "versionId";

/// What stays as it is in a key that is shown as a URL.
pub(super) const KEPT: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// An object, or with an empty key or a slash at the end what lies beneath.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// The bucket.
    pub bucket: String,
    /// The key, decoded; does not begin with a slash of its own unless the URL has two.
    pub key: String,
    /// One of its versions, if not the latest.
    pub version: Option<String>,
}

impl Object {
    /// Reads `s3://bucket/key`. A key is percent-encoded as in any URL: `?` is `%3F`, `%` is `%25`.
    pub fn of(url: &Url) -> Result<Self> {
        Self::read(url, S3, S3_VERSION)
    }

    /// The same of another store's URLs, which begin with `scheme` and name a version by the parameter `version_name`.
    pub(super) fn read(url: &Url, scheme: &str, version_name: &str) -> Result<Self> {
        let refuse = |why: &str| Err(Error::new(ErrorKind::Usage, format!("{}: {why}", shown(url))));
        if url.scheme() != scheme {
            return refuse(&format!("no {scheme}://bucket/key"));
        }
        let Some(bucket) = url.host_str().filter(|bucket| !bucket.is_empty()) else {
            return refuse(&format!("the bucket is missing: {scheme}://bucket/key"));
        };
        if !url.username().is_empty() || url.port().is_some() {
            return refuse(&format!(
                "keys and servers do not belong into the URL: use the environment and --{scheme}-endpoint",
            ));
        }
        let path = url.path().strip_prefix('/').unwrap_or_default();
        let Ok(key) = percent_decode_str(path).decode_utf8() else {
            return refuse("keys are UTF-8");
        };
        let version = url.query_pairs().find(|(name, _)| name == version_name);
        let version = version.map(|(_, value)| value.into_owned());
        if version.is_none() && url.query().is_some() {
            return refuse("a '?' in a key is written %3F");
        }
        if url.fragment().is_some() {
            return refuse("a '#' in a key is written %23");
        }
        Ok(Self { bucket: bucket.to_owned(), key: key.into_owned(), version })
    }

    /// `s3://bucket/key`.
    pub fn url(&self) -> Result<Url> {
        self.url_as(S3, S3_VERSION)
    }

    /// The same as another store writes it.
    pub(super) fn url_as(&self, scheme: &str, version_name: &str) -> Result<Url> {
        let version = self.version.as_ref();
        let version = version.map(|v| format!("?{version_name}={}", utf8_percent_encode(v, KEPT)));
        let text = format!(
            "{scheme}://{}/{}{}",
            self.bucket,
            utf8_percent_encode(&self.key, KEPT),
            version.unwrap_or_default()
        );
        // What the URL's rules would change cannot be said in one: a key of `a/../b`.
        Url::parse(&text).ok().filter(|url| url.as_str() == text).ok_or_else(|| {
            Error::new(ErrorKind::UnsafeName, format!("the key {:?} cannot be written as a URL", self.key))
        })
    }

    /// Another key in the same bucket.
    pub(crate) fn with_key(&self, key: impl Into<String>) -> Self {
        Self { bucket: self.bucket.clone(), key: key.into(), version: None }
    }
}
