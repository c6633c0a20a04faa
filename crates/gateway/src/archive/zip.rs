//! Zip: members as they are, in the form for large files (zip64), with their checksums behind them.

use std::io;

use crc_fast::{CrcAlgorithm, Digest};
use tidegate_transfer::manifest::Timestamp;

use super::{Member, Writer};

/// Most members: of each a line is kept until the end.
const MAX_MEMBERS: usize = 1_000_000;

/// Sizes and checksum follow the content, and the name is UTF-8.
const FLAGS: u16 = 1 << 3 | 1 << 11;

/// The version that knows large files, and that on Unix.
const VERSION: u16 = 45;
const MADE_BY: u16 = 3 << 8 | VERSION;

/// What stands in a field of 32 bits whose value is elsewhere.
const ELSEWHERE: u32 = u32::MAX;

/// Writes a zip.
pub struct Zip {
    written: u64,
    sum: Digest,
    began: u64,
    members: usize,
    directory: Vec<u8>,
}

impl Default for Zip {
    fn default() -> Self {
        Self { written: 0, sum: sum(), began: 0, members: 0, directory: Vec::new() }
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
        fields!(bytes; 0x0403_4b50_u32, VERSION, FLAGS, 0_u16, time, date, 0_u32, ELSEWHERE, ELSEWHERE);
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

    fn end(&mut self, member: &Member) -> Vec<u8> {
        let (name, size) = (name(member), size(member));
        let (date, time) = dos(member.modified);
        let sum = self.sum.finalize() as u32;
        let mut bytes = Vec::new();
        fields!(bytes; 0x0807_4b50_u32, sum, size, size);
        self.written += bytes.len() as u64;
        let mode = member.file.as_ref().map_or(0o040_755, |file| 0o100_000 | file.mode);
        let entry = &mut self.directory;
        fields!(entry; 0x0201_4b50_u32, MADE_BY, VERSION, FLAGS, 0_u16, time, date, sum, ELSEWHERE, ELSEWHERE);
        fields!(entry; name.len() as u16, 28_u16, 0_u16, 0_u16, 0_u16, mode << 16, ELSEWHERE);
        entry.extend(name);
        fields!(entry; 1_u16, 24_u16, size, size, self.began);
        bytes
    }

    fn finish(&mut self) -> Vec<u8> {
        let (members, length, at) = (self.members as u64, self.directory.len() as u64, self.written);
        let mut bytes = std::mem::take(&mut self.directory);
        fields!(bytes; 0x0606_4b50_u32, 44_u64, MADE_BY, VERSION, 0_u32, 0_u32, members, members, length, at);
        fields!(bytes; 0x0706_4b50_u32, 0_u32, at + length, 1_u32);
        fields!(bytes; 0x0605_4b50_u32, 0_u16, 0_u16, u16::MAX, u16::MAX, ELSEWHERE, ELSEWHERE, 0_u16);
        bytes
    }
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
