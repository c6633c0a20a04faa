//! What vouches for a body: the sums that its headers, or the lines behind it, say.

use axum::http::{HeaderMap, StatusCode};
use crc_fast::{CrcAlgorithm, Digest};
use data_encoding::{BASE64, HEXLOWER_PERMISSIVE};
use tidegate_fetch::checksum::{Algorithm, Hashers};

use crate::refusal::{Answer, Refusal};

/// How S3 names the sum of a header or of a trailer.
const AMAZON: &str = "x-amz-checksum-";

/// A kind of sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sum {
    Known(Algorithm),
    Crc32,
    Crc64Nvme,
}

impl Sum {
    /// By the names of S3 and of RFC 9530 and those before it.
    fn named(name: &str) -> Option<Self> {
        Some(match &name.to_ascii_lowercase()[..] {
            "crc32" => Self::Crc32,
            "crc64nvme" => Self::Crc64Nvme,
            "crc32c" => Self::Known(Algorithm::Crc32c),
            "md5" => Self::Known(Algorithm::Md5),
            "sha" | "sha1" | "sha-1" => Self::Known(Algorithm::Sha1),
            "sha256" | "sha-256" => Self::Known(Algorithm::Sha256),
            "sha512" | "sha-512" => Self::Known(Algorithm::Sha512),
            _ => return None,
        })
    }

    fn length(self) -> usize {
        match self {
            Self::Known(algorithm) => algorithm.length(),
            Self::Crc32 => 4,
            Self::Crc64Nvme => 8,
        }
    }
}

/// The sums that a body must have, and those that it has so far.
#[derive(Debug)]
pub struct Checksums {
    expected: Vec<(Sum, Vec<u8>)>,
    /// What a line behind the body will tell.
    trailer: Option<Sum>,
    known: Hashers,
    crc32: Digest,
    crc64: Digest,
}

impl Checksums {
    /// What `headers` say of the body; `payload` is what a signature says of it.
    pub fn read(headers: &HeaderMap, payload: Option<&str>) -> Answer<Self> {
        let mut expected = Vec::new();
        let mut add = |sum: Sum, bytes: Option<Vec<u8>>, name: &str| {
            let bytes = bytes.filter(|bytes| bytes.len() == sum.length()).ok_or_else(|| {
                Refusal::senseless(format!("the checksum in {name} cannot be read")).called("InvalidDigest")
            })?;
            expected.push((sum, bytes));
            Ok::<_, Refusal>(())
        };
        let base64 = |text: &str| BASE64.decode(text.trim().as_bytes()).ok();
        for (name, value) in headers {
            let (name, value) = (name.as_str(), value.to_str().unwrap_or_default());
            match name {
                "content-md5" => add(Sum::Known(Algorithm::Md5), base64(value), name)?,
                "digest" | "repr-digest" | "content-digest" => {
                    for (kind, sum) in value.split(',').filter_map(|one| one.trim().split_once('=')) {
                        // One kind that is known is enough.
                        let Some(kind) = Sum::named(kind) else { continue };
                        add(kind, base64(sum.trim_matches(':')), name)?;
                    }
                }
                _ => {
                    if let Some(kind) = name.strip_prefix(AMAZON).and_then(Sum::named) {
                        add(kind, base64(value), name)?;
                    }
                }
            }
        }
        let hex = payload.and_then(|payload| HEXLOWER_PERMISSIVE.decode(payload.as_bytes()).ok());
        if let Some(sum) = hex {
            add(Sum::Known(Algorithm::Sha256), Some(sum), "x-amz-content-sha256")?;
        }
        let trailer = headers.get("x-amz-trailer").and_then(|value| value.to_str().ok());
        let trailer = trailer.and_then(|name| Sum::named(name.trim().strip_prefix(AMAZON)?));
        let all = expected.iter().map(|(sum, _)| *sum).chain(trailer);
        let mut known: Vec<Algorithm> = all
            .filter_map(|sum| match sum {
                Sum::Known(algorithm) => Some(algorithm),
                Sum::Crc32 | Sum::Crc64Nvme => None,
            })
            .collect();
        known.sort_unstable();
        known.dedup();
        let (crc32, crc64) = (Digest::new(CrcAlgorithm::Crc32IsoHdlc), Digest::new(CrcAlgorithm::Crc64Nvme));
        Ok(Self { expected, trailer, known: Hashers::new(known), crc32, crc64 })
    }

    /// Whether anything says what the body must be.
    pub fn are_told(&self) -> bool {
        !self.expected.is_empty() || self.trailer.is_some()
    }

    /// Takes note of a line behind the body.
    pub fn hear(&mut self, name: &str, value: &str) {
        let Some(sum) = name.strip_prefix(AMAZON).and_then(Sum::named) else { return };
        if self.trailer == Some(sum) {
            self.trailer = None;
            // One that cannot be read is none that the body has.
            self.expected.push((sum, BASE64.decode(value.trim().as_bytes()).unwrap_or_default()));
        }
    }

    /// Takes the next bytes in.
    pub fn update(&mut self, bytes: &[u8]) {
        self.known.update(bytes);
        let uses = |sum| self.trailer == Some(sum) || self.expected.iter().any(|(known, _)| *known == sum);
        let (crc32, crc64) = (uses(Sum::Crc32), uses(Sum::Crc64Nvme));
        if crc32 {
            self.crc32.update(bytes);
        }
        if crc64 {
            self.crc64.update(bytes);
        }
    }

    /// Refuses a body that has other sums than it was said to have.
    pub fn check(self) -> Answer<()> {
        let Self { expected, trailer, known, crc32, crc64 } = self;
        if trailer.is_some() {
            return Err(Refusal::senseless("the checksum that was to follow the body did not")
                .called("InvalidDigest"));
        }
        let known = known.finish();
        let holds = expected.iter().all(|(sum, bytes)| match sum {
            Sum::Known(algorithm) => known.get(*algorithm) == Some(bytes),
            Sum::Crc32 => (crc32.finalize() as u32).to_be_bytes() == bytes[..],
            Sum::Crc64Nvme => crc64.finalize().to_be_bytes() == bytes[..],
        });
        match holds {
            true => Ok(()),
            false => {
                let why = "the body is not what its checksum says: send it again";
                Err(Refusal::new(StatusCode::BAD_REQUEST, why).called("BadDigest"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
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
