//! What is remembered of fetched files from run to run, and what tells a version of a file from the next.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tidegate_transfer::catalogue::{Catalogues, Remembered};
use tidegate_transfer::manifest::{Fingerprint, Timestamp};
use url::Url;

use crate::checksum::{Algorithm, Checksums};
use crate::remote::{Version, signed};

/// Catalogues of what was fetched, one an output directory.
pub type Memory = Catalogues<Fetched>;

/// What was seen when a file got its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fetched {
    /// Its size.
    pub size: u64,
    /// Its modification time, as it was set.
    pub mtime: Timestamp,
    /// Of which version it is.
    pub version: Fingerprint,
    /// Its checksums that no record declared: the algorithm's place among all, then the sum, one after
    /// the other. Behind them one that is made of its parts' sums, whose place is `OF_PARTS` further on.
    sums: Box<[u8]>,
}

/// Added to an algorithm's place for a sum that is made of parts' sums.
const OF_PARTS: u8 = 128;

impl Fetched {
    /// A file with these particulars; `sums` are what was computed and not declared.
    pub fn new(size: u64, mtime: Timestamp, version: Fingerprint, sums: &Checksums) -> Self {
        let (mut bytes, mut of_parts) = (Vec::new(), Vec::new());
        for (place, algorithm) in (0u8..).zip(Algorithm::ALL) {
            if let Some(sum) = sums.get(algorithm) {
                bytes.push(place);
                bytes.extend_from_slice(sum);
            }
            if let Some(sum) = sums.of_parts().filter(|sum| sum.algorithm == algorithm) {
                of_parts.push(place + OF_PARTS);
                of_parts.extend_from_slice(&sum.sum);
            }
        }
        bytes.extend(of_parts);
        Self { size, mtime, version, sums: bytes.into() }
    }

    /// The checksums that were computed then.
    pub fn checksums(&self) -> Checksums {
        let mut sums = Checksums::none();
        for (place, algorithm, sum) in self.each() {
            if place < OF_PARTS {
                sums.add(algorithm, sum);
            }
        }
        sums
    }

    /// Whether what was computed then is among what the server vouches for now.
    pub fn proves(&self, vouched: &Checksums) -> bool {
        let of_parts = vouched.of_parts().map(|sum| (sum.algorithm, &*sum.sum));
        let same = |(place, algorithm, sum)| place >= OF_PARTS && of_parts == Some((algorithm, sum));
        vouched.agrees(&self.checksums()) || self.each().any(same)
    }

    /// Each sum with its place.
    fn each(&self) -> impl Iterator<Item = (u8, Algorithm, &[u8])> {
        let mut rest = &self.sums[..];
        std::iter::from_fn(move || {
            let (&place, after) = rest.split_first()?;
            let algorithm = *Algorithm::ALL.get(usize::from(place % OF_PARTS))?;
            let (sum, after) = after.split_at_checked(algorithm.length())?;
            rest = after;
            Some((place, algorithm, sum))
        })
    }
}

impl Remembered for Fetched {
    const MAGIC: &'static [u8; 8] = b"TGFTCH02";
    const DIRECTORY: &'static [u8] = b"fetched";
}

/// Which version of a file is meant, by what was declared of its content, or else by what its server says.
///
/// `None` if neither tells one version from the next: then nothing of it may be taken for granted later.
pub(crate) fn fingerprint(
    declared: &Checksums,
    bytes: Option<u64>,
    at: &Url,
    seen: &Version,
) -> Option<Fingerprint> {
    let mut hasher = blake3::Hasher::new();
    let mut part = |bytes: &[u8]| {
        hasher.update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
    };
    if declared.is_empty() {
        if seen.tag.is_none() && seen.modified.is_none() {
            return None;
        }
        part(b"seen");
        part(signed::identity(at).as_bytes());
        part(seen.tag.as_deref().unwrap_or_default().as_bytes());
        part(format!("{:?} {:?}", seen.modified, seen.bytes).as_bytes());
    } else {
        part(b"declared");
        for algorithm in declared.algorithms() {
            part(algorithm.name().as_bytes());
            part(declared.get(algorithm).unwrap_or_default());
        }
        part(format!("{bytes:?}").as_bytes());
    }
    Some(first_half(&hasher))
}

/// What tells a version of a file at its server.
pub(crate) type Validators = [u8; 8];

/// In place of a version's validators, of what came from several: while it is not known that these are there at once, and
/// once it is.
pub(crate) const SEVERAL: Validators = [0; 8];
pub(crate) const ALTERNATING: Validators = [0xff; 8];

/// What tells a version at its server: a tag, or else a date.
pub(crate) fn validators(seen: &Version) -> Validators {
    let words = seen.tag.clone().unwrap_or_else(|| format!("{:?}", seen.modified));
    *blake3::hash(words.as_bytes()).as_bytes().first_chunk().expect("long enough")
}

/// What an unfinished file is recorded under of which nothing is declared: its first half tells which file it is, the other
/// which version, so that a later run can go on with what another of the same server's versions began.
pub(crate) fn label(at: &Url, bytes: u64, version: Validators) -> Fingerprint {
    let mut hasher = blake3::Hasher::new();
    hasher.update(signed::identity(at).as_bytes()).update(&bytes.to_le_bytes());
    let mut label = first_half(&hasher);
    label[8..].copy_from_slice(&version);
    label
}

/// Whose bytes `left` labels, if it is of the file of `label`.
pub(crate) fn left_by(left: &Fingerprint, label: &Fingerprint) -> Option<Validators> {
    (left[..8] == label[..8]).then(|| *left.last_chunk().expect("long enough"))
}

/// The fingerprint of what cannot be told from any other version: no two are equal.
pub(crate) fn unlike_any(seed: u64, number: u32) -> Fingerprint {
    let mut hasher = blake3::Hasher::new();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    hasher.update(b"unlike any").update(&now.as_nanos().to_le_bytes());
    hasher.update(&seed.to_le_bytes()).update(&number.to_le_bytes());
    hasher.update(&std::process::id().to_le_bytes());
    first_half(&hasher)
}

fn first_half(hasher: &blake3::Hasher) -> Fingerprint {
    *hasher.finalize().as_bytes().first_chunk().expect("long enough")
}

/// No memory of the past.
pub fn none() -> Arc<Memory> {
    Arc::new(Memory::none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_come_back_as_they_were() {
        let mut sums = Checksums::none();
        sums.add(Algorithm::Md5, [7; 16]);
        sums.add(Algorithm::Sha256, [9; 32]);
        let fetched = Fetched::new(1, Timestamp::default(), [0; 16], &sums);
        assert_eq!(fetched.checksums(), sums);
        let cut = Fetched { sums: fetched.sums[..20].into(), ..fetched };
        assert_eq!(cut.checksums().algorithms().collect::<Vec<_>>(), [Algorithm::Md5], "cut off is left out");
    }

    #[test]
    fn a_version_is_told_by_what_is_declared_or_else_by_what_is_seen() {
        let at = Url::parse("http://h/f?x").expect("a URL");
        let elsewhere = Url::parse("http://other/f").expect("a URL");
        let seen = Version { bytes: Some(1), tag: Some("a".to_owned()), ..Version::default() };
        let later = Version { tag: Some("b".to_owned()), ..seen.clone() };
        let mut declared = Checksums::none();
        assert_ne!(fingerprint(&declared, None, &at, &seen), fingerprint(&declared, None, &at, &later));
        let anew = Url::parse("http://h/f?x&X-Amz-Signature=1").expect("a URL");
        assert_eq!(fingerprint(&declared, None, &at, &seen), fingerprint(&declared, None, &anew, &seen));
        let other = Url::parse("http://h/f?y").expect("a URL");
        assert_ne!(fingerprint(&declared, None, &at, &seen), fingerprint(&declared, None, &other, &seen));
        assert_eq!(fingerprint(&declared, None, &at, &Version::default()), None);
        declared.add(Algorithm::Md5, [7; 16]);
        let by_sum = fingerprint(&declared, None, &at, &seen);
        assert_eq!(by_sum, fingerprint(&declared, None, &elsewhere, &later));
        declared.add(Algorithm::Md5, [8; 16]);
        assert_ne!(by_sum, fingerprint(&declared, None, &at, &seen));
        assert_ne!(unlike_any(1, 1), unlike_any(1, 1));
    }
}
