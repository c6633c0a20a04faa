//! URLs and the names they stand for.

use std::net::Ipv4Addr;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};
use tidegate_contract::redact;
use tidegate_transfer::error::{Error, ErrorKind, Result};
use tidegate_transfer::path::RelPath;
use url::Url;

/// What can be fetched.
pub const SCHEMES: [&str; 8] = ["http", "https", "ftp", "ftps", "sftp", "s3", "gs", "file"];

/// Everything but what RFC 3986 calls unreserved, and `/`.
const IN_PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// Reads a URL that can be fetched. The error does not repeat what may be secret in it.
pub fn url(text: &str) -> Result<Url> {
    let refuse = |why: String| Error::new(ErrorKind::Usage, format!("{}: {why}", redact::public_text(text)));
    let url = Url::parse(text).map_err(|error| refuse(error.to_string()))?;
    if !SCHEMES.contains(&url.scheme()) {
        return Err(refuse(format!("{}: cannot be fetched; there are {}", url.scheme(), SCHEMES.join(", "))));
    }
    if url.scheme() != "file" && url.host_str().is_none_or(str::is_empty) {
        return Err(refuse("it names no host".to_owned()));
    }
    Ok(url)
}

/// Whether `text` is `HOST/PATH`, as ENA writes addresses: a host's name with a dot and an ending of letters, or an IPv4
/// address, then a path.
pub fn is_host_and_path(text: &str) -> bool {
    let Some((place, path)) = text.split_once('/') else { return false };
    let (host, port) = place.split_once(':').unwrap_or((place, "80"));
    let is_label = |label: &str| {
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        !label.is_empty() && !label.starts_with('-') && label.chars().all(fits)
    };
    let ending = host.rsplit('.').next().unwrap_or_default();
    let is_name = host.contains('.')
        && host.split('.').all(is_label)
        && ending.len() > 1
        && ending.chars().all(|c| c.is_ascii_alphabetic());
    !path.is_empty() && port.parse::<u16>().is_ok() && (is_name || host.parse::<Ipv4Addr>().is_ok())
}

/// The name of the file at `url`: what follows the last slash, decoded, without the query.
pub(crate) fn path_of(url: &Url) -> Result<RelPath> {
    let segment = url.path().rsplit('/').next().unwrap_or_default();
    let decoded: Vec<u8> = percent_decode_str(segment).collect();
    // Object stores' links carry a whole path as one segment, its slashes encoded.
    let name = decoded.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    if name.is_empty() {
        let why = format!("{}: names no file: it ends in a slash", public(url));
        return Err(Error::new(ErrorKind::UnsafeName, why));
    }
    RelPath::new(name).map_err(|error| error.within(public(url)))
}

/// The URL of `path` beneath `base`, whose query is kept.
pub fn beneath(base: &Url, path: &RelPath) -> Result<Url> {
    let mut url = base.clone();
    if !url.path().ends_with('/') {
        url.set_path(&format!("{}/", base.path()));
    }
    let query = base.query().map(str::to_owned);
    let encoded = percent_encode(path.as_bytes(), IN_PATH).to_string();
    let mut url = url
        .join(&encoded)
        .map_err(|error| Error::new(ErrorKind::Usage, format!("{}: {error}", public(base))))?;
    url.set_query(query.as_deref());
    Ok(url)
}

/// A URL for people and logs: without user, password, query and fragment.
pub fn public(url: &Url) -> String {
    redact::public_text(url.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_stands_for_its_last_name() {
        for (text, name) in [
            ("https://host/a/b.txt?key=1#x", "b.txt"),
            ("ftp://host/a%20b", "a b"),
            ("https://host/o/deep%2Fer%2Ffile?alt=media", "file"),
            ("s3://bucket/key", "key"),
            ("file:///etc/hosts", "hosts"),
            ("https://host/100%25", "100%"),
        ] {
            assert_eq!(path_of(&url(text).expect(text)).expect(text).as_bytes(), name.as_bytes());
        }
        for text in
            ["https://host/", "https://host", "https://host/a/", "https://host/%2e%2e", "https://h/a%2F"]
        {
            let error = path_of(&url(text).expect(text)).expect_err(text);
            assert_eq!(error.kind, ErrorKind::UnsafeName);
        }
        for text in ["SRR1", "htp://x/y", "mailto:a@b", "http://", "javascript:1", "magnet:?xt=1"] {
            assert_eq!(url(text).expect_err(text).kind, ErrorKind::Usage);
        }
    }

    #[test]
    fn an_address_without_a_scheme_is_told_from_a_path() {
        for text in ["ftp.sra.ebi.ac.uk/vol1/a", "host.org:8080/a", "127.0.0.1:21/a", "a_b.example.com/x?y"] {
            assert!(is_host_and_path(text), "{text}");
        }
        for text in [
            "./a.txt",
            "../a/b",
            "/a.b/c",
            "dir/a.b",
            "host.org",
            "host.org/",
            "v1.2/x",
            "a..org/x",
            "-a.org/x",
            "host.org:x/a",
            "host.org:99999/a",
            "SRR1",
            "a@host.org/x",
            "",
        ] {
            assert!(!is_host_and_path(text), "{text}");
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        for (text, shown) in [
            ("https://me:secret@host/a?token=secret#secret", "https://host/a?…"),
            ("ftp://me:se/cret", "ftp://me:se/cret"),
            ("https://a:secret@b:secret@host:x/a", "https://host:x/a"),
            ("no URL\x1b", "no URL\\x1b"),
        ] {
            assert_eq!(redact::public_text(text), shown);
        }
        let error = url("https://me:secret@host:port/?secret").expect_err("no port");
        assert!(!error.message.contains("secret"), "{error}");
    }

    #[test]
    fn names_beneath_a_base_come_back() {
        let base = Url::parse("https://host/d%20d/x?sig=1").expect("a URL");
        for name in ["a b", "100%", "what?", "x#y", "é/ü", "a:b", "\\", "a//".trim_end_matches('/')] {
            let path = RelPath::new(name).expect("a path");
            let url = beneath(&base, &path).expect("a URL");
            assert!(
                url.as_str().starts_with("https://host/d%20d/x/") && url.query() == Some("sig=1"),
                "{url}"
            );
            let last = RelPath::new(path.split().1).expect("a name");
            assert_eq!(path_of(&url), Ok(last));
        }
    }
}
