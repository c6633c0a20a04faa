//! A file of checksummed records that survives being cut off anywhere.
//!
//! ```text
//! +------------------+ +--------------+---------------+-------------------+
//! | magic (8 bytes)  | | length (u32) | crc32c (u32)  | record (postcard) |  …
//! +------------------+ +--------------+---------------+-------------------+
//! ```
//! Reading stops at the first record that is cut off or damaged; what follows is dropped before
//! anything is appended. A file that is no log at all is moved aside, never trusted.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::marker::PhantomData;

use rustix::fs::{FlockOperation, Mode, OFlags, flock, renameat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::sys::confined::Root;

/// Longest record; anything longer is damage.
const MAX_RECORD: usize = 1 << 20;

/// An open log of records of type `R`.
#[derive(Debug)]
pub struct RecordLog<R> {
    file: File,
    name: String,
    /// Where the last whole record ends.
    end: u64,
    records: PhantomData<R>,
}

impl<R: Serialize + for<'a> Deserialize<'a>> RecordLog<R> {
    /// Opens or creates the log `name` in `directory`, shows each sound record to `on_record`, and
    /// leaves the log ready for appending. Fails with `Busy` while another process holds it.
    pub fn open(directory: &Root, name: &str, magic: &[u8; 8], mut on_record: impl FnMut(R)) -> Result<Self> {
        let failed = |error: std::io::Error| Error::io("open", name.as_bytes(), error);
        let open = || {
            let flags = OFlags::RDWR | OFlags::CREATE;
            directory.open_beneath(name.as_bytes(), flags, Mode::RUSR | Mode::WUSR).map(File::from)
        };
        let lock = |file: &File| match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(()),
            Err(Errno::WOULDBLOCK) => Err(Error::new(
                ErrorKind::Busy,
                format!("{name} is in use: another transfer with this destination is running"),
            )),
            Err(error) => Err(failed(error.into())),
        };
        let mut file = open().map_err(|error| failed(error.into()))?;
        lock(&file)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(failed)?;
        let mut sound = 0;
        if bytes.starts_with(magic) {
            sound = magic.len();
            while let Some((record, length)) = next_record(&bytes[sound..]) {
                on_record(record);
                sound += length;
            }
        } else if !magic.starts_with(&bytes) {
            tracing::warn!("{name} is not a log of ours or of another version: moved aside to {name}.bad");
            renameat(directory, name, directory, format!("{name}.bad")).map_err(|e| failed(e.into()))?;
            file = open().map_err(|error| failed(error.into()))?;
            lock(&file)?;
        }
        if sound == 0 {
            file.set_len(0)
                .and_then(|()| file.rewind())
                .and_then(|()| file.write_all(magic))
                .map_err(failed)?;
        } else {
            file.set_len(sound as u64)
                .and_then(|()| file.seek(SeekFrom::Start(sound as u64)))
                .map_err(failed)?;
        }
        let end = sound.max(magic.len()) as u64;
        Ok(Self { file, name: name.to_owned(), end, records: PhantomData })
    }

    /// Appends records; they are durable after the next [`sync`](Self::sync).
    pub fn append<'r>(&mut self, records: impl IntoIterator<Item = &'r R>) -> Result<()>
    where
        R: 'r,
    {
        let bytes = encode(records);
        if let Err(error) = self.file.write_all(&bytes) {
            // Records behind a part of one would never be read.
            let _ = self.file.set_len(self.end).and_then(|()| self.file.seek(SeekFrom::Start(self.end)));
            return Err(Error::io("write", self.name.as_bytes(), error));
        }
        self.end += bytes.len() as u64;
        Ok(())
    }

    /// Makes what was appended durable.
    pub fn sync(&mut self) -> Result<()> {
        self.file.sync_data().map_err(|error| Error::io("write", self.name.as_bytes(), error))
    }

    /// Replaces the log by one that holds just `records`.
    pub fn rewrite(&mut self, directory: &Root, magic: &[u8; 8], records: &[R]) -> Result<()> {
        let failed = |error: std::io::Error| Error::io("write", self.name.as_bytes(), error);
        let fresh = format!("{}.new", self.name);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC;
        let file = directory.open_beneath(fresh.as_bytes(), flags, Mode::RUSR | Mode::WUSR);
        let mut file = File::from(file.map_err(|error| failed(error.into()))?);
        flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|error| failed(error.into()))?;
        let bytes = [&magic[..], &encode(records)].concat();
        file.write_all(&bytes).map_err(failed)?;
        file.sync_data().map_err(failed)?;
        renameat(directory, &fresh, directory, &self.name).map_err(|error| failed(error.into()))?;
        self.file = file;
        self.end = bytes.len() as u64;
        Ok(())
    }

    /// Reads every record again from the start, then returns to the end.
    pub fn replay(&mut self, mut on_record: impl FnMut(R)) -> Result<()> {
        let failed = |error: std::io::Error| Error::io("read", self.name.as_bytes(), error);
        let mut bytes = Vec::new();
        self.file.rewind().and_then(|()| self.file.read_to_end(&mut bytes)).map_err(failed)?;
        let mut at = 8;
        while let Some((record, length)) = bytes.get(at..).and_then(next_record) {
            on_record(record);
            at += length;
        }
        Ok(())
    }
}

fn encode<'r, R: Serialize + 'r>(records: impl IntoIterator<Item = &'r R>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for record in records {
        let body = postcard::to_stdvec(record).expect("records are plain data");
        bytes.extend_from_slice(&(body.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&crc_fast::crc32_iscsi(&body).to_le_bytes());
        bytes.extend_from_slice(&body);
    }
    bytes
}

fn next_record<R: for<'a> Deserialize<'a>>(bytes: &[u8]) -> Option<(R, usize)> {
    let length = u32::from_le_bytes(*bytes.first_chunk::<4>()?) as usize;
    let checksum = u32::from_le_bytes(bytes.get(4..8)?.try_into().ok()?);
    if length > MAX_RECORD {
        return None;
    }
    let body = bytes.get(8..8 + length)?;
    if crc_fast::crc32_iscsi(body) != checksum {
        return None;
    }
    Some((postcard::from_bytes(body).ok()?, 8 + length))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    const MAGIC: &[u8; 8] = b"TGTEST01";

    fn read(root: &Root) -> Vec<u64> {
        let mut seen = Vec::new();
        RecordLog::<u64>::open(root, "log", MAGIC, |record| seen.push(record)).expect("opened");
        seen
    }

    #[test]
    fn a_log_cut_off_anywhere_keeps_its_whole_records() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = Root::open(directory.path().as_os_str().as_bytes()).expect("opened");
        let path = directory.path().join("log");
        let numbers = [1u64, 300, 70_000, u64::MAX];
        let mut ends = vec![8];
        {
            let mut log = RecordLog::<u64>::open(&root, "log", MAGIC, |_| {}).expect("opened");
            for number in &numbers {
                log.append([number]).expect("appended");
                ends.push(std::fs::metadata(&path).expect("there").len() as usize);
            }
            assert!(RecordLog::<u64>::open(&root, "log", MAGIC, |_| {}).is_err(), "it is locked");
        }
        let whole = std::fs::read(&path).expect("read");
        for cut in 0..=whole.len() {
            for tail in [&b""[..], b"garbage", &[0; 40]] {
                std::fs::write(&path, [&whole[..cut], tail].concat()).expect("written");
                let kept = ends.iter().filter(|&&end| end <= cut).count().saturating_sub(1);
                if cut >= 8 || tail.is_empty() {
                    assert_eq!(read(&root), numbers[..kept], "cut at {cut}");
                    // And appending after the damage works.
                    assert_eq!(read(&root), numbers[..kept]);
                }
            }
        }
        for flipped in 8..whole.len() {
            let mut bytes = whole.clone();
            bytes[flipped] ^= 0x40;
            std::fs::write(&path, &bytes).expect("written");
            let seen = read(&root);
            assert!(numbers.starts_with(&seen) && seen.len() < numbers.len(), "flipped at {flipped}");
        }
    }

    #[test]
    fn a_foreign_file_is_moved_aside() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = Root::open(directory.path().as_os_str().as_bytes()).expect("opened");
        std::fs::write(directory.path().join("log"), "somebody else's data").expect("written");
        assert!(read(&root).is_empty());
        assert!(directory.path().join("log.bad").exists());
    }
}
