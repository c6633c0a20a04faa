//! A file of checksummed records that survives being cut off anywhere.
//!
//! ```text
//! +------------------+ +--------------+---------------+-------------------+
//! | magic (8 bytes)  | | length (u32) | crc32c (u32)  | record (postcard) |  …
//! +------------------+ +--------------+---------------+-------------------+
//! ```
//! Once records are durable a sync point follows them: a length of 2³² - 1, the crc32c of what is left of it,
//! and where in the file it stands (u64). What is cut off or damaged behind the last sync point is the torn end
//! of a write: reading stops there, and the rest is dropped before anything is appended. Damage before it voids
//! the log, since a later record may say that an earlier one holds no longer. A file that is no log at all is
//! moved aside, never trusted.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::marker::PhantomData;

use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, flock, fstat, renameat, unlinkat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::sys::confined::Root;

/// Longest record; anything longer is damage.
const MAX_RECORD: usize = 1 << 20;

/// What stands for the length of a sync point, and how long one is.
const SYNC_POINT: [u8; 4] = [0xff; 4];
const SYNC_POINT_LENGTH: usize = 16;

/// An open log of records of type `R`.
#[derive(Debug)]
pub struct RecordLog<R> {
    file: File,
    name: String,
    /// Where the last whole record or sync point ends.
    end: u64,
    synced: bool,
    records: PhantomData<R>,
}

impl<R: Serialize + for<'a> Deserialize<'a>> RecordLog<R> {
    /// Opens or creates the log `name` in `directory`, shows each sound record to `on_record`, and
    /// leaves the log ready for appending. Fails with `Busy` while another process holds it.
    pub fn open(directory: &Root, name: &str, magic: &[u8; 8], on_record: impl FnMut(R)) -> Result<Self> {
        let failed = |error: std::io::Error| Error::io("open", name.as_bytes(), error);
        let open = || {
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NONBLOCK;
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
        let stat = fstat(&file).map_err(|error| failed(error.into()))?;
        if !FileType::from_raw_mode(stat.st_mode).is_file() || stat.st_nlink > 1 {
            // What is written to it might be written to somebody else's file.
            let why =
                format!("{name} is no log of ours: it is no regular file, or has another name; remove it");
            return Err(Error::new(ErrorKind::Denied, why));
        }
        lock(&file)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(failed)?;
        let mut sound = 0;
        if bytes.starts_with(magic) {
            sound = read(&bytes, magic.len(), |_: R| {});
            if has_sync_point(&bytes[sound..]) {
                tracing::warn!("{name} is damaged before its last sync point: nothing of it is used");
                sound = 0;
            } else {
                read(&bytes[..sound], magic.len(), on_record);
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
                // What is not used now must not be back after a crash.
                .and_then(|()| if bytes.is_empty() { Ok(()) } else { file.sync_data() })
                .map_err(failed)?;
        } else {
            file.set_len(sound as u64)
                .and_then(|()| file.seek(SeekFrom::Start(sound as u64)))
                .map_err(failed)?;
        }
        let end = sound.max(magic.len()) as u64;
        Ok(Self { file, name: name.to_owned(), end, synced: false, records: PhantomData })
    }

    /// Appends records; they are durable after the next [`sync`](Self::sync).
    pub fn append<'r>(&mut self, records: impl IntoIterator<Item = &'r R>) -> Result<()>
    where
        R: 'r,
    {
        self.write(&encode(records))?;
        self.synced = false;
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        if let Err(error) = self.file.write_all(bytes) {
            // Records behind a part of one would never be read.
            let _ = self.file.set_len(self.end).and_then(|()| self.file.seek(SeekFrom::Start(self.end)));
            return Err(Error::io("write", self.name.as_bytes(), error));
        }
        self.end += bytes.len() as u64;
        Ok(())
    }

    /// Makes what was appended durable, and says so in the log.
    pub fn sync(&mut self) -> Result<()> {
        if self.synced {
            return Ok(());
        }
        self.file.sync_data().map_err(|error| Error::io("write", self.name.as_bytes(), error))?;
        self.write(&sync_point(self.end))?;
        self.synced = true;
        Ok(())
    }

    /// Whether all that was appended is durable.
    pub fn is_synced(&self) -> bool {
        self.synced
    }

    /// Replaces the log by one that holds just `records`.
    pub fn rewrite(&mut self, directory: &Root, magic: &[u8; 8], records: &[R]) -> Result<()> {
        let failed = |error: std::io::Error| Error::io("write", self.name.as_bytes(), error);
        let fresh = format!("{}.new", self.name);
        let _ = unlinkat(directory, fresh.as_str(), AtFlags::empty());
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        let file = directory.open_beneath(fresh.as_bytes(), flags, Mode::RUSR | Mode::WUSR);
        let mut file = File::from(file.map_err(|error| failed(error.into()))?);
        flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|error| failed(error.into()))?;
        let bytes = [&magic[..], &encode(records)].concat();
        file.write_all(&bytes).map_err(failed)?;
        file.sync_data().map_err(failed)?;
        renameat(directory, &fresh, directory, &self.name).map_err(|error| failed(error.into()))?;
        self.file = file;
        self.end = bytes.len() as u64;
        self.synced = false;
        Ok(())
    }

    /// Reads every record again from the start, then returns to the end.
    pub fn replay(&mut self, on_record: impl FnMut(R)) -> Result<()> {
        let failed = |error: std::io::Error| Error::io("read", self.name.as_bytes(), error);
        let mut bytes = Vec::new();
        self.file.rewind().and_then(|()| self.file.read_to_end(&mut bytes)).map_err(failed)?;
        read(&bytes, 8, on_record);
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

/// A sync point that stands at `at`.
fn sync_point(at: u64) -> [u8; SYNC_POINT_LENGTH] {
    let place = at.to_le_bytes();
    let mut point = [0; SYNC_POINT_LENGTH];
    point[..4].copy_from_slice(&SYNC_POINT);
    point[4..8].copy_from_slice(&crc_fast::crc32_iscsi(&place).to_le_bytes());
    point[8..].copy_from_slice(&place);
    point
}

/// Whether a sync point stands anywhere in `bytes`, which may have moved.
fn has_sync_point(bytes: &[u8]) -> bool {
    bytes.windows(SYNC_POINT_LENGTH).any(|window| {
        window.starts_with(&SYNC_POINT) && crc_fast::crc32_iscsi(&window[8..]).to_le_bytes() == window[4..8]
    })
}

/// Shows each record from `at` on, as far as they are sound; answers with where that ends.
fn read<R: for<'a> Deserialize<'a>>(bytes: &[u8], mut at: usize, mut on_record: impl FnMut(R)) -> usize {
    while let Some(rest) = bytes.get(at..) {
        if rest.starts_with(&sync_point(at as u64)) {
            at += SYNC_POINT_LENGTH;
        } else if let Some((record, length)) = next_record(rest) {
            on_record(record);
            at += length;
        } else {
            break;
        }
    }
    at
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
    fn damage_before_the_last_sync_point_voids_the_log_and_a_torn_end_does_not() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = Root::open(directory.path().as_os_str().as_bytes()).expect("opened");
        let path = directory.path().join("log");
        let (durable, end) = {
            let mut log = RecordLog::<u64>::open(&root, "log", MAGIC, |_| {}).expect("opened");
            log.append([&1, &300]).expect("appended");
            log.sync().expect("synced");
            log.append([&70_000]).expect("appended");
            log.sync().expect("synced");
            log.sync().expect("once is enough");
            let durable = log.end as usize;
            log.append([&5, &6]).expect("appended");
            (durable, log.end as usize)
        };
        let whole = std::fs::read(&path).expect("read");
        assert_eq!(read(&root), [1, 300, 70_000, 5, 6]);
        assert_eq!(whole.len(), end);
        for flipped in 8..end {
            let mut bytes = whole.clone();
            bytes[flipped] ^= 0x40;
            std::fs::write(&path, &bytes).expect("written");
            let seen = read(&root);
            match flipped < durable - SYNC_POINT_LENGTH {
                true => assert!(seen.is_empty(), "flipped at {flipped}: {seen:?}"),
                false => {
                    assert!(seen.starts_with(&[1, 300, 70_000]) && seen.len() < 5, "{flipped}: {seen:?}");
                }
            }
        }
        // Bytes that went missing in between.
        std::fs::write(&path, [&whole[..9], &whole[12..]].concat()).expect("written");
        assert!(read(&root).is_empty());
        // And what is written after the damage is read again.
        let mut log = RecordLog::<u64>::open(&root, "log", MAGIC, |_| {}).expect("opened");
        log.append([&9]).expect("appended");
        let mut replayed = Vec::new();
        log.replay(|record| replayed.push(record)).expect("read");
        drop(log);
        assert_eq!((replayed, read(&root)), (vec![9], vec![9]));
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
