//! Packs what is listed into shards of like size, as it comes.

use std::ops::Range;

use tidegate_transfer::manifest::SEGMENT;

/// Most files of a shard, most bytes of content unless one file is larger, and most bytes of names: a claim of many
/// shards still fits into one message to an endpoint.
const MAX_FILES: u64 = 1024;
const MAX_BYTES: u64 = 64 << 20;
const MAX_NAMES: usize = 128 << 10;

/// Least bytes of a range of a large file.
const LEAST_RANGE: u64 = 4 * SEGMENT;

/// What a file costs besides its bytes, in bytes that could have been moved meanwhile.
pub(super) const FILE_COST: u64 = 64 << 10;

/// What one shard holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShardContent {
    /// Which of the run's sources it is of.
    pub source: u32,
    /// How many files and links.
    pub files: u64,
    /// Their content.
    pub bytes: u64,
    /// Their names relative to the source, a NUL byte behind each; none for a source that is one file.
    pub names: Vec<u8>,
    /// What of them it is.
    pub extent: Extent,
}

/// What a shard is of its files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Extent {
    /// All of them.
    #[default]
    Whole,
    /// These bytes of the one file, which counts where it is completed.
    Range(Range<u64>),
    /// What completes the one file: all ranges of it are done.
    Completion,
}

impl ShardContent {
    /// The names.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        split(&self.names)
    }

    /// Keeps the first files, some `wanted` of what it is to do, and answers with the rest; nothing if that is no part of
    /// it. How large each is nobody knows any more.
    pub fn split(&mut self, wanted: u64) -> Option<Self> {
        if self.extent != Extent::Whole {
            return None;
        }
        let kept =
            u64::try_from(u128::from(self.files) * u128::from(wanted) / u128::from(self.cost().max(1)));
        let kept = kept.unwrap_or(self.files).max(1);
        let mut ends = self.names.iter().enumerate().filter(|(_, byte)| **byte == 0).map(|(at, _)| at + 1);
        let end = ends.nth(usize::try_from(kept).ok()?.checked_sub(1)?)?;
        if kept >= self.files || end >= self.names.len() {
            return None;
        }
        let bytes = self.bytes / self.files * kept;
        let names = self.names.split_off(end);
        let (source, extent) = (self.source, Extent::Whole);
        let rest = Self { source, files: self.files - kept, bytes: self.bytes - bytes, names, extent };
        (self.files, self.bytes) = (kept, bytes);
        Some(rest)
    }

    /// Two ranges that the one large file, or the range of one, is made of: whole segments, some `wanted` of its bytes, and
    /// the rest; nothing if that is no part of it.
    pub fn cut(&self, wanted: u64) -> Option<(Self, Self)> {
        let range = match &self.extent {
            Extent::Whole if self.files == 1 && self.bytes > MAX_BYTES => 0..self.bytes,
            Extent::Range(range) => range.clone(),
            _ => return None,
        };
        let wanted = wanted.clamp(LEAST_RANGE, self.bytes).next_multiple_of(SEGMENT);
        let middle = range.start.checked_add(wanted).filter(|&middle| middle + LEAST_RANGE <= range.end)?;
        let of = |range: Range<u64>| {
            let (bytes, names) = (range.end - range.start, self.names.clone());
            Self { source: self.source, files: 0, bytes, names, extent: Extent::Range(range) }
        };
        Some((of(range.start..middle), of(middle..range.end)))
    }

    /// How much it is to do, in bytes.
    pub fn cost(&self) -> u64 {
        cost(self.files, self.bytes)
    }
}

/// How much so many files of so many bytes are to do.
pub(super) fn cost(files: u64, bytes: u64) -> u64 {
    bytes.saturating_add(files.saturating_mul(FILE_COST))
}

/// The names of a list.
pub(super) fn split(names: &[u8]) -> impl Iterator<Item = &[u8]> {
    names.split(|&byte| byte == 0).filter(|name| !name.is_empty())
}

/// Packs the files of one source.
#[derive(Debug, Default)]
pub struct Packer {
    open: ShardContent,
}

impl Packer {
    /// For the source of this number.
    pub fn new(source: u32) -> Self {
        Self { open: ShardContent { source, ..ShardContent::default() } }
    }

    /// Takes one more file; answers with a shard that is full.
    pub fn add(&mut self, name: &[u8], bytes: u64) -> Option<ShardContent> {
        let open = &self.open;
        let full = open.files >= MAX_FILES
            || open.bytes.saturating_add(bytes) > MAX_BYTES
            || open.names.len() + name.len() >= MAX_NAMES;
        let done = if full { self.finish() } else { None };
        self.open.files += 1;
        self.open.bytes += bytes;
        self.open.names.extend_from_slice(name);
        self.open.names.push(0);
        done
    }

    /// A shard of a source that is one file of so many bytes.
    pub fn alone(&self, bytes: u64) -> ShardContent {
        ShardContent { source: self.open.source, files: 1, bytes, ..ShardContent::default() }
    }

    /// The last shard, if anything is in it.
    pub fn finish(&mut self) -> Option<ShardContent> {
        let next = ShardContent { source: self.open.source, ..ShardContent::default() };
        let done = std::mem::replace(&mut self.open, next);
        (done.files > 0).then_some(done)
    }
}

#[cfg(test)]
mod tests {
    use tidegate_control::Rng;

    use super::*;

    #[test]
    fn what_is_split_is_all_there_and_one_file_stays_whole() {
        let mut packer = Packer::new(1);
        for name in ["a", "b/c", "d", "e"] {
            assert_eq!(packer.add(name.as_bytes(), 1 << 20), None);
        }
        let whole = packer.finish().expect("something");
        let mut first = whole.clone();
        let rest = first.split(whole.cost() / 2).expect("two parts");
        assert_eq!((first.files, rest.files, first.source, rest.source), (2, 2, 1, 1));
        assert_eq!(
            (first.bytes + rest.bytes, [first.names.clone(), rest.names].concat()),
            (whole.bytes, whole.names)
        );
        assert_eq!(first.clone().split(first.cost()), None);
        let mut one = ShardContent { files: 1, ..first.clone() };
        one.names.truncate(2);
        assert_eq!(one.split(1), None);
        assert_eq!(first.split(0).map(|rest| rest.files), Some(1));
    }

    #[test]
    fn a_large_file_is_cut_at_segments_until_what_is_left_is_little() {
        let size = 5 * MAX_BYTES + 77;
        let whole =
            ShardContent { source: 2, files: 1, bytes: size, names: b"a\0".to_vec(), ..Default::default() };
        let (mut rest, mut at, mut ranges) = (whole.clone(), 0, 0);
        while let Some((first, left)) = rest.cut(40_000_000) {
            let Extent::Range(range) = first.extent.clone() else { panic!("{first:?}") };
            assert_eq!((range.start, first.files, first.bytes), (at, 0, range.end - range.start));
            assert!(range.end % SEGMENT == 0 && first.bytes >= 40_000_000 && first.names == whole.names);
            (rest, at, ranges) = (left, range.end, ranges + 1);
        }
        assert_eq!((rest.extent, ranges), (Extent::Range(at..size), 7));
        assert_eq!(whole.cut(size), None);
        assert_eq!(whole.cut(1).map(|(first, _)| first.bytes), Some(LEAST_RANGE));
        assert_eq!(ShardContent { bytes: MAX_BYTES, ..whole.clone() }.cut(1), None, "no large one");
        assert_eq!(ShardContent { extent: Extent::Completion, bytes: 0, ..whole.clone() }.cut(1), None);
        let mut whole = whole;
        assert_eq!(whole.split(1), None);
    }

    #[test]
    fn every_file_is_in_one_shard_and_no_shard_is_too_large() {
        for seed in 0..20 {
            let mut rng = Rng::new(seed);
            let files: Vec<(Vec<u8>, u64)> = (0..5000)
                .map(|number| {
                    let name = format!("{number}-{}", "x".repeat(usize::from(rng.integer(0, 200))));
                    (name.into_bytes(), rng.next_u64() >> rng.integer(33, 60))
                })
                .collect();
            let mut packer = Packer::new(3);
            let mut shards: Vec<_> =
                files.iter().filter_map(|(name, bytes)| packer.add(name, *bytes)).collect();
            shards.extend(packer.finish());
            assert_eq!(packer.finish(), None);
            let names: Vec<_> = shards.iter().flat_map(ShardContent::names).collect();
            assert!(names.iter().eq(files.iter().map(|(name, _)| name)), "seed {seed}");
            assert_eq!(
                shards.iter().map(|shard| shard.bytes).sum::<u64>(),
                files.iter().map(|file| file.1).sum::<u64>()
            );
            for shard in &shards {
                assert_eq!((shard.source, shard.files), (3, shard.names().count() as u64));
                assert!(shard.files <= MAX_FILES && shard.names.len() <= MAX_NAMES, "seed {seed}");
                assert!(shard.bytes <= MAX_BYTES || shard.files == 1, "seed {seed}: {} bytes", shard.bytes);
            }
        }
    }
}
