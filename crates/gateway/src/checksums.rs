//! What vouches for a body: the sums that its headers, or the lines behind it, say.

use axum::http::HeaderMap;
use data_encoding::{BASE64, HEXLOWER_PERMISSIVE};
use tidegate_fetch::checksum::{Algorithm, Hashers};

use crate::refusal::{Answer, Refusal};

/// How S3 names the sum of a header or of a trailer.
const AMAZON: &str = "x-amz-checksum-";

/// A kind of sum, by the names of S3 and of RFC 9530 and those before it.
fn named(name: &str) -> Option<Algorithm> {
    match name.to_ascii_lowercase().as_str() {
        "sha" => Some(Algorithm::Sha1),
        name => name.parse().ok(),
    }
}

/// The sums that a body must have, and those that it has so far.
#[derive(Debug)]
pub struct Checksums {
    expected: Vec<(Algorithm, Vec<u8>)>,
    /// What a line behind the body will tell.
    trailer: Option<Algorithm>,
    known: Hashers,
}

/// Sums that a body was held to, and has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verified(Vec<(Algorithm, Vec<u8>)>);

/// What a header says the sum of an object is that is made of parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObjectSum {
    kind: Algorithm,
    bytes: Vec<u8>,
    /// Whether it can only be one of the sums of the parts.
    of_parts: bool,
}

fn unreadable(name: &str) -> Refusal {
    Refusal::senseless(format!("the checksum in {name} cannot be read")).called("InvalidDigest")
}

/// A body, or an object, is something else than was said.
fn differs() -> Refusal {
    Refusal::senseless("the body is not what its checksum says: send it again").called("BadDigest")
}

/// The sum that `text` is, in base64.
fn decoded(sum: Algorithm, text: &str, name: &str) -> Answer<(Algorithm, Vec<u8>)> {
    let bytes = BASE64.decode(text.trim().as_bytes()).ok().filter(|bytes| bytes.len() == sum.length());
    bytes.map(|bytes| (sum, bytes)).ok_or_else(|| unreadable(name))
}

impl Checksums {
    /// What `headers` say of the body; `payload` is what a signature says of it.
    pub fn read(headers: &HeaderMap, payload: Option<&str>) -> Answer<Self> {
        let mut all = Self::of_document(headers, payload)?;
        for (name, value) in headers {
            if let Some(kind) = name.as_str().strip_prefix(AMAZON).and_then(named) {
                all.expected.push(decoded(kind, value.to_str().unwrap_or_default(), name.as_str())?);
            }
        }
        let trailer = headers.get("x-amz-trailer").and_then(|value| value.to_str().ok());
        let trailer = trailer.and_then(|name| named(name.trim().strip_prefix(AMAZON)?));
        Ok(Self::expecting(all.expected, trailer))
    }

    /// The same for a document that completes an upload: S3's own headers speak of the object.
    pub(crate) fn of_document(headers: &HeaderMap, payload: Option<&str>) -> Answer<Self> {
        let mut expected = Vec::new();
        for (name, value) in headers {
            let (name, value) = (name.as_str(), value.to_str().unwrap_or_default());
            match name {
                "content-md5" => expected.push(decoded(Algorithm::Md5, value, name)?),
                "digest" | "repr-digest" | "content-digest" => {
                    for (kind, sum) in value.split(',').filter_map(|one| one.trim().split_once('=')) {
                        // One kind that is known is enough.
                        let Some(kind) = named(kind) else { continue };
                        expected.push(decoded(kind, sum.trim_matches(':'), name)?);
                    }
                }
                _ => {}
            }
        }
        let hex = payload.and_then(|payload| HEXLOWER_PERMISSIVE.decode(payload.as_bytes()).ok());
        if let Some(sum) = hex {
            let kind = Algorithm::Sha256;
            let sum = Some(sum).filter(|sum| sum.len() == kind.length());
            expected.push((kind, sum.ok_or_else(|| unreadable("x-amz-content-sha256"))?));
        }
        Ok(Self::expecting(expected, None))
    }

    fn expecting(expected: Vec<(Algorithm, Vec<u8>)>, trailer: Option<Algorithm>) -> Self {
        let mut known: Vec<Algorithm> = expected.iter().map(|(sum, _)| *sum).chain(trailer).collect();
        known.sort_unstable();
        known.dedup();
        Self { expected, trailer, known: Hashers::new(known) }
    }

    /// Whether anything says what the body must be.
    pub fn are_told(&self) -> bool {
        !self.expected.is_empty() || self.trailer.is_some()
    }

    /// Takes note of a line behind the body.
    pub fn hear(&mut self, name: &str, value: &str) {
        let Some(sum) = name.strip_prefix(AMAZON).and_then(named) else { return };
        if self.trailer == Some(sum) {
            self.trailer = None;
            // One that cannot be read is none that the body has.
            self.expected.push((sum, BASE64.decode(value.trim().as_bytes()).unwrap_or_default()));
        }
    }

    /// Takes the next bytes in.
    pub fn update(&mut self, bytes: &[u8]) {
        self.known.update(bytes);
    }

    /// Refuses a body that has other sums than it was said to have.
    pub fn check(self) -> Answer<Verified> {
        let Self { expected, trailer, known } = self;
        if trailer.is_some() {
            return Err(Refusal::senseless("the checksum that was to follow the body did not")
                .called("InvalidDigest"));
        }
        let known = known.finish();
        let holds = expected.iter().all(|(sum, bytes)| known.get(*sum) == Some(bytes));
        if holds { Ok(Verified(expected)) } else { Err(differs()) }
    }
}

impl Verified {
    /// Whether the body has the sum that an element of S3's documents says: `name` and base64. `None` if it was held to none of
    /// that kind.
    pub fn has(&self, name: &str, text: &str) -> Option<bool> {
        let kind = named(name.strip_prefix("Checksum")?)?;
        let told = BASE64.decode(text.trim().as_bytes()).unwrap_or_default();
        self.of(kind).map(|bytes| *bytes == told[..])
    }

    fn of(&self, kind: Algorithm) -> Option<&[u8]> {
        self.0.iter().find(|(known, _)| *known == kind).map(|(_, bytes)| &bytes[..])
    }
}

impl ObjectSum {
    /// What the headers of a request say that completes an upload.
    pub fn read(headers: &HeaderMap) -> Answer<Vec<Self>> {
        let kind = headers.get("x-amz-checksum-type").and_then(|value| value.to_str().ok());
        let composite = kind.is_some_and(|kind| kind.eq_ignore_ascii_case("composite"));
        let mut all = Vec::new();
        for (name, value) in headers {
            let Some(kind) = name.as_str().strip_prefix(AMAZON).and_then(named) else { continue };
            let value = value.to_str().unwrap_or_default();
            // Behind a sum of sums stands of how many parts.
            let (sum, of_parts) = match value.rsplit_once('-') {
                Some((sum, parts)) if parts.parse::<u32>().is_ok() => (sum, true),
                _ => (value, composite),
            };
            let (kind, bytes) = decoded(kind, sum, name.as_str())?;
            all.push(Self { kind, bytes, of_parts });
        }
        Ok(all)
    }

    /// Holds `document` and the sums of the parts to `all`; answers with what only the object's content can tell.
    pub fn check(all: Vec<Self>, document: &str, parts: &[&Verified]) -> Answer<Option<Checksums>> {
        let has = |sum: &Self, bytes: &[u8]| {
            let mut sums = Checksums::expecting(vec![(sum.kind, sum.bytes.clone())], None);
            sums.update(bytes);
            sums.check().is_ok()
        };
        let mut left = Vec::new();
        for sum in all {
            let of_parts = parts.iter().map(|part| part.of(sum.kind)).collect::<Option<Vec<_>>>();
            if of_parts.is_some_and(|sums| has(&sum, &sums.concat())) {
                continue;
            }
            if sum.of_parts {
                return Err(differs());
            }
            if !has(&sum, document.as_bytes()) {
                left.push((sum.kind, sum.bytes));
            }
        }
        Ok((!left.is_empty()).then(|| Checksums::expecting(left, None)))
    }
}

#[cfg(test)]
mod tests {
    use crc_fast::{CrcAlgorithm, Digest};

    use super::*;

    fn read(given: &[(&'static str, &str)], payload: Option<&str>) -> Answer<Checksums> {
        let headers = given.iter().map(|(n, v)| {
            (n.parse::<axum::http::HeaderName>().expect("a name"), v.parse().expect("a value"))
        });
        Checksums::read(&headers.collect(), payload)
    }

    #[test]
    fn each_way_to_vouch_for_a_body_is_held_to_its_word() {
        let (md5, sha256) = ("JfnnlDI7RTiF9RgfG2JNCw==", "FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU=");
        let hex = "15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225";
        let repr = format!("unixsum=:1:, sha-256=:{sha256}:");
        let digest = format!("MD5={md5},SHA-256={sha256}");
        for (given, payload) in [
            (vec![("content-md5", md5)], None),
            (vec![("repr-digest", &repr[..])], None),
            (vec![("digest", &digest[..])], None),
            (vec![("x-amz-checksum-crc32", "y/Q5Jg==")], None),
            (vec![("x-amz-checksum-crc32c", "4waSgw==")], None),
            (vec![("x-amz-checksum-crc64nvme", "rosUhgp5mIg=")], None),
            (vec![], Some(hex)),
        ] {
            for (body, holds) in [(&b"123456789"[..], true), (b"12345678", false)] {
                let mut sums = read(&given, payload).expect("read");
                assert!(sums.are_told(), "{given:?}");
                sums.update(body);
                assert_eq!(sums.check().is_ok(), holds, "{given:?}");
            }
        }
        for payload in [None, Some("UNSIGNED-PAYLOAD"), Some("STREAMING-UNSIGNED-PAYLOAD-TRAILER")] {
            assert!(!read(&[("repr-digest", "unixsum=:1:")], payload).expect("read").are_told());
        }
        for bad in [("content-md5", "x"), ("x-amz-checksum-sha256", md5), ("repr-digest", "sha-256=:AA==:")] {
            assert_eq!(read(&[bad], None).expect_err("unreadable").code, "InvalidDigest");
        }
    }

    #[test]
    fn the_sum_of_an_object_is_one_of_its_content_or_of_the_sums_of_its_parts() {
        let sum = |kind: &str, bytes: &[u8]| {
            let mut hashers = Hashers::new([Algorithm::Sha256]);
            hashers.update(bytes);
            let sha256 = hashers.finish().get(Algorithm::Sha256).expect("made").to_vec();
            let mut crc = Digest::new(CrcAlgorithm::Crc32IsoHdlc);
            crc.update(bytes);
            if kind == "sha256" { sha256 } else { (crc.finalize() as u32).to_be_bytes().to_vec() }
        };
        let parts = |kind: &str| {
            [&b"one"[..], b"two"].map(|part| {
                let told = BASE64.encode(&sum(kind, part));
                let name = format!("x-amz-checksum-{kind}");
                let mut sums = read(&[(Box::leak(name.into_boxed_str()), &told)], None).expect("read");
                sums.update(part);
                sums.check().expect("it holds")
            })
        };
        for kind in ["sha256", "crc32"] {
            let verified = parts(kind);
            let both: Vec<&Verified> = verified.iter().collect();
            let element = format!("Checksum{}", kind.to_uppercase());
            assert_eq!(verified[0].has(&element, &BASE64.encode(&sum(kind, b"one"))), Some(true));
            assert_eq!(verified[0].has(&element, &BASE64.encode(&sum(kind, b"two"))), Some(false));
            assert_eq!(verified[0].has("ChecksumSHA1", "x"), None);
            let check = |value: &str, more: &[(&'static str, &str)], parts: &[&Verified]| {
                let name: &'static str =
                    if kind == "sha256" { "x-amz-checksum-sha256" } else { "x-amz-checksum-crc32" };
                let headers = [&[(name, value)], more].concat();
                let headers = headers.iter().map(|(n, v)| {
                    (n.parse::<axum::http::HeaderName>().expect("a name"), v.parse().expect("a value"))
                });
                let mut left = ObjectSum::check(ObjectSum::read(&headers.collect())?, "document", parts)?;
                if let Some(sums) = &mut left {
                    sums.update(b"onetwo");
                }
                left.map_or(Ok(()), |sums| sums.check().map(drop))
            };
            let of_sums = BASE64.encode(&sum(kind, &[sum(kind, b"one"), sum(kind, b"two")].concat()));
            let composite = [("x-amz-checksum-type", "COMPOSITE")];
            check(&of_sums, &[], &both).expect("of its parts");
            check(&format!("{of_sums}-2"), &composite, &both).expect("of its parts");
            check(&BASE64.encode(&sum(kind, b"onetwo")), &[], &both).expect("of its content");
            check(&BASE64.encode(&sum(kind, b"onetwo")), &[], &[&Verified::default()])
                .expect("of its content");
            check(&BASE64.encode(&sum(kind, b"document")), &[], &both).expect("of what was sent");
            check(&BASE64.encode(&sum(kind, b"other")), &[], &both).expect_err("of nothing");
            check(&BASE64.encode(&sum(kind, b"onetwo")), &composite, &both).expect_err("not of its parts");
            check(&of_sums, &[], &[&verified[1], &verified[0]]).expect_err("in another order");
            check("x", &[], &both).expect_err("unreadable");
        }
    }

    #[test]
    fn a_trailer_that_was_announced_must_come() {
        let announced = || read(&[("x-amz-trailer", "x-amz-checksum-crc32")], None).expect("read");
        announced().check().expect_err("it did not");
        for (value, holds) in [("y/Q5Jg==", true), ("y/Q5Jw==", false), ("?", false)] {
            let mut sums = announced();
            sums.update(b"123456789");
            sums.hear("x-amz-checksum-sha256", "?");
            sums.hear("x-amz-checksum-crc32", value);
            assert_eq!(sums.check().is_ok(), holds, "{value}");
        }
    }
}
