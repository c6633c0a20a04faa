//! Where files go: what S3 and WebDAV have in common, and what a file becomes there.

use std::io::Read;
use std::time::{Duration, Instant};

use md5::{Digest as _, Md5};
use tidegate_control::ByteCount;
use tidegate_transfer::error::{Error, ErrorKind, Result};
use tidegate_transfer::manifest::{BLOCK, Fingerprint, Kind, Timestamp};
use tidegate_transfer::path::RelPath;
use tidegate_transfer::store::Listed;
use tidegate_transfer::sys::sync::Mutex;
use url::Url;

use crate::checksum::Crc64;
use crate::record::Names;
use crate::remote::Refusal;
use crate::remote::patience::Patience;
use crate::remote::s3::answer::Part;

/// The smallest part that S3 takes, but for a file's last.
pub(crate) const SMALLEST_PART: u64 = 5 << 20;

/// The most parts a file may have.
pub(crate) const MAX_PARTS: u64 = 10_000;

/// The usual part: large enough that a request's round trip costs little, small enough that a part that
/// is lost, and a change of concurrency that has to wait for one, cost little too.
pub(crate) const DEFAULT_PART: ByteCount = ByteCount::mib(8);

/// What an unfinished file's name begins with at servers that have no uploads in parts.
pub(crate) const UNFINISHED: &str = ".tidegate-part.";

/// An MD5.
pub(crate) type Md5Sum = [u8; 16];

/// What vouches for a piece: a server holds it to one or both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PieceSums {
    /// Its MD5.
    pub md5: Md5Sum,
    /// Its CRC-64/NVME, of which that of the whole can be made.
    pub crc: u64,
}

/// Sums a piece up.
#[derive(Clone)]
pub(crate) struct PieceHasher(Md5, Crc64);

impl PieceHasher {
    pub fn new() -> Self {
        Self(Md5::new(), Crc64::new())
    }

    /// Takes the next bytes in.
    pub fn update(&mut self, data: &[u8]) {
        self.0.update(data);
        self.1.update(data);
    }

    /// The sums of all that was taken in.
    pub fn finish(self) -> PieceSums {
        PieceSums { md5: self.0.finalize().into(), crc: self.1.finish() }
    }
}

/// In which pieces a file travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Bytes of each part but the last.
    pub part: u64,
    /// How many parts; one is the whole file in one request.
    pub count: u32,
}

impl Plan {
    /// Parts of `wanted` bytes, or larger ones for a file that would have too many.
    pub fn new(size: u64, wanted: ByteCount) -> Self {
        let least = size.div_ceil(MAX_PARTS).next_multiple_of(1 << 20);
        let part = wanted.0.max(SMALLEST_PART).max(least).next_multiple_of(BLOCK);
        Self { part, count: size.div_ceil(part).max(1) as u32 }
    }

    /// All in one request.
    pub const fn whole(size: u64) -> Self {
        Self { part: size, count: 1 }
    }

    /// Where part `number`, counted from 1, lies in a file of `size` bytes.
    pub fn range(&self, number: u32, size: u64) -> std::ops::Range<u64> {
        let start = u64::from(number.saturating_sub(1)) * self.part;
        start.min(size)..start.saturating_add(self.part).min(size)
    }
}

/// A file on its way.
#[derive(Debug)]
pub struct UploadFile {
    /// As the source listed it.
    pub listed: Listed,
    /// Where it goes, relative to the target.
    pub path: RelPath,
    /// Its size.
    pub size: u64,
    /// Its pieces.
    pub plan: Plan,
    /// Which version of it was listed.
    pub fingerprint: Fingerprint,
    /// How far it is.
    pub state: Mutex<Progress>,
}

/// How often something failed, and since when.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct UploadTries {
    pub count: u32,
    since: Option<Instant>,
}

impl UploadTries {
    /// It failed; whether it may be tried again, which is borne `most` times for `retry_for`. What does not count is part of
    /// an outage.
    pub fn failed(&mut self, counts: bool, most: u32, retry_for: Duration) -> bool {
        let lasted = self.since.get_or_insert_with(Instant::now).elapsed();
        self.count += u32::from(counts);
        let is_first = self.count < 2;
        most > 0 && self.count <= most && (is_first || !counts || lasted < retry_for)
    }
}

/// How far a file is.
#[derive(Debug, Default)]
pub struct Progress {
    /// The upload's id, once it has one.
    pub upload: Option<String>,
    /// What the server has of an earlier run and nobody has compared yet.
    pub have: Vec<Part>,
    /// The tag and the sums of each part that was confirmed.
    pub confirmed: Vec<Option<(String, PieceSums)>>,
    /// Parts not yet confirmed.
    pub left: u32,
    /// Pieces in workers' hands.
    pub(crate) in_flight: u32,
    /// Bytes that an earlier run had brought there.
    pub already: u64,
    /// How often the whole file was begun again.
    pub(crate) tries: UploadTries,
    /// Whether what bears its name was compared and is another content.
    pub differs: bool,
    /// What a reader has met while the network was still sending.
    pub met: Option<Error>,
    /// Why it will not arrive.
    pub failed: Option<Error>,
    /// Whether its end was told.
    pub ended: bool,
    /// It failed, and how it ends was decided: what was sent of it is removed before its end is told.
    pub concluded: bool,
}

impl UploadFile {
    /// A listed regular file; `None` for anything else.
    pub fn new(listed: Listed, path: RelPath, plan: Plan) -> Option<Self> {
        let Kind::File { size, fingerprint } = listed.entry.kind else { return None };
        let state =
            Progress { confirmed: vec![None; plan.count as usize], left: plan.count, ..Progress::default() };
        Some(Self { listed, path, size, plan, fingerprint, state: Mutex::new(state) })
    }

    /// Its upload in parts was begun, or is continued with the parts that the server has.
    pub(crate) fn multipart_started(&self, id: String, have: Vec<Part>) {
        let mut state = self.state.lock();
        state.upload = Some(id);
        state.have = have;
        state.confirmed = vec![None; self.plan.count as usize];
        state.left = self.plan.count;
    }

    /// When it was last modified.
    pub fn mtime(&self) -> Timestamp {
        self.listed.entry.mtime
    }

    /// Whether it goes in parts.
    pub(crate) const fn is_multipart(&self) -> bool {
        self.plan.count > 1
    }

    /// The error for a source that was written to meanwhile.
    pub fn changed(&self) -> Error {
        let why = format!("{}: it was written to while it was being sent", self.path);
        Error::new(ErrorKind::Changed, why)
    }
}

/// What already bears the file's name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Present {
    /// Its size.
    pub bytes: Option<u64>,
    /// Its tag, without quotes.
    pub tag: String,
    /// Whether the tag is made of MD5s, as S3's is unless a key of KMS or the customer's is used.
    pub(crate) tag_is_md5: bool,
    /// When it was modified: where it came from, if that is kept, else at the server.
    pub modified: Option<Timestamp>,
    /// Whether that is the time that was set when it was stored, in whole seconds.
    pub(crate) keeps_time: bool,
}

impl Present {
    /// Whether it is of the file's time, as exactly as it is kept there.
    pub(crate) fn is_as_old_as(&self, file: &UploadFile) -> bool {
        self.keeps_time && self.modified.is_some_and(|time| time.seconds == file.mtime().seconds)
    }

    /// Whether reading the file tells if it is this one.
    pub(crate) fn is_comparable(&self, file: &UploadFile) -> bool {
        let parts = self.tag.rsplit_once('-').map(|(_, count)| count.parse::<u32>());
        self.tag_is_md5
            && match parts {
                None => self.tag.len() == 32,
                Some(count) => count == Ok(file.plan.count),
            }
    }
}

/// A file that has its name and was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Its tag, without quotes.
    pub tag: String,
    /// Whether its content, and not its size alone, was confirmed.
    pub verified: bool,
}

/// A part that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredPart {
    /// Its tag.
    pub tag: String,
    /// Whether an earlier run had brought it, so that nothing was sent.
    pub was_there: bool,
}

impl StoredPart {
    /// One that was sent.
    pub const fn sent(tag: String) -> Self {
        Self { tag, was_there: false }
    }
}

/// What is sent.
pub trait Content: Read {
    /// Its length in bytes.
    fn length(&self) -> u64;

    /// Its sums: known before for a part, and for a stream once its end was reached.
    fn sums(&self) -> Option<PieceSums>;

    /// Begins again from its first byte; `false` for a stream, which cannot.
    fn rewind(&mut self) -> bool;
}

/// Where files go.
pub trait Target: Send + Sync {
    /// One worker's way there.
    fn connection(&self) -> Result<Box<dyn UploadConnection>>;

    /// The server, whose name counts its connections.
    fn server(&self) -> Result<Url>;

    /// Where a listed file goes, and in which pieces.
    fn plan(&self, path: &RelPath, size: u64) -> Result<(RelPath, Plan)>;

    /// Whether a large file goes in one request, and so is read while it is sent.
    fn takes_streams(&self) -> bool {
        false
    }

    /// What lies in the directory that it is, as far as its server lists it.
    fn names(&self, patience: Patience) -> Result<Names>;

    /// Whether its server may take names for one that differ in spelling alone.
    fn may_fold(&self) -> bool {
        true
    }

    /// Where a path ends up, for people.
    fn shown(&self, path: &RelPath) -> String;

    /// What names it, so that another run finds what was remembered.
    fn identity(&self) -> Vec<u8>;
}

/// One worker's way to the target, with its warm connection.
pub trait UploadConnection: Send {
    /// Whether files can go there, and whether anything that a file could meet is there already. Asked
    /// once, before everything else; finds what an interrupted run left.
    fn survey(&mut self) -> Result<bool, Refusal>;

    /// What bears the file's name.
    fn look(&mut self, file: &UploadFile) -> Result<Option<Present>, Refusal>;

    /// Stores a whole file under its name, all or nothing, and has it confirmed.
    fn put(&mut self, file: &UploadFile, body: &mut dyn Content) -> Result<Stored, Refusal>;

    /// Begins an upload in parts, or continues one: its id and the parts that are there.
    fn begin(&mut self, file: &UploadFile) -> Result<(String, Vec<Part>), Refusal>;

    /// Sends a part and has it confirmed.
    fn put_part(
        &mut self,
        file: &UploadFile,
        id: &str,
        number: u32,
        body: &mut dyn Content,
    ) -> Result<StoredPart, Refusal>;

    /// Puts the confirmed parts together and has the result confirmed.
    fn complete(
        &mut self,
        file: &UploadFile,
        id: &str,
        parts: &[(String, PieceSums)],
    ) -> Result<Stored, Refusal>;

    /// Removes an upload's parts.
    fn abort(&mut self, file: &UploadFile, id: &str) -> Result<(), Refusal>;

    /// Whether what bears the file's name now has that MD5, where something may have become of it since it was stored.
    fn proves(&mut self, file: &UploadFile, md5: Md5Sum) -> Result<bool, Refusal> {
        let _ = (file, md5);
        Ok(true)
    }

    /// Removes the file `path`, if it is there; `false` if it is no file.
    fn remove(&mut self, path: &RelPath) -> Result<bool, Refusal>;

    /// Removes the directory `path` if nothing is in it; `false` if it stays.
    fn remove_directory(&mut self, path: &RelPath) -> Result<bool, Refusal> {
        let _ = path;
        Ok(false)
    }
}

/// The MD5 as S3 makes the tag of an upload in parts: of the parts' MD5s, and their number.
pub(crate) fn tag_of_parts(parts: impl IntoIterator<Item = Md5Sum>) -> String {
    let (mut all, mut count) = (Md5::new(), 0);
    for part in parts {
        all.update(part);
        count += 1;
    }
    format!("{}-{count}", data_encoding::HEXLOWER.encode(&all.finalize()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_grow_so_that_there_are_never_too_many() {
        let mib = 1 << 20;
        assert_eq!(Plan::new(0, DEFAULT_PART), Plan { part: 8 * mib, count: 1 });
        assert_eq!(Plan::new(8 * mib, DEFAULT_PART).count, 1);
        assert_eq!(Plan::new(8 * mib + 1, DEFAULT_PART).count, 2);
        assert_eq!(Plan::new(100 * mib, ByteCount::mib(1)).part, SMALLEST_PART);
        for size in [MAX_PARTS * 8 * mib, MAX_PARTS * 8 * mib + 1, 5 << 40, 50_000_000_000_000, 48 << 40] {
            let plan = Plan::new(size, DEFAULT_PART);
            assert!(u64::from(plan.count) <= MAX_PARTS, "{size}: {plan:?}");
            assert_eq!(plan.range(plan.count, size).end, size);
            assert!(plan.range(plan.count, size).start < size);
            let sum: u64 = (1..=plan.count).map(|n| plan.range(n, size)).map(|r| r.end - r.start).sum();
            assert_eq!(sum, size);
        }
    }

    #[test]
    fn a_tag_of_parts_is_an_md5_of_md5s() {
        // md5("") twice, then md5 of the 32 bytes; checked with md5sum.
        let empty = data_encoding::HEXLOWER.decode(b"d41d8cd98f00b204e9800998ecf8427e").expect("hex");
        let empty: Md5Sum = empty.try_into().expect("sixteen bytes");
        assert_eq!(tag_of_parts([empty, empty]), "5873dd45edd01f09c1ef2e7819369e8e-2");
    }
}
