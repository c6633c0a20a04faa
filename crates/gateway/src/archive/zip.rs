//! Zip: members as they are, in the form for large files (zip64), with their checksums behind them.

mod entries;

use std::io;

use crc_fast::{CrcAlgorithm, Digest};
use tidegate_transfer::endpoint::access::Access;
use tidegate_transfer::manifest::Timestamp;
use tidegate_transfer::quota::Held;

use self::entries::Entries;
use super::{Member, Writer};

pub(crate) use self::entries::MAX_MEMORY;

/// Most members: of each a line is kept until the end.
const MAX_MEMBERS: usize = 1_000_000;

/// Sizes and checksum follow the content.
const FOLLOWING: u16 = 1 << 3;

/// The name is UTF-8.
const UTF_8: u16 = 1 << 11;

/// The version that knows large files, and that on Unix.
const VERSION: u16 = 45;
const MADE_BY: u16 = 3 << 8 | VERSION;

/// What stands in a field of 32 bits whose value is elsewhere.
const ELSEWHERE: u32 = u32::MAX;

/// Writes a zip.
pub(crate) struct Zip {
    written: u64,
    sum: Digest,
    began: u64,
    members: usize,
    entries: Entries,
    is_over: bool,
}

impl Zip {
    /// One that keeps on disk what it has to tell at its end, and `held` of that.
    pub fn new(access: Access, held: Held) -> Self {
        let entries = Entries::new(access, held);
        Self { written: 0, sum: sum(), began: 0, members: 0, entries, is_over: false }
    }
}

fn sum() -> Digest {
    Digest::new(CrcAlgorithm::Crc32IsoHdlc)
}

/// Fields, in the order and the width that they are written in.
macro_rules! fields {
    ($to:expr; $($value:expr),* $(,)?) => { $($to.extend_from_slice(&$value.to_le_bytes());)* };
}

impl Writer for Zip {
    fn begin(&mut self, member: &Member) -> io::Result<Vec<u8>> {
        self.members += 1;
        if self.members > MAX_MEMBERS {
            return Err(io::Error::other("more files than a zip is made of: take a tar"));
        }
        let (name, size) = (name(member), size(member));
        let (date, time) = dos(member.modified);
        let mut bytes = Vec::new();
        fields!(bytes; 0x0403_4b50_u32, VERSION, flags(&name), 0_u16, time, date, 0_u32, ELSEWHERE, ELSEWHERE);
        fields!(bytes; name.len() as u16, 20_u16);
        bytes.extend(name);
        fields!(bytes; 1_u16, 16_u16, size, size);
        self.began = self.written;
        self.written += bytes.len() as u64;
        self.sum = sum();
        Ok(bytes)
    }

    fn note(&mut self, piece: &[u8]) {
        self.sum.update(piece);
        self.written += piece.len() as u64;
    }

    fn end(&mut self, member: &Member) -> io::Result<Vec<u8>> {
        let (name, size) = (name(member), size(member));
        let (date, time) = dos(member.modified);
        let sum = self.sum.finalize() as u32;
        let mut bytes = Vec::new();
        fields!(bytes; 0x0807_4b50_u32, sum, size, size);
        self.written += bytes.len() as u64;
        let mode = member.file.as_ref().map_or(0o040_755, |file| 0o100_000 | file.mode);
        let flags = flags(&name);
        let mut entry = Vec::new();
        fields!(entry; 0x0201_4b50_u32, MADE_BY, VERSION, flags, 0_u16, time, date, sum, ELSEWHERE, ELSEWHERE);
        fields!(entry; name.len() as u16, 28_u16, 0_u16, 0_u16, 0_u16, mode << 16, ELSEWHERE);
        entry.extend(name);
        fields!(entry; 1_u16, 24_u16, size, size, self.began);
        self.entries.add(&entry)?;
        Ok(bytes)
    }

    fn finish(&mut self) -> io::Result<Option<Vec<u8>>> {
        if let Some(piece) = self.entries.next()? {
            return Ok(Some(piece));
        }
        if std::mem::replace(&mut self.is_over, true) {
            return Ok(None);
        }
        let (members, length, at) = (self.members as u64, self.entries.length(), self.written);
        let mut bytes = Vec::new();
        fields!(bytes; 0x0606_4b50_u32, 44_u64, MADE_BY, VERSION, 0_u32, 0_u32, members, members, length, at);
        fields!(bytes; 0x0706_4b50_u32, 0_u32, at + length, 1_u32);
        fields!(bytes; 0x0605_4b50_u32, 0_u16, 0_u16, u16::MAX, u16::MAX, ELSEWHERE, ELSEWHERE, 0_u16);
        Ok(Some(bytes))
    }
}

/// A name that is no UTF-8 is not said to be: programs would refuse the whole archive.
fn flags(name: &[u8]) -> u16 {
    if std::str::from_utf8(name).is_ok() { FOLLOWING | UTF_8 } else { FOLLOWING }
}

fn name(member: &Member) -> Vec<u8> {
    let end: &[u8] = if member.file.is_some() { b"" } else { b"/" };
    // A path that is reached by one name fits into the field.
    [&member.name, end].concat()
}

fn size(member: &Member) -> u64 {
    member.file.as_ref().map_or(0, |file| file.size)
}

/// A time as DOS has it, in UTC, within the years that it knows.
fn dos(time: Timestamp) -> (u16, u16) {
    let first = jiff::civil::date(1980, 1, 1).at(0, 0, 0, 0);
    let last = jiff::civil::date(2107, 12, 31).at(23, 59, 58, 0);
    let found = jiff::Timestamp::from_second(time.seconds)
        .map(|time| time.to_zoned(jiff::tz::TimeZone::UTC).datetime());
    let time = found.unwrap_or(first).clamp(first, last);
    let part = |value: i8| u16::try_from(value).unwrap_or(0);
    let year = u16::try_from(time.year() - 1980).unwrap_or(0);
    let date = year << 9 | part(time.month()) << 5 | part(time.day());
    (date, part(time.hour()) << 11 | part(time.minute()) << 5 | (part(time.second()) / 2))
}
