//! Checksums as archives publish them: several algorithms, all of them computed while writing.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crc_fast::CrcAlgorithm;
use data_encoding::HEXLOWER;
use md5::Md5;
use sha1::Sha1;
use sha2::{Digest as _, Sha256, Sha512};
use tidegate_transfer::error::{Error, ErrorKind, Result};

/// A checksum's algorithm, from the weakest to the strongest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Algorithm {
    /// CRC-32, as zip has it; finds accidents only.
    Crc32,
    /// CRC-32C (Castagnoli); finds accidents only.
    Crc32c,
    /// CRC-64/NVME, which S3 computes of whole objects; finds accidents only.
    Crc64Nvme,
    /// MD5; what sequence archives publish. Finds accidents only.
    Md5,
    /// SHA-1.
    Sha1,
    /// SHA-256.
    Sha256,
    /// SHA-512.
    Sha512,
    /// BLAKE3, 256 bits.
    Blake3,
}

impl Algorithm {
    /// All of them, the weakest first.
    pub const ALL: [Self; 8] = [
        Self::Crc32,
        Self::Crc32c,
        Self::Crc64Nvme,
        Self::Md5,
        Self::Sha1,
        Self::Sha256,
        Self::Sha512,
        Self::Blake3,
    ];

    /// Its name in lists, on the command line and in columns.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Crc32 => "crc32",
            Self::Crc32c => "crc32c",
            Self::Crc64Nvme => "crc64nvme",
            Self::Md5 => "md5",
            Self::Sha1 => "sha1",
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
            Self::Blake3 => "blake3",
        }
    }

    /// Bytes of a sum.
    pub const fn length(self) -> usize {
        match self {
            Self::Crc32 | Self::Crc32c => 4,
            Self::Crc64Nvme => 8,
            Self::Md5 => 16,
            Self::Sha1 => 20,
            Self::Sha256 | Self::Blake3 => 32,
            Self::Sha512 => 64,
        }
    }
}

tidegate_control::named!(Algorithm);

impl FromStr for Algorithm {
    type Err = Error;

    /// `md5`, `MD5`, `sha-256` and the like.
    fn from_str(text: &str) -> Result<Self> {
        let plain: String = text.chars().filter(|&c| c != '-' && c != '_').collect::<String>().to_lowercase();
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == plain).ok_or_else(|| {
            let known = Self::ALL.map(Self::name).join(", ");
            Error::new(ErrorKind::Usage, format!("{text:?} is no checksum known here; there are {known}"))
        })
    }
}

/// What a file's content must sum up to, by algorithm.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checksums(BTreeMap<Algorithm, Box<[u8]>>);

impl Checksums {
    /// None known.
    pub const fn none() -> Self {
        Self(BTreeMap::new())
    }

    /// Adds a sum given in hexadecimal, upper or lower case.
    pub fn add_hex(&mut self, algorithm: Algorithm, hex: &str) -> Result<()> {
        let hex = hex.trim().to_ascii_lowercase();
        let sum = HEXLOWER.decode(hex.as_bytes()).ok().filter(|sum| sum.len() == algorithm.length());
        let Some(sum) = sum else {
            let digits = 2 * algorithm.length();
            let why = format!("{hex:?} is no {algorithm}: {digits} hexadecimal digits are needed");
            return Err(Error::new(ErrorKind::Usage, why));
        };
        self.0.insert(algorithm, sum.into());
        Ok(())
    }

    /// Adds a sum.
    pub fn add(&mut self, algorithm: Algorithm, sum: impl Into<Box<[u8]>>) {
        self.0.insert(algorithm, sum.into());
    }

    /// The sum by `algorithm`, if known.
    pub fn get(&self, algorithm: Algorithm) -> Option<&[u8]> {
        self.0.get(&algorithm).map(AsRef::as_ref)
    }

    /// The sum by `algorithm` in hexadecimal, if known.
    pub fn hex(&self, algorithm: Algorithm) -> Option<String> {
        self.get(algorithm).map(|sum| HEXLOWER.encode(sum))
    }

    /// The algorithms known of.
    pub fn algorithms(&self) -> impl Iterator<Item = Algorithm> {
        self.0.keys().copied()
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What is known here and not by `others`.
    #[must_use]
    pub fn without(&self, others: &Self) -> Self {
        let other = |algorithm: &Algorithm| !others.0.contains_key(algorithm);
        Self(
            self.0
                .iter()
                .filter(|(algorithm, _)| other(algorithm))
                .map(|(a, sum)| (*a, sum.clone()))
                .collect(),
        )
    }

    /// The first algorithm by which `computed` differs from what is expected here.
    pub fn differs(&self, computed: &Self) -> Option<Algorithm> {
        self.0.iter().find(|(algorithm, sum)| computed.0.get(algorithm) != Some(sum)).map(|(a, _)| *a)
    }
}

/// Computes several checksums of the same bytes, front to back.
///
/// ```
/// use tidegate_fetch::checksum::{Algorithm, Checksums, Hashers};
///
/// let mut hashers = Hashers::new([Algorithm::Crc32c, Algorithm::Md5]);
/// hashers.update(b"12345");
/// hashers.update(b"6789");
/// let sums = hashers.finish();
/// assert_eq!(sums.hex(Algorithm::Crc32c).as_deref(), Some("e3069283"));
///
/// let mut declared = Checksums::none();
/// declared.add_hex("md5".parse()?, "25F9E794323B453885F5181F1B624D0B")?;
/// assert_eq!(declared.differs(&sums), None);
/// # Ok::<(), tidegate_transfer::error::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct Hashers(Vec<Hasher>);

#[derive(Clone)]
enum Hasher {
    Crc(Algorithm, crc_fast::Digest),
    Md5(Md5),
    Sha1(Sha1),
    Sha256(Sha256),
    Sha512(Sha512),
    Blake3(Box<blake3::Hasher>),
}

impl Hashers {
    /// For these algorithms.
    pub fn new(algorithms: impl IntoIterator<Item = Algorithm>) -> Self {
        let hasher = |algorithm| match algorithm {
            Algorithm::Crc32 => Hasher::Crc(algorithm, crc_fast::Digest::new(CrcAlgorithm::Crc32IsoHdlc)),
            Algorithm::Crc32c => Hasher::Crc(algorithm, crc_fast::Digest::new(CrcAlgorithm::Crc32Iscsi)),
            Algorithm::Crc64Nvme => Hasher::Crc(algorithm, crc_fast::Digest::new(CrcAlgorithm::Crc64Nvme)),
            Algorithm::Md5 => Hasher::Md5(Md5::new()),
            Algorithm::Sha1 => Hasher::Sha1(Sha1::new()),
            Algorithm::Sha256 => Hasher::Sha256(Sha256::new()),
            Algorithm::Sha512 => Hasher::Sha512(Sha512::new()),
            Algorithm::Blake3 => Hasher::Blake3(Box::default()),
        };
        Self(algorithms.into_iter().map(hasher).collect())
    }

    /// Whether there is nothing to compute.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes the next bytes in.
    pub fn update(&mut self, data: &[u8]) {
        for hasher in &mut self.0 {
            match hasher {
                Hasher::Crc(_, hasher) => hasher.update(data),
                Hasher::Md5(hasher) => hasher.update(data),
                Hasher::Sha1(hasher) => hasher.update(data),
                Hasher::Sha256(hasher) => hasher.update(data),
                Hasher::Sha512(hasher) => hasher.update(data),
                Hasher::Blake3(hasher) => {
                    hasher.update(data);
                }
            }
        }
    }

    /// The sums of everything taken in.
    pub fn finish(self) -> Checksums {
        let mut sums = Checksums::none();
        for hasher in self.0 {
            match hasher {
                Hasher::Crc(algorithm, hasher) => {
                    let all = hasher.finalize().to_be_bytes();
                    sums.add(algorithm, &all[all.len() - algorithm.length()..]);
                }
                Hasher::Md5(hasher) => sums.add(Algorithm::Md5, &hasher.finalize()[..]),
                Hasher::Sha1(hasher) => sums.add(Algorithm::Sha1, &hasher.finalize()[..]),
                Hasher::Sha256(hasher) => sums.add(Algorithm::Sha256, &hasher.finalize()[..]),
                Hasher::Sha512(hasher) => sums.add(Algorithm::Sha512, &hasher.finalize()[..]),
                Hasher::Blake3(hasher) => sums.add(Algorithm::Blake3, *hasher.finalize().as_bytes()),
            }
        }
        sums
    }
}

impl fmt::Debug for Hashers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hashers({})", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_algorithm_computes_its_known_sum() {
        let mut hashers = Hashers::new(Algorithm::ALL);
        hashers.update(b"12345");
        hashers.update(b"6789");
        let sums = hashers.finish();
        // The check values of the algorithms' own documents for "123456789".
        for (algorithm, sum) in [
            (Algorithm::Crc32, "cbf43926"),
            (Algorithm::Crc32c, "e3069283"),
            (Algorithm::Crc64Nvme, "ae8b14860a799888"),
            (Algorithm::Md5, "25f9e794323b453885f5181f1b624d0b"),
            (Algorithm::Sha1, "f7c3bc1d808e04732adf679965ccc34ca7ae3441"),
            (Algorithm::Sha256, "15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225"),
        ] {
            assert_eq!(sums.hex(algorithm).as_deref(), Some(sum), "{algorithm}");
        }
        assert_eq!(sums.get(Algorithm::Blake3), Some(&blake3::hash(b"123456789").as_bytes()[..]));
        assert_eq!(sums.get(Algorithm::Sha512).map(<[u8]>::len), Some(64));
    }

    #[test]
    fn what_is_no_checksum_is_refused() {
        let mut sums = Checksums::none();
        for bad in ["", "xyz", "25f9e794323b453885f5181f1b624d0", "25f9e794323b453885f5181f1b624d0bff"] {
            assert!(sums.add_hex(Algorithm::Md5, bad).is_err(), "{bad}");
        }
        sums.add_hex(Algorithm::Md5, " 25F9E794323B453885F5181F1B624D0B ").expect("case and space are fine");
        assert_eq!("SHA-256".parse::<Algorithm>(), Ok(Algorithm::Sha256));
        assert!("adler32".parse::<Algorithm>().is_err());
        let mut other = Checksums::none();
        other.add(Algorithm::Md5, [0; 16]);
        assert_eq!(sums.differs(&other), Some(Algorithm::Md5));
        assert_eq!(sums.differs(&sums.clone()), None);
    }
}
