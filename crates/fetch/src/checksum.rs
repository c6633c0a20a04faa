//! Checksums as archives publish them: several algorithms, all of them computed while writing.

mod of_parts;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crc_fast::CrcAlgorithm;
use data_encoding::HEXLOWER;
use md5::Md5;
use sha1::Sha1;
use sha2::{Digest as _, Sha256, Sha512};
use tidegate_transfer::error::{Error, ErrorKind, Result};

use self::of_parts::PartsHasher;

pub use self::of_parts::{PartSizes, SumOfParts};

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
pub struct Checksums {
    whole: BTreeMap<Algorithm, Box<[u8]>>,
    /// One that is made of the sums of its parts.
    of_parts: Option<SumOfParts>,
}

/// Where sums differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// By which kind of sum, such as `md5`.
    pub kind: String,
    /// What is expected.
    pub expected: String,
    /// What was computed.
    pub computed: String,
}

impl Checksums {
    /// None known.
    pub const fn none() -> Self {
        Self { whole: BTreeMap::new(), of_parts: None }
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
        self.whole.insert(algorithm, sum.into());
        Ok(())
    }

    /// Adds a sum.
    pub fn add(&mut self, algorithm: Algorithm, sum: impl Into<Box<[u8]>>) {
        self.whole.insert(algorithm, sum.into());
    }

    /// Adds a sum that is made of the sums of the file's parts.
    pub(crate) fn add_of_parts(&mut self, sum: SumOfParts) {
        self.of_parts = Some(sum);
    }

    /// The sum by `algorithm`, if known.
    pub fn get(&self, algorithm: Algorithm) -> Option<&[u8]> {
        self.whole.get(&algorithm).map(AsRef::as_ref)
    }

    /// The sum by `algorithm` in hexadecimal, if known.
    pub fn hex(&self, algorithm: Algorithm) -> Option<String> {
        self.get(algorithm).map(|sum| HEXLOWER.encode(sum))
    }

    /// The one that is made of the sums of the file's parts, if known.
    pub const fn of_parts(&self) -> Option<&SumOfParts> {
        self.of_parts.as_ref()
    }

    /// The algorithms known of, for the whole.
    pub fn algorithms(&self) -> impl Iterator<Item = Algorithm> {
        self.whole.keys().copied()
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.whole.is_empty() && self.of_parts.is_none()
    }

    /// Whether content that is another one would be told by what is known.
    pub fn refute(&self) -> bool {
        !self.whole.is_empty() || self.of_parts.as_ref().is_some_and(|sum| sum.sizes.are_told())
    }

    /// What is known here and not by `others`.
    #[must_use]
    pub fn without(&self, others: &Self) -> Self {
        let mut left = self.clone();
        left.whole.retain(|algorithm, _| !others.whole.contains_key(algorithm));
        left
    }

    /// The first sum by which `computed` differs from what is expected here. What was not computed differs. A sum of parts
    /// whose sizes are only supposed proves that a file is right, and never that it is not.
    pub fn differs(&self, computed: &Self) -> Option<Difference> {
        let mut whole = self.whole.iter();
        if let Some((algorithm, sum)) = whole.find(|(kind, sum)| computed.whole.get(kind) != Some(sum)) {
            let computed = computed.hex(*algorithm).unwrap_or_default();
            return Some(Difference {
                kind: algorithm.to_string(),
                expected: HEXLOWER.encode(sum),
                computed,
            });
        }
        let sum = self.of_parts.as_ref().filter(|sum| sum.sizes.are_told())?;
        let computed = computed.of_parts.as_ref();
        (computed != Some(sum)).then(|| Difference {
            kind: sum.kind(),
            expected: sum.to_string(),
            computed: computed.map(SumOfParts::to_string).unwrap_or_default(),
        })
    }

    /// The same, of those sums alone that were computed.
    pub(crate) fn contradicts(&self, computed: &Self) -> Option<Difference> {
        let mut known = self.clone();
        known.whole.retain(|algorithm, _| computed.whole.contains_key(algorithm));
        known.of_parts = known.of_parts.filter(|_| computed.of_parts.is_some());
        known.differs(computed)
    }

    /// Whether a sum that is known here was `computed` too, and is the same.
    pub fn agrees(&self, computed: &Self) -> bool {
        self.whole.iter().any(|(algorithm, sum)| computed.whole.get(algorithm) == Some(sum))
            || (self.of_parts.is_some() && self.of_parts == computed.of_parts)
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
    OfParts(Box<PartsHasher>),
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

    /// The same, and the sum that corresponds to `expected`, of the same parts.
    #[must_use]
    pub fn and_of_parts(mut self, expected: Option<&SumOfParts>) -> Self {
        self.0.extend(expected.map(|sum| Hasher::OfParts(Box::new(PartsHasher::new(sum)))));
        self
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
                Hasher::OfParts(hasher) => hasher.update(data),
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
                Hasher::OfParts(hasher) => sums.add_of_parts(hasher.finish()),
            }
        }
        sums
    }
}

/// CRC-64/NVME, of which that of a whole can be made from those of its parts.
#[derive(Clone)]
pub(crate) struct Crc64(crc_fast::Digest);

impl Crc64 {
    pub fn new() -> Self {
        Self(crc_fast::Digest::new(CrcAlgorithm::Crc64Nvme))
    }

    /// Takes the next bytes in.
    pub fn update(&mut self, data: &[u8]) {
        self.0.update(data);
    }

    /// Of everything taken in.
    pub fn finish(self) -> u64 {
        self.0.finalize()
    }

    /// Of a whole, by its parts' and their lengths.
    pub fn of_parts(parts: impl IntoIterator<Item = (u64, u64)>) -> u64 {
        let join = |all, (crc, length)| crc_fast::checksum_combine(CrcAlgorithm::Crc64Nvme, all, crc, length);
        parts.into_iter().fold(Self::new().finish(), join)
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
        assert_eq!(sums.differs(&other).map(|differs| differs.kind), Some("md5".to_owned()));
        assert_eq!(sums.differs(&sums.clone()), None);
    }

    #[test]
    fn the_crc_of_a_whole_is_made_of_those_of_its_parts() {
        let of = |data: &[u8]| {
            let mut crc = Crc64::new();
            crc.update(data);
            (crc.finish(), data.len() as u64)
        };
        let data = b"123456789";
        for cut in 0..=9 {
            let (one, other) = data.split_at(cut);
            assert_eq!(Crc64::of_parts([of(one), of(other)]), 0xae8b_1486_0a79_9888, "{cut}");
        }
        assert_eq!(Crc64::of_parts(data.chunks(1).map(of)), of(data).0);
        assert_eq!(Crc64::of_parts([]), of(b"").0);
    }

    #[test]
    fn a_sum_of_parts_whose_sizes_are_supposed_proves_and_refutes_nothing() {
        let sum = |sizes| {
            let one = SumOfParts { algorithm: Algorithm::Crc32, sizes, sum: [0; 4].into() };
            let mut hashers = Hashers::new([]).and_of_parts(Some(&one));
            hashers.update(b"123456789");
            (one, hashers.finish())
        };
        for (sizes, refutes) in [(PartSizes::told([4, 4, 1]), true), (PartSizes::supposed(9, 4), false)] {
            let (zeros, computed) = sum(sizes);
            let mut wrong = Checksums::none();
            wrong.add_of_parts(zeros);
            assert_eq!(wrong.differs(&computed).is_some(), refutes, "{wrong:?}");
            assert_eq!(wrong.contradicts(&computed).is_some(), refutes);
            assert!(!wrong.agrees(&computed));
            assert!(computed.agrees(&computed) && !computed.is_empty());
            assert_eq!(wrong.contradicts(&Checksums::none()), None, "nothing was computed");
        }
    }
}
