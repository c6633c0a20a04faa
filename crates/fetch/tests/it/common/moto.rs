//! An S3 server on loopback, and the settings that lead to it.

pub use testkit::moto::{Moto, NO_MOTO};
use tidegate_fetch::remote::s3::place::{Object, Signer};
use tidegate_fetch::remote::s3_credentials::Credentials;
use tidegate_fetch::remote::s3_settings::{S3Settings, endpoint};
use tidegate_fetch::remote::servers::ServerSettings;
use url::Url;

/// A server that has settings.
pub trait Configured {
    /// Settings for it, with keys that sign.
    fn settings(&self) -> ServerSettings;
}

impl Configured for Moto {
    fn settings(&self) -> ServerSettings {
        settings(&self.endpoint(), true)
    }
}

/// Settings for the S3 server at `url`.
pub fn settings(url: &str, signed: bool) -> ServerSettings {
    let credentials = signed.then(|| Credentials {
        key: "AKIAIOSFODNN7EXAMPLE".to_owned(),
        secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_owned(),
        token: None,
    });
    let s3 = S3Settings { endpoint: endpoint(url).ok(), credentials, ..S3Settings::default() };
    ServerSettings { timeout: std::time::Duration::from_secs(20), s3: Some(s3), ..ServerSettings::default() }
}

/// The object `key` in `bucket`.
pub fn object(key: &str) -> Object {
    Object { bucket: "bucket".to_owned(), key: key.to_owned(), version: None }
}

/// Its URL.
pub fn url(key: &str) -> Url {
    object(key).url().expect("a URL")
}

/// Who signs with `settings`.
pub fn signer(settings: &ServerSettings) -> Signer {
    Signer::new(settings.s3.clone().unwrap_or_default())
}
