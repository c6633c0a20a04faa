//! Sums that are made of the sums of a file's parts, as S3 makes them of what came to it in parts.

use std::fmt;
use std::sync::Arc;

use data_encoding::HEXLOWER;

use super::{Algorithm, Hashers};

/// A sum of the sums of a file's parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SumOfParts {
    /// By which the parts are summed up, and then their sums.
    pub algorithm: Algorithm,
    /// How large the parts are.
    pub sizes: PartSizes,
    /// The sum.
    pub sum: Box<[u8]>,
}

impl SumOfParts {
    /// What kind of sum it is, for people.
    pub fn kind(&self) -> String {
        format!("{0} of its parts' {0}", self.algorithm)
    }
}

impl fmt::Display for SumOfParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", HEXLOWER.encode(&self.sum), self.sizes.count())
    }
}

/// The sizes of a file's parts, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartSizes {
    /// So many parts of one size after the other: most files have two such runs.
    runs: Arc<[(u64, u64)]>,
    told: bool,
}

impl PartSizes {
    /// Sizes that the server, or who put the file there, tells.
    pub fn told(sizes: impl IntoIterator<Item = u64>) -> Self {
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for size in sizes {
            match runs.last_mut() {
                Some((count, same)) if *same == size => *count += 1,
                _ => runs.push((1, size)),
            }
        }
        Self { runs: runs.into(), told: true }
    }

    /// A file of `bytes` in parts of `part`, the last one smaller: as almost everybody cuts, which nobody has said.
    pub fn supposed(bytes: u64, part: u64) -> Self {
        Self { told: false, ..Self::even(bytes, part) }
    }

    /// The same where it has been said.
    pub fn even(bytes: u64, part: u64) -> Self {
        let part = part.max(1);
        let runs = [(bytes / part, part), (1, bytes % part)];
        let some = runs.into_iter().filter(|&(count, size)| count * size > 0);
        Self { runs: some.collect(), told: true }
    }

    /// How many they are; an empty file is one part.
    pub fn count(&self) -> u64 {
        self.runs.iter().map(|(count, _)| count).sum::<u64>().max(1)
    }

    /// All of them together.
    pub fn total(&self) -> u64 {
        self.runs.iter().fold(0, |sum, (count, size)| sum.saturating_add(count.saturating_mul(*size)))
    }

    /// Whether the sizes are known, and not supposed.
    pub const fn are_told(&self) -> bool {
        self.told
    }
}

/// Computes a sum of parts' sums, front to back.
#[derive(Clone)]
pub(super) struct PartsHasher {
    algorithm: Algorithm,
    sizes: PartSizes,
    /// The run, and how many of its parts are whole.
    at: (usize, u64),
    /// What is left of the part under way.
    left: u64,
    /// Of the part under way, and of the sums of those before.
    part: Hashers,
    all: Hashers,
}

impl PartsHasher {
    /// For a sum of the same parts as `expected`.
    pub(super) fn new(expected: &SumOfParts) -> Self {
        let (algorithm, sizes) = (expected.algorithm, expected.sizes.clone());
        let left = sizes.runs.first().map_or(0, |(_, size)| *size);
        let (part, all) = (Hashers::new([algorithm]), Hashers::new([algorithm]));
        Self { algorithm, sizes, at: (0, 0), left, part, all }
    }

    pub(super) fn update(&mut self, mut data: &[u8]) {
        while !data.is_empty() {
            // What comes behind the last part belongs to it: the sum is another one then.
            let length = match self.left {
                0 => data.len(),
                left => data.len().min(usize::try_from(left).unwrap_or(usize::MAX)),
            };
            let (piece, rest) = data.split_at(length);
            self.part.update(piece);
            self.left = self.left.saturating_sub(length as u64);
            data = rest;
            if self.left == 0 {
                self.end_part();
            }
        }
    }

    fn end_part(&mut self) {
        let part = std::mem::replace(&mut self.part, Hashers::new([self.algorithm])).finish();
        self.all.update(part.get(self.algorithm).unwrap_or_default());
        let (run, whole) = self.at;
        self.at = match self.sizes.runs.get(run) {
            Some((count, _)) if whole + 1 < *count => (run, whole + 1),
            _ => (run + 1, 0),
        };
        self.left = self.sizes.runs.get(self.at.0).map_or(0, |(_, size)| *size);
    }

    pub(super) fn finish(mut self) -> SumOfParts {
        // An empty file has one part, which is empty.
        if self.left > 0 || self.sizes.runs.is_empty() {
            self.end_part();
        }
        let sum = self.all.finish().get(self.algorithm).unwrap_or_default().into();
        SumOfParts { algorithm: self.algorithm, sizes: self.sizes, sum }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn computed(algorithm: Algorithm, sizes: PartSizes, data: &[u8], piece: usize) -> String {
        let expected = SumOfParts { algorithm, sizes, sum: Box::default() };
        let mut hasher = PartsHasher::new(&expected);
        data.chunks(piece).for_each(|piece| hasher.update(piece));
        hasher.finish().to_string()
    }

    #[test]
    fn a_sum_of_parts_is_that_of_their_sums_however_the_bytes_come() {
        let data = b"123456789";
        for algorithm in
            [Algorithm::Crc32, Algorithm::Crc32c, Algorithm::Md5, Algorithm::Sha1, Algorithm::Sha256]
        {
            for sizes in [&[9][..], &[4, 4, 1], &[2, 3, 4], &[1; 9], &[3, 3, 3]] {
                let of = |bytes: &[u8]| {
                    let mut hashers = Hashers::new([algorithm]);
                    hashers.update(bytes);
                    hashers.finish().get(algorithm).expect("computed").to_vec()
                };
                let (mut rest, mut all) = (&data[..], Vec::new());
                for size in sizes {
                    all.extend(of(&rest[..*size as usize]));
                    rest = &rest[*size as usize..];
                }
                let expected = format!("{}-{}", HEXLOWER.encode(&of(&all)), sizes.len());
                for piece in 1..=9 {
                    let told = PartSizes::told(sizes.iter().copied());
                    assert_eq!((told.count(), told.total()), (sizes.len() as u64, 9));
                    assert_eq!(computed(algorithm, told, data, piece), expected, "{algorithm} {sizes:?}");
                }
            }
        }
        // md5 of the md5 of nothing, by md5sum.
        let none = computed(Algorithm::Md5, PartSizes::even(0, 4), b"", 1);
        assert_eq!(none, "59adb24ef3cdbe0297f05b395827453f-1");
        assert_eq!(PartSizes::even(9, 4), PartSizes::told([4, 4, 1]));
        assert_eq!(PartSizes::even(8, 4), PartSizes::told([4, 4]));
    }
}
