//! Buckets and keys as URLs, and requests to them signed. The signature goes into the query, so a
//! signed URL is a secret for as long as it is valid: it is neither logged nor put into an error.

use std::collections::HashMap;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rusty_s3::{Bucket, Method, UrlStyle};
use tidegate_transfer::error::{Error, ErrorKind, Result};
use tidegate_transfer::sys::sync::Mutex;
use url::Url;

pub use crate::remote::object::Object;
use crate::remote::s3_settings::{S3Settings, Style, endpoint};

/// How long a signed request is valid: servers look when it begins.
const VALID_SECONDS: u64 = 900;

/// Signs requests, and remembers in which region a bucket turned out to lie.
#[derive(Debug)]
pub struct Signer {
    settings: S3Settings,
    /// One short entry for each bucket named on the command line or in a list.
    regions: Mutex<HashMap<String, String>>,
}

impl Signer {
    /// A signer.
    pub fn new(settings: S3Settings) -> Self {
        Self { settings, regions: Mutex::default() }
    }

    /// Its settings.
    pub const fn settings(&self) -> &S3Settings {
        &self.settings
    }

    /// The region of `bucket`, as far as known.
    pub fn region(&self, bucket: &str) -> String {
        let regions = self.regions.lock();
        let set = || self.settings.region.clone().unwrap_or_else(|| "us-east-1".to_owned());
        regions.get(bucket).cloned().unwrap_or_else(set)
    }

    /// The server says that `bucket` lies in `region`; whether that is news.
    pub fn learn(&self, bucket: &str, region: &str) -> bool {
        let plausible = !region.is_empty()
            && region.len() < 64
            && region.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        if !plausible || self.region(bucket) == region {
            return false;
        }
        let mut regions = self.regions.lock();
        regions.insert(bucket.to_owned(), region.to_owned());
        true
    }

    /// The server that `bucket` is asked for at.
    pub fn server(&self, bucket: &str) -> Result<Url> {
        match &self.settings.endpoint {
            Some(endpoint) => Ok(endpoint.clone()),
            None => endpoint(&format!("https://s3.{}.amazonaws.com", self.region(bucket))),
        }
    }

    fn bucket(&self, name: &str) -> Result<Bucket> {
        let (endpoint, region) = (self.server(name)?, self.region(name));
        let is_label = |name: &str| {
            let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
            name.bytes().all(fits) && name.len() <= 63
        };
        let style = match self.settings.style {
            Some(Style::Path) => UrlStyle::Path,
            Some(Style::Virtual) => UrlStyle::VirtualHost,
            None if self.settings.endpoint.is_none() && is_label(name) => UrlStyle::VirtualHost,
            None => UrlStyle::Path,
        };
        Bucket::new(endpoint, style, name.to_owned(), region).map_err(|_| {
            Error::new(ErrorKind::Usage, format!("the bucket {name:?} cannot be a part of a host's name"))
        })
    }

    /// The URL of a request, signed if we have credentials. `headers` must be sent as they are; their
    /// names are in lower case and sorted. `query` is sorted by name.
    pub fn url(
        &self,
        method: Method,
        object: &Object,
        query: &[(&str, &str)],
        headers: &[(String, String)],
    ) -> Result<Url> {
        self.url_at(jiff::Timestamp::now(), method, object, query, headers)
    }

    fn url_at(
        &self,
        now: jiff::Timestamp,
        method: Method,
        object: &Object,
        query: &[(&str, &str)],
        headers: &[(String, String)],
    ) -> Result<Url> {
        let dots = |name: &str| matches!(name, "." | "..");
        if object.key.split('/').any(dots) {
            let why = format!("the key {:?} has a part that no URL can carry", object.key);
            return Err(Error::new(ErrorKind::UnsafeName, why));
        }
        let bucket = self.bucket(&object.bucket)?;
        let mut url = bucket.object_url(&object.key);
        let mut query = query.to_vec();
        if let Some(version) = &object.version {
            query.push(("versionId", version));
            query.sort_unstable();
        }
        let Some(who) = &self.settings.credentials else {
            let pair = |(name, value): &(&str, &str)| match value.is_empty() {
                true => (*name).to_owned(),
                false => format!("{name}={}", utf8_percent_encode(value, NON_ALPHANUMERIC)),
            };
            let text = query.iter().map(pair).collect::<Vec<_>>().join("&");
            url.set_query((!text.is_empty()).then_some(&text));
            return Ok(url);
        };
        Ok(rusty_s3::signing::sign(
            &now,
            method,
            url,
            &who.key,
            &who.secret,
            who.token.as_deref(),
            bucket.region(),
            VALID_SECONDS,
            query.iter().copied(),
            headers.iter().map(|(name, value)| (name.as_str(), value.as_str())),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote::s3_credentials::Credentials;

    fn object(url: &str) -> Object {
        Object::of(&Url::parse(url).expect("a URL")).expect("an object")
    }

    fn signer(credentials: bool) -> Signer {
        // The example key of AWS' documentation.
        let credentials = credentials.then(|| Credentials {
            key: "AKIAIOSFODNN7EXAMPLE".to_owned(),
            secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_owned(),
            token: None,
        });
        Signer::new(S3Settings { credentials, ..S3Settings::default() })
    }

    #[test]
    fn keys_survive_their_urls() {
        for key in ["a", "a b+c%d?e#f&g=h", "größe/日本", "a//b", "trailing/", "~-_.'()*!", "tab\there", ""]
        {
            let place = Object { bucket: "b".to_owned(), key: key.to_owned(), version: None };
            let url = place.url().expect("a URL");
            assert_eq!(Object::of(&url).expect("read back"), place, "{url}");
        }
        assert!(object("s3://b/x").with_key("a/../b").url().is_err());
        assert_eq!(object("s3://b/k?versionId=7").version.as_deref(), Some("7"));
        for bad in ["http://b/k", "s3:///k", "s3://b/k?x", "s3://b/k#x", "s3://me:pw@b/k", "s3://b/%ff"] {
            let url = Url::parse(bad).expect("a URL");
            let error = Object::of(&url).expect_err(bad);
            assert!(!error.message.contains("pw"), "{error}");
        }
    }

    #[test]
    fn the_bucket_stands_where_it_may() {
        let place = |signer: &Signer, bucket: &str| {
            let object = Object { bucket: bucket.to_owned(), key: "a/b c".to_owned(), version: None };
            signer.url(Method::Get, &object, &[], &[]).expect("a URL").to_string()
        };
        let amazon = signer(false);
        assert_eq!(place(&amazon, "plain"), "https://plain.s3.us-east-1.amazonaws.com/a/b%20c");
        assert_eq!(place(&amazon, "do.ts"), "https://s3.us-east-1.amazonaws.com/do.ts/a/b%20c");
        assert!(amazon.learn("plain", "eu-west-1"));
        assert!(!amazon.learn("plain", "eu-west-1") && !amazon.learn("plain", "evil.example/"));
        assert_eq!(place(&amazon, "plain"), "https://plain.s3.eu-west-1.amazonaws.com/a/b%20c");
        let own = S3Settings { endpoint: endpoint("http://127.0.0.1:9000").ok(), ..S3Settings::default() };
        assert_eq!(place(&Signer::new(own), "plain"), "http://127.0.0.1:9000/plain/a/b%20c");
        let parts =
            signer(false).url(Method::Get, &object("s3://b/k"), &[("partNumber", "1"), ("uploads", "")], &[]);
        assert!(parts.expect("a URL").as_str().ends_with("/k?partNumber=1&uploads"));
        assert!(endpoint("ftp://x").is_err() && endpoint("host:99999").is_err());
    }

    /// The example in AWS' page on signing by query parameters, whose request is valid for a day.
    #[test]
    fn a_known_request_gets_its_known_signature() {
        let url = rusty_s3::signing::sign(
            &"2013-05-24T00:00:00Z".parse().expect("a time"),
            Method::Get,
            Url::parse("https://examplebucket.s3.amazonaws.com/test.txt").expect("a URL"),
            "AKIAIOSFODNN7EXAMPLE",
            "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
            None,
            "us-east-1",
            86400,
            std::iter::empty(),
            std::iter::empty(),
        );
        let signature = "X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404";
        assert!(url.as_str().ends_with(signature), "{url}");
    }

    /// What we sign is what the rules say, computed here by hand with other code.
    #[test]
    fn queries_and_headers_are_covered_by_the_signature() {
        use hmac::{Hmac, KeyInit, Mac};
        use sha2::{Digest, Sha256};
        let signer = signer(true);
        let headers =
            [("content-md5".to_owned(), "MTIz".to_owned()), ("x-amz-meta-a".to_owned(), "b c".to_owned())];
        let query = [("partNumber", "3"), ("uploadId", "a+b/c=")];
        let now = "2026-01-02T03:04:05Z".parse().expect("a time");
        let url =
            signer.url_at(now, Method::Put, &object("s3://bucket/a%20b+c"), &query, &headers).expect("a URL");
        let (signed, signature) =
            url.query().expect("a query").rsplit_once("&X-Amz-Signature=").expect("a signature");
        assert!(signed.contains("partNumber=3") && signed.contains("uploadId=a%2Bb%2Fc%3D"), "{signed}");
        assert!(signed.contains("X-Amz-SignedHeaders=content-md5%3Bhost%3Bx-amz-meta-a"), "{signed}");
        let canonical = format!(
            "PUT\n/a%20b%2Bc\n{signed}\ncontent-md5:MTIz\nhost:bucket.s3.us-east-1.amazonaws.com\n\
             x-amz-meta-a:b c\n\ncontent-md5;host;x-amz-meta-a\nUNSIGNED-PAYLOAD"
        );
        let hex = |bytes: &[u8]| data_encoding::HEXLOWER.encode(bytes);
        let scope = "20260102/us-east-1/s3/aws4_request";
        let to_sign = format!(
            "AWS4-HMAC-SHA256\n20260102T030405Z\n{scope}\n{}",
            hex(&Sha256::digest(canonical.as_bytes()))
        );
        let mac = |key: &[u8], text: &str| {
            let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("any key");
            mac.update(text.as_bytes());
            mac.finalize().into_bytes().to_vec()
        };
        let mut key = b"AWS4wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_vec();
        for part in ["20260102", "us-east-1", "s3", "aws4_request"] {
            key = mac(&key, part);
        }
        assert_eq!(signature, hex(&mac(&key, &to_sign)));
    }

    /// The same request with a session token, as botocore 1.44 signs it.
    #[test]
    fn a_session_token_is_signed_as_others_sign_it() {
        let mut settings = signer(true).settings().clone();
        if let Some(who) = &mut settings.credentials {
            who.token = Some("tok/en+=".to_owned());
        }
        let headers =
            [("content-md5".to_owned(), "MTIz".to_owned()), ("x-amz-meta-a".to_owned(), "b c".to_owned())];
        let query = [("partNumber", "3"), ("uploadId", "a+b/c=")];
        let now = "2026-01-02T03:04:05Z".parse().expect("a time");
        let place = object("s3://bucket/a%20b+c");
        let url = Signer::new(settings).url_at(now, Method::Put, &place, &query, &headers).expect("a URL");
        let signature = "9d91671392f08fdf8ff50263ab8f7e36a62805b8afa7d66a6ef0d4a0ad18ad6b";
        assert!(url.as_str().ends_with(signature), "{url}");
    }
}
