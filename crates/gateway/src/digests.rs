//! The digests that clients want of a file: by `Want-Digest` (RFC 3230) or by `Want-Repr-Digest` (RFC 9530).

use axum::http::header::ETAG;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::Response;
use data_encoding::{BASE64, HEXLOWER};
use tidegate_fetch::checksum::Algorithm;

use crate::hashes::HashKind;
use crate::validators::Validators;

/// A digest that is wanted, and how it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WantedDigest {
    /// What is to be computed.
    pub kind: HashKind,
    name: &'static str,
    /// By the newer of the two headers.
    is_field: bool,
}

/// Those that are computed, by their names in both registries.
const KINDS: [(&str, HashKind, bool); 6] = [
    ("sha-256", HashKind::Of(Algorithm::Sha256), true),
    ("sha-512", HashKind::Of(Algorithm::Sha512), true),
    ("sha", HashKind::Of(Algorithm::Sha1), true),
    ("md5", HashKind::Of(Algorithm::Md5), true),
    ("adler32", HashKind::Adler32, false),
    ("adler", HashKind::Adler32, true),
];

impl WantedDigest {
    /// The one of those that a request asks for which it likes best; `None` if it asks for none that is known.
    pub fn read(headers: &HeaderMap) -> Option<Self> {
        let best = |name: &str, is_field: bool| {
            let lines = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
            let wanted = lines.flat_map(|line| line.split(',')).filter_map(|one| liked(one, is_field));
            wanted.reduce(|best, one| if one.0 > best.0 { one } else { best }).map(|(_, wanted)| wanted)
        };
        best("want-repr-digest", true).or_else(|| best("want-digest", false))
    }

    /// Tells `sum` in the head of an answer, if that speaks of the same `version` of the file.
    pub fn write(&self, response: &mut Response, sum: &[u8], version: &Validators) {
        let is_same =
            response.headers().get(ETAG).is_some_and(|tag| tag.as_bytes() == version.tag.as_bytes());
        let (header, text) = match (self.is_field, self.kind) {
            (true, _) => ("repr-digest", format!("{}=:{}:", self.name, BASE64.encode(sum))),
            (false, HashKind::Adler32) => ("digest", format!("{}={}", self.name, HEXLOWER.encode(sum))),
            (false, HashKind::Of(_)) => ("digest", format!("{}={}", self.name, BASE64.encode(sum))),
        };
        if let Ok(value) = HeaderValue::from_str(&text)
            && is_same
        {
            response.headers_mut().insert(HeaderName::from_static(header), value);
        }
    }
}

/// How much one digest of a list is liked, in thousandths; `None` if it is not known or not acceptable.
fn liked(one: &str, is_field: bool) -> Option<(u32, WantedDigest)> {
    let (name, weight) = match is_field {
        // Integers from 0, which is not acceptable, to 10.
        true => {
            let (name, weight) = one.split_once('=')?;
            (name, weight.trim().parse::<u32>().ok().filter(|weight| *weight <= 10)? * 100)
        }
        false => {
            let mut parts = one.split(';');
            let name = parts.next()?;
            let weight =
                parts.find_map(|part| part.trim().strip_prefix("q=")).map_or(Some(1.0), |q| q.parse().ok());
            (name, (weight.filter(|weight: &f64| (0.0..=1.0).contains(weight))? * 1000.0) as u32)
        }
    };
    let is_named =
        |known: &&(&str, HashKind, bool)| name.trim().eq_ignore_ascii_case(known.0) && (known.2 || !is_field);
    let (name, kind, _) = KINDS.iter().find(is_named)?;
    (weight > 0).then_some((weight, WantedDigest { kind: *kind, name, is_field }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_that_is_liked_best_is_told() {
        let wanted = |name: &'static str, value: &str| {
            let value = HeaderValue::from_str(value).expect("a value");
            WantedDigest::read(&HeaderMap::from_iter([(HeaderName::from_static(name), value)]))
                .map(|wanted| (wanted.name, wanted.is_field))
        };
        let old = |value: &str| wanted("want-digest", value);
        assert_eq!(old("adler32"), Some(("adler32", false)));
        assert_eq!(old("MD5;q=0.3, SHA-256;q=0.9, unixsum"), Some(("sha-256", false)));
        assert_eq!(old("md5, adler32"), Some(("md5", false)));
        assert_eq!([old("unixsum"), old(""), old("md5;q=0"), old("md5;q=2"), old("md5;q=x")], [None; 5]);
        let new = |value: &str| wanted("want-repr-digest", value);
        assert_eq!(new("sha-512=3, sha-256=10, unixsum=1"), Some(("sha-256", true)));
        assert_eq!([new("sha-256"), new("sha-256=0"), new("sha-256=11"), new("adler32=1")], [None; 4]);
        assert_eq!(new("adler=1"), Some(("adler", true)));
    }
}
